"""Buffers: typed multi-dimensional views of storage."""

from __future__ import annotations

from typing import Any

from tilewright.ir import DataType, IntImm, PrimExpr, PrimExprLike, Range, as_prim_expr
from tilewright.ir.span import BaseSpan
from tilewright.ir.types import PointerType, PrimType
from tilewright.node import GRAPH, Def, Node, Skip, register_converter, structural_equal
from tilewright.tir.arithmetic import match_types
from tilewright.tir.expr import HANDLE, Add, BufferLoad, Call, Mul, Ramp, Sub, Var, need_integers

DATA_ALIGNMENT = 64
"""The alignment in bytes of a buffer's data, unless the buffer says otherwise. Kernels rely on it, and memory plans keep it."""


class DataProducer(Node):
    """Root of what gives values by index without being storage, such as te tensors."""


class Buffer(Node, key="tir.Buffer"):
    """A view of the storage behind `data`: `shape` in elements, `strides` () when compact and row-major.

    elem_offset: first element, counted from data. data_alignment: of the data pointer, in bytes.
    offset_factor: elem_offset is a multiple of it. buffer_type: 1, or 2 when size-one dimensions broadcast.
    """

    _identity = GRAPH
    _cosmetic = frozenset({"name"})
    _leaf = True

    data: Def[Var]
    dtype: DataType
    shape: Def[tuple[PrimExpr, ...]]
    strides: Def[tuple[PrimExpr, ...]]
    elem_offset: Def[PrimExpr]
    name: str
    data_alignment: int = DATA_ALIGNMENT
    offset_factor: int = 1
    buffer_type: int = 1
    axis_separators: tuple[PrimExpr, ...] = ()
    span: Skip[BaseSpan | None] = None

    READ, WRITE = 1, 2

    def _derive(self) -> None:
        if self.data.dtype is not HANDLE:
            raise TypeError(f"buffer {self.name}: data must be a handle, but is {self.data.dtype}")
        need_integers("the shape of buffer {}", self.shape, name=self.name)
        if self.strides:
            if len(self.strides) != len(self.shape):
                raise TypeError(
                    f"buffer {self.name} has {len(self.shape)} dimensions, but {len(self.strides)} strides;"
                    " give one for each dimension, or none for a compact buffer"
                )
            need_integers("the strides of buffer {}", self.strides, name=self.name)
        need_integers("the elem_offset of buffer {}", (self.elem_offset,), name=self.name)

    def __hash__(self) -> int:
        return id(self) >> 4

    def own_variables(self) -> list[Var]:
        """Its data pointer, and the strides and offset that are variables."""
        return [v for v in (self.data, *self.strides, self.elem_offset) if isinstance(v, Var)]

    def scope(self) -> str:
        """The storage scope: "global", "local", "shared", ..."""
        annotation = self.data.type_annotation
        return annotation.storage_scope or "global" if isinstance(annotation, PointerType) else "global"

    def __getitem__(self, indices: Any) -> Any:
        """`A[i, j]` is a load; with slices of step 1 a BufferRegion, with strided slices a load of a vector."""
        if not isinstance(indices, (tuple, list)):
            indices = (indices,)
        if not any([isinstance(i, slice) for i in indices]):
            return BufferLoad(self, tuple(indices))
        if any([isinstance(i, slice) and i.step is not None for i in indices]):
            return BufferLoad(self, vector_indices(self, indices))
        region = []
        for axis, i in enumerate(indices):
            if isinstance(i, slice):
                start, stop = _bounds(self, axis, i)
                region.append(Range.from_min_extent(start, extent_of(start, stop)))
            else:
                at = as_prim_expr(i)
                region.append(Range.from_min_extent(at, IntImm(at.dtype, 1)))
        return BufferRegion(self, tuple(region))

    def vload(self, begin: Any, dtype: str | None = None, predicate: PrimExpr | None = None) -> BufferLoad:
        """A load of `dtype` whose lanes start at `begin`."""
        return BufferLoad(self, self._vector_indices(begin, dtype), predicate)

    def vstore(self, begin: Any, value: PrimExprLike, predicate: PrimExpr | None = None) -> Any:
        """A store of a value whose lanes start at `begin`."""
        value = as_prim_expr(value)
        return _stores[0](self, value, self._vector_indices(begin, value.dtype), predicate)

    def _vector_indices(self, begin: Any, dtype: str | None) -> tuple[Any, ...]:
        first: tuple[Any, ...] = tuple(begin) if isinstance(begin, (tuple, list)) else (begin,)
        lanes = DataType(dtype).lanes // self.dtype.lanes if dtype else 1
        if lanes <= 1:
            return first
        last = as_prim_expr(first[-1])
        if last.dtype.lanes > 1:
            return first
        return (*first[:-1], Ramp(last, IntImm(last.dtype, 1), lanes))

    def access_ptr(
        self,
        access_mask: int | str,
        ptr_type: str = "handle",
        content_lanes: int = 1,
        offset: Any = 0,
        extent: Any = None,
    ) -> PrimExpr:
        """A pointer to the buffer's elements from `offset` on. access_mask: "r", "w", "rw", or bits 1 and 2."""
        mask = access_mask
        if isinstance(mask, str):
            mask = sum({"r": 1, "w": 2}[c] for c in mask)
        size: Any = 1
        for dim in self.shape:
            size = size * dim
        begin = as_prim_expr(self.elem_offset) + offset
        count = (size - offset) if extent is None else extent
        dtype = self.dtype.with_lanes(content_lanes) if content_lanes > 1 else self.dtype
        if content_lanes > 1:
            begin, count = begin // content_lanes, count // content_lanes
        return Call(
            DataType(ptr_type), "tvm_access_ptr", (Call(dtype, "type_annotation", ()), self.data, begin, count, mask)
        )

    def offset_of(self, indices: Any) -> tuple[PrimExpr, ...]:
        """The flat element offset of an index, as a one-element tuple."""
        offset = self.elem_offset
        if self.strides:
            for i, stride in zip(indices, self.strides, strict=True):
                offset = offset + as_prim_expr(i) * stride
            return (offset,)
        flat: Any = None
        for i, dim in zip(indices, self.shape, strict=True):
            flat = as_prim_expr(i) if flat is None else flat * dim + i
        return (offset if flat is None else flat + offset,)

    def element_strides(self) -> tuple[PrimExpr, ...]:
        """The strides, worked out from the shape when the buffer is compact."""
        if self.strides:
            return self.strides
        out: list[PrimExpr] = []
        step: PrimExpr = IntImm("int32", 1)
        for dim in reversed(self.shape):
            out.append(step)
            step = step * dim
        return tuple(reversed(out))

    def get_flattened_buffer(self) -> Buffer:
        """The one-dimensional view of the same storage."""
        size: Any = IntImm("int32", 1)
        if self.strides:
            size = self.strides[0] * self.shape[0]
        else:
            for dim in self.shape:
                size = size * dim
        if len(self.shape) == 1 and not self.strides:
            return self
        return self.replace(shape=(size,), strides=(), axis_separators=())


register_converter("Buffer", Buffer)


def need_region(buffer: Buffer, region: tuple[Range, ...]) -> None:
    if len(region) != len(buffer.shape):
        raise TypeError(
            f"a region of buffer {buffer.name} takes {len(buffer.shape)} ranges, one for each dimension,"
            f" but was given {len(region)}"
        )


class BufferRegion(Node, key="tir.BufferRegion"):
    """A box of a buffer's elements."""

    buffer: Buffer
    region: tuple[Range, ...]

    def _derive(self) -> None:
        need_region(self.buffer, self.region)

    @property
    def dtype(self) -> DataType:
        return self.buffer.dtype

    def asobject(self) -> BufferLoad:
        """The load of the region as a vector; its extents must be constant."""
        parts = [
            r.min if isinstance(r.extent, IntImm) and r.extent.value == 1 else slice(r.min, r.min + r.extent)
            for r in self.region
        ]
        return BufferLoad(self.buffer, vector_indices(self.buffer, parts))


register_converter("BufferRegion", BufferRegion)


_stores: list[Any] = []


def register_store(store: Any) -> None:
    """Says what makes the statement that writes an element: statements stand above buffers."""
    _stores[:] = [store]


def _bounds(buffer: Buffer, axis: int, part: slice) -> tuple[PrimExpr, PrimExpr]:
    """Where a slice begins and ends, in one type."""
    if axis >= len(buffer.shape):
        raise TypeError(
            f"buffer {buffer.name} has {len(buffer.shape)} dimensions, but is indexed with at least {axis + 1}"
        )
    start = as_prim_expr(0 if part.start is None else part.start, "begin of a slice")
    stop = as_prim_expr(buffer.shape[axis] if part.stop is None else part.stop, "end of a slice")
    return match_types(start, stop)


def vector_indices(buffer: Buffer, indices: Any) -> tuple[PrimExpr, ...]:
    """Indices of a load or store, slices as ramps."""
    out: list[PrimExpr] = []
    for axis, i in enumerate(indices):
        if not isinstance(i, slice):
            out.append(as_prim_expr(i, f"index of buffer {buffer.name}"))
            continue
        start, stop = _bounds(buffer, axis, i)
        step = as_prim_expr(1 if i.step is None else i.step, "step of a slice")
        extent = extent_of(start, stop)
        if not isinstance(extent, IntImm) or not isinstance(step, IntImm) or step.value <= 0 or extent.value <= 0:
            raise TypeError(
                f"a slice of buffer {buffer.name} that is loaded or stored needs a constant, positive length and step,"
                f" but has length {extent} and step {step}"
            )
        lanes = -(-extent.value // step.value)
        out.append(start if lanes == 1 else Ramp(start, IntImm(start.dtype, step.value), lanes))
    return tuple(out)


def extent_of(begin: PrimExpr, end: PrimExpr) -> PrimExpr:
    """end - begin, as a number or as short as it was written: the extent of `x:x + n` is n."""
    if isinstance(begin, IntImm) and isinstance(end, IntImm):
        return IntImm(begin.dtype, end.value - begin.value)
    if isinstance(end, Add) and structural_equal(end.a, begin):
        return end.b
    if isinstance(begin, IntImm) and begin.value == 0:
        return end
    if end.dtype is begin.dtype and (end.dtype.is_int or end.dtype.is_uint):
        terms: list[tuple[PrimExpr, int]] = []
        constant = _linear(end, 1, terms) + _linear(begin, -1, terms)
        if all([factor == 0 for _, factor in terms]):
            return IntImm(end.dtype, constant)
    difference: PrimExpr = end - begin
    return difference


def _linear(e: PrimExpr, factor: int, terms: list[tuple[PrimExpr, int]]) -> int:
    """Adds factor * e to a sum of terms; returns the constant part."""
    if isinstance(e, IntImm):
        return factor * e.value
    if isinstance(e, (Add, Sub)):
        return _linear(e.a, factor, terms) + _linear(e.b, factor if isinstance(e, Add) else -factor, terms)
    if isinstance(e, Mul) and isinstance(e.b, IntImm):
        return _linear(e.a, factor * e.b.value, terms)
    for i, (term, count) in enumerate(terms):
        if structural_equal(term, e):
            terms[i] = (term, count + factor)
            return 0
    terms.append((e, factor))
    return 0


def decl_buffer(
    shape: Any,
    dtype: str | None = None,
    name: str = "buffer",
    data: Var | None = None,
    strides: Any = None,
    elem_offset: Any = None,
    scope: str = "",
    data_alignment: int = -1,
    offset_factor: int = 0,
    buffer_type: str = "",
    axis_separators: Any = None,
    span: BaseSpan | None = None,
) -> Buffer:
    """A new buffer of that shape, float32 when no dtype is given, with storage of its own unless `data` is."""
    if isinstance(shape, (int, PrimExpr)):
        shape = (shape,)
    kind = DataType(dtype or "float32")
    dims = tuple([as_prim_expr(dim, f"shape of buffer {name}") for dim in shape])
    for dim in dims:
        if dim.dtype.is_float or dim.dtype.lanes != 1:
            raise TypeError(f"buffer {name}: a dimension must be a scalar integer, but {dim!r} is {dim.dtype}")
    index_dtype = dims[0].dtype if dims else DataType("int32")
    if offset_factor != 0 and elem_offset is None:
        elem_offset = Var(f"{name}_elem_offset", index_dtype)
    if data is None:
        storage = "int8" if kind.is_bool else kind
        data = Var(name, PointerType(PrimType(DataType(storage)), scope or "global"))
    return Buffer(
        data,
        kind,
        dims,
        tuple(strides or ()),
        IntImm(index_dtype, 0) if elem_offset is None else elem_offset,
        name,
        DATA_ALIGNMENT if data_alignment <= 0 else data_alignment,
        offset_factor or 1,
        2 if buffer_type == "auto_broadcast" else 1,
        tuple(axis_separators or ()),
        span,
    )
