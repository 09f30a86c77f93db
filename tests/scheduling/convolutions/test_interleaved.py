"""Phases of transposed convolutions interleaved: vectors shuffled in registers, on several targets, interpreted and compiled."""

from __future__ import annotations

import numpy as np
import pytest

import tilewright as tvm
from tilewright import te
from tilewright.codegen import interp
from tilewright.scheduling import KernelPlan, schedule_kernel
from tilewright.target import Target
from tilewright.topi import nn
from tilewright.topi.nn.phases import Axis

TARGETS = {
    "avx512": "llvm -mtriple=x86_64-unknown-linux-gnu -mcpu=skylake-avx512 -num-cores=2",
    "avx2": "llvm -mtriple=x86_64-unknown-linux-gnu -mcpu=haswell -num-cores=2",
}
# stride, apart, phases, places, offset, places of the result
CASES = {
    "side by side": [(2, 1, 2, 5, 0, 10), (2, 1, 2, 21, 1, 40)],
    "places of no phase": [(3, 1, 1, 3, 0, 8), (4, 1, 2, 19, 2, 75)],
    "phases out of order": [(1, 2, 1, 4, 1, 5), (5, 3, 4, 9, -3, 50)],
    "only every second place": [(6, 4, 3, 3, -2, 19)],
    "many phases": [(8, 1, 8, 6, 3, 44)],
    "more than vectors hold": [(70, 1, 9, 2, 0, 140)],
    "few places": [(2, 1, 1, 2, 0, 3), (2, 1, 2, 1, 0, 2)],
    "three axes": [(2, 1, 1, 2, 0, 3), (3, 1, 2, 2, 1, 6), (2, 3, 2, 18, 1, 39)],
}


def interleaved(x: np.ndarray, axes: list[Axis]) -> np.ndarray:
    """Each place of each phase put where it belongs."""
    split = x.reshape(x.shape[0], -1, *[a.phases for a in axes], *x.shape[2:])
    y = np.zeros((*split.shape[:2], *[a.out for a in axes]), x.dtype)
    for at in np.ndindex(*split.shape[2:]):
        phase, place = at[: len(axes)], at[len(axes) :]
        to = [a.stride * r + a.apart * i - a.offset for a, r, i in zip(axes, place, phase, strict=True)]
        if all([0 <= p < a.out for p, a in zip(to, axes, strict=True)]):
            y[(slice(None), slice(None), *to)] = split[(slice(None), slice(None), *at)]
    return y


def data(axes: list[Axis], dtype: str) -> np.ndarray:
    channels = 3 * int(np.prod([a.phases for a in axes]))
    shape = 2, channels, *[a.places for a in axes]
    return np.random.default_rng(1).integers(1, 100, shape).astype(dtype)


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("target", TARGETS)
def test_interpreted(target: str, case: str) -> None:
    axes = [Axis(*one) for one in CASES[case]]
    x = data(axes, "float32")
    with Target(TARGETS[target]) as t, KernelPlan(t):
        p = te.placeholder(x.shape, name="x")
        f = schedule_kernel(te.create_prim_func([p, nn.interleave_phases(p, axes)]), t)
    expected = interleaved(x, axes)
    y = np.full(expected.shape, -1, np.float32)
    interp.run(f, [x, y])
    np.testing.assert_array_equal(y, expected)


@pytest.mark.parametrize("target", ["llvm", "llvm -mcpu=haswell"])
def test_compiled_with_what_follows(target: str) -> None:
    functions, expected = {}, {}
    with Target(target) as t, KernelPlan(t):
        for k, (case, dtype) in enumerate([(c, d) for c in CASES for d in ("float32", "int8", "float64")]):
            axes = [Axis(*one) for one in CASES[case]]
            x = data(axes, dtype)
            p = te.placeholder(x.shape, dtype, name="x")
            made = nn.interleave_phases(p, axes)
            plus = te.compute(made.shape, lambda *i, made=made, dtype=dtype: made(*i) + tvm.tir.const(2, dtype))
            f = te.create_prim_func([p, plus]).with_attr("global_symbol", f"f{k}")
            functions[f"f{k}"] = schedule_kernel(f, t)
            expected[f"f{k}"] = x, interleaved(x, axes) + np.array(2, dtype)
    library = tvm.build(tvm.IRModule(functions), target=target)
    for name, (x, y) in expected.items():
        got = tvm.nd.empty(y.shape, y.dtype)
        library[name](tvm.nd.array(x), got)
        np.testing.assert_array_equal(got.numpy(), y, err_msg=name)


def test_vectors_stay_in_registers() -> None:
    axes = [Axis(2, 1, 2, 40, 0, 80), Axis(3, 1, 2, 40, 0, 120)]
    with Target("llvm -mtriple=x86_64-unknown-linux-gnu -mcpu=skylake-avx512") as t, KernelPlan(t):
        p = te.placeholder((1, 64, 40, 40), name="x")
        f = schedule_kernel(te.create_prim_func([p, nn.interleave_phases(p, axes)]), t)
        text = tvm.build(f, target=t).get_source("ll")
    assert "x float], align" not in text and "shufflevector <16 x float>" in text
