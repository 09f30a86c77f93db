"""Isolated convolutions among operators that keep layouts: whether conversion to and from channel blocks pays off."""

from __future__ import annotations

from tilewright import te
from tilewright.ir import Op, TensorType
from tilewright.relay.cards.card import BROADCAST, OpCard
from tilewright.relay.expr import Call, Expr, Tuple, TupleGetItem
from tilewright.relay.functor import post_order
from tilewright.relay.op.convolution.attributes import Convolution
from tilewright.relay.rewriting import card_of, is_op, static_shape, tensor_of
from tilewright.scheduling.graph_plan import graph_plan
from tilewright.topi.problems import Windows
from tilewright.topi.utils import get_pad_tuple


def lone_convolutions(root: Expr) -> set[Call]:
    """Convolutions that operators with kept layouts connect to no other one. Those beside transpositions, which convert layouts at no
    additional cost, are not included. In a function with several convolutions, all use blocks: conversions are then parts of the
    operators between them (ConvNeXt ran 8 % slower with its downsampling plain)."""
    above: dict[Expr, Expr] = {}

    def leader(e: Expr) -> Expr:
        while above[e] is not e:
            above[e] = above[above[e]]
            e = above[e]
        return e

    convolutions: list[Call] = []
    beside: list[Expr] = []
    for e in post_order(root):
        if isinstance(e, (Tuple, TupleGetItem)) or (type(e) is Call and type(e.op) is Op and _keeps_layouts(e)):
            above[e] = e
        operands = e.fields if isinstance(e, Tuple) else e.args if type(e) is Call else ()
        if isinstance(e, TupleGetItem):
            operands = (e.tuple_value,)
        for a in operands:
            if e in above and a in above:
                above[leader(a)] = leader(e)
            if is_op(a, "transpose") and e in above:
                beside.append(e)
            elif is_op(e, "transpose") and a in above:
                beside.append(a)
        if is_op(e, "nn.conv2d"):
            convolutions.append(e)
    if len(convolutions) != 1:
        return set()
    counts: dict[Expr, int] = {}
    for call in convolutions:
        counts[leader(call)] = counts.get(leader(call), 0) + 1
    for e in beside:
        counts[leader(e)] = 0
    return {call for call in convolutions if counts[leader(call)] == 1}


def _keeps_layouts(call: Call) -> bool:
    card = card_of(call)
    if type(card).layout_rule is not OpCard.layout_rule:
        return True
    result = call.checked_type
    return card.fuse <= BROADCAST and isinstance(result, TensorType) and len(result.shape) == 4


def interleaved_convolutions(root: Expr) -> set[Call]:
    """Convolutions whose results are read only by interleavings of phases or sums of windows, which need the plain layout and have about
    the same size."""
    needs_plain = ("nn.contrib_interleave_phases", "nn.contrib_add_windows")
    readers: dict[Expr, list[bool]] = {}
    for e in post_order(root):
        operands = e.fields if isinstance(e, Tuple) else e.args if type(e) is Call else ()
        for a in operands:
            if is_op(a, "nn.conv2d"):
                readers.setdefault(a, []).append(is_op(e, *needs_plain))
    return {call for call, interleaved in readers.items() if all(interleaved) and isinstance(call, Call)}


def in_blocks(call: Call, block_in: int, block_out: int, have: bool, compared: bool) -> bool:
    """Whether a convolution runs on channel blocks. have: whether its data is in blocks, and would have to be converted to the plain layout
    (else to blocks). compared: whether the costs of both are compared, since its result is needed in the plain layout."""
    card = card_of(call, Convolution)
    plan = graph_plan()
    if plan is None:
        return True
    windows = _windows(call) if compared else None
    return plan.forms.in_blocks(
        card.problem(call.args[0].checked_type, call.args[1].checked_type), windows, block_in, block_out, have
    )


def _windows(call: Call) -> Windows | None:
    """The input of the cost model; None for dynamic dimensions, and for results of another type."""
    card = card_of(call, Convolution)
    data, weight, result = static_shape(call.args[0]), static_shape(call.args[1]), static_shape(call)
    dtype = str(tensor_of(call).dtype)
    if data is None or weight is None or result is None or dtype != tensor_of(call.args[0]).dtype:
        return None
    strides, dilation = ([v[0], v[-1]] for v in (card.strides, card.dilation))
    before, after = get_pad_tuple(card.padding, [(k - 1) * d + 1 for k, d in zip(weight[2:], dilation, strict=True)])
    return Windows(
        te.placeholder(data, dtype), te.placeholder(weight, dtype), strides, before, after, dilation, card.groups, dtype
    )


__all__ = ["in_blocks", "lone_convolutions", "interleaved_convolutions"]
