"""Random primitives on programs that strain what they assume: the meaning stays, or ScheduleError is raised and nothing changes."""

from __future__ import annotations

import os
import random
from typing import Any

import numpy as np
import pytest

from tests.tir_schedule.random_programs.hostile import hostile_program, outcome
from tests.tir_schedule.random_programs.moves import SETUP, apply, sites, step
from tests.tir_schedule.random_programs.mutants import backwards, mutant
from tilewright.codegen.interp import InterpError
from tilewright.support.errors import ScheduleError
from tilewright.tir.schedule import Schedule

FIRST, LAST = int(os.environ.get("HOSTILE_FROM", "0")), int(os.environ.get("HOSTILE_TO", "60"))


def _stays(mod: Any, expected: list[Any], sizes: Any, log: str, before: Any) -> None:
    """The program computes what it did, in whatever order its parallel loops run."""
    for func in (mod["main"], backwards(mod["main"])):
        if func is None:
            continue
        try:
            got = outcome(func, sizes)
        except InterpError as error:
            raise AssertionError(f"{log}: {error}\n--- before\n{before}\n--- after\n{func}") from error
        for a, b in zip(expected, got, strict=True):
            np.testing.assert_array_equal(a, b, f"{log}\n--- before\n{before}\n--- after\n{func}")


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
            if s.mod["main"] is not before:
                _stays(s.mod, expected, sizes, f"seed {seed}: {log}\n{text}", before)


def besiege(seed: int, states: int = 2) -> None:
    """Some primitives that make unusual blocks, and then every primitive at every place."""
    func, expected, text, sizes = hostile_program(seed)
    rng = random.Random(seed * 7 + 3)
    for _ in range(states):
        start = Schedule(func, seed=seed)
        done = 0
        for _ in range(10):
            try:
                log = step(start, rng, SETUP)
            except ScheduleError:
                continue
            _stays(start.mod, expected, sizes, f"seed {seed}: {log}\n{text}", func)
            done += 1
            if done == 3:
                break
        before = start.mod["main"]
        for place in sites(start):
            s = Schedule(before, seed=seed)
            try:
                apply(s, rng, *place)
            except ScheduleError:
                assert s.mod["main"] is before
                continue
            if s.mod["main"] is not before:
                _stays(s.mod, expected, sizes, f"siege {seed}: {place}\n{text}", before)


def wander(seed: int, walks: int = 6) -> None:
    """Steps, each tried again until one is accepted, on a program that is nearly what primitives expect."""
    func, expected, text = mutant(seed)
    rng = random.Random(seed)
    for _ in range(walks):
        s = Schedule(func, seed=seed)
        log: list[Any] = []
        for _ in range(rng.choice([2, 3, 4, 5])):
            before = s.mod["main"]
            places: dict[str, list[Any]] = {}
            for place in sites(s):
                places.setdefault(place[0], []).append(place)
            for _ in range(30 if places else 0):
                # What is seldom accepted is tried as often as what always is.
                place = rng.choice(places[rng.choice(sorted(places))])
                try:
                    apply(s, rng, *place)
                except ScheduleError:
                    continue
                if s.mod["main"] is not before:
                    log.append(place)
                    _stays(s.mod, expected, (0,), f"mutant {seed}: {log}\n{text}", before)
                    break


@pytest.mark.parametrize("first", range(FIRST, LAST, 10))
def test_hostile_programs(first: int) -> None:
    for seed in range(first, min(first + 10, LAST)):
        attack(seed)


@pytest.mark.parametrize("seed", range(FIRST, LAST, 12))
def test_every_primitive_everywhere(seed: int) -> None:
    besiege(seed)


@pytest.mark.parametrize("first", range(FIRST, LAST, 10))
def test_mutants(first: int) -> None:
    for seed in range(first, min(first + 10, LAST), 2):
        wander(seed)
