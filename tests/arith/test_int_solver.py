"""Linear systems: the documented results, and random systems against all points of a box."""

from __future__ import annotations

import random

import pytest

from tests.arith.systems import check_equations, check_inequalities
from tilewright import arith, tir
from tilewright.arith.int_solver import solve_inequalities_as_condition
from tilewright.ir import IntImm, Range
from tilewright.node import assert_structural_equal
from tilewright.tir import EQ, Var

x, y, z, k = (Var(s, "int32") for s in "xyzk")


def int32(value: int) -> IntImm:
    return IntImm("int32", value)


def test_a_unique_solution() -> None:
    solution = arith.solve_linear_equations([EQ(x + y, int32(20)), EQ(x - y, int32(10))], [x, y])
    assert list(solution.dst.variables) == []
    assert [int(solution.src_to_dst[v]) for v in (x, y)] == [15, 5]


def test_a_system_of_low_rank() -> None:
    solution = arith.solve_linear_equations([EQ(x + y + z, int32(15)), EQ(x + y, int32(10))], [x, y, z], {})
    (n0,) = solution.dst.variables
    for v, e in ((x, n0 + 10), (y, -n0), (z, int32(5))):
        assert_structural_equal(solution.src_to_dst[v], e)


def test_ranges_of_new_variables_follow_from_old_ones() -> None:
    ranges = {x: Range.from_min_extent(-5, 10), y: Range.from_min_extent(0, 10)}
    solution = arith.solve_linear_equations([EQ(x + y, int32(0))], [x, y], ranges)
    (n0,) = solution.dst.variables
    assert_structural_equal(solution.src_to_dst[x], n0)
    assert_structural_equal(solution.src_to_dst[y], -n0)
    assert int(solution.dst.ranges[n0].min) == -9 and int(solution.dst.ranges[n0].extent) == 10
    (left,) = solution.dst.relations
    assert isinstance(left, tir.LE) and int(left.a) == -5 and left.b is n0


def test_equations_without_a_solution() -> None:
    for equations in (
        [EQ(x + y, int32(0)), EQ(x - y, int32(0)), EQ(x, int32(5))],
        [EQ(x * 2 + y * 4, int32(3))],
    ):
        solution = arith.solve_linear_equations(equations, [x, y], {})
        assert list(solution.dst.variables) == []
        assert [int(e) for e in solution.dst.relations] == [0]
        assert not solution.src_to_dst and not solution.dst_to_src


def test_equations_with_symbols() -> None:
    solution = arith.solve_linear_equations([EQ(x * 2, k + 1), EQ(x * z, int32(9))], [x], {})
    assert_structural_equal(solution.src_to_dst[x], tir.floordiv(k + 1, 2))
    even, product = solution.dst.relations
    assert str(even) == "(k + 1) % 2 == 0" and z in tir.analysis.undefined_vars(product)


def test_two_variables_in_terms_of_each_other() -> None:
    ranges = {x: Range(-100, 100), y: Range(0, 10)}
    problem = [tir.LE(x + y, int32(20)), tir.GE(x - y, int32(10))]
    conditions = solve_inequalities_as_condition(problem, [x, y], ranges)
    for got, want in zip(conditions, (x >= y + 10, x <= 20 - y, y >= 0, y <= 5), strict=True):
        assert_structural_equal(got, want)
    solution = arith.solve_linear_inequalities(problem, [x, y], ranges)
    assert isinstance(solution, arith.IntConstraints)
    assert int(solution.ranges[y].min) == 0 and int(solution.ranges[y].extent) == 6
    assert_structural_equal(solution.ranges[x].min, y + 10)
    assert int(solution.ranges[x].extent) == 11
    moved = arith.solve_linear_inequalities(problem, [x, y], ranges, deskew_range=True)
    assert isinstance(moved, arith.IntConstraintsTransform)
    x_new, y_new = moved.dst.variables
    (relation,) = moved.dst.relations
    assert_structural_equal(relation, x_new + y_new * 2 <= 10)
    assert [(int(r.min), int(r.extent)) for r in (moved.dst.ranges[x_new], moved.dst.ranges[y_new])] == [
        (0, 11),
        (0, 6),
    ]
    assert_structural_equal(moved.src_to_dst[x], x_new + (y_new + 10))
    assert_structural_equal(moved.src_to_dst[y], y_new)
    assert_structural_equal(moved.dst_to_src[x_new], x - y - 10)
    assert moved.dst_to_src[y_new] is y


def test_inequalities_that_are_equations() -> None:
    problem = [tir.GE(x + y, int32(10)), tir.LE(x + y, int32(10)), tir.GE(x - y, int32(2)), tir.LE(x - y, int32(2))]
    solution = arith.solve_linear_inequalities(problem, [x, y])
    assert isinstance(solution, arith.IntConstraints)
    assert_structural_equal(solution.ranges[x].min, y + 2)
    assert int(solution.ranges[x].extent) == 1 and int(solution.ranges[y].extent) == 1
    assert int(solution.ranges[y].min) == 4
    moved = arith.solve_linear_inequalities(problem, [x, y], deskew_range=True)
    assert isinstance(moved, arith.IntConstraintsTransform)
    assert not moved.dst.variables and not moved.dst.ranges and not moved.dst.relations
    assert [int(moved.src_to_dst[v]) for v in (x, y)] == [6, 4]


def test_products_of_variables_are_relations() -> None:
    problem = [tir.LE(x, int32(6)), tir.GE(x, int32(6)), tir.GE(x - z * y, int32(0)), tir.LE(x - z * y, int32(0))]
    solution = arith.solve_linear_inequalities(problem, [x, y, z])
    assert isinstance(solution, arith.IntConstraints)
    assert int(solution.ranges[x].min) == 6 and int(solution.ranges[x].extent) == 1
    assert y not in solution.ranges and solution.relations


def test_inequalities_without_a_solution() -> None:
    ranges = {x: Range.from_min_extent(-20, 41)}
    problem = [-x - 4 <= -5 * x + 2, x * 4 + 5 <= x * 5]
    moved = arith.solve_linear_inequalities(problem, [x], ranges, deskew_range=True)
    assert isinstance(moved, arith.IntConstraintsTransform)
    assert not moved.dst.variables and [int(e) for e in moved.dst.relations] == [0]
    assert not moved.src_to_dst and not moved.dst_to_src
    plain = arith.solve_linear_inequalities(problem, [x], ranges)
    assert isinstance(plain, arith.IntConstraints)
    assert not plain.variables and not plain.ranges and [int(e) for e in plain.relations] == [0]


def test_a_range_that_is_no_linear_form() -> None:
    free = Var("fv", "int32")
    extent = tir.Cast("int32", 1 + tir.log(tir.Cast("float32", free)))
    solution = arith.solve_linear_inequalities([x > 3], [x], {x: Range.from_min_extent(0, extent)})
    assert isinstance(solution, arith.IntConstraints)
    assert list(solution.ranges) == [x] and not solution.relations


def test_group_bounds() -> None:
    group = arith.IntGroupBounds.from_range(Range(0, 10))
    assert (int(group.coef), int(group.lower[0]), group.equal, int(group.upper[0])) == (1, 0, (), 9)
    best = arith.IntGroupBounds(int32(2), (int32(1), int32(3)), (), (int32(9), y)).find_best_range()
    assert best is not None and (int(best.min), int(best.extent)) == (2, 3)
    assert arith.IntGroupBounds(int32(1), (int32(0),), (), ()).find_best_range() is None


def test_a_system_has_its_own_variables() -> None:
    system = arith.IntConstraints([x], {x: Range(0, 4)}, [x >= 2])
    solution = arith.solve_linear_inequalities(system)
    assert isinstance(solution, arith.IntConstraints) and int(solution.ranges[x].min) == 2
    with pytest.raises(ValueError, match="has its own variables"):
        arith.solve_linear_inequalities(system, [x])


@pytest.mark.parametrize("check", [check_equations, check_inequalities])
def test_random_systems(check: object) -> None:
    assert sum([check(random.Random(f"{seed}")) for seed in range(120)]) > 20  # type: ignore[operator]
