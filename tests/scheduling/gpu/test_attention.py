"""Attention in one kernel: what the threads of a device compute, with all forms of keys, masks and heads, beside NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.slow import all_but
from tests.tensor_intrin.on_devices import as_on_device, results
from tilewright import te, tir, topi
from tilewright.codegen.interp.values import np_type
from tilewright.ir import DataType
from tilewright.node import structural_equal
from tilewright.scheduling.kernel_plan import KernelPlan
from tilewright.scheduling.whole_kernel import scheduled
from tilewright.target import Target
from tilewright.tir.schedule import Schedule

CUDA = "cuda -arch=sm_80"


def attention(
    query: tuple[int, ...], key: tuple[int, ...], value: tuple[int, ...], dtype: str, mask: tuple[int, ...] = (), **options: Any
) -> tir.PrimFunc:  # fmt: skip
    shapes = {"q": query, "k": key, "v": value}
    tensors = [te.placeholder(shape, dtype, name=name) for name, shape in shapes.items()]
    if mask:
        tensors.append(te.placeholder(mask, "float32", name="mask"))
    return te.create_prim_func([*tensors, topi.nn.attention(*tensors, **options)])


def reference(
    q: Any, k: Any, v: Any, mask: Any = 0.0, scale: float = 1.0, transpose_key: bool = True, zero_rows: bool = False,
    causal: bool = False, past: int = 0,
) -> Any:  # fmt: skip
    q, k, v = [x.astype("float64") for x in (q, k, v)]
    if q.ndim > 2:
        k, v = [np.repeat(x, q.shape[-3] // x.shape[-3], -3) for x in (k, v)]
    scores = q @ (k.swapaxes(-1, -2) if transpose_key else k) * scale + mask
    if causal:
        scores = np.where(np.tri(*scores.shape[-2:], past, dtype=bool), scores, -np.inf)
    with np.errstate(invalid="ignore"):
        weights = np.exp(scores - scores.max(-1, keepdims=True))
        weights /= weights.sum(-1, keepdims=True)
    return (np.where(np.isnan(weights), 0, weights) if zero_rows else weights) @ v


def check(
    shapes: tuple[Any, ...], given: dict[str, Any], target: str = CUDA, hidden: int = 0, instruction: str = "ptx_mma",
    mask: tuple[int, ...] = (), **options: Any,
) -> Schedule:  # fmt: skip
    """Runs the schedule of an attention as a device does. hidden: rows of the mask that hide all keys."""
    plan = KernelPlan(target, given)
    with plan:
        func = attention(*shapes, mask, **options)
    made = scheduled(func, Target(target), plan)
    assert not plan.unfit() and not plan.fallbacks
    random = np.random.default_rng(0)
    *sizes, dtype = shapes
    inputs = [random.standard_normal(shape).astype(np_type(DataType(dtype))) for shape in sizes]
    if mask:
        inputs.append(np.where(random.random(mask) < 0.3, -np.inf, random.standard_normal(mask)).astype("float32"))
        inputs[-1][..., :hidden, :] = -np.inf
    out = np.zeros((*sizes[0][:-1], sizes[2][-1]), inputs[0].dtype)
    lowered = as_on_device(made.mod, target)
    assert instruction in lowered.script()
    found = results(lowered, [*inputs, out], check_races=True)[-1].astype("float64")
    narrow = {"float16": 2e-3, "bfloat16": 2e-2, "float32": 1e-5}[dtype]
    np.testing.assert_allclose(found, reference(*inputs, **options), rtol=narrow, atol=narrow)
    assert made.trace is not None
    again = Schedule(func)
    made.trace.apply_to_schedule(again, False)
    assert structural_equal(again.mod, made.mod)
    return made


TILE = "attention_sums.tile"
CASES: dict[str, tuple[tuple[Any, ...], dict[str, Any], dict[str, Any]]] = {
    "two warps, three steps": (((2, 32, 32), (2, 48, 32), (2, 48, 16), "float16"), {TILE: [32, 16, 16]}, {"scale": 0.2}),
    "sizes of no tile, causal": (
        ((1, 2, 20, 24), (1, 2, 37, 24), (1, 2, 37, 40), "float16"),
        {TILE: [16, 16, 16]},
        {"scale": 0.3, "causal": True, "past": 17},
    ),
    "groups of heads": (
        ((2, 4, 18, 16), (2, 2, 20, 16), (2, 2, 20, 16), "bfloat16"), {TILE: [32, 32, 16]}, {"causal": True, "past": 2},
    ),
    "one query, parts of keys": (
        ((1, 4, 1, 32), (1, 2, 60, 32), (1, 2, 60, 32), "float16"),
        {TILE: [16, 16, 16], "attention_sums.parts": 2},
        {"scale": 0.2},
    ),
    "a mask, rows without keys": (
        ((2, 16, 16), (2, 32, 16), (2, 32, 16), "float16"),
        {TILE: [16, 16, 16], "attention_sums.stages": 1},
        {"mask": (2, 16, 32), "hidden": 3, "zero_rows": True},
    ),
    "by m16n8k8": (
        ((1, 2, 20, 24), (1, 2, 37, 24), (1, 2, 37, 40), "float16"),
        {TILE: [16, 16, 16]},
        {"scale": 0.3, "causal": True, "past": 17, "target": "cuda -arch=sm_75"},
    ),
    "queries from shared memory": (
        ((1, 32, 144), (1, 16, 144), (1, 16, 16), "float16"), {TILE: [32, 32, 16]}, {"scale": 0.1},
    ),
}  # fmt: skip


QUICK = (
    "sizes of no tile, causal",
    "one query, parts of keys",
    "a mask, rows without keys",
    "groups of heads",
)


@pytest.mark.parametrize("name", all_but(QUICK, CASES))
def test_on_matrix_units(name: str) -> None:
    shapes, given, options = CASES[name]
    check(shapes, given, **options)


HOPPER = "cuda -arch=sm_90a -model=h200"
ON_WARPGROUPS: dict[str, tuple[tuple[Any, ...], dict[str, Any], dict[str, Any]]] = {
    "keys of no tile, causal, groups of heads": (
        ((1, 2, 70, 64), (1, 1, 90, 64), (1, 1, 90, 64), "float16"),
        {TILE: [64, 16, 32]},
        {"scale": 0.1, "causal": True, "past": 20},
    ),
    "two warpgroups, wide values": (
        ((2, 128, 64), (2, 128, 64), (2, 128, 128), "bfloat16"), {TILE: [128, 16, 64], "attention_sums.stages": 3}, {"scale": 0.1},
    ),
    "wide keys, a mask": (
        ((1, 64, 128), (1, 64, 128), (1, 64, 64), "float16"), {TILE: [64, 16, 32]}, {"mask": (64, 64), "zero_rows": True, "hidden": 3},
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", all_but(("keys of no tile, causal, groups of heads",), ON_WARPGROUPS))
def test_on_warpgroups(name: str) -> None:
    shapes, given, options = ON_WARPGROUPS[name]
    made = check(shapes, {**given, "attention_sums.form": "warpgroups"}, HOPPER, instruction="ptx_wgmma_rs", **options)
    assert "ptx_tma_load" in as_on_device(made.mod, HOPPER).script()


def test_the_choice_of_warpgroups() -> None:
    """Many queries on sm_90a, of heads whose elements fill rows of the swizzle."""
    long = (4, 16, 2048, 64)
    for shapes, target, form in (
        ((long,) * 3, HOPPER, "warpgroups"),
        (((1, 8, 64, 80),) * 3, HOPPER, None),
    ):
        plan = KernelPlan(target)
        with plan:
            func = attention(*shapes, "float16", causal=True)
        scheduled(func, Target(target), plan)
        assert plan.values().get("attention_sums.form") == form and not plan.fallbacks


IN_REGISTERS: dict[str, tuple[str, tuple[Any, ...], dict[str, Any], dict[str, Any]]] = {
    "float32, two steps": (
        CUDA,
        ((2, 16, 16), (2, 64, 16), (2, 64, 32), "float32"),
        {TILE: [8, 2, 32]},
        {"scale": 0.3},
    ),
    "sizes of no tile, causal, without shuffles": (
        "opencl",
        ((1, 2, 9, 24), (1, 1, 37, 24), (1, 1, 37, 20), "float32"),
        {TILE: [16, 4, 32]},
        {"causal": True, "past": 28},
    ),
    "float16 before sm_80": (
        "cuda -arch=sm_70",
        ((2, 8, 16), (2, 30, 16), (2, 30, 16), "float16"),
        {TILE: [8, 2, 32]},
        {"mask": (8, 30), "zero_rows": True, "hidden": 1},
    ),
}


@pytest.mark.parametrize("name", IN_REGISTERS)
def test_in_registers(name: str) -> None:
    target, shapes, given, options = IN_REGISTERS[name]
    check(shapes, given, target, instruction="attention", **options)
