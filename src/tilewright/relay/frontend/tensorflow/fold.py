"""Arithmetic of shapes at import, also with symbols: values that models compute from Shape stay known."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tilewright.relay.cards.relations import Dim
from tilewright.relay.frontend.common.folding import Folder, Folders
from tilewright.relay.frontend.common.slice_masks import SliceMasks
from tilewright.relay.frontend.common.value import Value
from tilewright.relay.frontend.common.whole import each, floored, remainder, taken, truncated
from tilewright.relay.frontend.tensorflow.value import NodeCall, Result, sizes_value, tensor
from tilewright.tir.op import max as larger
from tilewright.tir.op import min as smaller

folders = Folders()
_folds = folders.of


def _array(x: Value) -> np.ndarray:
    assert x.array is not None
    return x.array.astype(object)


@_folds("Shape", "ShapeN")
def _shape(c: NodeCall, *xs: Result) -> list[Value]:
    return [sizes_value(c, np.array(_extents(c, tensor(x)), object), c.attr("out_type", "int32")) for x in xs]


def _extents(c: NodeCall, x: Value) -> list[Dim]:
    return [c.sizes.named(x, k) for k in range(x.ndim)]


@_folds("Size")
def _size(c: NodeCall, x: Result) -> Value:
    total: Any = 1
    for d in _extents(c, tensor(x)):
        total = total * d
    return sizes_value(c, np.array(total, object), c.attr("out_type", "int32"))


@_folds("Rank")
def _rank(c: NodeCall, x: Result) -> Value:
    return Value(array=np.array(tensor(x).ndim, np.int32))


def _elementwise(f: Callable[[Any, Any], Any]) -> Folder:
    def fold(c: NodeCall, a: Value, b: Value) -> Value:
        return sizes_value(c, each(f, _array(a), _array(b)), a.dtype)

    return fold


def _numbers(f: Callable[[int, int], int], g: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    return lambda a, b: f(a, b) if isinstance(a, int) and isinstance(b, int) else g(a, b)


for _names, _f in {
    ("Add", "AddV2"): lambda a, b: a + b,
    ("Sub",): lambda a, b: a - b,
    ("Mul",): lambda a, b: a * b,
    ("FloorDiv",): floored,
    ("Div", "RealDiv", "TruncateDiv"): truncated,
    ("FloorMod",): remainder,
    ("Maximum",): _numbers(max, larger),
    ("Minimum",): _numbers(min, smaller),
}.items():
    for _name in _names:
        folders[_name] = _elementwise(_f)


@_folds("Identity", "Snapshot", "StopGradient")
def _identity(c: NodeCall, x: Value) -> Value:
    return x


@_folds("Cast")
def _cast(c: NodeCall, x: Value) -> Value | None:
    to = c.attr("DstT", "int32")
    return sizes_value(c, _array(x), to) if to in ("int32", "int64") else None


@_folds("Pack")
def _pack(c: NodeCall, *xs: Value) -> Value:
    return sizes_value(c, np.stack([_array(x) for x in xs], c.attr("axis", 0)), xs[0].dtype)


@_folds("Unpack")
def _unpack(c: NodeCall, x: Value) -> list[Value]:
    axis = c.attr("axis", 0)
    return [sizes_value(c, part, x.dtype) for part in np.moveaxis(_array(x), axis, 0)]


@_folds("ConcatV2")
def _concat(c: NodeCall, *xs: Value) -> Value:
    return sizes_value(c, np.concatenate([_array(x) for x in xs[:-1]], int(c.number_of(xs[-1], "axis"))), xs[0].dtype)


@_folds("GatherV2", "Gather")
def _gather(c: NodeCall, x: Value, places: Value, axis: Value | None = None) -> Value | None:
    if not places.is_number or places.array is None:
        return None
    at = int(c.number_of(axis, "axis")) if axis is not None else 0
    return sizes_value(c, taken(_array(x), places.array, at, below=False), x.dtype)


@_folds("Reshape")
def _reshape(c: NodeCall, x: Value, shape: Value) -> Any:
    return (
        sizes_value(c, _array(x).reshape([int(d) for d in c.known(shape, "shape").reshape(-1)]), x.dtype)
        if shape.is_number
        else None
    )


@_folds("ExpandDims")
def _expand(c: NodeCall, x: Value, axis: Value) -> Value:
    return sizes_value(c, np.expand_dims(_array(x), int(c.number_of(axis, "axis"))), x.dtype)


@_folds("Squeeze")
def _squeeze(c: NodeCall, x: Value) -> Value:
    axes = c.attr("squeeze_dims") or c.attr("axis")
    return sizes_value(c, np.squeeze(_array(x), tuple(axes) if axes else None), x.dtype)


@_folds("Slice")
def _slice(c: NodeCall, x: Value, begin: Value, size: Value) -> Value | None:
    if not (begin.is_number and size.is_number):
        return None
    first, count = c.ints(begin, "begin"), c.ints(size, "size")
    return sizes_value(
        c, _array(x)[tuple([slice(b, None if n < 0 else b + n) for b, n in zip(first, count, strict=True)])], x.dtype
    )


@_folds("StridedSlice")
def _strided_slice(c: NodeCall, x: Value, begin: Value, end: Value, step: Value) -> Value | None:
    if not (begin.is_number and end.is_number and step.is_number):
        return None
    masks = SliceMasks.read(lambda name: c.attr(name, 0))
    index = masks.key(*[c.ints(v, "slice") for v in (begin, end, step)])
    return sizes_value(c, np.asarray(_array(x)[index], object), x.dtype)


def _reduced(f: Callable[[Any, Any], Any], start: Any) -> Folder:
    def fold(c: NodeCall, x: Value, axis: Value) -> Value | None:
        array = _array(x)
        if array.ndim != 1 or not array.size and start is None:
            return None
        total = start if start is not None else array[0]
        for d in array.tolist() if start is not None else array[1:].tolist():
            total = f(total, d)
        found = np.empty((1,) if c.attr("keep_dims", False) else (), object)
        found[...] = total
        return sizes_value(c, found, x.dtype)

    return fold


folders["Prod"] = _reduced(lambda a, b: a * b, 1)
folders["Sum"] = _reduced(lambda a, b: a + b, 0)
folders["Max"] = _reduced(_numbers(max, larger), None)
folders["Min"] = _reduced(_numbers(min, smaller), None)


@_folds("Fill")
def _fill(c: NodeCall, shape: Value, value: Value) -> Value | None:
    if not shape.is_number:
        return None
    return sizes_value(
        c,
        np.full([int(d) for d in c.known(shape, "shape").reshape(-1)], _array(value).reshape(-1)[0], object),
        value.dtype,
    )


@_folds("Tile")
def _tile(c: NodeCall, x: Value, times: Value) -> Value | None:
    return sizes_value(c, np.tile(_array(x), c.ints(times, "multiples")), x.dtype) if times.is_number else None


@_folds("Range")
def _range(c: NodeCall, start: Value, limit: Value, step: Value) -> None:
    return None
