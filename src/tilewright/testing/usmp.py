"""What tests of static memory plans ask about programs."""

from __future__ import annotations

from typing import Any

from tilewright.ir import IRModule
from tilewright.tir.expr import Call, StringImm
from tilewright.tir.function import PrimFunc
from tilewright.tir.stmt_functor import post_order_visit


def is_tvm_backendallocworkspace_calls(mod: IRModule) -> bool:
    """Whether a function of a module asks the runtime for workspace memory."""
    found = []

    def note(node: Any) -> None:
        if isinstance(node, Call):
            names = [a.value for a in node.args if isinstance(a, StringImm)]
            if "TVMBackendAllocWorkspace" in (*names, str(getattr(node.op, "name", node.op))):
                found.append(node)

    for function in mod.functions.values():
        if isinstance(function, PrimFunc):
            post_order_visit(function.body, note)
    return bool(found)
