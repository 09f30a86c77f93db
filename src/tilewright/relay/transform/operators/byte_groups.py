"""Grouped convolutions of bytes, whose groups are filled up to whole instructions.

An instruction for products of bytes adds up 4 channels to each of 4 to 16 sums, so groups of a convolution use it only if their
channels and filters are multiples of these. Others are filled up: weights with zeros, data with any channels; filters that were added
are cut off.

    data (N, G * i, H, W)          -->  (N, G, i', H, W), overlapping  -->  (N, G * i', H, W)
    weights (G * o, i, KH, KW)     -->  (G * o', i', KH, KW)
    result (N, G * o', OH, OW)     -->  (N, G, o, OH, OW)              -->  (N, G * o, OH, OW)
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from tilewright.relay.cards.card import constructor
from tilewright.relay.expr import Call, Expr, const
from tilewright.relay.op.convolution import conv
from tilewright.relay.rewriting import card_of, constant_of, is_op, pads_image, static_shape, tensor_of, typed
from tilewright.scheduling.convolutions import GroupedBytes
from tilewright.scheduling.graph_plan import graph_plan
from tilewright.scheduling.instructions import dot_products
from tilewright.target import Target


def in_whole_groups(call: Call, data_type: str, settled: Callable[[Call], Expr]) -> Expr | None:
    """A grouped convolution by constant weights as one whose groups are whole; None where they are, where the target has no instruction,
    or where the plain form costs less. data_type: that of data as instructions take them; settled: f(the new convolution) -> it on such
    data."""
    plan = graph_plan()
    if not is_op(call, "nn.conv2d") or plan is None:
        return None
    card, weight = card_of(call, conv.conv2d), constant_of(call.args[1])
    shape, result = static_shape(call.args[0]), static_shape(call)
    plain = (card.data_layout, card.kernel_layout, card.out_layout or card.data_layout) == ("NCHW", "OIHW", "NCHW")
    if card.groups == 1 or weight is None or shape is None or result is None or not plain or 0 in (*shape, *result):
        return None
    weight_type, sums = (str(tensor_of(e).dtype) for e in (call.args[1], call))
    found = dot_products(Target.current(True), data_type, weight_type, sums)
    inner, outer = shape[1] // card.groups, result[1] // card.groups
    if sums != "int32" or not found or weight.shape[:2] != (result[1], inner):
        return None
    group = found[0].group
    if inner % group == 0 and any([outer % d.lanes == 0 for d in found]):
        return None
    problem = GroupedBytes(inner, outer, result[2:], weight.shape[2:], max(card.strides) > 1)
    filters = plan.forms.filled_filters(card.problem(*[e.checked_type for e in call.args]), problem, found)
    if filters == 0:
        return None
    channels = -(-inner // group) * group
    filled = np.zeros((card.groups, filters, channels, *weight.shape[2:]), weight.dtype)
    filled[:, :outer, :inner] = weight.reshape(card.groups, outer, inner, *weight.shape[2:])
    operands = with_more_channels(call.args[0], card.groups, channels), const(filled.reshape(-1, *filled.shape[2:]))
    attributes = card.replace(channels=None if card.channels is None else card.groups * filters)
    product = settled(typed(Call(call.op, operands, attributes, (), call.span)))
    if filters == outer:
        return product
    make, (images, _, *places) = constructor, result
    product = make("reshape")(product, (images, card.groups, filters, *places))
    product = make("strided_slice")(product, (0,), (outer,), (1,), axes=(2,))
    return make("reshape")(product, result)


def with_more_channels(data: Expr, groups: int, channels: int) -> Expr:
    """Data with `channels` channels for each group: more than there are, the last ones any."""
    if pads_image(data):
        # Below a border around the images, because rows of images then follow each other.
        inside = with_more_channels(data.args[0], groups, channels)
        return typed(Call(data.op, (inside, data.args[1]), data.attrs, (), data.span))
    images, have, *image = static_shape(data) or ()
    each, make = have // groups, constructor
    if each == channels:
        return data
    # A group goes on with channels of the next one.
    data = make("nn.pad")(data, [(0, 0), (0, channels - each), (0, 0), (0, 0)], pad_mode="edge")
    data = make("sliding_window")(data, 1, (channels, *image), (each, 1, 1))
    return typed(make("reshape")(data, (images, groups * channels, *image)))


__all__ = ["in_whole_groups"]
