"""Convolutions on channel blocks: widths that fill no tile, tiles over lines of small images, data of few channels as it comes; groups
with data of their own."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tilewright as tvm
from tilewright import relay, te
from tilewright.codegen import interp
from tilewright.contrib import graph_executor
from tilewright.ir import Op
from tilewright.relay.functor import post_order
from tilewright.relay.op.convolution.attributes import relayout
from tilewright.relay.op.convolution.windows import np_conv
from tilewright.scheduling import KernelPlan, schedule_kernel
from tilewright.scheduling.cost import image_tile, padded_rows
from tilewright.target import Target
from tilewright.target.core import core
from tilewright.tir.stmt_functor import post_order_visit
from tilewright.topi import nn

TARGET = "llvm -mtriple=x86_64-unknown-linux-gnu -mcpu=skylake-avx512 -num-cores=2"
# data, filters, window, stride, padding, whether data is plain
CASES: list[tuple[Any, ...]] = [
    ((1, 4, 3, 31), 16, (1, 1), 1, (0, 0), False),
    ((1, 4, 3, 31), 16, (3, 3), 1, (1, 1), False),
    ((1, 4, 3, 62), 16, (1, 2), 2, (0, 0), False),
    ((2, 4, 3, 3), 48, (3, 3), 1, (1, 1), False),
    ((1, 8, 6, 2), 32, (3, 3), 1, (1, 1), False),
    ((1, 3, 5, 31), 16, (3, 3), 1, (1, 1), True),
    ((1, 3, 9, 9), 32, (3, 3), 2, (1, 1), True),
]

CORE = core("avx512_intel", 32)


@pytest.mark.parametrize("case", CASES, ids=str)
def test_interpreted_on_blocks(case: tuple[Any, ...]) -> None:
    shape, filters, window, stride, (py, px), plain = case
    rng = np.random.default_rng(5)
    x = rng.standard_normal(shape, np.float32)
    w = rng.standard_normal((filters, shape[1], *window), np.float32)
    block = 1 if plain else 4
    data = np.ascontiguousarray(x if plain else relayout(x, "NCHW", "NCHW4c"))
    weights = np.ascontiguousarray(relayout(w, "OIHW", "OIHW16o" if plain else "OIHW4i16o"))
    expected = np.maximum(np_conv(x, w, (stride,) * 2, ((py, px), (py, px)), (1, 1), 1), 0)
    with Target(TARGET) as target, KernelPlan(target):
        p, q = te.placeholder(data.shape, name="x"), te.placeholder(weights.shape, name="w")
        if block == 1:
            made = nn.conv2d_plain_NCHWc(p, q, stride, (py, px), 1)
        else:
            made = nn.conv2d_NCHWc(p, q, stride, (py, px), 1)
        f = schedule_kernel(te.create_prim_func([p, q, nn.relu(made)]), target)
    got = np.zeros(relayout(expected, "NCHW", "NCHW16c").shape, np.float32)
    interp.run(f, [data, weights, got])
    np.testing.assert_allclose(relayout(got, "NCHW16c", "NCHW"), expected, rtol=1e-4, atol=1e-4)


def test_tiles_of_narrow_and_of_odd_images() -> None:
    assert padded_rows(41, 2, CORE) == 42
    assert padded_rows(14, 2, CORE) == 14
    assert image_tile(14, 14, 2, CORE) == (1, 14, 2)
    assert image_tile(3, 3, 11, CORE) == (3, 3, 1)


@pytest.mark.parametrize("form", ["rows", "flat"])
@pytest.mark.parametrize(
    ("shape", "window", "stride"), [((1, 8, 9, 9), (3, 3), 2), ((2, 8, 6, 20), (3, 3), 1), ((1, 9, 7, 18), (2, 5), 3)]
)
def test_groups_with_data_of_their_own(form: str, shape: tuple[int, ...], window: tuple[int, int], stride: int) -> None:
    """Each channel's padded data is computed where it is read."""
    rng = np.random.default_rng(5)
    x, w = rng.standard_normal(shape, np.float32), rng.standard_normal((shape[1], 1, *window), np.float32)
    expected = np_conv(x, w, (stride,) * 2, ((1, 1), (1, 1)), (1, 1), shape[1])
    target = Target(TARGET)
    plan = KernelPlan(target, {"DepthwiseConv2d.form": form})
    with plan:
        p, q = te.placeholder(x.shape, name="x"), te.placeholder(w.shape, name="w")
        made = te.create_prim_func([p, q, nn.group_conv2d_nchw(p, q, stride, (1, 1, 1, 1), 1, shape[1])])
    f = schedule_kernel(made, target, plan)
    assert not plan.unfit()
    got = np.zeros(expected.shape, np.float32)
    interp.run(f, [x, w, got])
    np.testing.assert_allclose(got, expected, rtol=1e-4, atol=1e-4)


def test_sums_stay_in_registers_where_their_reader_counts_along_the_image() -> None:
    """The reader of a flat image takes sums from a copy: places between the rows lie across vectors."""
    with Target(TARGET) as target, KernelPlan(target):
        p, q = te.placeholder((1, 8, 6, 6), name="x"), te.placeholder((40, 8, 3, 3), name="w")
        f = schedule_kernel(te.create_prim_func([p, q, nn.group_conv2d_nchw(p, q, 1, (1, 1, 1, 1), 1, 1)]), target)
    loads: list[Any] = []
    post_order_visit(f.body, lambda s: loads.append(s) if isinstance(s, tvm.tir.Block) else None)
    (reader,) = [b for b in loads if b.name_hint == "T_places"]
    (update,) = [b for b in loads if b.name_hint.endswith("_update")]
    assert reader.reads[0].buffer is not update.writes[0].buffer


def convolutions(mod: tvm.IRModule) -> set[str]:
    with Target(TARGET) as chosen, KernelPlan(chosen):
        made = tvm.transform.Sequential([relay.transform.InferType(), relay.transform.AlterOpLayout()])(mod)
    return {e.op.name for e in post_order(made["main"]) if isinstance(e, relay.Call) and isinstance(e.op, Op)}


def test_a_lone_convolution_stays_plain_where_conversions_cost_more() -> None:
    data, few = relay.var("x", shape=(1, 64, 120, 120)), np.ones((16, 64, 1, 1), np.float32)
    depthwise = relay.nn.conv2d(
        data, relay.const(np.ones((64, 1, 3, 3), np.float32)), padding=(1, 1), groups=64, channels=64
    )
    lone = relay.Function([data], relay.nn.relu(depthwise))
    assert "nn.conv2d" in convolutions(tvm.IRModule.from_expr(lone))
    both = relay.Function([data], relay.nn.conv2d(relay.nn.relu(depthwise), relay.const(few)))
    assert "nn.conv2d" not in convolutions(tvm.IRModule.from_expr(both))
    heavy = relay.nn.conv2d(data, relay.const(np.ones((128, 64, 5, 5), np.float32)), strides=(2, 2), padding=(2, 2))
    assert "nn.contrib_conv2d_NCHWc" in convolutions(tvm.IRModule.from_expr(relay.Function([data], heavy)))


def test_blocks_that_are_no_vectors_are_turned_whole() -> None:
    """Tiles of 16 do not go on into the next block of 13 channels."""
    x = np.random.default_rng(0).standard_normal((1, 26, 5, 20)).astype(np.float32)
    data = relay.var("x", shape=x.shape)
    mod = tvm.IRModule.from_expr(relay.Function([data], relay.layout_transform(data, "NCHW", "NCHW13c")))
    module = graph_executor.GraphModule(relay.build(mod, target="llvm")["default"](tvm.cpu()))
    module.set_input("x", x)
    module.run()
    np.testing.assert_array_equal(module.get_output(0).numpy(), relayout(x, "NCHW", "NCHW13c"))


@pytest.mark.parametrize(("cpu", "block"), [("cortex-a76", 4), ("neoverse-v1", 8), ("a64fx", 16)])
def test_blocks_of_channels_are_vectors_of_the_processor(cpu: str, block: int) -> None:
    """SVE's too, whatever their width; and Winograd's form, which needs whole vectors, is found on all of them."""
    target = Target(f"llvm -mtriple=aarch64-linux-gnu -mcpu={cpu}")
    x, w = relay.var("x", shape=(1, 64, 56, 56)), relay.const(np.ones((64, 64, 3, 3), np.float32))
    y = relay.nn.conv2d(relay.nn.relu(relay.nn.conv2d(x, w, padding=(1, 1))), w, padding=(1, 1))
    with target, tvm.transform.PassContext(opt_level=3):
        made, _ = relay.optimize(tvm.IRModule.from_expr(relay.Function([x], y)), target)
    calls = [e for e in post_order(made["main"]) if isinstance(e, relay.Call) and isinstance(e.op, Op)]
    found = {(e.op.name, e.attrs.data_layout) for e in calls if "conv2d" in e.op.name}
    assert found == {("nn.contrib_conv2d_winograd_NCHWc", f"NCHW{block}c")}
