"""Converters of mappings between strings and numbers. Strings are numbers here, so mappings are look-ups in sorted tables."""

from __future__ import annotations

from typing import Any

import numpy as np

from tilewright.relay.frontend.common.builder import MOST_PARTS, need_few
from tilewright.relay.frontend.onnx.ml.common import DOMAIN, plain, table
from tilewright.relay.frontend.onnx.value import ListValue, MapValue, OnnxNode, Value, onnx_op


def looked_up(
    node: OnnxNode, x: Value, keys: list[Any], values: list[Any], default: Any, dtypes: tuple[Any, Any]
) -> Value:
    """The value for each element's key, or the default. The last of equal keys counts."""
    wanted = {("nan" if k != k else k): v for k, v in zip(keys, values, strict=True)}
    nan = wanted.pop("nan", None) if any([k != k for k in keys]) else None
    held = plain(table(list(wanted) or [0], dtypes[0])).array
    answers = table([*wanted.values(), default, default if nan is None else nan], dtypes[1])
    assert held is not None
    order = np.argsort(held, kind="stable")
    data = plain(x)
    if data.dtype == "bool":
        data = node.cast(data, "int64")
    ordered = held[order].astype(data.dtype)
    place = node.call("searchsorted", Value(array=ordered), data)
    near = node.call("minimum", place, node.scalar(len(ordered) - 1, "int32"))
    hit = node.call("equal", node.call("take", Value(array=ordered), near, axis=0), data)
    if not wanted:
        hit = node.call("logical_and", hit, node.scalar(False, "bool"))
    index = node.call("where", hit, node.call("take", Value(array=order.astype(np.int32)), near, axis=0),
                      node.scalar(len(wanted), "int32"))  # fmt: skip
    if "float" in data.dtype:
        index = node.call("where", node.call("isnan", data), node.scalar(len(wanted) + 1, "int32"), index)
    return Value(node.call("take", plain(answers), index, axis=0), kind=answers.kind)


DEFAULTS: dict[str, Any] = {"strings": "_Unused", "int64s": -1, "floats": -0.0}
DTYPES = {"strings": object, "int64s": np.int64, "floats": np.float32}


@onnx_op("LabelEncoder", domain=DOMAIN, typed=True)
def _classic(node: OnnxNode, x: Value) -> Value:
    classes = list(node.get("classes_strings"))
    numbers = list(range(len(classes)))
    if x.kind == "string":
        return looked_up(node, x, classes, numbers, node.get("default_int64", -1), (object, np.int64))
    default = node.get("default_string", "_Unused")
    return looked_up(node, x, numbers, classes, default, (np.int64, object))


@onnx_op("LabelEncoder", since=2, domain=DOMAIN, typed=True)
def _label_encoder(node: OnnxNode, x: Value) -> Value:
    def given(what: str) -> tuple[list[Any], Any, str]:
        tensor = node.get(f"{what}_tensor")
        if tensor is not None:
            return tensor.tolist(), object if tensor.dtype.kind in "OUS" else tensor.dtype, "tensor"
        kinds = [k for k in DTYPES if node.get(f"{what}_{k}") is not None]
        if len(kinds) != 1:
            raise ValueError(
                f"it has {len(kinds) or 'none'} of {', '.join([f'{what}_{k}' for k in (*DTYPES, 'tensor')])}"
            )
        (kind,) = kinds
        return list(node.get(f"{what}_{kind}")), DTYPES[kind], kind

    keys, key_type, _ = given("keys")
    values, value_type, kind = given("values")
    if kind == "tensor":
        tensor = node.get("default_tensor")
        if tensor is not None:
            default = tensor.reshape(-1)[0]
            default = default if value_type is object else default.item()
        else:
            default = "_Unused" if value_type is object else -1 if np.dtype(value_type).kind in "iu" else -0.0
    else:
        default = node.get(f"default_{kind.removesuffix('s')}", DEFAULTS[kind])
    return looked_up(node, x, keys, values, default, (key_type, value_type))


@onnx_op("CategoryMapper", domain=DOMAIN, typed=True)
def _category_mapper(node: OnnxNode, x: Value) -> Value:
    strings, numbers = list(node.get("cats_strings")), list(node.get("cats_int64s"))
    if x.kind == "string":
        return looked_up(node, x, strings, numbers, node.get("default_int64", -1), (object, np.int64))
    return looked_up(node, x, numbers, strings, node.get("default_string", "_Unused"), (np.int64, object))


@onnx_op("ZipMap", domain=DOMAIN, typed=True)
def _zip_map(node: OnnxNode, x: Value) -> ListValue:
    names = node.get("classlabels_strings") or node.get("classlabels_int64s")
    data = node.value("expand_dims", x, axis=0) if x.ndim == 1 else x
    count = node.static(data)[0]
    need_few(count * len(names), MOST_PARTS, "entries of maps")
    maps = []
    for r in range(count):
        parts = [
            node.value(
                "reshape",
                node.call("strided_slice", data, begin=(r, c), end=(r + 1, c + 1), strides=(1, 1), axes=(0, 1)),
                newshape=(),
            )
            for c in range(len(names))
        ]
        maps.append(MapValue(list(names), parts, x.element))
    return ListValue(maps, x.element)
