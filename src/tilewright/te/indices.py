"""Conversion of all indices of a function to one data type: loops, block variables, dimensions and index expressions."""

from __future__ import annotations

from tilewright.ir import DataType, IntImm, PrimExpr, Range
from tilewright.node import on
from tilewright.tir.arithmetic import cast_to, const
from tilewright.tir.buffer import Buffer
from tilewright.tir.expr import (
    Add,
    BufferLoad,
    Call,
    CmpExpr,
    FloorDiv,
    FloorMod,
    IterVar,
    Max,
    Min,
    Mul,
    Select,
    Sub,
    Var,
)
from tilewright.tir.function import PrimFunc
from tilewright.tir.op import if_then_else
from tilewright.tir.stmt import Block, BlockRealize, BufferRegion, BufferStore, For, Stmt
from tilewright.tir.substitution import BufferMutator


def with_index_dtype(func: PrimFunc, dtype: str) -> PrimFunc:
    """Convert loops, block variables and dimensions of a function to `dtype`. Values that are not indices keep their
    type.
    """
    rewriter = _IndexDtype(DataType(dtype))
    for buffer in func.buffer_map.values():
        for dim in buffer.shape:
            if isinstance(dim, Var):
                rewriter.define(dim)
    buffers = {p: rewriter.visit_buffer(b) for p, b in func.buffer_map.items()}
    params = tuple([rewriter.env.get(p, p) for p in func.params])
    return func.replace(params=params, buffer_map=buffers, body=rewriter.visit(func.body))


class _IndexDtype(BufferMutator):
    def __init__(self, dtype: DataType) -> None:
        super().__init__()
        self.dtype = dtype
        self.env: dict[Var, Var] = {}

    def define(self, var: Var) -> Var:
        """Make the variable that replaces `var`."""
        if var.dtype is self.dtype or not var.dtype.is_int:
            return var
        new = self.env.get(var)
        if new is None:
            new = self.env[var] = type(var)(var.name, self.dtype)
        return new

    def index(self, e: PrimExpr) -> PrimExpr:
        """An index expression, in the index type."""
        if isinstance(e, IntImm):
            return const(e.value, self.dtype)
        if isinstance(e, Var):
            new = self.env.get(e)
            return cast_to(e, self.dtype) if new is None else new
        if isinstance(e, (Add, Sub, Mul, FloorDiv, FloorMod, Min, Max)) and e.dtype.lanes == 1:
            return type(e)(self.index(e.a), self.index(e.b))
        if isinstance(e, Select):
            return Select(self.visit(e.condition), self.index(e.true_value), self.index(e.false_value))
        if isinstance(e, Call) and getattr(e.op, "name", "") == "tir.if_then_else":
            return if_then_else(self.visit(e.args[0]), self.index(e.args[1]), self.index(e.args[2]))
        return cast_to(self.visit(e), self.dtype)

    def indices(self, items: tuple[PrimExpr, ...]) -> tuple[PrimExpr, ...]:
        return tuple([self.index(i) for i in items])

    def range(self, r: Range) -> Range:
        return Range.from_min_extent(self.index(r.min), self.index(r.extent))

    def rewrite_buffer(self, buffer: Buffer) -> Buffer:
        return buffer.replace(
            shape=self.indices(buffer.shape),
            strides=self.indices(buffer.strides),
            elem_offset=self.index(buffer.elem_offset),
        )

    @on(Var)
    def _var(self, v: Var) -> PrimExpr:
        new = self.env.get(v)
        return v if new is None else cast_to(new, v.dtype)

    @on(CmpExpr)
    def _compare(self, e: CmpExpr) -> PrimExpr:
        if e.a.dtype.is_int and e.a.dtype.lanes == 1:
            return type(e)(self.index(e.a), self.index(e.b))
        return self.rebuild(e)

    @on(BufferLoad)
    def _load(self, e: BufferLoad) -> PrimExpr:
        return BufferLoad(self.visit_buffer(e.buffer), self.indices(e.indices), e.predicate)

    @on(BufferStore)
    def _store(self, s: BufferStore) -> Stmt:
        return BufferStore(self.visit_buffer(s.buffer), self.visit(s.value), self.indices(s.indices), s.predicate)

    @on(BufferRegion)
    def _region(self, r: BufferRegion) -> BufferRegion:
        return BufferRegion(self.visit_buffer(r.buffer), tuple([self.range(d) for d in r.region]))

    @on(For)
    def _for(self, s: For) -> Stmt:
        var = self.define(s.loop_var)
        body = self.visit(s.body)
        return For(var, self.index(s.min), self.index(s.extent), s.kind, body, s.thread_binding, s.annotations)

    @on(IterVar)
    def _axis(self, axis: IterVar) -> IterVar:
        dom = None if axis.dom is None else self.range(axis.dom)
        return axis.replace(dom=dom, var=self.define(axis.var))

    @on(Block)
    def _block(self, b: Block) -> Stmt:
        axes = tuple([self.visit(a) for a in b.iter_vars])
        buffers = tuple([self.visit_buffer(x) for x in b.alloc_buffers])
        return self.rebuild(b).replace(iter_vars=axes, alloc_buffers=buffers)

    @on(BlockRealize)
    def _realize(self, r: BlockRealize) -> Stmt:
        block = self.visit(r.block)
        return BlockRealize(self.indices(r.iter_values), self.visit(r.predicate), block)
