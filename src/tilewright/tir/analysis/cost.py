"""How much a program computes and how much memory it allocates."""

from __future__ import annotations

import operator
from typing import TYPE_CHECKING, Any

from tilewright.ir import DataType, IntImm, IRModule, PrimExpr
from tilewright.node import Node, Visitor, on, post_order_visit, structural_equal
from tilewright.support.errors import TVMError
from tilewright.tir.expr import (
    Add,
    BufferLoad,
    Call,
    Div,
    FloorDiv,
    FloorMod,
    Max,
    Min,
    Mod,
    Mul,
    ProducerLoad,
    Select,
    Sub,
    Var,
)  # fmt: skip
from tilewright.tir.function import PrimFunc
from tilewright.tir.op import PURE, call_effect
from tilewright.tir.stmt import Allocate, AllocateConst, Block, BlockRealize, BufferStore, For, IfThenElse, While

if TYPE_CHECKING:
    from tilewright.tir.buffer import Buffer


LANE_FREE_CALLS = frozenset(
    {"tir.likely", "tir.if_then_else", "tir.address_of", "tir.reinterpret", "tir.type_annotation"}
)
"""Calls that compute nothing."""


class _Flops(Visitor):
    """Arithmetic operations on values, each times the loops around it; index arithmetic does not count."""

    def __init__(self) -> None:
        self.times = 1.0
        self.total = 0.0

    @on(For)
    def _for(self, s: For) -> None:
        if not isinstance(s.extent, IntImm):
            raise TVMError(
                f"estimate_tir_flops: loop {s.loop_var.name} has the extent {s.extent}, which is not a constant"
            )
        outer = self.times
        self.times *= s.extent.value
        self.visit(s.body)
        self.times = outer

    @on(While)
    def _while(self, s: While) -> None:
        raise TVMError("estimate_tir_flops: how often a while loop runs is not known")

    @on(IfThenElse)
    def _if(self, s: IfThenElse) -> None:
        before = self.total
        self.visit(s.then_case)
        then = self.total - before
        self.total = before
        if s.else_case is not None:
            self.visit(s.else_case)
        other = self.total - before
        self.total = before + max(then, other)

    @on(BlockRealize)
    def _realize(self, s: BlockRealize) -> None:
        self.visit(s.block)

    @on(Block)
    def _block(self, block: Block) -> None:
        # The init of a reduction is an assignment: it counts for nothing.
        self.visit(block.body)

    @on(BufferStore)
    def _store(self, s: BufferStore) -> None:
        self.visit(s.value)

    @on(BufferLoad)
    def _load(self, e: BufferLoad) -> None:
        pass

    @on(Add, Sub, Mul, Div, Mod, FloorDiv, FloorMod, Min, Max)
    def _binary(self, e: Add | Mul) -> None:
        self.total += self.times * e.dtype.lanes
        self.visit(e.a)
        self.visit(e.b)

    @on(Select)
    def _select(self, e: Select) -> None:
        self.visit(e.true_value)
        self.visit(e.false_value)

    @on(Call)
    def _call(self, e: Call) -> None:
        if call_effect(e) == PURE and getattr(e.op, "name", "") not in LANE_FREE_CALLS:
            self.total += self.times * e.dtype.lanes
        self.visit_children(e)


def estimate_tir_flops(stmt_or_mod: Node) -> float:
    """Arithmetic operations that a statement, function or module does. Raises TVMError where a loop has no constant extent.

    A function that says how many it does, in the attribute "estimated_flops", is taken at its word.
    """
    walk = _Flops()
    found = stmt_or_mod.functions.values() if isinstance(stmt_or_mod, IRModule) else (stmt_or_mod,)
    for item in found:
        if not isinstance(item, PrimFunc):
            if not isinstance(stmt_or_mod, IRModule):
                walk.visit(item)
        elif "estimated_flops" in item.attrs:
            walk.total += float(getattr(item.attrs["estimated_flops"], "value", item.attrs["estimated_flops"]))
        else:
            walk.visit(item.body)
    return walk.total


class _Allocated(Visitor):
    def __init__(self, align: int) -> None:
        self.align = align
        self.now = 0
        self.peak = 0
        self.held: dict[str, int] = {}
        self.by_scope: dict[str, int] = {}

    @on(PrimExpr)
    def _expr(self, e: PrimExpr) -> None:
        pass

    def _enter(self, size: int, scope: str) -> int:
        size = -(-size // self.align) * self.align
        self.now += size
        self.peak = max(self.peak, self.now)
        self.held[scope] = self.held.get(scope, 0) + size
        self.by_scope[scope] = max(self.by_scope.get(scope, 0), self.held[scope])
        return size

    def _leave(self, size: int, scope: str) -> None:
        self.now -= size
        self.held[scope] -= size

    @on(Allocate)
    def _allocate(self, s: Allocate) -> None:
        scope = str(getattr(s.buffer_var.type_annotation, "storage_scope", "") or "global")
        size = self._enter(_constant_bytes(s.extents, s.dtype), scope)
        self.visit(s.body)
        self._leave(size, scope)

    @on(Block)
    def _block(self, block: Block) -> None:
        sizes = [(self._enter(_constant_bytes(b.shape, b.dtype), b.scope()), b.scope()) for b in block.alloc_buffers]
        if block.init is not None:
            self.visit(block.init)
        self.visit(block.body)
        for size, scope in sizes:
            self._leave(size, scope)


def _constant_bytes(extents: tuple[PrimExpr, ...], dtype: DataType) -> int:
    size: int = dtype.bytes * dtype.lanes
    for e in extents:
        # What is not known when compiling is not counted.
        size *= e.value if isinstance(e, IntImm) else 0
    return size


def calculate_workspace_bytes(func: PrimFunc, workspace_byte_alignment: int = 64) -> int:
    """The most bytes that are allocated at one time, each allocation rounded up to the alignment."""
    walk = _Allocated(workspace_byte_alignment)
    walk.visit(func.body)
    return walk.peak


def calculate_constant_bytes(func: PrimFunc, constant_byte_alignment: int = 64) -> int:
    """Bytes of a function's constants, each rounded up to the alignment."""
    total = 0

    class Constants(Visitor):
        @on(AllocateConst)
        def _constant(self, s: AllocateConst) -> None:
            nonlocal total
            size = _constant_bytes(s.extents, s.dtype)
            total += -(-size // constant_byte_alignment) * constant_byte_alignment
            self.visit(s.body)

    Constants().visit(func.body)
    return total


def calculate_allocated_bytes(func_or_mod: PrimFunc | IRModule) -> dict[str, dict[str, int]]:
    """The most bytes allocated at one time, by function (a PrimFunc alone is "main") and storage scope."""
    funcs = (
        {"main": func_or_mod}
        if isinstance(func_or_mod, PrimFunc)
        else {g.name_hint: f for g, f in func_or_mod.functions.items()}
    )
    out = {}
    for name, func in funcs.items():
        if isinstance(func, PrimFunc):
            walk = _Allocated(1)
            walk.visit(func.body)
            out[name] = walk.by_scope
    return out


def expr_deep_equal(lhs: PrimExpr, rhs: PrimExpr) -> bool:
    """Whether two expressions are the same, their variables and buffers being the same objects."""
    mine, others = _referred(lhs), _referred(rhs)
    return len(mine) == len(others) and all(map(operator.is_, mine, others)) and bool(structural_equal(lhs, rhs))


def _referred(e: PrimExpr) -> list[PrimExpr | Buffer]:
    """The variables, buffers and tensors of an expression, in order."""
    found: list[PrimExpr | Buffer] = []

    def look(node: Any) -> None:
        if isinstance(node, Var):
            found.append(node)
        elif isinstance(node, (BufferLoad, ProducerLoad)):
            found.append(node.buffer if isinstance(node, BufferLoad) else node.producer)

    post_order_visit(e, look)
    return found


def verify_memory(func: PrimFunc) -> bool:
    """Whether host code stays off device memory: a function for a GPU must have all its accesses inside thread loops."""
    target = func.attrs.get("target")
    kind = str(getattr(getattr(target, "kind", target), "name", "") or "")
    if kind in ("", "llvm", "c", "hexagon", "ext_dev", "hybrid", "stackvm"):
        return True
    from tilewright.tir.stmt import AttrStmt

    class Host(Visitor):
        ok = True

        @on(AttrStmt)
        def _attr(self, s: AttrStmt) -> None:
            if s.attr_key not in ("thread_extent", "device_scope"):
                self.visit(s.body)

        @on(BufferLoad, BufferStore)
        def _access(self, a: BufferLoad | BufferStore) -> None:
            self.ok = False

    walk = Host()
    walk.visit(func.body)
    return walk.ok
