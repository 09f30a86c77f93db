"""Lowers opaque blocks to plain statements: matched buffers, allocations, predicates, thread loops and pragmas."""

from __future__ import annotations

from typing import Any

from tilewright.ir import IntImm, PrimExpr, Range
from tilewright.ir.transform import Pass
from tilewright.node import mutate_tuple, nodes_of, on
from tilewright.support.errors import TVMError
from tilewright.tir.arithmetic import add, conjuncts, logical_and
from tilewright.tir.buffer import Buffer
from tilewright.tir.expr import BufferLoad, StringImm, Var
from tilewright.tir.function import PrimFunc
from tilewright.tir.op import likely
from tilewright.tir.stmt import (
    Allocate,
    AttrStmt,
    Block,
    BlockRealize,
    BufferRegion,
    BufferStore,
    For,
    ForKind,
    IfThenElse,
    MatchBufferRegion,
    Stmt,
    stmt_seq,
)
from tilewright.tir.substitution import BufferMutator
from tilewright.tir.transform.base import body_pass, is_true


class _Match(BufferMutator):
    """Redirects accesses of a matched buffer to the buffer that it views."""

    def __init__(self) -> None:
        super().__init__()
        self.env: dict[Var, PrimExpr] = {}
        self.views: dict[Buffer, BufferRegion] = {}
        self.unmet: dict[Var, str] = {}
        """Storage of views with a wrong declared offset: loads and stores are redirected, but pointers to it would be wrong."""

    @on(Var)
    def _var(self, v: Var) -> PrimExpr:
        if v in self.unmet:
            raise TVMError(self.unmet[v])
        return self.env.get(v, v)

    def _bind(self, param: PrimExpr, value: PrimExpr, what: str) -> None:
        if isinstance(param, Var):
            self.env.setdefault(param, value)
        elif isinstance(param, IntImm) and isinstance(value, IntImm) and param.value != value.value:
            raise TVMError(
                f"match_buffer: {what} must be {param.value}, but the region gives {value.value}; match a region that fits"
            )

    @on(Block)
    def _block(self, block: Block) -> Block:
        for m in block.match_buffers:
            self._declare(m)
        return self.rebuild(block.replace(match_buffers=(), reads=(), writes=()))

    def _declare(self, m: MatchBufferRegion) -> None:
        view, region = m.buffer, m.source.region
        base = m.source.buffer
        mins: tuple[PrimExpr, ...] = tuple([self.visit(r.min) for r in region])
        extents: tuple[PrimExpr, ...] = tuple([self.visit(r.extent) for r in region])
        if base in self.views:
            outer = self.views[base]
            mins = self._indices(outer, mins)
            base = outer.buffer
            extents = (*[r.extent for r in self.views[m.source.buffer].region[: len(mins) - len(extents)]], *extents)
        root = self.visit(base)
        self.views[view] = BufferRegion(
            root, tuple([Range.from_min_extent(a, n) for a, n in zip(mins, extents, strict=True)])
        )
        self.env[view.data] = root.data
        offset = root.offset_of(mins)[0]
        self._bind(view.elem_offset, offset, f"elem_offset of {view.name}")
        if isinstance(view.elem_offset, IntImm) and not isinstance(offset, IntImm):
            self.unmet[view.data] = (
                f"match_buffer: a pointer to {view.name} is taken, whose elem_offset is {view.elem_offset}, but the region"
                f" begins at {offset}; give match_buffer offset_factor=1, so that the offset is a variable"
            )
        if view.strides:
            strides = root.element_strides()
            for k, stride in enumerate(view.strides):
                self._bind(stride, strides[len(strides) - len(view.strides) + k], f"stride {k} of {view.name}")
        for k, dim in enumerate(view.shape):
            self._bind(dim, region[len(region) - len(view.shape) + k].extent, f"dimension {k} of {view.name}")

    def _indices(self, region: BufferRegion, indices: tuple[PrimExpr, ...]) -> tuple[PrimExpr, ...]:
        starts = tuple([r.min for r in region.region])
        skipped = len(starts) - len(indices)
        return (*starts[:skipped], *[add(a, b) for a, b in zip(starts[skipped:], indices, strict=True)])

    @on(BufferLoad)
    def _load(self, e: BufferLoad) -> PrimExpr:
        indices = mutate_tuple(self.visit, e.indices)
        view = self.views.get(e.buffer)
        if view is not None:
            return BufferLoad(view.buffer, self._indices(view, indices), e.predicate, e.span)
        buffer = self.visit(e.buffer)
        same = buffer is e.buffer and indices is e.indices
        return e if same else BufferLoad(buffer, indices, e.predicate, e.span)

    @on(BufferStore)
    def _store(self, s: BufferStore) -> Stmt:
        view = self.views.get(s.buffer)
        if view is None:
            return self.rebuild(s)
        indices = mutate_tuple(self.visit, s.indices)
        return BufferStore(view.buffer, self.visit(s.value), self._indices(view, indices), s.predicate, s.span)


def LowerMatchBuffer() -> Pass:
    """Replace buffers of match_buffer by the buffers that they view, and bind their shape, stride and offset variables."""
    return body_pass("LowerMatchBuffer", lambda f: _Match().visit(f.body), gives=("no_match_buffers",))


class _LowerOpaque(BufferMutator):
    """Lowers blocks to allocations and likely-conditions, and replaces unit loops by their value."""

    def __init__(self) -> None:
        super().__init__()
        self.env: dict[Var, PrimExpr] = {}

    @on(Var)
    def _var(self, v: Var) -> PrimExpr:
        return self.env.get(v, v)

    @on(BlockRealize)
    def _realize(self, s: BlockRealize) -> Stmt:
        block = s.block
        body = self.visit(block.body)
        if block.init is not None:
            body = stmt_seq(self.visit(block.init), body)
        for buffer in reversed(block.alloc_buffers):
            body = allocate(self.visit(buffer), body)
        for name, value in block.annotations.items():
            if name.startswith("pragma_"):
                body = AttrStmt(StringImm(block.name_hint), name, _attr_value(value), body)
        if "double_buffer_scope" in block.annotations:
            for data in _written(body):
                body = AttrStmt(data, "double_buffer_scope", IntImm("int32", 1), body)
        predicate = self.visit(s.predicate)
        if is_true(predicate):
            return body
        condition: Any = None
        for c in conjuncts(predicate):
            hinted = likely(c)
            condition = hinted if condition is None else logical_and(condition, hinted)
        return IfThenElse(condition, body)

    @on(For)
    def _for(self, s: For) -> Stmt:
        low, extent = self.visit(s.min), self.visit(s.extent)
        if s.kind == ForKind.THREAD_BINDING and s.thread_binding is not None:
            thread = s.thread_binding
            self.env[s.loop_var] = thread.var.astype(s.loop_var.dtype)
            return AttrStmt(thread, "thread_extent", extent, self._annotated(s, self.visit(s.body)))
        if isinstance(extent, IntImm) and extent.value == 1 and not s.annotations:
            self.env[s.loop_var] = low
            return self.visit(s.body)
        body = self.visit(s.body)
        kept = {k: v for k, v in s.annotations.items() if not k.startswith("pragma_")}
        new: Stmt = For(s.loop_var, low, extent, s.kind, body, None, kept, s.span)
        return self._annotated(s, new)

    def _annotated(self, s: For, body: Stmt) -> Stmt:
        for name, value in s.annotations.items():
            if name.startswith("pragma_"):
                body = AttrStmt(s.loop_var, name, _attr_value(value), body)
        return body


def _written(body: Stmt) -> list[Var]:
    """The storage that a block's body writes."""
    return list(dict.fromkeys([s.buffer.data for s in nodes_of(body, BufferStore)]))


def _attr_value(value: PrimExpr | str) -> PrimExpr:
    return StringImm(value) if isinstance(value, str) else value


def allocate(buffer: Buffer, body: Stmt) -> Allocate:
    """Allocate a buffer around the statements that use it."""
    from tilewright.tir.arithmetic import const_true

    extents: tuple[PrimExpr, ...] = buffer.shape or (IntImm("int32", 1),)
    if buffer.strides:
        extents = (buffer.strides[0] * buffer.shape[0],)
    return Allocate(buffer.data, buffer.dtype, extents, const_true(), body)


def _lower(func: PrimFunc) -> Stmt:
    out: Stmt = _LowerOpaque().visit(func.body)
    return out


def LowerOpaqueBlock() -> Pass:
    """Lower blocks to allocations, their predicates to conditions marked likely, and thread loops and pragmas to
    attributes.
    """
    return body_pass("LowerOpaqueBlock", _lower, needs=("opaque_blocks", "no_match_buffers"), gives=("no_blocks",))
