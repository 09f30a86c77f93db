"""Candidates of design spaces, with drawn and changed decisions, compute what the kernel does."""

from __future__ import annotations

import random

import numpy as np
import pytest

from tests.meta_schedule.kernels import KERNELS, check_draws, context, inputs_of
from tests.tir_schedule.random_programs.programs import random_inputs, random_program, run_program
from tilewright.meta_schedule.trace_space import TraceSpace


@pytest.mark.parametrize("name", KERNELS)
def test_on_cpus(name: str) -> None:
    func = KERNELS[name]()
    assert check_draws(func, TraceSpace(context(func)), 12) == 12


@pytest.mark.parametrize("name", ["gemm", "gemm_relu", "softmax", "elementwise", "norm"])
def test_on_gpus(name: str) -> None:
    func = KERNELS[name]()
    space = TraceSpace(context(func, "cuda -max_threads_per_block=64 -thread_warp_size=2"))
    assert check_draws(func, space, 12) >= 2


@pytest.mark.parametrize("seed", range(12))
def test_of_random_programs(seed: int) -> None:
    rng = random.Random(seed)
    func, names = random_program(rng)
    space = TraceSpace(context(func, seed=seed + 1))
    inputs = random_inputs(func, names)
    expected = run_program(func, inputs)
    for _ in range(4):
        program = space.program(space.draw(rng))
        for got, want in zip(run_program(program, inputs), expected, strict=True):
            np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-4)


def test_inputs_are_small_integers() -> None:
    func = KERNELS["gemm"]()
    assert all([(a == a.round()).all() for a in inputs_of(func).values()])
