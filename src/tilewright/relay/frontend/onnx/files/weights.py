"""Reading of an ONNX file in two parts: its graph, and the bytes of its weights, each read directly into an aligned array.

protobuf holds a whole file twice while it parses one. This reader extracts the weights from the wire format first, so they
are read once, and aligned. protobuf parses the rest. A file of an unexpected form is
left to protobuf, which decides whether it is damaged.
"""

from __future__ import annotations

import io
import os
from concurrent.futures import ThreadPoolExecutor
from typing import Any, BinaryIO

import numpy as np

from tilewright.formats.varint import read_varint

GRAPH, INITIALIZER, NAME, RAW_DATA = 7, 5, 8, 9
"""Field numbers: ModelProto.graph, GraphProto.initializer, TensorProto.name and TensorProto.raw_data."""
VARINT, FIXED64, BYTES, FIXED32 = 0, 1, 2, 5
"""Wire types."""
ALIGNMENT = 64
SMALL = 1024
"""Tensors below this many bytes stay in the graph."""

PARALLEL_BYTES = 1 << 25
"""Weights from this size on are read by two threads: most of the time goes to the first touch of new pages."""

Weights = dict[str, np.ndarray[Any, np.dtype[np.uint8]]]


class _Unexpected(ValueError):
    """The file does not have the form that this reader can split."""


class _Field:
    """One field: its number, its wire type, and its offsets in the file: of the field, of its content, and of its end."""

    __slots__ = ("begin", "content", "end", "number", "wire")

    def __init__(self, number: int, wire: int, begin: int, content: int, end: int) -> None:
        self.number, self.wire, self.begin, self.content, self.end = number, wire, begin, content, end


def _encoded(value: int) -> bytes:
    out = bytearray()
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def _header(number: int, size: int) -> bytes:
    return _encoded(number << 3 | BYTES) + _encoded(size)


def _fields(file: BinaryIO, begin: int, end: int) -> list[_Field]:
    """The fields of the message in the bytes from begin to end."""
    found = []
    at = begin
    while at < end:
        file.seek(at)
        head = file.read(min(20, end - at))
        tag, used = read_varint(head, 0)
        wire = tag & 7
        if wire == BYTES:
            size, used = read_varint(head, used)
        elif wire == VARINT:
            size, used = 0, read_varint(head, used)[1]
        elif wire in (FIXED64, FIXED32):
            size = 8 if wire == FIXED64 else 4
        else:
            raise _Unexpected
        field = _Field(tag >> 3, wire, at, at + used, at + used + size)
        if field.end > end:
            raise _Unexpected
        found.append(field)
        at = field.end
    return found


def _one(fields: list[_Field], number: int) -> _Field | None:
    """The only field of this number, as bytes; None if it is missing."""
    found = [f for f in fields if f.number == number]
    if len(found) > 1 or any([f.wire != BYTES for f in found]):
        raise _Unexpected
    return found[0] if found else None


class _Splitter:
    def __init__(self, file: BinaryIO, size: int) -> None:
        self.file, self.size = file, size
        self.weights: Weights = {}
        self.reads: list[tuple[int, np.ndarray[Any, np.dtype[np.uint8]]]] = []
        # One allocation for all: with large pages its first touch is ten times cheaper than that of many arrays. Untouched
        # pages take no memory.
        self.memory = np.empty(size + size // (SMALL // ALIGNMENT) + ALIGNMENT, np.uint8)
        self.used = -self.memory.ctypes.data % ALIGNMENT

    def bytes_of(self, begin: int, end: int) -> bytes:
        self.file.seek(begin)
        data = self.file.read(end - begin)
        if len(data) != end - begin:
            raise _Unexpected
        return data

    def array_of(self, begin: int, end: int) -> np.ndarray:
        array = self.memory[self.used : self.used + end - begin]
        self.used += -(-(end - begin) // ALIGNMENT) * ALIGNMENT
        self.reads.append((begin, array))
        return array

    def read(self) -> None:
        """Reads the weights into the arrays."""
        try:
            descriptor = self.file.fileno()
        except io.UnsupportedOperation:
            for begin, array in self.reads:
                self.file.seek(begin)
                if self.file.readinto(array.data) != array.nbytes:  # type: ignore[attr-defined]
                    raise _Unexpected from None
            return

        def fill(one: tuple[int, np.ndarray[Any, np.dtype[np.uint8]]]) -> None:
            begin, array = one
            done = 0
            while done < array.nbytes:
                count = os.preadv(descriptor, [array.data[done:]], begin + done)
                if not count:
                    raise _Unexpected
                done += count

        if sum([array.nbytes for _, array in self.reads]) < PARALLEL_BYTES:
            for one in self.reads:
                fill(one)
        else:
            with ThreadPoolExecutor(2) as pool:
                list(pool.map(fill, self.reads))

    def model(self) -> bytes:
        """The model's bytes without its weights."""
        graph = _one(_fields(self.file, 0, self.size), GRAPH)
        if graph is None:
            raise _Unexpected
        inner = self.graph(graph)
        before = self.bytes_of(0, graph.begin)
        return b"".join([before, _header(GRAPH, len(inner)), inner, self.bytes_of(graph.end, self.size)])

    def graph(self, graph: _Field) -> bytes:
        pieces: list[bytes] = []
        kept = graph.content
        for field in _fields(self.file, graph.content, graph.end):
            if field.number == INITIALIZER and field.wire == BYTES and field.end - field.content > SMALL:
                rest = self.tensor(field)
                if rest is not None:
                    pieces += [self.bytes_of(kept, field.begin), _header(INITIALIZER, len(rest)), rest]
                    kept = field.end
        pieces.append(self.bytes_of(kept, graph.end))
        return b"".join(pieces)

    def tensor(self, tensor: _Field) -> bytes | None:
        """The tensor's bytes without its values, which are stored by its name; None if they stay."""
        fields = _fields(self.file, tensor.content, tensor.end)
        raw, name = _one(fields, RAW_DATA), _one(fields, NAME)
        if raw is None or name is None or raw.end - raw.content < SMALL:
            return None
        key = self.bytes_of(name.content, name.end).decode()
        if key in self.weights:
            raise _Unexpected
        self.weights[key] = self.array_of(raw.content, raw.end)
        return self.bytes_of(tensor.content, raw.begin) + self.bytes_of(raw.end, tensor.end)


def split_model(file: BinaryIO, size: int) -> tuple[bytes, Weights]:
    """(ModelProto without the values of its large initializers, those values as bytes by the initializer's name).

    A file that cannot be split is returned whole, without separate weights.
    """
    splitter = _Splitter(file, size)
    try:
        graph = splitter.model()
        splitter.read()
        return graph, splitter.weights
    except ValueError:
        file.seek(0)
        return file.read(), {}
