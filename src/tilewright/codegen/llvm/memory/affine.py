"""Affine forms of index expressions, by which an unrolled tile becomes one pointer with constant offsets."""

from __future__ import annotations

from tilewright.ir import DataType, IntImm, PrimExpr
from tilewright.tir import Add, Broadcast, Buffer, Cast, Mul, Ramp, Sub
from tilewright.tir.arithmetic import add, cast_to, multiply

Terms = dict[PrimExpr, int]


class Affine:
    """The sum `const + sum(coefficient * leaf)`, plus `lane * stride` in each lane of a vector. The stride of a scalar is None.

    A leaf is a variable, or an expression other than a sum. The stride is a constant.
    """

    __slots__ = ("const", "lanes", "stride", "terms")

    def __init__(self, const: int, terms: tuple[tuple[PrimExpr, int], ...], stride: int = 0, lanes: int = 1) -> None:
        self.const, self.terms, self.stride, self.lanes = const, terms, stride, lanes


class AffineForms:
    """Computes affine forms of index expressions, and caches them by node for one function."""

    def __init__(self) -> None:
        self._forms: dict[int, Affine | None] = {}
        self._flat: dict[tuple[int, ...], PrimExpr] = {}
        self._keep: list[object] = []

    def scalar(self, expr: PrimExpr) -> Affine | None:
        """The form of `expr`; None for a vector unless its lanes are an arithmetic sequence with a constant step."""
        key = id(expr)
        if key in self._forms:
            return self._forms[key]
        form = self._build(expr)
        self._forms[key] = form
        self._keep.append(expr)
        return form

    def combine(self, indices: tuple[PrimExpr, ...], strides: tuple[int, ...], offset: Affine) -> Affine | None:
        """The element offset of indices with constant strides; None as in `scalar`."""
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

    def offset(self, buffer: Buffer, indices: tuple[PrimExpr, ...]) -> Affine | None:
        """The element offset of an access; None as in `scalar`."""
        start = self.scalar(buffer.elem_offset)
        if start is None:
            return None
        if len(indices) == 1 and not buffer.strides and not start.terms and start.const == 0:
            return self.scalar(indices[0])
        if not indices:
            return start
        strides = buffer.element_strides()
        steps = tuple([s.value for s in strides if type(s) is IntImm])
        if len(steps) == len(strides):
            return self.combine(indices, steps, start)
        key = (id(buffer), *map(id, indices))
        found = self._flat.get(key)
        if found is None:
            total = cast_to(buffer.elem_offset, DataType("int64"))
            for index, stride in zip(indices, strides, strict=True):
                wide = DataType("int64").with_lanes(index.dtype.lanes)
                total = add(total, multiply(cast_to(index, wide), cast_to(stride, wide)))
            found = self._flat[key] = total
            self._keep.append(indices)
        return self.scalar(found)

    def _build(self, expr: PrimExpr) -> Affine | None:
        if isinstance(expr, IntImm):
            return Affine(expr.value, ())
        if isinstance(expr, (Add, Sub)):
            a, b = self.scalar(expr.a), self.scalar(expr.b)
            if a is None or b is None:
                return None
            sign = 1 if isinstance(expr, Add) else -1
            terms = dict(a.terms)
            for leaf, coefficient in b.terms:
                terms[leaf] = terms.get(leaf, 0) + sign * coefficient
            kept = tuple((leaf, c) for leaf, c in terms.items() if c)
            return Affine(a.const + sign * b.const, kept, a.stride + sign * b.stride, max(a.lanes, b.lanes))
        if isinstance(expr, Mul):
            a, b = self.scalar(expr.a), self.scalar(expr.b)
            if a is not None and b is not None:
                if not a.terms and not a.stride:
                    a, b = b, a
                if not b.terms and not b.stride:
                    c = b.const
                    terms_ = tuple((leaf, k * c) for leaf, k in a.terms) if c else ()
                    return Affine(a.const * c, terms_, a.stride * c, max(a.lanes, b.lanes))
            return self._leaf(expr)
        if isinstance(expr, Ramp):
            base = self.scalar(expr.base)
            stride = self.scalar(expr.stride)
            if base is None or stride is None or stride.terms or base.lanes != 1:
                return None
            return Affine(base.const, base.terms, stride.const, expr.dtype.lanes)
        if isinstance(expr, Broadcast):
            value = self.scalar(expr.value)
            if value is None or value.lanes != 1:
                return None
            return Affine(value.const, value.terms, 0, expr.dtype.lanes)
        if isinstance(expr, Cast) and expr.dtype.is_int and expr.dtype.bits >= 32:
            inner = expr.value.dtype
            if inner.is_int and inner.bits >= 32 and inner.bits <= expr.dtype.bits:
                return self.scalar(expr.value)
        return self._leaf(expr)

    @staticmethod
    def _leaf(expr: PrimExpr) -> Affine | None:
        return Affine(0, ((expr, 1),)) if expr.dtype.lanes == 1 else None
