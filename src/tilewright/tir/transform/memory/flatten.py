"""FlattenBuffer: makes multi-dimensional accesses one-dimensional."""

from __future__ import annotations

from collections import Counter

from tilewright.ir import DataType, IntImm, PrimExpr
from tilewright.ir.transform import Pass
from tilewright.node import Mutator, mutate_tuple, on
from tilewright.tir.arithmetic import add, cast_to, multiply
from tilewright.tir.buffer import Buffer
from tilewright.tir.expr import Broadcast, BufferLoad, Ramp
from tilewright.tir.function import PrimFunc
from tilewright.tir.stmt import Allocate, AllocateConst, BufferStore, DeclBuffer, Stmt
from tilewright.tir.transform.base import body_pass

INT64 = DataType("int64")
LIMIT = 1 << 31


def is_counted(buffer: Buffer) -> bool:
    """Whether calls check that a parameter has less than LIMIT elements: its extents of 32 bits are variables, whose product may have
    more bits."""
    return (
        len(buffer.shape) > 1
        and not buffer.strides
        and all([d.dtype.bits <= 32 for d in buffer.shape])
        and not all([isinstance(d, IntImm) for d in buffer.shape])
    )


def _extents(shape: tuple[PrimExpr, ...]) -> Counter[PrimExpr | int]:
    """The extents of a shape that are not 1, and how often each one is there."""
    found: Counter[PrimExpr | int] = Counter([d.value if isinstance(d, IntImm) else d for d in shape])
    del found[1]
    return found


class _Flat:
    """The flat form of one buffer: the new buffer, the strides of all dimensions, the offset and the index type.

    counted: extents of which a product is known to be less than LIMIT."""

    __slots__ = ("buffer", "dtype", "offset", "strides")

    def __init__(self, old: Buffer, counted: list[Counter[PrimExpr | int]]) -> None:
        sizes = [d.value if isinstance(d, IntImm) else None for d in old.shape]
        known = 1
        for n in sizes:
            known = known * n if n is not None else LIMIT
        if old.strides:
            steps = [s.value if isinstance(s, IntImm) else None for s in old.strides]
            span = 1
            for n, jump in zip(sizes, steps, strict=True):
                span = span + (n - 1) * jump if n is not None and jump is not None else LIMIT
            known = max(known, span)
        if isinstance(old.elem_offset, IntImm):
            known += old.elem_offset.value
        wide = known >= LIMIT or any([d.dtype.bits > 32 for d in old.shape])
        # An unknown size may be large, so its offsets are computed in 64 bits, unless its elements, or more of them, are counted.
        plain = isinstance(old.elem_offset, IntImm) and old.elem_offset.value == 0 and is_counted(old)
        if wide and plain and any([_extents(old.shape) <= extents for extents in counted]):
            wide = False
        if len(old.shape) == 1 and not old.strides and not wide:
            wide = old.shape[0].dtype.bits > 32
        if len(old.shape) <= 1 and sizes and sizes[0] is None and not old.strides:
            wide = old.shape[0].dtype.bits > 32
        self.dtype = INT64 if wide else DataType("int32")
        self.strides: list[PrimExpr] = []
        step: PrimExpr = IntImm(self.dtype, 1)
        for k in reversed(range(len(old.shape))):
            if old.strides:
                self.strides.append(cast_to(old.strides[k], self.dtype))
            else:
                self.strides.append(step)
                step = multiply(step, cast_to(old.shape[k], self.dtype))
        self.strides.reverse()
        self.offset: PrimExpr = cast_to(old.elem_offset, self.dtype)
        if old.strides and old.shape:
            total = multiply(self.strides[0], cast_to(old.shape[0], self.dtype))
        else:
            total = step if old.shape else IntImm(self.dtype, 1)
        if isinstance(total, IntImm) and total.value < LIMIT and not wide:
            total = IntImm("int32", total.value)
        if isinstance(total, IntImm) and isinstance(old.elem_offset, IntImm):
            # A view of a part: its indices count from the beginning of the whole.
            total = IntImm(total.dtype, total.value + old.elem_offset.value)
        zero = IntImm(self.dtype, 0)
        if (
            len(old.shape) == 1
            and not old.strides
            and isinstance(old.elem_offset, IntImm)
            and old.elem_offset.value == 0
        ):
            self.buffer = old
        else:
            self.buffer = old.replace(shape=(total,), strides=(), elem_offset=zero, axis_separators=())

    def index(self, indices: tuple[PrimExpr, ...]) -> PrimExpr:
        out: PrimExpr = self.offset
        for i, stride in zip(indices, self.strides, strict=True):
            here = multiply(_cast(i, self.dtype), stride) if i.dtype.lanes == 1 else _scaled(i, stride, self.dtype)
            out = add(out, here) if out.dtype.lanes == here.dtype.lanes else _shifted(out, here)
        return out


def _cast(e: PrimExpr, dtype: DataType) -> PrimExpr:
    return e if e.dtype is dtype else cast_to(e, dtype)


def _scaled(e: PrimExpr, stride: PrimExpr, dtype: DataType) -> PrimExpr:
    if isinstance(e, Ramp):
        return Ramp(multiply(_cast(e.base, dtype), stride), multiply(_cast(e.stride, dtype), stride), e.lanes)
    if isinstance(e, Broadcast):
        return Broadcast(multiply(_cast(e.value, dtype), stride), e.lanes)
    vector = cast_to(e, dtype.with_lanes(e.dtype.lanes))
    return multiply(vector, Broadcast(stride, e.dtype.lanes))


def _shifted(a: PrimExpr, b: PrimExpr) -> PrimExpr:
    """a + b, where one is a scalar."""
    if a.dtype.lanes != 1:
        a, b = b, a
    if isinstance(b, Ramp):
        return Ramp(add(a, b.base), b.stride, b.lanes)
    if isinstance(b, Broadcast):
        return Broadcast(add(a, b.value), b.lanes)
    return add(Broadcast(a, b.dtype.lanes), b)


class _Flatten(Mutator):
    def __init__(self, func: PrimFunc) -> None:
        # What calls from elsewhere pass is counted by the packed function.
        public = func.attrs.get("global_symbol") is not None
        given = func.buffer_map.values() if public else ()
        self.counted = [_extents(buffer.shape) for buffer in given if is_counted(buffer)]
        self.flat: dict[Buffer, _Flat] = {}

    def form(self, buffer: Buffer) -> _Flat:
        found = self.flat.get(buffer)
        if found is None:
            found = self.flat[buffer] = _Flat(buffer, self.counted)
        return found

    def _access(self, buffer: Buffer, indices: tuple[PrimExpr, ...]) -> tuple[Buffer, tuple[PrimExpr, ...]]:
        form = self.form(buffer)
        indices = mutate_tuple(self.visit, indices)
        if form.buffer is buffer:
            return buffer, indices
        return form.buffer, (form.index(indices),)

    @on(BufferLoad)
    def _load(self, e: BufferLoad) -> PrimExpr:
        buffer, indices = self._access(e.buffer, e.indices)
        if buffer is e.buffer and indices is e.indices:
            return e
        return BufferLoad(buffer, indices, None if e.predicate is None else self.visit(e.predicate), e.span)

    @on(BufferStore)
    def _store(self, s: BufferStore) -> Stmt:
        buffer, indices = self._access(s.buffer, s.indices)
        value = self.visit(s.value)
        if buffer is s.buffer and indices is s.indices and value is s.value:
            return s
        return BufferStore(buffer, value, indices, None if s.predicate is None else self.visit(s.predicate), s.span)

    @on(Allocate)
    def _allocate(self, s: Allocate) -> Stmt:
        return s.replace(extents=_one_extent(s.extents), body=self.visit(s.body))

    @on(AllocateConst)
    def _allocate_const(self, s: AllocateConst) -> Stmt:
        return s.replace(extents=_one_extent(s.extents), body=self.visit(s.body))

    @on(DeclBuffer)
    def _decl(self, s: DeclBuffer) -> Stmt:
        return s.replace(buffer=self.form(s.buffer).buffer, body=self.visit(s.body))


def _one_extent(extents: tuple[PrimExpr, ...]) -> tuple[PrimExpr, ...]:
    if len(extents) <= 1:
        return extents
    known = 1
    for e in extents:
        known = known * e.value if isinstance(e, IntImm) else LIMIT
    dtype = INT64 if known >= LIMIT else DataType("int32")
    total: PrimExpr = IntImm(dtype, 1)
    for e in extents:
        total = multiply(total, cast_to(e, dtype))
    return (total,)


def _flatten(func: PrimFunc) -> Stmt:
    out: Stmt = _Flatten(func).visit(func.body)
    return out


def FlattenBuffer() -> Pass:
    """Make buffers one-dimensional. Indices have 64 bits where 32 might not hold the offset. Parameters whose shapes have variables of 32
    bits have less than 2^31 elements, which MakePackedAPI lets calls check."""
    return body_pass("FlattenBuffer", _flatten, needs=("no_blocks",), gives=("flat_buffers",))
