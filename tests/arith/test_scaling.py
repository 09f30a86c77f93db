"""The time that long and deep expressions take grows about as their length does."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import pytest

from tilewright import arith, tir
from tilewright.tir import Var


def variables(count: int) -> list[Any]:
    return [Var(f"x{i}", "int32") for i in range(count)]


def chain(count: int, join: Callable[[int, Any, Any], Any], start: Callable[[Any], Any] = lambda x: x) -> Any:
    first, *rest = variables(count)
    out = start(first)
    for i, x in enumerate(rest):
        out = join(i, out, x)
    return out


def ordered(count: int) -> Any:
    xs = variables(count + 1)
    out: Any = xs[0] < xs[1]
    for a, b in zip(xs[1:], xs[2:], strict=False):
        out = tir.And(out, a < b)
    return out


def lets(count: int) -> Any:
    vs = variables(count + 1)
    body: Any = vs[-1]
    for a, b in zip(vs[-2::-1], vs[:0:-1], strict=True):
        body = tir.Let(b, a * 2 + tir.floordiv(a, 3), body + b)
    return body


EXPRESSIONS: dict[str, tuple[int, Callable[[int], Any]]] = {
    "sums of quotients": (100, lambda n: chain(n, lambda i, e, x: e + tir.floordiv(x + i, 3))),
    "minima": (25, lambda n: chain(n, lambda i, e, x: tir.Min(e, x))),
    "minima and maxima": (25, lambda n: chain(n, lambda i, e, x: (tir.Min if i % 2 else tir.Max)(e, x))),
    "minima of sums": (25, lambda n: chain(n, lambda i, e, x: tir.Min(e, x + i) + 1)),
    "conjunctions": (50, lambda n: chain(n, lambda i, e, x: tir.And(e, x < i), lambda x: x < 5)),
    "orders": (50, ordered),
    "alternating conditions": (
        50,
        lambda n: chain(n, lambda i, e, x: (tir.Or if i % 2 else tir.And)(e, x < i), lambda x: x < 5),
    ),
    "negations": (
        15,
        lambda n: chain(n, lambda i, e, x: tir.Not((tir.Or if i % 2 else tir.And)(e, x < i)), lambda x: x < 5),
    ),
    "selects": (25, lambda n: chain(n, lambda i, e, x: tir.Select(x < i, e + 1, x))),
    "choices": (25, lambda n: chain(n, lambda i, e, x: tir.if_then_else(x < i, e + 1, x))),
    "quotients of quotients": (30, lambda n: chain(n, lambda i, e, x: tir.floordiv(e * 3 + x, 2))),
    "products of sums": (8, lambda n: chain(n, lambda i, e, x: e * (x + i + 1))),
    "lets": (25, lets),
    "shared parts": (20, lambda n: chain(n, lambda i, e, x: tir.Max(e, e + x) if i % 2 else tir.floordiv(e + e, 3))),
}


def seconds(work: Callable[[], Any]) -> float:
    best = float("inf")
    for _ in range(3):
        start = time.process_time()
        work()
        best = min(best, time.process_time() - start)
    return best


@pytest.mark.parametrize("name", EXPRESSIONS)
def test_time_grows_with_length(name: str) -> None:
    """Twice the length takes at most about five times as long, and never long."""
    count, make = EXPRESSIONS[name]
    short, double = make(count), make(2 * count)
    once = seconds(lambda: arith.Analyzer().simplify(short))
    twice = seconds(lambda: arith.Analyzer().simplify(double))
    assert twice < 5.5 * once + 0.01, f"{once * 1e3:.1f} ms for {count}, {twice * 1e3:.1f} ms for {2 * count}"
    assert twice < 0.5


def test_scopes_within_scopes() -> None:
    def enter(count: int) -> None:
        analyzer = arith.Analyzer()
        xs = variables(count + 1)
        scopes = []
        for a, b in zip(xs, xs[1:], strict=False):
            scopes.append(analyzer.constraint_scope(a < b))
            scopes[-1].__enter__()
            assert not analyzer.can_prove(b + 1 < a)
        for scope in reversed(scopes):
            scope.__exit__(None, None, None)

    assert seconds(lambda: enter(60)) < 5.5 * seconds(lambda: enter(30)) + 0.02
