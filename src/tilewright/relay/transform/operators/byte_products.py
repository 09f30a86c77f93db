"""ProductsOfBytes: adapts convolutions and dense layers on int8 or uint8 data to byte instructions: x86 multiplies unsigned by int8,
the first such ARM instructions multiply int8 by int8.

    sum(x * w)   -->   sum((x + 128) * w) - 128 * sum(w)        int8 x, as uint8
                       sum((x - 128) * w) + 128 * sum(w)        uint8 x, as int8

Both sums are integers, so the results are the same. The last sum is constant, like the weights.
"""

from __future__ import annotations

import numpy as np

from tilewright.ir.transform import Pass
from tilewright.relay.cards.card import constructor
from tilewright.relay.expr import Call, Expr, const
from tilewright.relay.op.convolution import conv
from tilewright.relay.op.convolution.windows import pads
from tilewright.relay.op.layers import products
from tilewright.relay.rewriting import (
    card_of,
    constant_of,
    is_op,
    rewrite_calls,
    tensor_of,
    typed,
    typed_pass,
)
from tilewright.relay.transform.operators.byte_groups import in_whole_groups
from tilewright.scheduling.instructions import dot_product
from tilewright.target import Target

SHIFTS = {"int8": np.uint8(128), "uint8": np.int8(-128)}
"""Type of data -> the offset to add after conversion to the other type, with wrap-around."""


def shifted(x: Expr) -> Expr:
    """int8 x as uint8 x + 128; uint8 x as int8 x - 128."""
    shift = SHIFTS[str(tensor_of(x).dtype)]
    return typed(constructor("add")(typed(constructor("cast")(x, shift.dtype.name)), const(shift)))


def wants_other_sign(call: Call) -> bool:
    """Whether the target has no instruction for a product with constant int8 weights, but one for data of the other signedness."""
    target = Target.current(True)
    data, weight = [str(tensor_of(a).dtype) for a in call.args]
    result = str(tensor_of(call).dtype)
    return (
        weight == "int8"
        and data in SHIFTS
        and constant_of(call.args[1]) is not None
        and dot_product(target, data, "int8", result) is None
        and dot_product(target, SHIFTS[data].dtype.name, "int8", result) is not None
    )


def products_of_bytes(call: Call) -> Expr | None:
    """The shifted form of a product of bytes by constant int8 weights; or x - a - b as x - (a + b) for constants."""
    if is_op(call, "nn.dense", "nn.matmul") and wants_other_sign(call):
        return dense(call)
    if is_op(call, "nn.conv2d"):
        shifts = wants_other_sign(call)
        data = str(tensor_of(call.args[0]).dtype)
        settled = (lambda made: conv2d(made) or made) if shifts else (lambda made: made)
        whole = in_whole_groups(call, SHIFTS[data].dtype.name if shifts else data, settled)
        return whole or (conv2d(call) if shifts else None)
    return joined(call) if is_op(call, "subtract") else None


def dense(call: Call) -> Expr | None:
    """The shifted form of a dense layer, or of a matmul by a constant."""
    card, weight = card_of(call), constant_of(call.args[1])
    if getattr(card, "transpose_a", False) or weight is None or weight.ndim != 2:
        return None
    along = 1 if is_op(call, "nn.dense") or card_of(call, products.matmul).transpose_b else 0
    product = typed(Call(call.op, (shifted(call.args[0]), call.args[1]), card, (), call.span))
    return less(call, product, weight.sum(along, dtype=np.int32))


def conv2d(call: Call) -> Expr | None:
    """The shifted form of a convolution. The value of its padding is shifted, too."""
    card, weight = card_of(call, conv.conv2d), constant_of(call.args[1])
    plain = (card.data_layout, card.kernel_layout, card.out_layout or card.data_layout) == ("NCHW", "OIHW", "NCHW")
    if weight is None or not plain or (card.groups > 1 and weight.shape[1] % 4):
        return None
    data = shifted(call.args[0])
    before, after = pads(card.padding)
    if any((*before, *after)):
        width = [(0, 0), (0, 0), *zip(before, after, strict=True)]
        data = typed(constructor("nn.pad")(data, width, const(SHIFTS[str(tensor_of(call.args[0]).dtype)])))
    product = typed(Call(call.op, (data, call.args[1]), card.replace(padding=(0, 0)), (), call.span))
    return less(call, product, weight.sum((1, 2, 3), dtype=np.int32).reshape(-1, 1, 1))


def less(call: Call, product: Expr, sums: np.ndarray) -> Expr:
    """The product of shifted data, minus the contribution of the shift."""
    shift = np.int32(SHIFTS[str(tensor_of(call.args[0]).dtype)])
    return constructor("subtract")(product, const(sums * shift))


def joined(call: Call) -> Expr | None:
    """x - a - b as x - (a + b), for constants of int32."""
    inner, second = call.args[0], constant_of(call.args[1])
    if second is None or second.dtype != np.int32 or not isinstance(inner, Call) or not is_op(inner, "subtract"):
        return None
    first = constant_of(inner.args[1])
    if first is None or first.dtype != np.int32:
        return None
    return constructor("subtract")(inner.args[0], const(first + second))


def ProductsOfBytes() -> Pass:
    """Shift int8 or uint8 data by 128 in products by constant int8 weights, on targets that multiply only data of the
    other signedness by int8. The effect of the shift is subtracted from the sums.
    """
    return typed_pass("ProductsOfBytes", 0, lambda f, mod: rewrite_calls(f, products_of_bytes))
