"""Measurements in a process of this machine, of kernels that fail in every way too."""

from __future__ import annotations

import os
import signal
import statistics
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random
from types import SimpleNamespace
from typing import Any

import pytest

from tests.support.test_workers import interrupted, runs, until
from tests.tuning import kernels
from tilewright.runtime import cpu
from tilewright.tuning.building import LocalBuilder
from tilewright.tuning.measure import Failure, Run, Signature
from tilewright.tuning.running.local import LocalRunner
from tilewright.tuning.running.measuring import Bench, Plan, undisturbed, without_interruptions

NAMES = ("right", "slow", "wrong", "endless", "crash", "hungry", "shared")


@pytest.fixture(scope="module")
def libraries(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    builder = LocalBuilder(2)
    built = builder.build([kernels.source(getattr(kernels, n)) for n in NAMES], tmp_path_factory.mktemp("libraries"))
    builder.close()
    return {name: b.path for name, b in zip(NAMES, built, strict=True) if b.path is not None}


@pytest.fixture(scope="module")
def runner() -> Iterator[LocalRunner]:
    found = LocalRunner(timeout=20, memory=2 << 30)
    yield found
    found.close()


def run(libraries: dict[str, Path], name: str, signature: Signature = kernels.SIGNATURE) -> Run:
    return Run(libraries[name], signature, libraries["right"], libraries["right"])


def test_times_alternate_with_those_of_the_best(runner: LocalRunner, libraries: dict[str, Path]) -> None:
    slow, alone = runner.run([run(libraries, "slow"), Run(libraries["slow"], kernels.SIGNATURE)])
    # Twenty nanoseconds: on a loaded machine, a library may seem to be slower than itself, and is not measured further then.
    for _ in range(10):
        (same,) = runner.run([run(libraries, "right")])
        if len(same.beside) >= 6:
            break
    assert same.failure is slow.failure is alone.failure is None
    assert min(len(same.seconds), len(same.beside)) >= 6
    assert 0.6 < statistics.median(same.seconds) / statistics.median(same.beside) < 1.6
    assert len(slow.seconds) == 1 and slow.seconds[0] > 8 * min(same.seconds) and slow.beside == ()
    # Times that something disturbed are left out, so the measurement may need another try.
    for _ in range(10):
        if len(alone.seconds) >= 6:
            break
        (alone,) = runner.run([Run(libraries["slow"], kernels.SIGNATURE)])
    assert alone.beside == () and len(alone.seconds) >= 6


def test_each_failure_is_told_and_the_next_one_runs(runner: LocalRunner, libraries: dict[str, Path]) -> None:
    wrong, crash, hungry, right = runner.run([run(libraries, n) for n in ("wrong", "crash", "hungry", "right")])
    assert wrong.failure is Failure.WRONG
    assert wrong.message.startswith(
        "1 of 256 elements of output 1 differ from those of the untuned kernel; the first is [77]: "
    )
    assert crash.failure is Failure.RUN and "killed by signal 11 (SIGSEGV)" in crash.message
    assert hungry.failure is Failure.RUN and "more memory than its 2048 MiB" in hungry.message
    assert right.failure is None and right.seconds


def test_an_endless_kernel(libraries: dict[str, Path]) -> None:
    runner = LocalRunner(timeout=0.5)
    endless, right = runner.run([run(libraries, "endless"), run(libraries, "right")])
    assert endless[:4] == ((), (), Failure.RUN_TIMEOUT, "it took longer than 0.5 s") and right.seconds
    (reference,) = runner.run([Run(libraries["right"], kernels.SIGNATURE, libraries["endless"])])
    assert reference.failure is Failure.RUN_TIMEOUT and reference.message.startswith("the untuned kernel, with which")
    runner.close()


def test_killed_from_outside(libraries: dict[str, Path]) -> None:
    runner = LocalRunner(timeout=30)
    assert runner.run([run(libraries, "right")])[0].seconds
    first = runner.pid
    assert first is not None
    threading.Timer(0.3, os.kill, (first, signal.SIGKILL)).start()
    # An endless one is tried again in another process; that is killed as well.
    threading.Timer(1.5, lambda: until(lambda: runner.pid not in (None, first)) and os.kill(runner.pid or 0, 9)).start()
    endless, right = runner.run([run(libraries, "endless"), run(libraries, "right")])
    assert endless.failure is Failure.RUN and "SIGKILL" in endless.message and right.seconds
    last = runner.pid
    runner.close()
    assert last is not None and not runs(last) and not runs(first)


def test_an_interrupt_ends_the_process(libraries: dict[str, Path]) -> None:
    runner = LocalRunner(timeout=60)
    runner.run([run(libraries, "right")])
    pid = runner.pid
    assert pid is not None
    begun = time.monotonic()
    with pytest.raises(KeyboardInterrupt), interrupted(lambda: time.monotonic() > begun + 0.5):
        runner.run([run(libraries, "endless")])
    assert runner.pid is None and not runs(pid)


def test_memory_that_another_kernel_spoiled_is_not_blamed(runner: LocalRunner, libraries: dict[str, Path]) -> None:
    """The first of these writes to its input, from which the second one then computes other outputs than it should."""
    spoiling, right = runner.run([run(libraries, "shared"), run(libraries, "right")])
    assert spoiling.failure is None
    assert right.failure is None and right.seconds


def test_disturbed_repeats_are_left_out() -> None:
    random = Random(0)
    quiet = [1.0 + 0.02 * random.random() for _ in range(6)]
    loaded = [s * (3 if i % 2 else 1) for i, s in enumerate(quiet)]
    assert undisturbed(quiet, Plan()) == tuple(quiet)
    assert undisturbed(loaded, Plan()) == tuple(quiet[::2])
    assert undisturbed([], Plan()) == ()


def test_interruptions_are_not_the_kernels() -> None:
    assert without_interruptions(0.3, 2, wall=0.6, own=0.2, process=0.2) == 0.1
    # Other threads work too: nobody knows for how long they were interrupted.
    assert without_interruptions(0.3, 2, wall=0.6, own=0.2, process=0.35) == 0.3
    # Nothing came in between; the rest of the time is that of the measurement itself.
    assert without_interruptions(0.1, 2, wall=0.203, own=0.202, process=0.202) == 0.1


class Clock:
    """A library whose repeats take the seconds that are given, and the last of them from then on."""

    def __init__(self, *seconds: float) -> None:
        self.seconds, self.calls = seconds, 0

    def __getitem__(self, name: str) -> Callable[..., None]:
        return lambda a, b: None

    def implements_function(self, name: str) -> bool:
        return False

    def time_evaluator(self, name: str, device: Any, number: int, repeat: int, **_: Any) -> Callable[..., Any]:
        def timed(*args: Any) -> Any:
            self.calls += 1
            return SimpleNamespace(results=[self.seconds[min(self.calls, len(self.seconds)) - 1]])

        return timed


def test_a_time_that_is_too_good_is_measured_again(tmp_path: Path) -> None:
    paths = [tmp_path / name for name in ("lucky", "near", "slower", "hopeless", "best")]
    lucky, near, slower, hopeless = Clock(*[0.5] * 7, 1.25), Clock(1.2), Clock(1.5), Clock(9.0)
    libraries = dict(zip(paths, [lucky, near, slower, hopeless, Clock(1.0)], strict=True))
    for path in paths:
        path.touch()
    bench = Bench(lambda path: libraries[path], cpu(), Plan(cache_flush_bytes=1))  # type: ignore[arg-type,return-value]
    assert bench.measure(Run(paths[0], kernels.SIGNATURE, None, paths[4])).seconds == (1.25,) * 6
    assert lucky.calls == 1 + 6 + 6
    assert bench.measure(Run(paths[1], kernels.SIGNATURE, None, paths[4])).seconds == (1.2,) * 6
    assert near.calls == 1 + 6
    # The slower, the less exactly.
    assert bench.measure(Run(paths[2], kernels.SIGNATURE, None, paths[4])).seconds == (1.5,) * 3
    assert slower.calls == 1 + 3
    assert bench.measure(Run(paths[3], kernels.SIGNATURE, None, paths[4]))[:2] == ((9.0,), ())
    assert hopeless.calls == 1


def test_what_seems_to_be_the_fastest_is_compared_with_the_untuned_kernel(tmp_path: Path) -> None:
    paths = [tmp_path / name for name in ("fast", "slow", "best", "untuned")]
    fast, slow, best, untuned = Sleeper(0.9), Sleeper(1.2), Sleeper(1.0), Sleeper(2.0)
    fast.first = slow.first = best.first = untuned.first = 0.0
    libraries = dict(zip(paths, [fast, slow, best, untuned], strict=True))
    for path in paths:
        path.touch()
    bench = Bench(lambda path: libraries[path], cpu(), Plan(cache_flush_bytes=1))  # type: ignore[arg-type,return-value]
    found = bench.measure(Run(paths[0], kernels.SIGNATURE, paths[3], paths[2]))
    assert (found.seconds, found.beside, found.reference) == ((0.9,) * 6, (1.0,) * 6, (2.0,) * 6)
    assert bench.measure(Run(paths[1], kernels.SIGNATURE, paths[3], paths[2])).reference == ()
    beside = bench.measure(Run(paths[0], kernels.SIGNATURE, paths[3], paths[3]))
    assert beside.reference == beside.beside == (2.0,) * 6
    assert bench.measure(Run(paths[0], kernels.SIGNATURE, None, paths[2])).reference == ()


def test_cold_calls_are_timed_one_by_one(tmp_path: Path) -> None:
    asked: list[tuple[int, int, dict[str, Any]]] = []

    class Noting(Clock):
        def time_evaluator(
            self, name: str, device: Any, number: int, repeat: int, **options: Any
        ) -> Callable[..., Any]:
            asked.append((number, repeat, options))
            return super().time_evaluator(name, device, number, repeat)

    library = tmp_path / "library"
    library.touch()
    bench = Bench(lambda _: Noting(0.5), cpu(), Plan())  # type: ignore[arg-type,return-value]
    assert bench.measure(Run(library, kernels.SIGNATURE, cold=True)).seconds == (0.5,) * 6
    assert asked == [(1, 1, {"f_preproc": "cache_flush_cpu_non_first_arg"})]


class Sleeper(Clock):
    """A library whose first call, which computes its outputs, takes its time as well, or `first` seconds."""

    first: float | None = None

    def __getitem__(self, name: str) -> Callable[..., None]:
        return lambda a, b: _compute(self.seconds[0] if self.first is None else self.first)


def _compute(seconds: float) -> None:
    begun = time.process_time()
    while time.process_time() - begun < seconds:
        pass


def test_of_a_hopeless_library_the_first_call_is_enough(tmp_path: Path) -> None:
    paths = [tmp_path / name for name in ("slow", "slower", "best")]
    slow, hopeless, best = Sleeper(0.025), Sleeper(0.05), Sleeper(0.005)
    libraries = dict(zip(paths, [slow, hopeless, best], strict=True))
    for path in paths:
        path.touch()
    bench = Bench(lambda path: libraries[path], cpu(), Plan(cache_flush_bytes=1))  # type: ignore[arg-type,return-value]
    assert len(bench.measure(Run(paths[1], kernels.SIGNATURE, paths[2], paths[2])).seconds) == 1
    assert hopeless.calls == 0
    # Five times as slow: its first call may be slower than the others.
    bench.measure(Run(paths[0], kernels.SIGNATURE, paths[2], paths[2]))
    assert slow.calls > 0
