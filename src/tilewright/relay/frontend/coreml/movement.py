"""Converters of layers that make and move elements."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from tilewright.relay.frontend.common.value import Value
from tilewright.relay.frontend.coreml.node import CoreMLLayer, converters
from tilewright.support.errors import OpNotImplemented


@converters.of("flatten")
def _flatten(c: CoreMLLayer, x: Value) -> Value:
    if c.options.mode == 1:
        x = c.transpose(x, [*range(x.ndim - 3), x.ndim - 2, x.ndim - 1, x.ndim - 3])
    if not c.exact:
        return c.reshape(x, [x.shape[0], -1])
    front = list(x.shape[:-3])
    return c.reshape(x, [*front, math.prod(c.static(x.shape[-3:], "the extents that it joins")), 1, 1])


@converters.of("reshape")
def _reshape(c: CoreMLLayer, x: Value) -> Value:
    target = [int(d) for d in c.options.targetShape]
    front = [x.shape[0]] if len(target) == 3 else [target.pop(0)]
    if c.options.mode == 0:
        return c.reshape(x, [*front, *target])
    last = c.transpose(x, [0, 2, 3, 1]) if x.ndim == 4 else x
    depth, rows, columns = target
    return c.transpose(c.reshape(last, [*front, rows, columns, depth]), [0, 3, 1, 2])


@converters.of("permute")
def _permute(c: CoreMLLayer, x: Value) -> Value:
    order = [int(a) for a in c.options.axis] or [0, 1, 2, 3]
    if x.ndim == 5:
        # The batch stays; the order is of the sequence, the channels, the rows and the columns.
        places = [0, 2, 3, 4]
        moved = [places[a] for a in order]
        return c.transpose(x, [moved[0], 1, *moved[1:]])
    return c.transpose(x, order)


@converters.of("transpose")
def _transpose(c: CoreMLLayer, x: Value) -> Value:
    return c.transpose(x, [int(a) for a in c.options.axes])


@converters.of("concat", "concatND")
def _concat(c: CoreMLLayer, *xs: Value) -> Value:
    if c.kind == "concatND":
        axis = c.axis(int(c.options.axis), xs[0].ndim)
        if c.options.interleave:
            whole = c.call("stack", list(xs), axis=axis + 1)
            return c.reshape(whole, [*xs[0].shape[:axis], -1, *xs[0].shape[axis + 1 :]])
        return c.concatenate(xs, axis)
    return c.concatenate(xs, 0 if c.options.sequenceConcat else c.channel(xs[0]))


@converters.of("split", "splitND")
def _split(c: CoreMLLayer, x: Value) -> list[Value]:
    if c.kind == "split":
        return c.split(x, int(c.options.nOutputs), c.channel(x))
    axis, sizes = c.axis(int(c.options.axis), x.ndim), [int(s) for s in c.options.splitSizes]
    if not sizes:
        return c.split(x, int(c.options.numSplits), axis)
    return c.parts(x, sizes, axis)


@converters.of("sequenceRepeat")
def _repeat(c: CoreMLLayer, x: Value) -> Value:
    return c.call("tile", x, reps=(int(c.options.nRepetitions) or 1, *[1] * (x.ndim - 1)))


@converters.of("tile")
def _tile(c: CoreMLLayer, x: Value) -> Value:
    return c.call("tile", x, reps=tuple([int(r) for r in c.options.reps]))


@converters.of("reorganizeData")
def _reorganize(c: CoreMLLayer, x: Value) -> Value:
    x, front = c.image(x)
    key = {0: "nn.space_to_depth", 1: "nn.depth_to_space"}.get(int(c.options.mode))
    if key is None:
        raise c.refuse("mode", int(c.options.mode), "SPACE_TO_DEPTH, DEPTH_TO_SPACE")
    return c.back(c.call(key, x, block_size=int(c.options.blockSize), layout="NCHW"), front)


@converters.of("slice")
def _slice(c: CoreMLLayer, x: Value) -> Value:
    p = c.options
    axis = c.channel(x) if p.axis == 0 else x.ndim - 3 + int(p.axis)
    (extent,) = c.static([x.shape[axis]], "the extent that it slices")
    begin, end, step = slice(int(p.startIndex), int(p.endIndex), int(p.stride) or 1).indices(extent)
    return c.cut(x, axis, begin, end, step)


@converters.of("sliceStatic")
def _slice_static(c: CoreMLLayer, x: Value) -> Value:
    p = c.options
    extents = c.static(x.shape, "the extents that it slices")
    begins = [None if m else int(b) for b, m in zip(p.beginIds, p.beginMasks or [False] * x.ndim, strict=True)]
    ends = [None if m else int(e) for e, m in zip(p.endIds, p.endMasks or [False] * x.ndim, strict=True)]
    steps = [int(s) for s in p.strides] or [1] * x.ndim
    squeezed = [k for k, s in enumerate(p.squeezeMasks) if s]
    places = [slice(b, e, s).indices(n) for b, e, s, n in zip(begins, ends, steps, extents, strict=True)]
    for k in squeezed:
        at = int(p.beginIds[k]) % extents[k]
        places[k] = (at, at + 1, 1)
    # An end before the first element is, to strided_slice, one below minus the extent.
    lasts = [e if e >= 0 else -n - 1 for (_, e, _), n in zip(places, extents, strict=True)]
    out = c.call(
        "strided_slice",
        x,
        begin=tuple([b for b, _, _ in places]),
        end=tuple(lasts),
        strides=tuple([s for _, _, s in places]),
    )
    return c.call("squeeze", out, axis=tuple(squeezed)) if squeezed else out


@converters.of("stack")
def _stack(c: CoreMLLayer, *xs: Value) -> Value:
    return c.call("stack", list(xs), axis=c.axis(int(c.options.axis), xs[0].ndim + 1))


@converters.of("gather")
def _gather(c: CoreMLLayer, x: Value, indices: Value) -> Value:
    axis = c.axis(int(c.options.axis), x.ndim)
    return c.call("take", x, c.cast(indices, "int32"), axis=axis, mode="signed")


@converters.of("gatherAlongAxis")
def _gather_along(c: CoreMLLayer, x: Value, indices: Value) -> Value:
    return c.call("gather", x, c.cast(indices, "int32"), axis=c.axis(int(c.options.axis), x.ndim))


@converters.of("reverse")
def _reverse(c: CoreMLLayer, x: Value) -> Value:
    for axis, turned in enumerate(c.options.reverseDim):
        x = c.call("reverse", x, axis=axis) if turned else x
    return x


@converters.of("squeeze")
def _squeeze(c: CoreMLLayer, x: Value) -> Value:
    if c.options.squeezeAll:
        return c.call("squeeze", x, axis=None)
    axes = [c.axis(int(a), x.ndim) for a in c.options.axes]
    return x if x.ndim == 1 else c.call("squeeze", x, axis=tuple(axes))


@converters.of("expandDims")
def _expand(c: CoreMLLayer, x: Value) -> Value:
    rank = x.ndim + len(c.options.axes)
    for axis in sorted([c.axis(int(a), rank) for a in c.options.axes]):
        x = c.call("expand_dims", x, axis=axis)
    return x


@converters.of("flattenTo2D")
def _flatten2(c: CoreMLLayer, x: Value) -> Value:
    axis = int(c.options.axis)
    axis = axis + x.ndim if axis < 0 else axis
    rows = math.prod(c.static(x.shape[:axis], "the extents that it joins"))
    return c.reshape(x, [rows, -1])


@converters.of("reshapeStatic", "rankPreservingReshape")
def _reshape_static(c: CoreMLLayer, x: Value) -> Value:
    target: list[Any] = [int(d) for d in c.options.targetShape]
    if c.kind == "rankPreservingReshape":
        target = [x.shape[k] if d == 0 else d for k, d in enumerate(target)]
    return c.reshape(x, target)


@converters.of("reshapeLike")
def _reshape_like(c: CoreMLLayer, x: Value, like: Value) -> Value:
    return c.reshape(x, like.shape)


@converters.of("broadcastToStatic")
def _broadcast(c: CoreMLLayer, x: Value) -> Value:
    return c.broadcast(x, [int(d) for d in c.options.targetShape])


@converters.of("broadcastToLike")
def _broadcast_like(c: CoreMLLayer, x: Value, like: Value) -> Value:
    return c.broadcast(x, like.shape)


@converters.of("loadConstant", "loadConstantND")
def _constant(c: CoreMLLayer) -> Value:
    shape = [int(d) for d in c.options.shape]
    return Value(array=c.array("data", shape if c.kind == "loadConstantND" else [1, *shape]))


@converters.of("fillStatic", "fillLike")
def _fill(c: CoreMLLayer, like: Value | None = None) -> Value:
    shape = like.shape if like is not None else [int(d) for d in c.options.targetShape]
    return c.full(shape, float(c.options.value), "float32")


@converters.of("getShape")
def _shape(c: CoreMLLayer, x: Value) -> Value:
    if not all([isinstance(d, int) for d in x.shape]):
        raise OpNotImplemented("its input has dynamic extents")
    return Value(array=np.array(x.shape, "int32"))
