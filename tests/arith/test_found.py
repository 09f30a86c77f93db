"""What the arith fuzzer found, each in its smallest expression."""

from __future__ import annotations

from tests.arith.checks import Case, failure_of
from tilewright import arith, tir
from tilewright.ir import IntImm, Range
from tilewright.node import structural_equal
from tilewright.tir import Var

x, y, z = (Var(s, "int32") for s in "xyz")
f = Var("f", "float32")


def passes(kind: str, e: object, condition: object = None, **domain: range) -> bool:
    variables = {"x": x, "y": y, "z": z, "f": f}
    case = Case(kind, {variables[name]: r for name, r in domain.items()}, e, condition)
    return failure_of(case) is None


def test_known_condition_met_again_within_itself() -> None:
    inner = tir.Select(tir.GT(f, f), f, f * 2.0)
    assert passes("float", tir.Select(tir.GT(f, f), inner, f), f=range(1))


def test_remainder_by_a_negative_symbol() -> None:
    assert passes("value", tir.floormod(1, y), y=range(-8, -4))


def test_bounds_that_need_themselves() -> None:
    condition = tir.EQ(tir.truncmod(tir.max(y, 1), 12), y)
    assert passes("scope", y + 7, condition, y=range(16))


def test_square_of_what_a_scope_narrows() -> None:
    assert passes("scope", x * x <= 0, tir.EQ(x, y), x=range(-5, 6), y=range(7))


def test_lets_within_and_outside_of_a_scope() -> None:
    v = Var("v", "int32")
    e = tir.Let(v, tir.min(0, x), v + y * v)
    assert passes("scope", e, x >= 0, x=range(-3, 12), y=range(4))
    assert structural_equal(arith.Analyzer().simplify(tir.Let(v, x * 3, y)), y)
    assert structural_equal(arith.Analyzer().simplify(tir.Let(v, x * 3, v)), x * 3)


def test_conditions_beside_a_pinned_variable_may_fail_elsewhere() -> None:
    e = tir.And(tir.truncmod(1, x) < z, tir.EQ(x, 0))
    assert passes("value", e, x=range(32), z=range(3, 9))
    analyzer = arith.Analyzer()
    analyzer.enabled_extensions = arith.Extension.ApplyConstraintsToBooleanBranches
    assert structural_equal(analyzer.simplify(e), e)


def test_deduced_bounds_say_nothing_of_what_is_not_understood() -> None:
    assert arith.deduce_bound(x, tir.And(x >= 1, tir.NE(y, 0)), {}, {}).is_nothing()
    assert arith.deduce_bound(x, tir.And(x >= 1, tir.EQ(y, 0)), {}, {y: Range(0, 4)}).is_nothing()
    assert arith.deduce_bound(x, tir.Or(x >= 1, y < 2), {}, {}).is_nothing()


def test_constants_that_an_expression_cannot_hold() -> None:
    e = tir.And(x <= 2**31 - 1, tir.GT(tir.floordiv(x, 2**16), 2**15))
    assert not arith.Analyzer().can_prove(e)


def test_ends_that_their_type_cannot_hold() -> None:
    e = tir.Div(tir.bitwise_xor(IntImm("int32", 3), y) - (x - 1), IntImm("int32", 16))
    assert passes("value", e, x=range(32), y=range(-5, 6))
    assert arith.Analyzer().int_set(e, {y: Range(-5, 6)}).has_lower_bound()
