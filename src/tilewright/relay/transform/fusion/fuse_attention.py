"""FuseAttention: fuses the product of queries and keys, its softmax and the product with values, where scores are better never in memory.

    batch_matmul(softmax(batch_matmul(q, k) * scale + mask), v)   -->   nn.contrib_attention(q, k, v, mask, scale)

Scale and mask are optional; where(isnan(p), 0, p) around the softmax p is included, and so are casts of 16-bit floats to the type of the
softmax and back. where(hidden, 0, p), by a condition on whole rows, is left to the results: where(hidden, 0, nn.contrib_attention(..)),
which is 0 where a value is NaN, while the product of that value and a weight of 0 is NaN. A constant mask, added or by
where(seen, scores, low), that hides the keys after each query becomes causal=True. Keys and values that are repeated for groups of heads
are read as they are before.
"""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from typing import NamedTuple, TypeGuard

import numpy as np

from tilewright.ir.span import BaseSpan
from tilewright.ir.transform import Pass
from tilewright.relay.cards.card import constructor
from tilewright.relay.expr import Call, Constant, Expr, Function, const
from tilewright.relay.functor import rewrite, users
from tilewright.relay.op.layers import normalisation, products
from tilewright.relay.rewriting import (
    card_of,
    is_op,
    scalar_of,
    static_shape,
    tensor_of,
    typed,
    typed_pass,
)
from tilewright.scheduling.graph_forms import AttentionProblem
from tilewright.scheduling.graph_plan import graph_plan

HIDDEN = -1e4
"""What scores are at most that no weight comes of: of constant masks."""
NARROW = ("float16", "bfloat16")


class _Rows(NamedTuple):
    """A condition on rows, and whether it holds for rows that have weights, not for those that have none."""

    condition: Expr
    shown: bool

    def applied(self, results: Expr, span: BaseSpan | None) -> Expr:
        """The results, with zeros in rows without weights."""
        zero = typed(const(0, str(tensor_of(results).dtype)))
        ways = (results, zero) if self.shown else (zero, results)
        return typed(constructor("where")(self.condition, *ways, span=span))


class _Attention(NamedTuple):
    """The parts of an attention. product: of queries and keys. zero_rows: whether rows of NaN give 0. rows: which rows have weights, if a
    condition says so. past: the keys before the first query, if it is causal. group: heads of queries for each of keys; key and value
    are those before they are repeated."""

    product: Call
    key: Expr
    value: Expr
    mask: Expr | None
    scale: float
    zero_rows: bool
    rows: _Rows | None
    past: int | None
    group: int
    out_dtype: str

    def call(self, span: BaseSpan | None) -> Expr:
        """The one operator."""
        query = self.product.args[0]
        operands = [query, self.key, self.value, *([self.mask] if self.mask is not None else [])]
        transposed = card_of(self.product, products.batch_matmul).transpose_b
        extra: dict[str, bool | int | str | None] = {"causal": True, "past": self.past} if self.past is not None else {}
        if self.out_dtype != str(tensor_of(query).dtype):
            extra["out_dtype"] = self.out_dtype
        made = typed(
            constructor("nn.contrib_attention")(
                *operands, scale=self.scale, transpose_key=transposed, zero_rows=self.zero_rows, span=span, **extra
            )
        )
        return made if self.rows is None else self.rows.applied(made, span)

    @property
    def problem(self) -> AttentionProblem:
        *heads, queries, keys = static_shape(self.product) or ()
        depth, width = [(static_shape(e) or (0,))[-1] for e in (self.product.args[0], self.value)]
        plain = self.past is None and self.group == 1
        return AttentionProblem(prod(heads), queries, keys, depth, width, str(tensor_of(self.value).dtype), plain)


Reads = Callable[[Expr], int]
"""The number of readers of an expression."""


def _product(e: Expr) -> TypeGuard[Call]:
    """Whether an expression is a product of matrices of equal batch and type, with the first one not transposed: of float32, or of 16-bit
    floats."""
    if not is_op(e, "nn.batch_matmul"):
        return False
    left, right = [static_shape(a) for a in e.args]
    same = left is not None and right is not None and left[:-2] == right[:-2]
    types = [str(tensor_of(x).dtype) for x in (*e.args, e)]
    fits = types[0] == types[1] and (types[0] in NARROW or types[0] == "float32") and types[2] in ("float32", types[0])
    return not card_of(e, products.batch_matmul).transpose_a and same and fits


def _uncast(e: Expr, reads: Reads) -> Expr | None:
    """What a cast between 16-bit floats and float32 is of; the expression itself where it is none. None if something else reads that."""
    if not is_op(e, "cast"):
        return e
    (inner,) = e.args
    types = {str(tensor_of(x).dtype) for x in (e, inner)}
    return inner if reads(inner) == 1 and types <= {"float32", *NARROW} else None


def match(e: Expr, reads: Reads) -> _Attention | None:
    """The attention with the last product `e`, if no other expression reads its intermediate values; else None."""
    if not _product(e) or card_of(e, products.batch_matmul).transpose_b:
        return None
    weights, value = e.args
    if reads(weights) != 1:
        return None
    if str(tensor_of(weights).dtype) in NARROW:
        found = _uncast(weights, reads)
        if found is None:
            return None
        weights = found
    rows, weights = _of_rows(weights, reads)
    without = _without_nan(weights, reads)
    zero_rows, softmax = without is not None, without if without is not None else weights
    if not is_op(softmax, "nn.softmax"):
        return None
    shape = static_shape(softmax)
    if shape is None or card_of(softmax, normalisation.softmax).axis not in (-1, len(shape) - 1):
        return None
    scores = softmax.args[0]
    mask: Expr | None = None
    past: int | None = None
    scale = 1.0
    while not _product(scores):
        if reads(scores) != 1:
            return None
        free = mask is None and past is None and scale == 1.0
        if is_op(scores, "add") and free:
            a, b = scores.args
            scores, mask = (b, a) if _scored(b) or not _scored(a) else (a, b)
        elif is_op(scores, "where") and free:
            seen, inner, low = scores.args
            hidden = scalar_of(low)
            if not isinstance(seen, Constant) or hidden is None or float(hidden) > HIDDEN:
                return None
            shown = np.asarray(seen.value)
            if not shown.any(-1).all():
                return None  # a row without keys has equal weights, not none
            added = np.where(shown, 0.0, -np.inf).astype("float32")
            scores, mask = inner, typed(const(added))
        elif is_op(scores, "multiply", "divide") and (by := _factor(scores)) is not None:
            scale *= by
            scores = scores.args[0]
        elif is_op(scores, "cast") and (wide := _uncast(scores, reads)) is not None:
            scores = wide
        else:
            return None
        if static_shape(scores) != shape:
            return None
    if reads(scores) != 1 or tensor_of(scores.args[0]).dtype != tensor_of(value).dtype:
        return None
    if mask is not None and (past := _past(mask, shape)) is not None:
        mask = None
    (key, of_keys), (value, of_values) = [_before_repeated(x) for x in (scores.args[1], value)]
    if of_keys != of_values:
        key, value, of_keys = scores.args[1], e.args[1], 1
    return _Attention(scores, key, value, mask, scale, zero_rows, rows, past, of_keys, str(tensor_of(e).dtype))


def _past(mask: Expr, shape: tuple[int, ...]) -> int | None:
    """The number of keys before the first query, if a mask that is added only hides the keys after each query."""
    if not isinstance(mask, Constant):
        return None
    values = np.asarray(mask.value)
    n, m = shape[-2:]
    if values.shape[-2:] != (n, m) or prod(values.shape) != n * m:
        return None
    seen = values.reshape(n, m) == 0
    past = int(seen[0].sum()) - 1
    if past < 0 or not (seen == np.tri(n, m, past, dtype=bool)).all() or (values.reshape(n, m)[~seen] > HIDDEN).any():
        return None
    return past


def _before_repeated(e: Expr) -> tuple[Expr, int]:
    """Matrices before each of them was repeated for several heads, and how often; the matrices themselves and 1 where none was."""
    shape = static_shape(e)
    repeated = e.args[0] if is_op(e, "reshape") else e
    if not is_op(repeated, "repeat"):
        return e, 1
    before, whole = static_shape(repeated.args[0]), static_shape(repeated)
    if before is None or whole is None or shape is None or len(before) < 3 or shape[-2:] != before[-2:]:
        return e, 1
    grown = [i for i in range(len(before)) if before[i] != whole[i]]
    if grown != [len(before) - 3] or before[-3] == 0:
        return e, 1
    group = whole[-3] // before[-3]
    (inner,) = repeated.args
    lead = shape[:-3], shape[-3]
    if whole == shape:
        return inner, group
    if prod(lead[0]) * lead[1] != prod(whole[:-2]) or lead[1] % whole[-3]:
        return e, 1
    kept = (*lead[0], lead[1] // group, *shape[-2:])
    return typed(constructor("reshape")(inner, newshape=kept)), group


def _factor(e: Call) -> float | None:
    """The factor of a multiplication or division by one number; None for others, and for a division by zero."""
    number = scalar_of(e.args[1])
    if is_op(e, "divide"):
        return 1 / float(number) if number else None
    return None if number is None else float(number)


def _scored(e: Expr) -> bool:
    """Whether an expression may be scores, scaled or not."""
    while is_op(e, "multiply", "divide", "cast"):
        e = e.args[0]
    return _product(e)


def _of_rows(e: Expr, reads: Reads) -> tuple[_Rows | None, Expr]:
    """(c, p) of where(c, 0, p) and where(c, p, 0), where the condition c is one for all weights of a row; else (None, e)."""
    if not is_op(e, "where"):
        return None, e
    condition, *ways = e.args
    whole = static_shape(condition)
    for shown, (weights, other) in ((True, ways), (False, ways[::-1])):
        if scalar_of(other) == 0 and reads(weights) == 1 and static_shape(weights) == static_shape(e):
            if whole is not None and (not whole or whole[-1] == 1):
                return _Rows(condition, shown), weights
    return None, e


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
    found: dict[Expr, _Attention] = {}
    for e in used:
        made = match(e, lambda x: len(used.get(x, ())))
        if made is not None and plan.forms.attention_in_blocks(made.problem):
            found[e] = made

    def change(old: Expr, new: Expr) -> Expr | None:
        if old not in found:
            return None
        assert isinstance(new, Call)
        twice = found[old].zero_rows
        again = match(new, lambda x: 2 if twice and is_op(x, "nn.softmax") else 1)
        assert again is not None
        return again.call(new.span)

    return rewrite(func, change) if found else func


def FuseAttention() -> Pass:
    """Make attention one operator, if the plan prefers that. The scores are then never stored as a whole."""
    return typed_pass("FuseAttention", 3, lambda f, mod: fuse_attention(f))
