"""Builders and runners of users: what they raise, and results that are none, are failures of the schedules, not of the session."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tilewright.meta_schedule.builder import Builder, BuilderInput, BuilderResult
from tilewright.meta_schedule.runner import Runner, RunnerFuture, RunnerInput, RunnerResult
from tilewright.meta_schedule.utils import raised
from tilewright.tuning.measure import NoMachineError


def build(builder: Builder, inputs: Sequence[BuilderInput]) -> list[BuilderResult]:
    """The libraries of a builder, in the order of the inputs."""
    name = f"the builder {type(builder).__name__}"
    try:
        made = list(builder.build(inputs))
        wrong = _wrong(made, len(inputs), ("artifact_path", "error_msg"))
    except Exception as error:
        wrong, made = f"raised {raised(error)}", []
    if wrong:
        return [BuilderResult(None, f"{name} {wrong}") for _ in inputs]
    return [
        r if r.artifact_path is not None or r.error_msg else BuilderResult(None, f"{name} built nothing") for r in made
    ]


def run(runner: Runner, inputs: Sequence[RunnerInput]) -> list[RunnerFuture]:
    """The measurements of a runner, in the order of the inputs. They raise nothing but NoMachineError, which ends a session."""
    name = f"the runner {type(runner).__name__}"
    try:
        made = list(runner.run(inputs))
        wrong = _wrong(made, len(inputs), ("done", "result"))
    except NoMachineError:
        raise
    except Exception as error:
        wrong, made = f"raised {raised(error)}", []
    if wrong:
        message = f"{name} {wrong}"
        return [RunnerFuture(lambda: True, lambda: RunnerResult(None, message)) for _ in inputs]
    return [_guarded(name, future) for future in made]


def _guarded(name: str, future: RunnerFuture) -> RunnerFuture:
    def done() -> bool:
        try:
            return bool(future.done())
        except Exception:
            return True  # `result` tells what it raises

    def result() -> RunnerResult:
        try:
            found = future.result()
            seconds = None if found.run_secs is None else [float(s) for s in found.run_secs]
        except NoMachineError:
            raise
        except Exception as error:
            return RunnerResult(None, f"the measurement of {name} raised {raised(error)}")
        if not seconds:
            return RunnerResult(None, found.error_msg or f"{name} measured nothing")
        if not all([s > 0 for s in seconds]):
            return RunnerResult(None, f"{name} measured {seconds}, which are no seconds")
        return found

    return RunnerFuture(done, result)


def _wrong(made: Sequence[Any], wanted: int, names: tuple[str, ...]) -> str:
    """What is wrong in the results for so many inputs; "" if nothing is."""
    if len(made) != wanted:
        return f"returned {len(made)} results for {wanted} inputs"
    other = next((m for m in made if not all([hasattr(m, name) for name in names])), None)
    return "" if other is None else f"returned {type(other).__name__}, which is no result"
