"""Convolutions whose steps over padded zeros are left out: small images, on several targets and layouts."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tilewright as tvm
from tests.slow import seeds
from tilewright import relay, te, topi
from tilewright.codegen import interp
from tilewright.contrib import graph_executor
from tilewright.relay.op.convolution.windows import np_conv
from tilewright.scheduling import KernelPlan, schedule_kernel
from tilewright.target import Target
from tilewright.tir import PrimFunc
from tilewright.tir.transform import KeepNonzeroSteps

TARGETS = {
    "avx512": "llvm -mtriple=x86_64-unknown-linux-gnu -mcpu=skylake-avx512 -num-cores=2",
    "avx2": "llvm -mtriple=x86_64-unknown-linux-gnu -mcpu=haswell -num-cores=2",
    "neon": "llvm -mtriple=aarch64-linux-gnu -mcpu=cortex-a76 -num-cores=2",
}


def blocked(target: str, size: int, kernel: int, pad: int, choices: dict[str, Any]) -> tuple[Any, KernelPlan]:
    """The kernel of a convolution on blocks of 16 channels."""
    plan = KernelPlan(target, choices)
    with plan, Target(target):
        x = te.placeholder((1, 2, size, size, 16), name="x")
        w = te.placeholder((2, 2, kernel, kernel, 16, 16), name="w")
        made = topi.nn.conv2d_NCHWc(x, w, 1, (pad, pad), 1, "NCHW16c", "NCHW16c")
    return schedule_kernel(te.create_prim_func([x, w, made]), plan.target, plan), plan


@pytest.mark.parametrize("name", TARGETS)
def test_marked_where_whole_tiles_read_zeros(name: str) -> None:
    func, plan = blocked(TARGETS[name], 7, 3, 1, {})
    (key,) = [k for k in plan.values() if k.endswith(".zeros.v_kh")]
    assert plan.values()[key] == "skip" and "nonzero_steps" in str(func)
    x = np.random.default_rng(0).integers(-4, 5, (1, 2, 7, 7, 16)).astype("float32")
    w = np.random.default_rng(1).integers(-4, 5, (2, 2, 3, 3, 16, 16)).astype("float32")
    (cut,) = KeepNonzeroSteps()(tvm.IRModule.from_expr(func)).functions.values()
    assert isinstance(cut, PrimFunc)
    found, expected = (np.zeros((1, 2, 7, 7, 16), "float32") for _ in range(2))
    interp.run(cut, [x, w, found])
    interp.run(blocked(TARGETS[name], 7, 3, 1, {key: "add"})[0], [x, w, expected])
    np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize(("size", "kernel", "pad"), [(7, 3, 1), (3, 3, 1), (6, 5, 2)])
def test_products_of_tiles_that_have_all_columns(size: int, kernel: int, pad: int) -> None:
    func, plan = blocked(TARGETS["avx512"], size, kernel, pad, {})
    (key,) = [k for k in plan.values() if k.endswith(".zeros.v_kw")]
    assert plan.values()[key] == "skip"
    x = np.random.default_rng(0).integers(-4, 5, (1, 2, size, size, 16)).astype("float32")
    w = np.random.default_rng(1).integers(-4, 5, (2, 2, kernel, kernel, 16, 16)).astype("float32")
    cut = KeepNonzeroSteps()(tvm.IRModule.from_expr(func))
    # Each place of a line reads only columns of the image.
    assert "if v_xx + v_kw >=" in str(cut)
    (body,) = cut.functions.values()
    assert isinstance(body, PrimFunc)
    found, expected = (np.zeros((1, 2, size, size, 16), "float32") for _ in range(2))
    interp.run(body, [x, w, found])
    interp.run(blocked(TARGETS["avx512"], size, kernel, pad, {key: "add"})[0], [x, w, expected])
    np.testing.assert_array_equal(found, expected)


def test_added_where_little_is_left_out_or_weights_need_the_cache() -> None:
    _, plan = blocked(TARGETS["avx512"], 112, 3, 1, {})
    assert [v for k, v in plan.values().items() if ".zeros." in k] == ["add"]
    _, plan = blocked(TARGETS["avx512"], 7, 1, 0, {})
    assert not [k for k in plan.values() if ".zeros." in k]


@pytest.mark.parametrize("seed", seeds(40, 6))
def test_random_convolutions_of_small_images(seed: int) -> None:
    rng = np.random.default_rng(seed)
    kernel, stride, dilation = (int(v) for v in (rng.integers(2, 8), rng.integers(1, 3), rng.integers(1, 3)))
    reach = (kernel - 1) * dilation
    pads = tuple(int(p) for p in rng.integers(0, reach + 1, 4))
    size = [int(rng.integers(max(1, reach + 1 - pads[i] - pads[i + 2]), 12 + reach)) for i in range(2)]
    channels, filters = int(rng.integers(1, 40)), int(rng.integers(1, 40))
    dtype = ("float32", "float32", "int8")[seed % 3]
    shapes = [(1, channels, *size), (filters, channels, kernel, kernel)]
    x, w = (rng.integers(-9, 9, s).astype(dtype) for s in shapes)
    out = {"int8": "int32"}.get(dtype, "float32")
    call = relay.nn.conv2d(
        relay.var("x", shape=x.shape, dtype=dtype), relay.const(w), strides=(stride, stride), padding=pads,
        dilation=(dilation, dilation), channels=filters, kernel_size=(kernel, kernel), out_dtype=out,
    )  # fmt: skip
    with tvm.transform.PassContext(opt_level=3):
        lib = relay.build(tvm.IRModule.from_expr(call), "llvm")
    module = graph_executor.GraphModule(lib["default"](tvm.cpu()))
    module.set_input("x", x)
    module.run()
    around = ((pads[0], pads[1]), (pads[2], pads[3]))
    expected = np_conv(x.astype(out), w.astype(out), (stride, stride), around, (dilation, dilation), 1)
    np.testing.assert_array_equal(module.get_output(0).numpy(), expected)
