"""Rules for the content of a program at each stage of lowering; checked after every pass in tests."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from tilewright.ir import IRModule, PrimExpr
from tilewright.node import Visitor, on
from tilewright.support.errors import TVMError
from tilewright.tir.analysis.variables import verify_ssa
from tilewright.tir.expr import BufferLoad, Call, ProducerLoad, Reduce, Var
from tilewright.tir.function import PrimFunc
from tilewright.tir.stmt import (
    Allocate,
    AllocateConst,
    AssertStmt,
    AttrStmt,
    Block,
    BlockRealize,
    BufferRealize,
    BufferStore,
    For,
    ForKind,
    LetStmt,
    Prefetch,
    ProducerRealize,
    ProducerStore,
    Stmt,
)

Test = Callable[[Any], bool]
PIPELINE = ("software_pipeline_stage", "software_pipeline_order")


def _scope(s: Allocate) -> str:
    return str(getattr(s.buffer_var.type_annotation, "storage_scope", "") or "global")


def _named(*names: str) -> Test:
    wanted = {f"tir.{n}" for n in names}
    return lambda e: getattr(e.op, "name", "") in wanted


def _typed(*words: str) -> Test:
    def test(node: PrimExpr | Allocate | BufferStore) -> bool:
        dtype = node.buffer.dtype if isinstance(node, (BufferLoad, BufferStore)) else node.dtype
        return any([w in dtype for w in words])

    return test


def _kind(kind: int) -> Test:
    return lambda s: bool(s.kind == kind)


def _marked(*keys: str) -> Test:
    return lambda s: s.attr_key in keys


TYPED = (Var, BufferLoad, BufferStore, Call, Allocate)
RULES: dict[str, list[tuple[type | tuple[type, ...], Test | None]]] = {
    "no_init": [(Block, lambda b: b.init is not None)],
    "opaque_blocks": [(Block, lambda b: bool(b.iter_vars))],
    "no_match_buffers": [(Block, lambda b: bool(b.match_buffers))],
    "no_blocks": [((Block, BlockRealize), None)],
    "no_thread_loops": [(For, _kind(ForKind.THREAD_BINDING))],
    "no_pipelines": [(For, lambda s: any([k in s.annotations for k in PIPELINE]))],
    "flat_buffers": [((BufferLoad, BufferStore), lambda a: len(a.indices) != 1)],
    "no_realizes": [((BufferRealize, Prefetch), None)],
    "vectors_lowered": [(For, _kind(ForKind.VECTORIZED))],
    "no_parallel_loops": [(For, _kind(ForKind.PARALLEL))],
    "no_unrolled_loops": [(For, lambda s: s.kind == ForKind.UNROLLED and hasattr(s.extent, "value"))],
    "no_virtual_threads": [(AttrStmt, _marked("virtual_thread"))],
    "no_double_buffers": [(AttrStmt, _marked("double_buffer_scope"))],
    "no_prefetch_scopes": [(AttrStmt, _marked("prefetch_scope"))],
    "no_rolling_buffers": [(AttrStmt, _marked("rolling_buffer_scope"))],
    "no_async_scopes": [(AttrStmt, _marked("async_scope"))],
    "no_device_regions": [(AttrStmt, lambda s: s.attr_key == "target" and hasattr(s.node, "kind"))],
    "no_asserts": [(AssertStmt, None)],
    "no_allreduce": [(Call, _named("tvm_thread_allreduce"))],
    "no_undef": [(Call, _named("undef"))],
    "no_assume": [(Call, _named("assume"))],
    "no_hints": [(Call, _named("likely"))],
    "no_access_pointers": [(Call, _named("tvm_access_ptr"))],
    "no_packed_calls": [
        (Call, _named("tvm_call_packed", "tvm_call_cpacked", "tvm_stack_make_shape", "tvm_stack_make_array"))
    ],
    "no_warp_memory": [(Allocate, lambda s: _scope(s) == "warp")],
    "no_vtcm": [(Allocate, lambda s: _scope(s).startswith("global.vtcm"))],
    "no_bfloat16": [(TYPED, _typed("bfloat16"))],
    "no_float8": [(TYPED, _typed("float8"))],
    "no_custom_types": [(TYPED, _typed("custom"))],
    "no_int64": [((Var, BufferLoad, Call), _typed("int64"))],
}
"""Property -> what must not be there: (kinds of nodes, which of them; None: any)."""


class _Stage(Visitor):
    def __init__(self, have: set[str], where: str) -> None:
        self.have, self.where = have, where
        self.tests: dict[type, list[tuple[str, Test | None]]] = {}
        for rule in sorted(have & set(RULES)):
            for kinds, test in RULES[rule]:
                for kind in kinds if isinstance(kinds, tuple) else (kinds,):
                    self.tests.setdefault(kind, []).append((rule, test))
        # Classic programs realize buffers; TensorIR has no other tensors than buffers.
        self.banned: tuple[type, ...] = (ProducerLoad, ProducerStore, ProducerRealize, Reduce)

    def refuse(self, rule: str, node: Any) -> None:
        raise TVMError(
            f"{self.where}: after the passes so far ({rule}) there must be no {type(node).__name__} like this, but there is {node}"
        )

    def _check(self, node: PrimExpr | Stmt) -> None:
        if isinstance(node, self.banned):
            self.refuse("TensorIR", node)
        for rule, test in self.tests.get(type(node), ()):
            if test is None or test(node):
                self.refuse(rule, node)
        self.visit_children(node)

    @on(PrimExpr, Stmt)
    def _node(self, node: PrimExpr | Stmt) -> None:
        self._check(node)

    @on(Var)
    def _var(self, v: Var) -> None:
        for rule, test in self.tests.get(Var, ()):
            if test is None or test(v):
                self.refuse(rule, v)

    @on(LetStmt, Allocate, AllocateConst)
    def _binding(self, s: LetStmt | Allocate | AllocateConst) -> None:
        self._check(s)


def verify_stage(obj: PrimFunc | IRModule, have: Iterable[str]) -> bool:
    """Whether a program has the form that passes giving `have` promise. Raises TVMError naming the first culprit.

    have: any of the properties in RULES, and "ssa" (every variable is bound once); others are promises that nobody checks.
    """
    given = set(have)
    funcs = {"main": obj} if isinstance(obj, PrimFunc) else {g.name_hint: f for g, f in obj.functions.items()}
    for name, func in funcs.items():
        if isinstance(func, PrimFunc):
            _Stage(given, name).visit(func.body)
            if "ssa" in given and not verify_ssa(func):
                raise TVMError(
                    f"{name}: after the passes so far (ssa) every variable is bound once, but one is bound twice\n{func}"
                )
    return True
