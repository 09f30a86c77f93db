"""The trace of every rule's schedule gives the same program: as objects, as JSON and as Python."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from tests.codegen.amx import SAPPHIRE
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
from tilewright.topi.nn.phases import Axis

Made = tuple[PrimFunc, Schedule]


def made(
    make: Callable[[], Any], target: Target, given: dict[str, Any] | None = None, plan: KernelPlan | None = None
) -> Made:
    plan = KernelPlan(target, given) if plan is None else plan
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


def tiles() -> list[te.Tensor]:
    data, weight = te.placeholder((37, 36), "uint8", "data"), te.placeholder((1, 9, 32, 4), "int8", "weight")
    return [data, weight, topi.nn.dense_pack(data, weight, None, "int32")]


def dots_of_bytes() -> list[te.Tensor]:
    data, weight = te.placeholder((6, 12), "uint8", "data"), te.placeholder((2, 3, 16, 4), "int8", "weight")
    return [data, weight, topi.nn.relu(topi.nn.dense_pack(data, weight, None, "int32"))]


def interleaved() -> list[te.Tensor]:
    x = te.placeholder((2, 6, 21), name="x")
    return [x, topi.nn.interleave_phases(x, [Axis(2, 1, 2, 21, 1, 40)])]


def padded_pixels() -> list[te.Tensor]:
    x = te.placeholder((1, 2, 5, 6, 16), "uint8", "x")
    return [x, topi.nn.pad(x, (0, 0, 1, 1, 0), (0, 0, 1, 1, 0))]


def own_data() -> list[te.Tensor]:
    x, w = te.placeholder((1, 16, 10, 10), name="x"), te.placeholder((32, 2, 3, 3), name="w")
    return [x, w, topi.nn.relu(topi.nn.group_conv2d_nchw(x, w, 1, 1, 1, 8))]


def sums_of_lanes() -> list[te.Tensor]:
    a, b = te.placeholder((1, 3, 64), name="a"), te.placeholder((1, 5, 64), name="b")
    return [a, b, topi.nn.relu(topi.nn.batch_matmul(a, b))]


def shared_images() -> list[te.Tensor]:
    d, w = te.placeholder((4, 2, 8, 8, 16), name="d"), te.placeholder((2, 2, 1, 1, 16, 16), name="w")
    return [d, w, topi.nn.conv2d_NCHWc(d, w, 1, 0, 1)]


def wide_windows() -> list[te.Tensor]:
    x = te.placeholder((1, 2, 40, 40, 16), name="x")
    return [x, topi.nn.pool2d(x, [9, 9], [3, 3], [1, 1], [0, 0, 0, 0], "avg", layout="NCHW16c")]


INTEL = "llvm -mtriple=x86_64-unknown-linux-gnu -num-cores=4 -mcpu="
SPECIAL: dict[str, tuple[Callable[[], Any], str, dict[str, Any], str]] = {
    "tile registers": (tiles, SAPPHIRE, {}, "amx"),
    "dot products": (dots_of_bytes, INTEL + "cascadelake", {}, "sch.tensorize"),
    "interleaved phases": (interleaved, INTEL + "skylake-avx512", {}, "sch.compute_at"),
    "padded pixels": (padded_pixels, INTEL + "skylake-avx512", {}, "sch.decompose_padding"),
    "groups with their own data": (
        own_data,
        INTEL + "skylake-avx512",
        {"group_conv2d_nchw.data": "own"},
        "sch.compute_at",
    ),
    "sums of lanes": (sums_of_lanes, INTEL + "skylake-avx512", {"T_batch_matmul_NT.form": "dots"}, "sch.cache_write"),
    "images of threads": (shared_images, INTEL + "skylake-avx512", {}, "sch.parallel"),
    "windows by register tiles": (
        wide_windows,
        INTEL + "skylake-avx512",
        {"pool.axes": "together"},
        "sch.decompose_reduction",
    ),
}
"""Kernels for the rules that the cases of `test_rules` do not take: their targets, what a plan gives, and a step of their traces."""


@pytest.mark.parametrize("case", SPECIAL)
def test_special_rules(case: str) -> None:
    make, target, given, step = SPECIAL[case]
    plan = KernelPlan(target, given)
    func, sch = made(make, Target(target), plan=plan)
    assert step in str(sch.trace) and not plan.unfit()
    replays(func, sch)


@pytest.mark.parametrize("case", [*CASES][::3])
def test_rules_with_values_that_the_model_would_not_take(case: str) -> None:
    """The last choice of each decision."""
    target = Target(TARGETS["avx512"])
    plan = KernelPlan(target)
    made(CASES[case], target, plan=plan)
    replays(*made(CASES[case], target, {name: choices[-1] for name, choices in plan.space().items()}))


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
