"""The smallest programs that the fuzzer found to go wrong, each through all of its checks."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.fuzz.check import check_from
from tests.generators.programs import Program
from tilewright import te, tir
from tilewright.tir.schedule import Schedule

Case = tuple[Program, Callable[[Schedule], Any]]


def quotient_by_a_variable() -> Case:
    """Bounds of `f // n` came from the type's range, and the extent of the region overflowed."""
    n = tir.Var("n", "int32")
    x = te.placeholder((n, 16), name="x")
    y = te.compute((n, 16), lambda i, j: tir.max(x[i, j], tir.const(0.0, "float32")), name="y")
    out = te.compute((n, 16), lambda i, j: y[i, j] + tir.const(1.0, "float32"), name="out")

    def schedule(s: Schedule) -> None:
        i, j = s.get_loops(s.get_block("out"))
        s.reorder(j, i)
        s.fuse(j, i)

    return Program(te.create_prim_func([x, out]), ["x"], {n: 3}), schedule


def predicate_on_a_quotient_by_a_variable() -> Case:
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

    return Program(te.create_prim_func([x, out]), ["x"], {n: 3}), schedule


@pytest.mark.parametrize("make", [quotient_by_a_variable, predicate_on_a_quotient_by_a_variable])
def test_found(make: Callable[[], Case]) -> None:
    program, schedule = make()
    s = Schedule(program.func)
    schedule(s)
    check_from(program, 0, s)
