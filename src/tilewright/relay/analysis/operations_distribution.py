"""Which compiler runs which operator of a model, after its parts were given to compilers."""

from __future__ import annotations

from typing import Any

from tilewright.ir import IRModule, Op
from tilewright.relay.expr import Call, Function, GlobalVar
from tilewright.relay.functor import post_order

GENERIC = "generic"
"""The compiler of what was given to no other."""


class AnalyzeOperationsDistribution:
    """Walks over a partitioned program. unique_op_ids: [compiler, operator or composite, number of the function it is in] by the name of
    the model's node (its span), or "" with a number where it has none."""

    def __init__(self) -> None:
        self.unique_op_ids: dict[str, list[Any]] = {}
        self.func_id = 0

    def visit_function(self, func: Function, compiler: str) -> None:
        """Notes the calls of one function; functions inside of it belong to its compiler unless they have their own."""
        self.func_id += 1
        number = self.func_id
        for e in post_order(func.body, skip=lambda x: isinstance(x, Function)):
            if isinstance(e, Function):
                self.visit_function(e, str(e.attrs.get("Compiler", compiler)))
            elif isinstance(e, Call) and not isinstance(e.op, GlobalVar):
                self.extract(e, compiler, number)

    def extract(self, call: Call, compiler: str, number: int) -> None:
        """Notes one call, of an operator or of a composite function with all of its operators."""
        if type(call.op) is Op:
            self.note(call, compiler, call.op.name, number)
        elif isinstance(call.op, Function) and "Composite" in call.op.attrs:
            name = str(call.op.attrs["Composite"])
            for e in post_order(call.op.body):
                if isinstance(e, Call) and type(e.op) is Op:
                    self.note(e, compiler, name, number)

    def note(self, call: Call, compiler: str, name: str, number: int) -> None:
        source = getattr(getattr(call, "span", None), "source_name", None)
        key = source.name if source is not None else f"#{len(self.unique_op_ids)}"
        known = self.unique_op_ids.get(key)
        if known is None or name == known[1] or not known[1]:
            self.unique_op_ids[key] = [compiler, name, number]


def analyze_operations_distribution(mod: IRModule) -> dict[str, list[Any]]:
    """[compiler, operator, number of its function] of each call of a module, by the name of its span. If several calls
    come from one node of the model, first give them names of their own with `relay.transform.suffixes.tag_suffixes`.
    """
    walk = AnalyzeOperationsDistribution()
    for func in mod.functions.values():
        if isinstance(func, Function):
            walk.visit_function(func, str(func.attrs.get("Compiler", GENERIC)))
    return walk.unique_op_ids
