"""Patterns in expressions: linear coefficients, clipping bounds, subexpressions that occur more than once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from tilewright.arith.analyzer import Analyzer
from tilewright.arith.linear import (
    LEAF,
    PRODUCT,
    Atom,
    Lin,
    combine,
    constant,
    mentions,
    scale,
    shift,
)
from tilewright.ir import FloatImm, IntImm, PrimExpr, as_prim_expr
from tilewright.node import Visitor, on, structural_equal, structural_hash
from tilewright.tir.arithmetic import conjuncts
from tilewright.tir.expr import (
    BufferLoad,
    Call,
    Let,
    ProducerLoad,
    Reduce,
    StringImm,
    Var,
)
from tilewright.tir.substitution import substitute


def constant_step(index: PrimExpr, var: Var, analyzer: Analyzer | None = None) -> int | None:
    """By how much an index grows with a variable; None if that is not constant."""
    found = (analyzer or Analyzer()).simplify(substitute(index, {var: var + 1}) - index)
    return found.value if isinstance(found, IntImm) else None


def detect_linear_equation(expr: PrimExpr | int, var_list: Sequence[Var]) -> list[PrimExpr]:
    """[c1, ..., cn, base] with expr = c1*v1 + ... + cn*vn + base; [] if expr is not linear in the variables.

    Coefficients and base may contain other variables.
    """
    expr = as_prim_expr(expr)
    analyzer = Analyzer()
    engine = analyzer.engine
    form = engine.expand(engine.lin(expr))
    ids = {id(v): i for i, v in enumerate(var_list)}
    coefficients = [constant(0) for _ in var_list]
    base = constant(form.const)
    for t, k in form.terms.items():
        if t.kind == LEAF and isinstance(t.leaf, Var) and id(t.leaf) in ids:
            i = ids[id(t.leaf)]
            coefficients[i] = shift(coefficients[i], k)
            continue
        if not mentions(t, set(ids)):
            base = combine(base, Lin({t: 1}, 0), k)
            continue
        found = symbolic_coefficient(engine, t, ids)
        if found is None:
            return []
        i, other = found
        coefficients[i] = combine(coefficients[i], other, k)
    return [engine.emit(engine.merge(c), expr.dtype) for c in (*coefficients, base)]


def symbolic_coefficient(engine: Any, t: Atom, ids: Mapping[int, int]) -> tuple[int, Lin] | None:
    """(i, c) if the atom is the product c * v_i, and c contains no variable of the list."""
    if t.kind != PRODUCT:
        return None
    index, rest = None, constant(1)
    for f in t.args:
        s = next(iter(f.terms)) if len(f.terms) == 1 and f.const == 0 else None
        if s is not None and s.kind == LEAF and id(s.leaf) in ids:
            if index is not None:
                return None
            index = ids[id(s.leaf)]
        elif any([mentions(x, set(ids)) for x in f.terms]):
            return None
        else:
            rest = engine.multiply(rest, f)
    return None if index is None else (index, rest)


def detect_clip_bound(expr: PrimExpr, var_list: Sequence[Var]) -> list[PrimExpr | None]:
    """[min1, max1, min2, max2, ...]: bounds from a conjunction in which each condition is on one variable.

    None stands for no bound; [] if a condition is not a comparison of a variable with a bound.
    """
    analyzer = Analyzer()
    engine = analyzer.engine
    ids = {id(v): i for i, v in enumerate(var_list)}
    low: list[Lin | None] = [None] * len(var_list)
    high: list[Lin | None] = [None] * len(var_list)
    for c in conjuncts(engine.simp(expr)):
        forms = engine.orderings_of(c)
        if not forms:
            return []
        for d in forms:
            hit = [(t, k) for t, k in d.terms.items() if mentions(t, set(ids))]
            if not hit:
                continue
            if len(hit) > 1 or hit[0][0].kind != LEAF or id(hit[0][0].leaf) not in ids:
                return []
            t, k = hit[0]
            i = ids[id(t.leaf)]
            rest = Lin({s: v for s, v in d.terms.items() if s is not t}, d.const)
            if k > 0:
                limit = engine.floordiv(scale(rest, -1), k)
                old = high[i]
                high[i] = limit if old is None else engine.minimum(old, limit)
            else:
                limit = shift(engine.floordiv(shift(rest, -1), -k), 1)
                old = low[i]
                low[i] = limit if old is None else engine.maximum(old, limit)
    out: list[PrimExpr | None] = []
    for v, a, b in zip(var_list, low, high, strict=True):
        out += [
            None if a is None else engine.emit(a, v.dtype),
            None if b is None else engine.emit(b, v.dtype),
        ]
    return out


_NO_COMPUTATION = (
    IntImm,
    FloatImm,
    StringImm,
    Let,
    Reduce,
    BufferLoad,
    ProducerLoad,
    Call,
)


class _Occurrences(Visitor):
    """Counts of computations. Equal ones are counted together, under the first one."""

    def __init__(self) -> None:
        self.found: dict[int, list[list[Any]]] = {}

    @on(PrimExpr)
    def _expr(self, e: PrimExpr) -> None:
        if not e._leaf and not isinstance(e, _NO_COMPUTATION):
            same = self.found.setdefault(structural_hash(e), [])
            for entry in same:
                if structural_equal(entry[0], e):
                    entry[1] += 1
                    break
            else:
                same.append([e, 1])
        self.visit_children(e)


def detect_common_subexpr(expr: PrimExpr, threshold: int) -> dict[PrimExpr, int]:
    """(computation, number of occurrences) for those that occur at least `threshold` times in `expr`; outer ones come first.

    Variables, constants, loads and calls do not count as computations.
    """
    walk = _Occurrences()
    walk.visit(as_prim_expr(expr))
    return {e: n for entries in walk.found.values() for e, n in entries if n >= threshold}
