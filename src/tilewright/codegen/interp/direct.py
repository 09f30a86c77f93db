"""Direct access to elements without checks: for buffers of constant shape, at indices that are known to be in bounds."""

from __future__ import annotations

from typing import Any

from tilewright.codegen.interp.values import Array, InterpError, Pointer, RawPointer
from tilewright.ir import DataType, IntImm
from tilewright.node import Visitor, on
from tilewright.tir import Block, BlockRealize, Buffer, BufferLoad, BufferStore, Call, Var

MOST_CELLS = 1 << 16
"""The most elements of storage that is a table of cells. Larger storage is an array, which takes less memory."""

_BY_REFERENCE = frozenset({"tir.address_of", "tir.tvm_thread_allreduce"})


class UnsuitableArgument(Exception):
    """Raised for an argument that direct access does not support. The checked form of the program takes it."""


class Cells(dict[int, Any]):
    """Storage whose accesses are all of single elements. A missing key is an element that was never written."""

    __slots__ = ("name", "shape")

    def __init__(self, name: str, shape: tuple[int, ...]) -> None:
        super().__init__()
        self.name, self.shape = name, shape

    def __missing__(self, at: int) -> Any:
        index: list[int] = []
        for dim in reversed(self.shape):
            at, i = divmod(at, dim)
            index.insert(0, i)
        raise InterpError(f"uninitialised read: buffer {self.name}{index} was never written")

    def place(self, index: tuple[int, ...], what: str) -> int:
        """The number of an element. Raises InterpError for an index out of bounds."""
        at = 0
        for i, dim in zip(index, self.shape, strict=True):
            if not 0 <= i < dim:
                raise InterpError(
                    f"{what} out of bounds: buffer {self.name}[{', '.join(map(str, index))}],"
                    f" shape ({', '.join(map(str, self.shape))})"
                )
            at = at * dim + i
        return at

    def read(self, *index: int) -> Any:
        return self[self.place(index, "read")]

    def write(self, value: Any, *index: int) -> None:
        self[self.place(index, "write")] = value


def elements(pointer: Pointer, kind: Any, count: int, plain: bool) -> Array | memoryview:
    """The first `count` elements of an argument. plain: as Python numbers. Raises UnsuitableArgument."""
    if type(pointer) is RawPointer:
        pointed = pointer.sized(count * kind.itemsize).storage.data.view(kind)
        return memoryview(pointed) if plain else pointed
    if type(pointer) is not Pointer:
        raise UnsuitableArgument
    storage, size = pointer.storage, kind.itemsize
    data: Any = storage.data
    if storage.ready is not None or data.dtype != kind or pointer.offset < 0 or pointer.offset % size:
        raise UnsuitableArgument
    begin = pointer.offset // size
    if begin + count > data.size:
        raise UnsuitableArgument
    if begin:
        data = data[begin:]
    return memoryview(data) if plain else data


class Null:
    """The elements of a null pointer. Any access raises an error."""

    def __getitem__(self, at: int) -> Any:
        raise InterpError(f"read of element {at} behind a null pointer")

    def __setitem__(self, at: int, value: Any) -> None:
        raise InterpError(f"write of element {at} behind a null pointer")


def elements_at(pointer: RawPointer | None, kind: Any, count: int, plain: bool) -> Array | memoryview | Null:
    """The `count` elements at an address; `Null` for a null pointer."""
    return Null() if pointer is None else elements(pointer, kind, count, plain)


def is_plain(dtype: DataType) -> bool:
    """Whether a memoryview gives the elements exactly as Python numbers."""
    return (dtype.is_int or dtype.is_uint) and dtype.bits in (8, 16, 32, 64) or bool(dtype.is_bool)


class Site:
    """The place in the source where a data variable is defined; definitions of the buffers that use it are inserted there.

    told: the variables whose values arguments give. kind: "cells", "argument" or "address"; "" if only accessors read the data.
    """

    __slots__ = ("accessors", "depth", "direct", "kind", "lines", "told")

    def __init__(self, depth: int, kind: str, told: frozenset[Var]) -> None:
        self.depth, self.kind, self.told = depth, kind, told
        self.lines: list[str] = []
        self.accessors: dict[int, str] = {}
        self.direct: dict[int, str | None] = {}


class Usage(Visitor):
    """Collects how a body uses storage: buffers by data variable, the variables that vectors access, and those whose address is used."""

    def __init__(self) -> None:
        self.buffers: dict[Var, list[Buffer]] = {}
        self.vectors: set[Var] = set()
        self.escaping: set[Var] = set()

    @on(BufferLoad, BufferStore)
    def _access(self, x: BufferLoad | BufferStore) -> None:
        buffer = x.buffer
        found = self.buffers.setdefault(buffer.data, [])
        if not any([b is buffer for b in found]):
            found.append(buffer)
        lanes = buffer.dtype.lanes
        for i in x.indices:
            if type(i) is not IntImm:
                lanes *= i.dtype.lanes
                self.visit(i)
        if type(x) is BufferStore:
            self.visit(x.value)
            lanes *= x.value.dtype.lanes
        if lanes != 1 or x.predicate is not None:
            self.vectors.add(buffer.data)
            self.visit(x.predicate)

    @on(Var)
    def _var(self, v: Var) -> None:
        if v.dtype.code == "handle":
            self.escaping.add(v)

    @on(Call)
    def _call(self, e: Call) -> None:
        if getattr(e.op, "name", "") in _BY_REFERENCE:
            self.escaping.update([a.buffer.data for a in e.args if isinstance(a, BufferLoad)])
        for a in e.args:
            self.visit(a)

    @on(BlockRealize)
    def _realize(self, s: BlockRealize) -> None:
        for value in s.iter_values:
            self.visit(value)
        self.visit(s.predicate)
        self._block(s.block)

    @on(Block)
    def _block(self, block: Block) -> None:
        self.escaping.update([m.source.buffer.data for m in block.match_buffers])
        self.visit(block.init)
        self.visit(block.body)


def is_compact(buffer: Buffer) -> bool:
    """Whether a buffer has a constant shape, no strides, and begins at the first element of its data."""
    return (
        not buffer.strides
        and type(buffer.elem_offset) is IntImm
        and buffer.elem_offset.value == 0
        and all([type(d) is IntImm and d.value > 0 for d in buffer.shape])
    )


def extents(buffer: Buffer) -> tuple[int, ...]:
    """The constant shape of a compact buffer."""
    return tuple([d.value for d in buffer.shape if isinstance(d, IntImm)])
