"""einsum, and its conversion to batches of matrix products."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tilewright import te, topi
from tilewright.ir import TupleType, Type
from tilewright.ir.span import BaseSpan
from tilewright.relay.cards.card import OUT_ELEMWISE, Made, OpCard, Operand, TypeRuleError, need
from tilewright.relay.cards.relations import (
    Dim,
    dims,
    is_any,
    known_equal,
    may_equal,
    product,
    same_dtype,
    tensor,
    tensor_type,
)
from tilewright.relay.expr import Expr, Tuple
from tilewright.relay.op.adjoint import op, summed_like
from tilewright.relay.op.movement.reshaping import tuple_fields
from tilewright.topi.einsum import extents, parse


class einsum(OpCard, key="einsum"):
    """Sums of products of the tensors of a tuple; `equation` as in NumPy. Subscripts that the result lacks are summed over."""

    equation: str
    fuse = OUT_ELEMWISE
    samples = [
        (([(2, 3), (3, 4)],), {"equation": "ij,jk->ik"}),
        (([(2, 5, 3), (2, 3, 4), (4,)],), {"equation": "bij,bjk,k"}),
        (([(5, 2, 3), (3, 4)],), {"equation": "...ij,...jk->...ik"}),
        (([(2, 3)],), {"equation": "ij->ji"}),
        (([(2, 3)],), {"equation": "ij->"}),
    ]

    @classmethod
    def make(cls, data: Operand, equation: str, span: BaseSpan | None = None) -> Made:
        """data: a sequence of tensors, or a tuple."""
        return cls.call([data], {"equation": equation}, span)

    def infer(self, data: TupleType) -> Type:
        fields = tuple_fields(data)
        dtype = same_dtype(*fields)
        shapes = [dims(f) for f in fields]
        try:
            terms, result = parse(self.equation, [len(s) for s in shapes])
            sizes = extents(terms, shapes)
        except ValueError as error:
            raise TypeRuleError("the equation must fit the operands", str(error), 0) from None
        for term, shape in zip(terms, shapes, strict=True):
            for c, d in zip(term, shape, strict=True):
                if not isinstance(d, int) or d != 1:
                    may_equal(sizes[c], d)
        return tensor_type(tuple([sizes[c] for c in result]), dtype)

    def compute(self, data: Sequence[te.Tensor]) -> te.Tensor:
        return topi.einsum(self.equation, *data)

    def ref(self, data: Sequence[np.ndarray]) -> np.ndarray:
        return np.asarray(np.einsum(self.equation, *data))

    def simplify(self, data: Expr) -> Expr | None:
        """Multiplies two operands at a time by batch_matmul, which has a good schedule."""
        return as_products(data, self.equation) if isinstance(data, Tuple) else None

    def grad(self, data: Tuple, result: Expr, dy: Expr) -> Sequence[Expr | None]:
        ranks = [len(tensor(f.checked_type).shape) for f in data.fields]
        terms, out = parse(self.equation, ranks)
        made: list[Expr] = []
        for k, (x, term) in enumerate(zip(data.fields, terms, strict=True)):
            need(
                len(set(term)) == len(term),
                "einsum's gradient needs each subscript of an operand once",
                f"operand {k} has {term!r}",
            )
            others = [(f, t) for j, (f, t) in enumerate(zip(data.fields, terms, strict=True)) if j != k]
            have = set(out).union(*[t for _, t in others])
            kept = "".join([c for c in term if c in have])
            equation = f"{','.join([out, *[t for _, t in others]])}->{kept}"
            part = op("einsum")([dy, *[f for f, _ in others]], equation)
            for axis, c in enumerate(term):
                if c not in have:
                    part = op("expand_dims")(part, axis=axis)
            made.append(summed_like(part, x) if kept == term else op("broadcast_to_like")(part, x))
        return [Tuple(tuple(made))]


def as_products(data: Tuple, equation: str) -> Expr | None:
    """einsum as nn.batch_matmul of transposed and reshaped operands. None if it has no such form, or if dimensions may
    differ."""
    operands: list[Expr] = list(data.fields)
    shapes = [dims(tensor(x.checked_type)) for x in operands]
    terms, result = parse(equation, [len(s) for s in shapes])
    sizes: dict[str, Dim] = {}
    for term, shape in zip(terms, shapes, strict=True):
        for c, d in zip(term, shape, strict=True):
            if is_any(d) or not known_equal(sizes.setdefault(c, d), d):
                return None
    if len(operands) < 2 or any([len(set(t)) != len(t) for t in terms]):
        return None
    while len(operands) > 1:
        rest = set(result).union(*terms[2:])
        last = len(operands) == 2
        made = _product(operands[:2], terms[:2], rest, result if last else None, sizes)
        if made is None:
            return None
        operands, terms = [made[0], *operands[2:]], [made[1], *terms[2:]]
    return operands[0]


def _product(
    operands: Sequence[Expr], terms: Sequence[str], wanted: set[str], order: str | None, sizes: dict[str, Dim]
) -> tuple[Expr, str] | None:
    """(the product of two operands, summed over subscripts that neither the rest nor the result needs; its subscripts)."""
    a, b = terms
    batch = [c for c in a if c in b and c in wanted]
    summed = [c for c in a if c in b and c not in wanted]
    left, right = [c for c in a if c not in b], [c for c in b if c not in a]
    if not summed or any([c not in wanted for c in left + right]):
        return None

    def arranged(x: Expr, term: str, outer: list[str]) -> Expr:
        axes = [term.index(c) for c in (*batch, *outer, *summed)]
        x = x if axes == sorted(axes) else op("transpose")(x, axes)
        shape = [product([sizes[c] for c in part]) for part in (batch, outer, summed)]
        return x if [len(batch), len(outer), len(summed)] == [1, 1, 1] else op("reshape")(x, shape)

    made = op("nn.batch_matmul")(arranged(operands[0], a, left), arranged(operands[1], b, right))
    found = "".join([*batch, *left, *right])
    if [len(batch), len(left), len(right)] != [1, 1, 1]:
        made = op("reshape")(made, [sizes[c] for c in found])
    if order is not None and order != found:
        made, found = op("transpose")(made, [found.index(c) for c in order]), order
    return made, found
