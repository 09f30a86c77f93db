"""The smallest programs that the fuzzer found to go wrong, each through all of its checks."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from tests.fuzz.check import check_case
from tests.fuzz.native import LEVELS, symbolic
from tests.generators.case import Case, Recipe
from tilewright import te, tir
from tilewright.tir.schedule import Schedule

Found = tuple[list[Any], dict[tir.Var, int], Callable[[Schedule], Any]]
"""What `create_prim_func` is given, values of variables, and the schedule."""


def quotient_by_a_variable() -> Found:
    """Bounds of `f // n` came from the type's range, and the extent of the region overflowed."""
    n = tir.Var("n", "int32")
    x = te.placeholder((n, 16), name="x")
    y = te.compute((n, 16), lambda i, j: tir.max(x[i, j], tir.const(0.0, "float32")), name="y")
    out = te.compute((n, 16), lambda i, j: y[i, j] + tir.const(1.0, "float32"), name="out")

    def schedule(s: Schedule) -> None:
        i, j = s.get_loops(s.get_block("out"))
        s.reorder(j, i)
        s.fuse(j, i)

    return [x, out], {n: 3}, schedule


def predicate_on_a_quotient_by_a_variable() -> Found:
    """The guard of a whole loop had a bound that int32 does not hold."""
    n = tir.Var("n", "int32")
    x = te.placeholder((n, 4), name="x")
    y = te.compute((n, 4), lambda i, j: x[i, j] + tir.const(1.0, "float32"), name="y")
    r = te.reduce_axis((0, 3), name="r")
    out = te.compute((n, 4), lambda i, j: te.sum(y[i, r], axis=r), name="out")

    def schedule(s: Schedule) -> None:
        i, j, _ = s.get_loops(s.get_block("out"))
        s.reorder(j, i)
        _, inner = s.split(j, [None, 3])
        fused = s.fuse(inner, i)
        s.split(fused, [None, 4])

    return [x, out], {n: 3}, schedule


@pytest.mark.parametrize("make", [quotient_by_a_variable, predicate_on_a_quotient_by_a_variable])
def test_found(make: Callable[[], Found]) -> None:
    args, sizes, schedule = make()
    fill = {t.op.name: small for t in args if isinstance(t, te.Tensor) and isinstance(t.op, te.PlaceholderOp)}
    case = Case("found", te.create_prim_func(args), fill, sizes)
    for level in LEVELS:
        if level == "full" or not symbolic(case):
            check_case(case, Recipe(0, (), ()), schedule, level)


def small(rng: np.random.Generator, shape: tuple[int, ...]) -> Any:
    """Small whole numbers."""
    return rng.integers(-2, 3, shape)
