"""Random sequences of primitives on random programs: the meaning stays, or ScheduleError is raised and nothing changes."""

from __future__ import annotations

import os
import random

import numpy as np
import pytest

from tests.tir_schedule.random_programs.moves import KINDS as KINDS
from tests.tir_schedule.random_programs.moves import step as step
from tests.tir_schedule.random_programs.programs import random_inputs, random_program, run_program
from tilewright.support.errors import ScheduleError
from tilewright.tir.schedule import Schedule


def check_seed(seed: int, steps: int = 12) -> int:
    rng = random.Random(seed)
    func, names = random_program(rng)
    inputs = random_inputs(func, names, seed)
    expected = run_program(func, inputs)
    s = Schedule(func, seed=seed)
    log: list[str] = []
    done = 0
    for _ in range(steps):
        before = s.mod["main"]
        try:
            log.append(step(s, rng))
        except ScheduleError:
            assert s.mod["main"] is before
            continue
        if s.mod["main"] is before:
            continue
        done += 1
        try:
            got = run_program(s.mod, inputs)
            for a, b in zip(expected, got, strict=True):
                np.testing.assert_array_equal(a.reshape(-1), b.reshape(-1))
        except Exception as error:
            raise AssertionError(
                f"seed {seed}: {log[-1]} broke the program: {error}\n--- before\n{before}\n--- after\n{s.mod}"
            ) from error
    replay = Schedule(func, seed=seed)
    assert s.trace is not None
    s.trace.apply_to_schedule(replay)
    from tilewright.node import assert_structural_equal

    assert_structural_equal(replay.mod["main"], s.mod["main"])
    return done


@pytest.mark.parametrize("seed", range(int(os.environ.get("FUZZ_FROM", "0")), int(os.environ.get("FUZZ_TO", "60"))))
def test_random_schedule(seed: int) -> None:
    check_seed(seed)
