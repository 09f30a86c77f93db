"""FoldScaleAxis: folds a scale per channel after or before a convolution or dense layer into its weight.

conv2d(x, w) * s          -> conv2d(x, w * s)                s along the output channels
(conv2d(x, w) + b) * s    -> conv2d(x, w * s) + b * s        b along the output channels, too
relu(conv2d(x, w)) * s    -> relu(conv2d(x, w * s))          s a positive constant
conv2d(x * s, w)          -> conv2d(x, w * s)                s along the input channels, of which each filter reads all, or one
conv2d(relu(x * s), w)    -> conv2d(relu(x), w * s)          s a positive constant
conv2d(x * s + b, w)      -> conv2d(x + b / s, w * s)        s a constant without zeros
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

import numpy as np

from tilewright.ir import IRModule
from tilewright.ir.transform import Pass
from tilewright.relay.cards.card import constructor
from tilewright.relay.expr import Call, Expr, Function, const
from tilewright.relay.op.arithmetic import elemwise
from tilewright.relay.op.convolution.attributes import Convolution
from tilewright.relay.rewriting import (
    card_of,
    constant_of,
    is_op,
    rewrite_calls,
    same_shape,
    static_shape,
    tensor_of,
    typed,
    typed_pass,
    use_counts,
)

ANCHORS = ("nn.conv2d", "nn.dense", "nn.conv1d", "nn.conv3d")


@dataclass(frozen=True)
class Axes:
    """Where channels are: in the data, in the result, and the axes of the weight along which they run (None: it has no such axis)."""

    data: int
    result: int
    weight_in: int | None
    weight_out: int | None


def axes_of(call: Call) -> Axes | None:
    """The axes of a convolution in plain layouts or a dense layer; None for others."""
    weight = static_shape(call.args[1])
    if weight is None:
        return None
    if is_op(call, "nn.dense"):
        return Axes(len(tensor_of(call.args[0]).shape) - 1, len(tensor_of(call).shape) - 1, 1, 0)
    card = card_of(call, Convolution)
    layouts = (card.data_layout, card.out_layout or card.data_layout, card.kernel_layout)
    if not all([layout.isalpha() and layout.isupper() for layout in layouts]):
        return None
    data, result = layouts[0].index("C"), layouts[1].index("C")
    o, i = layouts[2].index("O"), layouts[2].index("I")
    made, read = (static_shape(call) or ())[result:][:1], (static_shape(call.args[0]) or ())[data:][:1]
    if not made or not read:
        return None
    alone = card.groups == read[0] == made[0] and weight[i] == 1  # each channel has one filter of its own
    return Axes(
        data,
        result,
        i if card.groups == 1 else o if alone and weight[o] == read[0] else None,
        o if weight[o] == made[0] else None,
    )


class Scale:
    """Factors along the channels: a vector, or one number for all."""

    def __init__(self, expr: Expr) -> None:
        self.expr, self.value = expr, constant_of(expr)

    @property
    def positive(self) -> bool:
        """Whether all factors are known to be positive."""
        return self.value is not None and bool(np.all(self.value > 0))

    @property
    def invertible(self) -> bool:
        """Whether all factors are known not to be zero."""
        return self.value is not None and bool(np.all(self.value != 0))

    def along(self, ndim: int, axis: int) -> Scale:
        """The factors shaped to broadcast along one axis of a tensor."""
        shape = tuple([-1 if i == axis else 1 for i in range(ndim)])
        if self.value is not None:
            return Scale(typed(const(self.value.reshape(shape))))
        return Scale(typed(constructor("reshape")(self.expr, shape)))


def per_channel(e: Expr, ndim: int, axis: int) -> Scale | None:
    """The factors that `e`, broadcast against a tensor of `ndim` dimensions, has along one axis; None if it varies along others."""
    own = static_shape(e)
    if own is None or len(own) > ndim or not tensor_of(e).dtype.is_float:
        return None
    shape = (1,) * (ndim - len(own)) + own
    if any([n != 1 for i, n in enumerate(shape) if i != axis]):
        return None
    return Scale(e).along(1, 0)


def combined(key: str, a: Expr, b: Expr) -> Expr:
    """a * b or a / b, computed now if both are constants."""
    x, y = constant_of(a), constant_of(b)
    if x is None or y is None:
        return typed(constructor(key)(a, b))
    return typed(const((x * y if key == "multiply" else x / y).astype(x.dtype, copy=False)))


class _Folder:
    """The rules for one function. anywhere: also into weights that are no constants and larger than what would be scaled otherwise."""

    def __init__(self, func: Function, backward: bool, forward: bool, anywhere: bool) -> None:
        self.counts, self.backward, self.forward, self.anywhere = use_counts(func), backward, forward, anywhere

    def single(self, e: Expr) -> bool:
        # Calls in a rule's result are not in the table. They have one use, in that result.
        return self.counts.get(e, 1) == 1

    def fold(self, call: Call) -> Expr | None:
        if self.backward and is_op(call, "multiply"):
            return self.after(call)
        if self.forward and is_op(call, *ANCHORS):
            return self.before(call)
        return None

    def weighted(self, anchor: Call, scale: Scale, axis: int | None, data: Expr, scaled: Expr) -> Expr | None:
        """The anchor on `data`, with its weight times `scale`. scaled: the tensor that was scaled instead."""
        weight = anchor.args[1]
        if axis is None or not tensor_of(anchor).dtype.is_float or not tensor_of(weight).dtype.is_float:
            return None
        shaped = scale.along(len(tensor_of(weight).shape), axis).expr
        if tensor_of(shaped).dtype != tensor_of(weight).dtype:
            if constant_of(shaped) is None:
                return None
            shaped = typed(const(np.asarray(constant_of(shaped)).astype(str(tensor_of(weight).dtype))))
        if constant_of(weight) is None or constant_of(shaped) is None:
            most = prod(static_shape(scaled) or (0,))
            if not self.anywhere and prod(static_shape(weight) or ()) > most:
                return None
        return Call(anchor.op, (data, combined("multiply", weight, shaped)), anchor.attrs, (), anchor.span)

    # ---- after

    def after(self, call: Call) -> Expr | None:
        for i in (0, 1):
            x = call.args[1 - i]
            if type(x) is Call and same_shape(x, call):
                found = self.multiplied(x, call.args[i])
                if found is not None:
                    return found
        return None

    def multiplied(self, x: Expr, factor: Expr) -> Expr | None:
        """x * factor, with the factor in the weight that x is computed with."""
        if type(x) is not Call or not self.single(x):
            return None
        if is_op(x, *ANCHORS):
            axes = axes_of(x)
            scale = None if axes is None else per_channel(factor, len(tensor_of(x).shape), axes.result)
            return None if axes is None or scale is None else self.weighted(x, scale, axes.weight_out, x.args[0], x)
        if is_op(x, "nn.relu"):
            positive = Scale(factor).positive
            inner = self.multiplied(x.args[0], factor) if positive else None
            return None if inner is None else Call(x.op, (inner,), x.attrs, (), x.span)
        if is_op(x, "add"):
            return self.through_add(x, factor)
        return self.through_bias(x, factor) if is_op(x, "nn.bias_add") else None

    def through_add(self, x: Call, factor: Expr) -> Expr | None:
        for j in (0, 1):
            bias, inner = x.args[j], x.args[1 - j]
            if not same_shape(inner, x) or not self.is_narrow(bias, x, factor):
                continue
            folded = self.multiplied(inner, factor)
            if folded is not None:
                return constructor("add")(folded, combined("multiply", bias, factor))
        return None

    def is_narrow(self, bias: Expr, x: Call, factor: Expr) -> bool:
        """Whether the product of a bias and a factor costs nothing at run time, or as little as one of vectors."""
        if constant_of(bias) is not None and constant_of(factor) is not None:
            return True
        shape = static_shape(bias)
        return shape is not None and sum([n != 1 for n in shape]) <= 1 < len(tensor_of(x).shape)

    def through_bias(self, x: Call, factor: Expr) -> Expr | None:
        ndim = len(tensor_of(x).shape)
        axis = card_of(x, elemwise.AlongAxis).axis % ndim
        scale = per_channel(factor, ndim, axis)
        folded = None if scale is None else self.multiplied(x.args[0], factor)
        if folded is None or scale is None:
            return None
        return Call(x.op, (folded, combined("multiply", x.args[1], scale.expr)), x.attrs, (), x.span)

    # ---- before

    def before(self, anchor: Call) -> Expr | None:
        axes = axes_of(anchor)
        if axes is None or axes.weight_in is None:
            return None
        found = self.unscaled(anchor.args[0], axes.data)
        if found is None:
            return None
        data, scale = found
        return self.weighted(anchor, scale, axes.weight_in, typed(data), anchor.args[0])

    def unscaled(self, x: Expr, axis: int) -> tuple[Expr, Scale] | None:
        """(y, s) where x is y times factors along an axis; None where there are none. Zeros stay zeros, so x may be padded with them."""
        if type(x) is not Call or not self.single(x):
            return None
        ndim = len(tensor_of(x).shape)
        if is_op(x, "multiply"):
            for i in (0, 1):
                scale = per_channel(x.args[i], ndim, axis) if same_shape(x.args[1 - i], x) else None
                if scale is not None:
                    return x.args[1 - i], scale
        if is_op(x, "nn.relu"):
            inner = self.unscaled(x.args[0], axis)
            if inner is not None and inner[1].positive:
                return Call(x.op, (typed(inner[0]),), x.attrs, (), x.span), inner[1]
        if is_op(x, "add"):
            for i in (0, 1):
                bias = per_channel(x.args[i], ndim, axis)
                inner = self.unscaled(x.args[1 - i], axis) if bias is not None else None
                if inner is not None and bias is not None and inner[1].invertible:
                    rest = combined("divide", bias.along(ndim, axis).expr, inner[1].along(ndim, axis).expr)
                    return constructor("add")(typed(inner[0]), rest), inner[1]
        return None


def _pass(name: str, level: int, backward: bool, forward: bool, anywhere: bool) -> Pass:
    def run(func: Function, mod: IRModule) -> Function:
        folder = _Folder(func, backward, forward, anywhere)
        return rewrite_calls(func, folder.fold, folder.counts)

    return typed_pass(name, level, run)


def FoldScaleAxis() -> Pass:
    """Fold a scale per channel after or before a convolution or dense layer into its weight: a constant, or one that is smaller than
    what would be scaled at run time."""
    return _pass("FoldScaleAxis", 2, True, True, False)


def BackwardFoldScaleAxis() -> Pass:
    """Fold a scale per channel of the result of a convolution or dense layer into its weight."""
    return _pass("BackwardFoldScaleAxis", 3, True, False, True)


def ForwardFoldScaleAxis() -> Pass:
    """Fold a scale per channel of the input of a convolution or dense layer into its weight."""
    return _pass("ForwardFoldScaleAxis", 3, False, True, True)
