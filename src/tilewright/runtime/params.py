"""Parameters as bytes, in the layout of classic TVM's parameter files."""

from __future__ import annotations

import os
import struct
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from tilewright.runtime.dtype import dtype_name, item_bytes
from tilewright.runtime.ndarray import NDArray, array, empty
from tilewright.support.files import write_whole

_LIST_MAGIC = 0xF7E58D4F05049CB7
_ARRAY_MAGIC = 0xDD5E40F096B4A13F


def save_param_dict(params: Mapping[str, Any]) -> bytes:
    """Bytes of named arrays."""
    names = list(params)
    out = [struct.pack("<QQQ", _LIST_MAGIC, 0, len(names))]
    for name in names:
        raw = name.encode()
        out.append(struct.pack("<Q", len(raw)) + raw)
    out.append(struct.pack("<Q", len(names)))
    for name in names:
        value = params[name] if isinstance(params[name], NDArray) else array(params[name])
        code, bits, lanes = value.dtype_code
        data = value.numpy().tobytes()
        out.append(struct.pack("<QQiiiBBH", _ARRAY_MAGIC, 0, 1, 0, len(value.shape), code, bits, lanes))
        out.append(struct.pack(f"<{len(value.shape)}q", *value.shape))
        out.append(struct.pack("<q", len(data)))
        out.append(data)
    return b"".join(out)


class _Reader:
    def __init__(self, data: bytes) -> None:
        self.data, self.at = data, 0

    def take(self, pattern: str) -> tuple[Any, ...]:
        size = struct.calcsize(pattern)
        return struct.unpack(pattern, self.bytes(size))

    def bytes(self, size: int) -> bytes:
        if size < 0 or self.at + size > len(self.data):
            raise ValueError(
                f"the parameters end at byte {len(self.data)}, inside a value: the file is truncated or damaged"
            )
        self.at += size
        return self.data[self.at - size : self.at]


def load_param_dict(param_bytes: bytes | bytearray) -> dict[str, NDArray]:
    """Named arrays from bytes; ValueError when they are damaged."""
    reader = _Reader(bytes(param_bytes))
    magic, _, count = reader.take("<QQQ")
    if magic != _LIST_MAGIC:
        raise ValueError("these bytes are no parameter file: they do not begin with its magic number")
    names = [reader.bytes(reader.take("<Q")[0]).decode() for _ in range(count)]
    (arrays,) = reader.take("<Q")
    if arrays != count:
        raise ValueError(f"the parameter file is damaged: it has {count} names but {arrays} arrays")
    return {name: _read_array(reader) for name in names}


def save_param_dict_to_file(params: Mapping[str, Any], path: str | os.PathLike[str]) -> None:
    """Writes named arrays to a file."""
    write_whole(path, save_param_dict(params))


def load_param_dict_from_file(path: str | os.PathLike[str]) -> dict[str, NDArray]:
    """Named arrays from a file; ValueError when it is damaged."""
    return load_param_dict(Path(path).read_bytes())


def _read_array(reader: _Reader) -> NDArray:
    magic, _, _, _, ndim, code, bits, lanes = reader.take("<QQiiiBBH")
    if magic != _ARRAY_MAGIC or not 0 <= ndim <= 32:
        raise ValueError(f"the parameter file is damaged at byte {reader.at}: no array begins there")
    shape = reader.take(f"<{ndim}q")
    (size,) = reader.take("<q")
    expected = int(np.prod(shape, dtype=np.int64)) * item_bytes((code, bits, lanes))
    if size != expected:
        raise ValueError(
            f"the parameter file is damaged: an array of shape {shape} has {size} bytes instead of {expected}"
        )
    result = empty(shape, dtype_name(code, bits, lanes))
    values = np.frombuffer(reader.bytes(size), dtype=result._numpy_dtype())
    return result.copyfrom(values.reshape(shape if lanes == 1 else (*shape, lanes)))
