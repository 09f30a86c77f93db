"""Converters of operators that move elements: shapes, slices, gathers, padding, joining, splitting."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from tilewright.relay.frontend.common.builder import small
from tilewright.relay.frontend.common.ordering import best
from tilewright.relay.frontend.common.value import are_numbers, known_extents
from tilewright.relay.frontend.tflite.node import Info, Node, Value, plain, tflite_op
from tilewright.relay.frontend.tflite.ops.arithmetic import quantized
from tilewright.relay.frontend.tflite.ops.quantized import limits, need_single, out_quant, requantized
from tilewright.support.errors import OpNotImplemented


def adapted(node: Node, x: Value, info: Info | None = None) -> Value:
    """x requantised to the result's scale, if it differs."""
    info = info or node.out
    if x.quant is None or info.quant is None or x.quant.same(info.quant) or not x.quant.single:
        return x
    return requantized(node, x, need_single(node, x)[0], out_quant(node), info.dtype)


# ---- shapes


@tflite_op("RESHAPE")
def _reshape(node: Node, x: Value, shape: Value | None = None) -> Value:
    if shape is not None and shape.array is None:
        return node.call("dyn.reshape", x, shape)
    if shape is not None:
        new = node.ints(shape, "shape")
    else:
        new = [int(d) for d in node.get("new_shape", ())]
        # An old form writes a scalar's shape as a single 0.
        new = [] if new == [0] and x.ndim and are_numbers(old := x.shape) and math.prod(old) == 1 else new
    return node.reshape(x, new)


@tflite_op("SQUEEZE")
def _squeeze(node: Node, x: Value) -> Value:
    axes = [node.axis(int(a), x.ndim) for a in node.get("squeeze_dims", ())]
    shape = x.shape
    axes = axes or [k for k, d in enumerate(shape) if isinstance(d, int) and d == 1]
    return node.reshape(x, [d for k, d in enumerate(shape) if k not in axes])


@tflite_op("EXPAND_DIMS")
def _expand_dims(node: Node, x: Value, axis: Value) -> Value:
    place = node.axis(int(node.whole(axis, "axis").reshape(-1)[0]), x.ndim + 1)
    shape = x.shape
    return node.reshape(x, [*shape[:place], 1, *shape[place:]])


@tflite_op("SHAPE")
def _shape(node: Node, x: Value) -> Value:
    return node.call("shape_of", x, dtype=node.out.dtype)


@tflite_op("RANK")
def _rank(node: Node, x: Value) -> Value:
    return node.number(x.ndim, "int32")


@tflite_op("TRANSPOSE")
def _transpose(node: Node, x: Value, order: Value) -> Value:
    return node.transpose(x, [node.axis(int(a), x.ndim) for a in node.whole(order, "order of axes")])


@tflite_op("BROADCAST_TO")
def _broadcast_to(node: Node, x: Value, shape: Value) -> Value:
    if shape.array is None:
        return node.call("dyn.broadcast_to", x, shape)
    return node.broadcast(x, node.ints(shape, "shape"))


@tflite_op("BROADCAST_ARGS")
def _broadcast_args(node: Node, a: Value, b: Value) -> Value:
    (n,), (m,) = node.static(a), node.static(b)

    def longer(x: Value, count: int) -> Value:
        ones = Value(array=np.ones(count, x.dtype))
        return node.call("concatenate", [ones, x], axis=0) if count else x

    a, b = longer(a, max(m - n, 0)), longer(b, max(n - m, 0))
    return node.call("where", node.call("equal", a, 1), b, a)


@tflite_op("TILE")
def _tile(node: Node, x: Value, counts: Value) -> Value:
    if counts.array is None:
        return node.call("dyn.tile", x, counts)
    return node.call("tile", x, reps=tuple(node.ints(counts, "counts")))


@tflite_op("FILL")
def _fill(node: Node, dims: Value, value: Value) -> Value:
    scalar = node.reshape(value, ())
    if dims.array is None:
        return node.call("dyn.full", scalar, dims, dtype=value.dtype)
    shape = node.ints(dims, "shape")
    return node.call("full", scalar, shape=tuple(shape), dtype=value.dtype) if shape else scalar


@tflite_op("ZEROS_LIKE")
def _zeros_like(node: Node, x: Value) -> Value:
    return node.call("zeros_like", x)


@tflite_op("RANGE")
def _range(node: Node, start: Value, limit: Value, delta: Value) -> Value:
    dtype = node.out.dtype
    parts = [start, limit, delta]
    if all([p.is_number for p in parts]):
        first, last, step = [p.array.item() for p in parts if p.array is not None]
        small([max(int((last - first) / step), 0)], "its result")
        return Value(array=np.arange(first, last, step, dtype=dtype))
    if all([p.array is not None for p in parts]):
        first, last, step = [plain(p.array.item()) for p in parts if p.array is not None]
        if first == 0 and step == 1:
            return node.call(
                "dyn.arange", node.number(0, dtype), Value(_size(node, last)), node.number(1, dtype), dtype=dtype
            )
    return node.call("dyn.arange", *parts, dtype=dtype)


def _size(node: Node, d: Any) -> Any:
    raise OpNotImplemented(f"its limit is the dynamic dimension {d}. Pin the input shapes: shape_dict={{name: (...)}}")


# ---- orders


@tflite_op("REVERSE_V2")
def _reverse(node: Node, x: Value, axes: Value) -> Value:
    for a in node.axes(axes, x.ndim):
        x = node.call("reverse", x, axis=a)
    return x


@tflite_op("REVERSE_SEQUENCE")
def _reverse_sequence(node: Node, x: Value, lengths: Value) -> Value:
    along = node.axis(int(node.get("seq_dim")), x.ndim)
    known, extent = lengths.array, x.shape[along]
    if known is not None and isinstance(extent, int) and known.size and not 0 <= known.min() <= known.max() <= extent:
        raise OpNotImplemented(
            f"its sequences are {known.tolist()} long, but there are {extent} elements along axis {along}"
        )
    return node.call(
        "reverse_sequence",
        x,
        node.cast(lengths, "int32"),
        seq_axis=along,
        batch_axis=int(node.get("batch_dim")),
    )


# ---- gathers


@tflite_op("GATHER")
def _gather(node: Node, x: Value, indices: Value) -> Value:
    axis, batch = node.axis(int(node.get("axis")), x.ndim), int(node.get("batch_dims"))
    batch = batch + indices.ndim if batch < 0 else batch
    if indices.dtype not in ("int32", "int64"):
        indices = node.cast(indices, "int32")
    return node.call("take", x, indices, axis=axis, batch_dims=batch, mode="bounded")


@tflite_op("GATHER_ND")
def _gather_nd(node: Node, x: Value, indices: Value) -> Value:
    last = indices.shape[-1]
    if not isinstance(last, int):
        raise OpNotImplemented("the last axis of its indices must be known")
    if indices.dtype not in ("int32", "int64"):
        indices = node.cast(indices, "int32")
    turned = node.transpose(indices, [indices.ndim - 1, *range(indices.ndim - 1)])
    return node.call("gather_nd", x, turned, index_rank=last)


@tflite_op("SCATTER_ND")
def _scatter_nd(node: Node, indices: Value, updates: Value, shape: Value) -> Value:
    extents = node.ints(shape, "shape")
    zeros = node.call("full", node.number(0, updates.dtype), shape=tuple(extents), dtype=updates.dtype)
    turned = node.transpose(indices, [indices.ndim - 1, *range(indices.ndim - 1)])
    if updates.dtype == "bool":
        made = node.call("scatter_nd", node.cast(zeros, "int8"), turned, node.cast(updates, "int8"), mode="max")
        return node.cast(made, "bool")
    return node.call("scatter_nd", zeros, turned, updates, mode="add")


COMBINERS = ("SUM", "MEAN", "SQRTN")


@tflite_op("EMBEDDING_LOOKUP_SPARSE")
def _embedding_lookup_sparse(node: Node, ids: Value, places: Value, size: Value, weights: Value, table: Value) -> Value:
    """Sums of weighted rows of a table, optionally divided by the sum of the weights, or by the root of the sum of their squares."""
    extents = [int(d) for d in node.whole(size, "dense_shape").reshape(-1)]
    combiner, rest = COMBINERS[int(node.get("combiner"))], known_extents(table.shape[1:])
    small([*extents[:-1], *rest], "its result")
    count = math.prod(extents[:-1])
    steps = np.array([math.prod(extents[k + 1 : -1]) for k in range(len(extents) - 1)], np.int32)
    kept = node.call("strided_slice", places, begin=(0,), end=(len(steps),), strides=(1,), axes=(1,))
    flat = node.call("sum", node.call("multiply", kept, Value(array=steps)), axis=(1,))
    at = node.reshape(flat, [1, -1])
    shaped = node.reshape(weights, [-1, *[1] * len(rest)])
    rows = node.call("multiply", node.call("take", table, ids, axis=0, mode="bounded"), shaped)
    total = node.call("scatter_nd", Value(array=np.zeros([count, *rest], np.float32)), at, rows, mode="add")
    if combiner != "SUM":
        each = weights if combiner == "MEAN" else node.call("multiply", weights, weights)
        held = node.call("scatter_nd", Value(array=np.zeros(count, np.float32)), at, each, mode="add")
        held = node.call("sqrt", held) if combiner == "SQRTN" else held
        none = node.call("equal", held, 0.0)
        held = node.call("where", none, node.number(1.0, "float32"), held)
        total = node.call("divide", total, node.reshape(held, [-1, *[1] * len(rest)]))
    return node.reshape(total, [*extents[:-1], *rest])


@tflite_op("EMBEDDING_LOOKUP")
def _embedding_lookup(node: Node, places: Value, table: Value) -> Value:
    rows = node.call("take", table, places, axis=0, mode="bounded")
    if table.quant is None or not node.out.dtype.startswith("float"):
        return rows
    if table.quant.single:
        return node.call("multiply", node.cast(rows, "float32"), float(table.quant.scale[0]))
    scales = node.call("take", Value(array=table.quant.scale), places, axis=0, mode="clip")
    return node.call(
        "multiply", node.cast(rows, "float32"), node.call("expand_dims", scales, axis=1, num_newaxis=rows.ndim - 1)
    )


@tflite_op("DYNAMIC_UPDATE_SLICE")
def _dynamic_update_slice(node: Node, x: Value, update: Value, begin: Value) -> Value:
    return updated(node, x, update, begin)


def updated(node: Node, x: Value, update: Value, begin: Value) -> Value:
    """x with an update written at a position, which is clamped so that the update fits."""
    shape, sizes = node.static(x), node.static(update, "the shape of its update")
    small([sum(shape)], "its axes")
    result, inside = update, None
    for k, (d, n) in enumerate(zip(shape, sizes, strict=True)):
        if d == n:
            continue
        start = node.call("take", node.cast(begin, "int32"), node.number(k, "int32"), axis=0)
        start = node.call("clip", start, a_min=0.0, a_max=float(d - n))
        places = node.call("subtract", Value(array=np.arange(d, dtype=np.int32)), start)
        result = node.call(
            "take", result, node.call("clip", places, a_min=0.0, a_max=float(n - 1)), axis=k, mode="clip"
        )
        here = node.call("logical_and", node.call("greater_equal", places, 0), node.call("less", places, n))
        here = node.reshape(here, [-1, *[1] * (len(shape) - 1 - k)])
        inside = here if inside is None else node.call("logical_and", inside, here)
    return update if inside is None else node.call("where", inside, result, x)


@tflite_op("ONE_HOT")
def _one_hot(node: Node, indices: Value, depth: Value, on: Value, off: Value) -> Value:
    count = int(node.whole(depth, "depth").reshape(-1)[0])
    axis = int(node.get("axis"))
    return node.call(
        "one_hot",
        node.cast(indices, "int32"),
        node.reshape(on, ()),
        node.reshape(off, ()),
        depth=count,
        axis=axis,
        dtype=on.dtype,
    )


@tflite_op("SPARSE_TO_DENSE")
def _sparse_to_dense(node: Node, indices: Value, shape: Value, values: Value, default: Value) -> Value:
    extents = node.ints(shape, "shape")
    rank = len(extents)
    places = node.reshape(indices, [-1, rank])
    count = places.shape[0]
    rows = values if values.ndim == 1 else node.broadcast(node.reshape(values, [1]), [count])
    base = node.call("full", node.reshape(default, ()), shape=tuple(extents), dtype=values.dtype)
    return node.call("scatter_nd", base, node.transpose(places, [1, 0]), rows, mode="update")


@tflite_op("SELECT", "SELECT_V2")
def _select(node: Node, condition: Value, x: Value, y: Value) -> Value:
    if node.name == "SELECT" and condition.ndim == 1 and x.ndim > 1:
        # An old form has one condition for each row.
        condition = node.reshape(condition, [condition.shape[0], *[1] * (x.ndim - 1)])
    return node.call("where", condition, x, y)


@tflite_op("WHERE")
def _where(node: Node, condition: Value) -> Value:
    places = node.call("argwhere", condition if condition.dtype == "bool" else node.call("not_equal", condition, 0))
    return node.cast(places, "int64")


# ---- joining and splitting


@tflite_op("CONCATENATION")
def _concatenation(node: Node, *parts: Value) -> Value:
    axis = node.axis(int(node.get("axis")), parts[0].ndim)
    if quantized(node, *parts):
        parts = tuple([_joined(node, p) for p in parts])
    made = node.call("concatenate", list(parts), axis=axis)
    return node.activated(made) if not node.integer else made


def _joined(node: Node, x: Value) -> Value:
    """A part requantised to the result's scale in float32, by the kernel's steps."""
    (source,), target = need_single(node, x), out_quant(node)
    if source.same(target):
        return x
    if x.dtype == "int16":
        raise OpNotImplemented(f"its tensor {x.name!r} of int16 has another scale than its result; supported: the same")
    inverse = np.float32(1.0) / target.scale[0]
    scale = np.float32(source.scale[0] * inverse)
    bias = float(np.float32(-source.offset) * scale)
    value = node.call("add", node.call("multiply", node.cast(x, "float32"), float(scale)), bias)
    from tilewright.relay.frontend.tflite.ops.quantized import rounded_float, stored

    whole = node.cast(rounded_float(node, value), "int32")
    low, high = limits(x.dtype)
    return stored(node, whole, target.offset, low, high, x.dtype)


@tflite_op("PACK")
def _pack(node: Node, *parts: Value) -> Value:
    return node.call("stack", list(parts), axis=node.axis(int(node.get("axis")), parts[0].ndim + 1))


@tflite_op("UNPACK")
def _unpack(node: Node, x: Value) -> list[Value]:
    axis, count = node.axis(int(node.get("axis")), x.ndim), len(node.outputs)
    shape = x.shape
    parts = node.calls("split", x, indices_or_sections=count, axis=axis) if count > 1 else [x]
    return [node.reshape(p, [*shape[:axis], *shape[axis + 1 :]]) for p in parts]


@tflite_op("SPLIT")
def _split(node: Node, axis: Value, x: Value) -> list[Value]:
    place = node.axis(int(node.whole(axis, "axis").reshape(-1)[0]), x.ndim)
    count = len(node.outputs)
    return node.calls("split", x, indices_or_sections=count, axis=place) if count > 1 else [x]


@tflite_op("SPLIT_V")
def _split_v(node: Node, x: Value, sizes: Value, axis: Value) -> list[Value]:
    place = node.axis(int(node.whole(axis, "axis").reshape(-1)[0]), x.ndim)
    counts = [int(n) for n in node.whole(sizes, "sizes").reshape(-1)]
    if -1 in counts:
        extent = x.shape[place]
        if not isinstance(extent, int):
            raise OpNotImplemented(
                f"it divides an axis of the dynamic extent {extent}, with a part that takes the rest"
            )
        counts[counts.index(-1)] = extent - sum([n for n in counts if n >= 0])
    if len(counts) == 1:
        return [x]
    return node.calls("split", x, indices_or_sections=tuple(np.cumsum(counts[:-1]).tolist()), axis=place)


# ---- padding and blocks


@tflite_op("PAD", "PADV2")
def _pad(node: Node, x: Value, widths: Value, value: Value | None = None) -> Value:
    if value is not None:
        fill: Any = value.array.reshape(-1)[0].item() if value.is_number and value.array is not None else None
        if fill is None:
            raise OpNotImplemented("its padding value must be known at import, but the model computes it")
    else:
        # As in TFLite, the padding is the result's zero point.
        quant = node.out.quant
        fill = quant.offset if quant is not None and quant.single and not x.dtype.startswith("float") else 0
    if widths.array is None:
        return node.call("dyn.nn.pad", x, widths, node.number(fill, x.dtype))
    pairs = node.whole(widths, "widths").reshape(-1, 2).tolist()
    if not any([a or b for a, b in pairs]):
        return x
    return node.call("nn.pad", x, node.number(fill, x.dtype), pad_width=tuple([(int(a), int(b)) for a, b in pairs]))


@tflite_op("MIRROR_PAD")
def _mirror_pad(node: Node, x: Value, widths: Value) -> Value:
    pairs = tuple([(int(a), int(b)) for a, b in node.whole(widths, "widths").reshape(-1, 2)])
    return node.call("nn.mirror_pad", x, pad_width=pairs, mode="SYMMETRIC" if int(node.get("mode")) else "REFLECT")


@tflite_op("SPACE_TO_DEPTH", "DEPTH_TO_SPACE")
def _space_depth(node: Node, x: Value) -> Value:
    size = int(node.get("block_size"))
    n, h, w, c = x.shape
    if size < 1:
        raise ValueError(f"its blocks are of {size} elements")
    if node.name == "SPACE_TO_DEPTH":
        parts, last = (
            [n, plain(h // size), size, plain(w // size), size, c],
            [n, plain(h // size), plain(w // size), c * size * size],
        )
    else:
        parts, last = (
            [n, h, w, size, size, c // (size * size)],
            [n, plain(h * size), plain(w * size), c // (size * size)],
        )
    return node.reshape(node.transpose(node.reshape(x, parts), (0, 1, 3, 2, 4, 5)), last)


@tflite_op("SPACE_TO_BATCH_ND")
def _space_to_batch(node: Node, x: Value, block: Value, widths: Value) -> Value:
    shape = [int(n) for n in node.whole(block, "block shape").reshape(-1)]
    pairs = tuple([(int(a), int(b)) for a, b in node.whole(widths, "paddings").reshape(-1, 2)])
    fill = x.quant.offset if x.quant is not None and x.quant.single else 0
    return node.call("nn.space_to_batch_nd", x, block_shape=tuple(shape), paddings=pairs, pad_value=fill)


@tflite_op("BATCH_TO_SPACE_ND")
def _batch_to_space(node: Node, x: Value, block: Value, crops: Value) -> Value:
    shape = [int(n) for n in node.whole(block, "block shape").reshape(-1)]
    pairs = tuple([(int(a), int(b)) for a, b in node.whole(crops, "crops").reshape(-1, 2)])
    return node.call("nn.batch_to_space_nd", x, block_shape=tuple(shape), crops=pairs)


# ---- matrices and orders


@tflite_op("MATRIX_DIAG")
def _matrix_diag(node: Node, x: Value) -> Value:
    n = node.static(x)[-1]
    small([n, n], "its mask")
    keep = Value(array=np.eye(n, dtype=bool))
    rows = node.reshape(x, [*x.shape, 1])
    return node.call("where", keep, rows, node.number(0, x.dtype))


@tflite_op("MATRIX_SET_DIAG")
def _matrix_set_diag(node: Node, x: Value, diagonal: Value) -> Value:
    *_, n, m = node.static(x)
    small([n, m], "its mask")
    keep = Value(array=np.eye(n, m, dtype=bool))
    k = min(n, m)
    if n > k:
        widths = (*[(0, 0)] * (diagonal.ndim - 1), (0, n - k))
        diagonal = node.call("nn.pad", diagonal, 0, pad_width=widths)
    return node.call("where", keep, node.reshape(diagonal, [*diagonal.shape, 1]), x)


@tflite_op("TOPK_V2")
def _topk(node: Node, x: Value, k: Value) -> list[Value]:
    number = node.reshape(k, (1,)) if k.array is None else int(node.numbers(k, "k").reshape(-1)[0])
    return [Value(e) for e in best(node.span, x, number, dtype=node.outputs[1].dtype)]


@tflite_op("UNIQUE")
def _unique(node: Node, x: Value) -> list[Value]:
    found = node.calls("unique", x, is_sorted=False, return_counts=False)
    return [found[0], found[2]]


@tflite_op("BUCKETIZE")
def _bucketize(node: Node, x: Value) -> Value:
    edges = node.get("boundaries")
    if x.dtype.startswith("int"):
        edges = np.ceil(np.asarray(edges, np.float64)).clip(-(2**31), 2**31 - 1).astype(x.dtype)
    return node.call("searchsorted", Value(array=np.asarray(edges).astype(x.dtype)), x, right=True, dtype="int32")
