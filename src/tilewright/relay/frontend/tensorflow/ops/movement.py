"""Converters of operators that make, move, select and place elements."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tilewright.node.field_values import numpy_dtype
from tilewright.relay.cards.relations import broadcast_shapes
from tilewright.relay.frontend.common.builder import FAR, MOST_PARTS, need_few, same_padding, small
from tilewright.relay.frontend.common.ordering import best
from tilewright.relay.frontend.common.slice_masks import SliceMasks
from tilewright.relay.frontend.common.value import Value
from tilewright.relay.frontend.tensorflow.value import (
    Handle,
    NodeCall,
    Result,
    Sizes,
    tensor,
    tf_op,
)
from tilewright.support.errors import OpNotImplemented


@tf_op("Reshape")
def _reshape(c: NodeCall, x: Value, shape: Value) -> Value:
    x = tensor(x)
    if c.is_known(shape):
        new = c.ints(shape, "shape")
        return c.reshape(x, new)
    return c.call("dyn.reshape", x, c.cast(shape, "int64"), allowzero=True)


@tf_op("Shape", "Size", "Rank", "ShapeN")
def _shape(c: NodeCall, x: Result) -> Result:
    raise OpNotImplemented("it asks for the shape of a value that is not a tensor")


@tf_op("Transpose", "ConjugateTranspose")
def _transpose(c: NodeCall, x: Value, order: Value) -> Value:
    return c.transpose(x, [c.axis(a, x.ndim) for a in c.ints(order, "permutation")])


@tf_op("ExpandDims")
def _expand_dims(c: NodeCall, x: Value, axis: Value) -> Value:
    return c.call("expand_dims", x, axis=c.axis(int(c.number_of(axis, "axis")), x.ndim + 1))


@tf_op("Squeeze")
def _squeeze(c: NodeCall, x: Value) -> Value:
    given = c.attr("squeeze_dims") or c.attr("axis")
    axes = c.axes(given, x.ndim) if given else [k for k, d in enumerate(x.shape) if isinstance(d, int) and d == 1]
    return c.call("squeeze", x, axis=tuple(axes)) if axes else x


def _one_type(c: NodeCall, xs: Sequence[Any]) -> list[Value]:
    return [tensor(x) for x in xs]


@tf_op("ConcatV2")
def _concat(c: NodeCall, *xs: Value) -> Value:
    return _joined(c, xs[:-1], xs[-1])


@tf_op("Concat")
def _old_concat(c: NodeCall, axis: Value, *xs: Value) -> Value:
    return _joined(c, xs, axis)


def _joined(c: NodeCall, xs: Sequence[Value], axis: Value) -> Value:
    parts = _one_type(c, xs)
    return c.concatenate(parts, int(c.number_of(axis, "axis")))


@tf_op("Pack")
def _pack(c: NodeCall, *xs: Value) -> Value:
    parts = _one_type(c, xs)
    return c.call("stack", parts, axis=c.axis(int(c.attr("axis", 0)), parts[0].ndim + 1))


@tf_op("Unpack")
def _unpack(c: NodeCall, x: Value) -> list[Value]:
    axis = c.axis(int(c.attr("axis", 0)), x.ndim)
    count, (extent,) = int(c.attr("num", 0)), x.shape[axis : axis + 1]
    need_few(count, extent if isinstance(extent, int) else MOST_PARTS, f"parts of axis {axis}")
    return [c.at(x, axis, k) for k in range(count)]


@tf_op("Split")
def _split(c: NodeCall, axis: Value, x: Value) -> list[Value]:
    return c.split(x, int(c.attr("num_split", 1)), int(c.number_of(axis, "axis")))


@tf_op("SplitV")
def _split_v(c: NodeCall, x: Value, sizes: Value, axis: Value) -> list[Value]:
    at = c.axis(int(c.number_of(axis, "axis")), x.ndim)
    counts = c.static(c.ints(sizes, "sizes"), "the sizes of its parts")
    if -1 in counts:
        (extent,) = c.static([x.shape[at]], "the extent that it splits")
        counts[counts.index(-1)] = extent - sum(counts) - 1
    ends = np.cumsum(counts).tolist()
    return [c.cut(x, at, a, b) for a, b in zip([0, *ends[:-1]], ends, strict=True)]


@tf_op("Fill")
def _fill(c: NodeCall, shape: Value, value: Value) -> Value:
    if c.is_known(shape):
        extents = c.ints(shape, "shape")
        if value.is_number and value.array is not None:
            return c.full(extents, value.array.reshape(-1)[0], value.dtype)
        return c.call("full", value, shape=tuple(extents), dtype=value.dtype) if extents else value
    return c.call("dyn.full", value, c.cast(shape, "int64"), dtype=value.dtype)


@tf_op("ZerosLike", "OnesLike")
def _like(c: NodeCall, x: Result) -> Result:
    if not isinstance(x, Value):
        return x
    fill = 0 if c.op == "ZerosLike" else 1
    if all([isinstance(d, int) for d in x.shape]):
        return c.full(x.shape, fill, x.dtype)
    return c.call("zeros_like" if fill == 0 else "ones_like", x)


@tf_op("Range")
def _range(c: NodeCall, start: Value, limit: Value, step: Value) -> Value:
    dtype = start.dtype
    if all([v.is_number for v in (start, limit, step)]):
        a, b, s = (c.number_of(v, "range") for v in (start, limit, step))
        small([max(int((b - a) / s), 0)], "its result")
        return Value(array=np.arange(a, b, s, dtype=numpy_dtype(dtype)))
    return c.call("dyn.arange", start, limit, step, dtype=dtype)


@tf_op("LinSpace")
def _linspace(c: NodeCall, start: Value, stop: Value, count: Value) -> Value:
    n = int(c.number_of(count, "number of points"))
    small([n], "its result")
    return Value(
        array=np.linspace(c.number_of(start, "start"), c.number_of(stop, "stop"), n, dtype=numpy_dtype(start.dtype))
    )


@tf_op("BroadcastTo")
def _broadcast_to(c: NodeCall, x: Value, shape: Value) -> Value:
    if c.is_known(shape):
        return c.broadcast(x, c.ints(shape, "shape"))
    return c.call("dyn.broadcast_to", x, c.cast(shape, "int64"))


@tf_op("BroadcastArgs")
def _broadcast_args(c: NodeCall, a: Value, b: Value) -> Value:
    from tilewright.relay.frontend.tensorflow.value import sizes_value

    return sizes_value(c, np.array(broadcast_shapes(c.ints(a, "shape"), c.ints(b, "shape")), object), a.dtype)


@tf_op("Tile")
def _tile(c: NodeCall, x: Value, times: Value) -> Value:
    if c.is_known(times):
        return c.call("tile", x, reps=tuple(c.ints(times, "multiples")))
    return c.call("dyn.tile", x, c.cast(times, "int64"))


@tf_op("Pad", "PadV2", "MirrorPad")
def _pad(c: NodeCall, x: Value, width: Value, value: Value | None = None) -> Value:
    pairs = np.asarray(width.array if isinstance(width, Sizes) else c.known(width, "paddings")).reshape(-1, 2).tolist()
    if c.op == "MirrorPad":
        mode = "SYMMETRIC" if str(c.attr("mode")) == "SYMMETRIC" else "REFLECT"
        return c.call("nn.mirror_pad", x, pad_width=tuple([tuple([int(v) for v in p]) for p in pairs]), mode=mode)
    return c.pad(x, pairs, 0 if value is None else value)


@tf_op("ReverseV2", "Reverse")
def _reverse(c: NodeCall, x: Value, axis: Value) -> Value:
    for a in c.axes(c.ints(axis, "axis"), x.ndim):
        x = c.call("reverse", x, axis=a)
    return x


@tf_op("ReverseSequence")
def _reverse_sequence(c: NodeCall, x: Value, lengths: Value) -> Value:
    return c.call(
        "reverse_sequence",
        x,
        c.cast(lengths, "int32"),
        seq_axis=int(c.attr("seq_dim", 1)),
        batch_axis=int(c.attr("batch_dim", 0)),
    )


@tf_op("Roll")
def _roll(c: NodeCall, x: Value, shift: Value, axis: Value) -> Value:
    for by, a in zip(c.ints(shift, "shift"), c.axes(c.ints(axis, "axis"), x.ndim), strict=True):
        (extent,) = c.static([x.shape[a]], "the extent that it rolls")
        x = c.call("take", x, Value(array=(np.arange(extent) - by) % extent), axis=a)
    return x


# ---- slices


@tf_op("Slice")
def _slice(c: NodeCall, x: Value, begin: Value, size: Value) -> Value:
    if c.is_known(begin) and c.is_known(size):
        first, count = c.ints(begin, "begin"), c.ints(size, "size")
        ends = [
            b + n if not (isinstance(n, int) and n < 0) else d for b, n, d in zip(first, count, x.shape, strict=True)
        ]
        return c.call("strided_slice", x, begin=tuple(first), end=tuple(ends), strides=(1,) * x.ndim)
    if not c.is_known(size) or -1 in c.ints(size, "size"):
        return c.call("dyn.strided_slice", x, c.cast(begin, "int64"), c.cast(size, "int64"), slice_mode="size")
    # The result's size is known, so each axis takes indices from its begin on.
    for axis, (n, d) in enumerate(zip(c.ints(size, "size"), x.shape, strict=True)):
        if n != d:
            at = c.call("squeeze", c.cut(begin, 0, axis, axis + 1), axis=(0,))
            x = c.call("take", x, c.call("add", Value(array=np.arange(int(n), dtype=begin.dtype)), at), axis=axis)
    return x


@tf_op("StridedSlice")
def _strided_slice(c: NodeCall, x: Value, begin: Value, end: Value, step: Value) -> Value:
    masks = SliceMasks.read(lambda name: c.attr(name, 0))
    steps = c.ints(step, "strides")
    n = len(steps)
    spent = sum([1 for k in range(n) if not masks.new_axis >> k & 1 and not masks.ellipsis >> k & 1])
    firsts, lasts = (c.ints(v, "slice") if c.is_known(v) else None for v in (begin, end))
    axis, out = 0, 0
    cuts: list[tuple[int, Any, Any, int]] = []
    gone: list[int] = []
    new: list[int] = []
    moving: list[tuple[int, int]] = []
    for k in range(n):
        if masks.ellipsis >> k & 1:
            axis += x.ndim - spent
            out += x.ndim - spent
            continue
        if masks.new_axis >> k & 1:
            new.append(out)
            out += 1
            continue
        s = steps[k]
        if masks.shrink_axis >> k & 1:
            if firsts is None:
                moving.append((axis, k))
            else:
                b = firsts[k]
                cuts.append((axis, b, b + 1 if not (isinstance(b, int) and b == -1) else FAR, 1))
                gone.append(axis)
        else:
            b = (0 if s > 0 else FAR) if masks.begin >> k & 1 else None if firsts is None else firsts[k]
            e = (FAR if s > 0 else -FAR) if masks.end >> k & 1 else None if lasts is None else lasts[k]
            if b is None or e is None:
                return _open_slice(c, x, begin, end, step, masks)
            if not (s == 1 and isinstance(b, int) and b == 0 and isinstance(e, int) and e == FAR):
                cuts.append((axis, b, e, s))
            out += 1
        axis += 1
    if cuts:
        axes, b, e, s = zip(*cuts, strict=True)
        x = c.call("strided_slice", x, begin=b, end=e, strides=s, axes=axes)
    for a, k in reversed(moving):
        place = c.call("squeeze", c.cut(begin, 0, k, k + 1), axis=(0,))
        x = c.call("take", x, place, axis=a, mode="signed")
    x = c.call("squeeze", x, axis=tuple([g - len([a for a, _ in moving if a < g]) for g in gone])) if gone else x
    for a in new:
        x = c.call("expand_dims", x, axis=a)
    return x


def _open_slice(c: NodeCall, x: Value, begin: Value, end: Value, step: Value, masks: SliceMasks) -> Value:
    """A slice with computed bounds."""
    if masks.ellipsis or masks.new_axis or any([s < 0 for s in c.ints(step, "strides")]):
        raise OpNotImplemented(
            "it slices from or to places that the model computes, with an ellipsis, new axes or backwards"
        )
    n = len(c.ints(step, "strides"))
    shape = c.cast(Value(c.call("shape_of", x, dtype="int64").expr), "int64")

    def ends(v: Value, mask: int, far: bool, other: Value) -> Value:
        parts = []
        for k in range(n):
            one = c.cut(c.cast(v, "int64"), 0, k, k + 1)
            if far and masks.shrink_axis >> k & 1:
                one = c.call("add", c.cut(c.cast(other, "int64"), 0, k, k + 1), 1)
            elif mask >> k & 1:
                one = c.cut(shape, 0, k, k + 1) if far else Value(array=np.zeros(1, np.int64))
            parts.append(one)
        return c.concatenate(parts, 0)

    first, last = ends(begin, masks.begin, False, begin), ends(end, masks.end, True, begin)
    out = c.call("dyn.strided_slice", x, first, last, c.cast(step, "int64"), slice_mode="end", axes=tuple(range(n)))
    gone = tuple([k for k in range(n) if masks.shrink_axis >> k & 1])
    return c.call("squeeze", out, axis=gone) if gone else out


# ---- gathering and scattering


def as_places(c: NodeCall, x: Value) -> Value:
    """Indices in a type that kernels support."""
    return x if x.dtype in ("int32", "int64") else c.cast(x, "int32")


@tf_op("GatherV2", "Gather")
def _gather(c: NodeCall, x: Value, places: Value, axis: Value | None = None) -> Value:
    x = tensor(x)
    batch = int(c.attr("batch_dims", 0))
    at = 0 if axis is None else c.axis(int(c.number_of(axis, "axis")), x.ndim)
    batch = batch + places.ndim if batch < 0 else batch
    return c.call("take", x, as_places(c, places), axis=at, batch_dims=batch, mode="bounded")


@tf_op("GatherNd", "ResourceGatherNd")
def _gather_nd(c: NodeCall, x: Value | Handle, places: Value) -> Value:
    x = x if isinstance(x, Value) else c.home.variable(x)
    turned = c.transpose(as_places(c, places), [places.ndim - 1, *range(places.ndim - 1)])
    return c.call("gather_nd", x, turned)


def _scattered(c: NodeCall, base: Value, places: Value, rows: Value, mode: str) -> Value:
    turned = c.transpose(as_places(c, places), [places.ndim - 1, *range(places.ndim - 1)])
    return c.call("scatter_nd", base, turned, rows, mode=mode)


@tf_op("ScatterNd")
def _scatter_nd(c: NodeCall, places: Value, rows: Value, shape: Value) -> Value:
    return _scattered(c, c.full(c.ints(shape, "shape"), 0, rows.dtype), places, rows, "add")


@tf_op(
    "TensorScatterUpdate",
    "TensorScatterAdd",
    "TensorScatterSub",
    "TensorScatterMax",
    "TensorScatterMin",
    "ScatterNdNonAliasingAdd",
)
def _tensor_scatter(c: NodeCall, x: Value, places: Value, rows: Value) -> Value:
    mode = {"Update": "update", "Max": "max", "Min": "min"}.get(c.op.removeprefix("TensorScatter"), "add")
    rows = c.call("negative", rows) if c.op.endswith("Sub") else rows
    return _scattered(c, x, places, rows, mode)


@tf_op("OneHot")
def _one_hot(c: NodeCall, places: Value, depth: Value, on: Value, off: Value) -> Value:
    return c.call(
        "one_hot", places, on, off, depth=int(c.number_of(depth, "depth")), axis=int(c.attr("axis", -1)), dtype=on.dtype
    )


@tf_op("Where")
def _where(c: NodeCall, condition: Value) -> Value:
    flags = condition if condition.dtype == "bool" else c.call("not_equal", condition, 0)
    return c.cast(c.call("argwhere", flags), "int64")


@tf_op("Unique", "UniqueV2", "UniqueWithCounts", "UniqueWithCountsV2")
def _unique(c: NodeCall, x: Value, axis: Value | None = None) -> list[Value]:
    if x.ndim != 1:
        raise OpNotImplemented(f"it looks for the different parts of a tensor of {x.ndim} axes; supported: 1")
    kind = c.attr("out_idx", "int32")
    kinds, _, which, _, *counts = c.calls("unique", x, is_sorted=False, return_counts="Counts" in c.op)
    return [kinds, c.cast(which, kind), *[c.cast(v, kind) for v in counts]]


@tf_op("TopKV2", "TopK")
def _topk(c: NodeCall, x: Value, k: Value | None = None) -> list[Value]:
    n = int(c.attr("k", 1)) if k is None else int(c.number_of(k, "k"))
    return [Value(e) for e in best(c.span, x, n)]


@tf_op("ApproxTopK")
def _approximate_topk(c: NodeCall, x: Value) -> list[Value]:
    """The exact k best elements, as if the recall target were 1."""
    axis = c.axis(int(c.attr("reduction_dimension", -1)), x.ndim)
    most = bool(c.attr("is_max_k", True))
    return [Value(e) for e in best(c.span, x, int(c.attr("k")), axis, not most)]


@tf_op("InTopK", "InTopKV2")
def _in_topk(c: NodeCall, x: Value, targets: Value, k: Value | None = None) -> Value:
    n = int(c.attr("k", 1)) if k is None else int(c.number_of(k, "k"))
    own = c.call("gather", x, c.cast(c.call("expand_dims", targets, axis=1), "int64"), axis=1)
    better = c.reduce("sum", c.cast(c.call("greater", x, own), "int32"), [1])
    return c.call("less", better, n)


@tf_op("ClipByNorm")
def _no_clip(c: NodeCall, x: Value, most: Value) -> Value:
    length = c.call("sqrt", c.reduce("sum", c.call("multiply", x, x), None))
    return c.call("divide", c.call("multiply", x, most), c.call("maximum", length, most))


@tf_op("MatrixBandPart")
def _band(c: NodeCall, x: Value, lower: Value, upper: Value) -> Value:
    rows, columns = c.static(x.shape[-2:], "the size of its matrices")
    low, high = int(c.number_of(lower, "num_lower")), int(c.number_of(upper, "num_upper"))
    apart = np.arange(columns)[None, :] - np.arange(rows)[:, None]
    kept = ((low < 0) | (-apart <= low)) & ((high < 0) | (apart <= high))
    return c.call("where", Value(array=kept), x, c.number(0, x.dtype))


@tf_op("Diag", "MatrixDiag")
def _diag(c: NodeCall, x: Value) -> Value:
    (n,) = c.static(x.shape[-1:], "the length of its diagonals")
    return c.call(
        "where", Value(array=np.eye(n, dtype=bool)), c.call("expand_dims", x, axis=x.ndim), c.number(0, x.dtype)
    )


@tf_op("DiagPart", "MatrixDiagPart")
def _diag_part(c: NodeCall, x: Value) -> Value:
    n = min(c.static(x.shape[-2:], "the size of its matrices"))
    flat = c.reshape(x, [*x.shape[:-2], x.known_extent(-2) * x.known_extent(-1)])
    return c.call("take", flat, Value(array=np.arange(n) * (x.known_extent(-1) + 1)), axis=flat.ndim - 1)


@tf_op(
    "MatrixDiagPartV2",
    "MatrixDiagPartV3",
    "MatrixDiagV2",
    "MatrixDiagV3",
    "MatrixSetDiagV2",
    "MatrixSetDiagV3",
    "MatrixSetDiag",
)
def _matrix_diag(c: NodeCall, x: Value, *rest: Value) -> Value:
    if "Part" in c.op or c.op.startswith("MatrixDiagV"):
        if c.known(rest[0], "k").reshape(-1).tolist() not in ([0], [0, 0]):
            raise c.refuse("k", c.known(rest[0], "k").tolist(), "0")
        return _diag_part(c, x) if "Part" in c.op else _diag(c, x)
    place = c.known(rest[1], "k").reshape(-1).tolist() if len(rest) > 1 else [0]
    # "RIGHT_LEFT": bands above the diagonal are right-aligned in their rows, bands below it left-aligned.
    above, _, below = str(c.attr("align", "RIGHT_LEFT" if c.op.endswith("V3") else "LEFT_LEFT")).partition("_")
    return c.call(
        "matrix_set_diag", x, rest[0], k1=int(place[0]), k2=int(place[-1]), super_diag_right_align=above == "RIGHT",
        sub_diag_right_align=below == "RIGHT",
    )  # fmt: skip


@tf_op("Bucketize")
def _bucketize(c: NodeCall, x: Value) -> Value:
    table = Value(array=np.array(c.attr("boundaries") or [], np.float32))
    return c.call("searchsorted", table, c.cast(x, "float32"), right=True, dtype="int32")


@tf_op("SearchSorted", "LowerBound", "UpperBound")
def _bounds(c: NodeCall, table: Value, x: Value) -> Value:
    return c.call("searchsorted", table, x, right=c.op == "UpperBound", dtype=c.attr("out_type", "int32"))


@tf_op("ExtractImagePatches")
def _patches(c: NodeCall, x: Value) -> Value:
    size, strides, rates = (list(c.attr(k))[1:3] for k in ("ksizes", "strides", "rates"))
    h, w = c.static(x.shape[1:3], "the size of its images")
    reach = [(k - 1) * r + 1 for k, r in zip(size, rates, strict=True)]
    if str(c.attr("padding")) == "SAME":
        pads = [same_padding(e, k, s, r) for e, k, s, r in zip((h, w), size, strides, rates, strict=True)]
        x = c.pad(x, [(0, 0), *pads, (0, 0)])
        h, w = h + sum(pads[0]), w + sum(pads[1])
    outs = [(e - r) // s + 1 for e, r, s in zip((h, w), reach, strides, strict=True)]
    rows = np.arange(outs[0])[:, None] * strides[0] + np.arange(size[0])[None] * rates[0]
    columns = np.arange(outs[1])[:, None] * strides[1] + np.arange(size[1])[None] * rates[1]
    taken = c.call("take", c.call("take", x, Value(array=columns), axis=2), Value(array=rows), axis=1)
    # (batch, row, in row, column, in column, channel)
    turned = c.transpose(taken, [0, 1, 3, 2, 4, 5])
    return c.reshape(turned, [x.shape[0], *outs, size[0] * size[1] * x.known_extent(3)])
