"""Measurements of configurations: what is measured, what comes out, and the interfaces of builders and runners."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from enum import IntEnum
from typing import Any, NamedTuple

from tilewright.support import lazy

# It makes builders and runners, which are above this.
lazy.declare(__name__, {"measure_option": "tilewright.autotvm.measure.measure_methods:measure_option"})
__getattr__, __dir__ = lazy.late(__name__)


class MeasureInput(NamedTuple):
    """target: a Target. task: an autotvm.task.Task. config: a ConfigEntity."""

    target: Any
    task: Any
    config: Any


class MeasureErrorNo(IntEnum):
    """How a measurement ended."""

    NO_ERROR = 0
    INSTANTIATION_ERROR = 1
    """The template refuses the configuration, or a step of its schedule is refused."""
    COMPILE_HOST = 2
    """It cannot be compiled."""
    COMPILE_DEVICE = 3
    """The code of the device cannot be compiled."""
    RUNTIME_DEVICE = 4
    """It fails while it runs."""
    WRONG_ANSWER = 5
    BUILD_TIMEOUT = 6
    RUN_TIMEOUT = 7
    UNKNOWN_ERROR = 8


class MeasureResult(NamedTuple):
    """costs: seconds of a call, a number a repeat; where error_no is not 0: why there are none. error_no: a MeasureErrorNo. all_cost:
    seconds that the measurement took. timestamp: when it was made, in seconds since 1970."""

    costs: tuple[Any, ...]
    error_no: int
    all_cost: float
    timestamp: float

    def __repr__(self) -> str:
        error = str(MeasureErrorNo(self.error_no)) if self.error_no else str(self.error_no)
        return (
            f"MeasureResult(costs={self.costs}, error_no={error}, all_cost={self.all_cost}, timestamp={self.timestamp})"
        )


class Builder:
    """Compiles configurations. n_parallel: at once. timeout: seconds of one. build_kwargs: options of the compilation."""

    def __init__(
        self, timeout: float = 10, n_parallel: int | None = None, build_kwargs: dict[str, Any] | None = None
    ) -> None:
        self.timeout, self.n_parallel = timeout, n_parallel or 1
        self.user_build_kwargs = dict(build_kwargs or {})
        self.build_kwargs: dict[str, Any] = {}
        self.task: Any = None

    def set_task(self, task: Any, build_kwargs: dict[str, Any] | None = None) -> None:
        """Prepares for a task. build_kwargs: what the runner wants; those of the constructor go first."""
        self.task = task
        self.build_kwargs = {**(build_kwargs or {}), **self.user_build_kwargs}

    def build(self, measure_inputs: Sequence[MeasureInput]) -> list[Any]:
        """What each becomes: a BuildResult, or a MeasureResult that tells the failure."""
        raise NotImplementedError(f"{type(self).__name__} does not build")


class Runner:
    """Measures what was built. n_parallel: at once. timeout: seconds of one."""

    def __init__(self, timeout: float = 5, n_parallel: int | None = None) -> None:
        self.timeout, self.n_parallel = timeout, n_parallel or 1
        self.task: Any = None

    def set_task(self, task: Any) -> None:
        """Prepares for a task."""
        self.task = task

    def get_build_kwargs(self) -> dict[str, Any]:
        """Options of the compilation that the device needs."""
        return {}

    def run(self, measure_inputs: Sequence[MeasureInput], build_results: Sequence[Any]) -> list[MeasureResult]:
        """The result of each."""
        raise NotImplementedError(f"{type(self).__name__} does not run")


def create_measure_batch(task: Any, option: dict[str, Any]) -> Callable[[Sequence[MeasureInput]], list[MeasureResult]]:
    """A function that measures inputs of a task. Its attribute n_parallel says how many inputs should be given at once.

    option: of `measure_option`.
    """
    builder, runner = option["builder"], option["runner"]
    runner.set_task(task)
    builder.set_task(task, runner.get_build_kwargs())

    def measure_batch(measure_inputs: Sequence[MeasureInput]) -> list[MeasureResult]:
        built = builder.build(measure_inputs)
        found: list[MeasureResult] = runner.run(measure_inputs, built)
        return found

    measure_batch.n_parallel = builder.n_parallel  # type: ignore[attr-defined]
    return measure_batch
