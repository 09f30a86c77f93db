"""Converters of operators that make, move and pick elements."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from tilewright.relay.frontend.common.value import Value
from tilewright.relay.frontend.mxnet.node import SymbolNode, converters
from tilewright.support.errors import ModelError, OpNotImplemented


@converters.of("Flatten", "flatten")
def _flatten(c: SymbolNode, x: Value) -> Value:
    return c.call("nn.batch_flatten", x)


@converters.of("Reshape", "reshape")
def _reshape(c: SymbolNode, x: Value) -> Value:
    if not c.has("shape"):
        # The form before version 0.9: 0 stands for what is left.
        return c.reshape(x, [-1 if d == 0 else d for d in c.ints("target_shape")])
    wanted = tuple(c.ints("shape"))
    if c.flag("reverse"):
        return c.call("contrib_reverse_reshape", x, newshape=wanted)
    return c.call("reshape", x, newshape=wanted)


@converters.of("reshape_like")
def _like(c: SymbolNode, x: Value, like: Value) -> Value:
    return c.reshape(x, like.shape)


@converters.of("Concat", "concat", "_rnn_param_concat")
def _concat(c: SymbolNode, *xs: Value) -> Value:
    return c.concatenate(xs, c.whole("dim", 1))


@converters.of("SliceChannel", "split")
def _split(c: SymbolNode, x: Value) -> list[Value]:
    axis = c.axis(c.whole("axis", 1), x.ndim)
    parts = c.split(x, c.whole("num_outputs", 1), axis)
    return [c.call("squeeze", p, axis=(axis,)) for p in parts] if c.flag("squeeze_axis") else parts


@converters.of("_split_v2")
def _split_at(c: SymbolNode, x: Value) -> list[Value]:
    axis = c.axis(c.whole("axis"), x.ndim)
    if c.whole("sections"):
        parts = c.split(x, c.whole("sections"), axis)
    else:
        # The first of the indices is 0.
        begins = c.ints("indices")
        ends = [*begins[1:], *c.static([x.shape[axis]], "the extent that it splits")]
        parts = [c.cut(x, axis, b, e) for b, e in zip(begins, ends, strict=True)]
    return [c.call("squeeze", p, axis=(axis,)) for p in parts] if c.flag("squeeze_axis") else parts


@converters.of("slice", "crop")
def _slice(c: SymbolNode, x: Value) -> Value:
    begins, ends = c.optional_ints("begin"), c.optional_ints("end")
    steps = [1 if s is None else s for s in c.optional_ints("step")] or [1] * len(begins)
    extents = c.static(x.shape[: len(begins)], "the extents that it slices")
    places = [slice(b, e, s).indices(n) for b, e, s, n in zip(begins, ends, steps, extents, strict=True)]
    # An end before the first element is, to strided_slice, one below minus the extent.
    lasts = [e if e >= 0 else -n - 1 for (_, e, _), n in zip(places, extents, strict=True)]
    return c.call(
        "strided_slice",
        x,
        begin=tuple([p[0] for p in places]),
        end=tuple(lasts),
        strides=tuple(steps),
        axes=tuple(range(len(begins))),
    )


@converters.of("slice_axis")
def _slice_axis(c: SymbolNode, x: Value) -> Value:
    axis = c.axis(c.whole("axis"), x.ndim)
    begin, end = c.whole("begin"), c.parsed("end", None)
    (extent,) = c.static([x.shape[axis]], "the extent that it slices")
    begin, end, _ = slice(begin, end).indices(extent)
    return c.cut(x, axis, begin, end)


@converters.of("slice_like")
def _slice_like(c: SymbolNode, x: Value, like: Value) -> Value:
    for axis in c.ints("axes") or list(range(min(x.ndim, like.ndim))):
        axis = c.axis(axis, x.ndim)
        x = c.cut(x, axis, 0, like.shape[axis])
    return x


@converters.of("Crop")
def _crop(c: SymbolNode, x: Value, like: Value | None = None) -> Value:
    if like is None:
        c.need("h_w")
        size: list[Any] = c.ints("h_w")
    else:
        size = list(like.shape[2:])
    top, left = c.ints("offset", (0, 0))
    if c.flag("center_crop"):
        extents = c.static(x.shape[2:], "the rows and columns of its input")
        top, left = ((e - s) // 2 for e, s in zip(extents, c.static(size, "its size"), strict=True))
    for begin, count, extent in zip((top, left), size, x.shape[2:], strict=True):
        if begin < 0 or isinstance(count, int) and (count < 1 or isinstance(extent, int) and begin + count > extent):
            raise ModelError(
                f"its result, {tuple(size)} elements from {(top, left)} on, does not lie in its input of {tuple(x.shape[2:])}"
            )
    return c.cut(c.cut(x, 2, top, top + size[0]), 3, left, left + size[1])


@converters.of("transpose")
def _transpose(c: SymbolNode, x: Value) -> Value:
    return c.transpose(x, c.ints("axes") or list(range(x.ndim))[::-1])


@converters.of("SwapAxis", "swapaxes")
def _swap(c: SymbolNode, x: Value) -> Value:
    a, b = (c.axis(c.whole(k), x.ndim) for k in ("dim1", "dim2"))
    order = list(range(x.ndim))
    order[a], order[b] = b, a
    return c.transpose(x, order)


@converters.of("expand_dims")
def _expand(c: SymbolNode, x: Value) -> Value:
    return c.call("expand_dims", x, axis=c.whole("axis"))


@converters.of("squeeze")
def _squeeze(c: SymbolNode, x: Value) -> Value:
    out = c.call("squeeze", x, axis=tuple(c.ints("axis")) if c.has("axis") else None)
    return c.reshape(out, [1]) if not out.ndim else out


@converters.of("stack")
def _stack(c: SymbolNode, *xs: Value) -> Value:
    return c.call("stack", list(xs), axis=c.axis(c.whole("axis"), xs[0].ndim + 1))


@converters.of("tile")
def _tile(c: SymbolNode, x: Value) -> Value:
    return c.call("tile", x, reps=tuple(c.ints("reps")))


@converters.of("repeat")
def _repeat(c: SymbolNode, x: Value) -> Value:
    count = c.whole("repeats", 1)
    if not c.has("axis"):
        return c.call("repeat", c.reshape(x, [-1]), repeats=count, axis=0)
    return c.call("repeat", x, repeats=count, axis=c.axis(c.whole("axis"), x.ndim))


@converters.of("reverse", "flip")
def _reverse(c: SymbolNode, x: Value) -> Value:
    for axis in c.ints("axis"):
        x = c.call("reverse", x, axis=c.axis(axis, x.ndim))
    return x


@converters.of("Pad", "pad")
def _pad(c: SymbolNode, x: Value) -> Value:
    width, mode = c.ints("pad_width"), c.text("mode", "constant")
    if mode not in ("constant", "edge", "reflect"):
        raise c.refuse("mode", mode, "constant, edge, reflect")
    pairs = list(zip(width[::2], width[1::2], strict=True))
    return c.pad(x, pairs, c.real("constant_value"), mode)


@converters.of("broadcast_to")
def _broadcast(c: SymbolNode, x: Value) -> Value:
    return c.broadcast(x, [x.shape[k] if d == 0 else d for k, d in enumerate(c.ints("shape"))])


@converters.of("broadcast_axis", "broadcast_axes")
def _broadcast_axis(c: SymbolNode, x: Value) -> Value:
    shape = list(x.shape)
    for axis, size in zip(c.ints("axis"), c.ints("size"), strict=True):
        shape[c.axis(axis, x.ndim)] = size
    return c.broadcast(x, shape)


@converters.of("broadcast_like")
def _broadcast_like(c: SymbolNode, x: Value, like: Value) -> Value:
    if not c.has("lhs_axes"):
        return c.broadcast(x, like.shape)
    shape = list(x.shape)
    for a, b in zip(c.ints("lhs_axes"), c.ints("rhs_axes"), strict=True):
        shape[c.axis(a, x.ndim)] = like.shape[c.axis(b, like.ndim)]
    return c.broadcast(x, shape)


# ---- picking


@converters.of("take")
def _take(c: SymbolNode, x: Value, indices: Value) -> Value:
    mode = c.text("mode", "clip")
    if mode not in ("clip", "wrap"):
        raise c.refuse("mode", mode, "clip, wrap")
    return c.call("take", x, c.cast(indices, "int32"), axis=c.axis(c.whole("axis"), x.ndim), mode=mode)


@converters.of("Embedding")
def _embedding(c: SymbolNode, indices: Value, weight: Value) -> Value:
    return c.call("take", weight, c.cast(indices, "int32"), axis=0, mode="clip")


@converters.of("pick")
def _pick(c: SymbolNode, x: Value, index: Value) -> Value:
    axis = c.axis(c.whole("axis", -1), x.ndim)
    (extent,) = c.static([x.shape[axis]], "the extent that it picks from")
    place = c.cast(index, "int32")
    mode = c.text("mode", "clip")
    if mode == "clip":
        place = c.call("clip", place, a_min=0, a_max=extent - 1)
    elif mode == "wrap":
        place = c.call("floor_mod", place, extent)
    else:
        raise c.refuse("mode", mode, "clip, wrap")
    if place.ndim < x.ndim:
        place = c.call("expand_dims", place, axis=axis)
    out = c.call("gather", x, place, axis=axis)
    return out if c.flag("keepdims") else c.call("squeeze", out, axis=(axis,))


@converters.of("gather_nd")
def _gather_nd(c: SymbolNode, x: Value, indices: Value) -> Value:
    return c.call("gather_nd", x, c.cast(indices, "int32"))


@converters.of("one_hot")
def _one_hot(c: SymbolNode, x: Value) -> Value:
    kind = c.text("dtype", "float32")
    on, off = (c.number(c.real(k, d), kind) for k, d in (("on_value", 1.0), ("off_value", 0.0)))
    return c.call("one_hot", c.cast(x, "int32"), on, off, depth=c.whole("depth"), axis=-1, dtype=kind)


@converters.of("depth_to_space", "space_to_depth")
def _blocks(c: SymbolNode, x: Value) -> Value:
    return c.call(f"nn.{c.kind}", x, block_size=c.whole("block_size"), layout="NCHW")


@converters.of("SequenceMask")
def _sequence_mask(c: SymbolNode, x: Value, lengths: Value | None = None) -> Value:
    if not c.flag("use_sequence_length"):
        return x
    lengths = c.given(lengths, "sequence_length", "use_sequence_length")
    return c.call("sequence_mask", x, c.cast(lengths, "int32"), mask_value=c.real("value"), axis=c.whole("axis"))


@converters.of("SequenceReverse")
def _sequence_reverse(c: SymbolNode, x: Value, lengths: Value | None = None) -> Value:
    if c.whole("axis") != 0:
        raise c.refuse("axis", c.whole("axis"), "0")
    if not c.flag("use_sequence_length"):
        return c.call("reverse", x, axis=0)
    lengths = c.given(lengths, "sequence_length", "use_sequence_length")
    return c.call("reverse_sequence", x, c.cast(lengths, "int32"), seq_axis=0, batch_axis=1)


@converters.of("SequenceLast")
def _sequence_last(c: SymbolNode, x: Value, lengths: Value | None = None) -> Value:
    axis = c.whole("axis")
    if not c.flag("use_sequence_length"):
        return c.at(x, axis, -1)
    if axis not in (0, 1):
        raise c.refuse("axis", axis, "0 and 1")
    lengths = c.given(lengths, "sequence_length", "use_sequence_length")
    rows = x if axis == 0 else c.transpose(x, [1, 0, *range(2, x.ndim)])
    last = c.call("subtract", c.cast(lengths, "int32"), 1)
    (batch,) = c.static([rows.shape[1]], "the number of sequences")
    places = c.call("stack", [last, Value(array=np.arange(batch, dtype="int32"))], axis=0)
    return c.call("gather_nd", rows, places)


# ---- making


@converters.of("_zeros", "_ones", "_full")
def _full(c: SymbolNode) -> Value:
    value = {"_zeros": 0.0, "_ones": 1.0}.get(c.kind, c.real("value"))
    return c.full(c.ints("shape"), value, c.text("dtype", "float32"))


@converters.of("_arange")
def _arange(c: SymbolNode) -> Value:
    start, stop = c.real("start"), c.parsed("stop", None)
    if stop is None:
        if c.flag("infer_range"):
            raise OpNotImplemented("the extent of its range follows from what reads it (infer_range)")
        start, stop = 0.0, start
    made = np.arange(start, float(stop), c.real("step", 1.0)).astype(c.text("dtype", "float32"))
    return Value(array=np.repeat(made, c.whole("repeat", 1)))


@converters.of("shape_array")
def _shape(c: SymbolNode, x: Value) -> Value:
    return Value(array=np.array(c.static(x.shape, "its input's shape"), "int64"))


@converters.of("_contrib_arange_like")
def _arange_like(c: SymbolNode, x: Value) -> Value:
    if c.has("axis"):
        (count,) = c.static([x.shape[c.axis(c.whole("axis"), x.ndim)]], "the extent of its range")
    else:
        count = math.prod(c.static(x.shape, "its input's shape"))
    numbers = c.real("start") + np.arange(count) // c.whole("repeat", 1) * c.real("step", 1.0)
    made = numbers.astype(x.dtype)
    return Value(array=made if c.has("axis") else made.reshape(c.static(x.shape, "its input's shape")))
