"""Sequences with a length known only at run time, and optionals that may be empty, as tensors for loops and branches."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tilewright.relay.frontend.common.value import are_numbers
from tilewright.relay.frontend.onnx.value import (
    DynamicOptional,
    EmptyOptional,
    Item,
    ListValue,
    OnnxNode,
    Packed,
    Value,
    as_value,
)
from tilewright.support.errors import OpNotImplemented
from tilewright.tir import Any as AnyDim


def packed(node: OnnxNode, sequence: Any, rank: int | None = None) -> Packed:
    """A sequence in packed form, so a run can change its length. rank: the number of axes of its tensors, if it is empty."""
    if isinstance(sequence, Packed):
        return sequence
    items = sequence.items
    ranks = sorted({v.ndim for v in items} | ({rank} if rank is not None else set()))
    if len(ranks) != 1:
        raise OpNotImplemented(
            f"it makes a sequence of tensors of {' and '.join(map(str, ranks))} axes, of a length that only a run tells:"
            " all must have the same number of axes"
            if ranks
            else "its sequence is empty, and nothing tells how many axes its tensors will have"
        )
    if not items:
        kind = as_value(np.zeros(0, _numpy(sequence.element)))
        return Packed(kind, _int(np.zeros((0, ranks[0]))))
    elements = [_flat(node, v) for v in items]
    return Packed(_joined(node, elements), _joined(node, [_shape_row(node, v) for v in items]))


def scalar(node: OnnxNode, x: Value) -> Value:
    """A tensor of one element as a scalar."""
    return Value(node.call("reshape", x, newshape=())) if x.ndim else x


def tensors(value: Item) -> list[Value]:
    """The tensors of a value, in order."""
    if isinstance(value, Value):
        return [value]
    if isinstance(value, Packed):
        return [value.elements, value.shapes]
    if type(value) is ListValue:
        return [t for v in value.items for t in tensors(v)]
    if isinstance(value, DynamicOptional):
        return [value.has, *tensors(value.held)]
    if isinstance(value, EmptyOptional):
        return []
    raise OpNotImplemented("it returns a map, which must be known at import")


def rebuilt(value: Item, made: list[Value]) -> Any:
    """A value of the structure of `value` with the first tensors of `made`, which are removed from it."""
    if isinstance(value, Value):
        found = made.pop(0)
        return Value(found._expr, found.array, kind=value.kind)
    if isinstance(value, Packed):
        return Packed(rebuilt(value.elements, made), rebuilt(value.shapes, made))
    if isinstance(value, ListValue):
        return ListValue([rebuilt(v, made) for v in value.items], value.element)
    if isinstance(value, DynamicOptional):
        return DynamicOptional(rebuilt(value.has, made), rebuilt(value.held, made))
    return value


def alike(a: Item, b: Item) -> bool:
    """Whether two values have the same structure, element types and ranks."""
    if isinstance(a, Value) and isinstance(b, Value):
        return a.element == b.element and a.ndim == b.ndim
    if isinstance(a, Packed) and isinstance(b, Packed):
        return a.element == b.element and a.rank == b.rank
    if type(a) is ListValue and type(b) is ListValue:
        return len(a.items) == len(b.items) and all([alike(x, y) for x, y in zip(a.items, b.items, strict=True)])
    if isinstance(a, DynamicOptional) and isinstance(b, DynamicOptional):
        return alike(a.held, b.held)
    return isinstance(a, EmptyOptional) and isinstance(b, EmptyOptional)


def matched(node: OnnxNode, a: Item, b: Item) -> tuple[Any, Any]:
    """Two values in the same structure: sequences that differ in structure are packed. Raises OpNotImplemented for
    other differences."""
    if alike(a, b):
        return a, b
    if isinstance(a, (DynamicOptional, EmptyOptional)) or isinstance(b, (DynamicOptional, EmptyOptional)):
        one, other = maybe(node, a, b), maybe(node, b, a)
        if alike(one, other):
            return one, other
    both = [a, b]
    if all([isinstance(v, Packed) or type(v) is ListValue for v in both]):
        rank = next((r for v in both if (r := rank_of(v)) is not None), None)
        left, right = [packed(node, v, rank) for v in both]
        if alike(left, right):
            return left, right
    raise OpNotImplemented(f"it returns {description(a)} or {description(b)}")


def maybe(node: OnnxNode, value: Item, other: Item) -> DynamicOptional | EmptyOptional:
    """A value as an optional that may be empty. `other` gives the contents if the value is empty now."""
    if isinstance(value, DynamicOptional):
        return value
    if not isinstance(value, EmptyOptional):
        return DynamicOptional(Value(array=np.array(True)), value)
    held = other.held if isinstance(other, DynamicOptional) else other
    if isinstance(held, EmptyOptional):
        return value
    made = []
    for t in tensors(held):
        shape = [0 if isinstance(d, AnyDim) else d for d in t.shape]
        made.append(
            Value(array=np.zeros(shape, t.dtype))
            if are_numbers(shape)
            else node.value("zeros", shape=tuple(shape), dtype=t.dtype)
        )
    return DynamicOptional(Value(array=np.array(False)), rebuilt(held, made))


def rank_of(sequence: Any) -> int | None:
    """The number of axes of a sequence's tensors; None if it is unknown."""
    if isinstance(sequence, Packed):
        return sequence.rank
    return next((v.ndim for v in sequence.items), None) if isinstance(sequence, ListValue) else None


def description(value: Any) -> str:
    """A text that describes a value."""
    if isinstance(value, Value):
        return f"a tensor of {value.element} with {value.ndim} axes"
    if isinstance(value, (DynamicOptional, EmptyOptional)):
        return "an optional"
    return f"a sequence of {value.element}"


# ---- operators on sequences


def length(node: OnnxNode, s: Packed) -> Value:
    """The number of tensors: a scalar of int64."""
    return node.value("take", node.call("shape_of", s.shapes, dtype="int64"), node.scalar(0, "int32"), axis=0)


def place(node: OnnxNode, s: Packed, position: Value, behind: int = 0) -> Value:
    """A position as a non-negative number. A run ends with an error if it is out of range. behind: how far past the last one it may be."""
    count = length(node, s)
    k = node.cast(scalar(node, position), "int64")
    k = node.value("where", node.call("less", k, node.scalar(0, k)), node.call("add", k, count), k)
    left = node.value("subtract", node.value("add", count, node.scalar(behind - 1, k)), k)
    low = node.value("dyn.within", k, k, low=0, name="the position in the sequence")
    return node.value("dyn.within", low, left, low=0, name="the number of tensors from the position on")


def at(node: OnnxNode, s: Packed, k: Value) -> Value:
    """The tensor at a position."""
    if not s.rank:
        return Value(node.call("take", s.elements, k, axis=0), kind=s.elements.kind)
    begin = _before(node, s, k)
    end = node.value("add", begin, node.call("take", _sizes(node, s), k, axis=0))
    part = _cut(node, s.elements, begin, end)
    row = node.value("take", s.shapes, k, axis=0)
    return Value(node.call("reshape", part, newshape=row.expr, allowzero=True), kind=s.elements.kind)


def inserted(node: OnnxNode, s: Packed, item: Value, k: Value | None) -> Packed:
    """The sequence with a tensor inserted before position k, or appended."""
    if item.element != s.element or item.ndim != s.rank:
        raise OpNotImplemented(
            f"it puts {description(item)} into a sequence of {s.element} whose tensors have {s.rank} axes"
        )
    elements, row = _flat(node, item), _shape_row(node, item)
    if k is None:
        return Packed(_joined(node, [s.elements, elements]), _joined(node, [s.shapes, row]))
    head, tail = _around(node, s, k, k)
    return Packed(
        _joined(node, [head.elements, elements, tail.elements]), _joined(node, [head.shapes, row, tail.shapes])
    )


def erased(node: OnnxNode, s: Packed, k: Value) -> Packed:
    """The sequence without the tensor at position k."""
    head, tail = _around(node, s, k, node.value("add", k, node.scalar(1, k)))
    return Packed(_joined(node, [head.elements, tail.elements]), _joined(node, [head.shapes, tail.shapes]))


def stacked(node: OnnxNode, s: Packed, axis: int) -> Value:
    """All tensors, of equal shape, stacked along a new axis."""
    count = length(node, s)
    row = _first_row(node, s, range(s.rank))
    shape = node.value("concatenate", [_vector(node, count), row], axis=0)
    whole = node.value("reshape", s.elements, newshape=shape.expr, allowzero=True)
    place = axis % (s.rank + 1)
    order = [*range(1, place + 1), 0, *range(place + 1, s.rank + 1)]
    return Value(node.call("transpose", whole, axes=tuple(order)) if place else whole.expr, kind=s.elements.kind)


def concatenated(node: OnnxNode, s: Packed, axis: int) -> Value:
    """All tensors joined along an axis. Their other extents are equal."""
    if not s.rank:
        raise OpNotImplemented("its tensors have no axes")
    axis %= s.rank
    row = _first_row(node, s, [k for k in range(s.rank) if k != axis])
    extents = node.value("take", s.shapes, node.scalar(axis, "int32"), axis=1)
    shape = node.value("concatenate", [
        node.value("strided_slice", row, begin=(0,), end=(axis,), strides=(1,), axes=(0,)),
        _vector(node, node.value("sum", extents)),
        node.value("strided_slice", row, begin=(axis + 1,), end=(s.rank,), strides=(1,), axes=(0,)),
    ], axis=0)  # fmt: skip
    elements = s.elements
    if axis:
        elements = node.value("take", elements, _places(node, row, extents, axis), axis=0)
    return Value(node.call("reshape", elements, newshape=shape.expr, allowzero=True), kind=s.elements.kind)


def split(node: OnnxNode, x: Value, axis: int, extents: Value, keep: bool) -> Packed:
    """The parts of a tensor along an axis, of these extents. Without `keep`, each has extent 1 and the axis is removed."""
    row = _vector_of_shape(node, x)
    total = node.value(
        "subtract", node.value("take", row, node.scalar(axis, "int32"), axis=0), node.call("sum", extents)
    )
    extents = node.value("dyn.within", extents, total, low=0, high=0, name="what the parts leave of the axis")
    elements = _flat(node, x)
    if axis:
        # The index of each element of the whole among the elements of the parts, inverted.
        places = _places(node, row, extents, axis)
        elements = Value(node.call("scatter_elements", elements, places, elements, axis=0), kind=x.kind)
    columns = []
    for k in range(x.ndim):
        if k == axis:
            columns += [extents] if keep else []
        else:
            extent = node.value("take", row, node.scalar(k, "int32"), axis=0)
            columns.append(node.value("add", node.call("zeros_like", extents), extent))
    shapes = node.value("stack", columns, axis=1) if columns else _empty_rows(node, extents)
    return Packed(elements, shapes)


def chunks(node: OnnxNode, x: Value, axis: int, size: Value) -> Value:
    """The extents of parts of equal size, with a smaller last part: a vector of int64."""
    size = node.cast(scalar(node, size), "int64")
    extent = node.value("take", _vector_of_shape(node, x), node.scalar(axis, "int32"), axis=0)
    one = node.scalar(1, "int64")
    count = node.value("floor_divide", node.call("subtract", node.call("add", extent, size), one), size)
    begins = node.value("multiply", node.call("dyn.iota", count), size)
    return node.value("minimum", node.call("subtract", extent, begins), size)


# ---- parts of these operators


def _places(node: OnnxNode, row: Value, extents: Value, axis: int) -> Value:
    """The index of each element of a concatenation along an axis among the elements of its parts, as a vector. row: the shape; the
    extent of this axis is not read."""

    def product(axes: Sequence[int]) -> Value:
        found = Value(array=np.array(1, np.int64))
        for k in axes:
            found = node.value("multiply", found, node.call("take", row, node.scalar(k, "int32"), axis=0))
        return found

    rank = row.known_extent(0)
    outer, inner = product(range(axis)), product(range(axis + 1, rank))
    ends = node.value("cumsum", extents, axis=0)
    total = node.value("sum", extents)
    columns = node.value("dyn.iota", total)
    behind = node.value(
        "greater_equal", node.call("expand_dims", columns, axis=1), node.call("expand_dims", ends, axis=0)
    )
    owners = node.value("sum", node.call("cast", behind, dtype="int64"), axis=1)
    own = node.value("take", extents, owners, axis=0)
    begin = node.value("subtract", node.call("take", ends, owners, axis=0), own)
    # A part begins after all elements of the parts before it, and has `outer` blocks of its own extent.
    first = node.value("add", node.call("multiply", begin, outer), node.call("subtract", columns, begin))
    rows = node.value(
        "multiply",
        node.call("expand_dims", node.call("dyn.iota", outer), axis=1),
        node.call("expand_dims", own, axis=0),
    )
    lines = node.value("multiply", node.call("add", rows, node.call("expand_dims", first, axis=0)), inner)
    found = node.value("add", node.call("expand_dims", lines, axis=2), node.call("dyn.iota", inner))
    return node.value("reshape", found, newshape=(-1,))


def _first_row(node: OnnxNode, s: Packed, axes: Sequence[int]) -> Value:
    """The shape of the first tensor. A run ends with an error if the sequence is empty, or if extents along these axes differ."""
    counted = node.value("dyn.within", s.shapes, length(node, s), low=1, name="the number of tensors in the sequence")
    if not s.rank:
        return _int(np.zeros(0))
    row = node.value("take", counted, node.scalar(0, "int32"), axis=0)
    if not axes:
        return row
    apart = node.value("not_equal", s.shapes, row)
    picked = [node.call("take", apart, node.scalar(k, "int32"), axis=1) for k in axes]
    count = node.value("sum", node.call("cast", node.call("stack", picked, axis=0), dtype="int64"))
    return node.value(
        "dyn.within", row, count, low=0, high=0, name="the number of extents in which tensors of the sequence differ"
    )


def _sizes(node: OnnxNode, s: Packed) -> Value:
    """The number of elements of each tensor."""
    columns = [node.value("take", s.shapes, node.scalar(k, "int32"), axis=1) for k in range(s.rank)]
    found = columns[0]
    for c in columns[1:]:
        found = node.value("multiply", found, c)
    return found


def _before(node: OnnxNode, s: Packed, k: Value) -> Value:
    """The number of elements of the tensors before position k."""
    if not s.rank:
        return k
    earlier = node.call("less", node.call("dyn.iota", length(node, s)), k)
    return node.value("sum", node.call("where", earlier, _sizes(node, s), node.scalar(0, "int64")))


def _around(node: OnnxNode, s: Packed, first: Value, last: Value) -> tuple[Packed, Packed]:
    """The parts before position `first` and from position `last` on."""
    zero, count = Value(array=np.array(0, np.int64)), length(node, s)
    total = node.value("take", node.call("shape_of", s.elements, dtype="int64"), node.scalar(0, "int32"), axis=0)
    head = Packed(_cut(node, s.elements, zero, _before(node, s, first)), _cut(node, s.shapes, zero, first))
    tail = Packed(_cut(node, s.elements, _before(node, s, last), total), _cut(node, s.shapes, last, count))
    return head, tail


def _cut(node: OnnxNode, x: Value, begin: Value, end: Value) -> Value:
    """x[begin:end]."""
    bounds = [_vector(node, v) for v in (begin, end)]
    return Value(node.call("dyn.strided_slice", x, *bounds, _int(np.ones(1)), axes=(0,)), kind=x.kind)


def _flat(node: OnnxNode, x: Value) -> Value:
    return Value(node.call("reshape", x, newshape=(-1,)), kind=x.kind)


def _joined(node: OnnxNode, parts: list[Value]) -> Value:
    return parts[0] if len(parts) == 1 else Value(node.call("concatenate", parts, axis=0), kind=parts[0].kind)


def _vector_of_shape(node: OnnxNode, x: Value) -> Value:
    """The shape of a tensor as a vector of int64."""
    if all([isinstance(d, int) for d in x.shape]):
        return _int(np.array(x.shape))
    return node.value("shape_of", x, dtype="int64")


def _shape_row(node: OnnxNode, x: Value) -> Value:
    return node.value("expand_dims", _vector_of_shape(node, x), axis=0)


def _vector(node: OnnxNode, x: Value) -> Value:
    return node.value("reshape", x, newshape=(1,))


def _empty_rows(node: OnnxNode, like: Value) -> Value:
    """A matrix without columns, with a row for each element of a vector."""
    column = node.value("expand_dims", like, axis=1)
    return node.value("strided_slice", column, begin=(0,), end=(0,), strides=(1,), axes=(1,))


def _int(values: Any) -> Value:
    return Value(array=np.asarray(values, np.int64))


def _numpy(element: str) -> Any:
    from tilewright.relay.frontend.onnx.kinds import numpy_dtype

    return numpy_dtype(element)
