"""Products on matrix units: kernels of the rule compute what their programs say, as scheduled and as on a device."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tilewright as tvm
from tests.slow import all_but
from tests.tensor_intrin.on_devices import as_on_device, inputs_of, results
from tilewright import te, tir, topi
from tilewright.codegen.interp import async_copies, warp_registers
from tilewright.node import assert_structural_equal
from tilewright.scheduling.gpu.product_tiles import ProductTile, best_tile, registers_of, resident_blocks
from tilewright.scheduling.kernel_plan import KernelPlan
from tilewright.scheduling.whole_kernel import scheduled
from tilewright.target import Target
from tilewright.tir.schedule import Schedule

CUDA = "cuda -arch=sm_80"


def matmul(
    m: int, n: int, k: int, dtype: str, sums: str, trans_a: bool = False, trans_b: bool = True, batch: tuple[int, ...] = (),
    epilogue: bool = False,
) -> tir.PrimFunc:  # fmt: skip
    a = te.placeholder((*batch, *((k, m) if trans_a else (m, k))), dtype, name="A")
    b = te.placeholder((*batch, *((n, k) if trans_b else (k, n))), dtype, name="B")
    r = te.reduce_axis((0, k), "k")

    def term(*at: Any) -> Any:
        *q, i, j = at
        left, right = a[(*q, r, i) if trans_a else (*q, i, r)], b[(*q, j, r) if trans_b else (*q, r, j)]
        return te.sum(left.astype(sums) * right.astype(sums), axis=r)

    c = te.compute((*batch, m, n), term, name="C")
    if not epilogue:
        return te.create_prim_func([a, b, c])
    bias, other = te.placeholder((n,), sums, name="bias"), te.placeholder((*batch, m, n), "float16", name="other")
    d = topi.nn.relu(te.compute(c.shape, lambda *at: c[at] + bias[at[-1]] + other[at].astype(sums), name="sum"))
    e = te.compute(c.shape, lambda *at: d[at].astype("float16"), name="E")
    return te.create_prim_func([a, b, bias, other, e])


def check(
    func: tir.PrimFunc, target: str = CUDA, given: dict[str, Any] | None = None, instruction: str = "ptx_mma"
) -> str:
    """Runs a kernel's schedule. Returns the text of the program of the device, in which there is an instruction."""
    plan = KernelPlan(target, given)
    made = scheduled(func, Target(target), plan)
    assert not plan.unfit(), plan.unfit()
    inputs = inputs_of(func)
    want = results(func, inputs)[-1]
    lowered = as_on_device(made.mod, target)
    text = lowered.script()
    assert instruction in text
    np.testing.assert_array_equal(results(lowered, inputs, check_races=True)[-1], want)
    return text


SMALL = [32, 32, 32, 16, 16, 3]
CASES: dict[str, tuple[tir.PrimFunc, dict[str, Any]]] = {
    "float16": (matmul(48, 40, 64, "float16", "float32", epilogue=True), {"C.tile": SMALL}),
    "bfloat16": (matmul(33, 24, 40, "bfloat16", "float32"), {"C.tile": SMALL}),
    "sums in float16": (matmul(32, 32, 64, "float16", "float16"), {"C.tile": SMALL}),
    "int8": (matmul(32, 48, 128, "int8", "int32"), {"C.tile": [32, 32, 64, 16, 16, 3]}),
    "transposed": (matmul(64, 32, 32, "float16", "float32", True, False), {"C.tile": SMALL}),
    "rows of odd length": (matmul(17, 19, 23, "float16", "float32"), {"C.tile": SMALL}),
    "batch": (matmul(32, 32, 32, "float16", "float32", batch=(2, 3)), {"C.tile": SMALL}),
    "strips": (matmul(64, 128, 32, "float16", "float32"), {"C.tile": SMALL, "C.strip": 2}),
    "strips of rows": (matmul(128, 64, 32, "float16", "float32"), {"C.tile": SMALL, "C.strip": -4}),
    "parts": (matmul(32, 32, 512, "float16", "float32", epilogue=True), {"C.tile": SMALL, "C.parts": 4}),
    "optimized iterators": (
        matmul(33, 24, 200, "float16", "float32"),
        {"C.tile": SMALL, "C.iterators": "optimized", "C.parts": 1},
    ),
    "int8, rows of both along the other axis": (
        matmul(32, 32, 64, "int8", "int32", True, False), {"C.tile": [32, 32, 64, 16, 16, 2]},
    ),
    "model": (matmul(20, 24, 32, "float16", "float32"), {}),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_products(name: str) -> None:
    func, given = CASES[name]
    check(func, given=given)


TYPES: dict[str, tuple[str, tir.PrimFunc, dict[str, Any]]] = {
    "float16 by m16n8k8": (
        "cuda -arch=sm_75", matmul(40, 40, 72, "float16", "float32", epilogue=True), {"C.tile": [32, 32, 32, 16, 16, 1]},
    ),
    "sums in float16 by m16n8k8": (
        "cuda -arch=sm_75", matmul(32, 32, 32, "float16", "float16", True, False), {"C.tile": [32, 32, 32, 16, 32, 1]},
    ),
    "int8 by m8n8k16": (
        "cuda -arch=sm_75", matmul(32, 48, 128, "int8", "int32"), {"C.tile": [32, 32, 64, 16, 16, 1]},
    ),
    "tf32": (
        "cuda -arch=sm_80 -allow-tf32=1", matmul(40, 32, 48, "float32", "float32"), {"C.tile": [32, 32, 16, 16, 16, 3]},
    ),
    "tf32, rows along m and n": (
        "cuda -arch=sm_80 -allow-tf32=1", matmul(32, 32, 32, "float32", "float32", True, False), {"C.tile": [32, 32, 16, 16, 16, 2]},
    ),
    "float8_e4m3fn": (
        "cuda -arch=sm_89", matmul(32, 32, 128, "float8_e4m3fn", "float32"), {"C.tile": [32, 32, 64, 16, 16, 3]},
    ),
    "float8_e5m2, rows along m and n": (
        "cuda -arch=sm_89", matmul(32, 32, 64, "float8_e5m2", "float32", True, False), {"C.tile": [32, 32, 64, 16, 16, 2]},
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", all_but(("float16 by m16n8k8", "int8 by m8n8k16", "tf32", "float8_e4m3fn"), TYPES))
def test_types_of_matrix_units(name: str) -> None:
    """All types of factors that matrix units have, by the instructions that an architecture has."""
    target, func, given = TYPES[name]
    text = check(func, target, given)
    shape = name.partition("by ")[2]
    assert shape in text and ("m16n8k" in text) == (shape != "m8n8k16")


def test_float32_keeps_its_digits() -> None:
    """Factors of float32 are rounded to tf32 only if the target says so."""
    func = matmul(64, 64, 64, "float32", "float32")
    assert "mma_tf32" not in scheduled(func, Target(CUDA)).mod.script()
    assert "ptx_mma" in scheduled(func, Target(f"{CUDA} -allow-tf32=1")).mod.script()


def test_too_little_shared_memory() -> None:
    """Where a block has no room for a tile of matrix units or of warpgroups, another rule takes the product."""
    func = matmul(64, 64, 64, "float16", "float32")
    for arch in ("sm_80", "sm_90a"):
        target = Target(f"cuda -arch={arch} -max_shared_memory_per_block=1024")
        plan = KernelPlan(target)
        scheduled(func, target, plan)
        assert "C.warpgroups" not in plan.values() or plan.values()["C.warpgroups"] == []
        assert len(plan.values().get("C.tile", [])) != 6


REGISTERS: dict[str, tuple[tir.PrimFunc, str, dict[str, Any]]] = {
    "rows": (matmul(130, 136, 20, "float32", "float32"), CUDA, {"C.tile": [8, 8, 8, 3]}),
    "columns": (matmul(70, 64, 32, "float32", "float32", True, False), CUDA, {"C.tile": [4, 4, 16, 2]}),
    "batch, without copies by themselves": (
        matmul(32, 70, 16, "float32", "float32", batch=(2,)),
        "cuda -arch=sm_70",
        {},
    ),
    "epilogue": (
        matmul(64, 128, 16, "float32", "float32", epilogue=True),
        CUDA,
        {"C.tile": [4, 4, 16, 1], "C.strip": 2},
    ),
    "opencl": (matmul(40, 40, 24, "float32", "float32", False, False), "opencl", {}),
    "float16 on metal": (matmul(32, 32, 16, "float16", "float32"), "metal", {}),
}


@pytest.mark.parametrize("name", REGISTERS)
def test_tiles_in_registers(name: str) -> None:
    func, target, given = REGISTERS[name]
    text = check(func, target, given, instruction="_local")
    assert "ptx_mma" not in text and ("ptx_cp_async" in text) == (given.get("C.tile", [1])[-1] > 1)
    made = scheduled(func, Target(target), KernelPlan(target, given))
    assert "_local" in str(tvm.build(made.mod, target=target).imported_modules[0].get_source())


def test_no_bank_conflicts(monkeypatch: pytest.MonkeyPatch) -> None:
    """The rows of a matrix of ldmatrix, and the chunks that eight neighbouring threads copy, lie in all eight groups of banks."""
    loads: list[list[int]] = []
    plain = warp_registers.ldmatrix

    def recorded(lanes: Any, first: int, races: Any) -> None:
        loads.append([args[3].offset // 16 % 8 for args in lanes])
        plain(lanes, first, races)

    copies: list[int] = []
    copy = async_copies.Copies.copy

    def copied(self: Any, to: Any, *rest: Any) -> None:
        copies.append(to.offset // 16 % 8)
        copy(self, to, *rest)

    monkeypatch.setitem(warp_registers.INSTRUCTIONS, "ldmatrix", recorded)
    monkeypatch.setattr(async_copies.Copies, "copy", copied)
    for trans in (False, True):
        for k in (32, 64):
            tile = [32, 32, k, 16, 32, 2]
            check(matmul(32, 32, 64, "float16", "float32", trans, not trans), given={"C.tile": tile})
    assert loads and copies
    assert all([len(set(banks[k : k + 8])) == 8 for banks in loads for k in range(0, 32, 8)])


def test_one_barrier_for_each_step() -> None:
    """The loop of steps waits once, and has one barrier; copies of 16 bytes."""
    func = matmul(64, 64, 512, "float16", "float32")
    made = scheduled(func, Target(CUDA), KernelPlan(CUDA, {"C.tile": [64, 64, 32, 32, 32, 3], "C.parts": 1}))
    text = as_on_device(made.mod).script()
    loop = text[text.index("for ax2_0 in range(2, 16)") :]
    loop = loop[: loop.index("async_wait_queue_scope", loop.index("ptx_mma"))]
    assert loop.count("tvm_storage_sync") == 1 and loop.count("async_wait_inflight_count") == 1
    assert loop.count("ptx_cp_async") == 2 and loop.count(", 16)") >= 2


def test_the_end_of_a_pipeline_is_short() -> None:
    """The steps before and after the loop are loops, too; the last ones are not unrolled along k."""
    func = matmul(64, 64, 512, "float16", "float32")
    made = scheduled(func, Target(CUDA), KernelPlan(CUDA, {"C.tile": [64, 64, 32, 32, 32, 3], "C.parts": 1}))
    before, loop, after = as_on_device(made.mod).script().split("for ax2_0 in range")[1:]
    assert (before.count("T.ptx_mma("), loop.count("T.ptx_mma("), after.count("T.ptx_mma(")) == (0, 2, 2)
    assert "for ax2_1 in T.unroll(2)" in loop and "for ax2_1 in range(2)" in after


def test_trace_replays() -> None:
    func = matmul(48, 40, 64, "float16", "float32", epilogue=True)
    made = scheduled(func, Target(CUDA), KernelPlan(CUDA, {"C.tile": SMALL}))
    again = Schedule(func)
    assert made.trace is not None
    made.trace.apply_to_schedule(again, False)
    assert_structural_equal(again.mod, made.mod)


def test_plan_has_choices() -> None:
    plan = KernelPlan(CUDA)
    scheduled(matmul(256, 256, 512, "float16", "float32"), Target(CUDA), plan)
    space = plan.space()
    assert len(space["C.tile"]) > 100 and set(space["C.parts"]) >= {1, 2} and {1, 2} <= set(space["C.strip"])
    assert list(plan.values()["C.tile"]) in [list(t) for t in space["C.tile"]]


def test_large_tiles_for_large_products() -> None:
    for arch in ("sm_80", "sm_90a"):
        target = Target(f"cuda -arch={arch}")
        tile, parts = best_tile((1, 4096, 4096, 4096), 4096, 2, 16, target.gpu)
        assert (tile.m * tile.n, parts) == (128 * 256, 1)
        assert best_tile((1, 64, 64, 8192), 8192, 2, 16, target.gpu)[1] > 1


def test_kernels_say_how_many_blocks_run_at_once() -> None:
    """As many as the rule counts on, so that the compiler keeps nothing in memory to make room for more."""
    target, tile = Target(CUDA), [64, 32, 64, 32, 32, 4]
    func = matmul(256, 256, 512, "float16", "float32")
    made = scheduled(func, target, KernelPlan(CUDA, {"C.tile": tile, "C.parts": 1}))
    text = tvm.build(made.mod, target=target).imported_modules[0].get_source()
    assert resident_blocks(ProductTile(*tile), 2, target.gpu) == 3
    assert "__launch_bounds__(64, 3)" in text


def test_registers_of_tiles() -> None:
    """Sums, operands, copies (20 vectors of a thread in the last one), and all else."""
    for tile, needed in (
        ([128, 128, 32, 64, 32, 3], 64 + 48 + 2 * 4 + 32),
        ([64, 64, 32, 64, 64, 4], 128 + 64 + 2 * 16 + 32),
        ([128, 32, 64, 64, 32, 1], 64 + 48 + 2 * 20 + 32),
    ):
        assert registers_of(ProductTile(*tile), 2) == min(needed, 255)


def test_left_to_others() -> None:
    """Types and targets without instructions: plain threads."""
    for func, target in (
        (matmul(16, 16, 32, "float16", "float32"), "cuda -arch=sm_70"),
        (matmul(16, 16, 32, "float16", "float32"), "opencl"),
        (matmul(16, 16, 32, "float64", "float64"), CUDA),
    ):
        made = scheduled(func, Target(target))
        assert "ptx_mma" not in made.mod.script()
