"""Converters of operators that move elements."""

from __future__ import annotations

from typing import Any

import numpy as np

from tilewright.formats.caffe2_messages import FILLS, TYPES
from tilewright.node.field_values import numpy_dtype
from tilewright.relay.frontend.caffe2.node import OperatorNode, converters
from tilewright.relay.frontend.caffe2.operators import flat
from tilewright.relay.frontend.common.value import Value
from tilewright.support.errors import OpNotImplemented


@converters.of("Concat")
def _concat(c: OperatorNode, *xs: Value) -> list[Value]:
    added = bool(c.whole("add_axis"))
    ndim = xs[0].ndim + added
    axis = c.axis(c.whole("axis", 1 if c.first else ndim - 1), ndim)
    if added:
        return [c.call("stack", list(xs), axis=axis)]
    parts = c.static([x.shape[axis] for x in xs], "the extents that it joins")
    return [c.concatenate(xs, axis), Value(array=np.array(parts, "int32"))]


@converters.of("Split")
def _split(c: OperatorNode, x: Value, parts: Value | None = None) -> list[Value]:
    axis = c.axis(c.whole("axis", 1 if c.first else x.ndim - 1), x.ndim)
    sizes = c.ints("split", []) if parts is None else [int(v) for v in c.known(parts, "lengths")]
    if not sizes:
        return c.split(x, c.results, axis)
    return c.parts(x, sizes, axis)


@converters.of("Slice")
def _slice(c: OperatorNode, x: Value, starts: Value | None = None, ends: Value | None = None) -> Value:
    first = c.ints("starts") if starts is None else [int(v) for v in c.known(starts, "starts")]
    last = c.ints("ends") if ends is None else [int(v) for v in c.known(ends, "ends")]
    for axis, (begin, end) in enumerate(zip(first, last, strict=True)):
        if begin == 0 and end == -1:
            continue
        (extent,) = c.static([x.shape[axis]], "the extent that it cuts")
        # An end below zero counts from behind, with -1 for the last element included.
        begin, end = (v + extent + 1 if v < 0 else v for v in (begin, end))
        x = c.cut(x, axis, min(begin, extent), min(end, extent))
    return x


@converters.of("Flatten")
def _flatten(c: OperatorNode, x: Value) -> Value:
    return flat(c, x, c.whole("axis", 1))


@converters.of("FlattenToVec")
def _vector(c: OperatorNode, x: Value) -> Value:
    return c.reshape(x, [-1])


@converters.of("Reshape")
def _reshape(c: OperatorNode, x: Value, shape: Value | None = None) -> list[Value]:
    wanted = c.ints("shape") if shape is None else [int(v) for v in c.known(shape, "shape").reshape(-1)]
    old = [d if isinstance(d, int) else -1 for d in x.shape]
    made = c.reshape(x, [x.shape[k] if d == 0 else d for k, d in enumerate(wanted)])
    return [made, Value(array=np.array(old, "int64"))]


@converters.of("ResizeLike")
def _like(c: OperatorNode, x: Value, like: Value) -> Value:
    return c.reshape(x, like.shape)


@converters.of("Transpose", "NCHW2NHWC", "NHWC2NCHW")
def _transpose(c: OperatorNode, x: Value) -> Value:
    if c.kind == "NCHW2NHWC":
        return c.transpose(x, [0, *range(2, x.ndim), 1])
    if c.kind == "NHWC2NCHW":
        return c.transpose(x, [0, x.ndim - 1, *range(1, x.ndim - 1)])
    return c.transpose(x, c.ints("axes", []) or list(range(x.ndim))[::-1])


@converters.of("Squeeze")
def _squeeze(c: OperatorNode, x: Value) -> Value:
    return c.call("squeeze", x, axis=tuple(c.ints("dims")))


@converters.of("ExpandDims")
def _expand(c: OperatorNode, x: Value) -> Value:
    for axis in sorted(c.ints("dims")):
        x = c.call("expand_dims", x, axis=axis)
    return x


@converters.of("Tile")
def _tile(c: OperatorNode, x: Value) -> Value:
    axis = c.axis(c.whole("axis"), x.ndim)
    return c.call("tile", x, reps=tuple([c.whole("tiles", 1) if k == axis else 1 for k in range(x.ndim)]))


@converters.of("Gather", "BatchGather")
def _gather(c: OperatorNode, x: Value, indices: Value) -> Value:
    return c.call("take", x, indices, axis=1 if c.kind == "BatchGather" else c.whole("axis"))


@converters.of("TopK")
def _topk(c: OperatorNode, x: Value) -> list[Value]:
    axis = c.axis(c.whole("axis", -1), x.ndim)
    found = c.calls("topk", x, k=c.whole("k"), axis=axis, ret_type="both", is_ascend=False, dtype="int64")
    return [*found]


@converters.of("Shape")
def _shape(c: OperatorNode, x: Value) -> Value:
    axes = c.ints("axes", []) or list(range(x.ndim))
    known: list[Any] = [x.shape[k] for k in axes]
    if all([isinstance(d, int) for d in known]):
        return Value(array=np.array(known, "int64"))
    return c.call("stack", [c.extent(x, k) for k in axes], axis=0)


@converters.of("ResizeNearest")
def _resize(c: OperatorNode, x: Value) -> Value:
    start = 2 if c.first else 1
    scales = [c.real("height_scale", 1.0), c.real("width_scale", 1.0)]
    extents = c.static(x.shape[start : start + 2], "the rows and columns that it resizes")
    size = tuple([int(e * s) for e, s in zip(extents, scales, strict=True)])
    if any([n % e for n, e in zip(size, extents, strict=True)]):
        # Row k of the result is row int(k / scale).
        for axis, (n, e, s) in enumerate(zip(size, extents, scales, strict=True)):
            rows = np.minimum((np.arange(n, dtype="float32") / np.float32(s)).astype("int64"), e - 1)
            x = c.call("take", x, Value(array=rows), axis=start + axis)
        return x
    return c.call(
        "image.resize2d", x, size=size, layout=c.layout(2), method="nearest_neighbor", coordinate_transformation_mode="asymmetric",
        rounding_method="floor",
    )  # fmt: skip


@converters.of("ChannelShuffle")
def _shuffle(c: OperatorNode, x: Value) -> Value:
    axis, groups = c.channel_axis(x), c.whole("group", 1)
    (channels,) = c.static([x.shape[axis]], "the number of its channels")
    apart = c.reshape(x, [*x.shape[:axis], groups, channels // groups, *x.shape[axis + 1 :]])
    order = list(range(apart.ndim))
    order[axis], order[axis + 1] = axis + 1, axis
    return c.reshape(c.transpose(apart, order), x.shape)


@converters.of("PadImage")
def _pad(c: OperatorNode, x: Value) -> Value:
    modes = {"constant": "constant", "edge": "edge", "reflect": "reflect"}
    mode = c.text("mode", "constant").lower()
    if mode not in modes:
        raise c.refuse("mode", mode, ", ".join(modes))
    start = 2 if c.first else 1
    top, left, bottom, right = c.padding(x, [1, 1], [1, 1], [1, 1])
    width = [(0, 0)] * 4
    width[start], width[start + 1] = (top, bottom), (left, right)
    return c.pad(x, width, c.real("value"), modes[mode])


@converters.of("ConstantFill")
def _fill(c: OperatorNode, like: Value | None = None) -> Value:
    kind = TYPES.get(c.whole("dtype", 1))
    if kind is None:
        raise c.refuse("dtype", c.whole("dtype"), "types of numbers")
    if like is None:
        shape: list[Any] = c.ints("shape", [])
    elif c.whole("input_as_shape"):
        shape = [int(v) for v in c.known(like, "shape")]
    else:
        shape = like.shape
    value = c.given.get("value", 0)
    return c.full(shape, float(value) if numpy_dtype(kind).kind == "f" else int(value), kind)


@converters.of(*FILLS)
def _given(c: OperatorNode) -> Value:
    values = c.given.get("values", [])
    if not isinstance(values, list):
        raise OpNotImplemented("its values are bytes, which only init_net may have")
    return Value(array=np.array(values, FILLS[c.kind]).reshape(c.ints("shape", [])))
