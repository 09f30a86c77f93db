"""One random program, from tensor expressions to native code, checked after each step; and the smallest form of a failure."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import numpy as np

from tests.generators.programs import Program, random_program, random_step
from tests.tir_schedule.test_random import KINDS
from tests.tir_schedule.test_random import step as any_step
from tilewright import runtime
from tilewright.codegen import interp
from tilewright.driver import build_lowered
from tilewright.driver.pipeline import lower_phases
from tilewright.ir import IRModule
from tilewright.ir.transform import PassContext
from tilewright.support.errors import ScheduleError
from tilewright.target import Target
from tilewright.tir.schedule import Schedule

ROUNDING = {"float16": 2.0**-8, "bfloat16": 2.0**-5}
"""What sums may differ by, relative to the largest value: half floats round each sum, in another order after scheduling."""


ANY = [kind for kind in KINDS if kind != "bind"]
"""Primitives that leave code for a CPU: it has no threads of a GPU."""


class Mismatch(Exception):
    """A step that changed the meaning of a program, or failed on it."""

    def __init__(self, step: str, reason: str, program: Any) -> None:
        super().__init__(f"{step}: {reason}")
        self.step, self.reason, self.program = step, reason, program


def arguments(program: Program, seed: int) -> list[Any]:
    """Arrays and sizes for the program's parameters."""
    return program.arrays(seed)


def compare(expected: list[Any], got: list[Any]) -> None:
    """AssertionError where arrays differ."""
    for index, (a, b) in enumerate(zip(expected, got, strict=True)):
        if not isinstance(a, np.ndarray):
            continue
        left, right = a.astype(np.float64), b.astype(np.float64)
        scale = np.abs(left[np.isfinite(left)]).max(initial=1.0)
        np.testing.assert_allclose(
            right, left, rtol=0, atol=ROUNDING.get(a.dtype.name, 0.0) * scale, err_msg=f"parameter {index}"
        )


def run_interpreter(mod: Any, program: Program, seed: int) -> list[Any]:
    """The arguments after the interpreter ran the module."""
    args = arguments(program, seed)
    with np.errstate(all="ignore"):
        interp.run(mod, args)
    return args


def run_native(mod: IRModule, program: Program, seed: int) -> list[Any]:
    """The arguments after the module's native code ran."""
    args = arguments(program, seed)
    tensors = [runtime.array(a) if isinstance(a, np.ndarray) else a for a in args]
    build_lowered(mod, Target("llvm"))["main"](*tensors)
    return [t.numpy() if isinstance(a, np.ndarray) else a for a, t in zip(args, tensors, strict=True)]


def scheduled(program: Program, seed: int, steps: list[int]) -> tuple[Schedule, list[str]]:
    """The schedule after the chosen steps, each random from its own number; refused steps leave no trace."""
    s = Schedule(program.func, seed=seed)
    done = []
    for number in steps:
        rng = random.Random(f"{seed}/{number}")
        try:
            # Two thirds what schedules of CPUs are made of, one third any primitive.
            done.append(random_step(s, rng) if rng.random() < 0.67 else any_step(s, rng, ANY))
        except ScheduleError:
            continue
    return s, done


def check(seed: int, steps: list[int]) -> list[str]:
    """Runs one program; returns the schedule steps that applied. Raises Mismatch at the first step that goes wrong."""
    program = random_program(random.Random(seed))
    try:
        s, done = scheduled(program, seed, steps)
    except Exception as error:
        raise Mismatch("the schedule", f"{type(error).__name__}: {error}", program.func) from error
    check_from(program, seed, s)
    return done


def check_from(program: Program, seed: int, s: Schedule) -> None:
    """Runs a program as it was written, as it is scheduled, after each pass and natively."""
    text: Any = program.func
    step = "the program itself"
    try:
        expected = run_interpreter(program.func, program, seed)
        step = "the schedule"
        mod: IRModule = IRModule({"main": s.mod["main"].with_attr("global_symbol", "main")})
        text = mod
        compare(expected, run_interpreter(mod, program, seed))
        for each in [p for phase in lower_phases(PassContext()) for p in phase]:
            step = f"the pass {each.name}"
            after = each(mod)
            compare(expected, run_interpreter(after, program, seed))
            mod = text = after
        step = "native code"
        compare(expected, run_native(mod, program, seed))
    except Exception as error:
        raise Mismatch(step, f"{type(error).__name__}: {error}", text) from error


def steps_of(seed: int) -> list[int]:
    """The schedule steps tried for a seed."""
    return list(range(random.Random(f"{seed}/count").choice([0, 4, 8, 14])))


def smallest(
    run: Callable[[int, list[int]], Any], seed: int, steps: list[int], failure: Mismatch
) -> tuple[list[int], Mismatch]:
    """The failure with as few schedule steps as dropping them one at a time leaves."""
    kept = list(steps)
    shrinking = True
    while shrinking:
        shrinking = False
        for number in reversed(kept):
            fewer = [n for n in kept if n != number]
            try:
                run(seed, fewer)
            except Mismatch as smaller:
                kept, failure, shrinking = fewer, smaller, True
    return kept, failure


def report(seed: int, steps: list[int], failure: Mismatch) -> str:
    """What a person needs of a failure: where, the command that repeats it, the schedule and the program before it."""
    program = random_program(random.Random(seed))
    given = ",".join(map(str, steps)) or "none"
    _, names = scheduled(program, seed, steps)
    return "\n".join(
        [
            f"seed {seed}: {failure.step} went wrong: {failure.reason}",
            f"repeat it: python -m tests.fuzz --seed {seed} --count 1 --steps {given}",
            f"schedule: {'; '.join(names) or 'none'}",
            "--- the program",
            str(program.func),
            *([f"--- before {failure.step}", str(failure.program)] if failure.program else []),
        ]
    )
