"""Values of interpreted programs: checked storage, pointers, accessors of buffers, and helpers for arithmetic."""

from __future__ import annotations

import ctypes
import math
from collections.abc import Callable
from typing import Any

import numpy as np

from tilewright.ir import DataType
from tilewright.node.field_values import numpy_dtype
from tilewright.runtime.dtype import dtype_name, to_numpy_dtype
from tilewright.support.errors import TVMError
from tilewright.tir import scalars

Array = np.ndarray[Any, Any]


class InterpError(TVMError):
    """An interpreted program broke a rule: an index out of bounds, an uninitialised read, a race, an assertion.

    failed: (kind of error, text) of a failed assertion of the program. located: whether the text says where the error is.
    """

    failed: tuple[str, str] | None = None
    located: bool = False


class Storage:
    """The elements of a data variable. ready: marks of the elements that were written; None if all were (arguments). fragment: the shape of
    the fragments of a matrix unit that it holds. shared: whether the threads of a block share it; common: whether all threads of a launch
    do; touched: who of them did, by element; chunks: accesses of asynchronous units."""

    __slots__ = ("chunks", "common", "data", "fragment", "name", "reader", "ready", "shared", "touched", "writer")

    def __init__(self, name: str, data: Array, ready: Array | None) -> None:
        self.name, self.data, self.ready = name, data, ready
        self.fragment: tuple[int, int] | None = None
        self.writer: dict[int, int] | None = None
        self.reader: dict[int, int] | None = None
        self.shared = self.common = False
        self.touched: dict[int, tuple[int, Any, Any]] = {}
        self.chunks: Any = None


class Pointer:
    """A handle: storage and a byte offset into it."""

    __slots__ = ("offset", "storage")

    def __init__(self, storage: Storage, offset: int = 0) -> None:
        self.storage, self.offset = storage, offset

    def moved(self, count: int) -> Pointer:
        return Pointer(self.storage, self.offset + int(count))


class Races:
    """State of the race checks: the parallel loop that runs, and its iteration. on: whether races are checked. order: in a block whose
    barriers have phases, what happens before what (`ordering`). launch: the number of the launch that runs; thread: the axes of its thread,
    or of its block, where the threads of a block cooperate; None outside."""

    __slots__ = ("epoch", "iteration", "launch", "loop", "on", "order", "thread")

    def __init__(self, on: bool) -> None:
        self.on, self.epoch, self.iteration, self.loop = on, 0, -1, ""
        self.order: Any = None
        self.launch = 0
        self.thread: tuple[int | None, ...] | None = None

    def enter(self, block: Any, order: Any) -> tuple[Any, ...]:
        """The threads of a block run from here on. Returns what ran before, for `leave`."""
        before = self.iteration, self.loop, self.order, self.thread
        self.order, self.thread = order, block
        if self.on:
            self.epoch += 1
            self.loop = "threadIdx"
        return before

    def leave(self, before: tuple[Any, ...]) -> None:
        self.iteration, self.loop, self.order, self.thread = before


SEVERAL = object()
"""Stands for the threads that read an element, if they are several."""


def are_apart(a: tuple[int | None, ...], b: tuple[int | None, ...]) -> bool:
    """Whether two threads differ. None is an axis whose threads compute something together."""
    return any([x != y and x is not None and y is not None for x, y in zip(a, b, strict=False)])


def note_launch(races: Races, storage: Storage, at: int, write: bool, name: str, index: tuple[Any, ...]) -> None:
    """Records an access to memory that all threads of a launch share. Raises InterpError if another one accessed the element and one of
    them writes: nothing says who is first."""
    here = races.thread
    assert here is not None
    launch, writer, reader = storage.touched.get(at, (0, None, None))
    if launch != races.launch:
        writer = reader = None
    for other in (writer, reader) if write else (writer,):
        if other is not None and (other is SEVERAL or are_apart(other, here)):
            raise InterpError(
                f"race: threads {here} and {'several others' if other is SEVERAL else other} of one launch both touch buffer {name}"
                f"{list(index) if index else ''}, one of them writing it"
            )
    if write:
        writer = here
    else:
        reader = here if reader is None or reader == here else SEVERAL
    storage.touched[at] = (races.launch, writer, reader)


def note(races: Races, storage: Storage, at: int, write: bool, name: str, index: tuple[Any, ...] = ()) -> None:
    """Records an access to byte `at`, an element of a buffer. Raises InterpError if another iteration of the parallel loop accessed it and
    one of them writes."""
    if races.order is not None and storage.shared:
        races.order.note(storage, at, races.iteration, write, name)
        return
    mark = races.epoch << 40 | races.iteration
    if storage.writer is None or storage.reader is None:
        storage.writer, storage.reader = {}, {}
    for table in (storage.writer, storage.reader) if write else (storage.writer,):
        other = table.get(at, -1)
        if other >> 40 == races.epoch and other != mark:
            raise InterpError(
                f"race: iterations {other & ((1 << 40) - 1)} and {races.iteration} of parallel loop {races.loop}"
                f" both touch buffer {name}{list(index) if index else ''}, one of them writing it"
            )
    (storage.writer if write else storage.reader)[at] = mark


class RawPointer(Pointer):
    """An address in this process. The size of the memory there is not known."""

    __slots__ = ("address",)

    def __init__(self, address: int) -> None:
        super().__init__(Storage(hex(address), np.zeros(0, np.uint8), None))
        self.address = address
        # Race checks record accesses by address, whatever the sizes of the views.
        self.storage.writer, self.storage.reader = {}, {}

    def sized(self, count: int) -> Pointer:
        """A pointer to `count` bytes from here on."""
        memory = (ctypes.c_uint8 * max(count, 1)).from_address(self.address)
        found = Storage(self.storage.name, np.ctypeslib.as_array(memory), None)
        found.writer, found.reader = self.storage.writer, self.storage.reader
        return Pointer(found)

    def moved(self, count: int) -> Pointer:
        return RawPointer(self.address + int(count))


def packed_array(pointer: Pointer, shape: tuple[int, ...], offset: int, kind: Any) -> Array:
    """The array that is passed to a packed function: a compact view, whose elements count as written from then on."""
    if isinstance(pointer, RawPointer):
        begin = int(offset) * kind.itemsize
        data = pointer.sized(begin + math.prod(shape) * kind.itemsize).storage.data
        found: Array = data[begin:].view(kind)[: math.prod(shape)].reshape(shape)
        return found
    storage = pointer.storage
    begin, size = pointer.offset // storage.data.itemsize + int(offset), math.prod(shape)
    if begin < 0 or begin + size > storage.data.size:
        raise InterpError(f"an array of shape {tuple(shape)} at element {begin} does not fit in {storage.name}")
    if storage.ready is not None:
        storage.ready[begin : begin + size] = True
    return storage.data[begin : begin + size].reshape(shape)


ARRAY_ADDRESS, ARRAY_DATA, ARRAY_SHAPE, ARRAY_NDIM, ARRAY_CODE, ARRAY_BITS, ARRAY_OFFSET, VALUE_CONTENT = (
    0,
    1,
    2,
    4,
    5,
    6,
    8,
    12,
)
"""Fields of the structures on the stack of a lowered packed call."""


def struct_get(stack: list[dict[int, Any]], index: int, field: int) -> dict[int, Pointer | int | None]:
    """A field of a structure. The address of the structure is represented by the structure itself."""
    return stack[index] if field == ARRAY_ADDRESS else stack[index][field]


def struct_set(stack: list[dict[int, Any]], index: int, field: int, value: Any) -> int:
    """Writes a field."""
    stack[index][field] = value
    return 0


def stacked(stack: list[dict[int, Any]], begin: int, end: int) -> list[Any]:
    """The arguments of a packed call on a stack; descriptors are converted to the arrays that they describe."""
    out = []
    for item in stack[begin:end]:
        value = item[VALUE_CONTENT]
        if isinstance(value, dict):
            at, ndim = value[ARRAY_SHAPE], int(value[ARRAY_NDIM])
            first = at.offset // 8
            shape = tuple([int(n) for n in at.storage.data[first : first + ndim]])
            kind = to_numpy_dtype(dtype_name(int(value[ARRAY_CODE]), int(value[ARRAY_BITS]), 1))
            value = packed_array(value[ARRAY_DATA], shape, int(value[ARRAY_OFFSET]) // kind.itemsize, kind)
        out.append(value)
    return out


def address(value: int) -> Pointer | None:
    """An integer as a pointer; None for 0."""
    return RawPointer(int(value)) if value else None


def failure(message: Any) -> InterpError:
    """The error of a failed assertion. message: a string, or (kind of the error, text, numbers). The last number is appended to the text;
    of two, the first one replaces the character 1."""
    kind, text, *numbers = message if isinstance(message, tuple) else ("AssertionError", str(message))
    if len(numbers) > 1:
        text = text.replace("\1", str(numbers[0]))
    text += "".join(map(str, numbers[-1:]))
    error = InterpError(f"{kind}: {text}" if isinstance(message, tuple) else f"assertion failed: {text}")
    error.failed = kind, text
    return error


def np_type(dtype: DataType) -> Any:
    """The NumPy type of one lane."""
    return np.dtype(numpy_dtype(dtype.element))


def allocate(name: str, dtype: DataType, count: int, common: bool = False) -> Pointer:
    """New storage, whose elements must be written before they are read. common: all threads of a launch share it."""
    data = np.zeros(max(int(count), 0) * dtype.lanes, np_type(dtype))
    made = Pointer(Storage(name, data, np.zeros(data.size, np.bool_)))
    made.storage.common = common
    return made


class Accessor:
    """Checked access to the elements of one buffer: get(*index), set(value, *index); vget and vset for an index that is a vector."""

    __slots__ = ("data", "lanes", "name", "offset", "python", "races", "ready", "shape", "storage", "strides", "where")

    def __init__(
        self,
        name: str,
        dtype: DataType,
        pointer: Pointer | None,
        shape: tuple[int, ...],
        strides: tuple[int, ...],
        offset: int,
        races: Races,
    ) -> None:
        self.name, self.shape, self.races = name, shape, races
        if pointer is None:  # null: allowed if no element is accessed
            pointer = Pointer(Storage("null", np.zeros(0, np.uint8), None))
        if not isinstance(pointer, Pointer):
            raise InterpError(f"buffer {name}: its data is not a pointer, but {pointer!r}")
        kind = np_type(dtype)
        if isinstance(pointer, RawPointer):
            last = sum((n - 1) * s for n, s in zip(shape, strides, strict=True)) if strides else math.prod(shape) - 1
            pointer = pointer.sized((offset + last + 1) * kind.itemsize * dtype.lanes)
        storage = pointer.storage
        data, ready = storage.data, storage.ready
        if data.dtype != kind:
            size = data.nbytes // kind.itemsize * kind.itemsize
            ready = None if data.dtype.itemsize != kind.itemsize else ready
            data = data.view(np.uint8)[:size].view(kind)
        if pointer.offset % kind.itemsize:
            raise InterpError(
                f"buffer {name}: its data begins at byte {pointer.offset}, which is not a multiple of {kind.itemsize}"
            )
        self.storage, self.data, self.ready = storage, data, ready
        self.lanes = dtype.lanes
        if not strides:
            step, compact = 1, []
            for dim in reversed(shape):
                compact.append(step)
                step *= dim
            strides = tuple(reversed(compact))
        self.strides = strides
        self.offset = offset * dtype.lanes + pointer.offset // kind.itemsize
        self.python: Callable[[Any], Any] | None = bool if dtype.is_bool else (None if dtype.is_float else int)

    def place(self, index: tuple[Any, ...], what: str) -> int:
        """The flat element offset of a scalar index."""
        at: int = self.offset
        lanes = self.lanes
        for i, dim, stride in zip(index, self.shape, self.strides, strict=True):
            if not 0 <= i < dim:
                self.fail(index, what)
            at += i * stride * lanes
        if not 0 <= at < self.data.size:
            raise InterpError(
                f"{what} outside the storage of buffer {self.name}{list(index)}: element {at} of {self.data.size}"
            )
        return at

    def fail(self, index: tuple[Any, ...], what: str) -> None:
        shown = ", ".join(str(i.tolist() if isinstance(i, np.ndarray) else i) for i in index)
        raise InterpError(
            f"{what} out of bounds: buffer {self.name}[{shown}], shape ({', '.join(map(str, self.shape))})"
        )

    def get(self, *index: int) -> Any:
        at = self.place(index, "read")
        if self.ready is not None and not self.ready[at]:
            raise InterpError(f"uninitialised read: buffer {self.name}{list(index)} was never written")
        if self.races.on:
            self.note(at, False, index)
        value = self.data[at]
        return value if self.python is None else self.python(value)

    def set(self, value: Any, *index: int) -> None:
        at = self.place(index, "write")
        if self.races.on:
            self.note(at, True, index)
        self.data[at] = value
        if self.ready is not None:
            self.ready[at] = True

    def places(self, index: tuple[Any, ...], what: str, mask: Array | None) -> Array:
        """The flat element offsets of a vector access. Lanes that are off in the mask are not checked."""
        at: Any = np.int64(self.offset)
        run = self.runs_on(index)
        for k, (i, dim, stride) in enumerate(zip(index, self.shape, self.strides, strict=True)):
            wide = np.asarray(i, np.int64)
            wrong = (wide < 0) | (wide >= (run if run and k == len(index) - 1 else dim))
            if np.any(wrong if mask is None else wrong & mask):
                self.fail(index, what)
            at = at + wide * stride * self.lanes
        at = np.atleast_1d(at)
        if self.lanes > 1:
            at = (at[:, None] + np.arange(self.lanes)).reshape(-1)
        outside = (at < 0) | (at >= self.data.size)
        if np.any(outside if mask is None else outside & mask):
            raise InterpError(
                f"{what} outside the storage of buffer {self.name}: elements {at.tolist()} of {self.data.size}"
            )
        return np.asarray(at)

    def runs_on(self, index: tuple[Any, ...]) -> int:
        """The number of consecutive elements of a compact buffer from the start of a row, in whole rows, so that several rows can be
        loaded at once; 0 unless the index is a vector of neighbours that begins a row."""
        *outer, last = index
        lanes = np.asarray(last)
        if (
            lanes.ndim == 0
            or not outer
            or lanes[0] != 0
            or any([np.ndim(i) for i in outer])
            or lanes[-1] < self.shape[-1]
        ):
            return 0
        step = 1
        for dim, stride in zip(reversed(self.shape), reversed(self.strides), strict=True):
            if stride != step:
                return 0
            step *= dim
        first = sum([i * s for i, s in zip(outer, self.strides, strict=False)])
        return int(step - first)

    def vget(self, mask: Array | None, *index: Any) -> Array:
        at = self.places(index, "read", mask)
        live = at if mask is None else at[mask]
        if self.ready is not None and not np.all(self.ready[live]):
            raise InterpError(f"uninitialised read: buffer {self.name}, elements {live.tolist()} were not all written")
        if self.races.on:
            for k in live.tolist():
                self.note(k, False, index)
        if mask is None:
            return self.data[at]
        result = np.zeros(at.shape, self.data.dtype)
        result[mask] = self.data[live]
        return result

    def vset(self, value: Any, mask: Array | None, *index: Any) -> None:
        at = self.places(index, "write", mask)
        live = at if mask is None else at[mask]
        if self.races.on:
            for k in live.tolist():
                self.note(k, True, index)
        self.data[live] = value if mask is None else np.broadcast_to(value, at.shape)[mask]
        if self.ready is not None:
            self.ready[live] = True

    def part(self, begin: int, lanes: int) -> Array:
        """The vector of `lanes` elements of a flat buffer that begins at element `begin`."""
        at = self.offset + begin
        if (
            begin < 0
            or begin + lanes > self.shape[0]
            or at + lanes > self.data.size
            or self.strides[0] != 1
            or self.races.on
        ):
            return self.vget(None, ramp(begin, 1, lanes, np.int64))
        if self.ready is not None and not self.ready[at : at + lanes].all():
            return self.vget(None, ramp(begin, 1, lanes, np.int64))
        return self.data[at : at + lanes].copy()

    def put(self, value: Any, begin: int, lanes: int) -> None:
        """Writes a vector of `lanes` elements to a flat buffer, beginning at element `begin`."""
        at = self.offset + begin
        if (
            begin < 0
            or begin + lanes > self.shape[0]
            or at + lanes > self.data.size
            or self.strides[0] != 1
            or self.races.on
        ):
            self.vset(value, None, ramp(begin, 1, lanes, np.int64))
            return
        self.data[at : at + lanes] = value
        if self.ready is not None:
            self.ready[at : at + lanes] = True

    def note(self, at: int, write: bool, index: tuple[Any, ...]) -> None:
        """Records an access to an element. Raises InterpError for conflicting iterations of a parallel loop, or threads of a launch."""
        if self.races.thread is not None and self.storage.common:
            note_launch(self.races, self.storage, at * self.data.itemsize, write, self.name, index)
        if self.races.iteration >= 0:
            # Views of several types may share the storage.
            note(self.races, self.storage, at * self.data.itemsize, write, self.name, index)

    def pointer(self, *index: Any) -> Pointer:
        """The address of an element."""
        at = self.offset
        for i, stride in zip(index, self.strides, strict=True):
            at += int(np.asarray(i).flat[0]) * stride * self.lanes
        return Pointer(self.storage, at * self.data.dtype.itemsize)


# --- arithmetic of one dtype


def truncdiv(a: Any, b: Any) -> Any:
    """Integer division, rounded towards zero. Raises InterpError for a division by zero."""
    if isinstance(a, np.ndarray) or isinstance(b, np.ndarray):
        a, b = np.broadcast_arrays(a, b)
        _check_zero(b)
        q = a // b
        return (q + ((q * b != a) & ((a < 0) != (b < 0)))).astype(a.dtype)
    _check_zero(b)
    return scalars.trunc_div(a, b)


def truncmod(a: Any, b: Any) -> Any:
    """The remainder of `truncdiv`."""
    if isinstance(a, np.ndarray) or isinstance(b, np.ndarray):
        _check_zero(b)
        return np.fmod(a, b)
    _check_zero(b)
    return scalars.trunc_mod(a, b)


def floordiv(a: Any, b: Any) -> Any:
    """Integer division, rounded down. Raises InterpError for a division by zero."""
    _check_zero(b)
    return a // b


def floormod(a: Any, b: Any) -> Any:
    """The remainder of `floordiv`, with the sign of b."""
    _check_zero(b)
    return a % b


def _check_zero(b: Any) -> None:
    if np.any(np.asarray(b) == 0):
        raise InterpError("division by zero")


def lesser(a: Any, b: Any) -> Any:
    """The smaller of two values; NaN if either is."""
    if isinstance(a, np.ndarray) or isinstance(b, np.ndarray):
        return np.minimum(a, b)
    return scalars.lesser(a, b)


def greater(a: Any, b: Any) -> Any:
    """The larger of two values; NaN if either is."""
    if isinstance(a, np.ndarray) or isinstance(b, np.ndarray):
        return np.maximum(a, b)
    return scalars.greater(a, b)


def select(cond: Any, a: Any, b: Any) -> Any:
    """a where the condition holds, else b. Both are computed."""
    if isinstance(cond, np.ndarray):
        return np.where(cond, a, b)
    return a if cond else b


def saturate(value: Any, low: int, high: int) -> Any:
    """A float as an integer: rounded towards zero and clamped to the range. NaN becomes 0."""
    wide = np.asarray(value, np.float64)
    if wide.ndim == 0:
        return scalars.saturated(float(wide), low, high)
    exact = [scalars.saturated(x, low, high) for x in wide.tolist()]
    return np.array(exact, np.int64 if low < 0 else np.uint64)


def ramp(base: int, stride: int, lanes: int, kind: Any) -> Array:
    """The vector base, base + stride, ..., wrapped around in `kind`."""
    if isinstance(base, np.ndarray):
        return (base[None, :] + np.arange(lanes, dtype=kind)[:, None] * stride).reshape(-1).astype(kind)
    steps = np.arange(lanes, dtype=np.int64) * stride + base
    return steps.astype(kind)


def broadcast(value: Any, lanes: int, kind: Any) -> Array:
    """A value, or a whole vector, repeated `lanes` times."""
    if not isinstance(value, np.ndarray):
        return np.full(lanes, value, kind)
    return np.tile(np.asarray(value, kind).reshape(-1), lanes)
