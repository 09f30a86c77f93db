"""The trace of every rule's schedule gives the same program: as objects, as JSON and as Python."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from tests.scheduling.convolutions.test_halo import TARGET as HALO_TARGET
from tests.scheduling.convolutions.test_halo import kernel as with_halo
from tests.scheduling.test_rules import CASES, TARGETS
from tests.tir_schedule.examples import rows
from tilewright import te, tir, topi
from tilewright.codegen import interp
from tilewright.node import assert_structural_equal
from tilewright.scheduling import KernelPlan, scheduled
from tilewright.support.errors import ScheduleError
from tilewright.target import Target
from tilewright.tir import PrimFunc
from tilewright.tir.schedule import Schedule, Trace

Made = tuple[PrimFunc, Schedule]


def made(make: Callable[[], Any], target: Target) -> Made:
    plan = KernelPlan(target)
    with target, plan:
        built = make()
        func: Any = built if isinstance(built, PrimFunc) else te.create_prim_func(built)
    return func, scheduled(func, target, plan)


def replays(func: PrimFunc, sch: Schedule) -> None:
    trace = sch.trace
    assert trace is not None
    wanted = sch.mod
    for form in ("objects", "JSON", "Python"):
        again = Schedule(func)
        if form == "objects":
            trace.apply_to_schedule(again)
        elif form == "JSON":
            Trace.apply_json_to_schedule(json.loads(json.dumps(trace.as_json())), again)
        else:
            names: dict[str, Any] = {"tir": tir}
            exec(str(trace), names)
            names["apply_trace"](again)
        assert_structural_equal(again.mod["main"], wanted["main"])


@pytest.mark.parametrize("case", CASES)
def test_rules(case: str) -> None:
    replays(*made(CASES[case], Target(TARGETS["avx512"])))


@pytest.mark.parametrize("target", ["avx2", "neon"])
@pytest.mark.parametrize("case", [*CASES][::4])
def test_rules_of_other_targets(case: str, target: str) -> None:
    replays(*made(CASES[case], Target(TARGETS[target])))


def dynamic(kind: str) -> Callable[[], list[te.Tensor]]:
    def make() -> list[te.Tensor]:
        n = tir.SizeVar("n", "int64")
        x = te.placeholder((n, 64), name="x")
        w, r = te.placeholder((2, 64, 32), name="w"), te.placeholder((n, 64), name="r")
        out = topi.nn.softmax(x) if kind == "softmax" else topi.nn.relu(topi.add(topi.nn.dense_pack(x, w), r))
        return [x, out] if kind == "softmax" else [x, w, r, out]

    return make


@pytest.mark.parametrize("kind", ["softmax", "dense"])
def test_dynamic_rows(kind: str) -> None:
    func, sch = made(dynamic(kind), Target(TARGETS["avx512"]))
    assert ("sch.add_version" in str(sch.trace)) == (kind == "dense")
    replays(func, sch)


def test_halos() -> None:
    func, sch = made(lambda: with_halo([0, 0, 1, 1, 0], [0, 0, 1, 1, 0], 0.0), HALO_TARGET)
    assert "sch.elide_copy" in str(sch.trace)
    replays(func, sch)


def test_a_trace_of_another_kernel_is_refused_with_the_step() -> None:
    _, sch = made(CASES["dense"], Target(TARGETS["avx512"]))
    assert sch.trace is not None
    for case in ("softmax", "conv1x1"):
        other, _ = made(CASES[case], Target(TARGETS["avx512"]))
        for replay in (sch.trace.apply_to_schedule, lambda s: Trace.apply_json_to_schedule(sch.trace.as_json(), s)):
            with pytest.raises(ScheduleError, match=r"step \d+ of the \d+ of a trace does not fit this program: \w+"):
                replay(Schedule(other))


@pytest.mark.parametrize("free", [True, False])
def test_versions_for_tiles_of_two_heights(free: bool) -> None:
    """Rows that others need to be as many as they are have a version only for numbers with equally many rows."""
    func = rows("free")
    sch = Schedule(func, debug_mask="all")
    wide, narrow = sch.add_version("root", 4, 8, "free" if free else "")
    for version in (wide, narrow):
        block = sch.get_child_blocks(version)[0]
        sch.unroll(sch.split(sch.get_loops(block)[0], [None, 4])[1])
    assert ("<=" in sch.mod.script()) == free
    replays(func, sch)
    for n in (1, 4, 5, 8, 60, 61):
        x = np.arange(n * 8, dtype="float32").reshape(n, 8)
        found = np.zeros_like(x)
        interp.run(sch.mod["main"], [x, found])
        np.testing.assert_array_equal(found, x * 2 + 1)
