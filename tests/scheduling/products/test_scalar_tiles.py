"""Products on processors without vectors: tiles of sums in registers, run in the interpreter."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tilewright import te, topi
from tilewright.codegen import interp
from tilewright.scheduling import KernelPlan, schedule_kernel
from tilewright.scheduling.cpu.scalar_tiles import Registers, tile_costs
from tilewright.target import Target
from tilewright.tir import ForKind
from tilewright.tir.stmt_functor import post_order_visit

M0 = "c -mtriple=thumbv6m-unknown-none-eabi -mcpu=cortex-m0plus"
M7 = "llvm -mtriple=thumbv7em-unknown-none-eabihf -mcpu=cortex-m7"
RV32 = "llvm -mtriple=riscv32-unknown-none-elf -mattr=+m,+c -mabi=ilp32"


def ran(
    target: str, shapes: list[tuple[int, ...]], made: Any, dtype: str, values: Any = None
) -> tuple[Any, KernelPlan]:
    """(scheduled kernel, plan): the kernel in the interpreter gives what it gives without a schedule."""
    plan = KernelPlan(Target(target), values or {})
    given = [te.placeholder(s, dtype, f"p{k}") for k, s in enumerate(shapes)]
    with plan:
        out = made(*given)
        func = te.create_prim_func([*given, out])
    scheduled = schedule_kernel(func, Target(target), plan)
    assert not plan.fallbacks and not plan.unfit()
    random = np.random.default_rng(0)
    inputs = [random.integers(-9, 9, s).astype(dtype) for s in shapes]
    wanted, found = (np.zeros([int(d) for d in out.shape], out.dtype) for _ in range(2))
    interp.run(func, [*inputs, wanted])
    interp.run(scheduled, [*inputs, found])
    np.testing.assert_array_equal(found, wanted)
    return scheduled, plan


def unrolled(func: Any) -> int:
    loops: list[Any] = []
    post_order_visit(func.body, lambda s: loops.append(s) if getattr(s, "kind", None) == ForKind.UNROLLED else None)
    return len(loops)


def convolution(data: te.Tensor, weight: te.Tensor) -> te.Tensor:
    made = topi.nn.conv2d(data, weight, 1, (1, 1), 1, data_layout="NHWC", kernel_layout="HWIO", out_dtype="int32")
    return topi.nn.relu(made)


def dense(data: te.Tensor, weight: te.Tensor) -> te.Tensor:
    return topi.nn.dense(data, weight, out_dtype=data.dtype if data.dtype == "float32" else "int32")


@pytest.mark.parametrize("target", [M0, RV32])
@pytest.mark.parametrize("shapes", [[(1, 5, 6, 3), (3, 3, 3, 4)], [(1, 4, 7, 2), (1, 1, 2, 5)]])
def test_convolutions(target: str, shapes: list[tuple[int, ...]]) -> None:
    func, plan = ran(target, shapes, convolution, "int8")
    assert unrolled(func) > 3 and any([name.endswith(".tile") for name in plan.values()])


@pytest.mark.parametrize("target, dtype", [(M0, "int8"), (M7, "float32"), (RV32, "int8")])
@pytest.mark.parametrize("shapes", [[(1, 12), (10, 12)], [(6, 7), (4, 7)]])
def test_dense_layers(target: str, dtype: str, shapes: list[tuple[int, ...]]) -> None:
    func, _ = ran(target, shapes, dense, dtype)
    assert unrolled(func) > 3


def test_plans_choose_tiles() -> None:
    _, plan = ran(M7, [(6, 8), (4, 8)], dense, "float32")
    (tile,) = [name for name in plan.values() if name.endswith(".tile")]
    rows, columns = plan.values()[tile]
    assert rows * columns >= 12
    for value in ([1, 1], [2, 4], [3, 1]):
        _, other = ran(M7, [(6, 8), (4, 8)], dense, "float32", {tile: tuple(value)})
        assert other.values()[tile] == value


def test_tiles_fit_into_registers() -> None:
    small, floats = tile_costs(8, 8, Registers(5, 2)), tile_costs(8, 8, Registers(28, 1))
    assert {*small} == {(1, 1), (1, 2), (2, 1)}
    assert (4, 4) in floats and (8, 8) not in floats
