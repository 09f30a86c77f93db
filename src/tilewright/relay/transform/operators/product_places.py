"""ProductsBeforeResizes: computes products over channels (1 x 1 convolutions, dense layers) before their data is resized and concatenated.

    conv2d(concatenate(resize(x), resize(y), z), w)  ->  conv2d(z, w2) + (resize(conv2d(x, w0)) + resize(conv2d(y, w1)))

A resize computes each channel by itself, with weights that add up to one; a product over channels computes each place by itself. So they
can change places, and a bias before them passes both. Where the data is itself a product by constants, the two become one, by the product
of their weights. The results differ by rounding only. Each part takes the place of the least cost (`scheduling/product_places.py`).
"""

from __future__ import annotations

from collections.abc import Mapping
from math import prod
from typing import NamedTuple

import numpy as np

from tilewright.ir.transform import Pass
from tilewright.relay.cards.card import constructor
from tilewright.relay.expr import Call, Expr, Function, Tuple, const
from tilewright.relay.op.convolution.attributes import Convolution
from tilewright.relay.op.images.resize import Resize, Upsampling
from tilewright.relay.op.layers import products
from tilewright.relay.op.movement import reshaping
from tilewright.relay.rewriting import (
    card_of,
    constant_of,
    is_op,
    rewrite_calls,
    static_shape,
    tensor_of,
    typed,
    typed_pass,
    use_counts,
)
from tilewright.relay.transform.simplify.simplify_expr import permutation
from tilewright.scheduling.graph_plan import portable_plan
from tilewright.scheduling.product_places import Place, Step, places
from tilewright.topi.transform import layout_axes, spatial_axes

CONVOLUTIONS = ("nn.conv1d", "nn.conv2d", "nn.conv3d")
PRODUCTS = ("nn.dense", "nn.matmul", *CONVOLUTIONS)
RESIZES = ("image.resize1d", "image.resize2d", "image.resize3d", "nn.upsampling", "nn.upsampling3d")
NEIGHBOURS = {"nearest_neighbor": 1, "linear": 2, "cubic": 4}
TURNED = 4.0
"""Copies that cost as much as to transpose an element."""

Shape = tuple[int, ...]


class _Product(NamedTuple):
    """A product over channels by constants. `axis`: of the channels; `weight`: (O, C)."""

    data: Expr
    axis: int
    weight: np.ndarray


class _Link(NamedTuple):
    """An operator between a product and its data. `axis`: that of channels in its data. `product`, `bias`: where it is a product, or adds
    a vector."""

    call: Call
    data: Expr
    axis: int
    copies: float = 0.0
    product: _Product | None = None
    bias: np.ndarray | None = None

    def on(self, data: Expr) -> Expr:
        """The same operator on data with another number of channels."""
        if self.bias is not None:
            return data
        if is_op(self.call, "reshape"):
            shape, at = list(_shape(self.call)), _axis_of(_shape(self.data), _shape(self.call), self.axis)
            assert at is not None
            shape[at] = _shape(data)[self.axis]
            return typed(constructor("reshape")(data, tuple(shape), span=self.call.span))
        return typed(Call(self.call.op, (data,), self.call.attrs, (), self.call.span))


def _shape(e: Expr) -> Shape:
    shape = static_shape(e)
    assert shape is not None
    return shape


def _axis_of(shape: Shape, other: Shape, axis: int) -> int | None:
    """The axis of a reshaped tensor whose elements are those of `axis`; None if there is none."""
    size, before = 1, prod(shape[:axis])
    for at, extent in enumerate(other):
        if size == before and extent == shape[axis]:
            return at
        size *= extent
    return None


def product_of(e: Expr) -> _Product | None:
    """A float32 product over channels by constant weights, of known sizes; None for another expression."""
    if not is_op(e, *PRODUCTS) or len(e.args) != 2 or (weight := constant_of(e.args[1])) is None:
        return None
    shape = static_shape(e.args[0])
    if shape is None or 0 in shape or len(shape) < 2 or {str(tensor_of(x).dtype) for x in (*e.args, e)} != {"float32"}:
        return None
    if not is_op(e, *CONVOLUTIONS):
        by_rows = is_op(e, "nn.dense") or card_of(e, products.matmul).transpose_b
        turned = is_op(e, "nn.matmul") and card_of(e, products.matmul).transpose_a
        return None if turned else _Product(e.args[0], len(shape) - 1, weight if by_rows else weight.T)
    card = card_of(e, Convolution)
    data, kernel, result = card.layouts()
    windows = card.windows()
    if card.groups != 1 or data != result or len(kernel) != weight.ndim or len(data) != len(shape):
        return None
    o, i = kernel.index("O"), kernel.index("I")
    if (
        weight.size != weight.shape[o] * weight.shape[i]
        or {*windows.strides} != {1}
        or any([*windows.before, *windows.after])
    ):
        return None
    matrix = weight.reshape(weight.shape[o], -1) if o < i else weight.reshape(weight.shape[i], -1).T
    return _Product(e.args[0], data.index("C"), matrix)


def _made(data: Expr, axis: int, weight: np.ndarray, like: Call) -> Expr:
    """The product of data by weights (O, C)."""
    weight = np.ascontiguousarray(weight, np.float32)
    n = len(_shape(data)) - 2
    if axis == n + 1:
        return typed(constructor("nn.dense")(data, const(weight), span=like.span))
    return typed(constructor(f"nn.conv{n}d")(data, const(weight.reshape(*weight.shape, *[1] * n)), span=like.span))


def _can_be_made(rank: int, axis: int) -> bool:
    return axis == rank - 1 or (axis == 1 and rank in (3, 4, 5))


def _link(e: Expr, axis: int) -> _Link | None:
    """The operator that computes `e`, if it treats all channels alike, adds a constant vector, or is a product; None for others."""
    shape = static_shape(e)
    if not isinstance(e, Call) or shape is None or 0 in shape:
        return None
    if is_op(e, "reshape"):
        source = static_shape(e.args[0])
        at = None if source is None else _axis_of(shape, source, axis)
        return None if at is None or source is None or _axis_of(source, shape, at) != axis else _Link(e, e.args[0], at)
    if is_op(e, "transpose"):
        return _Link(e, e.args[0], permutation(e)[axis], TURNED)
    if is_op(e, *RESIZES):
        return _resized(e, axis)
    if is_op(e, "add"):
        return _biased(e, axis, shape)
    made = product_of(e)
    return _Link(e, made.data, axis, product=made) if made is not None and made.axis == axis else None


def _resized(e: Call, axis: int) -> _Link | None:
    source = static_shape(e.args[0])
    card = card_of(e)
    if isinstance(card, Upsampling) and source is not None:
        card = card.resized(source)
    if not isinstance(card, Resize) or source is None or str(tensor_of(e).dtype) != str(tensor_of(e.args[0]).dtype):
        return None
    letters = [letter for letter, _ in layout_axes(card.layout)]
    spatial = spatial_axes(card.layout, card.letters)
    # What lies outside of the data is not blended from it.
    if len(letters) != len(source) or axis in spatial or card.coordinate_transformation_mode == "tf_crop_and_resize":
        return None
    return _Link(e, e.args[0], axis, float(NEIGHBOURS[card.method] * len(spatial)))


def _biased(e: Call, axis: int, shape: Shape) -> _Link | None:
    for side in (0, 1):
        vector, data = constant_of(e.args[side]), e.args[1 - side]
        if vector is None or static_shape(data) != shape:
            continue
        aligned = (1,) * (len(shape) - vector.ndim) + vector.shape
        if vector.size in (1, aligned[axis]):
            return _Link(e, data, axis, bias=np.broadcast_to(vector.reshape(-1), shape[axis : axis + 1]))
    return None


class _Part:
    """A part of a product's data: its weights (O, C), and the operators from it down to the last one that the product could pass."""

    def __init__(self, e: Expr, axis: int, weight: np.ndarray, reads: Mapping[Expr, int], shared: bool) -> None:
        self.e, self.axis, self.weight = e, axis, weight
        self.links: list[_Link] = []
        self.steps: list[Step] = []
        while str(tensor_of(e).dtype) == "float32" and (link := _link(e, axis)) is not None:
            shared = shared or reads.get(e, 1) > 1
            channels, below = _shape(link.data)[link.axis], prod(_shape(link.data))
            places = prod(_shape(e)) // _shape(e)[axis]
            kind = "resize" if is_op(e, *RESIZES) else "product" if link.product is not None else "other"
            self.steps.append(Step(kind, places, below // channels, channels, link.copies, shared))
            self.links.append(link)
            e, axis = link.data, link.axis
        # What is below the last resize or product stays as it is.
        while self.steps and self.steps[-1].kind == "other":
            self.steps.pop()
            self.links.pop()

    def below(self, count: int) -> tuple[Expr, int]:
        """The data of the first `count` operators, and its axis of channels."""
        return (self.links[count - 1].data, self.links[count - 1].axis) if count else (self.e, self.axis)

    def choices(self) -> list[Place]:
        """The places where there is an operator for the product."""
        found = []
        for place in places(self.steps):
            e, axis = self.below(place.above)
            if place == (0, 0) or _can_be_made(len(_shape(e)), axis):
                found.append(place)
        return found

    def made(self, place: Place, like: Call) -> tuple[Expr, np.ndarray]:
        """(the product at a place, with the operators above it; the vector to add to it)."""
        weight = self.weight.astype(np.float64)
        bias = np.zeros(len(weight))
        for link in self.links[: place.source]:
            if link.bias is not None:
                bias += weight @ link.bias
            elif link.product is not None:
                weight = weight @ link.product.weight
        result, _ = self.below(place.source)
        for link in self.links[place.above : place.source][::-1]:
            result = result if link.product is not None else link.on(result)
        result = _made(result, self.below(place.above)[1], weight, like)
        for link in self.links[: place.above][::-1]:
            result = result if link.product is not None else link.on(result)
        return result, bias


def _parts(product: _Product, reads: Mapping[Expr, int]) -> list[_Part]:
    """The parts of a product's data: what a concatenation of channels joins, or all of it."""
    data = product.data
    joined = data.args[0] if is_op(data, "concatenate") else None
    if not is_op(data, "concatenate") or not isinstance(joined, Tuple):
        return [_Part(data, product.axis, product.weight, reads, False)]
    if card_of(data, reshaping.concatenate).axis % len(_shape(data)) != product.axis:
        return [_Part(data, product.axis, product.weight, reads, False)]
    found, start, shared = [], 0, reads.get(data, 1) > 1 or reads.get(joined, 1) > 1
    for field in joined.fields:
        end = start + _shape(field)[product.axis]
        found.append(_Part(field, product.axis, product.weight[:, start:end], reads, shared))
        start = end
    return found


def moved(call: Call, reads: Mapping[Expr, int]) -> Expr | None:
    """A product of which parts are computed at other places; None if all stay. reads: the number of readers of each expression."""
    product = product_of(call)
    if product is None or not _can_be_made(len(_shape(call)), product.axis):
        return None
    parts = _parts(product, reads)
    if not any([p.steps for p in parts]):
        return None
    plan, size = portable_plan(), prod(_shape(call)) // _shape(call)[product.axis]
    filters, summed = len(product.weight), len(parts) > 1
    chosen = [plan.forms.product_place(p.weight.shape[1], filters, size, p.steps, p.choices(), summed) for p in parts]
    if not any([place.source for place in chosen]):
        return None
    made = [p.made(place, call) for p, place in zip(parts, chosen, strict=True) if place.source]
    kept = [p for p, place in zip(parts, chosen, strict=True) if not place.source]
    total: Expr | None = None
    for e, _ in made:
        total = e if total is None else typed(constructor("add")(total, e, span=call.span))
    assert total is not None
    if kept:
        fields = typed(Tuple(tuple([p.e for p in kept])))
        data = kept[0].e if len(kept) == 1 else typed(constructor("concatenate")(fields, axis=product.axis))
        rest = _made(data, product.axis, np.concatenate([p.weight for p in kept], 1), call)
        total = typed(constructor("add")(rest, total, span=call.span))
    bias = sum([b for _, b in made], np.zeros(len(product.weight))).astype(np.float32)
    if not bias.any():
        return total
    after = [1] * (len(_shape(call)) - 1 - product.axis)
    return constructor("add")(total, const(bias.reshape(-1, *after)), span=call.span)


def ProductsBeforeResizes() -> Pass:
    """Compute products over channels (1 x 1 convolutions, dense layers) before their data is resized and concatenated, and join them with
    products before that, where this costs less.
    """

    def run(func: Function) -> Function:
        reads = use_counts(func)
        return rewrite_calls(func, lambda call: moved(call, reads), reads)

    return typed_pass("ProductsBeforeResizes", 2, lambda f, mod: run(f))


__all__ = ["ProductsBeforeResizes", "moved", "product_of"]
