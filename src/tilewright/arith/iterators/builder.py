"""Conversion of index expressions to sums of splits of the loop iterators, with checks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, cast

from tilewright.arith.analyzer import Analyzer
from tilewright.arith.iterators.nodes import (
    IterMapLevel,
    IterMark,
    IterSplitExpr,
    IterSumExpr,
    normalize_iter_map_to_expr,
)
from tilewright.arith.linear import (
    LEAF,
    ONE,
    PRODUCT,
    QUOTIENT,
    REMAINDER,
    SPLIT,
    ZERO,
    Atom,
    Lin,
    combine,
    constant,
    mentions,
    scale,
    shift,
)
from tilewright.ir import IntImm, PrimExpr, Range
from tilewright.node import Mutator, on
from tilewright.tir.arithmetic import conjuncts
from tilewright.tir.expr import IterVar, Var


class NotAffine(Exception):
    """The expression is not an iterator map. The text gives the reason."""


class Mark:
    """An iterator of a map under construction. `source`: the form of a variable minus its minimum, or a Sum."""

    __slots__ = ("extent", "source", "variable")

    def __init__(self, source: Sum | Lin, extent: Lin, variable: Var | None = None) -> None:
        self.source, self.extent, self.variable = source, extent, variable


class Split:
    """mark // lower % extent * scale."""

    __slots__ = ("extent", "lower", "mark", "scale")

    def __init__(self, mark: Mark, lower: Lin, extent: Lin, scale: Lin) -> None:
        self.mark, self.lower, self.extent, self.scale = mark, lower, extent, scale


class Sum:
    """Splits, and a base without iterators."""

    __slots__ = ("args", "base")

    def __init__(self, args: list[Split], base: Lin) -> None:
        self.args, self.base = args, base


class Bounded:
    """A predicate `shape < mark.extent`. `iters`: the shape as a form; `value`: the shape in terms of the mark's variable."""

    __slots__ = ("condition", "iters", "mark", "shape", "value")

    def __init__(self, shape: Sum, mark: Mark, iters: Lin, value: Lin, condition: PrimExpr) -> None:
        self.shape, self.mark, self.iters, self.value, self.condition = (
            shape,
            mark,
            iters,
            value,
            condition,
        )


class Builder:
    """Converts forms to sums of splits of the input iterators."""

    def __init__(self, input_iters: Mapping[Var, Range], analyzer: Analyzer, trivial: bool) -> None:
        self.analyzer, self.engine = analyzer, analyzer.engine
        self.marks: dict[int, Mark] = {}
        self.variables: list[Var] = []
        self.ids: set[int] = set()
        self.fused: dict[tuple[Any, ...], Mark] = {}
        self.constraints: list[Bounded] = []
        self.padded: list[tuple[Mark, Lin, Lin]] = []
        self.allow_padding = False
        engine = self.engine
        for key, domain in input_iters.items():
            var = key.var if isinstance(key, IterVar) else key
            low, extent = engine.lin(domain.min), engine.lin(domain.extent)
            if trivial and not extent.terms and extent.const == 1:
                analyzer.bind(var, domain.min)
                continue
            analyzer.bind(var, domain)
            self.ids.add(id(var))
            self.variables.append(var)
            here = Lin({engine.leaf(var): 1}, 0)
            self.marks[id(var)] = Mark(combine(here, low, -1), extent, var)
        self._keep = list(input_iters)

    # Forms to sums

    def touched(self, a: Lin) -> bool:
        return any([mentions(t, self.ids) for t in a.terms])

    def sum(self, a: Lin) -> Sum:
        """The form as a sum of splits, with equal splits merged. Raises NotAffine."""
        base = constant(a.const)
        args: list[Split] = []
        for t, k in a.terms.items():
            if not mentions(t, self.ids):
                base = combine(base, Lin({t: 1}, 0), k)
                continue
            part = self.atom(t)
            base = combine(base, part.base, k)
            for s in part.args:
                self._add(args, Split(s.mark, s.lower, s.extent, scale(s.scale, k)))
        return Sum([s for s in args if s.scale.terms or s.scale.const], self.engine.merge(base))

    def _add(self, args: list[Split], new: Split) -> None:
        for i, s in enumerate(args):
            if s.mark is new.mark and self.equal(s.lower, new.lower) and self.equal(s.extent, new.extent):
                args[i] = Split(s.mark, s.lower, s.extent, combine(s.scale, new.scale))
                return
        args.append(new)

    def equal(self, a: Lin, b: Lin) -> bool:
        d = combine(a, b, -1)
        if not d.terms:
            return d.const == 0
        d = self.engine.expand(d)
        return not d.terms and d.const == 0

    def atom(self, t: Atom) -> Sum:
        kind, args = t.kind, t.args
        if kind == LEAF and id(t.leaf) in self.marks:
            mark = self.marks[id(t.leaf)]
            low = combine(Lin({t: 1}, 0), mark.source, -1) if isinstance(mark.source, Lin) else ZERO
            return Sum([Split(mark, ONE, mark.extent, ONE)], low)
        if kind == PRODUCT:
            moving = [x for x in args if self.touched(x)]
            if len(moving) == 1:
                factor = ONE
                for x in args:
                    if x is not moving[0]:
                        factor = self.engine.multiply(factor, x)
                inner = self.sum(moving[0])
                multiply = self.engine.multiply
                return Sum(
                    [Split(s.mark, s.lower, s.extent, multiply(s.scale, factor)) for s in inner.args],
                    multiply(inner.base, factor),
                )
        if kind == SPLIT:
            source, lower, upper = args
            return self.split(self.sum(source), constant(lower), constant(upper) if upper else None)
        if kind == QUOTIENT and not self.touched(args[1]):
            return self.split(self.sum(args[0]), args[1], None)
        if kind == REMAINDER and not self.touched(args[1]):
            return self.split(self.sum(args[0]), ONE, args[1])
        node = self.engine.emit(Lin({t: 1}, 0), "int32") if kind != LEAF else t.leaf
        raise NotAffine(f"{node} is not a sum of divisions and remainders of the iterators")

    def split(self, source: Sum, lower: Lin, upper: Lin | None) -> Sum:
        """The sum of splits for source % upper // lower."""
        s, base = self.single(source)
        if s is None:
            return Sum([], self._divide(base, lower, upper))
        if not self.equal(s.scale, ONE):
            raise NotAffine("a quotient of an iterator with a scale that its divisor does not divide")
        if base.terms or base.const:
            s = self._with_base(s, base, upper or lower)
        need = lower if upper is None else upper
        extent = s.extent
        if not self._divides(need, extent):
            if not self._divides(extent, need) or upper is None:
                s = self._pad(s, need)
                extent = s.extent
            else:
                upper = None
                need = lower
                if not self._divides(need, extent):
                    s = self._pad(s, need)
                    extent = s.extent
        multiply, quotient = self.engine.multiply, self.engine.quotient
        low = multiply(s.lower, lower)
        if upper is None:
            return Sum([Split(s.mark, low, quotient(extent, lower), ONE)], ZERO)
        if not self._divides(lower, upper):
            raise NotAffine("a remainder whose divisor is not a multiple of the quotient's")
        return Sum([Split(s.mark, low, quotient(upper, lower), ONE)], ZERO)

    def _divide(self, base: Lin, lower: Lin, upper: Lin | None) -> Lin:
        if upper is not None:
            base = self.engine.remainder(base, upper)
        return self.engine.quotient(base, lower)

    def _divides(self, a: Lin, b: Lin) -> bool:
        """Whether a certainly divides b."""
        if not a.terms and not b.terms:
            return bool(a.const) and b.const % a.const == 0
        r = self.engine.remainder(b, a)
        return not r.terms and r.const == 0

    def _with_base(self, s: Split, base: Lin, divisor: Lin) -> Split:
        """An iterator that starts at `base`, with padding in front."""
        low, high = self.engine.bound(base)
        if low < 0 or low != high:
            raise NotAffine(f"a division of an iterator with the offset {base}")
        inside = Sum([Split(s.mark, s.lower, s.extent, ONE)], base)
        return self._padded_mark(inside, base, combine(s.extent, base), divisor)

    def _pad(self, s: Split, divisor: Lin) -> Split:
        """The iterator padded at its end to a multiple of the divisor."""
        inside = Sum([Split(s.mark, s.lower, s.extent, ONE)], ZERO)
        return self._padded_mark(inside, ZERO, s.extent, divisor)

    def _padded_mark(self, inside: Sum, front: Lin, end: Lin, divisor: Lin) -> Split:
        if not self.allow_padding:
            raise NotAffine("an extent is not a multiple of its divisor, so that the last part is not full")
        s = inside.args[0]
        key = (
            "pad",
            id(s.mark),
            self._key(s.lower),
            self._key(s.extent),
            self._key(front),
        )
        known = self.fused.get(key)
        if known is not None and self._divides(divisor, known.extent):
            return Split(known, ONE, known.extent, ONE)
        engine = self.engine
        if known is not None and not known.extent.terms and not divisor.terms:
            from math import lcm

            known.extent = constant(lcm(known.extent.const, divisor.const))
            raise PaddedFurther
        rounded = engine.multiply(engine.quotient(shift(combine(end, divisor), -1), divisor), divisor)
        mark = Mark(inside, rounded)
        self.fused[key] = mark
        self.padded.append((mark, front, end))
        return Split(mark, ONE, rounded, ONE)

    def _key(self, a: Lin) -> int:
        return id(self.engine.intern(a))

    # Fusion

    def single(self, source: Sum) -> tuple[Split | None, Lin]:
        """(the sum as one split, of a fused iterator if it has several splits; its base). Raises NotAffine."""
        args = source.args
        base = source.base
        if not args:
            return None, base
        for bounded in self.constraints:
            found = self._constrained(source, bounded.shape, bounded.mark)
            if found is not None:
                return found
        if len(args) == 1:
            return args[0], base
        return self.fuse(args), base

    def ordered(self, args: list[Split]) -> tuple[list[Split], Lin, Lin]:
        """(splits from the innermost outwards, their smallest scale, the fused extent). Raises NotAffine."""
        engine = self.engine
        left = list(args)
        if all([not s.scale.terms for s in left]):
            left.sort(key=lambda s: abs(s.scale.const))
            first = left[0].scale
        else:
            divisors = [s for s in left if all([self._divides(s.scale, o.scale) for o in left])]
            if not divisors:
                raise NotAffine("the scales of a sum have no common least one")
            first = divisors[0].scale
        expected, extent = first, ONE
        out: list[Split] = []
        while left:
            match = [s for s in left if self.equal(s.scale, expected)]
            if not match:
                raise NotAffine("the scales of a sum do not tile: each must be the product of the extents below it")
            # Two splits may have the same scale if one of them has the extent 1.
            match.sort(key=lambda s: s.extent.terms != {} or s.extent.const != 1)
            s = match[0]
            left.remove(s)
            out.append(s)
            extent = engine.multiply(extent, s.extent)
            expected = engine.multiply(expected, s.extent)
        return out, first, extent

    def fuse(self, args: list[Split]) -> Split:
        """A split of the iterator that is the fusion of a sum."""
        ordered, first, extent = self.ordered(args)
        engine = self.engine
        parts = [Split(s.mark, s.lower, s.extent, engine.quotient(s.scale, first)) for s in reversed(ordered)]
        whole = self._rejoin(parts, extent)
        if whole is not None:
            return Split(whole.mark, whole.lower, whole.extent, first)
        key = tuple(
            [
                (
                    id(s.mark),
                    self._key(s.lower),
                    self._key(s.extent),
                    self._key(s.scale),
                )
                for s in parts
            ]
        )
        mark = self.fused.get(key)
        if mark is None:
            mark = self.fused[key] = Mark(Sum(parts, ZERO), extent)
        return Split(mark, ONE, mark.extent, first)

    def _rejoin(self, parts: list[Split], extent: Lin) -> Split | None:
        """Adjacent splits of one mark, joined to one split of it; None for other splits."""
        mark = parts[0].mark
        if any([s.mark is not mark for s in parts]):
            return None
        lower = parts[-1].lower
        expected = lower
        for s in reversed(parts):
            if not self.equal(s.lower, expected):
                return None
            expected = self.engine.multiply(expected, s.extent)
        return Split(mark, lower, extent, ONE)

    # Predicates

    def constrain(self, condition: PrimExpr) -> None:
        """Adds the conjuncts `sum of iterators < bound` of a condition. Raises NotAffine for other conjuncts."""
        from tilewright.arith.simplifier.logic import TRUE

        for c in conjuncts(condition):
            if c is TRUE:
                continue
            forms = self.engine.orderings_of(c)
            if len(forms) != 1:
                raise NotAffine(f"the condition {c} is no bound of a sum of iterators")
            (d,) = forms
            iters = Lin({t: k for t, k in d.terms.items() if mentions(t, self.ids)}, 0)
            rest = Lin({t: k for t, k in d.terms.items() if t not in iters.terms}, d.const)
            if not iters.terms:
                continue
            total = self.sum(iters)
            if any([s.scale.terms or s.scale.const <= 0 for s in total.args]):
                raise NotAffine(f"the condition {c} bounds a sum of iterators from below")
            limit = shift(combine(scale(rest, -1), total.base, -1), 1)
            shape = Sum(total.args, ZERO)
            try:
                _, first, extent = self.ordered(shape.args)
            except NotAffine as e:
                raise NotAffine(f"the condition {c}: {e}") from None
            if not self.equal(first, ONE):
                raise NotAffine(f"the condition {c} bounds a sum of iterators with gaps")
            if self.engine.prove_nonpositive(combine(extent, limit, -1)):
                continue
            self._bounded(shape, limit, iters, total.base, c)

    def _bounded(self, shape: Sum, limit: Lin, iters: Lin, base: Lin, condition: PrimExpr) -> None:
        """Adds a variable for the bounded sum, with the bound as its extent."""
        dtype = self.variables[0].dtype if self.variables else "int32"
        var = Var("bounded", dtype)
        ordered, _, _ = self.ordered(shape.args)
        mark = Mark(Sum(list(reversed(ordered)), ZERO), limit)
        self.ids.add(id(var))
        self.marks[id(var)] = mark
        engine = self.engine
        here = engine.leaf(var)
        self.analyzer.bind(var, Range.from_min_extent(IntImm(dtype, 0), engine.emit(limit, dtype)))
        self.constraints.append(Bounded(shape, mark, iters, combine(Lin({here: 1}, 0), base), condition))

    def bounded_sums(self, e: PrimExpr) -> PrimExpr:
        """The index, with variables in place of bounded sums of iterators."""
        return e if not self.constraints else _Replace(self).visit(e)

    def _constrained(self, source: Sum, shape: Sum, mark: Mark) -> tuple[Split, Lin] | None:
        """The sum as a split of the bounded iterator, if `source` is a multiple of the bounded sum; else None."""
        if len(source.args) != len(shape.args):
            return None
        factor: Lin | None = None
        for s in source.args:
            match = [
                o
                for o in shape.args
                if o.mark is s.mark and self.equal(o.lower, s.lower) and self.equal(o.extent, s.extent)
            ]
            if not match:
                return None
            if not self._divides(match[0].scale, s.scale):
                return None
            ratio = self.engine.quotient(s.scale, match[0].scale)
            if factor is not None and not self.equal(factor, ratio):
                return None
            factor = ratio
        assert factor is not None
        return Split(mark, ONE, mark.extent, factor), source.base

    # Checks

    def check(self, sums: Sequence[Sum], level: IterMapLevel) -> None:
        """Raises NotAffine if splits of an iterator overlap, or for Bijective, if they do not cover it."""
        used: dict[int, list[Split]] = {}
        marks: dict[int, Mark] = {}
        queue = [s for total in sums for s in total.args]
        pending: list[Mark] = []

        def enter(splits: list[Split]) -> None:
            for s in splits:
                if id(s.mark) not in marks:
                    marks[id(s.mark)] = s.mark
                    pending.append(s.mark)
                used.setdefault(id(s.mark), []).append(s)

        enter(queue)
        done: set[int] = set()
        while True:
            # A mark is checked after all marks that contain it.
            ready = [
                m
                for m in pending
                if not any([self._made_of(o, m) for o in marks.values() if o is not m and id(o) not in done])
            ]
            if not ready:
                break
            for mark in ready:
                pending.remove(mark)
                done.add(id(mark))
                self._check_mark(mark, used[id(mark)], level)
                if isinstance(mark.source, Sum):
                    enter(mark.source.args)
        if level == IterMapLevel.Bijective:
            missing = [v.name for v in self.variables if id(self.marks[id(v)]) not in used]
            if missing:
                raise NotAffine(f"the iterators {missing} are not used, so that the map is not bijective")

    def _made_of(self, outer: Mark, inner: Mark) -> bool:
        return isinstance(outer.source, Sum) and any(
            [s.mark is inner or self._made_of(s.mark, inner) for s in outer.source.args]
        )

    def check_constraints(self, sums: Sequence[Sum]) -> None:
        """Raises NotAffine unless each bounded sum of iterators is used as a whole, or not used."""
        for bounded in self.constraints:
            mark = bounded.mark
            inside = [s.mark for s in bounded.shape.args]
            for total in sums:
                for s in total.args:
                    if s.mark is mark or self._made_of(s.mark, mark):
                        continue
                    if any([s.mark is m or self._made_of(s.mark, m) or self._made_of(m, s.mark) for m in inside]):
                        raise NotAffine("the predicate bounds iterators that the indices use one by one")

    def _check_mark(self, mark: Mark, splits: list[Split], level: IterMapLevel) -> None:
        left = [s for s in splits if s.extent.terms or s.extent.const != 1]
        expected = ONE
        what = mark.variable.name if mark.variable is not None else "a fused iterator"
        while left:
            match = [s for s in left if self.equal(s.lower, expected)]
            if not match and level != IterMapLevel.Bijective:
                match = [
                    s
                    for s in left
                    if self._divides(expected, s.lower) and all([self._divides(s.lower, o.lower) for o in left])
                ]
            if not match:
                raise NotAffine(f"the parts of {what} that the indices use overlap, or leave a gap")
            left.remove(match[0])
            expected = self.engine.multiply(match[0].lower, match[0].extent)
        if level == IterMapLevel.Bijective and not self.equal(expected, mark.extent):
            raise NotAffine(f"the indices do not use all of {what}, so that the map is not bijective")

    # Back to nodes

    def emit(self, a: Lin, dtype: str) -> PrimExpr:
        return self.engine.emit(a, dtype)

    def node_of(self, total: Sum, dtype: str) -> IterSumExpr:
        """A sum as a public node."""
        return IterSumExpr(
            tuple([self.split_node(s, dtype) for s in total.args]),
            self.emit(total.base, dtype),
        )

    def split_node(self, s: Split, dtype: str) -> IterSplitExpr:
        return IterSplitExpr(
            self.mark_node(s.mark, dtype),
            self.emit(s.lower, dtype),
            self.emit(s.extent, dtype),
            self.emit(s.scale, dtype),
        )

    def mark_node(self, mark: Mark, dtype: str) -> IterMark:
        key = ("node", id(mark), self._key(mark.extent), dtype)
        found = self.fused.get(key)
        if found is None:
            source = self.node_of(mark.source, dtype) if isinstance(mark.source, Sum) else self.emit(mark.source, dtype)
            found = IterMark(source, self.emit(mark.extent, dtype))  # type: ignore[assignment]
            self.fused[key] = found  # type: ignore[assignment]
        return found  # type: ignore[return-value]

    def padding(self, dtype: str) -> PrimExpr:
        """The condition for padding, in terms of the padded iterators."""
        from tilewright.tir import arithmetic as A

        out: PrimExpr = IntImm("bool", 0)
        for mark, front, end in self.padded:
            here = normalize_iter_map_to_expr(self.node_of(cast("Sum", mark.source), dtype))
            if front.terms or front.const:
                out = A.logical_or(out, A.less(here, self.emit(front, dtype)))
            if not self.equal(end, mark.extent):
                out = A.logical_or(out, A.greater_equal(here, self.emit(end, dtype)))
        return out


class _Replace(Mutator):
    def __init__(self, builder: Builder) -> None:
        self.builder = builder

    @on(PrimExpr)
    def _expr(self, e: PrimExpr) -> PrimExpr:
        engine = self.builder.engine
        if e._leaf or isinstance(e, IntImm):
            return e
        if engine.is_index(e):
            a = engine.lin(e)
            for bounded in self.builder.constraints:
                t, c = next(iter(bounded.iters.terms.items()))
                factor, rest = divmod(a.terms.get(t, 0), c)
                if (
                    factor > 0
                    and rest == 0
                    and all([a.terms.get(s) == v * factor for s, v in bounded.iters.terms.items()])
                ):
                    changed = combine(combine(a, bounded.iters, -factor), bounded.value, factor)
                    return engine.emit(changed, e.dtype)
        return self.rebuild(e)


class PaddedFurther(Exception):
    """An iterator got more padding, so the results that contain it must be built again."""


def build(
    indices: Sequence[PrimExpr],
    builder: Builder,
    predicate: PrimExpr,
    level: IterMapLevel,
    fuse: bool = True,
) -> list[Sum]:
    """The sums of all indices, each fused to one split. Raises NotAffine."""
    engine = builder.engine
    builder.allow_padding = level != IterMapLevel.Bijective
    condition = engine.simp(predicate)
    for _ in range(8):
        try:
            if not builder.constraints:
                builder.constrain(condition)
            sums = []
            with engine.scope(condition):
                forms = [engine.lin(builder.bounded_sums(e)) for e in indices]
            for a in forms:
                total = builder.sum(a)
                if fuse:
                    s, base = builder.single(total)
                    total = Sum([] if s is None else [s], base)
                sums.append(total)
            if fuse and level != IterMapLevel.NoCheck:
                builder.check(sums, level)
            return sums
        except PaddedFurther:
            continue
    raise NotAffine("the paddings of an iterator have no common multiple")


def child_analyzer(analyzer: Analyzer | None) -> Analyzer:
    """A new analyzer with the facts of the given one. Later bindings do not affect the given one."""
    out = Analyzer()
    if analyzer is not None:
        for var, domain in analyzer.engine.domains.values():
            out.bind(var, domain)
        for t, bound in analyzer.engine.var_bound.items():
            if isinstance(t.leaf, Var):
                out.engine.var_bound[out.engine.leaf(t.leaf)] = bound
        out.engine.forget()
    return out
