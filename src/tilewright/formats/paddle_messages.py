"""Programs of PaddlePaddle: their messages, and the tensors of their files of parameters."""

from __future__ import annotations

import os
import struct
from typing import Any

import ml_dtypes
import numpy as np

from tilewright.formats.files import readable
from tilewright.formats.protobuf import message_class
from tilewright.support.errors import ModelError

PACKAGE = "tilewright.paddle"
Message = Any
"""A message of PaddlePaddle's format: a program, a variable, an operator or an attribute."""
MESSAGES: dict[str, str] = {
    "ProgramDesc": "blocks 1 *BlockDesc",
    "BlockDesc": "idx 1 int32; parent_idx 2 int32; vars 3 *VarDesc; ops 4 *OpDesc",
    "VarDesc": "name 1 string; type 2 VarType; persistable 3 bool",
    "VarType": "type 1 int32; lod_tensor 3 LoDTensorDesc",
    "LoDTensorDesc": "tensor 1 TensorDesc; lod_level 2 int32",
    "TensorDesc": "data_type 1 int32; dims 2 *int64",
    "OpDesc": "inputs 1 *OpVar; outputs 2 *OpVar; type 3 string; attrs 4 *OpAttr",
    "OpVar": "parameter 1 string; arguments 2 *string",
    "OpAttr": "name 1 string; type 2 int32; i 3 ?int32; f 4 ?float; s 5 ?string; ints 6 *int32; floats 7 *float; strings 8 *string;"
    " b 10 ?bool; bools 11 *bool; block_idx 12 ?int32; l 13 ?int64; longs 15 *int64; float64s 16 *double; float64 19 ?double;"
    " scalar 20 Scalar; scalars 21 *Scalar",
    "Scalar": "type 1 int32; b 2 ?bool; i 3 ?int64; r 4 ?double",
}
"""Fields of each message, as `formats.protobuf` takes them."""
TYPES: dict[int, Any] = {
    0: np.bool_, 1: np.int16, 2: np.int32, 3: np.int64, 4: np.float16, 5: np.float32, 6: np.float64, 20: np.uint8, 21: np.int8,
    22: ml_dtypes.bfloat16,
}  # fmt: skip
"""Element types by their numbers in VarType."""
TENSOR = 7
"""The number of the kind of variables that are tensors."""


def message(name: str) -> Any:
    """The class of a message: message("ProgramDesc")()."""
    return message_class(PACKAGE, name, MESSAGES)


def type_name(number: int) -> str:
    """The name of an element type. Raises ValueError for a number that is none."""
    if number not in TYPES:
        raise ValueError(f"an element type has the number {number}, which tensors of numbers do not have")
    name: str = np.dtype(TYPES[number]).name
    return name


def scalar(value: Message) -> Any:
    """A number in an attribute."""
    return next((getattr(value, key) for key in ("b", "i", "r") if value.HasField(key)), 0)


def attributes(op: Message) -> dict[str, Any]:
    """The attributes of an operator by name."""
    found: dict[str, Any] = {}
    for a in op.attrs:
        single = next(
            (getattr(a, key) for key in ("i", "f", "s", "b", "l", "float64", "block_idx") if a.HasField(key)), None
        )
        if a.HasField("scalar"):
            single = scalar(a.scalar)
        several = next(
            (
                list(getattr(a, key))
                for key in ("ints", "floats", "strings", "bools", "longs", "float64s")
                if len(getattr(a, key))
            ),
            [],
        )
        several = [scalar(v) for v in a.scalars] or several
        found[a.name] = several if single is None else single
    return found


def load_tensors(path: str | os.PathLike[str], names: list[str]) -> dict[str, np.ndarray]:
    """The tensors of a file of parameters, which has them in the order of these names. Raises ModelError for a file that does not."""
    with readable(path) as file:
        data = memoryview(file.read_bytes())
    found: dict[str, np.ndarray] = {}
    at = 0
    try:
        for name in names:
            found[name], at = _tensor(data, at)
    except (struct.error, ValueError) as error:
        raise ModelError(
            f"{os.fspath(path)}: the tensor {name!r} cannot be read: the file is cut off, or of another model ({error})"
        ) from error
    if at != len(data):
        raise ModelError(
            f"{os.fspath(path)}: {len(data) - at} bytes follow the last tensor: the file is of another model"
        )
    return found


def _tensor(data: memoryview, at: int) -> tuple[np.ndarray, int]:
    """A tensor and where the next one begins: a version, levels of detail, a version, a description, elements."""
    _, levels = struct.unpack_from("<IQ", data, at)
    at += 12
    for _ in range(levels):
        (size,) = struct.unpack_from("<Q", data, at)
        at += 8 + size
        if at > len(data):
            raise ValueError("it ends too early")
    _, size = struct.unpack_from("<Ii", data, at)
    at += 8
    desc = message("TensorDesc")()
    if size < 0 or at + size > len(data):
        raise ValueError("it ends too early")
    try:
        desc.ParseFromString(bytes(data[at : at + size]))
    except Exception as error:  # protobuf's own exception is none of Python's
        raise ValueError(str(error)) from error
    at += size
    kind = np.dtype(TYPES[desc.data_type]) if desc.data_type in TYPES else None
    if kind is None:
        raise ValueError(f"its element type has the number {desc.data_type}")
    count = int(np.prod(list(desc.dims), dtype=object)) if len(desc.dims) else 1
    end = at + count * kind.itemsize
    if count < 0 or end > len(data):
        raise ValueError("it ends too early")
    return np.frombuffer(data[at:end], kind).reshape(list(desc.dims)), end
