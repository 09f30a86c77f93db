"""The arith fuzzer on a few thousand expressions, and that it finds and shrinks what is wrong."""

from __future__ import annotations

import pytest

from tests.arith.checks import Case, failure_of, random_case, smallest
from tests.arith.fuzz import run
from tilewright import arith, tir
from tilewright.tir import Var


def test_random_expressions() -> None:
    checked, failures = run(2400, 0)
    assert not failures, "\n\n".join(failures)
    assert sum(checked.values()) > 1500


def test_a_case_is_repeated_by_its_seed() -> None:
    assert str(random_case("value", "value:3:4")) == str(random_case("value", "value:3:4"))


def test_what_is_wrong_is_found_and_made_small(monkeypatch: pytest.MonkeyPatch) -> None:
    right = arith.Analyzer.simplify

    def wrong(self: arith.Analyzer, expr: tir.PrimExpr, steps: int = 2) -> tir.PrimExpr:
        return expr.a if isinstance(expr, tir.FloorMod) else right(self, expr)

    monkeypatch.setattr(arith.Analyzer, "simplify", wrong)
    x, y = Var("x", "int32"), Var("y", "int32")
    case = Case("value", {x: range(8), y: range(8)}, tir.FloorMod(x + tir.Min(y, x) * 2, 3))
    failure = failure_of(case)
    assert failure is not None
    small, text = smallest(case, failure)
    assert isinstance(small.expr, tir.FloorMod) and len(str(small.expr)) < 10, small
    assert "simplify has another value" in text
