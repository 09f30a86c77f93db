"""Every name of `tvm.arith` v0.18 with its parameters and defaults, and what the small ones among them do."""

from __future__ import annotations

import importlib
import inspect

import pytest

import tilewright as tvm
from tilewright import arith, tir
from tilewright.ir import IntImm, Range
from tilewright.tir import Var

x, y, z, n = (Var(s, "int32") for s in "xyzn")

SIGNATURES = {
    "Analyzer": "",
    "ConstIntBound": "min_value, max_value",
    "ModularSet": "coeff, base",
    "IntervalSet": "min_value, max_value",
    "IntGroupBounds": "coef, lower, equal, upper",
    "IntConstraints": "variables, ranges, relations",
    "IntConstraintsTransform": "src, dst, src_to_dst, dst_to_src",
    "IterMark": "source, extent",
    "IterSplitExpr": "source, lower_factor, extent, scale",
    "IterSumExpr": "args, base",
    "deduce_bound": "var, cond, hint_map, relax_map",
    "detect_linear_equation": "expr, var_list",
    "detect_clip_bound": "expr, var_list",
    "detect_common_subexpr": "expr, threshold",
    "solve_linear_equations": "equations, variables=None, ranges=None",
    "solve_linear_inequalities": "equations, variables=None, ranges=None, deskew_range=False",
    "estimate_region_lower_bound": "region, var_dom, predicate",
    "estimate_region_strict_bound": "region, var_dom, predicate",
    "estimate_region_upper_bound": "region, var_dom, predicate",
    "detect_iter_map": "indices, input_iters, predicate=True, check_level=1, simplify_trivial_iterators=True",
    "iter_map_simplify": "indices, input_iters, predicate=True, check_level=1, simplify_trivial_iterators=True",
    "normalize_iter_map_to_expr": "expr",
    "normalize_to_iter_sum": "index, input_iters",
    "subspace_divide": "bindings, input_iters, sub_iters, predicate=True, check_level=1, simplify_trivial_iterators=True",
    "inverse_affine_iter_map": "iter_map, outputs",
    "Analyzer.const_int_bound": "self, expr",
    "Analyzer.const_int_bound_is_bound": "self, var",
    "Analyzer.modular_set": "self, expr",
    "Analyzer.simplify": "self, expr, steps=2",
    "Analyzer.rewrite_simplify": "self, expr",
    "Analyzer.reset_rewrite_simplify_stats": "self",
    "Analyzer.canonical_simplify": "self, expr",
    "Analyzer.int_set": "self, expr, dom_map",
    "Analyzer.can_prove": "self, expr, strength=0",
    "Analyzer.bind": "self, var, expr",
    "Analyzer.constraint_scope": "self, constraint",
    "Analyzer.update": "self, var, info, override=False",
    "Analyzer.can_prove_equal": "self, lhs, rhs",
    "IntGroupBounds.from_range": "rng",
    "IntGroupBounds.find_best_range": "self",
    "IntSet.is_nothing": "self",
    "IntSet.is_everything": "self",
    "IntSet.vector": "vec",
    "IntSet.single_point": "point",
}
MODULES = {
    "analyzer": ["Analyzer", "ConstIntBound", "ConstraintScope", "Extension", "ModularSet", "ProofStrength"],
    "bound": ["deduce_bound"],
    "int_set": [
        "IntSet",
        "IntervalSet",
        "estimate_region_lower_bound",
        "estimate_region_strict_bound",
        "estimate_region_upper_bound",
        "neg_inf",
        "pos_inf",
        "union_lower_bound",
    ],
    "int_solver": [
        "IntConstraints",
        "IntConstraintsTransform",
        "IntGroupBounds",
        "solve_linear_equations",
        "solve_linear_inequalities",
    ],
    "iter_affine_map": [
        "IterMapExpr",
        "IterMapLevel",
        "IterMark",
        "IterSplitExpr",
        "IterSumExpr",
        "detect_iter_map",
        "inverse_affine_iter_map",
        "iter_map_simplify",
        "normalize_iter_map_to_expr",
        "normalize_to_iter_sum",
        "subspace_divide",
    ],
    "pattern": ["detect_clip_bound", "detect_common_subexpr", "detect_linear_equation"],
}
REST = ["IntSet", "IterMapExpr", "ProofStrength", "Extension", "PresburgerSet"]


@pytest.mark.parametrize("name", SIGNATURES)
def test_signature(name: str) -> None:
    target = arith
    for part in name.split("."):
        target = getattr(target, part)
    found = list(inspect.signature(target).parameters.values())
    for want, got in zip(SIGNATURES[name].split(", ") if SIGNATURES[name] else [], found, strict=False):
        parameter, _, default = want.partition("=")
        assert got.name == parameter
        if default:
            value = got.default
            assert str(int(value) if isinstance(value, int) and default.isdigit() else value) == default
    needed = [p.name for p in found[len(SIGNATURES[name].split(", ")) if SIGNATURES[name] else 0 :]]
    assert all([p.default is not inspect.Parameter.empty for p in found if p.name in needed]), needed


@pytest.mark.parametrize("module", MODULES)
def test_modules(module: str) -> None:
    found = importlib.import_module(f"tilewright.arith.{module}")
    for name in MODULES[module]:
        assert hasattr(found, name), name
        if name not in ("ConstraintScope", "neg_inf", "pos_inf", "union_lower_bound", "IterMapLevel"):
            assert getattr(arith, name) is getattr(found, name)


def test_the_rest() -> None:
    for name in REST:
        assert hasattr(tvm.arith, name) and name in arith.__all__
    assert [e.value for e in arith.ProofStrength] == [0, 1]
    assert {e.name: e.value for e in arith.Extension} == {
        "TransitivelyProveInequalities": 1,
        "ConvertBooleanToAndOfOrs": 2,
        "ApplyConstraintsToBooleanBranches": 4,
        "ComparisonOfProductAndSum": 8,
    }
    assert arith.Extension.NoExtensions.value == 0
    assert arith.ConstIntBound.POS_INF == 2**63 - 1 and arith.ConstIntBound.NEG_INF == -(2**63) + 1
    assert {e.name: e.value for e in arith.IterMapLevel} == {"Bijective": 0, "Surjective": 1, "NoCheck": 3}


def test_statistics() -> None:
    analyzer = arith.Analyzer()
    assert analyzer.rewrite_simplify_stats.nodes_visited == 0
    f = Var("f", "float32")
    analyzer.rewrite_simplify(tir.Add(tir.Select(x < 3, f, f), tir.const(0.0, "float32")))
    with analyzer.constraint_scope(x < 3):
        pass
    stats = analyzer.rewrite_simplify_stats
    assert stats.nodes_visited > 2 and stats.rewrites_performed > 0 and stats.constraints_entered > 0
    assert stats.rewrites_attempted >= stats.rewrites_performed and stats.max_recursive_depth >= 1
    analyzer.reset_rewrite_simplify_stats()
    assert analyzer.rewrite_simplify_stats.rewrites_attempted == 0


def test_extensions_are_kept_and_change_the_form() -> None:
    analyzer = arith.Analyzer()
    assert analyzer.enabled_extensions == arith.Extension.NoExtensions
    e = tir.Or(tir.And(x < 3, y < 4), z < 5)
    assert str(analyzer.simplify(e)) == "x < 3 and y < 4 or z < 5"
    analyzer.enabled_extensions = arith.Extension.ConvertBooleanToAndOfOrs
    assert analyzer.enabled_extensions is arith.Extension.ConvertBooleanToAndOfOrs
    assert str(analyzer.simplify(e)) == "(x < 3 or z < 5) and (y < 4 or z < 5)"


def test_a_constraint_scope_can_be_entered_again() -> None:
    analyzer = arith.Analyzer()
    scope = analyzer.constraint_scope(x < 3)
    assert isinstance(scope, arith.analyzer.ConstraintScope)
    for _ in range(2):
        with scope:
            assert analyzer.can_prove(x < 5)
        assert not analyzer.can_prove(x < 5)


def test_a_variable_bound_anew_within_a_scope() -> None:
    analyzer = arith.Analyzer()
    analyzer.bind(x, Range(0, 4))
    assert analyzer.can_prove(x < 4)
    with analyzer.constraint_scope(y < 3):
        analyzer.bind(x, Range(0, 10))
        assert not analyzer.can_prove(x < 4)
    assert not analyzer.can_prove(x < 4) and analyzer.can_prove(x < 10)
    with analyzer.constraint_scope(y < 3):
        analyzer.bind(z, Range(0, n))
    assert analyzer.can_prove(z < n)


def test_updates_with_symbolic_intervals() -> None:
    analyzer = arith.Analyzer()
    analyzer.update(x, arith.IntervalSet(n, arith.pos_inf()))
    analyzer.update(y, arith.IntervalSet(arith.neg_inf(), n - 1))
    assert analyzer.can_prove(x > y)
    assert analyzer.const_int_bound(x).max_value == arith.ConstIntBound.POS_INF


def test_strength() -> None:
    analyzer = arith.Analyzer()
    analyzer.bind(x, Range(0, n))
    assert analyzer.can_prove(x < n, arith.ProofStrength.SYMBOLIC_BOUND)
    assert analyzer.can_prove(tir.all(x < n, x >= 0), strength=arith.ProofStrength.SYMBOLIC_BOUND)
    assert not analyzer.can_prove(x + 1 < n, arith.ProofStrength.SYMBOLIC_BOUND)


def test_union_lower_bound() -> None:
    low, high = arith.int_set.neg_inf(), arith.int_set.pos_inf()
    both = arith.int_set.union_lower_bound([arith.IntervalSet(low, 0), arith.IntervalSet(1, high)])
    assert both.min_value.same_as(low) and both.max_value.same_as(high)
    apart = arith.int_set.union_lower_bound(
        [arith.IntervalSet(0, 3), arith.IntervalSet(9, 12), arith.IntervalSet(4, 5)]
    )
    assert (int(apart.min_value), int(apart.max_value)) == (0, 5)
    symbols = arith.int_set.union_lower_bound([arith.IntervalSet(n, n + 3), arith.IntervalSet(n + 4, n + 7)])
    assert symbols.min_value is n and str(symbols.max_value) == "n + 7"
    assert arith.int_set.union_lower_bound([]).is_nothing()


def test_common_subexpressions() -> None:
    c = x + y
    found = arith.detect_common_subexpr((c * 2 + z) * (x + y) + tir.floordiv(c * 2, 3), 2)
    assert {str(e): times for e, times in found.items()} == {"(x + y) * 2": 2, "x + y": 3}
    assert found[c] == 3
    assert not arith.detect_common_subexpr(x + y, 2)


def test_presburger_sets() -> None:
    inside = arith.PresburgerSet(tir.all(x >= 0, x < y, y < 4))
    assert not inside.is_nothing() and not inside.is_everything()
    assert inside.intersect(arith.PresburgerSet(x > 2)).is_nothing()
    assert inside.intersect(arith.PresburgerSet(tir.any(x > 2, x < 0))).is_nothing()
    assert not inside.intersect(arith.PresburgerSet(tir.any(x > 2, x < 1))).is_nothing()
    assert arith.PresburgerSet(x < 3).union(arith.PresburgerSet(x > 2)).is_everything()
    assert arith.PresburgerSet().is_everything() and isinstance(inside, arith.IntSet)
    assert arith.PresburgerSet(IntImm("bool", 0)).is_nothing()
