"""Converters of segment reductions (with embedding bags) and histograms."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tilewright.relay.frontend.common.builder import Operand
from tilewright.relay.frontend.common.value import Value
from tilewright.relay.frontend.pytorch.dtypes import is_float
from tilewright.relay.frontend.pytorch.ops.movement import cut
from tilewright.relay.frontend.pytorch.value import TorchCall, aten
from tilewright.support.errors import OpNotImplemented

START = {"sum": 0.0, "mean": 0.0, "prod": 1.0, "max": -np.inf, "min": np.inf}
MODES = {"sum": "add", "mean": "add", "prod": "mul", "max": "max", "min": "min"}


def _counted(c: TorchCall, groups: Value, start: Value, weights: Value | None = None) -> Value:
    """The number of elements of each group (int64), or the sum of their weights, added to `start`."""
    flat = c.reshape(groups, [-1])
    ones = c.broadcast(c.number(1, start.dtype), flat.shape) if weights is None else c.reshape(weights, [-1])
    return c.call("scatter_elements", start, flat, ones, axis=0, reduction="add", outside=True)


def _places(c: TorchCall, count: Any) -> Value:
    return c.call("arange", start=0, stop=count, step=1, dtype="int64")


@aten("embedding_bag", "_embedding_bag", "_embedding_bag_forward_only")
def _embedding_bag(
    c: TorchCall, weight: Value, indices: Value, offsets: Value, scale: bool = False, mode: int = 0, sparse: bool = False,
    per_sample_weights: Value | None = None, include_last_offset: bool = False, padding_idx: int | None = None,
) -> list[Value | None]:  # fmt: skip
    if any([c.wants(k) for k in (1, 2, 3)]):
        raise OpNotImplemented("its results after the first, which only training needs, are not supported")
    (count,), (segments,) = indices.shape, offsets.shape
    segments = segments - 1 if include_last_offset else segments
    name = ("sum", "mean", "max")[mode]
    rows = c.call("take", weight, c.cast(indices, "int64"), axis=0, mode="bounded")
    if per_sample_weights is not None:
        rows = c.call("multiply", rows, c.call("expand_dims", per_sample_weights, axis=1))
    groups = c.call("searchsorted", c.cast(offsets, "int64"), _places(c, count), right=True, dtype="int64")
    groups = c.call("subtract", groups, 1)
    ones = c.full([count], 1, rows.dtype)
    if padding_idx is not None and padding_idx >= 0:
        kept = c.call("not_equal", indices, padding_idx)
        neutral = c.number(START[name], rows.dtype)
        rows = c.call("where", c.call("expand_dims", kept, axis=1), rows, neutral)
        ones = c.cast(kept, rows.dtype)
    width = weight.shape[1]
    start = c.full([segments, width], START[name], rows.dtype)
    made = c.call("scatter_nd", start, c.call("expand_dims", groups, axis=0), rows, mode=MODES[name], outside=True)
    if name != "sum":
        number = c.call("expand_dims", _counted(c, groups, c.full([segments], 0, rows.dtype), ones), axis=1)
        if name == "mean":
            made = c.call("divide", made, c.call("maximum", number, 1))
        else:
            made = c.call("where", c.call("greater", number, 0), made, c.number(0, rows.dtype))
    return [made, None, None, None]


@aten("embedding_bag.padding_idx")
def _embedding_bag_with_padding(
    c: TorchCall, weight: Value, indices: Value, offsets: Value, scale: bool, mode: int, sparse: bool,
    per_sample_weights: Value | None, include_last_offset: bool, padding_idx: int | None,
) -> list[Value | None]:  # fmt: skip
    # A negative row counts from the end here; the operators below use -1 for no row.
    row = padding_idx if padding_idx is None or padding_idx >= 0 else padding_idx + weight.known_extent(0)
    return _embedding_bag(
        c, weight, indices, offsets, scale, mode, sparse, per_sample_weights, include_last_offset, row
    )


@aten("segment_reduce")
def _segment_reduce(
    c: TorchCall, x: Value, reduce: str, lengths: Value | None = None, indices: Value | None = None, offsets: Value | None = None,
    axis: int = 0, unsafe: bool = False, initial: Any = None,
) -> Value:  # fmt: skip
    if indices is not None:
        raise c.refuse("indices", "a tensor", "None: give lengths or offsets")
    extent = x.shape[axis]
    if offsets is not None:
        ends = cut(c, c.cast(offsets, "int64"), axis, 1, offsets.shape[axis])
    elif lengths is not None:
        ends = c.call("cumsum", c.cast(lengths, "int64"), axis=axis)
    else:
        raise c.refuse("lengths", None, "a tensor, or offsets")
    segments = ends.shape[axis]
    places = c.broadcast(_places(c, extent), [*x.shape[:axis], extent])
    groups = c.call("searchsorted", ends, places, right=True, dtype="int64")
    wide = c.broadcast(c.reshape(groups, [*groups.shape, *[1] * (x.ndim - axis - 1)]), x.shape)
    shape = [*x.shape[:axis], segments, *x.shape[axis + 1 :]]
    start = c.full(shape, START[reduce] if initial is None else initial, x.dtype)
    made = c.call("scatter_elements", start, wide, x, axis=axis, reduction=MODES[reduce], outside=True)
    if reduce != "mean":
        return made
    ones = c.full(x.shape, 1, x.dtype)
    number = c.call("scatter_elements", c.full(shape, 0, x.dtype), wide, ones, axis=axis, reduction="add", outside=True)
    nothing = c.call("equal", number, 0)
    mean = c.call("divide", made, c.call("maximum", number, 1))
    return mean if initial is not None else c.call("where", nothing, c.number(np.nan, x.dtype), mean)


# Histograms


def _edges(c: TorchCall, x: Value, bins: int, ends: Sequence[Any] | None, slack: float) -> Value:
    """bins + 1 bounds between two ends. Default ends: minimum and maximum of the elements. `slack` separates equal ends."""
    low, high = ends or (None, None)
    if low is None:
        if any([isinstance(d, int) and not d for d in x.shape]):
            low, high = c.number(0, x.dtype), c.number(1, x.dtype)
        else:
            flat = c.reshape(x, [-1])
            low, high = c.call("min", flat, axis=(0,)), c.call("max", flat, axis=(0,))
    else:
        low, high = c.number(low, x.dtype), c.number(high, x.dtype)
    room = c.call("where", c.call("equal", low, high), c.number(slack, x.dtype), c.number(0, x.dtype))
    low, high = c.call("subtract", low, room), c.call("add", high, room)
    steps = c.call("divide", c.call("subtract", high, low), float(bins))
    # Computed from both ends, so both are exact.
    up = c.call("add", low, c.call("multiply", Value(array=np.arange(bins + 1).astype(x.dtype)), steps))
    down = c.call("subtract", high, c.call("multiply", Value(array=np.arange(bins, -1, -1).astype(x.dtype)), steps))
    return c.call("where", Value(array=np.arange(bins + 1) < (bins + 1) // 2), up, down)


def _bin(c: TorchCall, x: Value, edges: Value) -> Value:
    """The bin of each element. The last bin includes both bounds. Elements outside of all bins get the number of bins."""
    (count,) = c.static(edges.shape, "the number of its bounds")
    found = c.call("searchsorted", edges, x, right=True, dtype="int64")
    first, last = (c.call("squeeze", cut(c, edges, 0, k, k + 1), axis=(0,)) for k in (0, count - 1))
    inside = c.call("logical_and", c.call("greater_equal", x, first), c.call("less_equal", x, last))
    place = c.call("minimum", c.call("subtract", found, 1), count - 2)
    return c.call("where", inside, place, c.number(count - 1, "int64"))


def _histogram(
    c: TorchCall, columns: Sequence[Value], edges: Sequence[Value], weight: Value | None, density: bool
) -> Value:
    """The number (or weight) of the points in each box. Columns are the points' coordinates."""
    dtype = columns[0].dtype
    counts = [c.static(e.shape, "the number of its bounds")[0] - 1 for e in edges]
    box, out = c.number(0, "int64"), c.number(False, "bool")
    for x, e, n in zip(columns, edges, counts, strict=True):
        place = _bin(c, x, e)
        box = c.call("add", c.call("multiply", box, n), place)
        out = c.call("logical_or", out, c.call("equal", place, n))
    total = int(np.prod(counts))
    box = c.call("where", out, c.number(total, "int64"), box)
    made = _counted(c, box, c.full([total + 1], 0, dtype), weight)
    made = c.reshape(cut(c, made, 0, 0, total), counts)
    if not density:
        return made
    made = c.call("divide", made, c.call("sum", made, axis=tuple(range(len(counts)))))
    for k, (e, n) in enumerate(zip(edges, counts, strict=True)):
        widths = c.call("subtract", cut(c, e, 0, 1, n + 1), cut(c, e, 0, 0, n))
        made = c.call("divide", made, c.reshape(widths, [n if j == k else 1 for j in range(len(counts))]))
    return made


@aten("histc")
def _histc(c: TorchCall, x: Value, bins: int = 100, low: Operand = 0, high: Operand = 0) -> Value:
    ends = None if low == high else (low, high)
    flat = c.reshape(x, [-1])
    values = flat if is_float(x.dtype) else c.cast(flat, "float64")
    made = _histogram(c, [values], [_edges(c, values, bins, ends, 1.0)], None, False)
    return c.cast(made, x.dtype)


@aten("histogram.bin_ct")
def _histogram_by_number(
    c: TorchCall, x: Value, bins: int = 100, range: Sequence[float] | None = None, weight: Value | None = None, density: bool = False
) -> list[Value]:  # fmt: skip
    edges = _edges(c, x, bins, range, 0.5)
    return [_histogram(c, [c.reshape(x, [-1])], [edges], weight, density), edges]


@aten("histogram", "histogram.bins_tensor")
def _histogram_by_edges(
    c: TorchCall, x: Value, bins: Value, weight: Value | None = None, density: bool = False
) -> list[Value]:
    return [_histogram(c, [c.reshape(x, [-1])], [bins], weight, density), bins]


def _columns(c: TorchCall, x: Value) -> list[Value]:
    last = x.ndim - 1
    (n,) = c.static(x.shape[last:], "the number of its coordinates")
    return [c.reshape(cut(c, x, last, k, k + 1), [-1]) for k in range(n)]


@aten("_histogramdd_bin_edges")
def _box_edges(
    c: TorchCall, x: Value, bins: Sequence[int], range: Sequence[float] | None = None, weight: Value | None = None, density: bool = False
) -> list[Value]:  # fmt: skip
    ends = [range[2 * k : 2 * k + 2] if range else None for k, _ in enumerate(bins)]
    return [_edges(c, v, n, e, 0.5) for v, n, e in zip(_columns(c, x), bins, ends, strict=True)]


@aten("_histogramdd_from_bin_cts")
def _boxes(
    c: TorchCall, x: Value, bins: Sequence[int], range: Sequence[float] | None = None, weight: Value | None = None, density: bool = False
) -> Value:  # fmt: skip
    return _histogram(c, _columns(c, x), _box_edges(c, x, bins, range), weight, density)


@aten("_histogramdd_from_bin_tensors")
def _boxes_by_edges(
    c: TorchCall, x: Value, bins: Sequence[Value], weight: Value | None = None, density: bool = False
) -> Value:
    return _histogram(c, _columns(c, x), bins, weight, density)
