"""Sets of integers, and the regions that loops access, under the classic names."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tilewright.arith.analyzer import Analyzer
from tilewright.arith.intervals import Evaluator, Interval, IntervalSet, as_set
from tilewright.arith.intervals import IntSet as IntSet
from tilewright.arith.intervals import eval_set as eval_set
from tilewright.arith.intervals import intersect as intersect
from tilewright.arith.intervals import neg_inf as neg_inf
from tilewright.arith.intervals import pos_inf as pos_inf
from tilewright.arith.intervals import union as union
from tilewright.arith.intervals import union_lower_bound as union_lower_bound
from tilewright.arith.iter_affine_map import detect_iter_map
from tilewright.arith.iterators.nodes import IterMapLevel
from tilewright.arith.linear import Lin, combine, scale, shift
from tilewright.ir import PrimExpr, Range, as_prim_expr
from tilewright.tir.arithmetic import conjuncts
from tilewright.tir.expr import Var


def _bounded_by_facts(a: Lin, facts: list[Lin], ends: Interval, evaluator: Evaluator) -> Interval:
    """Ends narrowed by conditions d <= 0: a <= a - d, and a >= a + d."""
    low, high = ends
    engine = evaluator.engine
    for d in facts:
        if not any([t in a.terms for t in d.terms]):
            continue
        above = evaluator.form(engine.merge(combine(a, d, -1)))[1]
        if above is not None and (high is None or engine.bound(engine.merge(combine(above, high, -1)))[1] <= 0):
            high = above
        below = evaluator.form(engine.merge(combine(a, d)))[0]
        if below is not None and (low is None or engine.bound(engine.merge(combine(low, below, -1)))[1] <= 0):
            low = below
    return low, high


def estimate_region_upper_bound(
    region: Sequence[Range],
    var_dom: Mapping[Var, Range],
    predicate: PrimExpr | bool = True,
    analyzer: Analyzer | None = None,
) -> list[IntervalSet]:
    """Intervals, one for each dimension, that contain every index of the region for all values of the variables."""
    analyzer = analyzer or Analyzer()
    engine = analyzer.engine
    evaluator = Evaluator(var_dom, engine)
    facts = [d for c in conjuncts(engine.simp(as_prim_expr(predicate))) for d in engine.orderings_of(c)]
    out = []
    for r in region:
        start, extent = engine.lin(r.min), engine.lin(r.extent)
        last = engine.merge(combine(shift(start, -1), extent))
        low = _bounded_by_facts(start, facts, evaluator.form(start), evaluator)[0]
        high = _bounded_by_facts(last, facts, evaluator.form(last), evaluator)[1]
        out.append(as_set((low, high), r.min.dtype, engine))
    return out


def estimate_region_strict_bound(
    region: Sequence[Range],
    var_dom: Mapping[Var, Range],
    predicate: PrimExpr | bool = True,
    analyzer: Analyzer | None = None,
) -> list[IntervalSet] | None:
    """Intervals that contain exactly the indices of the region; None if they are unknown."""
    analyzer = analyzer or Analyzer()
    engine = analyzer.engine
    found = detect_iter_map(
        [r.min for r in region],
        var_dom,
        predicate,
        IterMapLevel.Surjective,
        False,
        analyzer=analyzer,
        strict=True,
    )
    if len(found.indices) != len(region):
        return None
    out = []
    for r, total in zip(region, found.indices, strict=True):
        base, extent = engine.lin(total.base), engine.lin(r.extent)
        low, high = base, combine(shift(base, -1), extent)
        if len(total.args) > 1:
            return None
        for split in total.args:
            step = engine.lin(split.scale)
            reach = engine.multiply(shift(engine.lin(split.extent), -1), step)
            bound = engine.bound(step)
            size = step if bound[0] > 0 else scale(step, -1)
            if (bound[0] <= 0 <= bound[1]) or not engine.prove_nonpositive(combine(size, extent, -1)):
                return None
            low, high = (low, combine(high, reach)) if bound[0] > 0 else (combine(low, reach), high)
        out.append(as_set((engine.merge(low), engine.merge(high)), r.min.dtype, engine))
    return out


def estimate_region_lower_bound(
    region: Sequence[Range],
    var_dom: Mapping[Var, Range],
    predicate: PrimExpr | bool = True,
    analyzer: Analyzer | None = None,
) -> list[IntervalSet] | None:
    """Intervals in which every index is accessed; None if they are unknown."""
    return estimate_region_strict_bound(region, var_dom, predicate, analyzer)
