"""ImageViews: converts convolutions over one axis to convolutions of images with one row if channel blocks pay off, those of one
column to images with one row, and moves element-wise operators before the views of results.

    relu(add(reshape(conv2d(x)), bias))  ->  reshape(relu(add(conv2d(x), bias)))

Convolutions over one or three axes become convolutions of images, with a reshape of the result. The operators after it would be a
separate kernel. Before the reshape, which moves no data, they are an epilogue, and reshapes of adjacent convolutions cancel.
"""

from __future__ import annotations

from math import prod

import numpy as np

from tilewright.ir.transform import Pass
from tilewright.relay.cards.card import BROADCAST, constructor
from tilewright.relay.cards.relations import each
from tilewright.relay.expr import Call, Expr, const
from tilewright.relay.op.convolution import conv, conv_nd
from tilewright.relay.op.convolution.windows import pads
from tilewright.relay.rewriting import (
    card_of,
    constant_of,
    is_op,
    rewrite_calls,
    static_shape,
    tensor_of,
    typed,
    typed_pass,
)
from tilewright.relay.transform.layout.alter_layout import innermost_block
from tilewright.relay.transform.layout.lone_convs import in_blocks
from tilewright.target import Target
from tilewright.topi.utils import get_pad_tuple

Shape = tuple[int, ...]


def as_image(call: Call) -> Expr | None:
    """conv1d of known sizes by constant weights as conv2d on an image of one row, if that is faster in channel blocks."""
    card = card_of(call, conv_nd.conv1d)
    data, result, weight = static_shape(call.args[0]), static_shape(call), constant_of(call.args[1])
    plain = card.layouts() == ("NCW", "OIW", "NCW")
    if Target.current(True) is None or data is None or result is None or weight is None or not plain:
        return None
    if {str(tensor_of(e).dtype) for e in (*call.args, call)} != {"float32"} or 0 in (*data, *result):
        return None
    [stride], [dilation] = card.strides, card.dilation
    [before], [after] = get_pad_tuple(card.padding, [(weight.shape[2] - 1) * dilation + 1], 1)
    filters = const(np.ascontiguousarray(weight[:, :, None, :]))
    image = typed(constructor("reshape")(call.args[0], (*data[:2], 1, data[2])))
    attrs = conv.conv2d(
        strides=(1, stride), padding=(0, before, 0, after), dilation=(1, dilation), groups=card.groups,
        channels=weight.shape[0], kernel_size=(1, weight.shape[2]),
    )  # fmt: skip
    made = typed(Call(attrs.op, (image, filters), attrs, (), call.span))
    choice = attrs.lone_layout([None, None], [image.checked_type, typed(filters).checked_type])
    if choice is None or choice.result is None:
        return None
    block_in, block_out = (innermost_block(layout) for layout in (choice.args[0], choice.result))
    if not in_blocks(made, block_in, block_out, False, compared=True):
        return None
    return constructor("reshape")(made, result)


def as_row(call: Call) -> Expr | None:
    """conv2d on a column (images and results of width 1) by constant weights, as conv2d on a row: tiles run along rows."""
    card = card_of(call, conv.conv2d)
    data, result, weight = static_shape(call.args[0]), static_shape(call), constant_of(call.args[1])
    if data is None or result is None or weight is None or 0 in (*data, *result) or Target.current(True) is None:
        return None
    if (card.data_layout, card.kernel_layout, card.out_layout or "NCHW") != ("NCHW", "OIHW", "NCHW"):
        return None
    if (data[3], result[3]) != (1, 1) or 1 in (data[2], result[2]):
        return None
    strides, dilation = tuple(each(card.strides, 2, "strides")), tuple(each(card.dilation, 2, "dilation"))
    (top, left), (bottom, right) = pads(card.padding)
    turned = {"strides": strides[::-1], "padding": (left, top, right, bottom), "dilation": dilation[::-1]}
    if card.kernel_size is not None:
        turned["kernel_size"] = tuple(each(card.kernel_size, 2, "kernel_size"))[::-1]
    image = typed(constructor("reshape")(call.args[0], (*data[:2], 1, data[2])))
    filters = const(np.ascontiguousarray(weight.transpose(0, 1, 3, 2)))
    made = typed(Call(call.op, (image, filters), card.replace(**turned), (), call.span))
    return constructor("reshape")(made, result)


class _ImageViews:
    """`views`: reshape of an image that a convolution made -> the image."""

    def __init__(self) -> None:
        self.views: dict[Expr, Expr] = {}

    def rule(self, call: Call) -> Expr | None:
        if is_op(call, "nn.conv1d"):
            return as_image(call)
        if is_op(call, "nn.conv2d"):
            return as_row(call)
        shape, card = static_shape(call), card_of(call)
        if shape is None or 0 in shape:
            return None
        if is_op(call, "reshape"):
            source = call.args[0]
            if is_op(source, "nn.conv2d") and (static_shape(source) or ())[:2] == shape[:2]:
                self.views[call] = source
            return None
        if card.fuse > BROADCAST or hasattr(card, "axis"):
            return None
        seen = [self.views[a] for a in call.args if a in self.views and static_shape(a) == shape]
        return self._below(call, shape, static_shape(seen[0]) or ()) if seen else None

    def _below(self, call: Call, shape: Shape, image: Shape) -> Expr | None:
        found = [a for a in [self._operand(a, shape, image) for a in call.args] if a is not None]
        if len(found) < len(call.args):
            return None
        made = typed(Call(call.op, tuple(found), call.attrs, (), call.span))
        if static_shape(made) != image:
            return None
        # The reshape keeps the source of the call, and with it the node of the model.
        result: Expr = typed(constructor("reshape")(made, shape, span=call.span))
        self.views[result] = made
        return result

    def _operand(self, e: Expr, shape: Shape, image: Shape) -> Expr | None:
        """An operand of an element-wise operator in the image's shape; None if it varies along axes other than channels."""
        mine = static_shape(e)
        if mine is None:
            return None
        if mine == shape:
            view = self.views.get(e)
            return view if view is not None and static_shape(view) == image else _reshaped(e, image)
        if prod(mine) == 1:
            return e if mine == () else _reshaped(e, (1,) * len(image))
        aligned = (1,) * (len(shape) - len(mine)) + mine
        if len(aligned) < 2 or prod(aligned) != aligned[1]:
            return None
        return _reshaped(e, (aligned[1], *[1] * (len(image) - 2)))


def _reshaped(e: Expr, shape: Shape) -> Expr:
    return typed(constructor("reshape")(e, shape))


def ImageViews() -> Pass:
    """Replace convolutions over one axis (where this is faster) or three axes by convolutions of images. Operators
    after them move before the reshapes of their results.
    """
    return typed_pass("ImageViews", 2, lambda f, mod: rewrite_calls(f, _ImageViews().rule))


__all__ = ["ImageViews", "as_image"]
