"""Linear structure of expressions: coefficients, clipping bounds, and bounds deduced for one variable."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from tilewright.arith.analyzer import Analyzer
from tilewright.arith.int_set import Evaluator, IntervalSet, IntSet, _as_set
from tilewright.arith.linear import LEAF, Atom, Lin, combine, constant, scale, shift
from tilewright.ir import PrimExpr, as_prim_expr
from tilewright.node import post_order_visit
from tilewright.tir.arithmetic import conjuncts
from tilewright.tir.expr import Var


def mentions(t: Atom, variables: set[int]) -> bool:
    """Whether the atom depends on one of the variables (by id)."""
    if t.kind != LEAF:
        return any([mentions(s, variables) for a in t.args if isinstance(a, Lin) for s in a.terms])
    if isinstance(t.leaf, Var):
        return id(t.leaf) in variables
    hit: list[int] = []
    post_order_visit(t.leaf, lambda x: hit.append(1) if id(x) in variables else None)
    return bool(hit)


def detect_linear_equation(expr: PrimExpr | int, var_list: Sequence[Var]) -> list[PrimExpr]:
    """[c1, ..., cn, base] with expr = c1*v1 + ... + cn*vn + base; [] when expr is not linear in the variables.

    Coefficients and base may hold other variables.
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
        found = _symbolic_coefficient(engine, t, ids)
        if found is None:
            return []
        i, other = found
        coefficients[i] = combine(coefficients[i], other, k)
    return [engine.emit(engine.merge(c), expr.dtype) for c in (*coefficients, base)]


def _symbolic_coefficient(engine: Any, t: Atom, ids: Mapping[int, int]) -> tuple[int, Lin] | None:
    """(i, c) when the atom is the product c * v_i and c holds no variable of the list."""
    from tilewright.arith.linear import PRODUCT

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
    """[min1, max1, min2, max2, ...]: bounds that a conjunction gives, each condition on one variable.

    None stands for no bound; [] when a condition is not of the form `variable against bound`.
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
                limit = scale(engine.floordiv(scale(rest, -1), -k), -1)
                old = low[i]
                low[i] = limit if old is None else engine.maximum(old, limit)
    out: list[PrimExpr | None] = []
    for v, a, b in zip(var_list, low, high, strict=True):
        out += [None if a is None else engine.emit(a, v.dtype), None if b is None else engine.emit(b, v.dtype)]
    return out


def deduce_bound(var: Var, cond: PrimExpr, hint_map: Mapping[Any, Any], relax_map: Mapping[Any, Any]) -> IntSet:
    """The values of `var` for which `cond` holds for every value of the variables in `relax_map`.

    `hint_map` gives ranges of other variables, which only help to simplify. Nothing is returned when the condition
    cannot hold, everything when nothing can be said of `var`.
    """
    from tilewright.ir import Range

    analyzer = Analyzer()
    for v, domain in hint_map.items():
        if isinstance(domain, Range) and isinstance(v, Var) and v is not var:
            analyzer.bind(v, domain)
    engine = analyzer.engine
    relaxed = Evaluator(relax_map, analyzer)
    t = engine.leaf(var)
    low: Lin | None = None
    high: Lin | None = None
    known = False
    for c in conjuncts(engine.simp(as_prim_expr(cond))):
        from tilewright.arith.logic import FALSE

        if c is FALSE:
            return IntSet.nothing()
        for d in engine.orderings_of(c):
            k = d.terms.get(t, 0)
            rest = Lin({s: v for s, v in d.terms.items() if s is not t}, d.const)
            if any([mentions(s, {id(var)}) for s in rest.terms]) or k == 0:
                continue
            worst = relaxed.form(rest)[1]
            if worst is None:
                return IntSet.nothing()
            known = True
            limit = engine.floordiv(scale(worst, -1), abs(k))
            if k > 0:
                high = limit if high is None else engine.minimum(high, limit)
            else:
                limit = scale(limit, -1)
                low = limit if low is None else engine.maximum(low, limit)
    if not known:
        return IntSet.everything()
    if low is not None and high is not None and engine.prove_nonpositive(combine(shift(high, 1), low, -1)):
        return IntSet.nothing()
    out: IntervalSet = _as_set((low, high), var.dtype, engine)
    return out
