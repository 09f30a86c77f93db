"""Random primitives on programs that strain what they assume: the meaning stays, or ScheduleError is raised and nothing changes."""

from __future__ import annotations

import os
import random

import numpy as np
import pytest

from tilewright.codegen.interp import InterpError
from tilewright.support.errors import ScheduleError
from tilewright.tir.schedule import Schedule

from .hostile import hostile_program, outcome
from .moves import step

FIRST, LAST = int(os.environ.get("HOSTILE_FROM", "0")), int(os.environ.get("HOSTILE_TO", "60"))


def attack(seed: int, attempts: int = 3, steps: int = 3) -> None:
    func, expected, text, sizes = hostile_program(seed)
    rng = random.Random(seed * 7 + 1)
    for _ in range(attempts):
        s = Schedule(func, seed=seed)
        for _ in range(steps):
            before = s.mod["main"]
            try:
                log = step(s, rng)
            except ScheduleError:
                assert s.mod["main"] is before
                continue
            if s.mod["main"] is before:
                continue
            try:
                got = outcome(s.mod, sizes)
            except InterpError as error:
                raise AssertionError(
                    f"seed {seed}: {log}: {error}\n{text}\n--- before\n{before}\n--- after\n{s.mod}"
                ) from error
            for a, b in zip(expected, got, strict=True):
                np.testing.assert_array_equal(a, b, f"seed {seed}: {log}\n--- before\n{before}\n--- after\n{s.mod}")


@pytest.mark.parametrize("first", range(FIRST, LAST, 10))
def test_hostile_programs(first: int) -> None:
    for seed in range(first, min(first + 10, LAST)):
        attack(seed)
