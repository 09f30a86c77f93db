"""Products of bfloat16 by the dot-product instruction: in the interpreter and compiled, near what float64 gives."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

import tilewright as tvm
from tilewright import te, topi
from tilewright.codegen.interp import run
from tilewright.scheduling import KernelPlan, schedule_kernel
from tilewright.scheduling.instructions import dot_product
from tilewright.target import Target
from tilewright.target.cpu import host_cpu

ZEN = "llvm -mcpu=znver4"
Array = np.ndarray[Any, Any]


def random(shape: tuple[int, ...], seed: int = 0) -> Array:
    return np.random.default_rng(seed).standard_normal(shape).astype(ml_dtypes.bfloat16)


def results(func: Any, target: Target, *args: Array) -> list[Array]:
    """What the interpreter and, where this machine can run it, the compiled kernel write to the last argument."""
    found = [args[-1].copy()]
    run(func, [*args[:-1], found[0]])
    if target.cpu.arch == host_cpu().arch and target.cpu.features <= host_cpu().features:
        out = tvm.nd.array(args[-1])
        tvm.build(func, target=target)(*[tvm.nd.array(a) for a in args[:-1]], out)
        found.append(out.numpy())
    return found


def check(found: Array, want: Array, terms: int, sizes: Array) -> None:
    """Within what rounding `terms` sums in float32 explains; `sizes`: the sums of the products' magnitudes."""
    assert (np.abs(found - want) <= terms * 2.0**-23 * sizes + 1e-30).all()


@pytest.mark.parametrize(
    "m, n, k, nr", [(5, 32, 12, 16), (1, 64, 8, 64), (13, 48, 36, 16), (2, 24, 20, 8), (3, 12, 4, 4)]
)
def test_dense(m: int, n: int, k: int, nr: int) -> None:
    target = Target(ZEN)
    with target, KernelPlan(target):
        data, weight = te.placeholder((m, k), "bfloat16"), te.placeholder((n // nr, k // 2, nr, 2), "bfloat16")
        out = topi.nn.dense_pack(data, weight, None, "float32")
        func = schedule_kernel(te.create_prim_func([data, weight, out]), target)
    assert "dpbf16ps" in func.script()
    a, w = random((m, k)), random((k, n), 1)
    packed = np.ascontiguousarray(w.reshape(k // 2, 2, n // nr, nr).transpose(2, 0, 3, 1))
    want = a.astype("float64") @ w.astype("float64")
    sizes = np.abs(a).astype("float64") @ np.abs(w).astype("float64")
    for found in results(func, target, a, packed, np.zeros((m, n), "float32")):
        check(found, want, k, sizes)


@pytest.mark.parametrize(
    "size, channels, block, filters, out_block, kernel, stride, pad",
    [(7, 32, 16, 32, 16, 1, 1, 0), (6, 16, 16, 48, 16, 3, 2, 1), (5, 4, 4, 16, 16, 3, 1, 1), (5, 8, 8, 8, 8, 3, 1, 0)],
)
def test_conv2d(
    size: int, channels: int, block: int, filters: int, out_block: int, kernel: int, stride: int, pad: int
) -> None:
    target = Target(ZEN)
    blocked = (1, channels // block, size, size + 1, block)
    weights = (filters // out_block, channels // block, kernel, kernel, block // 2, out_block, 2)
    with target, KernelPlan(target):
        data, weight = te.placeholder(blocked, "bfloat16"), te.placeholder(weights, "bfloat16")
        out = topi.nn.conv2d_NCHWc(data, weight, stride, pad, 1, out_dtype="float32")
        func = schedule_kernel(te.create_prim_func([data, weight, out]), target)
    assert "dpbf16ps" in func.script()
    a, w = random(blocked), random(weights, 1)
    plain = a.transpose(0, 1, 4, 2, 3).reshape(1, channels, size, size + 1).astype("float64")
    by_channel = w.transpose(0, 5, 1, 4, 6, 2, 3).reshape(filters, channels, kernel, kernel).astype("float64")
    want = topi.testing.conv2d_nchw_python(plain, by_channel, stride, pad)
    sizes = topi.testing.conv2d_nchw_python(np.abs(plain), np.abs(by_channel), stride, pad)
    shape = tuple(int(d) for d in out.shape)
    for found in results(func, target, a, w, np.zeros(shape, "float32")):
        check(found.transpose(0, 1, 4, 2, 3).reshape(want.shape), want, channels * kernel**2, sizes)


def test_the_instruction_is_chosen_where_it_is_fast() -> None:
    """On processors with AMX it has half the rate of float32's multiply-adds."""
    types = ("bfloat16", "bfloat16", "float32")
    for cpu, there in (
        ("znver4", True),
        ("znver5", True),
        ("cooperlake", True),
        ("sapphirerapids", False),
        ("skylake-avx512", False),
    ):
        assert (dot_product(Target(f"llvm -mcpu={cpu}"), *types) is not None) == there
    assert dot_product(Target("llvm -mcpu=sapphirerapids -mattr=-amx-bf16"), *types) is not None


@pytest.mark.parametrize("kernel, stride, pad", [(3, 2, 1), (7, 2, 3), (2, 1, 0), (4, 4, 0)])
def test_first_layer_reads_rows_of_plain_images(kernel: int, stride: int, pad: int) -> None:
    target = Target(ZEN)
    shape, pieces = (1, 3, 13, 15), -(-kernel // 2)
    with target, KernelPlan(target):
        data = te.placeholder(shape, "bfloat16")
        weight = te.placeholder((2, 3, kernel, pieces, 16, 2), "bfloat16")
        out = topi.nn.conv2d_rows_NCHWc(data, weight, kernel, stride, pad, 1, "float32")
        func = schedule_kernel(te.create_prim_func([data, weight, out]), target)
    assert "dpbf16ps" in func.script()
    a, w = random(shape), random((32, 3, kernel, kernel), 1)
    filled = np.pad(w.astype("float32"), [(0, 0)] * 3 + [(0, pieces * 2 - kernel)]).astype(w.dtype)
    packed = filled.reshape(2, 16, 3, kernel, pieces, 2).transpose(0, 2, 3, 4, 1, 5)
    want = topi.testing.conv2d_nchw_python(a.astype("float64"), w.astype("float64"), stride, pad)
    sizes = topi.testing.conv2d_nchw_python(np.abs(a).astype("float64"), np.abs(w).astype("float64"), stride, pad)
    for found in results(
        func, target, a, np.ascontiguousarray(packed), np.zeros([int(d) for d in out.shape], "float32")
    ):
        check(found.transpose(0, 1, 4, 2, 3).reshape(want.shape), want, 3 * kernel**2, sizes)


@pytest.mark.parametrize("transpose_a", [False, True])
@pytest.mark.parametrize("transpose_b", [False, True])
@pytest.mark.parametrize("m, k, n", [(6, 8, 16), (13, 7, 21), (5, 9, 3), (16, 1, 40)])
def test_batch_matmul(m: int, k: int, n: int, transpose_a: bool, transpose_b: bool) -> None:
    target = Target(ZEN)
    shapes = (2, k, m) if transpose_a else (2, m, k), (2, n, k) if transpose_b else (2, k, n)
    with target, KernelPlan(target):
        a, b = (te.placeholder(s, "bfloat16") for s in shapes)
        out = topi.nn.batch_matmul(a, b, None, "float32", transpose_a, transpose_b)
        func = schedule_kernel(te.create_prim_func([a, b, out]), target)
    assert "dpbf16ps" in func.script()
    x, y = random(shapes[0]), random(shapes[1], 1)
    left = (x.transpose(0, 2, 1) if transpose_a else x).astype("float64")
    right = (y.transpose(0, 2, 1) if transpose_b else y).astype("float64")
    for found in results(func, target, x, y, np.zeros((2, m, n), "float32")):
        check(found, left @ right, k + 1, np.abs(left) @ np.abs(right))
