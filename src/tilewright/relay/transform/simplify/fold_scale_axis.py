"""FoldScaleAxis: folds a scale per channel after (or before) a convolution or dense layer into its constant weight.

conv2d(x, w) * s      -> conv2d(x, w * s)            s constant along the output channels
(conv2d(x, w) + b) * s -> conv2d(x, w * s) + b * s
conv2d(x * s, w)      -> conv2d(x, w * s)            s constant along the input channels, groups = 1
"""

from __future__ import annotations

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
    tensor_of,
    typed_pass,
    use_counts,
)

Array = np.ndarray
ANCHORS = ("nn.conv2d", "nn.dense", "nn.conv1d", "nn.conv3d")


def channel_axis(call: Call) -> int | None:
    """The result's axis along which the weight's first axis runs; None for other than plain layouts."""
    if call.operator.name == "nn.dense":
        return len(tensor_of(call).shape) - 1
    card = card_of(call, Convolution)
    plain = card.kernel_layout.startswith("OI") and card.data_layout.startswith("NC") and not card.out_layout
    return 1 if plain else None


def per_channel(value: Array, out_ndim: int, axis: int, channels: int) -> Array | None:
    """`value`, broadcast against a result of `out_ndim` dimensions, as one number per channel; None if it varies along other axes."""
    shape = (1,) * (out_ndim - value.ndim) + value.shape
    if len(shape) != out_ndim or any([n != 1 for i, n in enumerate(shape) if i != axis]):
        return None
    return np.broadcast_to(value.reshape(shape[axis]), (channels,))


def along(value: Array, ndim: int, axis: int) -> Array:
    """A vector shaped to broadcast along one axis."""
    return value.reshape([-1 if i == axis else 1 for i in range(ndim)])


class _Folder:
    def __init__(self, func: Function, backward: bool, forward: bool) -> None:
        self.counts, self.backward, self.forward = use_counts(func), backward, forward

    def single(self, e: Expr) -> bool:
        # Calls in a rule's result are not in the table. They have one use, in that result.
        return self.counts.get(e, 1) == 1

    def fold(self, call: Call) -> Expr | None:
        if self.backward and is_op(call, "multiply"):
            return self.after(call)
        if self.forward and is_op(call, *ANCHORS):
            return self.before(call)
        return None

    def after(self, call: Call) -> Expr | None:
        for i in (0, 1):
            scale, x = constant_of(call.args[i]), call.args[1 - i]
            if scale is None or type(x) is not Call or not self.single(x) or not same_shape(x, call):
                continue
            if is_op(x, *ANCHORS):
                return self.scaled(x, scale)
            if is_op(x, "add"):
                return self.through_add(x, scale)
            if is_op(x, "nn.bias_add"):
                return self.through_bias(x, scale)
        return None

    def scaled(self, conv: Call, scale: Array) -> Expr | None:
        """The convolution with its weight times `scale`."""
        weight, axis = constant_of(conv.args[1]), channel_axis(conv)
        if weight is None or axis is None or not tensor_of(conv).dtype.is_float:
            return None
        factors = per_channel(scale, len(tensor_of(conv).shape), axis, weight.shape[0])
        if factors is None:
            return None
        new = weight * along(factors.astype(weight.dtype, copy=False), weight.ndim, 0)
        return Call(conv.op, (conv.args[0], const(new)), conv.attrs, (), conv.span)

    def through_add(self, x: Call, scale: Array) -> Expr | None:
        for j in (0, 1):
            bias, conv = constant_of(x.args[j]), x.args[1 - j]
            if bias is None or not is_op(conv, *ANCHORS) or not self.single(conv) or not same_shape(conv, x):
                continue
            folded = self.scaled(conv, scale)
            if folded is not None:
                return constructor("add")(folded, const((bias * scale).astype(bias.dtype, copy=False)))
        return None

    def through_bias(self, x: Call, scale: Array) -> Expr | None:
        bias, conv = constant_of(x.args[1]), x.args[0]
        if bias is None or not is_op(conv, *ANCHORS) or not self.single(conv):
            return None
        ndim = len(tensor_of(x).shape)
        axis = card_of(x, elemwise.AlongAxis).axis % ndim
        factors = per_channel(scale, ndim, axis, bias.shape[0])
        folded = None if factors is None else self.scaled(conv, scale)
        if folded is None or factors is None:
            return None
        return Call(x.op, (folded, const((bias * factors).astype(bias.dtype, copy=False))), x.attrs, (), x.span)

    def before(self, conv: Call) -> Expr | None:
        x, weight = conv.args[0], constant_of(conv.args[1])
        if weight is None or not is_op(x, "multiply") or channel_axis(conv) is None:
            return None
        if not is_op(conv, "nn.dense") and card_of(conv, Convolution).groups != 1:
            return None
        for i in (0, 1):
            scale, data = constant_of(x.args[i]), x.args[1 - i]
            if scale is None or not same_shape(data, x) or not self.single(x):
                continue
            ndim = len(tensor_of(x).shape)
            axis = ndim - 1 if is_op(conv, "nn.dense") else 1
            factors = per_channel(scale, ndim, axis, weight.shape[1])
            if factors is not None and tensor_of(conv).dtype.is_float:
                new = weight * along(factors.astype(weight.dtype, copy=False), weight.ndim, 1)
                return Call(conv.op, (data, const(new)), conv.attrs, (), conv.span)
        return None


def _pass(name: str, level: int, backward: bool, forward: bool) -> Pass:
    def run(func: Function, mod: IRModule) -> Function:
        folder = _Folder(func, backward, forward)
        return rewrite_calls(func, folder.fold, folder.counts)

    return typed_pass(name, level, run)


def FoldScaleAxis() -> Pass:
    """Fold a scale per channel after or before a convolution or dense layer into its constant weight."""
    return _pass("FoldScaleAxis", 2, True, True)


def BackwardFoldScaleAxis() -> Pass:
    """Fold a scale per channel of the result of a convolution or dense layer into its constant weight."""
    return _pass("BackwardFoldScaleAxis", 3, True, False)


def ForwardFoldScaleAxis() -> Pass:
    """Fold a scale per channel of the input of a convolution or dense layer into its constant weight."""
    return _pass("ForwardFoldScaleAxis", 3, False, True)
