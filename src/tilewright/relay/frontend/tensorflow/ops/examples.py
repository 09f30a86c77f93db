"""Converters of serving inputs: serialised tf.Example messages, serialised tensors, comma-separated lines, compressed strings."""

from __future__ import annotations

import csv
import zlib
from collections.abc import Sequence
from typing import Any

import numpy as np

from tilewright.formats.tensorflow_messages import CODES, message
from tilewright.node.field_values import numpy_dtype
from tilewright.relay.frontend.common.host_calls import host_call, host_call_like, host_call_sized
from tilewright.relay.frontend.common.value import Value
from tilewright.relay.frontend.tensorflow.ops.strings import each
from tilewright.relay.frontend.tensorflow.value import NodeCall, string_op, tf_op
from tilewright.runtime.host_functions.registry import Config
from tilewright.runtime.host_functions.strings import as_bytes, as_string, string_host
from tilewright.support.errors import ModelError, OpNotImplemented

LISTS = {"string": "bytes_list", "float32": "float_list", "int64": "int64_list"}


def _strings_of(x: Any) -> list[str]:
    return [str(v) for v in (x if isinstance(x, (list, tuple)) else [x] if x else [])]


def _names(c: NodeCall, x: Value) -> list[str]:
    from tilewright.runtime.host_functions.strings import string_table

    return [str(t) for t in string_table.decode(c.known(x, "keys")).reshape(-1).tolist()]


@string_op("ParseExample", "ParseExampleV2", "ParseSingleExample")
def _examples(c: NodeCall, serialized: Value, *rest: Value) -> list[Value]:
    """Sparse indices, values and shapes, dense tensors, ragged values and splits of each feature."""
    kinds = {k: c.attr(k) or [] for k in ("sparse_types", "Tdense", "ragged_value_types", "ragged_split_types")}
    shapes = c.attr("dense_shapes") or []
    given = list(rest)
    ragged: list[str] = []
    if c.op == "ParseSingleExample":
        sparse, dense = _strings_of(c.attr("sparse_keys")), _strings_of(c.attr("dense_keys"))
    elif c.op == "ParseExampleV2":
        sparse, dense, ragged = (_names(c, v) for v in given[1:4])
        given = given[4:]
    else:
        n, m = int(c.attr("Nsparse", 0)), int(c.attr("Ndense", 0))
        keys = [_names(c, v)[0] for v in given[1 : 1 + n + m]]
        sparse, dense, given = keys[:n], keys[n:], given[1 + n + m :]
    if ragged:
        raise OpNotImplemented(
            f"it makes ragged tensors ({', '.join(ragged)}); supported: FixedLenFeature and VarLenFeature"
        )
    single = serialized.ndim == 0
    places, values, sizes = [], [], []
    for key, kind in zip(sparse, kinds["sparse_types"], strict=True):
        config = {"key": key, "kind": kind}
        places.append(host_call_sized(c, "tf.example.places", [serialized], 2, "int64", **config))
        values.append(host_call_sized(c, "tf.example.values", [serialized], 1, kind, **config))
        sizes.append(host_call(c, "tf.example.size", [serialized], [1 if single else 2], "int64", **config))
    made = []
    for key, kind, shape, default in zip(dense, kinds["Tdense"], shapes, given, strict=True):
        if shape is None or any([d < 0 for d in shape]):
            raise OpNotImplemented(
                f"the feature {key!r} has the dynamic shape {shape}; supported: known shapes, and VarLenFeature"
            )
        config = {"key": key, "kind": kind, "extents": [int(d) for d in shape]}
        made.append(
            host_call(c, "tf.example.dense", [serialized, default], [*serialized.shape, *shape], kind, **config)
        )
    return [*places, *values, *sizes, *made]


def _features(config: Config, serialized: np.ndarray) -> list[list[Any] | None]:
    """The values of a feature in each example; None if it is missing."""
    found: list[list[Any] | None] = []
    for string in serialized.reshape(-1).tolist():
        example = message("Example")()
        try:
            example.ParseFromString(as_bytes(string))
        except Exception as error:  # protobuf's own exceptions have no common base
            raise ValueError(f"the string is not a tf.Example: {error}") from None
        held = example.features.feature
        if config["key"] not in held:
            found.append(None)
            continue
        feature = held[config["key"]]
        wanted = LISTS[config["kind"]]
        for other in LISTS.values():
            if other != wanted and len(getattr(feature, other).value):
                raise ValueError(f"the feature {config['key']!r} has a {other}; it takes a {wanted}")
        values = list(getattr(feature, wanted).value)
        found.append([as_string(v) for v in values] if config["kind"] == "string" else values)
    return found


def _array(values: Sequence[Any], kind: str) -> np.ndarray:
    out = np.empty(len(values), object if kind == "string" else kind)
    out[:] = values
    return out


@string_host("tf.example.dense")
def _dense(config: Config, serialized: np.ndarray, default: np.ndarray) -> np.ndarray:
    shape = config["extents"]
    count = int(np.prod(shape, dtype=np.int64))
    rows: list[Any] = []
    for values in _features(config, serialized):
        if values is None:
            if not default.size:
                raise ValueError(f"an example has no feature {config['key']!r}, which has no default")
            values = (
                np.broadcast_to(default.reshape(-1), count).tolist()
                if default.size == 1
                else default.reshape(-1).tolist()
            )
        if len(values) != count:
            raise ValueError(
                f"the feature {config['key']!r} has {len(values)} values, not the {count} of the shape {tuple(shape)}"
            )
        rows += values
    return _array(rows, config["kind"]).reshape([*serialized.shape, *shape])


@string_host("tf.example.places", sized=True)
def _places(config: Config, serialized: np.ndarray) -> np.ndarray:
    found = [(b, k) for b, values in enumerate(_features(config, serialized)) for k in range(len(values or ()))]
    at = np.array(found, np.int64).reshape(-1, 2)
    return at if serialized.ndim else at[:, 1:]


@string_host("tf.example.values", sized=True)
def _values(config: Config, serialized: np.ndarray) -> np.ndarray:
    return _array([v for values in _features(config, serialized) for v in values or ()], config["kind"])


@string_host("tf.example.size")
def _size(config: Config, serialized: np.ndarray) -> np.ndarray:
    found = _features(config, serialized)
    longest = max([len(values or ()) for values in found], default=0)
    return np.array([len(found), longest] if serialized.ndim else [longest])


# ---- tensors, lines, compressed strings


@string_op("SerializeTensor")
def _serialize(c: NodeCall, x: Value) -> Value:
    return host_call(c, "tf.SerializeTensor", [x], [], "string")


@string_host("tf.SerializeTensor")
def _run_serialize(config: Config, x: np.ndarray) -> np.ndarray:
    made = message("TensorProto")()
    made.dtype = CODES["string" if x.dtype == object else x.dtype.name]
    made.tensor_shape.SetInParent()
    for d in x.shape:
        made.tensor_shape.dim.add(size=d)
    if x.dtype == object:
        made.string_val.extend([as_bytes(t) for t in x.reshape(-1).tolist()])
    else:
        made.tensor_content = np.ascontiguousarray(x).tobytes()
    return np.array(as_string(made.SerializeToString()), object)


@string_op("DecodeCSV")
def _csv(c: NodeCall, records: Value, *defaults: Value) -> list[Value]:
    picked = c.attr("select_cols") or []
    config: Config = {
        "by": c.attr("field_delim", ","), "quoted": bool(c.attr("use_quote_delim", True)), "missing": c.attr("na_value", ""),
        "fields": len(defaults),
    }  # fmt: skip
    made = []
    for k, default in enumerate(defaults):
        kind = str(c.attr("OUT_TYPE")[k])
        column = int(picked[k]) if picked else k
        given = [records, default]
        made.append(
            host_call(c, "tf.csv", given, records.shape, kind, column=column, kind=kind, all=not picked, **config)
        )
    return made


@string_host("tf.csv")
def _run_csv(config: Config, records: np.ndarray, default: np.ndarray) -> np.ndarray:
    out = np.empty(records.shape, object)
    cells = []
    for k, line in enumerate(records.reshape(-1).tolist()):
        plain = csv.reader([line], delimiter=config["by"], quoting=csv.QUOTE_NONE)
        row = next(csv.reader([line], delimiter=config["by"]) if config["quoted"] else plain, [""])
        if config["all"] and len(row) != config["fields"]:
            raise ValueError(f"the record {k} has {len(row)} fields, not {config['fields']}")
        if config["column"] >= len(row):
            raise ValueError(f"the record {k} has {len(row)} fields, and none {config['column']}")
        cell = row[config["column"]]
        if cell in ("", config["missing"]):
            if not default.size:
                raise ValueError(f"the field {config['column']} of the record {k} is missing, and has no default")
            cells.append(default.reshape(-1)[0])
        else:
            cells.append(cell)
    out.reshape(-1)[:] = cells
    return (
        out
        if config["kind"] == "string"
        else np.array([numpy_dtype(config["kind"]).type(v) for v in cells]).reshape(records.shape)
    )


@string_op("DecodeCompressed")
def _compressed(c: NodeCall, x: Value) -> Value:
    kind = str(c.attr("compression_type", ""))
    if kind not in ("", "ZLIB", "GZIP"):
        raise c.refuse("compression_type", kind, "ZLIB and GZIP")
    return x if not kind else host_call_like(c, "tf.DecodeCompressed", [x], x, "string", kind=kind)


MOST_UNPACKED = 1 << 30
"""The size limit of a decompressed string, in bytes."""


@string_host("tf.DecodeCompressed")
def _run_compressed(config: Config, x: np.ndarray) -> np.ndarray:
    def unpacked(string: str) -> str:
        stream = zlib.decompressobj(31 if config["kind"] == "GZIP" else 15)
        try:
            data = stream.decompress(as_bytes(string), MOST_UNPACKED)
        except zlib.error as error:
            raise ValueError(f"the string is not compressed this way: {error}") from None
        if stream.unconsumed_tail:
            raise ValueError(f"the string is more than {MOST_UNPACKED} bytes long")
        return as_string(data)

    return each(unpacked, x)


@tf_op("DeviceIndex")
def _device(c: NodeCall) -> Value:
    names = _strings_of(c.attr("device_names"))
    if not names:
        raise ModelError("it names no devices")
    return Value(array=np.array(names.index("CPU") if "CPU" in names else len(names), np.int32))
