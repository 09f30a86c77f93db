"""Convolutions as products on matrix units: the copies to shared memory read the windows of images."""

from __future__ import annotations

from typing import Any

import pytest

from tests.scheduling.gpu.test_products import CUDA, check
from tests.slow import all_but
from tilewright import relay, te, tir, topi
from tilewright.ir import IRModule
from tilewright.scheduling import GraphPlan
from tilewright.scheduling.gpu.matrix_form import divide_groups, product_of
from tilewright.scheduling.kernel_plan import KernelPlan
from tilewright.scheduling.whole_kernel import scheduled
from tilewright.target import Target
from tilewright.tir.schedule import Schedule

SMALL = [32, 32, 32, 16, 16, 3]


def convolution(
    layout: str, n: int, h: int, w: int, c_in: int, c_out: int, kernel: int, stride: Any = 1, pad: Any = 0, dilation: int = 1,
    groups: int = 1,
) -> tir.PrimFunc:  # fmt: skip
    inner = c_in // groups
    if layout == "NHWC":
        x, k = (
            te.placeholder((n, h, w, c_in), "float16", name="x"),
            te.placeholder((kernel, kernel, inner, c_out), "float16", name="k"),
        )
        if groups == 1:
            y = topi.nn.conv2d(x, k, stride, pad, dilation, "NHWC", "HWIO", "float32")
        else:
            y = topi.nn.group_conv2d_nhwc(x, k, stride, pad, dilation, groups, "float32")
    else:
        x, k = (
            te.placeholder((n, c_in, h, w), "float16", name="x"),
            te.placeholder((c_out, inner, kernel, kernel), "float16", name="k"),
        )
        if groups == 1:
            y = topi.nn.conv2d(x, k, stride, pad, dilation, "NCHW", "OIHW", "float32")
        else:
            y = topi.nn.group_conv2d_nchw(x, k, stride, pad, dilation, groups, "float32")
    z = topi.nn.relu(y)
    return te.create_prim_func([x, k, te.compute(z.shape, lambda *at: z[at].astype("float16"), name="out")])


CASES: dict[str, Any] = {
    "3x3": ("NHWC", 1, 6, 6, 16, 32, 3, 1, 1),
    "strided": ("NHWC", 2, 9, 7, 16, 24, 3, 2, 1),
    "dilated": ("NHWC", 1, 9, 9, 8, 16, 3, 1, 2, 2),
    "three channels": ("NHWC", 1, 8, 8, 3, 16, 3, 2, (1, 0)),
    "four channels": ("NHWC", 1, 8, 8, 4, 16, 3, 2, 1),
    "1x1": ("NHWC", 1, 5, 7, 32, 40, 1),
    "groups": ("NHWC", 1, 6, 6, 32, 32, 3, 1, 1, 1, 2),
    "groups, channels first": ("NCHW", 1, 6, 6, 16, 32, 3, 2, 1, 1, 2),
    "channels first": ("NCHW", 1, 6, 6, 16, 16, 3, 1, 1),
    "channels first, 1x1": ("NCHW", 1, 8, 8, 32, 16, 1),
}


@pytest.mark.parametrize("name", CASES)
def test_convolutions(name: str) -> None:
    func = convolution(*CASES[name])
    block = next(b for b in decided(func) if "conv2d" in b)
    text = check(func, given={f"{block}.tile": SMALL, f"{block}.parts": 1})
    # Vectors of channels are copied without registers; of pixels and of three channels, the filters alone.
    assert "ptx_cp_async" in text


TYPES: dict[str, tuple[str, str, str, list[int]]] = {
    "float16 by m16n8k8": ("cuda -arch=sm_75", "float16", "float32", [32, 32, 32, 16, 16, 1]),
    "int8": (CUDA, "int8", "int32", [32, 32, 64, 16, 16, 2]),
    "tf32": (f"{CUDA} -allow-tf32=1", "float32", "float32", [32, 32, 16, 16, 16, 3]),
}


@pytest.mark.parametrize("name", all_but(("int8",), TYPES))
def test_types_of_matrix_units(name: str) -> None:
    target, dtype, sums, tile = TYPES[name]
    x, k = (te.placeholder(s, dtype, name=n) for s, n in (((1, 6, 6, 16), "x"), ((3, 3, 16, 32), "k")))
    func = te.create_prim_func([x, k, topi.nn.conv2d(x, k, 1, 1, 1, "NHWC", "HWIO", sums)])
    text = check(func, target, {"conv2d_nhwc.tile": tile, "conv2d_nhwc.parts": 1})
    assert name.partition("by ")[2] in text


@pytest.mark.parametrize(("dtype", "layout"), [("int8", "OHWI"), ("float16", "HWIO")])
def test_weights_run_along_channels_where_they_cannot_be_transposed(dtype: str, layout: str) -> None:
    """Matrix units take operands along the sum, as which ldmatrix loads 16 bits of any order."""
    x, w = (relay.var(n, relay.TensorType(s, dtype)) for n, s in (("x", (1, 16, 8, 8)), ("w", (32, 16, 3, 3))))
    sums = "int32" if dtype == "int8" else "float32"
    y = relay.nn.conv2d(x, w, channels=32, kernel_size=(3, 3), padding=(1, 1), out_dtype=sums)
    with Target(CUDA), GraphPlan(CUDA):
        text = relay.transform.ChannelsLast()(IRModule.from_expr(relay.Function([x, w], y))).astext()
    assert f'data_layout="NHWC", kernel_layout="{layout}"' in text


def decided(func: tir.PrimFunc) -> list[str]:
    """The names of blocks that a plan decides about."""
    plan = KernelPlan(CUDA)
    scheduled(func, Target(CUDA), plan)
    return [name.rpartition(".")[0] for name in plan.values()]


def test_the_epilogue_is_in_the_store() -> None:
    plan = KernelPlan(CUDA)
    made = scheduled(convolution("NHWC", 1, 6, 6, 16, 32, 3, 1, 1), Target(CUDA), plan)
    assert not plan.fallbacks and len(made.get_child_blocks(made.get_block("root"))) == 7
    assert "alloc_buffer((1, 6, 6, 32)" not in made.mod.script()


def test_groups_are_a_batch() -> None:
    """The filter's number divided by the filters of a group is the group, once the groups have an axis of their own."""
    sch = Schedule(convolution("NHWC", 1, 6, 6, 32, 32, 3, 1, 1, 1, 2))
    block = sch.get_block("conv2d_nhwc")
    assert product_of(sch.get(block)) is None
    divide_groups(sch, block)
    found = product_of(sch.get(block))
    assert found is not None and (found.b, found.m, found.n, found.k) == ((3,), (0, 1, 2), (4,), (5, 6, 7))
