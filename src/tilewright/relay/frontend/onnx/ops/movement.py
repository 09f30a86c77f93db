"""Converters of operators that move, select and join elements."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from tilewright.formats.onnx_messages import numpy_type
from tilewright.relay.cards.relations import Dim, known_equal, simplest
from tilewright.relay.expr import Expr
from tilewright.relay.frontend.common.builder import MOST_KNOWN, need_extents
from tilewright.relay.frontend.common.ordering import best
from tilewright.relay.frontend.onnx.ops.arithmetic import axes_of
from tilewright.relay.frontend.onnx.unit_axes import without_unit_axes
from tilewright.relay.frontend.onnx.value import OnnxNode, Result, Tensor, Value, onnx_op
from tilewright.support.errors import DiagnosticError, OpNotImplemented


@onnx_op("Reshape")
def _reshape(node: OnnxNode, x: Value, shape: Value | None = None) -> Expr:
    if shape is None:
        # Before opset 5 it is an attribute.
        shape = Value(array=np.array(node.get("shape"), np.int64))
    if shape.array is None:
        # The shape is read at run time.
        return node.call("reshape", x, newshape=shape.expr, allowzero=bool(node.get("allowzero", 0)))
    new = node.ints(shape, "shape")
    need_extents(new)
    keep_zero = bool(node.get("allowzero", 0)) and 0 in new
    if all(isinstance(d, int) for d in new):
        return node.call("reshape", x, newshape=tuple(new), allowzero=keep_zero)
    # A 0 keeps the extent of this axis, static or dynamic.
    old = x.shape
    codes = [0 if k < len(old) and not isinstance(d, int) and known_equal(d, old[k]) else d for k, d in enumerate(new)]
    return node.call("reshape", x, newshape=tuple(codes))


@onnx_op("Flatten")
def _flatten(node: OnnxNode, x: Value) -> Expr:
    at = node.get("axis", 1)
    if not -x.ndim <= at <= x.ndim:
        raise DiagnosticError(f"its axis is {at}, and its input has {x.ndim} axes")
    at += x.ndim if at < 0 else 0
    if at == 1:
        return node.call("nn.batch_flatten", x)
    if not at:
        return node.call("reshape", x, newshape=(1, -1))
    rows, columns = [math.prod(part) for part in (x.shape[:at], x.shape[at:])]
    return node.call("reshape", x, newshape=(-1, columns) if isinstance(columns, int) else (rows, -1))


@onnx_op("Transpose")
def _transpose(node: OnnxNode, x: Value) -> Expr:
    perm = node.get("perm")
    return node.call("transpose", x, axes=None if perm is None else tuple(perm))


@onnx_op("Squeeze")
def _squeeze(node: OnnxNode, x: Value, axes: Value | None = None) -> Any:
    given = axes_of(node, axes)
    if given is None:
        return without_unit_axes(node, x)
    return node.call("squeeze", x, axis=tuple(given))


@onnx_op("Unsqueeze")
def _unsqueeze(node: OnnxNode, x: Value, axes: Value | None = None) -> Any:
    given = axes_of(node, axes) or []
    rank = x.ndim + len(given)
    out: Any = x
    for a in sorted(node.places(given, rank)):
        out = node.call("expand_dims", out, axis=a)
    return out


@onnx_op("Concat")
def _concat(node: OnnxNode, *parts: Value) -> Tensor:
    # Known parts without elements are left out, unless all are empty.
    full = [p for p in parts if not (p.array is not None and p.array.size == 0)] or list(parts[:1])
    if len(full) == 1:
        return full[0]
    return node.call("concatenate", full, axis=node.get("axis", 1))


@onnx_op("Split")
def _split(node: OnnxNode, x: Value, split: Value | None = None) -> Result:
    axis = node.get("axis", 0)
    count = len(node.outputs)
    if node.get("num_outputs", count) != count:
        raise DiagnosticError(f"it names {count} outputs, and its attribute num_outputs is {node.get('num_outputs')}")
    if split is not None and split.array is None:
        return dynamic_parts(node, x, axis, split, count)
    sizes = node.get("split") if split is None else node.ints(split, "split")
    if sizes is None:
        if count == 1:
            return x
        if node.opset < 18:
            return node.calls("split", x, indices_or_sections=count, axis=axis)
        # The last part is smaller if the extent is not a multiple.
        extent = x.shape[axis]
        if not isinstance(extent, int):
            c = node.builder
            share = c.call("floor_divide", c.call("add", c.extent(x, axis), count - 1), count)
            ends = [c.call("reshape", c.call("multiply", share, k), newshape=(1,)) for k in range(count + 1)]
            return [
                node.call(
                    "dyn.strided_slice",
                    x,
                    low,
                    high,
                    Value(array=np.ones(1, np.int64)),
                    axes=(node.place(axis, x.ndim),),
                )
                for low, high in zip(ends[:-1], ends[1:], strict=True)
            ]
        chunk = -(-extent // count)
        sizes = [min(chunk, extent - k * chunk) for k in range(count)]
    if len(sizes) != count:
        raise DiagnosticError(f"it names {count} outputs, and makes {len(sizes)} parts")
    extent, total = x.shape[axis], sum(sizes)
    if not all([isinstance(s, int) for s in sizes]):
        bounds = [simplest(b) for b in itertools.accumulate(sizes, initial=0)]
        if not known_equal(bounds[-1], extent):
            return dynamic_parts(node, x, axis, split, count)
        return x if count == 1 else node.calls("split", x, indices_or_sections=tuple(bounds[1:-1]), axis=axis)
    if min(sizes) < 0 or (isinstance(extent, int) and node.importer.counts and total != extent):
        raise DiagnosticError(f"its parts are {sizes} long, and axis {axis} of its input {extent}")
    if not isinstance(extent, int):
        # Facts that are unknown at import are checked at run time, and are used as known from here on.
        at = node.place(axis, x.ndim)
        x = node.value("reshape", x, newshape=(0,) * at + (total,) + (0,) * (x.ndim - 1 - at))
    if count == 1:
        return x
    if len(set(sizes)) == 1:
        return node.calls("split", x, indices_or_sections=count, axis=axis)
    return node.calls("split", x, indices_or_sections=tuple(itertools.accumulate(sizes[:-1])), axis=axis)


def dynamic_parts(node: OnnxNode, x: Value, axis: int, split: Any, count: int) -> list[Value]:
    """Parts along an axis, with extents that are read at run time. A run ends with an error if one is negative, or their sum is not
    the axis's extent."""
    extents = node.cast(split.expr, "int64")
    if not known_equal(extents.shape[0], count):
        extents = node.value("reshape", extents, newshape=(count,))
    at = node.place(axis, x.ndim)
    whole = node.value("take", node.call("shape_of", x, dtype="int64"), node.scalar(at, "int32"), axis=0)
    left = node.value("subtract", whole, node.call("sum", extents))
    extents = node.value("dyn.within", extents, left, low=0, high=0, name="what the parts leave of the axis")
    extents = node.value("dyn.within", extents, node.call("min", extents), low=0, name="the extent of a part")
    ends = node.value("cumsum", extents, axis=0)
    begins = node.value("subtract", ends, extents)
    bounds = [[node.call("strided_slice", v, begin=(k,), end=(k + 1,)) for v in (begins, ends)] for k in range(count)]
    step = Value(array=np.ones(1, np.int64))
    return [Value(node.call("dyn.strided_slice", x, *b, step, axes=(at,)), kind=x.kind) for b in bounds]


def _slice_with(
    node: OnnxNode,
    x: Value,
    starts: Sequence[int],
    ends: Sequence[int],
    axes: Sequence[int] | None,
    steps: Sequence[int],
) -> Tensor:
    if not all(isinstance(v, int) for v in steps):
        raise node.not_static("steps")
    places = node.places(range(len(starts)) if axes is None else axes, x.ndim)
    low, high = -(2**31) + 1, 2**31 - 1
    shape = x.shape
    # A slice of everything is left out.
    keep = [
        k
        for k, a in enumerate(places)
        if not (
            steps[k] == 1
            and isinstance(starts[k], int)
            and starts[k] == 0
            and (_reaches(ends[k], high) or known_equal(ends[k], shape[a]) or _reaches(ends[k], shape[a]))
        )
    ]
    if not keep:
        return x
    return node.call(
        "strided_slice",
        x,
        begin=tuple(_clipped(starts[k], low, high) for k in keep),
        end=tuple(_clipped(ends[k], low, high) for k in keep),
        strides=tuple(int(steps[k]) for k in keep),
        axes=tuple(int(places[k]) for k in keep),
    )


def _reaches(end: Dim, extent: Dim) -> bool:
    return isinstance(end, int) and isinstance(extent, int) and end >= extent


def _clipped(bound: Any, low: int, high: int) -> Any:
    return min(max(bound, low), high) if isinstance(bound, int) else bound


@onnx_op("Slice")
def _slice_attributes(node: OnnxNode, x: Value) -> Tensor:
    starts = list(node.get("starts"))
    return _slice_with(node, x, starts, list(node.get("ends")), node.get("axes"), [1] * len(starts))


@onnx_op("Slice", since=10)
def _slice(
    node: OnnxNode, x: Value, starts: Value, ends: Value, axes: Value | None = None, steps: Value | None = None
) -> Tensor:
    if steps is not None and steps.array is None:
        return _slice_by_computed_steps(node, x, starts, ends, axes, steps)
    if starts.array is None or ends.array is None:
        # The bounds are read at run time.
        (count,) = node.static(starts, "the number of its starts")
        places = node.places(range(count) if axes is None else node.ints(axes, "axes"), x.ndim)
        strides = np.array(node.ints(steps, "steps") if steps is not None else [1] * count, np.int64)
        if not len(places) == len(strides) == count or not known_equal(ends.shape[0], count):
            raise DiagnosticError(
                f"it has {count} starts, {ends.shape[0]} ends, {len(places)} axes and {len(strides)} steps"
            )
        bounds = [node.cast(v, "int64") for v in (starts, ends)]
        return node.call("dyn.strided_slice", x, *bounds, Value(array=strides), axes=tuple(places))
    begin = node.ints(starts, "starts")
    by = node.ints(steps, "steps") if steps is not None else [1] * len(begin)
    return _slice_with(node, x, begin, node.ints(ends, "ends"), None if axes is None else node.ints(axes, "axes"), by)


def _slice_by_computed_steps(
    node: OnnxNode, x: Value, starts: Value, ends: Value, axes: Value | None, steps: Value
) -> Value:
    """Slice with steps that are read at run time and may be negative: it gathers indices along each axis."""
    (count,) = node.static(steps, "the number of its steps")
    c = node.builder
    bounds = [c.cast(c.reshape(v, [count]), "int64") for v in (starts, ends, steps)]
    for k, axis in enumerate(node.places(range(count) if axes is None else node.ints(axes, "axes"), x.ndim)):
        begin, end, step = [c.at(v, 0, k) for v in bounds]
        extent = c.extent(x, axis)
        back = c.call("less", step, 0)
        last = c.call("subtract", extent, c.cast(back, "int64"))
        first = c.call("subtract", 0, c.cast(back, "int64"))
        begin, end = [c.call("where", c.call("less", v, 0), c.call("add", v, extent), v) for v in (begin, end)]
        begin = c.call("minimum", c.call("maximum", begin, 0), last)
        end = c.call("minimum", c.call("maximum", end, first), extent)
        ahead = c.call("negative", c.call("floor_divide", c.call("subtract", begin, end), step))
        places = c.call("add", begin, c.call("multiply", c.iota(c.call("maximum", ahead, 0)), step))
        x = Value(c.call("take", x, places, axis=axis).expr, kind=x.kind)
    return x


@onnx_op("Gather")
def _gather(node: OnnxNode, x: Value, indices: Value) -> Expr:
    axis = node.get("axis", 0)
    known, extent = indices.array, x.shape[axis]
    if known is not None and known.dtype != object and isinstance(extent, int):
        places = np.where(known < 0, known + extent, known)
        if ((places >= 0) & (places < extent)).all():
            if known.ndim:
                return node.call("take", x, Value(array=places), axis=axis)
            # One known index becomes a slice, which later steps read in place.
            at = int(places)
            part = node.call("strided_slice", x, begin=(at,), end=(at + 1,), strides=(1,), axes=(axis,))
            return node.call("squeeze", part, axis=(axis,))
    return node.call("take", x, indices, axis=axis, mode="signed")


def need_inside(indices: Value, extents: Sequence[Dim]) -> None:
    """Raises DiagnosticError for known indices outside of their axes. The last axis of `indices` has one number for each axis."""
    if indices.array is None or indices.array.dtype == object or not all([isinstance(d, int) for d in extents]):
        return
    ends = np.array(extents)
    outside = (indices.array < -ends) | (indices.array >= ends)
    if outside.any():
        place = [int(v[0]) for v in outside.nonzero()]
        extent = ends[place[-1] if len(ends) > 1 else 0]
        raise DiagnosticError(f"the index {indices.array[tuple(place)]} leaves an axis of {extent} elements")


@onnx_op("GatherElements")
def _gather_elements(node: OnnxNode, x: Value, indices: Value) -> Expr:
    need_inside(indices, [x.shape[node.place(node.get("axis", 0), x.ndim)]])
    return node.call("gather", x, indices, axis=node.get("axis", 0))


def _coordinates_first(node: OnnxNode, indices: Value) -> Tensor:
    if indices.array is not None:
        return Value(array=np.ascontiguousarray(np.moveaxis(indices.array, -1, 0)))
    rank = indices.ndim
    return node.call("transpose", indices, axes=(rank - 1, *range(rank - 1)))


@onnx_op("GatherND")
def _gather_nd(node: OnnxNode, x: Value, indices: Value) -> Expr:
    first = node.get("batch_dims", 0)
    need_inside(indices, x.shape[first : first + indices.known_extent(-1)])
    return node.call("gather_nd", x, _coordinates_first(node, indices), batch_dims=first)


@onnx_op("Scatter", "ScatterElements")
def _scatter_elements(node: OnnxNode, x: Value, indices: Value, updates: Value) -> Expr:
    reduction = node.get("reduction", "none")
    need_inside(indices, [x.shape[node.place(node.get("axis", 0), x.ndim)]])
    return node.call(
        "scatter_elements",
        x,
        indices,
        updates,
        axis=node.get("axis", 0),
        reduction="update" if reduction == "none" else reduction,
    )


@onnx_op("ScatterND")
def _scatter_nd(node: OnnxNode, x: Value, indices: Value, updates: Value) -> Expr:
    reduction = node.get("reduction", "none")
    need_inside(indices, x.shape[: indices.known_extent(-1)])
    return node.call(
        "scatter_nd", x, _coordinates_first(node, indices), updates, mode="update" if reduction == "none" else reduction
    )


@onnx_op("Expand")
def _expand(node: OnnxNode, x: Value, shape: Value) -> Tensor:
    if shape.array is None:
        return _expand_computed(node, x, shape)
    new = node.ints(shape, "shape")
    old = x.shape
    rank = max(len(old), len(new))
    old, new = [*[1] * (rank - len(old)), *old], [*[1] * (rank - len(new)), *new]
    # The broadcast extent of a number and a symbol is the number; the symbol is 1 or equal to it.
    target = [
        o if isinstance(n, int) and n == 1 or isinstance(o, int) and o != 1 and not isinstance(n, int) else n
        for o, n in zip(old, new, strict=True)
    ]
    if all(known_equal(o, t) for o, t in zip(old, target, strict=True)) and rank == x.ndim:
        return x
    return node.call("broadcast_to", x, shape=tuple(target))


def _expand_computed(node: OnnxNode, x: Value, shape: Value) -> Expr:
    """Expand to a shape that is read at run time."""
    (count,) = node.static(shape, "the number of its axes")
    rank = max(count, x.ndim)

    def with_ones(extents: Tensor, axes: int) -> Tensor:
        ones = Value(array=np.ones(rank - axes, np.int64))
        return node.call("concatenate", [ones, extents], axis=0) if axes < rank else extents

    own = with_ones(node.call("shape_of", x, dtype="int64"), x.ndim)
    asked = with_ones(node.cast(shape, "int64"), count)
    wanted = node.call("where", node.call("equal", asked, node.scalar(1, "int64")), own, asked)
    return node.call("dyn.broadcast_to", x, wanted)


@onnx_op("Range")
def _range(node: OnnxNode, start: Value, limit: Value, delta: Value) -> Expr:
    if any(v.array is None for v in (start, limit, delta)):
        return node.call("dyn.arange", start, limit, delta, dtype=limit.dtype)
    bounds = [node.known(v, "bounds").reshape(-1)[0] for v in (start, limit, delta)]
    low, high, step = [v.item() if isinstance(v, np.generic) else v for v in bounds]
    return node.call("arange", start=low, stop=high, step=step, dtype=limit.dtype)


@onnx_op("Tile")
def _tile_axis(node: OnnxNode, x: Value, times: Value, axis: Value) -> Expr:
    reps = [1] * x.ndim
    reps[int(node.numbers(axis, "axis").reshape(-1)[0])] = int(node.numbers(times, "tiles").reshape(-1)[0])
    return node.call("tile", x, reps=tuple(reps))


@onnx_op("Tile", since=6)
def _tile(node: OnnxNode, x: Value, repeats: Value) -> Expr:
    if repeats.array is None:
        return node.call("tile", x, reps=repeats.expr)
    return node.call("tile", x, reps=tuple(node.ints(repeats, "repeats")))


@onnx_op("DepthToSpace")
def _depth_to_space(node: OnnxNode, x: Value) -> Expr:
    return node.call("nn.depth_to_space", x, block_size=node.get("blocksize"), mode=node.get("mode", "DCR"))


@onnx_op("SpaceToDepth")
def _space_to_depth(node: OnnxNode, x: Value) -> Expr:
    block = node.get("blocksize")
    if node.get("mode", "DCR") == "CRD":
        n, c, h, w = node.static(x)
        split = node.call("reshape", x, newshape=(n, c, h // block, block, w // block, block))
        moved = node.call("transpose", split, axes=(0, 1, 3, 5, 2, 4))
        return node.call("reshape", moved, newshape=(n, c * block * block, h // block, w // block))
    return node.call("nn.space_to_depth", x, block_size=block)


@onnx_op("OneHot")
def _one_hot(node: OnnxNode, indices: Value, depth: Value, values: Value) -> Expr:
    number: Any = depth if depth.array is None else node.ints(depth, "depth")[0]
    if values.array is None:
        off, on = [Value(v) for v in node.calls("split", values, indices_or_sections=2)]
        off, on = [node.value("squeeze", v) for v in (off, on)]
    else:
        off, on = [Value(array=np.array(v, values.dtype)) for v in values.array.reshape(-1)]
    picks: Any = indices
    if "int" not in indices.dtype:
        picks = node.call("cast", indices, dtype="int64")
    like = "int64" if "int" not in indices.dtype else indices.dtype
    # Negative indices count from the end; indices outside of [-depth, depth) give a row without a 1.
    size = number if isinstance(number, Value) else node.builder.size(number)
    wrapped = node.call(
        "where",
        node.call("less", picks, node.scalar(0, like)),
        node.call("add", picks, node.cast(size.expr if size.array is None else size.array, like)),
        picks,
    )
    attrs = {"axis": node.get("axis", -1), "dtype": values.dtype}
    if isinstance(number, Value):
        return node.call("dyn.one_hot", wrapped, on, off, node.cast(number, "int64"), **attrs)
    return node.call("one_hot", wrapped, on, off, depth=number, **attrs)


@onnx_op("TopK")
def _topk(node: OnnxNode, x: Value, k: Value | None = None) -> list[Expr]:
    number: Any = k
    if k is None or k.array is not None:
        number = node.get("k") if k is None else node.ints(k, "k")[0]
        if isinstance(number, int) and number < 0:
            raise OpNotImplemented(f"k must not be negative, but is {number}")
    return best(node.span, x, number, node.get("axis", -1), not node.get("largest", 1), "int64")


@onnx_op("Trilu")
def _trilu(node: OnnxNode, x: Value, k: Value | None = None) -> Expr:
    shift = node.scalar(0, "int64") if k is None else node.cast(node.value("reshape", k, newshape=()), "int64")
    key = "greater_equal" if node.get("upper", 1) else "less_equal"
    kept = node.call(key, diagonals(node, x), shift)
    return node.call("where", kept, x, node.scalar(0, x))


def diagonals(node: OnnxNode, x: Value) -> Value:
    """The diagonal of each element of the last two axes: its column minus its row."""
    places: list[Any] = []
    for axis, size in zip((1, 0), x.shape[-2:], strict=True):
        line = (
            Value(array=np.arange(size))
            if isinstance(size, int)
            else node.call("arange", start=0, stop=size, step=1, dtype="int64")
        )
        places.append(node.value("expand_dims", line, axis=axis))
    if all([p.is_number for p in places]) and math.prod(x.shape[-2:]) <= MOST_KNOWN:
        return Value(array=places[1].array - places[0].array)
    return node.value("subtract", places[1], places[0])


@onnx_op("EyeLike")
def _eye_like(node: OnnxNode, x: Value) -> Value:
    dtype = numpy_type(node.get("dtype")).name if node.get("dtype") else x.dtype
    return node.cast(node.value("equal", diagonals(node, x), node.scalar(node.get("k", 0), "int64")), dtype)


@onnx_op("Size")
def _size(node: OnnxNode, x: Value) -> Expr:
    return node.call("ndarray_size", x, dtype="int64")


@onnx_op("Shape")
def _shape(node: OnnxNode, x: Value) -> Expr:
    whole = node.call("shape_of", x, dtype="int64")
    start, end = node.get("start", 0), node.get("end")
    if start == 0 and end is None:
        return whole
    return node.call(
        "strided_slice", whole, begin=(start,), end=(2**31 - 1 if end is None else end,), strides=(1,), axes=(0,)
    )


@onnx_op("ConstantOfShape")
def _constant_of_shape(node: OnnxNode, shape: Value) -> Expr:
    value = node.get("value", np.zeros(1, np.float32)).reshape(-1)[0]
    filling = Value(array=np.array(value))
    if shape.array is None:
        return node.call("full", filling, shape=shape.expr, dtype=filling.dtype)
    return node.call("full", filling, shape=tuple(node.ints(shape, "shape")), dtype=filling.dtype)
