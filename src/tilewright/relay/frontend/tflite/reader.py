"""Opening of TFLite models: files (mapped), bytes, the schema's own Model objects, and the elements of their tensors."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np

from tilewright.formats.flatbuffer import Damaged, FlatBuffer, Record
from tilewright.formats.tflite_schema import IDENTIFIER, OPERATORS, TYPES
from tilewright.runtime.host_functions.strings import CARRIER, string_table
from tilewright.support.errors import ModelError, OpNotImplemented

VERSION = 3
DTYPES: dict[str, Any] = {
    "FLOAT32": np.float32, "FLOAT16": np.float16, "FLOAT64": np.float64, "BFLOAT16": ml_dtypes.bfloat16, "INT8": np.int8,
    "INT16": np.int16, "INT32": np.int32, "INT64": np.int64, "UINT8": np.uint8, "UINT16": np.uint16, "UINT32": np.uint32,
    "UINT64": np.uint64, "BOOL": np.bool_, "COMPLEX64": np.complex64, "COMPLEX128": np.complex128,
    "FLOAT8_E4M3FN": ml_dtypes.float8_e4m3fn, "FLOAT8_E5M2": ml_dtypes.float8_e5m2, "INT4": np.int8, "UINT4": np.uint8, "INT2": np.int8,
}  # fmt: skip
"""Element type -> NumPy type of its elements. Numbers below one byte are widened to one."""
BITS = {"INT4": 4, "UINT4": 4, "INT2": 2}
MOST_DENSE = 1 << 31
"""The size limit in bytes of the dense form of a sparse tensor."""


class TFLiteModel:
    """An opened model. `name` is its name in messages, `root` the schema's Model, `data` all bytes of the file."""

    def __init__(self, root: Record, name: str, data: Any, folder: Path) -> None:
        self.root, self.name, self.data, self.folder = root, name, data, folder

    def operator_name(self, op: Record) -> tuple[str, str]:
        """(name of the builtin operator, "CUSTOM" or "UNKNOWN"; name of a custom operator, or the code of an unknown one)."""
        code = self.item(self.root.operator_codes, op.opcode_index, "operator code")
        # Files before schema 3a have only the first number.
        number = max(int(code.builtin_code), int(code.deprecated_builtin_code))
        if not 0 <= number < len(OPERATORS):
            return "UNKNOWN", f"operator number {number}, of a newer schema"
        return OPERATORS[number], code.custom_code or ""

    def version_of(self, op: Record) -> int:
        """The operator's version in the model."""
        return int(self.item(self.root.operator_codes, op.opcode_index, "operator code").version)

    def item(self, items: Any, index: int, what: str) -> Any:
        """An element of a list of the model. Raises ModelError if the index is out of range."""
        if not 0 <= int(index) < len(items):
            raise ModelError(f"{self.name}: it names {what} {int(index)}, but has {len(items)}. {REMEDY}")
        return items[int(index)]

    def content(self, tensor: Record) -> np.ndarray[Any, Any] | None:
        """The bytes of a tensor's elements; None for a tensor without a buffer. Mapped, not copied. Raises ModelError."""
        if tensor.external_buffer:
            return self.external(tensor)
        if not tensor.buffer:
            return None
        buffer = self.item(self.root.buffers, tensor.buffer, "buffer")
        if len(buffer.data):
            data: np.ndarray[Any, Any] = buffer.data
            return data
        if buffer.offset > 1:
            # Models above 2 GB have their weights after the flatbuffer.
            return self.bytes_at(int(buffer.offset), int(buffer.size), f"the buffer of {tensor.name!r}")
        return None

    def bytes_at(self, offset: int, size: int, what: str) -> np.ndarray:
        """A range of bytes of the file."""
        if offset + size > len(self.data):
            raise ModelError(
                f"{self.name}: {what} needs bytes {offset} to {offset + size}, but there are {len(self.data)}."
                " The file is truncated; copy it again"
            )
        return np.frombuffer(self.data, np.uint8, size, offset)

    def external(self, tensor: Record) -> np.ndarray[Any, Any]:
        """Elements in a separate file beside the model."""
        where = next((b for b in self.root.external_buffers if b.id == tensor.external_buffer), None)
        if where is None:
            raise ModelError(
                f"{self.name}: the tensor {tensor.name!r} names external buffer {tensor.external_buffer}, which the model does not have."
                f" {REMEDY}"
            )
        group = self.item(self.root.external_buffer_groups, where.group, "external buffer group").name or ""
        path = (self.folder / group).resolve()
        if not group or not path.is_relative_to(self.folder.resolve()):
            raise ModelError(
                f"{self.name}: the tensor {tensor.name!r} points to the file {group!r} outside the model's folder, which is not read."
                " Keep the weights beside the model"
            )
        if not path.is_file():
            raise ModelError(
                f"{self.name}: the elements of {tensor.name!r} lie in {group!r}, which is not in {self.folder.resolve()}."
                " Copy that file beside the model, and give the model's path"
            )
        size, _ = byte_count(tensor)
        if path.stat().st_size < where.offset + size:
            raise ModelError(
                f"{self.name}: the elements of {tensor.name!r} need bytes {where.offset} to {where.offset + size} of {group!r}, which has"
                f" {path.stat().st_size}. The file is truncated; copy it again"
            )
        return np.memmap(path, np.uint8, "r", int(where.offset), (size,)) if size else np.zeros(0, np.uint8)

    def array(self, tensor: Record) -> np.ndarray | None:
        """The elements of a constant tensor; None for others. Raises ModelError or OpNotImplemented."""
        content = self.content(tensor)
        if content is None:
            return None
        kind = type_name(tensor)
        if kind == "STRING":
            return self.strings(tensor, content)
        if kind not in DTYPES:
            raise OpNotImplemented(f"the tensor {tensor.name!r} is of type {kind}; tensors of numbers are supported")
        if tensor.sparsity is not None:
            return self.dense(tensor, content)
        shape = shape_of(tensor)
        size, count = byte_count(tensor)
        # A wrong type or shape usually makes the elements too large for the buffer.
        if not size <= len(content) < max(min(2 * size, size + PADDING), 1 + size) or min(shape, default=0) < 0:
            raise ModelError(
                f"{self.name}: the tensor {tensor.name!r} of shape {shape} and type {kind} needs {size} bytes, but its buffer holds"
                f" {len(content)}. {REMEDY}"
            )
        return elements(content[:size], kind, count).reshape(shape)

    def strings(self, tensor: Record, content: np.ndarray[Any, Any]) -> np.ndarray:
        """The numbers of a tensor of strings. Its buffer has their count, the begin of each and the end of the last, then the strings."""
        shape, data = shape_of(tensor), content.tobytes()
        count = int.from_bytes(data[:4], "little", signed=True)
        ends = (
            np.frombuffer(data[4 : 8 + 4 * count], np.int32) if 0 <= count <= len(data) // 4 else np.zeros(0, np.int32)
        )
        fits = len(ends) == count + 1 and (np.diff(ends) >= 0).all() and ends[0] >= 0 and ends[-1] <= len(data)
        if not fits or int(np.prod([max(d, 0) for d in shape], dtype=object)) != count:
            raise ModelError(
                f"{self.name}: the strings of the tensor {tensor.name!r} of shape {shape} do not lie in its {len(data)} bytes. {REMEDY}"
            )
        found = np.empty(count, object)
        found[:] = [data[a:b] for a, b in zip(ends.tolist(), ends[1:].tolist(), strict=False)]
        return string_table.encode(found, keep=True).reshape(shape)

    def dense(self, tensor: Record, content: np.ndarray[Any, Any]) -> np.ndarray:
        """The dense form of a sparse tensor."""
        from tilewright.relay.frontend.tflite.sparse import dense_array

        shape, kind = shape_of(tensor), type_name(tensor)
        total = int(np.prod([max(d, 0) for d in shape], dtype=object)) * np.dtype(DTYPES[kind]).itemsize
        if total > MOST_DENSE:
            raise ModelError(
                f"{self.name}: the sparse tensor {tensor.name!r} of shape {shape} would take {total} bytes. {REMEDY}"
            )
        values = elements(content, kind, len(content) * 8 // bits_of(kind))
        try:
            return dense_array(tensor.sparsity, shape, values)
        except (IndexError, ValueError) as error:
            raise ModelError(f"{self.name}: the sparse tensor {tensor.name!r}: {error}. {REMEDY}") from None


PADDING = 16
"""The largest number of bytes after the elements of a buffer, since buffers begin at multiples of this number."""
REMEDY = "The file is damaged; copy or convert it again"


def type_name(tensor: Record) -> str:
    """The schema's name of a tensor's element type."""
    return TYPES[tensor.type] if 0 <= tensor.type < len(TYPES) else f"number {tensor.type}"


def dtype_of(kind: str) -> str:
    """The dtype of elements of a type; strings are numbers."""
    return CARRIER if kind == "STRING" else np.dtype(DTYPES[kind]).name if kind in DTYPES else kind.lower()


def shape_of(tensor: Record) -> tuple[int, ...]:
    """A tensor's declared shape."""
    return tuple([int(d) for d in tensor.shape])


def bits_of(kind: str) -> int:
    """Bits of an element in a buffer."""
    return BITS.get(kind) or int(np.dtype(DTYPES[kind]).itemsize) * 8


def byte_count(tensor: Record) -> tuple[int, int]:
    """(bytes, elements) of a tensor."""
    count = int(np.prod([max(d, 0) for d in shape_of(tensor)], dtype=object))
    return -(-count * bits_of(type_name(tensor)) // 8), count


def elements(content: np.ndarray[Any, Any], kind: str, count: int) -> np.ndarray:
    """Bytes as elements of a type. Elements that share a byte are stored with the lowest bits first."""
    if kind not in BITS:
        made: np.ndarray[Any, Any] = content.view(DTYPES[kind])[:count]
        return made
    bits = BITS[kind]
    parts = np.stack([content >> shift for shift in range(0, 8, bits)], -1).reshape(-1)[:count]
    if kind.startswith("U"):
        return parts & np.uint8((1 << bits) - 1)
    return (parts << np.uint8(8 - bits)).astype(np.uint8).view(np.int8) >> np.int8(8 - bits)


def read_model(source: Any) -> TFLiteModel:
    """An opened model from a path, bytes, or an object of the schema's Model class. Raises ModelError."""
    folder, place = Path(), None
    if isinstance(source, TFLiteModel):
        return source
    if isinstance(source, (str, os.PathLike)):
        path = Path(source)
        if not path.is_file():
            raise ModelError(f"{path}: there is no such file. Give the path of a .tflite file")
        name, folder = str(path), path.parent
        data: Any = np.memmap(path, np.uint8, "r").data if path.stat().st_size else memoryview(b"")
    elif isinstance(source, (bytes, bytearray, memoryview)):
        name, data = "the given bytes", memoryview(source).cast("B")
    elif hasattr(source, "_tab"):
        # tflite.Model, or a class generated from the schema: its bytes, and the offset of its table.
        name, data, place = "the model", memoryview(source._tab.Bytes).cast("B"), int(source._tab.Pos)
    elif hasattr(source, "Model"):
        return read_model(source.Model)
    else:
        raise TypeError(f"from_tflite takes a path, bytes or a tflite.Model, but was given {type(source).__name__}")
    if place is None and bytes(data[4:8]) != IDENTIFIER:
        raise ModelError(
            f"{name}: this is no TFLite model: its {len(data)} bytes do not begin with the mark {IDENTIFIER.decode()} at byte 4."
            " Give what tf.lite.TFLiteConverter wrote"
        )
    try:
        buffer = FlatBuffer(data)
        model = buffer.read("Model") if place is None else buffer.table("Model", place, "Model")
    except Damaged as error:
        raise ModelError(
            f"{name}: this TFLite model is truncated or damaged: {error}. Copy or convert it again"
        ) from None
    if model.version != VERSION:
        raise ModelError(f"{name}: the model is of schema version {model.version}; version {VERSION} is supported")
    if not model.subgraphs:
        raise ModelError(f"{name}: the model has no subgraphs. {REMEDY}")
    return TFLiteModel(model, name, data, folder)
