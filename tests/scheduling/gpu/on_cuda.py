"""Products of warpgroups and iterators of tiles on a GPU of NVIDIA, beside the interpreter (`make test-gpu`); DEVICE_TARGET names it."""

from __future__ import annotations

import os

import numpy as np
import pytest

import tilewright as tvm
from tests.scheduling.gpu.test_convolutions import convolution
from tests.scheduling.gpu.test_products import matmul
from tests.scheduling.gpu.test_warpgroups import HALF, LARGE, SMALL
from tests.tensor_intrin.on_devices import inputs_of, results
from tilewright import nd, tir
from tilewright.scheduling import KernelPlan, scheduled
from tilewright.target import Target

TARGET = os.environ["DEVICE_TARGET"]
DEV = tvm.cuda(0)
DEEP = {
    "many steps and blocks": (matmul(520, 776, 1000, *HALF, epilogue=True), [128, 256, 64, 4, 128]),
    "many steps, narrow": (matmul(512, 384, 2048, *HALF), [128, 128, 64, 6, 128]),
}
PRODUCTS = {**SMALL, **LARGE, **DEEP} if Target(TARGET).gpu.has_wgmma else {}


def check(func: tir.PrimFunc, given: dict[str, object], runs: int) -> None:
    """Small integers, so that sums are exact."""
    plan = KernelPlan(TARGET, given)
    built = tvm.build(scheduled(func, Target(TARGET), plan).mod["main"], target=TARGET)
    assert not plan.unfit(), plan.unfit()
    inputs = inputs_of(func)
    wanted = results(func, inputs)[-1]
    for _ in range(runs):
        found = [nd.array(a, DEV) for a in inputs]
        built(*found)
        np.testing.assert_array_equal(found[-1].numpy(), wanted)


@pytest.mark.parametrize("name", PRODUCTS)
def test_products_of_warpgroups(name: str) -> None:
    """Every layout, swizzle and size of tiles that the rule has; several times, since a missing wait shows now and then."""
    func, tile = PRODUCTS[name]
    check(func, {"C.warpgroups": tile}, 3)


@pytest.mark.parametrize("form", ["analytic", "optimized"])
@pytest.mark.parametrize("stride", [1, 2])
def test_iterators(form: str, stride: int) -> None:
    check(convolution("NHWC", 2, 17, 15, 64, 48, 3, stride, 1), {"conv2d_nhwc.iterators": form}, 1)
