"""Index expressions as sums, so that an unrolled tile becomes one pointer and constant offsets."""

from __future__ import annotations

from typing import Any

from tilewright.ir import IntImm, PrimExpr
from tilewright.tir import Add, Broadcast, Cast, Mul, Ramp, Sub

Terms = dict[PrimExpr, int]


class Affine:
    """`const + sum(coefficient * leaf)` per lane, plus `lane * stride` for vectors; None strides are no vectors.

    A leaf is a variable or an expression that is no sum; `stride` is a constant.
    """

    __slots__ = ("const", "lanes", "stride", "terms")

    def __init__(self, const: int, terms: tuple[tuple[PrimExpr, int], ...], stride: int = 0, lanes: int = 1) -> None:
        self.const, self.terms, self.stride, self.lanes = const, terms, stride, lanes


class AffineForms:
    """Affine forms of index expressions, remembered per node for the life of one function."""

    def __init__(self) -> None:
        self._forms: dict[int, Affine | None] = {}
        self._keep: list[Any] = []

    def scalar(self, expr: PrimExpr) -> Affine | None:
        """The form of `expr`; None for a vector whose lanes are no arithmetic sequence with a constant step."""
        key = id(expr)
        if key in self._forms:
            return self._forms[key]
        form = self._build(expr)
        self._forms[key] = form
        self._keep.append(expr)
        return form

    def combine(self, indices: tuple[PrimExpr, ...], strides: tuple[int, ...], offset: Affine) -> Affine | None:
        """The element offset of N-dimensional indices with constant strides."""
        const, terms, step, lanes = offset.const, dict(offset.terms), 0, 1
        for index, stride in zip(indices, strides, strict=True):
            form = self.scalar(index)
            if form is None:
                return None
            const += form.const * stride
            step += form.stride * stride
            lanes = max(lanes, form.lanes)
            for leaf, coefficient in form.terms:
                terms[leaf] = terms.get(leaf, 0) + coefficient * stride
        return Affine(const, tuple((k, v) for k, v in terms.items() if v), step, lanes)

    def _build(self, expr: PrimExpr) -> Affine | None:
        kind = type(expr)
        if kind is IntImm:
            return Affine(expr.value, ())  # type: ignore[attr-defined]
        if kind is Add or kind is Sub:
            a, b = self.scalar(expr.a), self.scalar(expr.b)  # type: ignore[attr-defined]
            if a is None or b is None:
                return None
            sign = 1 if kind is Add else -1
            terms = dict(a.terms)
            for leaf, coefficient in b.terms:
                terms[leaf] = terms.get(leaf, 0) + sign * coefficient
            kept = tuple((leaf, c) for leaf, c in terms.items() if c)
            return Affine(a.const + sign * b.const, kept, a.stride + sign * b.stride, max(a.lanes, b.lanes))
        if kind is Mul:
            a, b = self.scalar(expr.a), self.scalar(expr.b)  # type: ignore[attr-defined]
            if a is not None and b is not None:
                if not a.terms and not a.stride:
                    a, b = b, a
                if not b.terms and not b.stride:
                    c = b.const
                    terms_ = tuple((leaf, k * c) for leaf, k in a.terms) if c else ()
                    return Affine(a.const * c, terms_, a.stride * c, max(a.lanes, b.lanes))
            return self._leaf(expr)
        if kind is Ramp:
            base = self.scalar(expr.base)  # type: ignore[attr-defined]
            stride = self.scalar(expr.stride)  # type: ignore[attr-defined]
            if base is None or stride is None or stride.terms or base.lanes != 1:
                return None
            return Affine(base.const, base.terms, stride.const, expr.dtype.lanes)
        if kind is Broadcast:
            value = self.scalar(expr.value)  # type: ignore[attr-defined]
            if value is None or value.lanes != 1:
                return None
            return Affine(value.const, value.terms, 0, expr.dtype.lanes)
        if kind is Cast and expr.dtype.is_int and expr.dtype.bits >= 32:
            inner = expr.value.dtype  # type: ignore[attr-defined]
            if inner.is_int and inner.bits >= 32 and inner.bits <= expr.dtype.bits:
                return self.scalar(expr.value)  # type: ignore[attr-defined]
        return self._leaf(expr)

    @staticmethod
    def _leaf(expr: PrimExpr) -> Affine | None:
        return Affine(0, ((expr, 1),)) if expr.dtype.lanes == 1 else None
