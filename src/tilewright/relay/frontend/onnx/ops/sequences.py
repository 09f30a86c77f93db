"""Converters of sequences and optionals: those of known structure leave only their tensors in the program; others are packed."""

from __future__ import annotations

from typing import Any

import numpy as np

from tilewright.relay.frontend.common.builder import MOST_PARTS, need_few
from tilewright.relay.frontend.onnx import packed
from tilewright.relay.frontend.onnx.inputs import element_of
from tilewright.relay.frontend.onnx.ops.casting import element_type
from tilewright.relay.frontend.onnx.ops.movement import dynamic_parts
from tilewright.relay.frontend.onnx.value import (
    DynamicOptional,
    EmptyOptional,
    Item,
    ListValue,
    OnnxNode,
    Packed,
    Value,
    onnx_op,
)

Sequence = Any
"""A ListValue or a Packed."""


@onnx_op("Identity", typed=True)
def _identity(node: OnnxNode, x: Item) -> Any:
    return Value(x._expr, x.array, x.name, x.kind) if isinstance(x, Value) else x


@onnx_op("SequenceEmpty", since=11, typed=True)
def _empty(node: OnnxNode) -> ListValue:
    return ListValue([], element_type(node.get("dtype", 1)))


@onnx_op("SequenceConstruct", since=11, typed=True)
def _construct(node: OnnxNode, *items: Any) -> ListValue:
    return ListValue(items, _element(items[0]))


def _element(item: Any) -> str:
    return str(item.element)


def _place(node: OnnxNode, position: Value, length: int, last: int) -> int:
    k = int(node.numbers(position, "position").reshape(-1)[0])
    if not -length <= k <= last:
        raise IndexError(f"its position is {k}, but the sequence has {length} elements")
    return k + length if k < 0 else k


def _is_packed(sequence: Item, position: Value | None = None) -> bool:
    """Whether the sequence's length, or the position, is known only at run time."""
    return isinstance(sequence, Packed) or position is not None and position.array is None


@onnx_op("SequenceAt", since=11, typed=True)
def _at(node: OnnxNode, sequence: Sequence, position: Value) -> Any:
    if _is_packed(sequence, position):
        whole = packed.packed(node, sequence)
        return packed.at(node, whole, packed.place(node, whole, position))
    return sequence.items[_place(node, position, len(sequence.items), len(sequence.items) - 1)]


@onnx_op("SequenceInsert", since=11, typed=True)
def _insert(node: OnnxNode, sequence: Sequence, item: Any, position: Value | None = None) -> Packed | ListValue:
    if _is_packed(sequence, position):
        whole = packed.packed(node, sequence, item.ndim)
        return packed.inserted(node, whole, item, None if position is None else packed.place(node, whole, position, 1))
    length = len(sequence.items)
    k = length if position is None else _place(node, position, length, length)
    return ListValue([*sequence.items[:k], item, *sequence.items[k:]], _element(item))


@onnx_op("SequenceErase", since=11, typed=True)
def _erase(node: OnnxNode, sequence: Sequence, position: Value | None = None) -> Packed | ListValue:
    if _is_packed(sequence, position):
        whole = packed.packed(node, sequence)
        last = Value(array=np.array(-1, np.int64))
        return packed.erased(node, whole, packed.place(node, whole, last if position is None else position))
    length = len(sequence.items)
    k = length - 1 if position is None else _place(node, position, length, length - 1)
    return ListValue([*sequence.items[:k], *sequence.items[k + 1 :]], sequence.element)


@onnx_op("SequenceLength", since=11, typed=True)
def _length(node: OnnxNode, sequence: Sequence) -> Value:
    if isinstance(sequence, Packed):
        return packed.length(node, sequence)
    return Value(array=np.array(len(sequence.items), np.int64))


@onnx_op("SplitToSequence", since=11, typed=True)
def _split(node: OnnxNode, x: Value, split: Value | None = None) -> Packed | ListValue:
    axis = node.places([node.get("axis", 0)], x.ndim)[0]
    extent = x.shape[axis]
    # ONNX Runtime, and PyTorch's exporter with it, drops the axis also for explicit parts of 1.
    ones = split is None or not split.ndim and split.is_number and int(node.numbers(split, "split")) == 1
    keep = not ones or bool(node.get("keepdims", 1))
    if split is None:
        split = Value(array=np.array(1, np.int64))
    count = split.shape[0] if split.ndim else None
    if isinstance(count, int) and not (split.is_number and isinstance(extent, int)):
        return ListValue(dynamic_parts(node, x, axis, split, count), x.element)
    if not split.is_number or not isinstance(extent, int):
        parts = node.cast(split, "int64") if split.ndim else packed.chunks(node, x, axis, split)
        return packed.split(node, x, axis, parts, keep)
    given = node.numbers(split, "split").tolist()
    if not split.ndim:
        need_few(-(-extent // given), MOST_PARTS, f"parts of axis {axis}")
    sizes = given if split.ndim else [min(given, extent - k) for k in range(0, extent, given)]
    items, start = [], 0
    for size in sizes:
        part = node.call("strided_slice", x, begin=(start,), end=(start + size,), strides=(1,), axes=(axis,))
        items.append(Value(part if keep else node.call("squeeze", part, axis=(axis,)), kind=x.kind))
        start += size
    return ListValue(items, x.element)


@onnx_op("ConcatFromSequence", since=11, typed=True)
def _concat(node: OnnxNode, sequence: Sequence) -> Value:
    new, axis = bool(node.get("new_axis", 0)), node.get("axis")
    if isinstance(sequence, Packed):
        return packed.stacked(node, sequence, axis) if new else packed.concatenated(node, sequence, axis)
    if not sequence.items:
        raise ValueError("the sequence is empty")
    key = "stack" if new else "concatenate"
    return Value(node.call(key, sequence.items, axis=axis), kind=sequence.items[0].kind)


@onnx_op("Optional", since=15, typed=True)
def _optional(node: OnnxNode, item: Any = None) -> Any:
    if item is not None:
        return item
    return EmptyOptional(element_of(node.get("type")))


@onnx_op("OptionalHasElement", since=15, typed=True)
def _has_element(node: OnnxNode, item: Any = None) -> Value:
    if isinstance(item, DynamicOptional):
        return Value(item.has.expr)
    return Value(array=np.array(item is not None and not isinstance(item, EmptyOptional)))


@onnx_op("OptionalGetElement", since=15, typed=True)
def _get_element(node: OnnxNode, item: Item) -> Any:
    if isinstance(item, DynamicOptional):
        full = node.cast(item.has, "int64")
        name = f"whether the optional that OptionalGetElement {node.name!r} reads holds something (1) or not (0)"
        held = [Value(node.call("dyn.within", t, full, low=1, high=1, name=name)) for t in packed.tensors(item.held)]
        return packed.rebuilt(item.held, held)
    if isinstance(item, EmptyOptional):
        raise ValueError("the optional holds nothing")
    return item
