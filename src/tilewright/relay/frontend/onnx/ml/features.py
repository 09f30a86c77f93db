"""Converters of operators that prepare features."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from tilewright.relay.expr import Expr
from tilewright.relay.frontend.common.builder import MOST_PARTS, need_few
from tilewright.relay.frontend.onnx.ml.common import DOMAIN, plain, rows, table
from tilewright.relay.frontend.onnx.value import MapValue, OnnxNode, Tensor, Value, onnx_op
from tilewright.runtime.host_functions.strings import string_table


@onnx_op("ArrayFeatureExtractor", domain=DOMAIN, typed=True)
def _extract(node: OnnxNode, x: Value, places: Value) -> Value:
    flat = node.call("reshape", places, newshape=(-1,))
    data = plain(x)
    if data.ndim == 1:
        data = node.value("expand_dims", data, axis=0)
    return Value(node.call("take", data, flat, axis=data.ndim - 1, mode="bounded"), kind=x.kind)


@onnx_op("Binarizer", domain=DOMAIN)
def _binarize(node: OnnxNode, x: Value) -> Expr:
    above = node.call("greater", x, node.scalar(node.get("threshold", 0.0), x))
    return node.call("cast", above, dtype=x.dtype)


@onnx_op("FeatureVectorizer", domain=DOMAIN)
def _vectorize(node: OnnxNode, *parts: Value) -> Tensor:
    sizes = node.get("inputdimensions") or [None] * len(parts)
    made = []
    for x, size in zip(parts, sizes, strict=True):
        part = rows(node, node.value("nn.batch_flatten", x) if x.ndim > 2 else x)
        if size is not None and part.shape[1] < size:
            part = node.value("nn.pad", part, node.scalar(0, part), pad_width=((0, 0), (0, size - part.shape[1])))
        elif size is not None and part.shape[1] != size:
            part = node.value("strided_slice", part, begin=(0,), end=(size,), strides=(1,), axes=(1,))
        made.append(part)
    return made[0] if len(made) == 1 else node.call("concatenate", made, axis=1)


@onnx_op("Imputer", domain=DOMAIN)
def _impute(node: OnnxNode, x: Value) -> Expr:
    whole = "int" in x.dtype
    new = np.array(node.get("imputed_value_int64s" if whole else "imputed_value_floats"), x.dtype)
    old = node.get("replaced_value_int64" if whole else "replaced_value_float", 0)
    missing = node.call("isnan", x) if not whole and np.isnan(old) else node.call("equal", x, node.scalar(old, x))
    return node.call("where", missing, Value(array=new), x)


@onnx_op("Normalizer", domain=DOMAIN)
def _normalize(node: OnnxNode, x: Value) -> Expr:
    data, norm = node.cast(x, "float32"), node.get("norm", "MAX")
    axes: dict[str, Any] = {"axis": (-1,), "keepdims": True}
    if norm == "MAX":
        size = node.value("max", data, **axes)
    elif norm == "L1":
        size = node.value("sum", node.call("abs", data), **axes)
    elif norm == "L2":
        size = node.value("sqrt", node.call("sum", node.call("multiply", data, data), **axes))
    else:
        raise node.refuse("norm", norm, "MAX, L1, L2")
    zero = node.call("equal", size, node.scalar(0, size))
    return node.call("divide", data, node.call("where", zero, node.scalar(1, size), size))


@onnx_op("Scaler", domain=DOMAIN)
def _scale(node: OnnxNode, x: Value) -> Any:
    data: Any = node.cast(x, "float32")
    if node.get("offset"):
        data = node.call("subtract", data, Value(array=np.array(node.get("offset"), np.float32)))
    if node.get("scale"):
        data = node.call("multiply", data, Value(array=np.array(node.get("scale"), np.float32)))
    return data


@onnx_op("OneHotEncoder", domain=DOMAIN, typed=True)
def _one_hot(node: OnnxNode, x: Value) -> Expr:
    names = node.get("cats_strings") if x.kind == "string" else node.get("cats_int64s")
    places = plain(x) if x.kind == "string" else node.cast(x, "int64")
    each = node.call("equal", node.call("expand_dims", places, axis=x.ndim), plain(table(list(names), np.int64)))
    return node.call("cast", each, dtype="float32")


@onnx_op("DictVectorizer", domain=DOMAIN, typed=True)
def _vectorize_dict(node: OnnxNode, x: MapValue) -> Value:
    vocabulary = node.get("string_vocabulary") or node.get("int64_vocabulary")
    found = dict(zip(x.keys, x.items, strict=True))
    missing = [k for k in found if k not in vocabulary]
    if missing:
        raise ValueError(f"the key {missing[0]!r} is not in the vocabulary")
    like = x.items[0]
    zero = Value(array=np.zeros((1,), like.dtype))
    parts = [Value(node.call("reshape", plain(found[k]), newshape=(1,))) if k in found else zero for k in vocabulary]
    return Value(node.call("concatenate", parts, axis=0), kind=like.kind)


@onnx_op("CastMap", domain=DOMAIN, typed=True)
def _cast_map(node: OnnxNode, x: MapValue) -> Value:
    from tilewright.relay.frontend.onnx.ops.casting import converted

    element = {"TO_FLOAT": "float32", "TO_INT64": "int64", "TO_STRING": "string"}[node.get("cast_to", "TO_FLOAT")]
    found = {
        k: converted(node, Value(node.call("reshape", plain(v), newshape=(1,)), kind=v.kind), element)
        for k, v in zip(x.keys, x.items, strict=True)
    }
    if node.get("map_form", "DENSE") == "SPARSE":
        need_few(node.get("max_map", 1), MOST_PARTS, "places of a map")
        places: Iterable[int] = range(node.get("max_map", 1))
    else:
        places = sorted(found)
    empty = string_table.number("", keep=True) if element == "string" else 0
    carrier = "int64" if element == "string" else element
    zero = Value(array=np.full((1,), empty, carrier))
    parts = [plain(found[k]) if k in found else zero for k in places]
    whole = node.call("concatenate", parts, axis=0)
    return Value(node.call("expand_dims", whole, axis=0), kind="string" if element == "string" else "")
