"""PackStrassen: converts 1 x 1 convolutions by constant kernels to Strassen's algorithm, where a plan says so."""

from __future__ import annotations

from math import prod

import numpy as np

from tilewright.ir.transform import Pass
from tilewright.relay.cards.card import constructor
from tilewright.relay.expr import Call, Expr, const
from tilewright.relay.op.convolution import conv
from tilewright.relay.op.layers import products
from tilewright.relay.rewriting import (
    card_of,
    constant_of,
    is_op,
    rewrite_calls,
    static_shape,
    tensor_of,
    typed_pass,
)
from tilewright.scheduling.graph_plan import graph_plan
from tilewright.topi.nn.strassen import strassen_weights


def PackStrassen() -> Pass:
    """Use Strassen's algorithm for matrix products, and for 1 x 1 convolutions with stride 1 on channel blocks, by constant weights of
    float32, where the plan in force gives their problem the algorithm "strassen". Tuning tries it.

    Sums are then taken in another order: the largest error is about twice that of the plain product. Weights take 7/4 of their memory.
    """
    return typed_pass("PackStrassen", 3, lambda f, mod: rewrite_calls(f, pack_strassen), (), ("packed_weights",))


def pack_strassen(call: Call) -> Expr | None:
    """A call in the form of Strassen's algorithm; None if it stays unchanged."""
    if is_op(call, "nn.contrib_dense_pack"):
        return _dense(call)
    return _convolution(call) if is_op(call, "nn.contrib_conv2d_NCHWc") else None


def _dense(call: Call) -> Expr | None:
    shape, weights = static_shape(call.args[0]), constant_of(call.args[1])
    if shape is None or not _is_plain(call, weights):
        return None
    assert weights is not None
    rows = prod(shape[:-1])
    if rows % 2 and max(shape[:-1], default=1) != rows:
        return None
    units = card_of(call, products.dense_pack).units or weights.shape[0] * weights.shape[2]
    panel = _panel(rows, shape[-1], units)
    if not panel:
        return None
    by_columns = weights.transpose(1, 0, 2).reshape(shape[-1], -1)[:, :units]
    packed = const(strassen_weights(by_columns, panel))
    return constructor("nn.contrib_dense_strassen")(call.args[0], packed, span=call.span)


def _convolution(call: Call) -> Expr | None:
    card = card_of(call, conv.conv2d_NCHWc)
    data, weights, result = static_shape(call.args[0]), constant_of(call.args[1]), static_shape(call)
    plain = {*card.strides} == {1} and card.groups == 1 and not any(card.padding)
    if data is None or result is None or not plain or data[0] != 1 or not _is_plain(call, weights):
        return None
    assert weights is not None
    if weights.ndim != 6 or weights.shape[2:4] != (1, 1) or data[-1] != result[-1] or data[2] * data[3] % 2:
        return None
    filters, channels = result[1] * result[-1], data[1] * data[-1]
    panel = _panel(data[2] * data[3], channels, filters)
    if not panel:
        return None
    by_columns = weights.transpose(1, 4, 0, 5, 2, 3).reshape(channels, filters)
    packed = const(strassen_weights(by_columns, panel))
    layout = card.out_layout or card.data_layout
    return constructor("nn.contrib_conv2d_strassen_NCHWc")(call.args[0], packed, out_layout=layout, span=call.span)


def _is_plain(call: Call, weights: np.ndarray | None) -> bool:
    """Whether a product is one of two operands of float32, the second of which is constant."""
    return (
        weights is not None
        and len(call.args) == 2
        and {str(tensor_of(e).dtype) for e in (*call.args, call)} == {"float32"}
    )


def _panel(rows: int, inner: int, columns: int) -> int:
    """Columns in a panel of weights; 0 for the plain product. Asked before weights are moved, which most products do without."""
    decided = graph_plan()
    return decided.forms.by_strassen(rows, inner, columns) if decided is not None else 0
