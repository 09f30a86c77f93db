"""Operations on iterator maps: division by a subspace of loops, and inversion."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tilewright.arith.analyzer import Analyzer
from tilewright.arith.iterators.builder import (
    Builder,
    Mark,
    NotAffine,
    Split,
    Sum,
    build,
    child_analyzer,
)
from tilewright.arith.iterators.nodes import (
    IterMapLevel,
    IterMark,
    IterSumExpr,
    normalize_iter_map_to_expr,
)
from tilewright.arith.linear import ONE, ZERO, Lin, OutOfRange
from tilewright.ir import IntImm, PrimExpr, Range, as_prim_expr
from tilewright.tir import arithmetic as A
from tilewright.tir.expr import IterVar, Var


class Division:
    """sum = outer * inner_extent + inner, with 0 <= inner - (base of inner) < inner_extent."""

    __slots__ = ("inner", "inner_extent", "outer", "outer_extent")

    def __init__(self, outer: Sum, outer_extent: Lin, inner: Sum, inner_extent: Lin) -> None:
        self.outer, self.outer_extent, self.inner, self.inner_extent = (
            outer,
            outer_extent,
            inner,
            inner_extent,
        )


class _Divider:
    def __init__(self, builder: Builder, sub: set[int]) -> None:
        self.builder, self.engine, self.sub = builder, builder.engine, sub

    def sides(self, mark: Mark) -> set[bool]:
        """{True} if all variables of the mark are in the subspace, {False} if none is, else both."""
        if isinstance(mark.source, Sum):
            return {side for s in mark.source.args for side in self.sides(s.mark)}
        return {id(mark.variable) in self.sub}

    def divide(self, total: Sum) -> Division:
        if not total.args:
            return Division(Sum([], ZERO), ONE, total, ONE)
        if len(total.args) > 1:
            raise NotAffine("a binding does not fuse to one iterator")
        out = self.split(total.args[0])
        base = total.base
        if base.terms or base.const:
            if out.inner.args or not out.outer.args:
                out.inner = Sum(out.inner.args, base)
            else:
                out.outer = Sum(out.outer.args, base)
        return out

    def split(self, s: Split) -> Division:
        if not self.builder.equal(s.scale, ONE):
            raise NotAffine("a binding has a stride, so that it does not divide by the subspace")
        sides = self.sides(s.mark)
        none = Sum([], ZERO)
        if sides == {True}:
            return Division(none, ONE, Sum([s], ZERO), s.extent)
        if sides == {False}:
            return Division(Sum([s], ZERO), s.extent, none, ONE)
        source = s.mark.source
        assert isinstance(source, Sum)
        product = ONE
        for p in source.args:
            product = self.engine.multiply(product, p.extent)
        if not (self.builder.equal(s.extent, product) and self.builder.equal(s.lower, ONE)):
            raise NotAffine("a binding takes a part of an iterator that is inside and outside of the subspace")
        return self._parts(source)

    def _parts(self, source: Sum) -> Division:
        """Divides the parts from the outermost inwards: those outside the subspace, then at most one mixed part, then those inside."""
        multiply = self.engine.multiply
        outer: list[Split] = []
        inner: list[Split] = []
        outer_extent = inner_extent = ONE
        for p in reversed(source.args):
            d = self.split(Split(p.mark, p.lower, p.extent, ONE))
            if outer and d.inner.args:
                raise NotAffine("an iterator of the subspace is outside of one that is not in the subspace")
            inner = [
                *[Split(x.mark, x.lower, x.extent, multiply(x.scale, inner_extent)) for x in d.inner.args],
                *inner,
            ]
            inner_extent = multiply(inner_extent, d.inner_extent)
            outer = [
                *[Split(x.mark, x.lower, x.extent, multiply(x.scale, outer_extent)) for x in d.outer.args],
                *outer,
            ]
            outer_extent = multiply(outer_extent, d.outer_extent)
        return Division(Sum(outer, ZERO), outer_extent, Sum(inner, ZERO), inner_extent)


def subspace_divide(
    bindings: Sequence[PrimExpr],
    input_iters: Mapping[Var, Range],
    sub_iters: Sequence[Var],
    predicate: PrimExpr | bool = True,
    check_level: IterMapLevel | int | str = IterMapLevel.Surjective,
    simplify_trivial_iterators: bool = True,
    analyzer: Analyzer | None = None,
) -> list[tuple[IterMark, IterMark]]:
    """Each binding as outer * inner.extent + inner, with `inner` over `sub_iters` and `outer` over the other iterators.

    One (outer, inner) pair of IterMarks for each binding. The extents of an additional pair are the parts of the predicate
    outside and inside the subspace. [] if the bindings cannot be divided.
    """
    level = IterMapLevel.from_str(check_level) if isinstance(check_level, str) else IterMapLevel(check_level)
    exprs = [as_prim_expr(e) for e in bindings]
    builder = Builder(input_iters, child_analyzer(analyzer), simplify_trivial_iterators)
    divider = _Divider(builder, {id(v.var if isinstance(v, IterVar) else v) for v in sub_iters})
    try:
        sums = build(exprs, builder, as_prim_expr(predicate), level)
        out = []
        for total, e in zip(sums, exprs, strict=True):
            d = divider.divide(total)
            out.append(
                (
                    _mark(builder, d.outer, d.outer_extent, e.dtype),
                    _mark(builder, d.inner, d.inner_extent, e.dtype),
                )
            )
        dtype = exprs[0].dtype if exprs else "int32"
        empty = IterSumExpr((), IntImm(dtype, 0))
        outside, inside = _predicates(divider, dtype)
        return [*out, (IterMark(empty, outside), IterMark(empty, inside))]
    except (NotAffine, OutOfRange):
        return []


def _mark(builder: Builder, total: Sum, extent: Lin, dtype: str) -> IterMark:
    return IterMark(builder.node_of(total, dtype), builder.emit(extent, dtype))


def _predicates(divider: _Divider, dtype: str) -> tuple[PrimExpr, PrimExpr]:
    outside: PrimExpr = IntImm("bool", 1)
    inside: PrimExpr = IntImm("bool", 1)
    builder = divider.builder
    for bounded in builder.constraints:
        shape, limit = bounded.shape, bounded.mark.extent
        sides = {side for s in shape.args for side in divider.sides(s.mark)}
        if len(sides) != 1:
            raise NotAffine("a predicate bounds iterators inside and outside of the subspace together")
        condition = A.less(
            normalize_iter_map_to_expr(builder.node_of(shape, dtype)),
            builder.emit(limit, dtype),
        )
        if sides == {True}:
            inside = A.logical_and(inside, condition)
        else:
            outside = A.logical_and(outside, condition)
    return outside, inside


def inverse_affine_iter_map(iter_map: Sequence[IterSumExpr], outputs: Sequence[PrimExpr]) -> dict[Var, PrimExpr]:
    """The iterators' values for given values of the indices of a bijective iterator map.

    Raises ValueError if an index has more than one split.
    """
    if len(iter_map) != len(outputs):
        raise ValueError(f"inverse_affine_iter_map: {len(iter_map)} indices, but {len(outputs)} outputs")
    values: dict[int, PrimExpr] = {}
    marks: dict[int, IterMark] = {}
    order: list[int] = []

    def visit(mark: IterMark) -> None:
        if id(mark) in marks:
            return
        marks[id(mark)] = mark
        if isinstance(mark.source, IterSumExpr):
            for s in mark.source.args:
                visit(s.source)
        order.append(id(mark))

    def spread(total: IterSumExpr, value: PrimExpr) -> None:
        value = A.subtract(value, total.base)
        for i, s in enumerate(total.args):
            part = A.floordiv(value, s.scale)
            # The outermost part needs no remainder.
            if len(total.args) > 1 and i > 0:
                part = A.floormod(part, s.extent)
            part = A.multiply(part, s.lower_factor)
            old = values.get(id(s.source))
            values[id(s.source)] = part if old is None else A.add(old, part)

    for total in iter_map:
        if len(total.args) > 1:
            raise ValueError(
                "inverse_affine_iter_map takes a map each of whose indices is one split; fuse it with detect_iter_map"
            )
        for s in total.args:
            visit(s.source)
    for total, out in zip(iter_map, outputs, strict=True):
        spread(total, as_prim_expr(out))
    result: dict[Var, PrimExpr] = {}
    analyzer = Analyzer()
    for key in reversed(order):
        mark, value = marks[key], values[key]
        if isinstance(mark.source, IterSumExpr):
            spread(mark.source, value)
            continue
        var, offset = _variable(mark.source, analyzer)
        result[var] = analyzer.simplify(A.subtract(value, offset))
    return result


def _variable(source: PrimExpr, analyzer: Analyzer) -> tuple[Var, PrimExpr]:
    """(v, c) for the source v + c of an iterator."""
    if isinstance(source, Var):
        return source, IntImm(source.dtype, 0)
    left = source.a  # type: ignore[attr-defined]
    if not isinstance(left, Var):
        raise ValueError(f"the source of an iterator must be a variable with an offset, but is {source!r}")
    return left, analyzer.simplify(A.subtract(source, left))
