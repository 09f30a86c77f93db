"""NVIDIA instructions: asynchronous copies (cp.async), guarded loads, swizzled shared memory, mma register layouts."""

from __future__ import annotations

from typing import Any

from tilewright.ir import DataType, FloatImm, IntImm, IRModule, PrimExpr
from tilewright.ir.transform import Pass, PassContext
from tilewright.node import Mutator, Visitor, mutate_tuple, on
from tilewright.support.errors import TVMError
from tilewright.tir.arithmetic import add, const, floordiv, floormod, logical_and, multiply
from tilewright.tir.buffer import Buffer
from tilewright.tir.builtin import ptx_cp_async, ptx_ldg32
from tilewright.tir.expr import Broadcast, BufferLoad, Call, Cast, Ramp, Var
from tilewright.tir.function import PrimFunc
from tilewright.tir.stmt import AttrStmt, Block, BufferRegion, BufferStore, Evaluate, Stmt, stmt_seq
from tilewright.tir.substitution import BufferMutator
from tilewright.tir.transform.base import body_pass, call_name, is_true, prim_func_pass
from tilewright.tir.transform.thread.thread_sync import scope_of

COPY_BYTES = (4, 8, 16)
"""Sizes in bytes that cp.async copies."""


class _AsyncCopies(Mutator):
    def __init__(self) -> None:
        self.inside = False

    @on(PrimExpr)
    def _expr(self, e: PrimExpr) -> PrimExpr:
        return e

    @on(AttrStmt)
    def _attr(self, s: AttrStmt) -> Stmt:
        if s.attr_key != "async_scope":
            return self.rebuild(s)
        outer, self.inside = self.inside, True
        body = self.visit(s.body)
        self.inside = outer
        return body

    @on(BufferStore)
    def _store(self, s: BufferStore) -> Stmt:
        if not self.inside or not scope_of(s.buffer.data).startswith("shared"):
            return s
        load: Any = s.value
        predicate = s.predicate
        while call_name(load) == "if_then_else" and _is_zero(load.args[2]):
            predicate = load.args[0] if predicate is None else logical_and(predicate, load.args[0])
            load = load.args[1]
        if (
            type(load) is not BufferLoad
            or scope_of(load.buffer.data) != "global"
            or load.buffer.dtype is not s.buffer.dtype
        ):
            return s
        if len(load.indices) != 1 or len(s.indices) != 1 or load.predicate is not None:
            return s
        lanes = load.dtype.lanes // load.buffer.dtype.lanes
        to, source = _first(s.indices[0], lanes), _first(load.indices[0], lanes)
        size = load.dtype.bytes * load.dtype.lanes
        if to is None or source is None or size not in COPY_BYTES:
            return s
        args = (s.buffer.data, to, load.buffer.data, source, size)
        copy = ptx_cp_async(s.buffer.dtype, *args)
        if predicate is not None and not is_true(predicate):
            copy = Call(copy.dtype, copy.op, (*copy.args, predicate))
        return Evaluate(copy)


def _is_zero(e: PrimExpr) -> bool:
    if isinstance(e, Broadcast):
        e = e.value
    return isinstance(e, (IntImm, FloatImm)) and e.value == 0


def _first(index: PrimExpr, lanes: int) -> PrimExpr | None:
    """The begin of a run of consecutive elements; None for other indices."""
    if lanes == 1:
        return index if index.dtype.lanes == 1 else None
    if (
        isinstance(index, Ramp)
        and index.lanes == lanes
        and is_true(index.stride)
        and getattr(index.stride, "value", 0) == 1
    ):
        return index.base
    return None


def InjectPTXAsyncCopy() -> Pass:
    """Replace copies from global to shared memory under "async_scope" by ptx_cp_async, if they have 4, 8 or 16 bytes.

    For values that are zero where a condition is false, the condition becomes the last argument. Needs flat buffers.
    """
    return body_pass(
        "InjectPTXAsyncCopy",
        lambda f: _AsyncCopies().visit(f.body),
        needs=("flat_buffers",),
        gives=("no_async_scopes",),
    )


class _GuardedLoads(Mutator):
    @on(PrimExpr)
    def _expr(self, e: PrimExpr) -> PrimExpr:
        return e

    @on(BufferStore)
    def _store(self, s: BufferStore) -> Stmt:
        value: Any = s.value
        if call_name(value) != "if_then_else" or scope_of(s.buffer.data) != "local" or s.value.dtype != "float32":
            return s
        condition, load, other = value.args
        if type(load) is not BufferLoad or scope_of(load.buffer.data) != "global" or len(s.indices) != 1:
            return s
        if not _is_zero(other):
            return s
        guard = Cast(DataType("int32"), condition)
        call = ptx_ldg32("float32", s.buffer.data, guard, load, s.indices[0])
        return stmt_seq(s.replace(value=other), Evaluate(call))


def InjectPTXLDG32(enable_inject_ptx_intrin: bool = True) -> Pass:
    """Replace local[i] = if_then_else(c, global[j], 0) of float32 by local[i] = 0 and ptx_ldg32, which loads where c
    holds.
    """
    if not enable_inject_ptx_intrin:
        return body_pass("InjectPTXLDG32", lambda f: f.body)
    return body_pass("InjectPTXLDG32", lambda f: _GuardedLoads().visit(f.body))


# --- swizzled shared memory

BANK_BYTES = 128
CHUNK_BYTES = 16
"""Bytes of a chunk. Eight chunks pass through the banks at a time."""
PERMUTED = "permuted_layout"


class _Permuted(Visitor):
    """Collects buffers of shared memory by whether the blocks that access them are marked "permuted_layout"."""

    def __init__(self) -> None:
        self.marked = False
        self.inside: dict[Buffer, None] = {}
        self.outside: set[Buffer] = set()

    @on(Block)
    def _block(self, b: Block) -> None:
        outer = self.marked
        self.marked |= bool(b.annotations.get(PERMUTED))
        self.visit_children(b)
        self.marked = outer

    @on(AttrStmt)
    def _attr(self, s: AttrStmt) -> None:
        outer = self.marked
        self.marked |= s.attr_key == PERMUTED
        self.visit(s.value)
        self.visit(s.body)
        self.marked = outer

    @on(BufferRegion)
    def _region(self, r: BufferRegion) -> None:
        pass

    @on(BufferLoad, BufferStore)
    def _access(self, a: BufferLoad | BufferStore) -> None:
        if scope_of(a.buffer.data).startswith("shared"):
            if self.marked:
                self.inside.setdefault(a.buffer)
            else:
                self.outside.add(a.buffer)
        self.visit_children(a)


def _row(buffer: Buffer) -> tuple[int, int]:
    """(elements per row, elements per chunk) of a buffer that can be swizzled."""
    size = buffer.dtype.bytes * buffer.dtype.lanes
    row = buffer.shape[-1].value if buffer.shape and isinstance(buffer.shape[-1], IntImm) else 0
    chunk = CHUNK_BYTES // size
    if len(buffer.shape) < 2 or chunk < 1 or (row * size) % (BANK_BYTES // 2) or buffer.strides:
        raise TVMError(
            f"InjectPermutedLayout: {buffer.name} is {list(buffer.shape)} of {buffer.dtype}; it must have two dimensions or"
            f" more, no strides, and rows of a multiple of {BANK_BYTES // 2} bytes"
        )
    return row, chunk


class _Permute(Mutator):
    def __init__(self, buffers: dict[Buffer, None]) -> None:
        self.buffers = buffers

    def _swizzled(self, buffer: Buffer, indices: tuple[PrimExpr, ...]) -> tuple[PrimExpr, ...]:
        row_size, chunk = _row(buffer)
        *outer, row, column = mutate_tuple(self.visit, indices)
        lanes = column.dtype.lanes
        base = column
        if lanes != 1:
            run = _first(column, lanes)
            if run is None or chunk % lanes:
                raise TVMError(
                    f"InjectPermutedLayout: {buffer.name} is accessed at {column}; vectors must be neighbours within {chunk} elements"
                )
            base = run
        size = buffer.dtype.bytes * buffer.dtype.lanes
        if row_size * size >= BANK_BYTES:
            phase = floormod(row, 8)
        else:
            phase = floormod(floordiv(row, BANK_BYTES // (row_size * size)), row_size // chunk)
        count = min(8, row_size // chunk)
        at = floordiv(base, chunk)
        group = multiply(floordiv(at, count), const(count, at.dtype))
        swizzled = add(group, floormod(at, count) ^ phase.astype(at.dtype))
        moved = add(multiply(swizzled, const(chunk, at.dtype)), floormod(base, chunk))
        return (*outer, row, moved if lanes == 1 else Ramp(moved, const(1, at.dtype), lanes))

    @on(BufferLoad)
    def _load(self, e: BufferLoad) -> PrimExpr:
        if e.buffer not in self.buffers:
            return self.rebuild(e)
        return BufferLoad(e.buffer, self._swizzled(e.buffer, e.indices), e.predicate, e.span)

    @on(BufferStore)
    def _store(self, s: BufferStore) -> Stmt:
        if s.buffer not in self.buffers:
            return self.rebuild(s)
        return BufferStore(s.buffer, self.visit(s.value), self._swizzled(s.buffer, s.indices), s.predicate, s.span)

    @on(Block)
    def _block(self, b: Block) -> Block:
        new = self.rebuild(b)
        if PERMUTED not in b.annotations:
            return new
        return new.replace(annotations={k: v for k, v in new.annotations.items() if k != PERMUTED})

    @on(AttrStmt)
    def _attr(self, s: AttrStmt) -> Stmt:
        return self.visit(s.body) if s.attr_key == PERMUTED else self.rebuild(s)


def InjectPermutedLayout() -> Pass:
    """Permute the 16-byte chunks in each row of shared buffers of blocks annotated "permuted_layout", depending on the
    row's number.

    Threads that access a column then use different banks. All accesses of such a buffer must be in annotated blocks.
    """

    def run(func: PrimFunc, mod: IRModule, ctx: PassContext) -> PrimFunc:
        look = _Permuted()
        look.visit(func.body)
        for b in look.inside:
            if b in look.outside:
                raise TVMError(
                    f"InjectPermutedLayout: {b.name} is accessed in a block annotated {PERMUTED!r} and outside of any; annotate all"
                )
        return func.replace(body=_Permute(look.inside).visit(func.body)) if look.inside else func

    made: Pass = prim_func_pass(run, name="tir.InjectPermutedLayout")
    return made


# --- registers of mma


class _MmaLayout(BufferMutator):
    """Replaces buffers of scopes m16n8k8.matrixA, B and C by local ones, tile by tile, in the register layout of mma.m16n8k8."""

    TILES = {"m16n8k8.matrixA": (16, 8), "m16n8k8.matrixB": (8, 8), "m16n8k8.matrixC": (16, 8)}

    def __init__(self) -> None:
        super().__init__()
        self.env: dict[Var, Var] = {}
        self.tiled: dict[Buffer, tuple[int, int]] = {}

    @on(Var)
    def _var(self, v: Var) -> Var:
        return self.env.get(v, v)

    def rewrite_buffer(self, buffer: Buffer) -> Buffer:
        tile = self.TILES.get(buffer.scope())
        if tile is None:
            return super().rewrite_buffer(buffer)
        from tilewright.ir import PointerType, PrimType

        if len(buffer.shape) < 2 or buffer.strides:
            raise TVMError(
                f"TransformMmaBufferLayout: {buffer.name} must be a compact buffer of two dimensions or more"
            )
        *outer, rows, columns = buffer.shape
        for n, t, which in ((rows, tile[0], "rows"), (columns, tile[1], "columns")):
            if not isinstance(n, IntImm) or n.value % t:
                raise TVMError(
                    f"TransformMmaBufferLayout: {buffer.name} has {n} {which}, no multiple of the {t} of {buffer.scope()}"
                )
        data = self.env[buffer.data] = Var(buffer.data.name, PointerType(PrimType(buffer.dtype), "local"))
        self.tiled[buffer] = tile
        shape = (
            *outer,
            floordiv(rows, tile[0]),
            floordiv(columns, tile[1]),
            const(tile[0], rows.dtype),
            const(tile[1], rows.dtype),
        )
        return buffer.replace(data=data, shape=shape)

    def _indices(self, buffer: Buffer, indices: tuple[PrimExpr, ...]) -> tuple[PrimExpr, ...]:
        tile = self.tiled.get(buffer)
        if tile is None:
            return indices
        *outer, i, j = indices
        return (*outer, floordiv(i, tile[0]), floordiv(j, tile[1]), floormod(i, tile[0]), floormod(j, tile[1]))

    @on(BufferLoad)
    def _load(self, e: BufferLoad) -> PrimExpr:
        buffer, indices = self.visit(e.buffer), mutate_tuple(self.visit, e.indices)
        if buffer is e.buffer and indices is e.indices:
            return e
        return BufferLoad(buffer, self._indices(e.buffer, indices), e.predicate, e.span)

    @on(BufferStore)
    def _store(self, s: BufferStore) -> Stmt:
        buffer, indices = self.visit(s.buffer), mutate_tuple(self.visit, s.indices)
        return BufferStore(buffer, self.visit(s.value), self._indices(s.buffer, indices), s.predicate, s.span)

    @on(BufferRegion)
    def _region(self, r: BufferRegion) -> BufferRegion:
        buffer = self.visit(r.buffer)
        if r.buffer not in self.tiled:
            return self.rebuild(r)
        from tilewright.ir import Range

        tile = self.tiled[r.buffer]
        *outer, rows, columns = r.region
        whole = []
        for x, t in ((rows, tile[0]), (columns, tile[1])):
            first = floordiv(x.min, t)
            last = floordiv(x.min + x.extent - 1, t)
            whole.append(Range.from_min_extent(first, last - first + 1))
        inner = [Range.from_min_extent(const(0, rows.min.dtype), const(t, rows.min.dtype)) for t in tile]
        return BufferRegion(buffer, (*outer, *whole, *inner))

    @on(Block)
    def _block(self, block: Block) -> Block:
        alloc = tuple([self.visit(b) for b in block.alloc_buffers])
        new = self.rebuild(block.replace(alloc_buffers=()))
        return new.replace(alloc_buffers=alloc)


def TransformMmaBufferLayout() -> Pass:
    """Replace buffers of scope m16n8k8.matrixA, matrixB or matrixC by local buffers of tiles: (.., i, j) becomes (..,
    i/16, j/8, i%16, j%8).
    """
    return body_pass("TransformMmaBufferLayout", lambda f: _MmaLayout().visit(f.body))
