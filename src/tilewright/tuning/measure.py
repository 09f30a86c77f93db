"""From scheduled programs to times: what builders and runners take and give. They never raise for a candidate: they tell its failure."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from concurrent.futures import Future
from enum import Enum
from pathlib import Path
from typing import NamedTuple

from tilewright.ir import IRModule
from tilewright.support.errors import RPCError
from tilewright.target import Target
from tilewright.tuning.packing import Packing

ENTRY = "tuned_kernel"
"""The name of the kernel in libraries that are measured."""


class Failure(Enum):
    """Why there is no time for a candidate."""

    REFUSED = "refused"
    """A step of the schedule was refused."""
    BUILD = "build"
    """It could not be compiled."""
    BUILD_TIMEOUT = "build timeout"
    RUN = "run"
    """It failed, or its process died."""
    RUN_TIMEOUT = "run timeout"
    WRONG = "wrong"
    """Its results are not those of the untuned program."""
    LOST = "lost"
    """The machine that ran it went away."""


class NoMachineError(RPCError):
    """No machine is left to measure on."""


class Source(NamedTuple):
    """A scheduled program to be built. Its single function has static shapes."""

    program: IRModule
    target: Target


class Built(NamedTuple):
    """A library, or why there is none."""

    path: Path | None
    seconds: float
    failure: Failure | None = None
    message: str = ""


class Argument(NamedTuple):
    """A parameter of a kernel."""

    shape: tuple[int, ...]
    dtype: str


class Signature(NamedTuple):
    """The parameters of a kernel, and which of them, by their places, it writes. values: the bytes of what they hold when it is measured;
    without them, they are drawn at random."""

    arguments: tuple[Argument, ...]
    outputs: tuple[int, ...]
    values: tuple[bytes, ...] = ()


class Run(NamedTuple):
    """A library to be measured.

    reference: the library of the untuned kernel, whose outputs for the same inputs are compared with its own; None: they are not compared.
    beside: the library of the best candidate so far, whose runs alternate with its own; what seems to be faster is measured twice, and the
    second time, beside the reference too, counts.
    packings, beside_packings: the parameters that the library, or the one beside it, takes in other layouts than the signature says. They
    are packed before, so the time of that does not count.
    cold: before each call, all parameters but the first one leave the caches of a CPU, as weights of a model have.
    """

    library: Path
    signature: Signature
    reference: Path | None = None
    beside: Path | None = None
    packings: tuple[Packing, ...] = ()
    beside_packings: tuple[Packing, ...] = ()
    cold: bool = False


class Measured(NamedTuple):
    """Seconds of a call, one number an undisturbed repeat; or why there are none. beside: those of the library beside it, whose repeats
    alternated with these; none for a candidate that is far slower. reference: those of the untuned kernel, which alternated too if the
    library seemed to be the fastest so far. elapsed: seconds that it took to measure, where it was done."""

    seconds: tuple[float, ...]
    beside: tuple[float, ...] = ()
    failure: Failure | None = None
    message: str = ""
    elapsed: float = 0.0
    reference: tuple[float, ...] = ()


class Builder(ABC):
    """Compiles programs to libraries."""

    @abstractmethod
    def build(self, sources: Sequence[Source], folder: Path) -> list[Built]:
        """A library of each program, in the folder, in the order of the programs."""

    def close(self) -> None:  # noqa: B027
        """Ends the processes that it started. It starts others when it is used again."""


class Runner(ABC):
    """Measures libraries."""

    apart: bool = False
    """Whether it runs on other machines than this, so that building does not disturb it."""

    @abstractmethod
    def run(self, runs: Sequence[Run]) -> list[Measured]:
        """The times of each library, in the order of the libraries. Raises NoMachineError where no machine is left for them."""

    def submit(self, run: Run) -> Future[Measured]:
        """The times of a library, as soon as they are known. Runners that measure several libraries at once return at once; others have
        measured it when this returns. A measurement that has not begun can be cancelled. It raises NoMachineError where
        no machine is left for it."""
        measured: Future[Measured] = Future()
        measured.set_running_or_notify_cancel()
        measured.set_result(self.run([run])[0])
        return measured

    def close(self) -> None:  # noqa: B027
        """Ends the processes and sessions that it started. It starts others when it is used again."""


class CostModel(ABC):
    """Predicts which programs are fast, from those that were measured."""

    @abstractmethod
    def predict(self, programs: Sequence[IRModule], target: Target) -> list[float]:
        """A score of each scheduled program: higher is faster. Scores are comparable within a task only."""

    @abstractmethod
    def update(self, key: str, programs: Sequence[IRModule], target: Target, seconds: Sequence[float]) -> None:
        """Learns from measurements of a task. seconds: of each program; infinite if it failed."""
