"""Depthwise convolutions and pooling on channel blocks, in bands of rows with their padding inside."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

import tilewright as tvm
from tilewright import te, topi
from tilewright.codegen.interp import run
from tilewright.codegen.llvm import emit_module
from tilewright.driver import lower
from tilewright.scheduling import KernelPlan, schedule_kernel
from tilewright.target import Target

KINDS = {"float32": np.float32, "bfloat16": ml_dtypes.bfloat16}


def depthwise(
    shape: tuple[int, ...], kernel: int, stride: int, pad: int, dtype: str
) -> tuple[list[te.Tensor], te.Tensor]:
    data = te.placeholder(shape, dtype, "data")
    weight = te.placeholder((shape[1], 1, kernel, kernel, 1, shape[-1]), dtype, "weight")
    return [data, weight], topi.nn.depthwise_conv2d_NCHWc(data, weight, stride, pad, 1, out_dtype="float32")


def reference(x: np.ndarray[Any, Any], w: np.ndarray[Any, Any], stride: int, pad: int) -> np.ndarray[Any, Any]:
    n, blocks, height, width, lanes = x.shape
    plain = x.transpose(0, 1, 4, 2, 3).reshape(n, blocks * lanes, height, width).astype("float64")
    filters = w.transpose(0, 5, 1, 2, 3, 4)[..., 0].reshape(blocks * lanes, 1, *w.shape[2:4]).astype("float64")
    out = topi.testing.depthwise_conv2d_python_nchw(plain, filters, stride, pad)
    return out.reshape(n, blocks, lanes, *out.shape[2:]).transpose(0, 1, 3, 4, 2)


@pytest.mark.parametrize("dtype", KINDS)
@pytest.mark.parametrize(
    "shape, kernel, stride, pad",
    [
        ((1, 2, 9, 9, 16), 3, 1, 1),
        ((1, 3, 12, 10, 16), 3, 2, 1),
        ((2, 1, 8, 14, 8), 5, 1, 2),
        ((1, 2, 24, 28, 32), 3, 1, 1),
        ((1, 1, 7, 7, 16), 3, 1, 0),
        ((1, 1, 4, 33, 16), 5, 1, 1),
    ],
)
def test_depthwise(shape: tuple[int, ...], kernel: int, stride: int, pad: int, dtype: str) -> None:
    target = Target("llvm -mcpu=skylake-avx512")
    inputs, out = depthwise(shape, kernel, stride, pad, dtype)
    func = schedule_kernel(te.create_prim_func([*inputs, out]), target)
    rng = np.random.default_rng(0)
    x, w = (rng.standard_normal([int(d) for d in t.shape]).astype(KINDS[dtype]) for t in inputs)
    want = reference(x, w, stride, pad)
    results = [np.zeros(want.shape, "float32")]
    run(func, [x, w, results[0]])
    if target.cpu.features <= Target("llvm").cpu.features:
        made = tvm.nd.array(np.zeros(want.shape, "float32"))
        tvm.build(func, target=target)(tvm.nd.array(x), tvm.nd.array(w), made)
        results.append(made.numpy())
    for found in results:
        np.testing.assert_allclose(found, want, rtol=1e-5, atol=1e-5)


def test_columns_that_no_tile_divides_end_in_a_narrower_one() -> None:
    inputs, out = depthwise((1, 2, 9, 31, 16), 3, 1, 1, "float32")
    target = Target("llvm -mcpu=skylake-avx512")
    plan = KernelPlan(target, {"depthwise_conv2d_NCHWc.zeros": "add"})
    script = lower(schedule_kernel(te.create_prim_func([*inputs, out]), target, plan)).script()
    assert "T.unroll(21)" in script and "T.unroll(10)" in script and "if " not in script.replace("if_then_else", "")


def test_padding_is_computed_in_the_loop_over_bands() -> None:
    target = Target("llvm -mcpu=haswell")
    plan = KernelPlan(target, {"data_pad.padding": "copy"})
    with plan:
        inputs, out = depthwise((1, 4, 56, 56, 8), 3, 1, 1, "float32")
    script = schedule_kernel(te.create_prim_func([*inputs, out]), target, plan).script()
    assert script.index("T.parallel") < script.index('T.block("data_pad') < script.index("depthwise_conv2d_NCHWc_init")


@pytest.mark.parametrize("cpu", ["skylake-avx512", "haswell"])
def test_loads_outside_of_the_input_have_other_addresses(cpu: str) -> None:
    inputs, out = depthwise((1, 4, 56, 56, 16), 3, 1, 1, "float32")
    target = Target(f"llvm -mcpu={cpu}")
    plan = KernelPlan(target, {"depthwise_conv2d_NCHWc.zeros": "add"})
    func = schedule_kernel(te.create_prim_func([*inputs, out]), target, plan)
    assert "data_pad" not in func.script()
    text = emit_module(lower(func), target)
    assert ", ptr @" in text and "select i1" in text and "llvm.masked.load" not in text


@pytest.mark.parametrize("zeros", ["add", "rows", "columns"])
@pytest.mark.parametrize(
    ("shape", "kernel", "stride", "pad"),
    [
        ((1, 2, 7, 7, 16), 5, 1, 2),
        ((1, 1, 9, 31, 16), 3, 1, 1),
        ((1, 1, 5, 40, 16), 3, 2, 2),
        ((1, 1, 3, 4, 8), 9, 1, 6),
    ],
)
def test_padding_is_left_out(zeros: str, shape: tuple[int, ...], kernel: int, stride: int, pad: int) -> None:
    target = Target("llvm")
    plan = KernelPlan(target, {"depthwise_conv2d_NCHWc.zeros": zeros})
    with plan:
        inputs, out = depthwise(shape, kernel, stride, pad, "float32")
    func = schedule_kernel(te.create_prim_func([*inputs, out]), target, plan)
    lowered = lower(func)
    assert ("if_then_else" in lowered.script()) == (zeros != "columns")
    rng = np.random.default_rng(0)
    x, w = (rng.integers(-9, 9, [int(d) for d in t.shape]).astype("float32") for t in inputs)
    want = reference(x, w, stride, pad)
    found = np.ones(want.shape, "float32")
    run(func, [x, w, found])
    np.testing.assert_array_equal(found, want)
    made = tvm.nd.array(np.ones(want.shape, "float32"))
    tvm.build(func, target=target)(tvm.nd.array(x), tvm.nd.array(w), made)
    np.testing.assert_array_equal(made.numpy(), want)


def test_columns_are_left_out_where_few_tiles_have_them() -> None:
    for columns, expected in ((14, "columns"), (56, "columns"), (112, "rows")):
        plan = KernelPlan(Target("llvm -mcpu=skylake-avx512"))
        with plan:
            inputs, out = depthwise((1, 1, 9, columns, 16), 3, 1, 1, "float32")
        schedule_kernel(te.create_prim_func([*inputs, out]), plan.target, plan)
        assert plan.values()["depthwise_conv2d_NCHWc.zeros"] == expected


@pytest.mark.parametrize(
    ("kernel", "columns", "stride", "pad", "padding"),
    [(15, 37, 1, 7, "in place"), (11, 40, 3, 5, "in place"), (25, 19, 1, 12, "copy")],
)
def test_large_kernels_keep_loops_over_rows(kernel: int, columns: int, stride: int, pad: int, padding: str) -> None:
    """The rows of the kernel are a loop, its columns are unrolled; tiles of columns need not divide the image."""
    target = Target("llvm")
    plan = KernelPlan(target)
    with plan:
        inputs, out = depthwise((1, 1, kernel, columns, 16), kernel, stride, pad, "float32")
    func = schedule_kernel(te.create_prim_func([*inputs, out]), target, plan)
    values = plan.values()
    assert (values["depthwise_conv2d_NCHWc.rule"], values["depthwise_conv2d_NCHWc.serial"]) == ("windows", 1)
    assert values["data_pad.padding"] == padding and values["depthwise_conv2d_NCHWc.columns"] >= 6
    rng = np.random.default_rng(0)
    x, w = (rng.standard_normal([int(d) for d in t.shape]).astype("float32") for t in inputs)
    want = reference(x, w, stride, pad)
    made = tvm.nd.array(np.zeros(want.shape, "float32"))
    tvm.build(func, target=target)(tvm.nd.array(x), tvm.nd.array(w), made)
    np.testing.assert_allclose(made.numpy(), want, rtol=1e-4, atol=1e-3)


@pytest.mark.parametrize("kind", ["max", "avg"])
@pytest.mark.parametrize("dtype", KINDS)
def test_pooling(kind: str, dtype: str) -> None:
    target = Target("llvm -mcpu=skylake-avx512")
    data = te.placeholder((1, 2, 11, 12, 16), dtype, "data")
    out = topi.nn.pool2d(data, (3, 3), (2, 2), (1, 1), (1, 1, 1, 1), kind, layout="NCHW16c")
    func = schedule_kernel(te.create_prim_func([data, out]), target)
    x = np.random.default_rng(0).standard_normal((1, 2, 11, 12, 16)).astype(KINDS[dtype])
    found = np.zeros([int(d) for d in out.shape], KINDS[dtype])
    run(func, [x, found])
    plain = x.astype("float32").transpose(0, 1, 4, 2, 3).reshape(1, 32, 11, 12)
    want = topi.testing.poolnd_python(plain, [3, 3], [2, 2], [1, 1], [1, 1], [1, 1], kind, True)
    got = found.astype("float32").transpose(0, 1, 4, 2, 3).reshape(want.shape)
    np.testing.assert_allclose(got, want, rtol=1e-2 if dtype == "bfloat16" else 1e-5, atol=1e-3)
