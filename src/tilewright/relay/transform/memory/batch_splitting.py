"""SplitBatch: batch splitting. Layers whose values for a whole batch exceed the last-level cache run for a few images at a time.

    y = f(x: (8, ..))  ->  y = concatenate(f(x[:2]), f(x[2:4]), f(x[4:6]), f(x[6:]))

A layer's results should still be in the cache when the next layer reads them; the first layers of a network for images write the most.
Layers that treat each image independently run for as many images as fit, up to a layer after which a single value is used. The pass
works on primitive functions, because their inputs and outputs are the values that go through memory.

The program's plan decides the number of images and the last layer: by the bytes of memory traffic that are saved
(scheduling/batches.py).
"""

from __future__ import annotations

from collections.abc import Callable, Container, Mapping, Sequence
from math import prod
from typing import Any, NamedTuple

from tilewright.ir import Op, TensorType
from tilewright.ir.transform import Pass
from tilewright.relay.cards.card import BROADCAST, OpCard, constructor
from tilewright.relay.cards.relations import tensor_type
from tilewright.relay.expr import Call, Constant, Expr, Function, Tuple, TupleGetItem, Var
from tilewright.relay.functor import post_order, substitute
from tilewright.relay.op.arithmetic.reduction import OverAxes
from tilewright.relay.op.movement.slicing import strided_slice
from tilewright.relay.rewriting import card_of, static_shape, tensor_of, typed, typed_pass
from tilewright.relay.typing.infer_type import infer_types
from tilewright.relay.typing.open_types import type_of
from tilewright.scheduling.batches import Traffic, cache_of_batch
from tilewright.scheduling.graph_plan import graph_plan


class Step(NamedTuple):
    """A call for the rules: its card, the shapes of its result and operands, and for each operand whether it has a batch axis."""

    card: OpCard
    shape: Sequence[int]
    shapes: Sequence[Sequence[int] | None]
    batched: Sequence[bool]

    @property
    def only_first(self) -> bool:
        """Whether only the first operand has a batch axis."""
        return self.batched[0] and not any(self.batched[1:])

    def keeps_first(self, axes: Sequence[int]) -> bool:
        """Whether the first axis is not among these axes."""
        return all([a % len(self.shape) > 0 for a in axes])

    def slices_rest_only(self) -> bool:
        """Whether a slice takes the first axis whole."""
        assert isinstance(self.card, strided_slice)
        parts = [part[1:] for part in self.card.parts(len(self.shape)) if part[0] == 0]
        return all([(begin, stride) == (0, 1) and end >= 2**31 - 1 for begin, end, stride in parts])


APART: dict[str, Callable[[Step], bool]] = {
    "layout_transform": lambda s: s.card["src_layout"][0] == s.card["dst_layout"][0] == "N",
    "nn.pad": lambda s: s.only_first and tuple(s.card["pad_width"][0]) == (0, 0),
    "strided_slice": lambda s: s.only_first and s.slices_rest_only(),
    "nn.contrib_interleave_phases": lambda s: s.batched == [True],
    "nn.contrib_add_windows": lambda s: s.batched == [True],
    "concatenate": lambda s: s.keeps_first([s.card["axis"]]),
}
"""Operators that treat each image independently under these conditions."""


def images_apart(call: Call, batched: Sequence[bool]) -> bool:
    """Whether item i along the first axis of a call's result depends only on item i of the operands that are `batched`."""
    card = card_of(call)
    shape = static_shape(call)
    if not shape:
        return False
    step = Step(card, shape, [static_shape(a) for a in call.args], batched)
    layout = getattr(card, "data_layout", None) or getattr(card, "layout", None)
    if layout:
        # Weights have no batch axis; other operands beside the data (grids of positions, boxes) may have one.
        alone = step.only_first and len(call.args) == (2 if hasattr(card, "data_layout") else 1)
        return bool(alone and layout[0] == (getattr(card, "out_layout", None) or layout)[0] == "N")
    rule = APART.get(call.op.name) if isinstance(call.op, Op) else None
    if rule is not None:
        return bool(rule(step))
    if isinstance(card, OverAxes):
        if batched != [True] or card.exclude or card.axis is None:
            return False
        rank = len(step.shapes[0] or ())
        return all([a % rank > 0 for a in card.axis])
    if card.fuse > BROADCAST or not card.pure:
        return False
    if hasattr(card, "axis"):
        return step.only_first and step.keeps_first([card.axis])
    # Element-wise operators: operands without a batch axis are the same for all images.
    return all(
        [
            s is not None and (len(s) == len(shape) if part else len(s) < len(shape) or s[0] == 1)
            for s, part in zip(step.shapes, batched, strict=True)
        ]
    )


def of_images(func: Function, batched: Sequence[bool], images: int) -> Function | None:
    """A primitive function for this number of images, along the first axis of its result and of the parameters that are `batched`. None
    if it does not treat each image independently."""
    batch = batch_of([p for p, part in zip(func.params, batched, strict=True) if part])
    if batch is None:
        return None
    parts: set[Expr] = {p for p, part in zip(func.params, batched, strict=True) if part}
    params = [Var(p.name_hint, fewer(p, images)) if p in parts else p for p in func.params]
    values: dict[Expr, Expr] = dict(zip(func.params, params, strict=True))
    for e in post_order(func.body, skip=lambda e: isinstance(e, Op)):
        inputs = e.fields if isinstance(e, Tuple) else e.args if isinstance(e, Call) else ()
        if e in values or not any([a in parts for a in inputs]):
            values.setdefault(e, e)
            continue
        made = of_parts(e, [a in parts for a in inputs], [values[a] for a in inputs])
        if made is None or not (
            isinstance(e, Tuple) or (batch_of([e]) == batch and made.checked_type == fewer(e, images))
        ):
            return None
        values[e] = made
        parts.add(e)
    if func.body not in parts:
        return None
    return primitive(params, values[func.body], func.attrs)


def of_parts(e: Expr, batched: Sequence[bool], inputs: Sequence[Expr]) -> Expr | None:
    """An expression of a function with `inputs` of fewer images; None if it cannot be computed for these alone."""
    if isinstance(e, Tuple):
        return typed(Tuple(tuple(inputs), e.span)) if all(batched) else None
    if type(e) is not Call or type(e.op) is not Op or not images_apart(e, batched):
        return None
    return typed(Call(e.op, tuple(inputs), e.attrs, e.given_types, e.span))


def batch_of(values: Sequence[Expr]) -> int | None:
    """The number of images in tensors; None if they have different ones, or are no tensors."""
    found = {shape[0] if (shape := static_shape(v)) else None for v in values}
    return found.pop() if len(found) == 1 else None


def fewer(e: Expr, images: int) -> TensorType:
    """The type of a tensor with this number of images."""
    t = tensor_of(e)
    return tensor_type((images, *t.concrete_shape[1:]), t.dtype)


def primitive(params: Sequence[Var], body: Expr, attrs: Mapping[str, Any]) -> Function:
    """A primitive function with inferred types."""
    made = Function(params, body, typed(body).checked_type, (), attrs)
    infer_types(made)
    return made


class Layer(NamedTuple):
    """A call that treats each image independently: which operands have a batch axis, their and the result's bytes, the constants' bytes."""

    call: Call
    batched: list[bool]
    moved: int
    constants: int

    @property
    def function(self) -> Function:
        """The primitive function that is called."""
        assert isinstance(self.call.op, Function)
        return self.call.op


class SplitLayers(NamedTuple):
    """Layers that run for `images` images at a time. Only the result of `last` is read by other layers."""

    images: int
    layers: Sequence[Layer]
    last: Call


def size(e: Expr) -> int:
    """Bytes of a tensor of static shape; 0 for other values."""
    t = type_of(e)
    shape = static_shape(e) if isinstance(t, TensorType) else None
    return 0 if shape is None else prod(shape) * int(tensor_of(e).dtype.bytes)


def layers_of(order: Sequence[Expr], batch: int, inputs: Container[Expr]) -> list[Layer]:
    """The calls that process each image separately, from the inputs on."""
    found: list[Layer] = []
    of_batch: set[Expr] = set()
    for e in order:
        if (
            not isinstance(e, Call)
            or not isinstance(e.op, Function)
            or not e.op.is_primitive
            or "Compiler" in e.op.attrs
        ):
            continue
        batched = [a in inputs or a in of_batch for a in e.args]
        if not any(batched) or batch_of([e]) != batch or of_images(e.op, batched, 1) is None:
            continue
        of_batch.add(e)
        moved = size(e) + sum([size(a) for a, part in zip(e.args, batched, strict=True) if part])
        found.append(Layer(e, batched, moved, sum([size(a) for a in e.args if isinstance(a, Constant)])))
    return found


def ends_of(layers: Sequence[Layer], order: Sequence[Expr]) -> dict[int, Call]:
    """Number of first layers (two or more) -> their only result that later layers read."""
    place: dict[Expr, int] = {layer.call: i for i, layer in enumerate(layers)}
    # Value -> the last layer that reads it, or the number of layers if others read it.
    until: dict[Expr, int] = {}
    for e in order:
        for a in operands(e):
            if a in place:
                until[a] = max(until.get(a, 0), place.get(e, len(layers)))
    found: dict[int, Call] = {}
    going_on: list[Call] = []
    for i, layer in enumerate(layers):
        going_on = [v for v in (*going_on, layer.call) if until.get(v, len(layers)) > i]
        if i > 0 and len(going_on) == 1:
            found[i + 1] = going_on[0]
    return found


def operands(e: Expr) -> Sequence[Expr]:
    """The tensors that a call, tuple or tuple element reads."""
    if isinstance(e, Call):
        return e.args
    return e.fields if isinstance(e, Tuple) else (e.tuple_value,) if isinstance(e, TupleGetItem) else ()


def joined(split: SplitLayers, batch: int) -> Expr:
    """The result of the layers, concatenated from the parts of the batch."""
    count = batch // split.images
    inputs = {
        a: None for x in split.layers for a, part in zip(x.call.args, x.batched, strict=True) if part and type(a) is Var
    }
    functions = [of_images(x.function, x.batched, split.images) for x in split.layers]
    parts: list[Expr] = []
    for k in range(count):
        values: dict[Expr, Expr] = {a: piece_of(a, k * split.images, split.images) for a in inputs}
        for layer, function in zip(split.layers, functions, strict=True):
            assert function is not None
            call = layer.call
            values[call] = Call(function, tuple([values.get(a, a) for a in call.args]), None, (), call.span)
        parts.append(values[split.last])
    params = [Var(f"p{i}", fewer(split.last, split.images)) for i in range(count)]
    return Call(
        primitive(params, constructor("concatenate")(Tuple(tuple(params)), axis=0), {"Primitive": 1}), tuple(parts)
    )


def piece_of(x: Var, first: int, images: int) -> Expr:
    """A range of adjacent images of a batch."""
    p = Var("p0", x.checked_type)
    piece = constructor("strided_slice")(p, [first], [first + images], [1], axes=[0])
    return Call(primitive([p], piece, {"Primitive": 1}), (x,))


def split_batch(func: Function) -> Function:
    """The function with its first layers run for some images at a time, if the plan decides so."""
    plan = graph_plan()
    cache = 0 if plan is None else cache_of_batch(plan.target.cpu)
    inputs = [p for p in func.params if len(static_shape(p) or ()) > 2]
    batch = batch_of(inputs)
    if plan is None or not cache or batch is None or batch < 2:
        return func
    order = list(post_order(func.body, skip=lambda e: isinstance(e, Function)))
    if all([size(e) + sum(map(size, operands(e))) <= cache for e in order]):
        return func
    layers = layers_of(order, batch, inputs)
    ends = ends_of(layers, order)
    shapes = [static_shape(p) or () for p in inputs]
    found = plan.forms.batch_split(shapes, [Traffic(x.moved, x.constants) for x in layers], ends)
    if found is None:
        return func
    split = SplitLayers(found.images, layers[: found.layers], ends[found.layers])
    return func.replace(body=substitute(func.body, {split.last: joined(split, batch)}))


def SplitBatch() -> Pass:
    """Split a batch for layers whose values do not fit into the last-level cache: run them for as many images at a time
    as fit.
    """
    return typed_pass("SplitBatch", 2, lambda f, mod: split_batch(f), ("primitive_functions",))


__all__ = ["SplitBatch"]
