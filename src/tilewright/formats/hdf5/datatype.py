"""Types, shapes and values in HDF5 files."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import ml_dtypes
import numpy as np

from tilewright.formats.hdf5.cursor import Cursor, Source, damaged, not_read
from tilewright.formats.hdf5.heaps import heap_object

MOST_AXES = 32
FIXED, FLOAT, STRING, ENUM, TEXT = 0, 1, 3, 8, 9
CLASSES = ("integers", "floats", "times", "strings", "bit fields", "opaque data", "records", "references", "enumerations",
           "sequences", "arrays", "complex numbers")  # fmt: skip
FLOATS: dict[tuple[int, ...], str] = {
    (2, 10, 5, 0, 10, 15): "f2", (4, 23, 8, 0, 23, 127): "f4", (8, 52, 11, 0, 52, 1023): "f8",
}  # fmt: skip
"""NumPy's names by size, place and size of the exponent, those of the mantissa, bias."""
BFLOAT16 = (2, 7, 8, 0, 7, 127)


class Datatype(NamedTuple):
    """The type of elements as they lie in the file. `text`: each names a string in a global heap."""

    dtype: np.dtype[Any]
    text: bool = False


def datatype(c: Cursor) -> Datatype:
    """The type that a message describes."""
    first, bits, size = c.number(1), c.number(3), c.number(4)
    kind, version = first & 15, first >> 4
    if kind >= len(CLASSES) or not 1 <= version <= 5 or not size:
        raise damaged(f"the type before byte {c.at} is none")
    order = "<>"[bits & 1]
    if kind == FIXED:
        begin, precision = c.number(2), c.number(2)
        if size not in (1, 2, 4, 8) or (begin, precision) != (0, 8 * size):
            raise not_read(f"integers of {precision} bits in {size} bytes")
        return Datatype(np.dtype(f"{order}{'iu'[not bits & 8]}{size}"))
    if kind == FLOAT:
        begin, precision = c.number(2), c.number(2)
        form = (size, *[c.number(1) for _ in range(4)], c.number(4))
        name = FLOATS.get(form)
        # The sign stands at the top, and the mantissa's first bit is not stored.
        plain = (begin, precision, bits >> 8, bits & 0x70) == (0, 8 * size, 8 * size - 1, 0x20)
        if plain and name:
            return Datatype(np.dtype(order + name))
        if plain and form == BFLOAT16 and order == "<":
            return Datatype(np.dtype(ml_dtypes.bfloat16))
        raise not_read(f"floats of {precision} bits in a form of their own")
    if kind == STRING and size < 1 << 31:
        return Datatype(np.dtype(f"S{size}"))
    if kind == ENUM:
        return _enumeration(c, bits & 0xFFFF, version)
    if kind == TEXT and bits & 15 == 1 and size == 8 + c.source.offset_size:
        return Datatype(np.dtype(f"V{size}"), True)
    raise not_read(CLASSES[kind])


def _enumeration(c: Cursor, count: int, version: int) -> Datatype:
    """The numbers of an enumeration; truth values are one of FALSE and TRUE."""
    base = datatype(c).dtype
    names = []
    for _ in range(count):
        begin, name = c.at, bytearray()
        while letter := c.number(1):
            name.append(letter)
        if version < 3:
            c.take(-(c.at - begin) % 8)
        names.append(bytes(name))
    if names == [b"FALSE", b"TRUE"] and base.itemsize == 1 and bytes(c.take(2)) == b"\0\1":
        return Datatype(np.dtype(bool))
    return Datatype(base)


def shape_of(c: Cursor) -> tuple[int, ...] | None:
    """The shape that a message describes; None where there are no elements at all."""
    version, rank = c.number(1), c.number(1)
    if version not in (1, 2) or rank > MOST_AXES:
        raise damaged(f"the shape before byte {c.at} is none")
    c.take(1)  # whether largest extents follow, which say nothing of what is there
    kind = c.number(1)
    if version == 1:
        c.take(4)
    elif kind == 2:
        return None
    shape = tuple([c.length() for _ in range(rank)])
    if any([n >> 62 for n in shape]):
        raise damaged(f"a shape before byte {c.at} is {' x '.join(map(str, shape))}")
    return shape


def size_of(kind: Datatype, shape: tuple[int, ...]) -> int:
    """Bytes of a tensor."""
    return math.prod(shape) * kind.dtype.itemsize


def attribute(c: Cursor) -> tuple[str, Cursor]:
    """The name that a message of an attribute says, and where its value's type begins (see `value_of`)."""
    begin = Cursor(c.source, c.at, c.end)
    version = c.number(1)
    if version not in (1, 2, 3):
        raise damaged(f"the attribute at byte {begin.at} is of version {version}")
    c.take(1)
    size = c.number(2)
    c.take(4 + (version == 3))
    return _text(bytes(c.take(size))), begin


def value_of(c: Cursor) -> Any:
    """The value of an attribute: a string, a number, or an array of them; None if it is empty."""
    version, flags = c.number(1), c.number(1)
    sizes = [c.number(2) for _ in range(3)]
    c.take(version == 3)
    if version > 1 and flags:
        raise not_read("types that several attributes share")
    padding = 8 if version == 1 else 1
    _, kind_part, shape_part = [c.part(-(-s // padding) * padding) for s in sizes]
    kind, shape = datatype(kind_part), shape_of(shape_part)
    if shape is None:
        return None
    found = array_of(kind, shape, c.take(size_of(kind, shape)))
    if kind.text:
        found = strings(c.source, found)
    return found if shape else found[()]


def array_of(kind: Datatype, shape: tuple[int, ...], data: memoryview) -> np.ndarray[Any, Any]:
    """Elements as they lie in the file, not copied."""
    return np.frombuffer(data, kind.dtype, math.prod(shape)).reshape(shape)


def strings(source: Source, places: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """The strings that elements name by length, address of a heap, and number in it."""
    found = np.empty(places.shape, object)
    for at, place in np.ndenumerate(places):
        c = Cursor(Source(memoryview(place.tobytes())), 0, places.itemsize)
        c.source.offset_size = source.offset_size
        size, heap, index = c.number(4), c.place("a string"), c.number(4)
        data = heap_object(source, heap, index) if heap else memoryview(b"")
        if len(data) != size and heap:
            raise damaged(f"a string of {size} bytes has {len(data)} in its heap at byte {heap}")
        found[at] = _text(bytes(data))
    return found


def _text(data: bytes) -> str:
    return data.partition(b"\0")[0].decode(errors="surrogateescape")
