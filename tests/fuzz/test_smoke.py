"""Some programs of the fuzzer, its reference and comparison, and what it says about failures, crashes and hangs."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.fuzz import caches, families, killed_tuning, relay_interp, relay_programs, schedules, shrink, worker
from tests.fuzz import check as fuzz
from tests.fuzz.forked import Died, forked
from tests.fuzz.native import Guarded
from tests.generators import tensors
from tests.generators.case import Recipe, difference
from tilewright.codegen import interp
from tilewright.support.cache import default_directory


@pytest.mark.parametrize("first", range(0, 60, 10))
def test_programs(first: int) -> None:
    for seed in range(first, first + 10):
        fuzz.check(Recipe.of(seed))


def test_reference_is_what_the_interpreter_finds() -> None:
    for seed in range(100, 160):
        case = fuzz.draw(Recipe.of(seed)._replace(steps=()))
        assert case.reference is not None
        left, right = case.arguments(seed), case.arguments(seed)
        case.reference(left)
        interp.run(case.func, right)
        assert difference(left, right) is None, seed


def test_recipes_can_leave_out_parts() -> None:
    whole = Recipe.of(11)
    assert whole == Recipe.of(11)
    for less in shrink.smaller(whole):
        fuzz.check(less)


def test_failure_is_reduced_and_can_be_repeated() -> None:
    """A compiler that cannot take steps 3 and 7 together."""

    def check(recipe: Recipe) -> Counter[str]:
        if {3, 7} <= set(recipe.steps):
            raise fuzz.Mismatch("the pass Fuse", "AssertionError: parameter 1", "the program before it")
        return Counter()

    start = Recipe(5, (0, 1), tuple(range(8)))
    with pytest.raises(fuzz.Mismatch) as caught:
        check(start)
    recipe, failure = shrink.smallest(check, start, caught.value)
    assert recipe == Recipe(5, (), (3, 7), 2)
    text = shrink.report(recipe, failure)
    assert text.startswith(
        "seed 5: the pass Fuse went wrong: AssertionError: parameter 1\n"
        "repeat it: python -m tests.fuzz --seed 5 --count 1 --stages none --steps 3,7 --largest 2\nschedule: "
    )
    assert text.endswith("--- before the pass Fuse\nthe program before it")


def test_a_wrong_compiler_is_found_and_the_step_named(monkeypatch: pytest.MonkeyPatch) -> None:
    from tilewright import tir
    from tilewright.tir.transform import prim_func_pass

    @prim_func_pass(name="tir.Wrong")
    def wrong(func: Any, mod: Any, ctx: Any) -> Any:
        def post(s: Any) -> Any:
            return tir.BufferStore(s.buffer, s.value + s.value, s.indices) if "float" in str(s.value.dtype) else s

        return func.replace(body=tir.stmt_functor.ir_transform(func.body, None, post, ["tir.BufferStore"]))

    real = fuzz.passes
    monkeypatch.setattr(fuzz, "passes", lambda recipe: [*real(recipe), wrong])
    seed = next(s for s in range(50) if "float16" in str(tensors.draw(Recipe.of(s)).func))
    with pytest.raises(fuzz.Mismatch, match=r"^the pass tir.Wrong: AssertionError: parameter \d+ differs in"):
        fuzz.check(Recipe.of(seed))


def test_comparison_refuses_a_wrong_element() -> None:
    left: list[Any] = [np.arange(4, dtype="int32"), 3, np.array([0.0, np.nan], "float32")]
    assert difference(left, [np.arange(4, dtype="int32"), 3, np.array([-0.0, np.nan], "float32")]) is None
    found = difference(left, [np.array([0, 1, 2, 4], "int32"), 3, left[2]])
    assert found == "parameter 0 differs in 1 of 4 elements, at [3]: 3 wanted, 4 found"
    assert difference([np.array([1.0])], [np.array([1.001])], 0.01) is None


def test_guards_notice_a_store_outside() -> None:
    g = Guarded(np.zeros((3, 5), "int8"))
    assert g.array.ctypes.data % 64 == 0 and g.intact
    g.room[g.end] = 0
    assert not g.intact


def misbehave(recipe: Recipe) -> Counter[str]:
    """Seed 3 kills its process, seed 5 never ends."""
    if recipe.seed == 3:
        os.kill(os.getpid(), 9)
    if recipe.seed == 5:
        time.sleep(1000)
    return Counter({"programs": 1})


def serve_misbehaving(connection: Any) -> None:
    worker.check = misbehave
    worker.serve(connection)


def test_deaths_and_hangs_are_findings(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(worker, "PATIENCE", 0.5)
    monkeypatch.setattr(worker.Worker, "target", staticmethod(serve_misbehaving))
    pool = worker.Pool(2)
    try:
        got = {recipe.seed: result for recipe, result in pool.map([Recipe(s, (), ()) for s in range(9)])}
    finally:
        pool.stop()
    assert sorted(got) == list(range(9))
    wrong = {seed: str(result) for seed, result in got.items() if isinstance(result, fuzz.Mismatch)}
    assert wrong == {3: "running it: the process died with code -9", 5: "running it: no result in 0 s"}


@pytest.mark.parametrize("workers", ["1", "2"])
def test_command(workers: str) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "tests.fuzz", "--count", "12", "--seed", "3", "--workers", workers],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout
    assert "12 programs from seed 3, 0 failures" in done.stderr
    counted = done.stderr.rsplit("12 programs", 1)[0]
    assert SUMMARIES.setdefault("command", counted) == counted  # whatever the number of workers


SUMMARIES: dict[str, str] = {}


def test_all_families_run_whatever_one_finds(capfd: pytest.CaptureFixture[str]) -> None:
    none, bad = families.Family("tests.fuzz.relay_damage"), families.Family("tests.fuzz.no_such_family")
    assert families.run([bad, none], 2, 0) == 1
    lines = capfd.readouterr().out.splitlines()
    assert lines[-2].split()[:2] == ["tests.fuzz.no_such_family", "2"] and "FOUND SOMETHING (exit code 1)" in lines[-2]
    assert lines[-1].split()[:2] == ["tests.fuzz.relay_damage", "2"] and "nothing found" in lines[-1]
    assert families.run([none], 1, 0) == 0


def test_relay_programs_run(capsys: pytest.CaptureFixture[str]) -> None:
    assert relay_programs.main(["--count", "12", "--seed", "84"]) == 0
    assert capsys.readouterr().out.endswith("12 of 12 programs from seed 84 ran (100.0 %)\n")
    assert relay_programs.main(["--count", "3", "--seed", "10", "--vm"]) == 0


def test_relay_programs_run_in_the_oracle(capsys: pytest.CaptureFixture[str]) -> None:
    assert relay_interp.main(["--count", "8", "--seed", "20"], relay_interp.drive) == 0
    assert capsys.readouterr().out.endswith("8 of 8 programs from seed 20 ran (100.0 %)\n")


def test_a_program_that_departs_from_the_oracle_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    real = relay_interp.flat_values
    calls: list[int] = []

    def wrong(value: Any) -> list[np.ndarray]:
        calls.append(0)
        return [~a if a.dtype == bool else a + a.dtype.type(3) for a in real(value)] if len(calls) == 2 else real(value)

    monkeypatch.setattr(relay_interp, "flat_values", wrong)
    assert "the oracle gives other results" in relay_interp.drive(20)[0]


def test_a_relay_program_that_differs_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    assert (
        relay_programs.main(
            ["--count", "3"], lambda seed, compiled: ("BAD vm: other results" if seed else "ran", "text")
        )
        == 1
    )
    assert capsys.readouterr().out.endswith("1 of 3 programs from seed 0 ran (33.3 %)\n")


def test_relay_programs_that_hang_or_end_the_process_are_told(capsys: pytest.CaptureFixture[str]) -> None:
    """Each program has a process of its own, whose end is a find as its answer is."""

    def fate(seed: int, compiled: bool) -> tuple[str, str]:
        if seed == 1:
            os.kill(os.getpid(), signal.SIGSEGV)
        while seed == 2:
            pass
        return "ran", "text"

    assert relay_programs.main(["--count", "4", "--limit", "1"], fate) == 1
    said = capsys.readouterr().out
    assert "seed 1: BAD process: the process died of SIGSEGV\n" in said
    assert "seed 2: BAD process: no result in 1 s of processor time\n" in said
    assert said.endswith("2 of 4 programs from seed 0 ran (50.0 %)\n")


def test_schedules_of_all_kinds_run(capsys: pytest.CaptureFixture[str]) -> None:
    assert schedules.main(["--count", "32", "--seed", "18"]) == 0
    said = capsys.readouterr().out
    assert all([f"{kind} right" in said for kind in ("plan", "trace", "sketch", "template")])
    assert "32 schedules from seed 18, 0 failures" in said


def test_a_schedule_that_computes_something_else_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    real = schedules.Checker.native

    def wrong(checker: schedules.Checker, lowered: Any) -> list[Any]:
        values = real(checker, lowered)
        return (
            [~a if a.dtype.kind in "iub" else a + a.dtype.type(3) for a in values]
            if getattr(checker, "made", ())
            else values
        )

    monkeypatch.setattr(schedules.Checker, "native", wrong)
    found = schedules.check(2, 2)
    assert not found.fates and len(found.finds) == 2
    assert all([", schedule " in what and "other results: " in what and text for what, text in found.finds])


@pytest.mark.slow
def test_tuning_that_is_killed_goes_on(capsys: pytest.CaptureFixture[str]) -> None:
    assert killed_tuning.main(["--count", "5"]) == 0
    assert "5 kills" in capsys.readouterr().out


def test_what_a_forked_check_raises_is_no_answer(capfd: pytest.CaptureFixture[str]) -> None:
    def check() -> str:
        raise RuntimeError("not caught")

    with pytest.raises(Died, match="the process ended without a result"):
        forked(check)
    assert "not caught" in capfd.readouterr().err
    with pytest.raises(Died, match="no result in 1 s"):
        forked(lambda: time.sleep(60), patience=1)


def test_caches_go_with_a_run(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv(caches.VARIABLE, raising=False)
    with caches.own_cache():
        folder = default_directory()
        (folder / "kernel").parent.mkdir(parents=True, exist_ok=True)
        (folder / "kernel").touch()
    assert not folder.exists() and caches.VARIABLE not in os.environ
    monkeypatch.setenv(caches.VARIABLE, str(tmp_path))
    with caches.own_cache():
        assert default_directory() == tmp_path
    assert tmp_path.exists()
