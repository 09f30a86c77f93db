"""Converters of operators with results of data-dependent size: partitions, stitches, ragged and sparse tensors."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tilewright.relay.cards.relations import Dim
from tilewright.relay.frontend.common.builder import FAR, MOST_PARTS, need_few
from tilewright.relay.frontend.common.host_calls import host_call, host_call_sized
from tilewright.relay.frontend.common.value import Value
from tilewright.relay.frontend.tensorflow.ops.movement import as_places
from tilewright.relay.frontend.tensorflow.value import NodeCall, sizes_value, tf_op
from tilewright.runtime.host_functions.registry import Config
from tilewright.runtime.host_functions.strings import string_host


def filled(c: NodeCall, first: Value, rest: Sequence[Dim], value: Any, dtype: str) -> Value:
    """A tensor of one value with `first` rows (a constant, a size, or a computed number)."""
    fill = value if isinstance(value, Value) else c.number(value, dtype)
    if c.is_known(first):
        return c.full(
            [*c.ints(first, "the number of its rows"), *rest], fill if isinstance(value, Value) else value, dtype
        )
    c.static(rest, "the shape of its rows")
    whole = c.concatenate([c.reshape(c.cast(first, "int64"), [1]), Value(array=np.array(rest, np.int64))], 0)
    made = c.call("dyn.full", fill, whole, dtype=dtype)
    return c.reshape(made, [-1, *rest]) if rest else made


def ones(c: NodeCall, like: Value, dtype: str) -> Value:
    """Ones, in the number of another tensor's elements."""
    if all([isinstance(d, int) for d in like.shape]):
        return c.full(like.shape, 1, dtype)
    return c.cast(c.call("ones_like", like), dtype)


def after_last(c: NodeCall, which: Value) -> Value:
    """The maximum of a list, plus 1."""
    if which.is_number and which.array is not None:
        return Value(array=np.array(int(which.array.max(initial=-1)) + 1))
    return c.call("add", c.reduce("max", c.cast(which, "int64"), None), 1)


@tf_op("DynamicPartition")
def _partition(c: NodeCall, x: Value, which: Value) -> list[Value]:
    flat, flags = c.reshape(x, [-1, *x.shape[which.ndim :]]), c.reshape(which, [-1])
    found = []
    need_few(int(c.attr("num_partitions")), MOST_PARTS, "partitions")
    for k in range(int(c.attr("num_partitions"))):
        at = c.call("argwhere", c.call("equal", flags, k))
        found.append(c.call("take", flat, c.call("squeeze", at, axis=(1,)), axis=0))
    return found


@tf_op("DynamicStitch", "ParallelDynamicStitch")
def _stitch(c: NodeCall, *xs: Value) -> Value:
    n = len(xs) // 2
    which, rows = xs[:n], xs[n:]
    rest = rows[0].shape[which[0].ndim :]
    flat = [c.reshape(as_places(c, w), [-1]) for w in which]
    made = filled(
        c, after_last(c, c.concatenate(flat, 0) if not _known(flat) else _joined(flat)), rest, 0, rows[0].dtype
    )
    for w, r in zip(flat, rows, strict=True):
        made = c.call("scatter_nd", made, c.reshape(w, [1, -1]), c.reshape(r, [-1, *rest]), mode="update")
    return made


def _known(xs: Sequence[Value]) -> bool:
    return all([x.is_number for x in xs])


def _joined(xs: Sequence[Value]) -> Value:
    return Value(array=np.concatenate([x.array for x in xs if x.array is not None]))


@tf_op("ListDiff")
def _list_diff(c: NodeCall, x: Value, gone: Value) -> list[Value]:
    kept = host_call_sized(c, "tf.ListDiff", [x, gone], 1, c.attr("out_idx", "int32"))
    return [c.call("take", x, kept, axis=0), kept]


@string_host("tf.ListDiff", sized=True)
def _run_list_diff(config: Config, x: np.ndarray, gone: np.ndarray) -> np.ndarray:
    return np.flatnonzero(~np.isin(x, gone))


# ---- ragged tensors: values, and the starts of their rows


@tf_op("RaggedRange")
def _ragged_range(c: NodeCall, starts: Value, limits: Value, steps: Value) -> list[Value]:
    kind = c.attr("Tsplits", "int64")
    given = [starts, limits, steps]
    rows = next((c.sizes.named(v, 0) for v in given if v.ndim), 1)
    return [
        host_call(c, "tf.ragged_range.splits", given, [rows + 1], kind),
        host_call_sized(c, "tf.ragged_range", given, 1, starts.dtype),
    ]


def _ranges(starts: np.ndarray, limits: np.ndarray, steps: np.ndarray) -> list[np.ndarray]:
    whole = np.broadcast_arrays(*[np.atleast_1d(v) for v in (starts, limits, steps)])
    return [np.arange(a, b, s, dtype=starts.dtype) for a, b, s in zip(*whole, strict=True)]


@string_host("tf.ragged_range", sized=True)
def _run_ragged_range(config: Config, *given: np.ndarray) -> np.ndarray:
    return np.concatenate([*_ranges(*given), np.zeros(0, given[0].dtype)])


@string_host("tf.ragged_range.splits")
def _ragged_range_splits(config: Config, *given: np.ndarray) -> np.ndarray:
    return np.cumsum([0, *[len(r) for r in _ranges(*given)]])


@tf_op("RaggedGather")
def _ragged_gather(c: NodeCall, *xs: Value) -> list[Value]:
    *splits, values, which = xs
    if len(splits) != 1:
        raise c.refuse("ragged rank", len(splits), "1")
    (split,) = splits
    picked = host_call_sized(c, "tf.ragged_rows", [split, which], 1, "int64")
    flat = c.reshape(which, [-1])
    return [
        host_call(c, "tf.ragged_rows.splits", [split, flat], [c.sizes.named(flat, 0) + 1], split.dtype),
        c.call("take", values, picked, axis=0),
    ]


@string_host("tf.ragged_rows", sized=True)
def _ragged_rows(config: Config, splits: np.ndarray, which: np.ndarray) -> np.ndarray:
    return np.concatenate([*[np.arange(splits[k], splits[k + 1]) for k in which.reshape(-1)], np.zeros(0, np.int64)])


@string_host("tf.ragged_rows.splits")
def _ragged_row_splits(config: Config, splits: np.ndarray, which: np.ndarray) -> np.ndarray:
    return np.cumsum([0, *(splits[which + 1] - splits[which]).tolist()])


@tf_op("RaggedTensorToTensor")
def _ragged_dense(c: NodeCall, shape: Value, values: Value, default: Value, *rows: Value) -> Value:
    """values in rows of one length, filled with `default`."""
    kinds = [str(k) for k in c.attr("row_partition_types")]
    inner = values.shape[1:]
    depth = len(rows) + 1 - (kinds[0] == "FIRST_DIM_SIZE")
    wanted = c.ints(shape, "shape") if c.is_known(shape) and shape.ndim else [-1] * (depth + len(inner))
    wanted = wanted or [-1] * (depth + len(inner))
    where = host_call_sized(c, "tf.ragged_dense", [values, *rows], depth, "int64", kinds=kinds, wanted=wanted[:depth])
    known = [d if isinstance(d, int) and d >= 0 else -1 for d in wanted[:depth]]
    if kinds[0] == "ROW_SPLITS" and known[0] < 0 and isinstance(rows[0].shape[0], int):
        known[0] = rows[0].shape[0] - 1
    if sum([d < 0 for d in known]) <= 1:
        where = c.reshape(where, known)
    # Index 0 of the source is the default.
    first = (
        c.broadcast(c.reshape(default, [1, *default.shape]), [1, *inner]) if default.ndim != len(inner) + 1 else default
    )
    return c.call("take", c.concatenate([first, values], 0), where, axis=0)


def _row_lengths(kind: str, rows: np.ndarray, count: int, total: int) -> np.ndarray:
    if kind == "ROW_SPLITS":
        return np.diff(rows)
    if kind == "ROW_LENGTHS":
        return rows
    if kind == "VALUE_ROWIDS":
        return np.bincount(rows, minlength=count)
    raise ValueError(f"row_partition_types holds {kind}")


@string_host("tf.ragged_dense", sized=True)
def _run_ragged_dense(config: Config, values: np.ndarray, *rows: np.ndarray) -> np.ndarray:
    kinds, shape, parts = config["kinds"], config["wanted"], list(rows)
    count = 0
    if kinds[0] == "FIRST_DIM_SIZE":
        count, kinds, parts = int(parts[0]), kinds[1:], parts[1:]
    # The index of each value along each axis, from the innermost rows outwards.
    at: list[np.ndarray] = []
    owner = np.arange(len(values))
    extents: list[int] = []
    levels = []
    for kind, part in zip(kinds, parts, strict=True):
        lengths = _row_lengths(kind, part, count, len(values))
        levels.append(lengths)
        count = int(lengths.sum())
    for lengths in reversed(levels):
        starts = np.cumsum(lengths) - lengths
        row = np.repeat(np.arange(len(lengths)), lengths)
        at.insert(0, (owner - starts[row[owner]]) if len(owner) else owner)
        extents.insert(0, int(lengths.max(initial=0)))
        owner = row[owner] if len(owner) else owner
    at.insert(0, owner)
    extents.insert(0, len(levels[0]))
    extents = [e if s < 0 else s for e, s in zip(extents, shape, strict=True)]
    out = np.zeros(extents, np.int64)
    inside = np.ones(len(values), bool)
    for a, e in zip(at, extents, strict=True):
        inside &= a < e
    out[tuple([a[inside] for a in at])] = np.flatnonzero(inside) + 1
    return out


@tf_op("RaggedTensorToSparse")
def _ragged_sparse(c: NodeCall, *xs: Value) -> list[Value]:
    *splits, values = xs
    if values.ndim != 1:
        raise c.refuse("rank of the values", values.ndim, "1")
    rank = len(splits) + 1
    at = host_call_sized(c, "tf.ragged_sparse", list(splits), 2, "int64")
    return [at, values, host_call(c, "tf.ragged_sparse.size", list(splits), [rank], "int64")]


@string_host("tf.ragged_sparse", sized=True)
def _run_ragged_sparse(config: Config, *splits: np.ndarray) -> np.ndarray:
    owner = np.arange(int(splits[-1][-1]))
    columns: list[np.ndarray] = []
    for s in reversed(splits):
        row = np.repeat(np.arange(len(s) - 1), np.diff(s))
        columns.insert(0, owner - s[row[owner]] if len(owner) else owner)
        owner = row[owner] if len(owner) else owner
    return np.stack([owner, *columns], 1)


@string_host("tf.ragged_sparse.size")
def _ragged_sparse_size(config: Config, *splits: np.ndarray) -> np.ndarray:
    return np.array([len(splits[0]) - 1, *[np.diff(s).max(initial=0) for s in splits]])


# ---- sparse tensors: indices, values, shape


@tf_op("SparseToDense")
def _sparse_dense(c: NodeCall, at: Value, shape: Value, values: Value, default: Value) -> Value:
    if c.is_known(shape):
        extents = c.ints(shape, "output_shape")
        base = c.call("full", default, shape=tuple(extents), dtype=values.dtype) if extents else default
    else:
        base = c.call("dyn.full", default, c.cast(shape, "int64"), dtype=values.dtype)
    rank = base.ndim
    if at.ndim < 2:
        at = c.reshape(at, [-1, 1] if rank == 1 else [1, -1])
    at = c.transpose(as_places(c, at), [1, 0])
    rows = values if values.ndim else c.broadcast(values, at.shape[1:])
    return c.call("scatter_nd", base, at, rows, mode="update")


@tf_op("SparseTensorDenseMatMul")
def _sparse_product(c: NodeCall, at: Value, values: Value, shape: Value, dense: Value) -> Value:
    turned = bool(c.attr("adjoint_a", False))
    dense = c.transpose(dense, [1, 0]) if c.attr("adjoint_b", False) else dense
    rows, columns = (c.reshape(c.cut(at, 1, k, k + 1), [-1]) for k in ((1, 0) if turned else (0, 1)))
    count = c.at(shape, 0, int(turned))
    count = (
        Value(array=np.array(c.known(shape, "dense_shape").reshape(-1)[int(turned)])) if c.is_known(shape) else count
    )
    each = c.call("multiply", c.call("take", dense, columns, axis=0), c.reshape(values, [-1, 1]))
    return c.call(
        "scatter_nd", filled(c, count, [dense.shape[1]], 0, dense.dtype), c.reshape(rows, [1, -1]), each, mode="add"
    )


@string_host("tf.sparse_order")
def _run_order(config: Config, at: np.ndarray) -> np.ndarray:
    return np.lexsort(at.T[::-1]) if at.size else np.zeros(len(at), np.int64)


@tf_op("SparseReorder")
def _reorder(c: NodeCall, at: Value, values: Value, shape: Value) -> list[Value]:
    order = host_call(c, "tf.sparse_order", [at], [c.sizes.named(at, 0)], "int64")
    return [c.call("take", at, order, axis=0), c.call("take", values, order, axis=0)]


@tf_op("SparseReshape")
def _sparse_reshape(c: NodeCall, at: Value, old: Value, new: Value) -> list[Value]:
    (rank,) = c.static(new.shape, "the number of axes")
    shape = host_call(c, "tf.sparse_reshape.size", [old, new], [rank], "int64")
    return [host_call_sized(c, "tf.sparse_reshape", [at, old, shape], 2, "int64"), shape]


@string_host("tf.sparse_reshape.size")
def _sparse_reshape_size(config: Config, old: np.ndarray, new: np.ndarray) -> np.ndarray:
    known = int(np.prod([d for d in new.tolist() if d >= 0], dtype=np.int64))
    return np.where(new < 0, int(np.prod(old)) // max(known, 1), new)


@string_host("tf.sparse_reshape", sized=True)
def _run_sparse_reshape(config: Config, at: np.ndarray, old: np.ndarray, new: np.ndarray) -> np.ndarray:
    flat = np.ravel_multi_index(tuple(at.T), tuple(old)) if len(at) else np.zeros(0, np.int64)
    return np.stack(np.unravel_index(flat, tuple(new)), 1).reshape(len(at), len(new))


@tf_op("SparseFillEmptyRows")
def _fill_rows(c: NodeCall, at: Value, values: Value, shape: Value, default: Value) -> list[Value]:
    """Empty rows get a default value; also returns which rows were empty, and the new index of each value."""
    (rank,) = c.static([at.shape[1]], "the number of axes")
    made = host_call_sized(c, "tf.fill_rows", [at, shape], 2, "int64")
    # Columns: an index, then the number of its value (-1: the default).
    where = c.reshape(c.cut(made, 1, rank, rank + 1), [-1])
    whole = c.concatenate([c.reshape(default, [1]), values], 0)
    empty = host_call_sized(c, "tf.fill_rows.empty", [at, shape], 1, "bool")
    back = host_call_sized(c, "tf.fill_rows.back", [at, shape], 1, "int64")
    return [c.cut(made, 1, 0, rank), c.call("take", whole, c.call("add", where, 1), axis=0), empty, back]


def _row_order(at: np.ndarray, shape: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(which rows are empty, the values' order by rows)."""
    empty = np.bincount(at[:, 0], minlength=int(shape[0])) == 0
    return empty, np.argsort(at[:, 0], kind="stable")


@string_host("tf.fill_rows", sized=True)
def _run_fill_rows(config: Config, at: np.ndarray, shape: np.ndarray) -> np.ndarray:
    empty, _ = _row_order(at, shape)
    added = np.zeros((int(empty.sum()), at.shape[1]), np.int64)
    added[:, 0] = np.flatnonzero(empty)
    whole = np.concatenate([np.c_[at, np.arange(len(at))], np.c_[added, np.full(len(added), -1)]])
    return whole[np.argsort(whole[:, 0], kind="stable")]


@string_host("tf.fill_rows.empty", sized=True)
def _fill_rows_empty(config: Config, at: np.ndarray, shape: np.ndarray) -> np.ndarray:
    return _row_order(at, shape)[0]


@string_host("tf.fill_rows.back", sized=True)
def _fill_rows_back(config: Config, at: np.ndarray, shape: np.ndarray) -> np.ndarray:
    made = _run_fill_rows(config, at, shape)
    back = np.zeros(len(at), np.int64)
    back[made[made[:, -1] >= 0, -1]] = np.flatnonzero(made[:, -1] >= 0)
    return back


@tf_op("EditDistance")
def _edit_distance(c: NodeCall, *xs: Value) -> Value:
    shape = c.known(xs[2], "hypothesis_shape").reshape(-1)
    truth = c.known(xs[5], "truth_shape").reshape(-1)
    extents = [int(d) for d in np.maximum(shape, truth)[:-1]]
    return host_call(
        c, "tf.EditDistance", xs, extents, "float32", wanted=extents, normalize=bool(c.attr("normalize", True))
    )


@string_host("tf.EditDistance")
def _run_edit_distance(
    config: Config, ha: np.ndarray, hv: np.ndarray, hs: np.ndarray, ta: np.ndarray, tv: np.ndarray, ts: np.ndarray
) -> np.ndarray:
    out = np.zeros(config["wanted"], np.float32)
    for place in np.ndindex(*out.shape):
        a, b = [v[(at[:, :-1] == place).all(1)].tolist() for at, v in ((ha, hv), (ta, tv))]
        row = list(range(len(b) + 1))
        for i, x in enumerate(a, 1):
            last, row = row, [i, *[0] * len(b)]
            for j, y in enumerate(b, 1):
                row[j] = min(last[j] + 1, row[j - 1] + 1, last[j - 1] + (x != y))
        many = float(row[-1])
        out[place] = many if not config["normalize"] else many / len(b) if b else (np.inf if many else 0.0)
    return out


@tf_op("UnravelIndex")
def _unravel(c: NodeCall, x: Value, shape: Value) -> Value:
    extents = c.static(c.ints(shape, "dims"), "the shape")
    found: list[Value] = []
    flat = x
    for d in reversed(extents):
        found.insert(0, c.call("floor_mod", flat, d))
        flat = c.call("floor_divide", flat, d)
    return c.call("stack", found, axis=0)


@tf_op("ConcatOffset")
def _offsets(c: NodeCall, axis: Value, *shapes: Value) -> list[Value]:
    at, total, found = int(c.number_of(axis, "axis")), 0, []
    for s in shapes:
        sizes = c.ints(s, "shape")
        row: list[Any] = [0] * len(sizes)
        row[at] = total
        found.append(sizes_value(c, np.array(row, object), s.dtype))
        total = total + sizes[at]
    return found


# ---- segment reductions: reductions over groups of rows


FIRST = {"Max": "max", "Min": "min", "Prod": "mul", "Sum": "add"}


@tf_op(
    "SegmentSum", "SegmentMax", "SegmentMin", "SegmentProd", "SegmentSumV2", "SegmentMaxV2", "SegmentMinV2", "SegmentProdV2",
    "UnsortedSegmentSum", "UnsortedSegmentMax", "UnsortedSegmentMin", "UnsortedSegmentProd",
)  # fmt: skip
def _segments(c: NodeCall, x: Value, which: Value, count: Value | None = None) -> Value:
    unsorted = c.op.startswith("Unsorted")
    mode = FIRST[c.op.removeprefix("Unsorted").removeprefix("Segment").removesuffix("V2")]
    info = np.finfo if x.dtype.startswith("float") else np.iinfo
    start = {"add": 0, "mul": 1, "max": info(x.dtype).min, "min": info(x.dtype).max}[mode]
    flat = c.reshape(as_places(c, which), [-1])
    rest = x.shape[which.ndim :]
    rows = c.reshape(x, [-1, *rest])
    total = c.at(count, 0, 0) if count is not None and count.ndim else count
    made = _gathered(c, after_last(c, which) if total is None else total, flat, rows, start, mode)
    if unsorted or mode == "add" or not c.op.startswith("Segment"):
        return made
    # Sorted operators give 0 (products 1) for groups without rows.
    held = _gathered(c, after_last(c, which) if total is None else total, flat, ones(c, flat, "int32"), 0, "add")
    empty = c.reshape(c.call("equal", held, 0), [-1, *[1] * len(rest)])
    return c.call("where", empty, c.number(1 if mode == "mul" else 0, x.dtype), made)


def _gathered(c: NodeCall, count: Value, which: Value, rows: Value, start: Any, mode: str) -> Value:
    """Rows reduced by group; negative groups are left out."""
    rest = rows.shape[1:]
    base = filled(c, count, rest, start, rows.dtype)
    if which.is_number and which.array is not None and which.array.size and which.array.min() >= 0:
        return c.call("scatter_nd", base, c.reshape(which, [1, -1]), rows, mode=mode)
    # An additional first row takes the rows without a group.
    whole = c.concatenate([c.full([1, *rest], start, rows.dtype), base], 0)
    moved = c.call("add", c.call("maximum", which, -1), 1)
    made = c.call("scatter_nd", whole, c.reshape(moved, [1, -1]), rows, mode=mode)
    return c.call("strided_slice", made, begin=(1,), end=(FAR,), strides=(1,), axes=(0,))


@tf_op(
    "SegmentMean", "SparseSegmentSum", "SparseSegmentMean", "SparseSegmentSqrtN", "SparseSegmentSumWithNumSegments",
    "SparseSegmentMeanWithNumSegments", "SparseSegmentSqrtNWithNumSegments",
)  # fmt: skip
def _segment_means(c: NodeCall, x: Value, *given: Value) -> Value:
    """Sums of rows by group (sparse operators look rows up first). Means divide them by the count, or its square root."""
    rest_given = list(given)
    count = rest_given.pop() if c.op.endswith("NumSegments") else None
    which = rest_given.pop()
    if rest_given:
        x = c.call("take", x, as_places(c, rest_given[0]), axis=0)
    flat = as_places(c, which)
    n = after_last(c, which) if count is None else count
    total = _gathered(c, n, flat, x, 0, "add")
    if "Sum" in c.op.removesuffix("WithNumSegments"):
        return total
    held = _gathered(c, n, flat, ones(c, flat, x.dtype), 0, "add")
    held = c.call("maximum", held, 1)
    held = c.call("sqrt", held) if "SqrtN" in c.op else held
    return c.call("divide", total, c.reshape(held, [-1, *[1] * (x.ndim - 1)]))


@tf_op("Bincount", "DenseBincount")
def _bincount(c: NodeCall, x: Value, size: Value, weights: Value) -> Value:
    """The count of each number below `size`, or the sum of its weights; larger numbers are left out."""
    if x.ndim > 1 and c.op == "DenseBincount":
        return _bincount_rows(c, x, size, weights)
    (held,) = c.static([np.prod(np.array(weights.shape, object))], "the number of weights")
    flat = c.reshape(as_places(c, x), [-1])
    binary = bool(c.attr("binary_output", False))
    each = c.reshape(weights, [-1]) if held and not binary else ones(c, flat, weights.dtype)
    mode = "max" if binary else "add"
    if c.is_known(size):
        # Larger numbers go past the end, which is cut off.
        (n,) = c.ints(c.reshape(size, [1]), "size")
        inside = c.call("where", c.call("greater_equal", flat, n), c.number(-1, flat.dtype), flat)
        return _gathered(c, size, inside, each, 0, mode)
    inside = c.call("where", c.call("greater_equal", flat, c.cast(size, flat.dtype)), c.number(-1, flat.dtype), flat)
    return _gathered(c, size, inside, each, 0, mode)


def _bincount_rows(c: NodeCall, x: Value, size: Value, weights: Value) -> Value:
    """The counts of each row of numbers."""
    rows, columns = c.static(x.shape, "the shape of its input")
    (held,) = c.static([np.prod(np.array(weights.shape, object))], "the number of weights")
    binary = bool(c.attr("binary_output", False))
    n = c.cast(size, "int64")
    wide = c.cast(x, "int64")
    at = c.call("add", c.call("multiply", Value(array=np.arange(rows).reshape(-1, 1)), n), wide)
    flat = c.reshape(c.call("where", c.call("less", wide, n), at, c.number(-1, "int64")), [-1])
    each = c.reshape(weights, [-1]) if held and not binary else ones(c, flat, weights.dtype)
    made = _gathered(c, c.call("multiply", n, rows), flat, each, 0, "max" if binary else "add")
    return c.reshape(made, [rows, -1])
