"""Strassen's products: the schedule of all stages, against the interpreter, on several targets."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from tests.scheduling.test_rules import TARGETS
from tests.scheduling.test_traces import replays
from tilewright import te, topi
from tilewright.codegen import interp
from tilewright.scheduling import KernelPlan, scheduled
from tilewright.target import Target
from tilewright.topi.nn.strassen import np_product, strassen_weights


def test_weights_and_factors_give_the_product() -> None:
    rng = np.random.default_rng(0)
    a, b = rng.integers(-4, 5, (5, 8)).astype("float32"), rng.integers(-4, 5, (8, 12)).astype("float32")
    packed = strassen_weights(b, 3)
    assert packed.shape == (14, 4, 3)
    np.testing.assert_array_equal(np_product(a, packed), a @ b)


def matrix(rows: int, inner: int, columns: int) -> Callable[[], list[te.Tensor]]:
    def made() -> list[te.Tensor]:
        x, w = te.placeholder((rows, inner), name="x"), te.placeholder((columns // 32 * 7, inner // 2, 16), name="w")
        r = te.placeholder((rows, columns), name="r")
        return [x, w, r, topi.nn.relu(topi.add(topi.nn.dense_strassen(x, w), r))]

    return made


def image(side: int, channels: int, filters: int) -> Callable[[], list[te.Tensor]]:
    def made() -> list[te.Tensor]:
        x = te.placeholder((1, channels // 16, side, side, 16), name="x")
        w = te.placeholder((filters // 32 * 7, channels // 2, 16), name="w")
        return [x, w, topi.nn.relu(topi.nn.conv2d_strassen_NCHWc(x, w, 16))]

    return made


CASES = {
    "rows": matrix(12, 32, 64),
    "odd": matrix(7, 32, 32),
    "image": image(4, 32, 64),
    "parts of lines": image(6, 32, 32),
}


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("case", CASES)
def test_schedule_keeps_values(case: str, target: str) -> None:
    chosen = Target(TARGETS[target])
    plan = KernelPlan(chosen)
    with chosen, plan:
        func = te.create_prim_func(CASES[case]())
    sch = scheduled(func, chosen, plan)
    made: Any = next(iter(sch.mod.functions.values()))
    assert not plan.fallbacks
    rng = np.random.default_rng(0)
    shapes: Any = [func.buffer_map[p].shape for p in func.params]
    before = [rng.standard_normal([int(d) for d in s]).astype("float32") for s in shapes]
    after = [a.copy() for a in before]
    interp.run(func, before)
    interp.run(made, after)
    np.testing.assert_allclose(after[-1], before[-1], rtol=1e-5, atol=1e-5)
    replays(func, sch)


def test_every_value_of_its_decisions_fits() -> None:
    target = Target(TARGETS["avx2"])
    plan = KernelPlan(target)
    with plan:
        func = te.create_prim_func(CASES["image"]())
    scheduled(func, target, plan)
    space: dict[str, Any] = plan.space()
    assert {"strassen_product.group", "strassen_product.tile", "strassen_product.unroll"} <= {*space}
    for name, values in space.items():
        for value in values:
            given = KernelPlan(target, {name: value})
            with given:
                again = te.create_prim_func(CASES["image"]())
            scheduled(again, target, given)
            assert not given.refused, (name, value)
            assert given.values()[name] == value


def test_threads_share_rows_and_panels() -> None:
    target = Target(TARGETS["avx2"])
    (func,) = scheduled(te.create_prim_func(CASES["rows"]()), target, KernelPlan(target)).mod.functions.values()
    assert str(func).count("T.parallel(") == 2
