"""Bounds of one variable, deduced from a condition."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tilewright.arith.analyzer import Analyzer, ConstIntBound
from tilewright.arith.intervals import Evaluator, IntervalSet, IntSet, as_set
from tilewright.arith.linear import (
    LEAF,
    QUOTIENT,
    SPLIT,
    Atom,
    Lin,
    combine,
    constant,
    mentions,
    scale,
    shift,
)
from tilewright.arith.pattern import symbolic_coefficient
from tilewright.ir import IntImm, PrimExpr, Range, as_prim_expr
from tilewright.tir.arithmetic import conjuncts
from tilewright.tir.expr import Call, Var


def deduce_bound(
    var: Var, cond: PrimExpr, hint_map: Mapping[Var, IntervalSet | Range], relax_map: Mapping[Var, IntervalSet | Range]
) -> IntSet:
    """Values of `var` for which `cond` holds, for all values of the variables in `relax_map` in their sets.

    `hint_map` gives sets (Range or IntervalSet) of other variables that may help, for example to find the sign of a factor.
    Returns the empty set if the condition cannot hold or is not supported, and everything if it always holds.
    """
    analyzer = Analyzer()
    for v, domain in hint_map.items():
        if isinstance(domain, Range) and isinstance(v, Var) and v is not var:
            analyzer.bind(v, domain)
        elif v is not var:
            low, high = _constant_ends(domain, analyzer)
            analyzer.update(v, ConstIntBound(low, high))
    found = _Deduction(analyzer, var, Evaluator(relax_map, analyzer.engine))
    if not found.assume(analyzer._simp(as_prim_expr(cond))):
        return IntSet.nothing()
    low_form, high_form = found.low, found.high
    engine = analyzer.engine
    if (
        low_form is not None
        and high_form is not None
        and engine.prove_nonpositive(combine(shift(high_form, 1), low_form, -1))
    ):
        return IntSet.nothing()
    return as_set((low_form, high_form), var.dtype, engine)


def _constant_ends(domain: Any, analyzer: Analyzer) -> tuple[int, int]:
    low, high = ConstIntBound.NEG_INF, ConstIntBound.POS_INF
    if domain.has_lower_bound():
        low = analyzer.const_int_bound(domain.min_value).min_value
    if domain.has_upper_bound():
        high = analyzer.const_int_bound(domain.max_value).max_value
    return low, high


class _Deduction:
    """Bounds of one variable from a condition. Forms are relaxed to their worst values."""

    def __init__(self, analyzer: Analyzer, var: Var, relaxed: Evaluator) -> None:
        self.engine, self.var, self.relaxed = analyzer.engine, var, relaxed
        self.low: Lin | None = None
        self.high: Lin | None = None

    def assume(self, condition: PrimExpr) -> bool:
        """Adds a condition. Returns whether all of it is supported."""
        for c in conjuncts(condition):
            if isinstance(c, IntImm):
                if not c.value:
                    return False
                continue
            if isinstance(c, Call) and getattr(c.op, "name", "") == "tir.likely":
                if not self.assume(c.args[0]):
                    return False
                continue
            forms = self.engine.orderings_of(c)
            if not forms or not all([self.nonpositive(d) for d in forms]):
                return False
        return True

    def nonpositive(self, d: Lin) -> bool:
        """Adds d <= 0, for the worst values of relaxed variables."""
        ids = {id(self.var)}
        d = self.engine.expand(d)
        inside = {t: k for t, k in d.terms.items() if mentions(t, ids)}
        rest = self.relaxed.form(Lin({t: k for t, k in d.terms.items() if t not in inside}, d.const))[1]
        if rest is None:
            return False
        if not inside:
            return self.engine.prove_nonpositive(rest)
        limit = scale(rest, -1)
        if len(inside) == 1:
            ((t, k),) = inside.items()
            return self.atom(t, k, limit)
        # For products of the variable with symbols, the sum of the factors is one factor.
        found = self.factor(inside)
        return found is not None and self.times(found, limit)

    def factor(self, inside: Mapping[Atom, int]) -> Lin | None:
        """The form c with `var * c` equal to the sum of the terms; None if there is no such form."""
        out = constant(0)
        for t, k in inside.items():
            if t.kind == LEAF and t.leaf is self.var:
                out = shift(out, k)
                continue
            found = symbolic_coefficient(self.engine, t, {id(self.var): 0})
            if found is None:
                return None
            out = combine(out, found[1], k)
        return out

    def atom(self, t: Atom, k: int, limit: Lin) -> bool:
        """Adds k * atom <= limit."""
        engine = self.engine
        upper = k > 0
        # Solved for the atom: atom <= end, or atom >= end.
        end = engine.floordiv(limit, k) if upper else shift(engine.floordiv(shift(scale(limit, -1), -1), -k), 1)
        if t.kind == LEAF and t.leaf is self.var:
            self.end(upper, end)
            return True
        divisor = (
            constant(t.args[1]) if t.kind == SPLIT and not t.args[2] else t.args[1] if t.kind == QUOTIENT else None
        )
        if divisor is not None and engine.bound(divisor)[0] > 0 and not self.relaxed.form_touched(divisor):
            if any([mentions(s, {id(self.var)}) for s in divisor.terms]):
                return False
            source = t.args[0]
            if upper:  # source <= end * divisor + divisor - 1
                top = engine.multiply(shift(end, 1), divisor)
                return self.nonpositive(engine.merge(shift(combine(source, top, -1), 1)))
            return self.nonpositive(engine.merge(combine(engine.multiply(end, divisor), source, -1)))
        found = self.factor({t: 1})
        return found is not None and self.times(found if upper else scale(found, -1), end if upper else scale(end, -1))

    def times(self, factor: Lin, limit: Lin) -> bool:
        """Adds var * factor <= limit, if the sign of the factor is known."""
        engine = self.engine
        low, high = engine.bound(factor)
        if self.relaxed.form_touched(factor):
            return False
        if low > 0:
            self.end(True, engine.quotient(limit, factor))
            return True
        if high < 0:
            self.end(False, shift(engine.quotient(shift(scale(limit, -1), -1), scale(factor, -1)), 1))
            return True
        return False

    def end(self, upper: bool, form: Lin) -> None:
        if upper:
            self.high = form if self.high is None else self.engine.minimum(self.high, form)
        else:
            self.low = form if self.low is None else self.engine.maximum(self.low, form)
