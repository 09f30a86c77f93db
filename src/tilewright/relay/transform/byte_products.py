"""ProductsOfBytes: convolutions and dense layers of int8 data as processors multiply bytes, one of them without a sign.

    sum(x * w)   -->   sum((x + 128) * w) - 128 * sum(w)

Both sums are of whole numbers, so that the results are the same; the last one is a constant, as weights are.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tilewright.ir.transform import Pass
from tilewright.relay.expr import Call, Expr, const
from tilewright.relay.op.card import constructor
from tilewright.relay.op.conv import pads
from tilewright.relay.transform.rewriting import (
    card_of,
    constant_of,
    is_op,
    rewrite_calls,
    tensor_of,
    typed,
    typed_pass,
)
from tilewright.target import Target
from tilewright.topi.schedule.dot_products import dot_product

SHIFT = 128


def shifted(x: Expr) -> Expr:
    """int8 x as uint8 x + 128."""
    return typed(constructor("add")(typed(constructor("cast")(x, "uint8")), const(SHIFT, "uint8")))


def wants_unsigned(call: Call) -> bool:
    """Whether the target multiplies uint8 by int8, but not the int8 by int8 of a product with constant weights."""
    target = Target.current(True)
    types = [str(tensor_of(a).dtype) for a in call.args]
    result = str(tensor_of(call).dtype)
    return (
        types == ["int8", "int8"]
        and constant_of(call.args[1]) is not None
        and dot_product(target, "int8", "int8", result) is None
        and dot_product(target, "uint8", "int8", result) is not None
    )


def products_of_bytes(call: Call) -> Expr | None:
    """One product of int8 by constant int8, or the difference to two constants as that to their sum."""
    if is_op(call, "nn.dense", "nn.matmul") and wants_unsigned(call):
        return dense(call)
    if is_op(call, "nn.conv2d") and wants_unsigned(call):
        return conv2d(call)
    return joined(call) if is_op(call, "subtract") else None


def dense(call: Call) -> Expr | None:
    """A dense layer, or a matmul by a constant."""
    card: Any = card_of(call)
    weight: Any = constant_of(call.args[1])
    if getattr(card, "transpose_a", False) or weight.ndim != 2:
        return None
    along = 1 if is_op(call, "nn.dense") or card.transpose_b else 0
    product = typed(Call(call.op, (shifted(call.args[0]), call.args[1]), card, (), call.span))
    return minus(product, weight.sum(along, dtype=np.int32))


def conv2d(call: Call) -> Expr | None:
    """A convolution of channels that are added up; what its border stands for is shifted too."""
    card: Any = card_of(call)
    weight: Any = constant_of(call.args[1])
    plain = (card.data_layout, card.kernel_layout, card.out_layout or card.data_layout) == ("NCHW", "OIHW", "NCHW")
    if not plain or (card.groups > 1 and weight.shape[1] % 4):
        return None
    data = shifted(call.args[0])
    before, after = pads(card.padding)
    if any((*before, *after)):
        width = [(0, 0), (0, 0), *zip(before, after, strict=True)]
        data = typed(constructor("nn.pad")(data, width, const(SHIFT, "uint8")))
    product = typed(Call(call.op, (data, call.args[1]), card.replace(padding=(0, 0)), (), call.span))
    return minus(product, weight.sum((1, 2, 3), dtype=np.int32).reshape(-1, 1, 1))


def minus(product: Expr, sums: np.ndarray) -> Expr:
    """What shifted data gives, less what the shift adds to it."""
    return constructor("subtract")(product, const(sums * np.int32(SHIFT)))  # type: ignore[no-any-return]


def joined(call: Call) -> Expr | None:
    """x - a - b as x - (a + b), for constants of int32."""
    inner, second = call.args[0], constant_of(call.args[1])
    if second is None or second.dtype != np.int32 or not isinstance(inner, Call) or not is_op(inner, "subtract"):
        return None
    first = constant_of(inner.args[1])
    if first is None or first.dtype != np.int32:
        return None
    return constructor("subtract")(inner.args[0], const(first + second))  # type: ignore[no-any-return]


def ProductsOfBytes() -> Pass:
    """Products of int8 data by constant weights on targets that multiply uint8 by int8: the data shifted, and what the shift adds
    taken off the sums."""
    return typed_pass("ProductsOfBytes", 0, lambda f, mod: rewrite_calls(f, products_of_bytes))
