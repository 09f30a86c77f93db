"""CompactThreadMemory: buffers that each thread has for itself hold no elements of other threads."""

from __future__ import annotations

from tilewright.arith import Analyzer
from tilewright.ir import IntImm, PrimExpr, Range
from tilewright.ir.transform import Pass
from tilewright.node import Mutator, Visitor, mutate_tuple, on
from tilewright.tir.buffer import Buffer
from tilewright.tir.expr import BufferLoad, IterVar, Var
from tilewright.tir.function import PrimFunc
from tilewright.tir.stmt import AttrStmt, Block, BufferStore, For, Stmt
from tilewright.tir.transform.base import body_pass


class _Numbered(Visitor):
    """Axes of local buffers that all accesses index by the number of the thread along one axis of threads."""

    def __init__(self) -> None:
        self.analyzer = Analyzer()
        self.threads: set[Var] = set()
        self.by_data: dict[Var, Buffer] = {}
        self.axes: dict[Buffer, list[Var | None]] = {}
        self.seen: set[Buffer] = set()

    @on(AttrStmt)
    def _attr(self, s: AttrStmt) -> None:
        axis = s.node
        if s.attr_key == "thread_extent" and isinstance(axis, IterVar) and isinstance(s.value, IntImm):
            self.analyzer.bind(axis.var, Range(0, s.value), allow_override=True)
            if axis.thread_tag.startswith("threadIdx"):
                self.threads.add(axis.var)
        self.visit_children(s)

    @on(For)
    def _for(self, s: For) -> None:
        self.analyzer.bind(s.loop_var, Range.from_min_extent(s.min, s.extent), allow_override=True)
        self.visit_children(s)

    @on(Block)
    def _block(self, block: Block) -> None:
        for buffer in block.alloc_buffers:
            if buffer.scope() == "local" and not buffer.strides and not buffer.axis_separators:
                self.axes[buffer] = [None] * len(buffer.shape)
                self.by_data[buffer.data] = buffer
        self.visit(block.body)

    @on(BufferLoad)
    def _load(self, e: BufferLoad) -> None:
        self._note(e.buffer, e.indices)
        for i in e.indices:
            self.visit(i)

    @on(BufferStore)
    def _store(self, s: BufferStore) -> None:
        self._note(s.buffer, s.indices)
        self.visit(s.value)
        for i in s.indices:
            self.visit(i)

    @on(Var)
    def _var(self, v: Var) -> None:
        buffer = self.by_data.get(v)
        if buffer is not None:
            self.axes.pop(buffer, None)

    def _note(self, buffer: Buffer, indices: tuple[PrimExpr, ...]) -> None:
        axes = self.axes.get(buffer)
        if axes is None:
            return
        found = [self._thread(i) for i in indices]
        if buffer in self.seen:
            found = [a if a is b else None for a, b in zip(axes, found, strict=True)]
        self.seen.add(buffer)
        self.axes[buffer] = found

    def _thread(self, index: PrimExpr) -> Var | None:
        """The axis of threads whose number an index is."""
        e = self.analyzer.simplify(index)
        return e if isinstance(e, Var) and e in self.threads else None


class _Own(Mutator):
    """Makes axes of buffers one element long. axes: whether each axis of a buffer gets so."""

    def __init__(self, axes: dict[Buffer, list[bool]]) -> None:
        self.axes = axes
        self.made = {
            b: b.replace(shape=tuple([IntImm(d.dtype, 1) if own else d for d, own in zip(b.shape, found, strict=True)]))
            for b, found in axes.items()
        }

    def _indices(self, buffer: Buffer, indices: tuple[PrimExpr, ...]) -> tuple[PrimExpr, ...]:
        visited = mutate_tuple(self.visit, indices)
        own = self.axes[buffer]
        return tuple([IntImm(i.dtype, 0) if o else i for i, o in zip(visited, own, strict=True)])

    @on(BufferLoad)
    def _load(self, e: BufferLoad) -> PrimExpr:
        if e.buffer not in self.made:
            return self.rebuild(e)
        return BufferLoad(self.made[e.buffer], self._indices(e.buffer, e.indices), e.predicate, e.span)

    @on(BufferStore)
    def _store(self, s: BufferStore) -> Stmt:
        if s.buffer not in self.made:
            return self.rebuild(s)
        indices = self._indices(s.buffer, s.indices)
        return BufferStore(self.made[s.buffer], self.visit(s.value), indices, s.predicate, s.span)

    @on(Block)
    def _block(self, block: Block) -> Block:
        new = self.rebuild(block)
        alloc = tuple([self.made.get(b, b) for b in block.alloc_buffers])
        return new.replace(alloc_buffers=alloc, reads=(), writes=()) if alloc != block.alloc_buffers else new


def _compacted(func: PrimFunc) -> Stmt:
    look = _Numbered()
    look.visit(func.body)
    axes = {b: [a is not None for a in found] for b, found in look.axes.items() if b in look.seen}
    axes = {b: found for b, found in axes.items() if any(found)}
    if not axes:
        return func.body
    out: Stmt = _Own(axes).visit(func.body)
    return out


def CompactThreadMemory() -> Pass:
    """Reduce axes of local buffers that every access indexes by the number of its thread to one element: the others belong to
    other threads, which have such buffers of their own."""
    return body_pass("CompactThreadMemory", _compacted, needs=("opaque_blocks", "no_thread_loops"))


__all__ = ["CompactThreadMemory"]
