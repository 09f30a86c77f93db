"""ProductsOfPairs: convolutions and dense layers of int8 by constants, for processors that multiply pairs of 16-bit numbers in general
registers (Arm's DSP extension), or add products of vectors of bytes to one (Helium): weights are packed, and padding becomes a part of the
convolution, which reads it instead of a copy.

    conv2d(pad(x), w)   -->   contrib_conv2d_pairs(x, packed w)         channels last, one group
    the same, depthwise -->   contrib_depthwise_conv2d_pairs(x, packed w)
    dense(x, w)         -->   contrib_dense_pairs(x, packed w)
    y - a + b           -->   y + (b - a)                               for constants a, b of int32
"""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from tilewright.ir import IRModule, Op
from tilewright.ir.transform import Pass
from tilewright.relay.cards.card import constructor
from tilewright.relay.expr import Call, Expr, Function, const
from tilewright.relay.op.arithmetic.numbers import high_product
from tilewright.relay.op.convolution import conv
from tilewright.relay.op.convolution.windows import pads
from tilewright.relay.op.layers.padding import pad as pad_card
from tilewright.relay.rewriting import card_of, constant_of, is_op, rewrite_calls, static_shape, tensor_of, typed_pass
from tilewright.scheduling.pairs import conv2d_packing, dense_packing, group_of
from tilewright.target import Target
from tilewright.topi.nn.paired_conv import GROUP, paired_weights

BYTES = ("int8", "int8", "int32")
PRODUCTS = ("nn.contrib_conv2d_pairs", "nn.contrib_dense_pairs", "nn.contrib_depthwise_conv2d_pairs")


def products_of_pairs(twice: dict[Expr, Expr], call: Call) -> Expr | None:
    """The packed form of a product of bytes by constants; None for other calls, and on other targets. twice: what was doubled, so that
    both parts of a rounded product read the same."""
    group = group_of(Target.current(True))
    if not group:
        return None
    if is_op(call, "nn.conv2d"):
        return _conv2d(call, group)
    if is_op(call, "nn.dense"):
        return _dense(call, group)
    if is_op(call, "high_product"):
        return _doubled(call, twice)
    if is_op(call, "bitwise_and"):
        return _lost_bit(call, twice)
    return (_joined(call) or _rounded(call)) if is_op(call, "add") else None


def _is_bytes(call: Call) -> bool:
    known = all([static_shape(e) is not None for e in (*call.args, call)])
    return known and tuple([str(tensor_of(e).dtype) for e in (*call.args, call)]) == BYTES


def _conv2d(call: Call, group: int) -> Expr | None:
    card, weight = card_of(call, conv.conv2d), constant_of(call.args[1])
    layouts = (card.data_layout, card.kernel_layout, card.out_layout or card.data_layout)
    depthwise = card.groups > 1
    if weight is None or layouts != ("NHWC", "HWIO", "NHWC") or not _is_bytes(call) or set(card.dilation) != {1}:
        return None
    if depthwise and (group != GROUP or card.groups % GROUP or weight.shape[2:] != (1, card.groups)):
        return None
    (top, left), (bottom, right) = pads(card.padding)
    data, fill = call.args[0], 0
    found = _padding_before(data)
    if found is not None and (not any((top, left, bottom, right)) or found[2] == 0):
        data, more, fill = found
        top, left, bottom, right = [a + b for a, b in zip((top, left, bottom, right), more, strict=True)]
    shape, result = static_shape(data), static_shape(call)
    assert shape is not None and result is not None
    if 0 in (*shape, *result):
        return None
    window: dict[str, Any] = {"strides": tuple(card.strides), "padding": (top, left, bottom, right), "fill": fill}
    if depthwise:
        groups = weight.reshape(*weight.shape[:2], -1, GROUP).transpose(2, 0, 1, 3)
        make = constructor("nn.contrib_depthwise_conv2d_pairs")
        return make(data, const(np.ascontiguousarray(groups)), **window, span=call.span)
    channels, kernel_width = shape[3], weight.shape[1]
    filters, runs = conv2d_packing(channels, kernel_width, result[2], result[3], group)
    packed = const(paired_weights(weight, filters, runs, group))
    make = constructor("nn.contrib_conv2d_pairs")
    return make(data, packed, **window, kernel_width=kernel_width if runs else 0, span=call.span)


def _padding_before(data: Expr) -> tuple[Expr, tuple[int, int, int, int], int] | None:
    """(what is padded, (top, left, bottom, right), value) of a constant padding of images; None for other expressions."""
    if not isinstance(data, Call) or not is_op(data, "nn.pad"):
        return None
    card, value = card_of(data, pad_card), constant_of(data.args[1])
    widths = [tuple([int(n) for n in pair]) for pair in card.pad_width]
    if card.pad_mode != "constant" or value is None or value.size != 1 or len(widths) != 4:
        return None
    if any(widths[0]) or any(widths[3]) or min(*widths[1], *widths[2]) < 0:
        return None
    (top, bottom), (left, right) = widths[1:3]
    return data.args[0], (top, left, bottom, right), int(value.reshape(()))


def _dense(call: Call, group: int) -> Expr | None:
    weight, shape = constant_of(call.args[1]), static_shape(call.args[0])
    if weight is None or shape is None or len(shape) != 2 or not _is_bytes(call) or 0 in (*shape, *weight.shape):
        return None
    filters = dense_packing(shape[0], shape[1], weight.shape[0], group)
    packed = paired_weights(weight.T[None, None], filters, False, group)
    return constructor("nn.contrib_dense_pairs")(call.args[0], const(packed[:, 0, :, 0]), span=call.span)


def _joined(call: Call) -> Expr | None:
    """y - a + b as y + (b - a)."""
    inner, second = call.args[0], constant_of(call.args[1])
    if second is None or second.dtype != np.int32 or not isinstance(inner, Call) or not is_op(inner, "subtract", "add"):
        return None
    first = constant_of(inner.args[1])
    if first is None or first.dtype != np.int32:
        return None
    with np.errstate(over="ignore"):
        total = second + first if is_op(inner, "add") else second - first
    return constructor("add")(inner.args[0], const(np.asarray(total, np.int32)), span=call.span)


def _doubled(call: Call, twice: dict[Expr, Expr]) -> Expr | None:
    """round(y * q / 2**31) as round(2 * y * q / 2**32), for numbers y too small to overflow."""
    y, factors = call.args
    if card_of(call, high_product).places != 31:
        return None
    largest = _bound(y)
    if largest is None or largest >= 1 << 30:
        return None
    return constructor("high_product")(_twice(y, twice), factors, places=32, span=call.span)


def _lost_bit(call: Call, twice: dict[Expr, Expr]) -> Expr | None:
    """((y * q) >> 30) & 1 of uint32 as (2 * y * q) >> 31, for numbers y too small to overflow: `_doubled` computes 2 * y, too."""
    moved, one = call.args
    if not _is_one(one) or not isinstance(moved, Call) or not is_op(moved, "right_shift"):
        return None
    product, places = moved.args[0], constant_of(moved.args[1])
    if places is None or places.dtype != np.uint32 or places.size != 1 or int(places.reshape(())) != 30:
        return None
    if not isinstance(product, Call) or not is_op(product, "multiply"):
        return None
    y = product.args[0]
    if not isinstance(y, Call) or not is_op(y, "cast") or str(tensor_of(y.args[0]).dtype) != "int32":
        return None
    largest = _bound(y.args[0])
    if largest is None or largest >= 1 << 30:
        return None
    doubled = constructor("cast")(_twice(y.args[0], twice), dtype="uint32")
    return constructor("right_shift")(constructor("multiply")(doubled, product.args[1]), const(np.uint32(31)))


def _twice(y: Expr, known: dict[Expr, Expr]) -> Expr:
    """2 * y, where the constant of a sum or of a shift takes the factor. known: what was doubled before, and is again."""
    if y not in known:
        known[y] = _times_two(y, known)
    return known[y]


def _times_two(y: Expr, known: dict[Expr, Expr]) -> Expr:
    number = constant_of(y.args[1]) if isinstance(y, Call) and len(y.args) == 2 else None
    if isinstance(y, Call) and number is not None and number.dtype == np.int32:
        if is_op(y, "left_shift"):
            return constructor("left_shift")(y.args[0], const(np.asarray(number + 1, np.int32)))
        if is_op(y, "add"):
            return constructor("add")(_twice(y.args[0], known), const(np.asarray(2 * number, np.int32)))
    return constructor("left_shift")(y, const(np.int32(1)))


def _bound(e: Expr) -> int | None:
    """A number that no element of an int32 expression exceeds in magnitude; None if none is known."""
    value = constant_of(e)
    if value is not None:
        return int(np.abs(value.astype(np.int64)).max(initial=0))
    if not isinstance(e, Call) or not isinstance(e.op, Op):
        return None
    if is_op(e, *PRODUCTS):
        packed = constant_of(e.args[1])
        if packed is None:
            return None
        # Each filter has as many terms as its panel has bytes, by the filters of the panel; a channel has those of its window.
        terms = packed.size // packed.shape[0] // (1 if is_op(e, PRODUCTS[2]) else packed.shape[-2])
        return int(terms) * 128 * 128
    if is_op(e, "cast"):
        return {"int8": 128, "uint8": 255}.get(str(tensor_of(e.args[0]).dtype))
    if not is_op(e, "add", "subtract", "left_shift", "right_shift", "high_product"):
        return None
    left, right = _bound(e.args[0]), _bound(e.args[1])
    if left is None or (right is None and not is_op(e, "high_product")):
        return None
    if is_op(e, "high_product"):
        return left // (card_of(e, high_product).places - 30) + 1
    assert right is not None
    if is_op(e, "left_shift"):
        return left << min(right, 32)
    return left + right if is_op(e, "add", "subtract") else left + 1


def _rounded(call: Call) -> Expr | None:
    """((y + 1) >> 1) + z as (y + (1 + 2 * z)) >> 1, where y + (1 + 2 * z) has 32 bits: what `high_product` of 32 places gives has 31, also
    shifted to the right, and constants added to it are bounded."""
    halved, zero = call.args[0], constant_of(call.args[1])
    if zero is None or zero.size != 1 or zero.dtype != np.int32 or not isinstance(halved, Call):
        return None
    if not is_op(halved, "right_shift") or not _is_one(halved.args[1]) or abs(int(zero.reshape(()))) > 256:
        return None
    inner = halved.args[0]
    if not isinstance(inner, Call) or not is_op(inner, "add") or not _is_one(inner.args[1]):
        return None
    most = _most(inner.args[0])
    if most is None or most + 1 + 2 * abs(int(zero.reshape(()))) >= 1 << 31:
        return None
    # Read from memory: of a known number, simplification would take the even part out of the shift again.
    moved = constructor("add")(inner.args[0], const(np.asarray(1 + 2 * zero, np.int32).reshape(1)))
    return constructor("right_shift")(moved, halved.args[1], span=call.span)


def _most(e: Expr) -> int | None:
    """A bound of the absolute values of high products of 32 places, of int32 that is shifted to the right, and of sums of these and
    constants; None for others."""
    value = constant_of(e)
    if value is not None:
        return int(np.abs(value.astype(np.int64)).max(initial=0))
    if not isinstance(e, Call):
        return None
    if is_op(e, "high_product"):
        return 1 << 30 if card_of(e, high_product).places == 32 else None
    if is_op(e, "right_shift"):
        places, moved = constant_of(e.args[1]), _most(e.args[0])
        least = max(int(places.min(initial=31)), 0) if places is not None else 0
        return moved if moved is None and least == 0 else ((1 << 31 if moved is None else moved) >> least) + 1
    bounds = [_most(a) for a in e.args[:2]] if is_op(e, "add") else [None]
    known = [b for b in bounds if b is not None]
    return sum(known) if len(known) == len(bounds) else None


def _is_one(e: Expr) -> bool:
    value = constant_of(e)
    return value is not None and value.size == 1 and int(value.reshape(())) == 1


def ProductsOfPairs() -> Pass:
    """Pack the weights of convolutions and dense layers on int8 for products of pairs of 16-bit numbers, on processors with Arm's DSP
    extension and without vectors, or of vectors of 16 bytes, on those with Helium (without depthwise convolutions). Constants that are
    added to their sums become one.
    """

    def run(func: Function, mod: IRModule) -> Function:
        return rewrite_calls(func, partial(products_of_pairs, {}))

    return typed_pass("ProductsOfPairs", 2, run, (), ("packed_weights",))


__all__ = ["BYTES", "PRODUCTS", "ProductsOfPairs"]
