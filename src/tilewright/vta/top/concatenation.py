"""Joined channels: convolutions of them become sums of one for each part, and pools are of each part, so that the parts stay packed on the
accelerator, whatever their channels."""

from __future__ import annotations

from itertools import accumulate
from typing import Any

import numpy as np

from tilewright.relay.expr import Call, Expr, Tuple, const
from tilewright.relay.functor import ExprMutator
from tilewright.relay.rewriting import card_of, constant_of, is_op, static_shape, tensor_of, typed


class OfEachPart(ExprMutator):
    """Moves concatenations of channels of bytes behind the convolutions and pools of maxima that read them."""

    def visit_call(self, call: Call) -> Expr:
        new = typed(self.rewritten_call(call))
        if is_op(new, "nn.max_pool2d") and card_of(new)["layout"] == "NCHW":
            joined = new.args[0]
            parts = _joined(joined)
            if parts is not None and isinstance(joined, Call):
                pools = tuple([typed(Call(new.op, (p,), new.attrs, (), new.span)) for p in parts])
                return typed(Call(joined.op, (Tuple(pools),), joined.attrs, (), new.span))
        return _sum_of_parts(new) if is_op(new, "nn.conv2d") else new


def _joined(e: Expr) -> list[Expr] | None:
    """What is joined along channels; None for other expressions."""
    if not (is_op(e, "concatenate") and isinstance(e.args[0], Tuple)):
        return None
    shape = static_shape(e)
    if shape is None or len(shape) != 4 or card_of(e)["axis"] % 4 != 1:
        return None
    return list(e.args[0].fields) if str(tensor_of(e).dtype) in ("int8", "uint8") else None


def _sum_of_parts(e: Call) -> Expr:
    """A convolution of joined channels as a sum of convolutions; others as they are."""
    card: Any = card_of(e)
    pad = e.args[0] if is_op(e.args[0], "nn.pad") and constant_of(e.args[0].args[1]) is not None else None
    parts, weights = _joined(e.args[0] if pad is None else pad.args[0]), constant_of(e.args[1])
    plain = card.data_layout == "NCHW" and card.kernel_layout == "OIHW" and card.groups == 1
    if parts is None or weights is None or not plain or str(tensor_of(e).dtype) != "int32":
        return e
    if pad is not None and any([*card_of(pad)["pad_width"][0], *card_of(pad)["pad_width"][1]]):
        return e
    ends = list(accumulate([(static_shape(p) or ())[1] for p in parts]))
    total: Expr | None = None
    for part, first, end in zip(parts, [0, *ends], ends, strict=False):
        data = part if pad is None else typed(Call(pad.op, (part, pad.args[1]), pad.attrs, (), pad.span))
        w = const(np.ascontiguousarray(weights[:, first:end]))
        made = typed(Call(e.op, (data, w), e.attrs, (), e.span))
        total = made if total is None else typed(total + made)
    assert total is not None
    return total


__all__ = ["OfEachPart"]
