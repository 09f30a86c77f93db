"""Files of named arrays as MXNet writes them (`.params`)."""

from __future__ import annotations

import os
import struct
from typing import Any

import numpy as np

from tilewright.formats.files import readable
from tilewright.support.errors import ModelError

LIST = 0x112
"""The number at the start of a file."""
FIRST, SECOND, THIRD = 0xF993FAC8, 0xF993FAC9, 0xF993FACA
"""The numbers at the start of an array, by the version of its form. Older ones have the number of axes there."""
TYPES = {0: "float32", 1: "float64", 2: "float16", 3: "uint8", 4: "int32", 5: "int8", 6: "int64", 7: "bool"}
"""Element types by their numbers."""


class _Reader:
    def __init__(self, data: bytes) -> None:
        self.data, self.at = memoryview(data), 0

    def take(self, kind: str) -> Any:
        (value,) = struct.unpack_from(f"<{kind}", self.data, self.at)
        self.at += struct.calcsize(f"<{kind}")
        return value

    def bytes(self, count: int) -> memoryview:
        if not 0 <= count <= len(self.data) - self.at:
            raise ValueError("it ends too early")
        self.at += count
        return self.data[self.at - count : self.at]


def load_arrays(path: str | os.PathLike[str]) -> dict[str, np.ndarray]:
    """The arrays of a file by name. Raises ModelError for a file of another kind, and for sparse arrays."""
    with readable(path) as file:
        reader = _Reader(file.read_bytes())
    try:
        if reader.take("Q") != LIST:
            raise ModelError(f"{os.fspath(path)}: this is no file of MXNet's arrays")
        reader.take("Q")
        arrays = [_array(reader) for _ in range(reader.take("Q"))]
        names = [bytes(reader.bytes(reader.take("Q"))).decode() for _ in range(reader.take("Q"))]
    except (struct.error, ValueError) as error:
        raise ModelError(f"{os.fspath(path)}: the file is cut off or damaged ({error})") from error
    return dict(zip(names or map(str, range(len(arrays))), arrays, strict=True))


def _array(reader: _Reader) -> np.ndarray:
    magic = reader.take("I")
    if magic in (SECOND, THIRD) and reader.take("i") != 0:
        raise ModelError("an array of the file is sparse; save dense ones")
    if magic in (FIRST, SECOND, THIRD):
        shape = [reader.take("q") for _ in range(reader.take("I"))]
    else:
        shape = [reader.take("I") for _ in range(magic)]
    if not shape and magic != THIRD:
        return np.zeros(0, np.float32)
    reader.take("q")  # the device
    kind = TYPES.get(reader.take("i"))
    if kind is None:
        raise ValueError("an array has elements of an unknown type")
    count = int(np.prod(shape, dtype=object))
    return np.frombuffer(reader.bytes(count * np.dtype(kind).itemsize), kind).reshape(shape)
