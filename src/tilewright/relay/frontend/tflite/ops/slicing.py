"""Converters of slices: SLICE and STRIDED_SLICE, with known or computed positions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tilewright.relay.cards.relations import Dim, known_equal
from tilewright.relay.frontend.common.builder import small
from tilewright.relay.frontend.common.slice_masks import SliceMasks
from tilewright.relay.frontend.tflite.node import Node, Value, plain, tflite_op
from tilewright.support.errors import OpNotImplemented


@tflite_op("SLICE")
def _slice(node: Node, x: Value, begin: Value, size: Value) -> Value:
    if begin.array is None or size.array is None:
        if size.is_number and begin.array is None and size.array is not None and (size.array >= 0).all():
            # Only the position is computed; the size is known.
            return dynamic_slice(node, x, begin, [int(n) for n in size.array])
        begin = node.cast(begin, "int64")
        size = node.cast(size, "int64")
        whole = node.call("shape_of", x, dtype="int64")
        behind = node.call("where", node.call("less", size, 0), whole, node.call("add", begin, size))
        return node.call("dyn.strided_slice", x, begin, behind, Value(array=np.ones(x.ndim, np.int64)))
    first, count = node.ints(begin, "begin"), node.ints(size, "size")
    shape = x.shape
    for k, (b, n) in enumerate(zip(first, count, strict=True)):
        if (
            isinstance(b, int)
            and isinstance(n, int)
            and isinstance(shape[k], int)
            and not 0 <= b + max(n, 0) <= shape[k]
        ):
            raise ValueError(f"it takes {n} from place {b} of axis {k}, which has {shape[k]}")
    end = [
        shape[k] if isinstance(n, int) and n < 0 else plain(b + n)
        for k, (b, n) in enumerate(zip(first, count, strict=True))
    ]
    return strided(node, x, first, end, [1] * x.ndim)


def dynamic_slice(node: Node, x: Value, begin: Value, sizes: Sequence[int]) -> Value:
    """A slice with `sizes` elements along each axis, at computed positions, which are clamped so that the slice is inside x."""
    shape = node.static(x)
    small([sum([max(n, 0) for n in sizes])], "its result")
    sizes = [n if n >= 0 else d for n, d in zip(sizes, shape, strict=True)]
    for k, (n, d) in enumerate(zip(sizes, shape, strict=True)):
        if n == d:
            continue
        start = node.call(
            "clip",
            node.call("take", node.cast(begin, "int32"), node.number(k, "int32"), axis=0),
            a_min=0.0,
            a_max=float(d - n),
        )
        places = node.call("add", Value(array=np.arange(n, dtype=np.int32)), start)
        x = node.call("take", x, places, axis=k, mode="clip")
    return x


def strided(node: Node, x: Value, begin: Sequence[Any], end: Sequence[Any], strides: Sequence[int]) -> Value:
    """A slice of every axis. Ends are non-negative, or -1 - extent for an end before the first element."""
    axes = [
        k
        for k, (b, e, s) in enumerate(zip(begin, end, strides, strict=True))
        if not (s == 1 and isinstance(b, int) and b == 0 and known_equal(e, x.shape[k]))
    ]
    if not axes:
        return x
    return node.call(
        "strided_slice", x, begin=tuple([begin[k] for k in axes]), end=tuple([end[k] for k in axes]),
        strides=tuple([strides[k] for k in axes]), axes=tuple(axes),
    )  # fmt: skip


@tflite_op("STRIDED_SLICE")
def _strided_slice(node: Node, x: Value, begin: Value, end: Value, strides: Value) -> Value:
    steps = [int(s) for s in node.whole(strides, "strides")]
    masks = SliceMasks.read(node.get)
    at_begin, at_end, ellipsis, new_axis, shrink = masks
    backwards = [s for k, s in enumerate(steps) if (shrink & ~ellipsis & ~new_axis) >> k & 1 and s <= 0]
    if backwards:
        raise ValueError(
            f"it takes one element of an axis by the step {backwards[0]}, where TensorFlow takes only steps forward"
        )
    if begin.array is None or end.array is None:
        return _computed_slice(node, x, begin, end, steps, masks)
    first, last = node.ints(begin, "begin"), node.ints(end, "end")
    offset = bool(node.get("offset", False))
    shape = x.shape
    taken = sum([not (new_axis >> k & 1) and not (ellipsis >> k & 1) for k in range(len(steps))])
    cuts: list[tuple[Any, Any, int]] = []
    made: list[Any] = []  # "new", "gone", or the number of a sliced axis
    for k, step in enumerate(steps):
        if ellipsis >> k & 1:
            for _ in range(x.ndim - taken):
                made.append("kept")
                cuts.append((0, shape[len(cuts)], 1))
            continue
        if new_axis >> k & 1:
            made.append("new")
            continue
        d = shape[len(cuts)]
        if shrink >> k & 1:
            b = first[k]
            if isinstance(d, int) and isinstance(b, int) and not -d <= b < d:
                raise ValueError(f"it takes element {b} of an axis of {d}")
            b = d + b if isinstance(b, int) and b < 0 else b
            cuts.append((b, b + 1, 1))
            made.append("gone")
            continue
        b, e, to_end = first[k], last[k], at_end >> k & 1
        if offset:
            if at_begin >> k & 1:
                b = 0 if step > 0 else plain(d - 1)
            b, e, to_end = _from_begin(b, e, step, d)
        b, e = _bounds(b, e, step, d, at_begin >> k & 1, to_end)
        cuts.append((b, e, step))
        made.append("kept")
    while len(cuts) < x.ndim:
        made.append("kept")
        cuts.append((0, shape[len(cuts)], 1))
    part = strided(node, x, *map(list, zip(*cuts, strict=True))) if cuts else x
    if all([m == "kept" for m in made]):
        return part
    extents = iter(part.shape)
    new: list[Dim] = []
    for m in made:
        if m == "new":
            new.append(1)
            continue
        extent = next(extents)
        if m == "kept":
            new.append(extent)
    return node.reshape(part, new)


def _from_begin(begin: Dim, count: Any, step: int, d: Any) -> tuple[Any, Any, int]:
    """(begin, end, whether it goes to the end of the axis) for an end relative to the begin. Raises ValueError outside of the axis."""
    if isinstance(begin, int) and begin < 0:
        begin = plain(d + begin)
    end = plain(begin + count)
    if isinstance(end, int) and isinstance(d, int) and isinstance(begin, int):
        if (end - begin) * step <= 0:
            return begin, begin, 0
        if not (0 <= begin < d and -1 <= end <= d):
            raise ValueError(f"it takes places from {begin} to {end} of an axis of {d}")
        return begin, end, int(end < 0 and step < 0)
    return begin, end, 0


def _bounds(b: Any, e: Any, step: int, d: Any, open_begin: int, open_end: int) -> tuple[Any, Any]:
    """Begin and end of a slice as positions on the axis."""
    if open_begin:
        b = 0 if step > 0 else d - 1
    elif isinstance(b, int):
        if b < 0:
            b = d + b
        if isinstance(b, int) and isinstance(d, int):
            b = min(max(b, 0), d) if step > 0 else min(max(b, -1), d - 1)
    if open_end:
        e = d if step > 0 else -1
    elif isinstance(e, int):
        if e < 0:
            e = d + e
        if isinstance(e, int) and isinstance(d, int):
            e = min(max(e, 0), d) if step > 0 else min(max(e, -1), d - 1)
    if step < 0 and isinstance(e, int) and e < 0:
        e = -1 - d if isinstance(d, int) else -(2**31)
    if step > 0 and isinstance(b, int) and isinstance(e, int) and e < b:
        e = b
    return b, e


def _computed_slice(node: Node, x: Value, begin: Value, end: Value, steps: list[int], masks: SliceMasks) -> Value:
    """A slice at computed positions."""
    at_begin, at_end, ellipsis, new_axis, shrink = masks
    count = len(steps)
    every = (1 << count) - 1
    if not (ellipsis or new_axis) and shrink and (shrink | at_begin & at_end) & every == every:
        # Single elements along some axes.
        for k in reversed(range(count)):
            if shrink >> k & 1:
                place = node.call("take", node.cast(begin, "int32"), node.number(k, "int32"), axis=0)
                d = x.shape[k]
                if isinstance(d, int):
                    place = node.call("where", node.call("less", place, 0), node.call("add", place, d), place)
                x = node.call("take", x, place, axis=k)
        return x
    if ellipsis or new_axis or shrink or node.get("offset", False):
        raise OpNotImplemented(
            "its begin or end is computed by the model; supported then: plain slices, or single elements of axes"
        )
    whole = node.call("strided_slice", node.call("shape_of", x, dtype="int64"), begin=(0,), end=(count,))
    low, high = node.cast(begin, "int64"), node.cast(end, "int64")
    if at_begin:
        low = node.call("where", _mask(at_begin, count), Value(array=np.zeros(count, np.int64)), low)
    if at_end:
        high = node.call("where", _mask(at_end, count), whole, high)
    axes = tuple(range(count))
    return node.call("dyn.strided_slice", x, low, high, Value(array=np.array(steps, np.int64)), axes=axes)


def _mask(bits: int, count: int) -> Value:
    return Value(array=np.array([bool(bits >> k & 1) for k in range(count)]))
