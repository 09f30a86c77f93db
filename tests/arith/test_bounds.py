"""Deduced bounds, clipping bounds, linear coefficients and integer sets, as the documentation of classic TVM shows them."""

from __future__ import annotations

from typing import Any

import pytest

from tilewright import arith, tir
from tilewright.arith import IntervalSet
from tilewright.ir import IntImm
from tilewright.tir import EQ, Var

a, b, c, d, x, y, z = (Var(s, "int32") for s in "abcdxyz")
HINTS = {b: IntervalSet(2, 3), c: IntervalSet(10, 15), d: IntervalSet(-3, -1)}
LOW, HIGH = arith.neg_inf(), arith.pos_inf()


def same(got: Any, want: Any) -> bool:
    if want is LOW or want is HIGH:
        return got is want
    return arith.Analyzer().can_prove_equal(got, want)


def deduced(condition: Any, hints: Any = None, relaxed: Any = None) -> Any:
    return arith.deduce_bound(a, condition, HINTS if hints is None else hints, relaxed or {})


def test_bounds_with_symbolic_factors() -> None:
    zero = IntImm("int32", 0)
    for e, limit in (((-b) * a + c - d, tir.floordiv(d - c, b * -1)), (d * a + c - b, tir.floordiv(b - c, d))):
        for condition in (e >= 0, zero <= e):
            assert same(deduced(condition).max_value, limit)
    for condition in (a * 4 + b < c, c > a * 4 + b):
        assert same(deduced(condition).max_value, tir.floordiv(c - 1 - b, 4))
    assert deduced(tir.max(5, a * 4) < 0).is_nothing()
    least = deduced(a * c - b - d >= 0, relaxed={b: HINTS[b], d: HINTS[d]})
    assert int(least.min_value) == 1 and least.max_value is HIGH
    assert same(deduced(tir.floordiv(a * 9 + b, 3) < c, relaxed={b: HINTS[b]}).max_value, tir.floordiv(c + 1, 3) - 1)
    assert int(deduced(tir.floordiv(a, 2) < 5, {}).max_value) == 9


def test_bounds_from_equations() -> None:
    for condition, value in ((EQ(a, b), b), (EQ(10, a), 10), (EQ(a - c, b + d), b + d + c), (EQ(4 * a, -16), -4)):
        found = deduced(condition, {})
        assert same(found.min_value, value) and same(found.max_value, value)
    assert deduced(EQ(a, b), relaxed={b: HINTS[b]}).is_nothing()
    assert deduced(EQ(4 * a, 17), {}).is_nothing()


@pytest.mark.parametrize("low", [0, 1, 2, -3])
@pytest.mark.parametrize("factor", [4, -4, 3])
def test_relaxed_variables_take_their_worst_values(low: int, factor: int) -> None:
    over = IntervalSet(low, low + 4)
    for condition in (b + a * factor + 3 < 17, b + a * factor + 3 > 17, b + a * factor + 3 <= 17):
        found = deduced(condition, {b: over}, {b: over})
        ends = [e for e in (found.min_value, found.max_value) if e is not LOW and e is not HIGH]
        assert len(ends) == 1
        for inside, holds in ((int(ends[0]), True), (int(ends[0]) + (1 if found.min_value is LOW else -1), False)):
            every = [
                arith.Analyzer().can_prove(tir.stmt_functor.substitute(condition, {a: inside, b: value}))
                for value in range(low, low + 5)
            ]
            assert all(every) == holds


def test_what_is_not_understood_gives_nothing() -> None:
    load = tir.BufferLoad(tir.decl_buffer([16], "int32"), [a])
    for e in (tir.floormod(a, 16), tir.Max(a, 16), load, a * a):
        assert deduced(e < 10, {}).is_nothing()


SETS: list[tuple[Any, dict[Any, Any], Any, Any]] = [
    (x + y, {x: (0, 10)}, y, y + 10),
    (x + y, {x: (0, 10), y: (1, 11)}, 1, 21),
    (x - y, {x: (0, 10), y: (1, 11)}, -11, 9),
    (x * y, {x: (0, 10), y: (1, 11)}, 0, 110),
    (x * y, {x: (0, 10)}, tir.min(0, y * 10), tir.max(0, y * 10)),
    (x * -2, {x: (1, 10)}, -20, -2),
    (tir.truncdiv(x, 3), {x: (0, 10)}, 0, 3),
    (tir.truncdiv(x, 3), {x: (-10, 10)}, -3, 3),
    (tir.truncmod(x, 4), {x: (0, 10)}, 0, 3),
    (tir.truncmod(x, 4), {x: (-9, 10)}, -3, 3),
    (tir.floordiv(x, 3), {x: (-10, 10)}, -4, 3),
    (tir.floormod(x, 10), {x: (2, 7)}, 2, 7),
    (tir.floormod(x, 10), {x: (3, y)}, 0, 9),
    (tir.floormod(x, 10), {x: (-10, 10)}, 0, 9),
    (tir.floormod(x, 8), {x: (y * 8, y * 8 + 3)}, 0, 3),
    (tir.max(x, y), {x: (0, 10), y: (1, 11)}, 1, 11),
    (tir.min(x, y), {x: (0, 10), y: (1, 11)}, 0, 10),
    (tir.Select(x > 0, x - 1, x + 1), {x: (0, 10)}, -1, 11),
    (x + y + z, {x: (0, HIGH)}, y + z, HIGH),
    (-x, {x: (0, HIGH)}, LOW, 0),
    (tir.Ramp(x, 2, 4), {}, x, x + 6),
]


@pytest.mark.parametrize("case", range(len(SETS)))
def test_sets(case: int) -> None:
    e, domain, low, high = SETS[case]
    found = arith.Analyzer().int_set(e, {v: IntervalSet(*ends) for v, ends in domain.items()})
    assert same(found.min_value, low) and same(found.max_value, high), found


def test_clip_bounds() -> None:
    low, high = arith.detect_clip_bound(tir.all(a * 1 < b * 6, a - 1 > 0), [a])
    assert same(low, 2) and same(high, b * 6 - 1)
    assert arith.detect_clip_bound(tir.all(a * 1 < b * 6, a - 1 > 0), [a, b]) == []
    found = arith.detect_clip_bound(tir.all(a + 10 * c <= 20, b - 1 > 0), [a, b])
    assert same(found[1], 20 - 10 * c) and same(found[2], 2)
    assert same(arith.detect_clip_bound(tir.all(tir.Not(a * 1 > b * 6), a - 1 > 0), [a])[1], b * 6)
    assert same(arith.detect_clip_bound(a * 3 >= c, [a])[0], tir.floordiv(c + 2, 3))


def test_linear_coefficients() -> None:
    for e, want in (
        (a * 4 + b * 6 + 7, (4, b * 6 + 7)),
        (a * 4 + (a + 1) + b * 6 + 7, (5, b * 6 + 8)),
        (a * b + 7, (b, 7)),
        (b * 7, (0, b * 7)),
    ):
        assert all(same(g, w) for g, w in zip(arith.detect_linear_equation(e, [a]), want, strict=True))
    assert arith.detect_linear_equation(a * 4 * (a + 1) + b * 6 + 7, [a]) == []
    assert arith.detect_linear_equation(tir.floordiv(c, a), [a]) == []
    (base,) = arith.detect_linear_equation(b * 7, [])
    assert same(base, b * 7)
