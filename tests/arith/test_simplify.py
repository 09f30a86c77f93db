"""The forms that index expressions of split, fuse and tile come to; facts, bounds and modular sets."""

from __future__ import annotations

from typing import Any

import pytest

from tilewright import arith, tir
from tilewright.arith.linear import OutOfRange
from tilewright.ir import Range
from tilewright.node import assert_structural_equal
from tilewright.tir import Var

i, j, k, x, y, z, n, m = (Var(s, "int32") for s in "ijkxyznm")
f = Var("f", "float32")
b8 = Var("b8", "int8")
FD, FM = tir.floordiv, tir.floormod


def analyzer() -> arith.Analyzer:
    out = arith.Analyzer()
    out.bind(i, Range(0, 64))
    out.bind(j, Range(0, 16))
    out.bind(k, Range(0, 32))
    out.bind(m, Range(0, n))
    return out


def expr(e: Any) -> Any:
    return e.asobject() if isinstance(e, tir.EqualOp) else e


CASES = [
    (lambda: (i * 16 + j) // 16, lambda: i),
    (lambda: (i * 16 + j) % 16, lambda: j),
    (lambda: ((i * 16 + j) * 32 + k) // 512, lambda: i),
    (lambda: ((i * 16 + j) * 32 + k) // 32 % 16, lambda: j),
    (lambda: ((i * 16 + j) * 32 + k) % 512 // 32, lambda: j),
    (lambda: x // 3 * 3 + x % 3, lambda: x),
    (lambda: x // 4 % 3, lambda: x % 12 // 4),
    (lambda: x % 12 // 4 * 4 + x % 4 + x // 12 * 12, lambda: x),
    (lambda: (x * 10 + y) // 4 * 4 + (x * 10 + y) % 4, lambda: x * 10 + y),
    (lambda: x - x // 8 * 8, lambda: x % 8),
    (lambda: (x + 7) // 4, lambda: (x + 3) // 4 + 1),
    (lambda: x // 4 // 3, lambda: x // 12),
    (lambda: x % 12 % 4, lambda: x % 4),
    (lambda: (x * 8 + j) // 16, lambda: (x * 8 + j) // 16),
    (lambda: (x * 8 + j // 2) // 16, lambda: x // 2),
    (lambda: (m + n * i) // n, lambda: i),
    (lambda: (m + n * i) % n, lambda: m),
    (lambda: x // n * n + x % n, lambda: x),
    (lambda: n * (m + 1) - n * m - n, lambda: tir.const(0, "int32")),
    (lambda: tir.min(x + 1, x), lambda: x),
    (lambda: tir.max(tir.min(x, y), y), lambda: y),
    (lambda: tir.min(i, 100), lambda: i),
    (lambda: tir.min(x * 4, 8), lambda: tir.min(x, 2) * 4),
    (lambda: x + y - x, lambda: y),
    (lambda: m < n, lambda: tir.const(1, "bool")),
    (lambda: x * 4 + k // 8 < 40, lambda: x < 10),
    (lambda: i * 16 + j < 32, lambda: i < 2),
    (lambda: tir.all(x < 5, x < 7), lambda: x < 5),
    (lambda: tir.all(x < 5, x > 7), lambda: tir.const(0, "bool")),
    (lambda: tir.any(x < 5, x >= 5), lambda: tir.const(1, "bool")),
    (lambda: tir.likely(i < 64), lambda: tir.const(1, "bool")),
    (lambda: tir.if_then_else(i < 3, i < 4, j < 99), lambda: tir.const(1, "bool")),
    (lambda: tir.Select(x < 5, tir.min(x, 9), y), lambda: tir.Select(x < 5, x, y)),
    (lambda: f + 0.0, lambda: f),
    (lambda: b8 - b8, lambda: tir.const(0, "int8")),
    (lambda: tir.Ramp(i * 4, 1, 4) // tir.Broadcast(tir.const(16, "int32"), 4), lambda: tir.Broadcast(i // 4, 4)),
    (lambda: tir.Ramp(x, 1, 4) + tir.Broadcast(y, 4), lambda: tir.Ramp(x + y, 1, 4)),
    (lambda: tir.Broadcast(x, 4) * tir.Ramp(y, 2, 4), lambda: tir.Ramp(y * x, x * 2, 4)),
    (lambda: x << 3, lambda: x * 8),
    (lambda: x & 7, lambda: x % 8),
    (lambda: tir.Cast("int32", tir.Cast("int64", x)), lambda: x),
]


@pytest.mark.parametrize("case", range(len(CASES)))
def test_form(case: int) -> None:
    before, after = CASES[case]
    assert_structural_equal(analyzer().simplify(expr(before())), expr(after()))


def test_unchanged_is_the_same_object() -> None:
    for e in (i * 4 + x, (x * 8 + y) // 16, tir.min(x, y) + 3, x < y, tir.Select(x < y, x, y * 2)):
        assert analyzer().simplify(e) is e


def test_equality_splits_into_its_digits() -> None:
    got = analyzer().simplify(expr(i * 16 + j == 0))
    assert_structural_equal(got, tir.And(tir.EQ(i, tir.const(0, "int32")), tir.EQ(j, tir.const(0, "int32"))))


def test_constraint_scope_is_left_again() -> None:
    a = analyzer()
    with a.constraint_scope(tir.all(x >= 4, x < 8)):
        assert a.can_prove(x // 4 < 2)
        assert a.const_int_bound(x).max_value == 7
        with a.constraint_scope(expr(y % 4 == 3)):
            assert a.modular_set(y * 2).coeff == 8 and a.modular_set(y * 2).base == 6
    assert not a.can_prove(x // 4 < 2)
    assert a.modular_set(y).coeff == 1


def test_transitive_facts() -> None:
    a = arith.Analyzer()
    with a.constraint_scope(x < y), a.constraint_scope(y < z):
        assert a.can_prove(x + 1 < z)
        assert not a.can_prove(x + 2 < z)


def test_binding_again_forgets() -> None:
    a = arith.Analyzer()
    a.bind(x, Range(0, 4))
    assert a.can_prove(x < 4)
    a.bind(x, Range(0, 9))
    assert not a.can_prove(x < 4)
    a.bind(y, x * 2)
    assert a.can_prove_equal(y // 2, x)


def test_a_loop_says_nothing_of_its_extent() -> None:
    a = arith.Analyzer()
    a.bind(m, Range(0, n))
    assert not a.can_prove(n > 0)


def test_update_refuses_a_contradiction() -> None:
    a = arith.Analyzer()
    a.update(x, arith.ConstIntBound(0, 4))
    with pytest.raises(ValueError, match=r"bound of x is already \(0, 4\)"):
        a.update(x, arith.ConstIntBound(7, 9))
    a.update(x, arith.ConstIntBound(7, 9), override=True)
    assert a.can_prove_greater_equal(x, 7)


def test_constants_that_do_not_fit_stay_written() -> None:
    e = (x * 2**20) * 2**20
    assert arith.Analyzer().simplify(e) is e
    assert issubclass(OutOfRange, Exception)


def test_linear_equations() -> None:
    got = arith.detect_linear_equation(i * 4 + j * n + 7 + m, [i, j])
    for a, b in zip(got, (tir.const(4, "int32"), n, m + 7), strict=True):
        assert_structural_equal(a, b)
    assert arith.detect_linear_equation(i * j, [i, j]) == []
    assert arith.detect_linear_equation(i // 2, [i]) == []


def test_clip_bounds() -> None:
    low_i, high_i, low_j, high_j = arith.detect_clip_bound(tir.all(i * 2 < 7, i >= n, j < 4), [i, j])
    assert_structural_equal(low_i, n)
    assert int(high_i) == 3 and low_j is None and int(high_j) == 3
    assert arith.detect_clip_bound(tir.all(i + j < 7), [i, j]) == []


def test_deduced_bounds() -> None:
    got = arith.deduce_bound(i, i * 4 + j < n, {}, {j: Range(0, 4)})
    assert_structural_equal(got.max_value, n // 4 - 1)
    assert not got.has_lower_bound()
    assert arith.deduce_bound(i, x < n, {}, {}).is_nothing()


def test_deep_expressions() -> None:
    total: Any = x
    least: Any = x
    for d in range(1500):
        total = tir.Add(total, y)
        least = tir.Min(least, (x, y, z)[d % 3])
    assert_structural_equal(arith.Analyzer().simplify(total), x + y * 1500)
    assert_structural_equal(arith.Analyzer().simplify(least), tir.min(tir.min(x, y), z))


def test_select_evaluates_both_branches() -> None:
    """What holds only under the condition must not reach a load: the other branch runs it as well."""
    a = tir.decl_buffer((6,), "float32", name="A")
    load = a[tir.min(x, 5)]
    e = tir.Select(x < 6, load, tir.const(0.0, "float32"))
    assert arith.Analyzer().simplify(e) is e
    lazy = arith.Analyzer().simplify(tir.if_then_else(x < 6, load, tir.const(0.0, "float32")))
    assert_structural_equal(lazy, tir.if_then_else(x < 6, a[x], tir.const(0.0, "float32")))


def test_comparisons_of_elements_compute_no_new_sums() -> None:
    """`a[0] > b[0] - c[0]` was written as `b[0] < c[0] + a[0]`, which overflows where a[0] is the least number."""
    a, b, c = [tir.decl_buffer((1,), "int32", name=n)[0] for n in "abc"]
    for e in (a > b - c, tir.EQ(a, b - c), a + b <= c):
        assert_structural_equal(arith.Analyzer().simplify(e), e)
    assert_structural_equal(arith.Analyzer().simplify(a - b > 0), b < a)
    assert_structural_equal(arith.Analyzer().simplify(a + b < a + c), b < c)


def test_extremes_of_elements_compute_no_new_sums() -> None:
    a, b, c = [tir.decl_buffer((1,), "int32", name=n)[0] for n in "abc"]
    half, odd = tir.floordiv(a, 2), tir.floormod(a, 2)
    for e in (tir.min(a, b) - a, a - tir.max(a, b), half + odd, tir.max(a, b) + c <= a * 2, tir.min(a - b, 0) + b):
        assert_structural_equal(arith.Analyzer().simplify(e), e)
    assert_structural_equal(arith.Analyzer().simplify(tir.max(a, b) <= c), tir.And(a <= c, b <= c))
    small = tir.Cast("int32", tir.decl_buffer((1,), "int8", name="d")[0])
    assert_structural_equal(arith.Analyzer().simplify(tir.min(small, x) - small), tir.min(x - small, 0))


def test_differences_that_no_integer_holds() -> None:
    a, far = arith.Analyzer(), tir.const((1 << 63) - 1, "int64")
    p, q = tir.Var("p", "int64"), tir.Var("q", "int64")
    assert not a.can_prove_equal(p + far, q - 5)
    assert not a.can_prove((p + far).equal(q - 5))
    assert not a.can_prove(p + far < q - 5)
