"""TensorFlow's tensors and shapes as NumPy arrays and lists."""

from __future__ import annotations

import numpy as np

from tilewright.formats.tensorflow_messages import Message, dtype_name
from tilewright.node.field_values import numpy_dtype
from tilewright.support.errors import ModelError

FIELDS = {
    "float32": "float_val", "float64": "double_val", "int32": "int_val", "int16": "int_val", "int8": "int_val", "uint8": "int_val",
    "uint16": "int_val", "int64": "int64_val", "bool": "bool_val", "float16": "half_val", "bfloat16": "half_val", "uint32": "uint32_val",
    "uint64": "uint64_val", "string": "string_val", "complex64": "scomplex_val", "complex128": "dcomplex_val",
}  # fmt: skip
"""Element type -> the field with the elements of a tensor that is stored value by value."""
MOST_BYTES = 1 << 31
"""The size limit in bytes of a tensor that is stored as one element."""


def shape_of(proto: Message) -> list[int] | None:
    """Extents, with -1 for dynamic ones; None for an unknown rank."""
    if proto.unknown_rank:
        return None
    return [int(d.size) for d in proto.dim]


def tensor_array(proto: Message, name: str) -> np.ndarray:
    """The elements of a TensorProto; not copied if they are bytes. Raises ModelError."""
    kind, shape = dtype_name(proto.dtype), shape_of(proto.tensor_shape) or []
    if kind not in FIELDS:
        raise ModelError(f"the constant {name!r} has elements of {kind}, which have no values")
    if any([d < 0 for d in shape]):
        raise ModelError(
            f"the constant {name!r} has the shape {tuple(shape)}. The file is damaged; export the model again"
        )
    count = int(np.prod(shape, dtype=object)) if shape else 1
    values = getattr(proto, FIELDS[kind])
    if kind == "string":
        out = np.empty(len(values), object)
        out[:] = list(values)
    elif proto.tensor_content:
        dtype = numpy_dtype(kind)
        if len(proto.tensor_content) != count * dtype.itemsize:
            raise ModelError(
                f"the constant {name!r} of shape {tuple(shape)} and dtype {kind} needs {count * dtype.itemsize} bytes, but holds"
                f" {len(proto.tensor_content)}. The file is damaged; copy or export it again"
            )
        return np.frombuffer(proto.tensor_content, dtype).reshape(shape)
    elif kind in ("float16", "bfloat16"):
        out = np.array(values, np.uint16).view(numpy_dtype(kind))
    elif kind.startswith("complex"):
        out = np.array(values, np.float64)[0::2] + 1j * np.array(values, np.float64)[1::2]
        out = out.astype(numpy_dtype(kind))
    else:
        out = np.array(values, numpy_dtype(kind))
    if len(out) == count:
        return out.reshape(shape)
    if len(out) > count or count * 8 > MOST_BYTES:
        raise ModelError(
            f"the constant {name!r} of shape {tuple(shape)} holds {len(out)} values. The file is damaged; export the model again"
        )
    # Omitted elements repeat the last value; the default is 0.
    filled = np.empty(count, out.dtype)
    filled[: len(out)] = out
    filled[len(out) :] = out[-1] if len(out) else (b"" if kind == "string" else 0)
    return filled.reshape(shape)
