"""ChannelsLast: images with channels last, where the matrix units of a device multiply along channels.

A warp copies neighbouring elements of channels as vectors of 16 bytes. With channels before pixels, neighbours are pixels of a row, which
a padded window moves to places that are no multiples of vectors, so that each element would be copied by itself. For the same reason,
images of three channels get a fourth one of zeros. Weights run along channels, too, where matrix units cannot transpose their type on
the way from shared memory.
"""

from __future__ import annotations

from tilewright.ir import IRModule, TensorType
from tilewright.ir.transform import Pass, PassContext, PassInfo
from tilewright.relay.cards.card import constructor
from tilewright.relay.expr import Call, Expr, Function
from tilewright.relay.functor import post_order
from tilewright.relay.op.convolution.attributes import Convolution
from tilewright.relay.rewriting import (
    card_of,
    is_op,
    rewrite_calls,
    static_shape,
    typed,
    typed_pass,
)
from tilewright.relay.transform.layout.convert_layout import ConvertLayout
from tilewright.relay.typing.infer_type import infer_module
from tilewright.scheduling.graph_plan import graph_plan

IMAGES = ("nn.conv2d",)
"""Operators that are converted; what follows them keeps their layout where it can."""
VECTOR = 4
"""Channels that a thread copies at once, at least."""


def _multiplies_channels(call: Call) -> bool:
    """Whether a convolution runs faster with channels last."""
    types = [e.checked_type for e in (*call.args, call)]
    plan = graph_plan()
    if plan is None or not all([isinstance(t, TensorType) for t in types]):
        return False
    data, weight, sums = [str(t.dtype) for t in types if isinstance(t, TensorType)]
    return data == weight and plan.forms.channels_last(data, sums)


def _filled(call: Call) -> Expr | None:
    """A convolution with channels last whose channels are filled up to whole vectors with zeros."""
    if not is_op(call, *IMAGES) or not _multiplies_channels(call):
        return None
    card, shape = card_of(call, Convolution), static_shape(call.args[0])
    data, kernel, _ = card.layouts()
    if data != "NHWC" or card.groups != 1 or shape is None or shape[3] == 1 or shape[3] % VECTOR == 0:
        return None
    more, at = -shape[3] % VECTOR, kernel.index("I")
    filled = [
        typed(constructor("nn.pad")(e, tuple([(0, more if k == axis else 0) for k in range(4)])))
        for e, axis in zip(call.args, (3, at), strict=True)
    ]
    return typed(Call(call.op, tuple(filled), card, (), call.span))


def _with_rows_along_channels(call: Call) -> Expr | None:
    """A convolution whose weights have their channels last."""
    if not is_op(call, *IMAGES) or not _multiplies_channels(call):
        return None
    card = card_of(call, Convolution)
    data, kernel, _ = card.layouts()
    weight = call.args[1].checked_type
    if (
        (data, kernel, card.groups) != ("NHWC", "HWIO", 1)
        or not isinstance(weight, TensorType)
        or weight.dtype.bits == 16
    ):
        return None
    turned = typed(constructor("transpose")(call.args[1], (3, 0, 1, 2)))
    return typed(Call(call.op, (call.args[0], turned), card.replace(kernel_layout="OHWI"), (), call.span))


def ChannelsLast() -> Pass:
    """Convert convolutions of images, and the operators between them, to NHWC if the device of the current target has matrix units for
    types of a convolution of the program, and fill channels up to a multiple of four; weights whose elements have not 16 bits become OHWI.
    Other programs stay as they are."""

    filled = typed_pass("FillChannels", 3, lambda func, mod: rewrite_calls(func, _filled))
    along = typed_pass("WeightsAlongChannels", 3, lambda func, mod: rewrite_calls(func, _with_rows_along_channels))

    def run(mod: IRModule, ctx: PassContext) -> IRModule:
        mod = infer_module(mod)
        bodies = [f.body for f in mod.functions.values() if isinstance(f, Function) and not f.is_primitive]
        images = [e for body in bodies for e in post_order(body) if isinstance(e, Call) and is_op(e, *IMAGES)]
        if not any([_multiplies_channels(call) for call in images]):
            return mod
        return along(filled(ConvertLayout({name: ["NHWC", "default"] for name in IMAGES})(mod)))

    return Pass(PassInfo(3, "ChannelsLast"), run)


__all__ = ["ChannelsLast"]
