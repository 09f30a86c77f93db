"""The measurements of a session that are under way. What becomes of a candidate is recorded as soon as it is known."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, wait
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from tilewright.tuning.allocation import Progress
from tilewright.tuning.measure import Built, Measured, Run, Runner, Signature
from tilewright.tuning.record import Record
from tilewright.tuning.search import Proposal, Search
from tilewright.tuning.task import Task


class Best(NamedTuple):
    """The library of the fastest program of a kernel so far, and seconds of a call."""

    library: Path
    seconds: float


@dataclass(eq=False)
class Kernel:
    """What a session has of a task. reference: the library of the untuned kernel. recalled: the fastest candidate of earlier sessions.
    best: the fastest candidate, else the untuned kernel; None until this is measured. left_out: why it cannot be tuned."""

    progress: Progress
    search: Search
    signature: Signature = Signature((), ())
    reference: Path | None = None
    recalled: Proposal | None = None
    best: Best | None = None
    left_out: str = ""

    @property
    def task(self) -> Task:
        return self.progress.task

    def record(self, candidate: Any, measured: Measured, best: Best | None) -> Record:
        """The record of a measurement. Its seconds are scaled by how much slower than before the untuned kernel was, whose runs alternated
        with its own; of a candidate that is not faster than the best so far, by how much slower that was."""
        task, scale = self.task, 1.0
        if measured.reference and self.progress.untuned is not None:
            scale = self.progress.untuned / statistics.median(measured.reference)
        elif measured.beside and best is not None:
            scale = best.seconds / statistics.median(measured.beside)
        return Record(
            task.key,
            task.name,
            task.target.text_for_all,
            task.space.write(candidate),
            tuple([seconds * scale for seconds in measured.seconds]),
            measured.failure,
            measured.message,
            self.progress.untuned,
        )


@dataclass(eq=False)
class Round:
    """Candidates of a kernel that were built together. number: the task's place. records: of those that are measured, by their places.
    bests: libraries that were the fastest so far when they were measured. open: how many are still to be measured."""

    number: int
    kernel: Kernel
    proposals: Sequence[Proposal]
    built: Sequence[Built]
    records: dict[int, Record] = field(default_factory=dict)
    bests: set[Path] = field(default_factory=set)
    open: int = 0

    def remove_libraries(self) -> None:
        """Removes what is not needed any more. What was the best for a while stays: others may just be measured beside it."""
        for built in self.built:
            if built.path is not None and built.path not in self.bests:
                built.path.unlink(missing_ok=True)


class _Trial(NamedTuple):
    """A measurement: of which round and place, and beside which library."""

    round: Round
    place: int
    best: Best | None


class Trials:
    """Measurements by a runner, as many at once as it makes. keep: is called with each record. ends: when no further one begins."""

    def __init__(self, runner: Runner, keep: Callable[[Record], None], ends: float) -> None:
        self.runner, self.keep, self.ends = runner, keep, ends
        self._rounds: list[Round] = []
        self._pending: dict[Future[Measured], _Trial] = {}

    @property
    def open(self) -> int:
        """Candidates that are still to be measured."""
        return len(self._pending)

    def begin(self, new: Round) -> None:
        """Measures the candidates of a round."""
        self._rounds.append(new)
        for place, (proposal, built) in enumerate(zip(new.proposals, new.built, strict=True)):
            if built.path is None:
                failed = Measured((), (), built.failure, built.message)
                self._told(new, place, new.kernel.record(proposal.candidate, failed, None))
            elif time.monotonic() < self.ends or not new.records:
                new.open += 1
                self._submit(new, place)
                # A runner that measures one at a time has done it: the next one is beside what is the best now.
                self._settle(0.0)

    def wait(self) -> None:
        """Waits until a measurement ends. Once it is too late, those that have not begun are left out. Raises RPCError where no machine is
        left to measure on; what was measured is recorded."""
        left = self.ends - time.monotonic()
        if left <= 0:
            for future in [future for future in self._pending if future.cancel()]:
                self._pending.pop(future).round.open -= 1
        self._settle(max(left, 0.0) if 0 < left < float("inf") else None)

    def take_done(self) -> list[Round]:
        """The rounds of which nothing is still to be measured; each once."""
        done = [r for r in self._rounds if not r.open]
        self._rounds = [r for r in self._rounds if r.open]
        return done

    def take_all(self) -> list[Round]:
        """All rounds, whatever is still to be measured."""
        taken, self._rounds = self._rounds, []
        return taken

    def _settle(self, seconds: float | None) -> None:
        """Records measurements that have ended, or end within the seconds."""
        errors = []
        for future in wait(self._pending, seconds, FIRST_COMPLETED).done:
            trial, error = self._pending.pop(future), future.exception()
            if error is None:
                self._ended(trial, future.result())
            else:
                errors.append(error)
        if errors:
            raise errors[0]

    def _submit(self, of: Round, place: int) -> None:
        kernel, library = of.kernel, of.built[place].path
        assert library is not None
        best = kernel.best
        beside = best.library if best is not None else None
        run = Run(library, kernel.signature, kernel.reference, beside)
        self._pending[self.runner.submit(run)] = _Trial(of, place, best)

    def _ended(self, trial: _Trial, measured: Measured) -> None:
        of, place = trial.round, trial.place
        kernel, library = of.kernel, of.built[place].path
        record = kernel.record(of.proposals[place].candidate, measured, trial.best)
        if kernel.best is not None and record.median < kernel.best.seconds and library is not None:
            kernel.best = Best(library, record.median)
            of.bests.add(library)
        of.open -= 1
        self._told(of, place, record)

    def _told(self, of: Round, place: int, record: Record) -> None:
        of.records[place] = record
        self.keep(record)
