"""PackWinograd: converts 3 x 3 convolutions by constant kernels to Winograd's form, if that is expected to be faster."""

from __future__ import annotations

import numpy as np

from tilewright.ir.transform import Pass
from tilewright.relay.cards.card import constructor
from tilewright.relay.cards.relations import dims
from tilewright.relay.expr import Call, Expr, const
from tilewright.relay.op.convolution import conv
from tilewright.relay.rewriting import card_of, constant_of, is_op, rewrite_calls, tensor_of, typed_pass
from tilewright.scheduling.graph_plan import graph_plan
from tilewright.topi.nn.winograd_blocked import winograd_weights


def PackWinograd() -> Pass:
    """Use Winograd's form for 3 x 3 convolutions with stride 1 and constant weights on channel blocks, if the cost
    model estimates that it saves at least a fifth. A dynamic batch counts as one image.

    Sums are then taken in another order: the largest error of a convolution is about ten times that of a direct one,
    4e-6 of the largest result. `PassContext(disabled_pass=["PackWinograd"])` keeps all convolutions direct.
    """
    return typed_pass("PackWinograd", 3, lambda f, mod: rewrite_calls(f, pack_winograd), (), ("packed_weights",))


def pack_winograd(call: Call) -> Expr | None:
    """A call in Winograd's form; None if it stays unchanged."""
    decided = graph_plan()
    if decided is None or not is_op(call, "nn.contrib_conv2d_NCHWc"):
        return None
    card = card_of(call, conv.conv2d_NCHWc)
    weights = constant_of(call.args[1])
    plain = set(card.strides) == {1} and set(card.dilation) == {1} and card.groups == 1
    if weights is None or not plain or weights.shape[2:4] != (3, 3) or weights.dtype.name != "float32":
        return None
    data, result = dims(tensor_of(call.args[0])), dims(tensor_of(call))
    lanes = decided.target.cpu.lanes(32)
    static = all([isinstance(d, int) for d in (*data[1:], *result[1:])])
    if not static or data[-1] != lanes or result[-1] != lanes or tensor_of(call).dtype != "float32":
        return None
    filters, channels = weights.shape[0] * lanes, weights.shape[1] * lanes
    images, _, height, width, _ = result
    assert isinstance(height, int) and isinstance(width, int)
    # A dynamic batch must already gain with one image.
    plan = decided.forms.winograd(channels, filters, (images if isinstance(images, int) else 1, height, width))
    if plan is None:
        return None
    oihw = np.asarray(weights).transpose(0, 5, 1, 4, 2, 3).reshape(filters, channels, 3, 3)
    packed = winograd_weights(oihw, plan.tile_size, plan.panel)
    return constructor("nn.contrib_conv2d_winograd_NCHWc")(
        call.args[0],
        const(packed),
        tile_size=plan.tile_size,
        padding=card.padding,
        data_layout=card.data_layout,
        out_layout=card.out_layout or card.data_layout,
        out_dtype=card.out_dtype,
        span=call.span,
    )
