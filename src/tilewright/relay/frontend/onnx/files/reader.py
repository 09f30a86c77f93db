"""Opening of ONNX models: files, bytes or ModelProto, with their external data, and clear errors for missing parts."""

from __future__ import annotations

import io
import math
import os
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np

from tilewright.formats.onnx_messages import Message, attribute_value, messages, numpy_type
from tilewright.relay.frontend.onnx import compatibility
from tilewright.relay.frontend.onnx.files.external import WeightFolders, short
from tilewright.relay.frontend.onnx.files.weights import Weights, split_model
from tilewright.support.errors import ModelError as ModelError
from tilewright.support.errors import OpNotImplemented, said

OLDEST_OPSET, NEWEST_OPSET = 1, 28
PACKED_BITS = {"int4": 4, "uint4": 4, "float4_e2m1fn": 4, "int2": 2, "uint2": 2}
"""Bits of the elements that are packed in bytes."""
MOST_DENSE = 1 << 32
"""The largest size in bytes of a dense array of a sparse weight."""


def read_model(source: Any) -> tuple[Any, str, WeightFolders, Weights]:
    """(ModelProto, name in messages, folders of external data, initializer's name -> values that the ModelProto lacks) of
    a path, bytes or ModelProto. Raises ModelError."""
    if isinstance(source, (str, os.PathLike)):
        path = Path(source)
        if not path.is_file():
            what = "this is a folder" if path.is_dir() else "there is no such file"
            raise ModelError(f"{path}: {what}. Give the path of an .onnx file")
        name, folder, size = str(path), WeightFolders(path.parent, path), path.stat().st_size
        with path.open("rb") as file, ThreadPoolExecutor(1) as background:
            # Imports of the message classes overlap with two other threads that wait for memory.
            parts = background.submit(split_model, file, size)
            messages()
            data, weights = parts.result()
    elif isinstance(source, (bytes, bytearray, memoryview)):
        name, folder, size = "the given bytes", WeightFolders(), memoryview(source).nbytes
        data, weights = split_model(io.BytesIO(source), size)
    else:
        if not isinstance(source, messages().ModelProto):
            raise TypeError(
                f"from_onnx takes an onnx.ModelProto, a path or bytes, but was given {type(source).__name__}"
            )
        return source, f"model {source.graph.name!r}" if source.graph.name else "the model", WeightFolders(), {}
    model = messages().ModelProto()
    try:
        model.ParseFromString(data)
    except Exception as error:
        raise ModelError(
            f"{name}: this is no ONNX model, or a truncated one: its {size} bytes do not parse ({said(error)})."
            " Compare its size with the original's, and copy or export it again"
        ) from None
    if not model.opset_import and not model.graph.node:
        raise ModelError(
            f"{name}: this is no ONNX model: its {size} bytes hold neither an operator set nor a graph."
            " Give a file that onnx.checker.check_model accepts"
        )
    return model, name, folder, weights


def opset_versions(model: Any, name: str, given: int | None = None) -> dict[str, int]:
    """The version of each operator domain that a model uses; ONNX's own domain is "" (`given` overrides it). Raises ModelError or
    OpNotImplemented outside of the supported range."""
    found = {"" if o.domain == "ai.onnx" else o.domain: int(o.version) for o in model.opset_import}
    for f in model.functions:
        for o in f.opset_import:
            found.setdefault("" if o.domain == "ai.onnx" else o.domain, int(o.version))
    if given is not None:
        found[""] = given
    if "" not in found:
        if not any([n.domain in ("", "ai.onnx") for n in model.graph.node]):
            return {"": NEWEST_OPSET, **found}
        raise ModelError(
            f"{name}: the model does not say which ONNX operator set it uses (opset_import has no default domain)."
            " Export it again, or add onnx.helper.make_opsetid('', 17)"
        )
    if not OLDEST_OPSET <= found[""] <= NEWEST_OPSET:
        raise OpNotImplemented(
            f"{name}: the model uses opset {found['']}; opsets {OLDEST_OPSET} to {NEWEST_OPSET} are supported."
            " Convert it: onnx.version_converter.convert_version(model, 17)"
        )
    return found


def tensor_array(t: Any, folder: WeightFolders, name: str, values: np.ndarray | None = None) -> np.ndarray:
    """The values of a TensorProto. Raw and external data are mapped, not copied. `values`: its raw data, if it was read
    separately. Raises ModelError."""
    kinds = messages().TensorProto
    shape = tuple(t.dims)
    if any([d < 0 for d in shape]):
        raise ModelError(
            f"{name}: the tensor {t.name!r} has the shape {shape}, and no extent can be negative. The file is damaged;"
            " export the model again"
        )
    if t.data_type not in kinds.DataType.values():
        raise ModelError(
            f"{name}: the tensor {t.name!r} has elements of type {t.data_type}, which ONNX does not define. The file is damaged, or"
            " of a later version; export the model again"
        )
    if t.data_location == kinds.EXTERNAL:
        compatibility.EXTERNAL_DATA.seen(t.name)
        return _external(t, shape, folder, name)
    packed = [getattr(kinds, n, -1) for n in ("STRING", "UINT4", "INT4", "FLOAT4E2M1", "UINT2", "INT2")]
    if values is not None and t.data_type in packed:
        t.raw_data, values = values.tobytes(), None
    if values is not None or (t.HasField("raw_data") and t.data_type not in packed):
        dtype = numpy_type(t.data_type)
        raw = values if values is not None else t.raw_data
        count = element_count(shape)
        if len(raw) != count * dtype.itemsize:
            raise ModelError(
                f"{name}: the tensor {t.name!r} of shape {shape} and dtype {dtype} needs {count * dtype.itemsize} bytes,"
                f" but holds {len(raw)}. The file is damaged; copy or export it again"
            )
        return np.frombuffer(raw, dtype).reshape(shape)
    from onnx import numpy_helper

    try:
        return np.asarray(numpy_helper.to_array(t))
    except Exception as error:
        raise ModelError(
            f"{name}: the tensor {t.name!r} of shape {shape} cannot be read ({said(error)}). Export the model again"
        ) from None


def sparse_array(s: Any, folder: WeightFolders, name: str) -> np.ndarray:
    """The dense values of a SparseTensorProto. Raises ModelError."""
    shape = tuple(s.dims)
    values = tensor_array(s.values, folder, name).reshape(-1)
    places = tensor_array(s.indices, folder, name)
    count = element_count(shape)
    why = "no extent can be negative" if any([d < 0 for d in shape]) else ""
    if count * values.dtype.itemsize > MOST_DENSE:
        why = why or f"would take more than {MOST_DENSE} bytes"
    if why:
        raise ModelError(
            f"{name}: the sparse tensor {s.values.name!r} has the shape {shape}, which is made dense, but {why}. Is the file damaged?"
        )
    flat = places if places.ndim == 1 else np.ravel_multi_index(tuple(places.T), shape)
    if len(flat) != len(values) or len(flat) and not (flat.min() >= 0 and flat.max() < count):
        raise ModelError(
            f"{name}: the sparse tensor {s.values.name!r} of shape {shape} has {len(values)} values and the places"
            f" {places.tolist()[:8]}. The file is damaged; export the model again"
        )
    dense = np.zeros(count, values.dtype)
    dense[flat] = values
    return dense.reshape(shape)


def attributes_of(proto: Message, folder: WeightFolders, name: str) -> dict[str, Any]:
    """The attributes of a node as Python values: tensors as arrays, graphs unchanged."""
    kinds = messages().AttributeProto
    result: dict[str, Any] = {}
    for a in proto.attribute:
        if a.type == kinds.TENSOR:
            result[a.name] = tensor_array(a.t, folder, name)
        elif a.type == kinds.SPARSE_TENSOR:
            result[a.name] = sparse_array(a.sparse_tensor, folder, name)
        else:
            value = attribute_value(a)
            if isinstance(value, list) and value and isinstance(value[0], bytes):
                value = [v.decode() for v in value]
            result[a.name] = value.decode() if isinstance(value, bytes) else value
    return result


def _external(t: Any, shape: tuple[int, ...], folder: WeightFolders, name: str) -> np.ndarray:
    kinds = messages().TensorProto
    entries = {e.key: e.value for e in t.external_data}
    location = entries.get("location", "")
    path = folder.find(location, t.name, name)
    if t.data_type in (kinds.STRING, kinds.UNDEFINED):
        raise ModelError(
            f"{name}: the values of {t.name!r} are strings or of no type, and lie in {short(location)}; only numbers can."
            " Export the model again"
        )
    dtype = numpy_type(t.data_type)
    bits = PACKED_BITS.get(dtype.name, 8 * dtype.itemsize)
    count = element_count(shape)
    needed = -(-count * bits // 8)
    offset = _external_number(entries, "offset", 0, t, name)
    length = _external_number(entries, "length", needed, t, name)
    if length != needed:
        raise ModelError(
            f"{name}: the values of {t.name!r} of shape {shape} and dtype {dtype} take {needed} bytes, but the model says"
            f" that {length} bytes of {short(location)} hold them. The file is damaged; export the model again"
        )
    if path.stat().st_size < offset + needed:
        raise ModelError(
            f"{name}: the values of {t.name!r} need bytes {offset} to {offset + needed} of {short(location)}, which has"
            f" {path.stat().st_size}. The file is truncated; copy it again"
        )
    if needed == 0:
        return np.zeros(shape, dtype)
    if bits < 8:
        # Elements are packed in bytes.
        held = kinds(name=t.name, data_type=t.data_type, dims=shape)
        held.raw_data = np.fromfile(path, np.uint8, needed, offset=offset).tobytes()
        return tensor_array(held, folder, name)
    return (
        np.memmap(path, dtype, "r", offset, shape) if shape else np.fromfile(path, dtype, 1, offset=offset).reshape(())
    )


def _external_number(entries: dict[str, str], key: str, default: int, t: Any, name: str) -> int:
    """An offset or length in a file. Raises ModelError for an invalid number."""
    if key not in entries:
        return default
    text = entries[key]
    if not text.isascii() or not text.isdigit() or len(text) > 18:
        raise ModelError(
            f"{name}: the {key} of the values of {t.name!r} is {short(text)}; it must be a number of bytes. The file is damaged;"
            " export the model again"
        )
    return int(text)


def element_count(shape: Iterable[int]) -> int:
    """The number of elements of a shape, as a Python int, so it cannot overflow."""
    return math.prod([int(d) for d in shape])
