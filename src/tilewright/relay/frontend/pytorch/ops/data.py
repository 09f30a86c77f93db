"""Converters of operators with results of data-dependent length: non-zero indices, unique elements, repetitions."""

from __future__ import annotations

from typing import Any

import numpy as np

from tilewright.relay.frontend.common.value import Value
from tilewright.relay.frontend.pytorch.dtypes import is_float
from tilewright.relay.frontend.pytorch.ops.movement import FAR, cut
from tilewright.relay.frontend.pytorch.value import TorchCall, aten
from tilewright.runtime.host_functions.registry import Config, config_text, host_function


def columns(c: TorchCall, x: Value) -> list[Value]:
    """The indices of the nonzero elements of x: one vector for each axis, in order."""
    if x.array is not None and x.is_number:
        return [Value(array=p.astype(np.int64)) for p in np.nonzero(x.array)]
    rows = places_of(c, x)
    return [c.call("squeeze", cut(c, rows, 1, k, k + 1), axis=(1,)) for k in range(x.ndim)]


def places_of(c: TorchCall, x: Value) -> Value:
    """The indices of the nonzero elements of x, one row for each."""
    if not x.ndim:
        x = c.reshape(x, [1])
        return cut(c, places_of(c, x), 1, 0, 0)
    return c.cast(c.counted("argwhere", x), "int64")


@aten("nonzero", "argwhere")
def _nonzero(c: TorchCall, x: Value) -> np.ndarray | Value:
    if x.array is not None and x.is_number:
        return np.argwhere(x.array).astype(np.int64)
    return places_of(c, x)


@aten("nonzero_numpy")
def _nonzero_columns(c: TorchCall, x: Value) -> list[Value]:
    return columns(c, c.reshape(x, [1]) if not x.ndim else x)


@aten("nonzero_static")
def _nonzero_static(c: TorchCall, x: Value, size: Any, fill_value: int = -1) -> Value:
    (rows,) = c.static([size], "the number of places wanted")
    found = _nonzero(c, x)
    found = found if isinstance(found, Value) else Value(array=found)
    rest = c.full([rows, x.ndim], fill_value, "int64")
    return cut(c, c.call("concatenate", [found, rest], axis=0), 0, 0, rows)


@aten("unique_consecutive")
def _unique_consecutive(
    c: TorchCall, x: Value, return_inverse: bool = False, return_counts: bool = False, dim: int | None = None
) -> list[Value]:
    flat, axis = (c.reshape(x, [-1]), 0) if dim is None else (x, c.axis(dim, x.ndim))
    (extent,) = c.static([flat.shape[axis]], "the extent in which it looks for repetitions")
    changed = c.call("not_equal", cut(c, flat, axis, 1, FAR), cut(c, flat, axis, 0, extent - 1))
    rest = tuple([k for k in range(flat.ndim) if k != axis])
    changed = c.call("any", changed, axis=rest) if rest else changed
    first = c.call("concatenate", [c.full([min(extent, 1)], True, "bool"), changed], axis=0)
    (places,) = columns(c, first)
    made = c.call("take", flat, places, axis=axis, mode="clip")
    inverse = c.call("subtract", c.call("cumsum", c.cast(first, "int64"), axis=0), 1)
    ends = c.call("concatenate", [cut(c, places, 0, 1, FAR), c.full([min(extent, 1)], extent, "int64")], axis=0)
    counts = c.call("subtract", ends, places)
    return [made, c.reshape(inverse, x.shape) if dim is None else inverse, counts]


@aten("_unique2", "_unique")
def _unique(
    c: TorchCall, x: Value, is_sorted: bool = True, return_inverse: bool = False, return_counts: bool = False
) -> list[Value]:
    flat = c.cast(c.reshape(x, [-1]), "int8" if x.dtype == "bool" else x.dtype)
    made, _, inverse, _, counts = c.counted_parts("unique", flat, is_sorted=True, return_counts=True)
    return [c.cast(made, x.dtype), c.reshape(c.cast(inverse, "int64"), x.shape), c.cast(counts, "int64")]


@host_function("torch.unique_rows")
def _unique_rows(config: Config, rows: np.ndarray) -> np.ndarray:
    """(3, number of rows): index of the first copy of each unique row; number of the unique row for each row; count of each unique row."""
    _, first, which, counts = np.unique(rows, axis=0, return_index=True, return_inverse=True, return_counts=True)
    made = np.zeros((3, len(rows)), np.int64)
    made[0, : len(first)], made[1], made[2, : len(first)] = first, which.reshape(-1), counts
    return made


@aten("unique_dim")
def _unique_dim(
    c: TorchCall, x: Value, dim: int, is_sorted: bool = True, return_inverse: bool = False, return_counts: bool = False
) -> list[Value]:
    axis = c.axis(dim, x.ndim)
    order = [axis, *[k for k in range(x.ndim) if k != axis]]
    (extent,) = c.static([x.shape[axis]], "the extent in which it looks for repetitions")
    if not extent:
        return [x, c.full([0], 0, "int64"), c.full([0], 0, "int64")]
    rows = c.reshape(c.transpose(x, order), [extent, -1])
    made = c.call(
        "host.call", [rows], function="torch.unique_rows", shape=(3, extent), dtype="int64", config=config_text({})
    )
    first, inverse, counts = [c.call("squeeze", cut(c, made, 0, k, k + 1), axis=(0,)) for k in range(3)]
    number = c.call("add", c.call("max", inverse, axis=(0,)), 1)
    first, counts = [c.counted("dyn.prefix", v, number) for v in (first, counts)]
    return [c.call("take", x, first, axis=axis, mode="clip"), inverse, counts]


@aten("repeat_interleave.Tensor")
def repetitions(c: TorchCall, repeats: Value, output_size: Any = None) -> np.ndarray | Value:
    """Index 0 repeated by the first number, index 1 by the second, and so on."""
    if repeats.array is not None and repeats.is_number:
        return np.repeat(np.arange(len(repeats.array)), repeats.array).astype(np.int64)
    times = c.cast(repeats, "int64")
    if isinstance(output_size, int):
        places = Value(array=np.arange(output_size))
    else:
        places = c.counted("dyn.iota", c.call("sum", times, axis=(0,)), dtype="int64")
    return c.call("searchsorted", c.call("cumsum", times, axis=0), places, right=True, dtype="int64")


@aten("repeat_interleave.self_Tensor")
def _repeat_each(c: TorchCall, x: Value, repeats: Value, dim: int | None = None, output_size: Any = None) -> Value:
    flat, axis = (c.reshape(x, [-1]), 0) if dim is None else (x, c.axis(dim, x.ndim))
    if repeats.shape in ([], [1]) and flat.shape[axis] != 1:
        repeats = c.broadcast(c.reshape(repeats, [1]), [flat.shape[axis]])
    picks = repetitions(c, repeats, output_size)
    picks = picks if isinstance(picks, Value) else Value(array=picks)
    return c.call("take", flat, picks, axis=axis, mode="clip")


@aten("bincount")
def _bincount(c: TorchCall, x: Value, weights: Value | None = None, minlength: int = 0) -> Value:
    counted = c.cast(x, "int64")
    if x.array is not None and x.is_number:
        largest = int(x.array.max()) + 1 if x.array.size else 0
        start = c.full([max(largest, minlength)], 0, "int64")
    else:
        (extent,) = x.shape
        if isinstance(extent, int) and not extent:
            return c.full([minlength], 0, "int64")
        number = c.call("maximum", c.call("add", c.call("max", counted, axis=(0,)), 1), minlength)
        start = c.full([c.home.sizes.fresh(number)], 0, "int64")
    ones = c.broadcast(c.number(1, "int64"), x.shape)
    if weights is not None:
        kind = weights.dtype if is_float(weights.dtype) else "float64"
        start, ones = c.cast(start, kind), c.cast(weights, kind)
    return c.call("scatter_elements", start, counted, ones, axis=0, reduction="add")
