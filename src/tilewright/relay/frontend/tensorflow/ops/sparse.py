"""Converters of arithmetic on sparse tensors (indices, values, shape) by host functions, and of counts of sparse and ragged data."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tilewright.relay.frontend.common.host_calls import host_call, host_call_sized
from tilewright.relay.frontend.common.value import StringTensor, Value
from tilewright.relay.frontend.tensorflow.value import NodeCall, string_op, tf_op
from tilewright.runtime.host_functions.registry import Config
from tilewright.runtime.host_functions.strings import as_bytes, string_host
from tilewright.support.errors import OpNotImplemented

Sparse = tuple[np.ndarray, np.ndarray, np.ndarray]
"""(indices, values, shape)."""


def _sparse_host(name: str) -> Callable[[Callable[..., Sparse]], Callable[..., Sparse]]:
    """Registers f(config, *arrays) -> a sparse tensor. Each of its three parts becomes a host function."""

    def register(f: Callable[..., Sparse]) -> Callable[..., Sparse]:
        def part(k: int) -> Callable[..., np.ndarray]:
            return lambda config, *arrays: f(config, *arrays)[k]

        for k, suffix in enumerate(("places", "values", "size")):
            string_host(f"tf.{name}.{suffix}", sized=k < 2)(part(k))
        return f

    return register


def _sparse(c: NodeCall, name: str, given: Sequence[Value], rank: int, dtype: str, **config: Any) -> list[Value]:
    return [
        host_call_sized(c, f"tf.{name}.places", given, 2, "int64", **config),
        host_call_sized(c, f"tf.{name}.values", given, 1, dtype, **config),
        host_call(c, f"tf.{name}.size", given, [rank], "int64", **config),
    ]


def _rank(c: NodeCall, at: Value) -> int:
    return c.static([at.shape[1]], "the number of axes")[0]


def _ordered(at: np.ndarray, values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    order = np.lexsort(at.T[::-1]) if len(at) else np.zeros(0, np.int64)
    return at[order], values[order]


def _flat(at: np.ndarray, shape: np.ndarray) -> np.ndarray:
    return np.ravel_multi_index(tuple(at.T), tuple(shape.tolist())) if len(at) else np.zeros(0, np.int64)


# ---- two sparse tensors


@tf_op("SparseAdd", "SparseSparseMaximum", "SparseSparseMinimum")
def _two(c: NodeCall, *given: Value) -> list[Value]:
    threshold = float(c.number_of(given[6], "thresh")) if c.op == "SparseAdd" else -1.0
    made = _sparse(c, "sparse_two", given[:6], _rank(c, given[0]), given[1].dtype, op=c.op, threshold=threshold)
    return made if c.op == "SparseAdd" else made[:2]


@_sparse_host("sparse_two")
def _run_two(config: Config, *given: np.ndarray) -> Sparse:
    ap, av, shape, bp, bv = given[:5]
    flat = np.unique(np.concatenate([_flat(ap, shape), _flat(bp, shape)]))
    sides, held = np.zeros((2, len(flat)), av.dtype), np.zeros((2, len(flat)), bool)
    for side, at, v in ((0, ap, av), (1, bp, bv)):
        places = np.searchsorted(flat, _flat(at, shape))
        np.add.at(sides[side], places, v)
        held[side, places] = True
    if config["op"] == "SparseAdd":
        made = sides.sum(0, dtype=av.dtype)
        # The threshold applies only to elements of both tensors.
        kept = ~held.all(0) | (np.abs(made) >= config["threshold"])
    else:
        made = sides.max(0) if config["op"].endswith("Maximum") else sides.min(0)
        kept = held.any(0)
    at = np.stack(np.unravel_index(flat, tuple(shape.tolist())), 1).reshape(-1, len(shape))
    return at[kept].astype(np.int64), made[kept], shape


@tf_op("SparseConcat")
def _concat(c: NodeCall, *given: Value) -> list[Value]:
    n = len(given) // 3
    rank = _rank(c, given[0])
    return _sparse(c, "sparse_concat", given, rank, given[n].dtype, axis=c.axis(int(c.attr("concat_dim")), rank))


@_sparse_host("sparse_concat")
def _run_concat(config: Config, *given: np.ndarray) -> Sparse:
    n, axis = len(given) // 3, config["axis"]
    places, values, shapes = given[:n], given[n : 2 * n], given[2 * n :]
    begin, moved = 0, []
    for at, shape in zip(places, shapes, strict=True):
        at = at.copy()
        at[:, axis] += begin
        begin += int(shape[axis])
        moved.append(at)
    size = shapes[0].copy()
    size[axis] = begin
    return *_ordered(np.concatenate(moved), np.concatenate(values)), size


# ---- parts


@tf_op("SparseSlice")
def _slice(c: NodeCall, *given: Value) -> list[Value]:
    return _sparse(c, "sparse_slice", given, _rank(c, given[0]), given[1].dtype)


@_sparse_host("sparse_slice")
def _run_slice(
    config: Config, at: np.ndarray, values: np.ndarray, shape: np.ndarray, start: np.ndarray, size: np.ndarray
) -> Sparse:
    end = np.minimum(start + size, shape)
    kept = ((at >= start) & (at < end)).all(1)
    return at[kept] - start, values[kept], np.maximum(end - start, 0)


@tf_op("SparseSplit")
def _split(c: NodeCall, axis: Value, at: Value, values: Value, shape: Value) -> list[Value]:
    n = int(c.attr("num_split"))
    k = c.axis(int(c.number_of(axis, "split_dim")), _rank(c, at))
    parts = [
        _sparse(c, "sparse_split", [at, values, shape], _rank(c, at), values.dtype, axis=k, count=n, part=p)
        for p in range(n)
    ]
    return [part[k] for k in range(3) for part in parts]


@_sparse_host("sparse_split")
def _run_split(config: Config, at: np.ndarray, values: np.ndarray, shape: np.ndarray) -> Sparse:
    axis, n, part = config["axis"], config["count"], config["part"]
    extent = int(shape[axis])
    # If the extent is not a multiple, the first parts have one element more.
    sizes = [extent // n + (k < extent % n) for k in range(n)]
    begin = sum(sizes[:part])
    kept = (at[:, axis] >= begin) & (at[:, axis] < begin + sizes[part])
    places, size = at[kept].copy(), shape.copy()
    places[:, axis] -= begin
    size[axis] = sizes[part]
    return places, values[kept], size


# ---- sums


@tf_op("SparseReduceSum", "SparseReduceMax", "SparseReduceSumSparse", "SparseReduceMaxSparse")
def _reduce(c: NodeCall, at: Value, values: Value, shape: Value, axes: Value) -> Value | list[Value]:
    rank = _rank(c, at)
    over = sorted({c.axis(a, rank) for a in c.ints(axes, "reduction_axes")}) or list(range(rank))
    keep = bool(c.attr("keep_dims", False))
    given: list[Value] = [at, values, shape]
    config: Config = {"axes": over, "keep": keep, "most": "Max" in c.op}
    left = rank if keep else rank - len(over)
    if c.op.endswith("Sparse"):
        return _sparse(c, "sparse_reduced", given, left, values.dtype, **config)
    if c.is_known(shape):
        extents = [1 if k in over else d for k, d in enumerate(c.ints(shape, "shape")) if keep or k not in over]
        return host_call(c, "tf.sparse_reduce", given, extents, values.dtype, **config)
    return host_call_sized(c, "tf.sparse_reduce", given, left, values.dtype, **config)


def _grouped(
    config: Config, at: np.ndarray, values: np.ndarray, shape: np.ndarray
) -> tuple[np.ndarray, np.ndarray, list[int]]:
    """(remaining indices, their values, the shape), without the reduced axes."""
    kept = [k for k in range(len(shape)) if k not in config["axes"]]
    size = [int(shape[k]) for k in kept]
    flat = _flat(at[:, kept], np.array(size, np.int64)) if kept else np.zeros(len(at), np.int64)
    groups, which = np.unique(flat, return_inverse=True)
    made = np.full(len(groups), _least(values.dtype) if config["most"] else 0, values.dtype)
    (np.maximum if config["most"] else np.add).at(made, which.reshape(-1), values)
    return groups, made, size


def _least(dtype: np.dtype[Any]) -> float | int:
    return -np.inf if dtype.kind == "f" else np.iinfo(dtype).min


@string_host("tf.sparse_reduce", sized=True)
def _run_reduce(config: Config, at: np.ndarray, values: np.ndarray, shape: np.ndarray) -> np.ndarray:
    groups, made, size = _grouped(config, at, values, shape)
    out = np.zeros(int(np.prod(size, dtype=np.int64)), values.dtype)
    out[groups] = made
    return out.reshape(
        [1 if k in config["axes"] else int(d) for k, d in enumerate(shape) if config["keep"] or k not in config["axes"]]
    )


@_sparse_host("sparse_reduced")
def _run_reduced(config: Config, at: np.ndarray, values: np.ndarray, shape: np.ndarray) -> Sparse:
    groups, made, size = _grouped(config, at, values, shape)
    places = np.stack(np.unravel_index(groups, tuple(size)), 1) if size else np.zeros((len(groups), 0), np.int64)
    whole = np.array(size, np.int64)
    if config["keep"]:
        for axis in config["axes"]:
            places, whole = np.insert(places, axis, 0, 1), np.insert(whole, axis, 1)
    return places.astype(np.int64), made, whole


@tf_op("SparseSoftmax")
def _softmax(c: NodeCall, at: Value, values: Value, shape: Value) -> Value:
    return host_call(c, "tf.sparse_softmax", [at, values, shape], [c.sizes.named(values, 0)], values.dtype)


@string_host("tf.sparse_softmax")
def _run_softmax(config: Config, at: np.ndarray, values: np.ndarray, shape: np.ndarray) -> np.ndarray:
    flat = _flat(at[:, :-1], shape[:-1])
    groups, which = np.unique(flat, return_inverse=True)
    most = np.full(len(groups), -np.inf, values.dtype)
    np.maximum.at(most, which, values)
    powers = np.exp(values - most[which])
    total = np.zeros(len(groups), values.dtype)
    np.add.at(total, which, powers)
    shares: np.ndarray = powers / total[which]
    return shares


# ---- a sparse and a dense tensor


@tf_op("SparseDenseCwiseMul", "SparseDenseCwiseDiv", "SparseDenseCwiseAdd")
def _dense(c: NodeCall, at: Value, values: Value, shape: Value, dense: Value) -> Value:
    rank = _rank(c, at)
    columns = []
    for axis, d in enumerate(dense.shape):
        column = c.reshape(c.cut(at, 1, rank - dense.ndim + axis, rank - dense.ndim + axis + 1), [1, -1])
        columns.append(c.call("multiply", column, c.number(0, "int64")) if isinstance(d, int) and d == 1 else column)
    picked = c.call("gather_nd", dense, c.concatenate(columns, 0)) if columns else dense
    key = {"Mul": "multiply", "Div": "divide", "Add": "add"}[c.op[-3:]]
    return c.call(key, values, picked)


@tf_op("SparseTensorDenseAdd")
def _dense_sum(c: NodeCall, at: Value, values: Value, shape: Value, dense: Value) -> Value:
    return c.call("scatter_nd", dense, c.transpose(c.cast(at, "int64"), [1, 0]), values, mode="add")


# ---- counts


@tf_op("SparseBincount", "RaggedBincount")
def _bincount(c: NodeCall, *given: Value) -> Value:
    ragged = c.op.startswith("Ragged")
    size, weights = given[-2:]
    config: Config = {"ragged": ragged, "binary": bool(c.attr("binary_output", False))}
    tensors = [*given[: 2 if ragged else 3], weights, size]
    rows: list[Any] | None
    if ragged:
        rank, rows = 2, [c.sizes.named(given[0], 0) - 1]
    else:
        (rank,) = c.static([given[2].shape[0]], "the number of axes")
        rows = c.ints(given[2], "dense_shape")[:-1] if c.is_known(given[2]) else [] if rank == 1 else None
    if rows is not None and c.is_known(size):
        return host_call(
            c, "tf.bincount", tensors, [*rows, *c.ints(c.reshape(size, [1]), "size")], weights.dtype, **config
        )
    return host_call_sized(c, "tf.bincount", tensors, rank, weights.dtype, **config)


@string_host("tf.bincount", sized=True)
def _run_bincount(config: Config, *given: np.ndarray) -> np.ndarray:
    weights, n = given[-2], int(given[-1].reshape(-1)[0])
    if config["ragged"]:
        splits, values = given[:2]
        row, shape = np.repeat(np.arange(len(splits) - 1), np.diff(splits)), [len(splits) - 1]
    else:
        at, values, size = given[:3]
        shape = size[:-1].tolist()
        row = at[:, 0] if shape else np.zeros(len(at), np.int64)
    out = np.zeros((shape[0] if shape else 1, n), weights.dtype)
    inside = (values >= 0) & (values < n)
    if config["binary"]:
        out[row[inside], values[inside]] = 1
    else:
        np.add.at(out, (row[inside], values[inside]), weights.reshape(-1)[inside] if weights.size else 1)
    return out.reshape([*shape, n])


@tf_op("DenseCountSparseOutput", "SparseCountSparseOutput", "RaggedCountSparseOutput")
def _counts(c: NodeCall, *given: Value) -> list[Value]:
    kind = c.op.removesuffix("CountSparseOutput")
    weights = given[-1]
    rank = (
        given[0].ndim
        if kind == "Dense"
        else 2
        if kind == "Ragged"
        else c.static([given[2].shape[0]], "the number of axes")[0]
    )
    if rank not in (1, 2):
        raise OpNotImplemented(f"its input has {rank} axes; it counts in one or two")
    config: Config = {
        "kind": kind, "least": int(c.attr("minlength", -1)), "most": int(c.attr("maxlength", -1)),
        "binary": bool(c.attr("binary_output", False)), "axes": rank,
    }  # fmt: skip
    return _sparse(c, "counts", given, rank, weights.dtype, **config)


@_sparse_host("counts")
def _run_counts(config: Config, *given: np.ndarray) -> Sparse:
    weights = given[-1]
    if config["kind"] == "Dense":
        values = given[0].reshape(-1)
        row = (
            np.repeat(np.arange(len(given[0])), given[0].shape[1])
            if config["axes"] == 2
            else np.zeros(values.size, np.int64)
        )
        rows = len(given[0])
    elif config["kind"] == "Ragged":
        values, rows = given[1], len(given[0]) - 1
        row = np.repeat(np.arange(rows), np.diff(given[0]))
    else:
        values, rows = given[1], int(given[2][0])
        row = given[0][:, 0] if config["axes"] == 2 else np.zeros(values.size, np.int64)
    kept = (values >= 0) & ((values < config["most"]) if config["most"] >= 0 else True)
    pairs = np.stack([row, values.astype(np.int64)], 1)[kept]
    at, which = np.unique(pairs, axis=0, return_inverse=True)
    made = np.zeros(len(at), weights.dtype)
    each = weights.reshape(-1)[kept] if weights.size and not config["binary"] else np.ones(len(pairs), weights.dtype)
    np.add.at(made, which.reshape(-1), each)
    made = (made != 0).astype(weights.dtype) if config["binary"] else made
    width = config["most"] if config["most"] >= 0 else int(values.max(initial=-1)) + 1
    width = max(width, config["least"])
    return (at, made, np.array([rows, width])) if config["axes"] == 2 else (at[:, 1:], made, np.array([width]))


# ---- rows as sets


@string_op("DenseToDenseSetOperation", "DenseToSparseSetOperation", "SparseToSparseSetOperation")
def _sets(c: NodeCall, *given: Value) -> list[Value]:
    """Differences, intersections or unions of the sets along the last axes, sorted, as a sparse tensor."""
    first = 1 if c.op.startswith("Dense") else 3
    rank = given[0].ndim if first == 1 else _rank(c, given[0])
    kind = "string" if isinstance(given[0 if first == 1 else 1], StringTensor) else given[0 if first == 1 else 1].dtype
    return _sparse(c, "sets", given, rank, kind, how=str(c.attr("set_operation")), first=first)


def _rows(given: Sequence[np.ndarray]) -> tuple[dict[tuple[int, ...], set[Any]], tuple[int, ...]]:
    """(index -> set of each row, the shape without the last axis)."""
    rows: dict[tuple[int, ...], set[Any]] = {}
    if len(given) == 1:
        for at in np.ndindex(given[0].shape[:-1]):
            rows[at] = set(given[0][at].tolist())
        return rows, given[0].shape[:-1]
    for place, value in zip(given[0].tolist(), given[1].tolist(), strict=True):
        rows.setdefault(tuple(place[:-1]), set()).add(value)
    return rows, tuple(given[2][:-1].tolist())


@_sparse_host("sets")
def _run_sets(config: Config, *given: np.ndarray) -> Sparse:
    (a, shape), (b, _) = _rows(given[: config["first"]]), _rows(given[config["first"] :])
    places, values, longest = [], [], 0
    for at in sorted({*a, *b}):
        x, y = a.get(at, set()), b.get(at, set())
        how = config["how"]
        made = x - y if how == "a-b" else y - x if how == "b-a" else x & y if how == "intersection" else x | y
        # Strings are sorted by their bytes.
        ordered = sorted(made, key=lambda v: as_bytes(v) if isinstance(v, str) else v)
        places += [(*at, k) for k in range(len(ordered))]
        values += ordered
        longest = max(longest, len(ordered))
    like = given[0] if config["first"] == 1 else given[1]
    out = np.empty(len(values), like.dtype)
    out[:] = values
    return np.array(places, np.int64).reshape(len(values), len(shape) + 1), out, np.array([*shape, longest])


@string_op("SetSize")
def _set_size(c: NodeCall, at: Value, values: Value, shape: Value) -> Value:
    given = [at, values, shape]
    if c.is_known(shape):
        return host_call(c, "tf.SetSize", given, c.ints(shape, "set_shape")[:-1], "int32")
    return host_call_sized(c, "tf.SetSize", given, _rank(c, at) - 1, "int32")


@string_host("tf.SetSize", sized=True)
def _run_set_size(config: Config, at: np.ndarray, values: np.ndarray, shape: np.ndarray) -> np.ndarray:
    rows, extents = _rows([at, values, shape])
    out = np.zeros(extents, np.int32)
    for place, held in rows.items():
        out[place] = len(held)
    return out
