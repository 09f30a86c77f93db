"""One random program, from its reference in NumPy to native code; when an answer differs, the step that changed it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import numpy as np

from tests.fuzz import native
from tests.generators import flats, orders, scripts, stages, tensors, threads
from tests.generators import steps as primitives
from tests.generators.case import Case, Recipe, difference
from tests.generators.disguise import disguise
from tests.generators.roundtrip import assert_roundtrip
from tilewright.codegen import interp
from tilewright.ir import IRModule
from tilewright.ir.transform import Pass
from tilewright.node import assert_structural_equal
from tilewright.support.errors import InternalError, ScheduleError, TVMError
from tilewright.tir import transform
from tilewright.tir.schedule import Schedule

GENERATORS: dict[str, Callable[[Recipe], Case]] = {
    "te": tensors.draw,
    "script": scripts.draw,
    "te schedule": stages.draw,
    "gpu": tensors.draw,
    "flat": flats.draw,
}


FINITE = [kind for kind in primitives.KINDS if kind != "pad_einsum"]
"""Primitives that multiply nothing by a zero that was not there."""


class Mismatch(Exception):
    """A step that changed the meaning of a program, or failed on it."""

    def __init__(self, step: str, reason: str, program: Any) -> None:
        super().__init__(f"{step}: {reason}")
        self.step, self.reason, self.program = step, reason, program


class Refused(Exception):
    """A clean refusal: a TVMError from a pass or the code generator that is no internal error."""

    def __init__(self, where: str) -> None:
        super().__init__(where)
        self.where = where


def draw(recipe: Recipe) -> Case:
    """The program that a recipe makes, some in an unusual form."""
    case, rng = GENERATORS[recipe.kind](recipe), recipe.rng("disguise")
    if recipe.kind in ("te", "script") and rng.random() < 0.25:
        case.func = disguise(case.func, rng)
    return case


def passes(recipe: Recipe) -> list[Pass]:
    """The passes that lower the program."""
    rng = recipe.rng("passes")
    return orders.gpu(rng) if recipe.kind == "gpu" else orders.cpu(rng)


def run_interpreter(mod: Any, case: Case, seed: int, check_races: bool = False) -> list[Any]:
    """The arguments after the interpreter ran the module."""
    args = case.arguments(seed)
    with np.errstate(all="ignore"):
        interp.run(mod, args, check_races=check_races)
    return args


def wanted(case: Case, seed: int) -> list[Any]:
    """The arguments as they must be after a run: from the reference where there is one, else interpreted as written."""
    if case.reference is None:
        return run_interpreter(case.func, case, seed)
    args = case.arguments(seed)
    case.reference(args)
    return args


def compare(case: Case, expected: list[Any], got: list[Any]) -> None:
    """AssertionError where arguments differ."""
    found = difference(expected, got, case.tolerance)
    if found is not None:
        raise AssertionError(found)


def check(recipe: Recipe) -> Counter[str]:
    """Runs one program; counts what was done. Raises Mismatch at the first step that goes wrong."""
    try:
        case = draw(recipe)
    except ScheduleError:
        return Counter({f"programs: {recipe.kind}": 1, f"refused: a schedule of {recipe.kind}": 1})
    except Exception as error:
        raise Mismatch("making the program", describe(error), None) from error
    return check_case(case, recipe)


def check_case(
    case: Case, recipe: Recipe, schedule: Callable[[Schedule], Any] | None = None, level: str | None = None
) -> Counter[str]:
    """Runs a program as written, scheduled, lowered and natively; `schedule` stands in place of the recipe's steps."""
    counts: Counter[str] = Counter({f"programs: {recipe.kind if schedule is None else case.kind}": 1})
    counts.update([f"refused: te {x[3:]}" if x.startswith("no ") else f"applied: te {x}" for x in case.done])
    at: list[Any] = ["the reference", case.func]
    try:
        _run(case, recipe, counts, at, schedule, level)
    except Refused as refused:
        counts[f"refused: {refused.where}"] += 1
    except Exception as error:
        first = Mismatch(at[0], describe(error), at[1])
        raise (locate(case, recipe, schedule) or first) from error
    return counts


def describe(error: BaseException) -> str:
    return f"{type(error).__name__}: {error}"


def _run(
    case: Case,
    recipe: Recipe,
    counts: Counter[str],
    at: list[Any],
    schedule: Callable[[Schedule], Any] | None,
    level: str | None,
) -> None:
    seed, rng = recipe.seed, recipe.rng("checks")
    expected = wanted(case, seed)
    if case.reference is not None and rng.random() < 0.25:
        at[0] = "the program itself"
        compare(case, expected, run_interpreter(case.func, case, seed))
    roundtrip, replayed, levels = rng.random(), rng.random(), rng.random()
    if roundtrip < 0.1:
        at[0] = "printing and parsing the program"
        assert_roundtrip(case.func)
        counts["round trips"] += 1
    at[0] = "the schedule"
    s = None if case.kind == "flat" else scheduled(case, recipe, counts, schedule)
    mod = IRModule({"main": (case.func if s is None else s.mod["main"]).with_attr("global_symbol", "main")})
    if s is not None and s.mod["main"] is not case.func:
        at[1] = mod
        compare(case, expected, run_interpreter(mod, case, seed))
        if replayed < 0.25:
            at[0] = "replaying the trace"
            replay(case, s, seed)
            counts["replays"] += 1
        if 0.1 <= roundtrip < 0.2:
            at[0] = "printing and parsing the schedule"
            assert_roundtrip(mod)
            counts["round trips"] += 1
    at[0] = "lowering"
    mod = lowered(mod, passes(recipe))
    at[1] = mod
    at[0] = "the lowered program"
    if levels < 0.6 or levels > 0.97 or recipe.kind == "gpu":
        compare(case, expected, run_interpreter(mod, case, seed))
        counts["lowered programs interpreted"] += 1
    if 0.2 <= roundtrip < 0.25:
        at[0] = "printing and parsing the lowered program"
        assert_roundtrip(mod)
        counts["round trips"] += 1
    if recipe.kind == "gpu":
        return
    at[0] = "native code"
    if level is None:
        level = (
            "full"
            if levels > 0.97 or native.symbolic(case) and levels > 0.9
            else "kernel"
            if levels > 0.85
            else "plain"
        )
    if level != "full" and native.symbolic(case):
        level = None
    if level is not None:
        compare(case, expected, cleanly("native code", lambda: native.run(mod, case, seed, level)))
        counts[f"native runs: {level}"] += 1


def cleanly(where: str, f: Callable[[], Any]) -> Any:
    """`f()`, where an error made for users is a refusal."""
    try:
        return f()
    except interp.InterpError:
        raise
    except TVMError as error:
        if isinstance(error, InternalError):
            raise
        raise Refused(f"{where}: {str(error).splitlines()[0][:80]}") from error


def lowered(mod: IRModule, order: list[Pass]) -> IRModule:
    """The module after the passes."""
    for p in order:
        current, before = p, mod
        mod = cleanly(f"the pass {current.name}", lambda current=current, before=before: current(before))  # type: ignore[misc]
    return mod


def scheduled(
    case: Case,
    recipe: Recipe,
    counts: Counter[str] | None = None,
    schedule: Callable[[Schedule], Any] | None = None,
    after: Callable[[str, Schedule], None] | None = None,
) -> Schedule:
    """The schedule after the recipe's steps, each random from its own number; refused steps leave no trace."""
    counts = Counter() if counts is None else counts
    s = Schedule(case.func, seed=recipe.seed, error_render_level="none")
    if schedule is not None:
        schedule(s)
        return s
    if recipe.kind == "te schedule":
        return s
    kinds = threads.KINDS if recipe.kind == "gpu" else FINITE if recipe.special else None
    for number in recipe.steps:
        before = s.mod["main"]
        kind = "?"
        try:
            kind, text = primitives.step(s, recipe.rng(f"step{number}"), kinds)
        except primitives.StepRefused as refused:
            counts[f"refused: {refused.kind}"] += 1
            if refused.kind in threads.STEPS:  # made of several primitives
                continue
            assert s.mod["main"] is before, f"{refused.kind} changed the program and refused"
            continue
        if s.mod["main"] is not before:
            counts[f"applied: {kind}"] += 1
            if after is not None:
                after(text, s)
    return s


def settled(mod: IRModule) -> IRModule:
    """Threads that share memory, with the barriers that a later pass would place."""
    text = str(mod)
    flat = "thread_extent" in text or "launch_thread" in text
    for scope in ("shared", "shared.dyn", "warp") if flat else ():
        mod = transform.ThreadSync(scope)(mod)
    return mod


def replay(case: Case, s: Schedule, seed: int) -> None:
    """AssertionError when the schedule's trace does not make the same program again."""
    again = Schedule(case.func, seed=seed)
    assert s.trace is not None
    s.trace.apply_to_schedule(again)
    assert_structural_equal(again.mod["main"], s.mod["main"])


def locate(case: Case, recipe: Recipe, schedule: Callable[[Schedule], Any] | None = None) -> Mismatch | None:
    """The single step after which the interpreter finds something else: a primitive, a pass, or native code."""
    seed, step, text = recipe.seed, "the reference", case.func
    try:
        expected = wanted(case, seed)
        step = "the program itself"
        compare(case, expected, run_interpreter(case.func, case, seed))

        def after(done: str, s: Schedule) -> None:
            nonlocal step, text
            step = f"the primitive {done}"
            compare(case, expected, run_interpreter(s.mod, case, seed))
            step, text = "the schedule", s.mod["main"]

        step, func = "the schedule", case.func
        if case.kind != "flat":
            func = scheduled(case, recipe, None, schedule, after).mod["main"]
        mod: Any = IRModule({"main": func.with_attr("global_symbol", "main")})
        text = mod
        compare(case, expected, run_interpreter(mod, case, seed))
        for each in passes(recipe):
            step = f"the pass {each.name}"
            current, before = each, mod
            new = cleanly(step, lambda current=current, before=before: current(before))  # type: ignore[misc]
            if new is not mod:
                compare(case, expected, run_interpreter(settled(new) if recipe.kind == "gpu" else new, case, seed))
            mod = text = new
        if recipe.kind == "gpu":
            return None
        for level in native.LEVELS:
            if level == "full" or not native.symbolic(case):
                step = f"native code ({level})"
                compare(case, expected, native.run(mod, case, seed, level))
    except Refused:
        return None
    except Exception as error:
        return Mismatch(step, describe(error), text)
    return None
