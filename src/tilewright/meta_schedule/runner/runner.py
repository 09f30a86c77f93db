"""From libraries to times."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from typing import Any, ClassVar, NamedTuple

from tilewright.meta_schedule.arg_info import ArgInfo

Told = tuple[list[float] | None, str | None]
"""Seconds, or a message."""


class Rivals(NamedTuple):
    """What a library is compared with, for runners that compare. outputs: the places of the parameters that the kernel writes. reference:
    the library of the untuned kernel, whose outputs are to be its own. fastest: the library of the fastest schedule so far, whose runs
    alternate with its own, and its seconds."""

    outputs: tuple[int, ...]
    reference: str
    fastest: tuple[str, float] | None = None


class RunnerInput:
    """A library to be measured, the kind of its device, and the parameters of its kernel. rivals: what it is compared with, if anything."""

    def __init__(
        self, artifact_path: str, device_type: str, args_info: Sequence[ArgInfo], rivals: Rivals | None = None
    ) -> None:
        self.artifact_path, self.device_type, self.args_info = artifact_path, device_type, list(args_info)
        self.rivals = rivals


class RunnerResult:
    """Seconds of a call, one number a repeat, or why there are none."""

    def __init__(self, run_secs: Sequence[float] | None, error_msg: str | None) -> None:
        self.run_secs = None if run_secs is None else [float(s) for s in run_secs]
        self.error_msg = error_msg


class RunnerFuture:
    """A measurement that may run still. f_done: whether it is done. f_result: waits for its result."""

    def __init__(self, f_done: Callable[[], bool], f_result: Callable[[], RunnerResult]) -> None:
        self._done, self._result = f_done, f_result

    def done(self) -> bool:
        """Whether it is done."""
        return self._done()

    def result(self) -> RunnerResult:
        """The result, once it is there."""
        return self._result()


class BatchFuture(RunnerFuture):
    """A measurement of a batch that a thread waits for. batch: seconds or a message of each. place: its number in the batch."""

    def __init__(self, batch: Future[list[Told]], place: int) -> None:
        super().__init__(batch.done, lambda: RunnerResult(*batch.result()[place]))


class PyRunnerFuture(RunnerFuture):
    """The base of futures of users, which define done and result."""

    def __init__(self) -> None:
        super().__init__(self.done, self.result)


class Runner(ABC):
    """Measures libraries."""

    kinds: ClassVar[dict[str, Callable[..., Runner]]] = {}
    """The runners by the names that `create` takes."""

    compares: bool = False
    """Whether it takes the rivals of its inputs into account."""
    measures_here: bool = False
    """Whether its futures are measurements on this machine, which builds would disturb."""

    def __init_subclass__(cls, kind: str = "") -> None:
        if kind:
            Runner.kinds[kind] = cls

    @abstractmethod
    def run(self, runner_inputs: Sequence[RunnerInput]) -> list[RunnerFuture]:
        """The measurements of the libraries, in their order."""

    def close(self) -> None:  # noqa: B027
        """Ends what it measures, and its processes. It starts others when it is used again."""

    @staticmethod
    def create(kind: str = "local", *args: Any, **kwargs: Any) -> Runner:
        """A runner by its name. Raises ValueError for others."""
        if kind not in Runner.kinds:
            raise ValueError(f"a runner is one of {', '.join(sorted(Runner.kinds))}, but {kind!r} was given")
        return Runner.kinds[kind](*args, **kwargs)


class PyRunner(Runner):
    """The base of runners of users, which define run."""


create = Runner.create
