"""Products on tiles (AMX): dense layers and convolutions, interpreted and compiled with emulated tiles, near what float64 gives."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

import tilewright as tvm
from tests.codegen.amx import SAPPHIRE, assembly, run_emulated
from tilewright import te, tir, topi
from tilewright.codegen.interp import run
from tilewright.scheduling import KernelPlan, schedule_kernel, scheduled
from tilewright.scheduling.block_views import KernelView
from tilewright.scheduling.cpu.tile_products import tile_of
from tilewright.target import Target
from tilewright.tir.tensor_intrin.amx import KINDS

Array = np.ndarray[Any, Any]
TARGET = Target(SAPPHIRE)
CONVOLUTIONS = [
    (14, 32, 32, 32, 1, 1, 0),
    (7, 32, 16, 48, 3, 1, 1),
    (9, 64, 32, 16, 3, 2, 1),
    (36, 16, 16, 32, 3, 1, 1),
    (36, 32, 32, 32, 1, 1, 0),
]
INSTRUCTIONS = {"bf16": "tdpbf16ps", "u8s8": "tdpbusd", "s8s8": "tdpbssd"}


def random(shape: tuple[int, ...], dtype: str, seed: int = 0) -> Array:
    rng = np.random.default_rng(seed)
    if dtype == "bfloat16":
        return rng.standard_normal(shape).astype(ml_dtypes.bfloat16)
    return rng.integers(*((0, 256) if dtype == "uint8" else (-128, 128)), shape).astype(dtype)


def check(
    func: Any, kind: str, args: list[Array], out: tuple[int, ...], want: Array, error: Any, dtype: str = ""
) -> None:
    """Interpreted and compiled results against `want`, within `error`; the instruction is there."""
    found = [np.zeros(out, dtype or KINDS[kind].dtypes[2]) for _ in range(2)]
    run(func, [*args, found[0]])
    run_emulated(func, TARGET, *args, found[1])
    for each in found:
        assert (np.abs(each.astype("float64") - want) <= error).all()
    assert INSTRUCTIONS[kind] in assembly(func, TARGET)


@pytest.mark.parametrize("kind", ["bf16", "u8s8", "s8s8"])
@pytest.mark.parametrize("m, n, steps, nr", [(64, 64, 32, 32), (37, 32, 9, 32), (1, 64, 16, 32), (13, 16, 32, 16)])
def test_dense(kind: str, m: int, n: int, steps: int, nr: int) -> None:
    g, (a_type, b_type, c_type) = KINDS[kind].group, KINDS[kind].dtypes
    with TARGET, KernelPlan(TARGET):
        data, weight = te.placeholder((m, steps * g), a_type), te.placeholder((n // nr, steps, nr, g), b_type)
        out = topi.nn.dense_pack(data, weight, None, c_type)
        func = schedule_kernel(te.create_prim_func([data, weight, out]), TARGET)
    a, b = random((m, steps * g), a_type), random((n // nr, steps, nr, g), b_type, 1)
    plain = b.transpose(1, 3, 0, 2).reshape(steps * g, n).astype("float64")
    want = a.astype("float64") @ plain
    sizes = np.abs(a.astype("float64")) @ np.abs(plain)
    check(func, kind, [a, b], (m, n), want, steps * g * 2.0**-23 * sizes if kind == "bf16" else 0)


@pytest.mark.parametrize("size, channels, block, filters, kernel, stride, pad", CONVOLUTIONS)
@pytest.mark.parametrize("kind", ["bf16", "u8s8"])
def test_conv2d(
    kind: str, size: int, channels: int, block: int, filters: int, kernel: int, stride: int, pad: int
) -> None:
    g, (a_type, b_type, c_type) = KINDS[kind].group, KINDS[kind].dtypes
    blocked = (1, channels // block, size, size + 1, block)
    weights = (filters // 16, channels // block, kernel, kernel, block // g, 16, g)
    with TARGET, KernelPlan(TARGET):
        data, weight = te.placeholder(blocked, a_type), te.placeholder(weights, b_type)
        out = topi.nn.conv2d_NCHWc(data, weight, stride, pad, 1, out_dtype=c_type)
        func = schedule_kernel(te.create_prim_func([data, weight, out]), TARGET)
    a, w = random(blocked, a_type), random(weights, b_type, 1)
    plain = a.transpose(0, 1, 4, 2, 3).reshape(1, channels, size, size + 1).astype("float64")
    by_channel = w.transpose(0, 5, 1, 4, 6, 2, 3).reshape(filters, channels, kernel, kernel).astype("float64")
    want = topi.testing.conv2d_nchw_python(plain, by_channel, stride, pad)
    sizes = topi.testing.conv2d_nchw_python(np.abs(plain), np.abs(by_channel), stride, pad)
    shape = tuple(int(d) for d in out.shape)
    error = channels * kernel**2 * 2.0**-23 * sizes if kind == "bf16" else 0 * sizes
    back = want.reshape(1, filters // 16, 16, *want.shape[2:]).transpose(0, 1, 3, 4, 2)
    check(
        func, kind, [a, w], shape, back, error.reshape(1, filters // 16, 16, *want.shape[2:]).transpose(0, 1, 3, 4, 2)
    )


@pytest.mark.parametrize("transpose_a", [False, True])
@pytest.mark.parametrize("m, k, n", [(16, 64, 32), (37, 19, 21), (5, 32, 16), (65, 133, 13)])
@pytest.mark.parametrize("kind", ["bf16", "u8s8", "s8s8"])
def test_batch_matmul(kind: str, m: int, k: int, n: int, transpose_a: bool) -> None:
    a_type, b_type, c_type = KINDS[kind].dtypes
    shapes = (2, k, m) if transpose_a else (2, m, k), (2, n, k)
    with TARGET, KernelPlan(TARGET):
        a, b = te.placeholder(shapes[0], a_type), te.placeholder(shapes[1], b_type)
        out = topi.nn.batch_matmul(a, b, None, c_type, transpose_a)
        func = schedule_kernel(te.create_prim_func([a, b, out]), TARGET)
    x, y = random(shapes[0], a_type), random(shapes[1], b_type, 1)
    left, right = (x.transpose(0, 2, 1) if transpose_a else x).astype("float64"), y.transpose(0, 2, 1).astype("float64")
    sizes = np.abs(left) @ np.abs(right)
    check(func, kind, [x, y], (2, m, n), left @ right, (k + 1) * 2.0**-23 * sizes if kind == "bf16" else 0)


def dense_case(kind: str) -> tuple[Any, list[Array], Array]:
    g = KINDS[kind].group
    a, b = random((37, 9 * g), KINDS[kind].dtypes[0]), random((1, 9, 32, g), KINDS[kind].dtypes[1], 1)
    want = a.astype("float64") @ b.transpose(1, 3, 0, 2).reshape(9 * g, 32).astype("float64")
    return lambda x, y: topi.nn.dense_pack(x, y, None, KINDS[kind].dtypes[2]), [a, b], want


def batch_case(kind: str) -> tuple[Any, list[Array], Array]:
    a, b = random((2, 13, 21), KINDS[kind].dtypes[0]), random((2, 20, 21), KINDS[kind].dtypes[1], 1)
    want = a.astype("float64") @ b.transpose(0, 2, 1).astype("float64")
    return lambda x, y: topi.nn.batch_matmul(x, y, None, KINDS[kind].dtypes[2]), [a, b], want


def conv_case(kind: str) -> tuple[Any, list[Array], Array]:
    g = KINDS[kind].group
    a, w = (
        random((1, 1, 6, 8, 32), KINDS[kind].dtypes[0]),
        random((2, 1, 1, 1, 32 // g, 16, g), KINDS[kind].dtypes[1], 1),
    )
    plain = w.transpose(1, 4, 6, 0, 5, 2, 3).reshape(32, 2, 16).astype("float64")
    want = np.einsum("hwc,coj->ohwj", a[0, 0].astype("float64"), plain)[None]
    return lambda x, y: topi.nn.conv2d_NCHWc(x, y, 1, 0, 1, out_dtype=KINDS[kind].dtypes[2]), [a, w], want


@pytest.mark.parametrize("case", [dense_case, batch_case, conv_case])
@pytest.mark.parametrize("kind", ["bf16", "u8s8"])
def test_each_choice_computes_the_same(kind: str, case: Any) -> None:
    """Rows, panels and groups of the compute; registers, and the sizes of tiles: what is given is taken, and replays from the trace."""
    compute, arrays, want = case(kind)

    def made(plan: KernelPlan) -> tir.PrimFunc:
        with TARGET, plan:
            tensors = [te.placeholder(a.shape, str(a.dtype)) for a in arrays]
            func = te.create_prim_func([*tensors, compute(*tensors)])
        sch = scheduled(func, TARGET, plan)
        again = tir.Schedule(func)
        sch.trace.apply_to_schedule(again)
        assert tvm.ir.structural_equal(again.mod["main"], sch.mod["main"])
        return sch.mod["main"]

    plan = KernelPlan(TARGET)
    made(plan)
    space = plan.space()
    kinds = {name.rpartition(".")[2] for name in space}
    assert kinds >= {"tile", "registers"} and kinds & {"rows", "columns"}
    assert all(plan.values()[name] in choices for name, choices in space.items())
    picks = [{name: choices[i]} for name, choices in space.items() for i in {0, len(choices) // 2, len(choices) - 1}]
    for given in picks:
        other = KernelPlan(TARGET, given)
        func = made(other)
        assert not other.unfit(), given
        out = np.zeros(want.shape, KINDS[kind].dtypes[2])
        run(func, [*arrays, out])
        np.testing.assert_allclose(out.astype("float64"), want, rtol=1e-4, atol=1e-4, err_msg=str(given))


def test_what_is_no_sum_of_products_stays() -> None:
    """The largest product, and products of differences, have the form of a sum of products, and are none."""
    data, weight = te.placeholder((16, 64), "uint8", "data"), te.placeholder((1, 16, 16, 4), "int8", "weight")
    for reduced, shift in ((te.max, 0), (te.sum, 3)):
        k, g = te.reduce_axis((0, 16), name="k"), te.reduce_axis((0, 4), name="g")

        def element(i: Any, j: Any, k: Any = k, g: Any = g, reduced: Any = reduced, shift: int = shift) -> Any:
            left = data[i, k * 4 + g].astype("int32") - shift
            return reduced(left * weight[0, k, j, g].astype("int32"), axis=[k, g])

        func = te.create_prim_func([data, weight, te.compute((16, 16), element, name="C")])
        (block,) = KernelView(tir.Schedule(func), KernelPlan(TARGET)).blocks()
        assert tile_of(block, TARGET) is None
