"""FuseAttention: fuses the product of queries and keys, its softmax and the product with values, if the scores would fill the caches.

    batch_matmul(softmax(batch_matmul(q, k) * scale + mask), v)   -->   nn.contrib_attention(q, k, v, mask, scale)

Scale and mask are optional; where(isnan(p), 0, p) around the softmax p is included.
"""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from typing import NamedTuple, TypeGuard

from tilewright.ir.span import BaseSpan
from tilewright.ir.transform import Pass
from tilewright.relay.cards.card import constructor
from tilewright.relay.expr import Call, Expr, Function
from tilewright.relay.functor import rewrite, users
from tilewright.relay.op.layers import neural
from tilewright.relay.rewriting import (
    card_of,
    is_op,
    scalar_of,
    static_shape,
    tensor_of,
    typed,
    typed_pass,
)
from tilewright.scheduling.graph_plan import graph_plan


class _Attention(NamedTuple):
    """The parts of an attention."""

    product: Call
    value: Expr
    mask: Expr | None
    scale: float
    zero_rows: bool

    def call(self, span: BaseSpan | None) -> Expr:
        """The one operator."""
        query, key = self.product.args
        operands = [query, key, self.value, *([self.mask] if self.mask is not None else [])]
        transposed = card_of(self.product, neural.batch_matmul).transpose_b
        return typed(
            constructor("nn.contrib_attention")(
                *operands, scale=self.scale, transpose_key=transposed, zero_rows=self.zero_rows, span=span
            )
        )


Reads = Callable[[Expr], int]
"""The number of readers of an expression."""


def _product(e: Expr) -> TypeGuard[Call]:
    """Whether an expression is a product of float32 matrices of equal batch, with the first one not transposed."""
    if not is_op(e, "nn.batch_matmul"):
        return False
    left, right = [static_shape(a) for a in e.args]
    plain = not card_of(e, neural.batch_matmul).transpose_a and str(tensor_of(e).dtype) == "float32"
    same = left is not None and right is not None and left[:-2] == right[:-2]
    return plain and same and all([str(tensor_of(a).dtype) == "float32" for a in e.args])


def match(e: Expr, reads: Reads) -> _Attention | None:
    """The attention with the last product `e`, if no other expression reads its intermediate values; else None."""
    if not _product(e) or card_of(e, neural.batch_matmul).transpose_b:
        return None
    weights, value = e.args
    if reads(weights) != 1:
        return None
    without = _without_nan(weights, reads)
    zero_rows, softmax = without is not None, without if without is not None else weights
    if not is_op(softmax, "nn.softmax"):
        return None
    shape = static_shape(softmax)
    if shape is None or card_of(softmax, neural.softmax).axis not in (-1, len(shape) - 1):
        return None
    scores = softmax.args[0]
    mask: Expr | None = None
    scale = 1.0
    while not _product(scores):
        if reads(scores) != 1:
            return None
        if is_op(scores, "add") and mask is None and scale == 1.0:
            a, b = scores.args
            scores, mask = (b, a) if _scored(b) or not _scored(a) else (a, b)
        elif is_op(scores, "multiply", "divide") and (by := _factor(scores)) is not None:
            scale *= by
            scores = scores.args[0]
        else:
            return None
        if static_shape(scores) != shape:
            return None
    return _Attention(scores, value, mask, scale, zero_rows) if reads(scores) == 1 else None


def _factor(e: Call) -> float | None:
    """The factor of a multiplication or division by one number; None for others, and for a division by zero."""
    number = scalar_of(e.args[1])
    if is_op(e, "divide"):
        return 1 / float(number) if number else None
    return None if number is None else float(number)


def _scored(e: Expr) -> bool:
    """Whether an expression may be scores, scaled or not."""
    while is_op(e, "multiply", "divide"):
        e = e.args[0]
    return _product(e)


def _without_nan(e: Expr, reads: Reads) -> Expr | None:
    """p of where(isnan(p), 0, p)."""
    if not is_op(e, "where"):
        return None
    condition, zero, p = e.args
    same = is_op(condition, "isnan") and condition.args[0] is p and reads(p) == 2 and reads(condition) == 1
    return p if same and scalar_of(zero) == 0 and is_op(p, "nn.softmax") else None


def fuse_attention(func: Function) -> Function:
    """The function with attentions fused."""
    plan = graph_plan()
    if plan is None:
        return func
    used = users([func])
    found = set()
    for e in used:
        made = match(e, lambda x: len(used.get(x, ())))
        if made is not None:
            *heads, queries, keys = static_shape(made.product) or ()
            if plan.forms.attention_in_blocks(prod(heads), queries, keys):
                found.add(e)

    def change(old: Expr, new: Expr) -> Expr | None:
        if old not in found:
            return None
        assert isinstance(new, Call)
        weights = new.args[0]
        again = match(new, lambda x: 2 if is_op(x, "nn.softmax") and weights is not x else 1)
        assert again is not None
        return again.call(new.span)

    return rewrite(func, change) if found else func


def FuseAttention() -> Pass:
    """Make attention one operator where its scores would fill the caches. The scores are then never stored as a whole."""
    return typed_pass("FuseAttention", 3, lambda f, mod: fuse_attention(f))
