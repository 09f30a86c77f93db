"""Well-formedness, variables, features, completeness of matches."""

from __future__ import annotations

import pytest

from tilewright import relay
from tilewright.ir import TypeVar
from tilewright.relay.analysis import (
    Feature,
    all_dtypes,
    all_type_vars,
    alpha_equal,
    bound_type_vars,
    bound_vars,
    check_constant,
    detect_feature,
    free_type_vars,
    free_vars,
    unmatched_cases,
    well_formed,
)
from tilewright.relay.transform import infer_types
from tilewright.support.errors import DiagnosticError


def test_variables_of_matches() -> None:
    mod = relay.IRModule()
    relay.Prelude(mod)
    e = relay.parse_expr(
        "free_var %l: List[int32]; free_var %z: int32; match (%l) { Cons(%x, Cons(%y, _)) => %x + %y, Nil => %z }", mod
    )
    assert [v.name_hint for v in free_vars(e)] == ["l", "z"]
    assert [v.name_hint for v in bound_vars(e)] == ["x", "y"]


def test_type_variables() -> None:
    a, b = TypeVar("A"), TypeVar("B")
    x = relay.var("x", relay.TupleType((a, b)))
    f = relay.Function([x], x, None, [a])
    assert free_type_vars(f) == [b] and bound_type_vars(f) == [a] and all_type_vars(f) == [a, b]
    assert free_type_vars(relay.FuncType((a,), b, (a,))) == [b]


def test_alpha_equality() -> None:
    f, g = (relay.parse_expr(f"fn [{t}] (%{v}: {t}) {{ %{v} }}") for t, v in (("A", "x"), ("B", "y")))
    h = relay.parse_expr("fn [A] (%x: A) { (%x, %x) }")
    assert alpha_equal(f, g) and not alpha_equal(f, h)
    x, y = relay.var("x"), relay.var("y")
    assert not alpha_equal(relay.Tuple([x, y]), relay.Tuple([y, x]))


def test_well_formed() -> None:
    x, y = relay.var("x", shape=(2,)), relay.var("y")
    shared = relay.exp(x)
    assert well_formed(relay.Function([x], relay.Let(y, shared, shared + y)))
    assert well_formed(x + y)
    twice = relay.Let(y, x, relay.Let(y, x, y))
    assert not well_formed(twice)
    with pytest.raises(DiagnosticError) as caught:
        well_formed(twice, report=True)
    assert str(caught.value) == "the program is not well formed\n%y is bound twice"


def test_use_outside_of_the_scope() -> None:
    x, y = relay.var("x", shape=(2,)), relay.var("y")
    inner = relay.tanh(y)
    leaked = relay.Tuple([relay.Let(y, x, inner), inner])
    with pytest.raises(DiagnosticError) as caught:
        well_formed(leaked, report=True)
    assert str(caught.value) == "the program is not well formed\n%y is used outside of the scope that binds it"
    mod = relay.IRModule({"main": relay.Function([x], y)})
    with pytest.raises(DiagnosticError, match="@main: %y is used, but nothing binds it"):
        well_formed(mod, report=True)


def test_a_function_used_twice_is_well_formed() -> None:
    p, x = relay.var("p", shape=(2,)), relay.var("x", shape=(2,))
    f = relay.Function([p], p + p)
    assert well_formed(relay.Function([x], relay.If(relay.const(True), f(x), f(f(x)))), report=True)


def test_deep_programs_are_well_formed() -> None:
    x = relay.var("x", shape=(2,))
    e: relay.Expr = x
    for _ in range(5000):
        e = relay.nn.relu(e)
    assert well_formed(relay.Function([x], e))


def test_features() -> None:
    x = relay.var("x", shape=(2,))
    assert detect_feature(relay.Function([x], relay.exp(x))) == {
        Feature.fVar,
        Feature.fFunction,
        Feature.fOp,
        Feature.fCall,
    }
    e = relay.exp(x)
    assert Feature.fGraph in detect_feature(e + e) and Feature.fGraph not in detect_feature(x + x)
    loop = relay.parse_expr("let %f = fn (%n: int32) -> int32 { %f(%n) }; ref_read(ref(%f(1)))")
    assert {Feature.fLetRec, Feature.fRefRead, Feature.fRefCreate, Feature.fLet} <= detect_feature(loop)


def test_constants_and_dtypes() -> None:
    x = relay.var("x", shape=(2,))
    assert check_constant(relay.Tuple([relay.const(1), relay.const(2.0)])) and not check_constant(x)
    e = relay.cast(x, "float16")
    infer_types(e)
    assert all_dtypes(e) == {"float32", "float16"}


@pytest.mark.parametrize(
    ("clauses", "missing"),
    [
        ("Cons(_, _) => 1, Nil => 0", []),
        ("_ => 1", []),
        ("Nil => 1", ["Cons(_, _)"]),
        ("Cons(_, Cons(_, _)) => 1, Nil => 0", ["Cons(_, Nil)"]),
        ("Cons(_, Nil) => 1", ["Cons(_, Cons(_, _))", "Nil"]),
    ],
)
def test_completeness_of_matches(clauses: str, missing: list[str]) -> None:
    from tilewright.relay.printer import Printer

    mod = relay.IRModule()
    relay.Prelude(mod)
    e = relay.parse_expr(f"free_var %l: List[int32]; match? (%l) {{ {clauses} }}", mod)
    assert isinstance(e, relay.Match)
    assert [Printer().pattern(p) for p in unmatched_cases(e, mod)] == missing
