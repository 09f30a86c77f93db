"""Tasks and their arguments as a device reads them: native/c99/include/tilewright/micro_session.h, with pointers of 32 bits."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Any, NamedTuple

from tilewright.micro.errors import MicroError
from tilewright.micro.layout import Section

PACKED, KERNEL = 0, 1
"""Calling conventions: of packed functions (self, args, count, result), and of kernels of models (void** args)."""
PACKED_PREFIX = "__tvm_ffi_"
"""What symbols of packed functions begin with."""
_HEADER, _TASK = struct.Struct("<4I"), struct.Struct("<5IiQ")
_NONE, _INT, _BOOL, _FLOAT, _HANDLE, _TENSOR, _STRING = 0, 1, 2, 3, 4, 7, 8
"""Types of values, as tvm-ffi numbers them."""
UNDONE = 0xFFFFFFFF
RESULT = 16
"""Bytes of a value that a task leaves."""


class Tensor(NamedTuple):
    """A tensor on the device: its address, and what its header says. strides: None where it is compact."""

    address: int
    shape: tuple[int, ...]
    strides: tuple[int, ...] | None
    dtype: tuple[int, int, int]


class Result(NamedTuple):
    """What a task left. ticks: of the device's clock."""

    status: int
    ticks: int
    value: Any


class Batch:
    """Tasks of the next run. The section begins with their list; their results and arguments grow from its end downward."""

    def __init__(self, section: Section) -> None:
        self.section = section
        self.most = max(1, (section.size - _HEADER.size) // (_TASK.size + RESULT))
        """How many tasks the section has room for, at most: as many as have the same arguments."""
        self.clear()

    def clear(self) -> None:
        """Forgets all tasks."""
        self.tasks: list[bytes] = []
        self.names: list[str] = []
        self.results: list[int] = []
        self.at = self.section.end // 16 * 16
        self.pieces: list[bytes] = []
        self.shared: dict[Tensor | bytes, int] = {}
        """Addresses of headers of tensors, and of arguments: tasks share them, since nothing writes them."""

    @property
    def floor(self) -> int:
        """Where the list ends with one more task."""
        return self.section.start + _HEADER.size + (len(self.tasks) + 1) * _TASK.size

    def _put(self, data: bytes) -> int:
        """Adds data to the arguments; its address, a multiple of 8."""
        size = -(-len(data) // 8) * 8
        if self.at - size < self.floor:
            raise OverflowError
        self.at -= size
        self.pieces.append(data.ljust(size, b"\0"))
        return self.at

    def add(self, name: str, function: int, kind: int, args: Sequence[Any]) -> bool:
        """Adds a task; False where there is no room left for it. args: of packed functions Tensors, numbers, truth values and texts; of
        kernels addresses. Raises MicroError where a task alone is too large for the section."""
        before, shared = (self.at, len(self.pieces)), dict(self.shared)
        try:
            if kind == PACKED:
                packed = b"".join([self._value(a) for a in args])
            else:
                packed = struct.pack(f"<{len(args)}I", *args)
            result = self._put(bytes(RESULT))
            place = self.shared.get(packed)
            if place is None:
                place = self.shared[packed] = self._put(packed)
        except OverflowError:
            self.at = before[0]
            del self.pieces[before[1] :]
            self.shared = shared
            if not self.tasks:
                raise MicroError(
                    f"{name}: its {len(args)} arguments do not fit into the section 'args' of {self.section.size} bytes; make it larger"
                    " (section_constraints)"
                ) from None
            return False
        self.tasks.append(_TASK.pack(function, place, result, kind, len(args), -1, 0))
        self.names.append(name)
        self.results.append(result)
        return True

    def _value(self, value: Any) -> bytes:
        """A value as 16 bytes: its type, and 8 bytes of it."""
        if isinstance(value, Tensor):
            return struct.pack("<iIQ", _TENSOR, 0, self._tensor(value))
        if isinstance(value, bool):
            return struct.pack("<iIq", _BOOL, 0, value)
        if isinstance(value, int):
            return struct.pack("<iIq", _INT, 0, value)
        if isinstance(value, float):
            return struct.pack("<iId", _FLOAT, 0, value)
        if isinstance(value, str):
            return struct.pack("<iIQ", _STRING, 0, self._put(value.encode() + b"\0"))
        if value is None:
            return struct.pack("<iIQ", _NONE, 0, 0)
        raise TypeError(
            f"functions on a device take its arrays, numbers, truth values and texts, but were given {type(value).__name__}"
        )

    def _tensor(self, t: Tensor) -> int:
        """Writes the header of a tensor (DLTensor); its address."""
        found = self.shared.get(t)
        if found is not None:
            return found
        rank = len(t.shape)
        shape = self._put(struct.pack(f"<{rank}q", *t.shape)) if rank else 0
        strides = self._put(struct.pack(f"<{rank}q", *t.strides)) if t.strides else 0
        code, bits, lanes = t.dtype
        # To its own code, the device is a CPU.
        header = struct.pack("<IiiiBBHIIQ", t.address, 1, 0, rank, code, bits, lanes, shape, strides, 0)
        found = self.shared[t] = self._put(header)
        return found

    def writes(self) -> list[tuple[int, bytes]]:
        """(address, bytes) of what the device must hold before the run."""
        listed = _HEADER.pack(len(self.tasks), UNDONE, 0, 0) + b"".join(self.tasks)
        return [(self.section.start, listed), (self.at, b"".join(reversed(self.pieces)))]

    @property
    def read_size(self) -> int:
        """How many bytes of the section say what became of the tasks."""
        return _HEADER.size + len(self.tasks) * _TASK.size


def progress(data: bytes) -> tuple[int, int]:
    """(tasks that are done, the one that runs) of a list's header; UNDONE where the run did not reach its end."""
    _, done, running, _ = _HEADER.unpack_from(data)
    return done, running


def outcome(data: bytes, k: int) -> tuple[int, int]:
    """(status, ticks) of a task in a list."""
    fields = _TASK.unpack_from(data, _HEADER.size + k * _TASK.size)
    return fields[5], fields[6]


def value_of(data: bytes) -> Any:
    """The value of 16 bytes; None for what has no place outside of the device."""
    kind, _, whole = struct.unpack("<iIq", data)
    if kind == _FLOAT:
        return struct.unpack_from("<d", data, 8)[0]
    return {_INT: whole, _BOOL: bool(whole)}.get(kind)


__all__ = [
    "KERNEL",
    "PACKED",
    "PACKED_PREFIX",
    "UNDONE",
    "Batch",
    "Result",
    "Tensor",
    "outcome",
    "progress",
    "value_of",
]
