"""Outputs of convolutions over the memory of their data: scheduled kernels run by the interpreter on the planned arena, and plans with such
pairs."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

import tilewright as tvm
from tilewright import relay
from tilewright.codegen import interp
from tilewright.ir import IRModule
from tilewright.relay.backend.kernels.machine_code import scheduled
from tilewright.relay.backend.planning.memory_plan import Storage, peak, plan
from tilewright.relay.backend.planning.memory_report import memory_report
from tilewright.relay.backend.planning.plan import KernelCall, Plan, make_plan
from tilewright.relay.backend.planning.plan_executor import run_plan
from tilewright.relay.backend.te_compiler import TECompiler
from tilewright.target import Target

M7 = Target("llvm -mtriple=thumbv7em-unknown-none-eabihf -mcpu=cortex-m7")


def planned(mod: IRModule, target: Target) -> Plan:
    optimized, _ = relay.optimize(mod, target)
    return make_plan(optimized, TECompiler(target))


Layer = tuple[str, int, int | tuple[int, int], int]
"""(kind, side of the window, stride or both strides, filters) of a convolution."""


def sums(data: relay.Expr, channels: int, layer: Layer, random: np.random.Generator) -> relay.Expr:
    """The sums of a convolution of int8."""
    kind, side, stride, filters = layer
    strides = stride if isinstance(stride, tuple) else (stride, stride)
    deep = kind == "depthwise"
    window = (side, side, 1 if deep else channels, channels if deep else filters)
    weight = random.integers(-127, 128, window).astype("int8")
    return relay.nn.conv2d(
        data, relay.const(weight), strides=strides, padding=(side // 2, side // 2), channels=window[3],
        kernel_size=(side, side), data_layout="NHWC", kernel_layout="HWIO", groups=channels if deep else 1, out_dtype="int32",
    )  # fmt: skip


def requantised(of: relay.Expr) -> relay.Expr:
    """Sums as int8, by a shift."""
    return relay.cast(relay.clip(relay.right_shift(of, relay.const(8)), -128, 127), "int8")


def network(layers: Sequence[Layer], shape: tuple[int, int, int], seed: int) -> IRModule:
    """A chain of convolutions of int8, each requantised."""
    random = np.random.default_rng(seed)
    x = y = relay.var("x", shape=(1, *shape), dtype="int8")
    channels = shape[2]
    for layer in layers:
        y = requantised(sums(y, channels, layer, random))
        channels = channels if layer[0] == "depthwise" else layer[3]
    return IRModule.from_expr(relay.Function([x], y))


def check(mod: IRModule, shape: tuple[int, int, int]) -> None:
    """Results of the scheduled kernels in the planned arena are those of the CPU, and some output lies over data."""
    data = np.random.default_rng(2).integers(-128, 128, (1, *shape)).astype("int8")
    found = planned(mod, M7)
    assert any([s.over for c in found.calls for p in c.args if (s := p.storage) is not None])

    def run_kernel(call: KernelCall, arrays: list[np.ndarray]) -> None:
        with M7:
            interp.run(scheduled(call.kernel.func, M7, call.kernel.plan), list(arrays))

    lib = relay.build(mod, "llvm")
    runner = tvm.contrib.graph_executor.GraphModule(lib["default"](tvm.cpu()))
    runner.run(x=data)
    np.testing.assert_array_equal(run_plan(found, [data], run_kernel)[0], runner.get_output(0).numpy())


POINT: Layer = ("conv", 1, 1, 8)
CHAINS: dict[str, tuple[list[Layer], tuple[int, int, int]]] = {
    "pointwise": ([POINT, ("conv", 1, 1, 16), ("conv", 1, 1, 4), POINT], (6, 5, 8)),
    "windows": ([("conv", 3, 1, 8), ("conv", 3, 1, 8), ("conv", 3, 2, 12), ("conv", 3, 1, 4)], (9, 7, 4)),
    "depthwise": ([POINT, ("depthwise", 3, 1, 0), ("depthwise", 5, 1, 0), ("depthwise", 3, 2, 0), POINT], (19, 4, 4)),
    "bands": ([POINT, ("depthwise", 3, 1, 0), ("depthwise", 3, 2, 0), POINT], (34, 3, 4)),
}


@pytest.mark.parametrize("name", CHAINS)
def test_kernels_read_what_they_need_before_it_is_overwritten(name: str) -> None:
    layers, shape = CHAINS[name]
    check(network(layers, shape, 1), shape)


def test_bands_may_have_fewer_lines_than_the_most() -> None:
    """Widened data of four of the twelve lines is too much, so bands have three. The second still reads the first line of data when
    six lines are written; the second of four would begin to read one line later."""
    random, shape = np.random.default_rng(1), (12, 40, 8)
    x = relay.var("x", shape=(1, *shape), dtype="int8")
    wide = sums(requantised(sums(x, 8, POINT, random)), 8, ("depthwise", 7, (1, 8), 0), random)
    y = relay.nn.max_pool2d(relay.cast(relay.clip(wide, -32768, 32767), "int16"), pool_size=(2, 2), layout="NHWC")
    check(IRModule.from_expr(relay.Function([x], y)), shape)


def test_memory_of_data_is_used_for_results() -> None:
    """Two tensors of 16 lines, of which the second lies two lines before the first, take 18 lines; and the report counts bytes once."""
    mod = network([("conv", 1, 1, 8), ("conv", 3, 1, 8), ("conv", 1, 1, 4)], (16, 16, 8), 3)
    found, line = planned(mod, M7), 16 * 8
    assert found.workspace_bytes == 18 * line
    report = memory_report(found)
    assert report.arena_bytes == report.peak_bytes == 18 * line
    assert planned(mod, Target("llvm")).workspace_bytes == 32 * line


def test_values_that_are_read_again_are_not_overwritten() -> None:
    x = relay.var("x", shape=(1, 8, 8, 8), dtype="int8")

    def conv(data: relay.Expr, seed: int) -> relay.Expr:
        weight = np.random.default_rng(seed).integers(-127, 128, (1, 1, 8, 8)).astype("int8")
        sums = relay.nn.conv2d(
            data, relay.const(weight), channels=8, kernel_size=(1, 1), data_layout="NHWC", kernel_layout="HWIO", out_dtype="int32"
        )  # fmt: skip
        return relay.cast(relay.clip(relay.right_shift(sums, relay.const(8)), -128, 127), "int8")

    first = conv(x, 0)
    found = planned(IRModule.from_expr(relay.Function([x], relay.maximum(conv(conv(first, 1), 2), first))), M7)
    (made,) = [c.args[-1].storage for c in found.calls if c.args[0].kind == "input"]
    assert made is not None and not any([made in s.over for c in found.calls if (s := c.args[-1].storage) is not None])


def conflicts(storages: list[Storage]) -> list[tuple[Storage, Storage]]:
    """Pairs that live at one step in the same bytes, other than where one is over the other as far as it may."""
    return [
        (a, b)
        for i, a in enumerate(storages)
        for b in storages[:i]
        if a.begin <= b.end and b.begin <= a.end and a.offset < b.offset + b.size and b.offset < a.offset + a.size
        and not any([over.offset + over.over[under] <= under.offset for over, under in ((a, b), (b, a)) if under in over.over])
    ]  # fmt: skip


@pytest.mark.parametrize("seed", range(60))
def test_plans_with_pairs(seed: int) -> None:
    random, storages = np.random.default_rng(seed), list[Storage]()
    last: Storage | None = None
    for step in range(int(random.integers(2, 30))):
        made = Storage(int(random.choice([64, 640, 1024, 4096])), step, step + 1 + int(random.choice([0, 0, 1, 5])))
        if last is not None and last.end == step and random.random() < 0.8:
            made.over[last] = 64 * int(random.integers(1, 20))
        storages.append(made)
        last = made
    total = plan(storages)
    assert conflicts(storages) == []
    assert peak(storages) <= total == max([s.offset + s.size for s in storages])
    apart = [Storage(s.size, s.begin, s.end) for s in storages]
    assert total <= plan(apart)


def test_a_chain_lies_step_by_step_lower() -> None:
    storages = [Storage(4096, k, k + 1) for k in range(6)]
    for one, other in zip(storages, storages[1:], strict=False):
        other.over[one] = 128
    assert plan(storages) <= 4096 + 5 * 128 and conflicts(storages) == []
    assert storages[0].offset - storages[5].offset == 5 * 128
