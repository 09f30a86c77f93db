"""Random expressions: same value, sound bounds and modular sets, and a second pass changes nothing."""

from __future__ import annotations

import random

import pytest

from tests.arith.evaluate import Programs, evaluate
from tilewright import arith, tir
from tilewright.ir import IntImm, Range
from tilewright.node import structural_equal

CASES = 250


def environment(rng: random.Random, ranges: dict[tir.Var, tuple[int, int]]) -> dict[tir.Var, int]:
    return {v: rng.randint(low, low + extent - 1) for v, (low, extent) in ranges.items()}


@pytest.mark.parametrize("seed", range(8))
def test_value_bounds_and_idempotence(seed: int) -> None:
    rng = random.Random(seed)
    for case in range(CASES):
        variables = [tir.Var(n, "int32") for n in "xyzw"]
        analyzer = arith.Analyzer()
        ranges: dict[tir.Var, tuple[int, int]] = {}
        for v in variables:
            low, extent = rng.choice([(0, 4), (0, 16), (-5, 11), (3, 6), (-40, 81), (0, 1), (1, 12)])
            ranges[v] = low, extent
            if extent < 81:
                analyzer.bind(v, Range.from_min_extent(low, extent))
        programs = Programs(rng, variables)
        e = programs.integer(3) if case % 2 else programs.boolean(3)
        simple = analyzer.simplify(e)
        assert analyzer.simplify(simple) is simple
        again = arith.Analyzer()
        for v, (low, extent) in ranges.items():
            if extent < 81:
                again.bind(v, Range.from_min_extent(low, extent))
        bound = analyzer.const_int_bound(e) if e.dtype == "int32" else None
        modular = analyzer.modular_set(e) if e.dtype == "int32" else None
        for _ in range(12):
            env = environment(rng, ranges)
            try:
                expected = evaluate(e, env)
            except ZeroDivisionError:
                continue
            got = evaluate(simple, env)
            assert got == expected, f"{e}\n-> {simple}\nat {[(v.name, x) for v, x in env.items()]}: {got} != {expected}"
            if bound is not None and modular is not None:
                assert bound.min_value <= expected <= bound.max_value, f"{e}: {expected} not in {bound}"
                step = modular.coeff
                assert (expected - modular.base) % step == 0 if step else expected == modular.base, (
                    f"{e}: {expected}, {modular}"
                )
        fixed = again.simplify(simple)
        if not isinstance(simple, IntImm):
            third = again.simplify(fixed)
            assert structural_equal(third, fixed)


@pytest.mark.parametrize("seed", range(4))
def test_constraints(seed: int) -> None:
    rng = random.Random(1000 + seed)
    for _ in range(CASES):
        variables = [tir.Var(n, "int32") for n in "xyz"]
        analyzer = arith.Analyzer()
        ranges = dict.fromkeys(variables, (-20, 41))
        programs = Programs(rng, variables)
        condition, e = programs.boolean(2), programs.boolean(2) if rng.random() < 0.5 else programs.integer(2)
        outside = analyzer.simplify(e)
        with analyzer.constraint_scope(condition):
            inside = analyzer.simplify(e)
        assert analyzer.simplify(e) is outside
        for _ in range(30):
            env = environment(rng, ranges)
            try:
                holds, expected = evaluate(condition, env), evaluate(e, env)
            except ZeroDivisionError:
                continue
            assert evaluate(outside, env) == expected
            if holds:
                assert evaluate(inside, env) == expected, (
                    f"under {condition}\n{e}\n-> {inside}\nat {[(v.name, x) for v, x in env.items()]}"
                )


def test_symbolic_ranges() -> None:
    """Index arithmetic of loops with symbolic extents, checked by enumeration."""
    rng = random.Random(7)
    for _ in range(200):
        n, m, i, j = (tir.Var(s, "int32") for s in "nmij")
        analyzer = arith.Analyzer()
        for size in (n, m):
            analyzer.update(size, arith.ConstIntBound(1, 6))
        analyzer.bind(i, Range(0, n))
        analyzer.bind(j, Range(0, m))
        terms = [i * m + j, j * n + i, i + j, (i * m + j) // m, (i * m + j) % m, n - i, (j * n + i) // n * n, n * m]
        a, b = rng.choice(terms), rng.choice(terms)
        e = rng.choice(
            [lambda: a < b, lambda: a - b, lambda: tir.min(a, b), lambda: a <= b, lambda: a // m, lambda: a % n]
        )()
        simple = analyzer.simplify(e)
        for _ in range(10):
            env = {n: rng.randint(1, 6), m: rng.randint(1, 6)}
            env |= {i: rng.randrange(env[n]), j: rng.randrange(env[m])}
            assert evaluate(simple, env) == evaluate(e, env), (
                f"{e} -> {simple} at {[(v.name, x) for v, x in env.items()]}"
            )
