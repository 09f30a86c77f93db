"""The loop of tuning: choose a task, search, build, run, record."""

from __future__ import annotations

import os
import statistics
import time
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, wait
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

from tilewright.support.errors import RPCError, TVMError
from tilewright.support.files import kept_folder
from tilewright.tuning import log
from tilewright.tuning.allocation import PATIENCE, Progress, next_task
from tilewright.tuning.inputs import signature_of
from tilewright.tuning.measure import Builder, CostModel, Failure, Measured, Run, Runner, Source
from tilewright.tuning.record import Record, load, of_task
from tilewright.tuning.search import Effort, Proposal, Search
from tilewright.tuning.task import Task
from tilewright.tuning.trials import Best, Kernel, Round, Trials

RECALLED = 64
"""Records of a task that are scheduled again when its log is continued, the fastest ones: each takes tens of milliseconds."""
UNTUNED = 16
"""Untuned kernels that are built at once."""


@dataclass(frozen=True)
class Limits:
    """When tuning ends, whichever comes first, and how much is done at a time.

    trials: measurements in all. seconds: in all. patience: rounds of a task without a faster candidate. batch: measurements of a round.
    search: the share of the time that the search itself may take.
    """

    trials: int | None = None
    seconds: float | None = None
    patience: int = PATIENCE
    batch: int = 16
    search: float = 0.15


class Event(NamedTuple):
    """What a round brought. number: the task's place. trials: measurements of the session. elapsed: its seconds."""

    number: int
    progress: Progress
    records: Sequence[Record]
    trials: int
    elapsed: float


class Session:
    """Tunes tasks. A record is on the disk as soon as its candidate is measured, so whatever ends the process loses at most what was being
    measured. A log that has records of the tasks is continued.

    While boards measure, or another machine does, the next candidates are searched and built: a round begins when no more candidates are
    left to be measured than a round has. On this machine these things would disturb each other, so one follows the other.

    path: the log; None: records are in memory only. records: those of this session. refused: lines of the log that are not used.
    The untuned kernels of all tasks are measured first (`measure_untuned`), so that the time of the model is known.

    unwritten: records that could not be written, since the disk is full or the file cannot be opened; each record tries again.
    """

    def __init__(
        self,
        tasks: Iterable[Task],
        builder: Builder,
        runner: Runner,
        model: CostModel,
        path: str | os.PathLike[str] | None = None,
        seed: int = 0,
    ) -> None:
        self.builder, self.runner, self.model, self.path = builder, runner, model, path
        self.folder = kept_folder("tilewright-tune-")
        self.records: list[Record] = []
        self.unwritten: list[Record] = []
        random = Random(seed)
        self._kernels = [
            Kernel(Progress(task), Search(task.space, task.target, model, Random(random.random()))) for task in tasks
        ]
        self._folders = 0
        known, self.refused = load(path) if path is not None and os.path.exists(path) else ([], [])
        for kernel in self._kernels:
            self._recall(kernel, of_task(known, kernel.task))

    @property
    def progress(self) -> list[Progress]:
        """What each task reached, in the order of the tasks."""
        return [kernel.progress for kernel in self._kernels]

    def measure_untuned(self, report: Callable[[int, int, str], None] | None = None) -> None:
        """Measures the untuned kernels of the tasks that have none. report: is called with the tasks that are done, all tasks, and what is
        done.

        Tasks whose untuned kernel cannot be built and run are left out, since nothing could be compared with it: `left_out` says why.
        Raises TVMError where it is so with all.
        """
        waiting = [kernel for kernel in self._kernels if kernel.best is None and not kernel.left_out]
        pending: dict[Future[Measured], Kernel] = {}
        done = 0
        for first in range(0, len(waiting), UNTUNED):
            group = waiting[first : first + UNTUNED]
            if report is not None:
                report(done, len(waiting), group[0].task.name)
            # Boards measure a group while the next one is built.
            pending.update(self._untuned(group))
            more = first + UNTUNED < len(waiting)
            while pending:
                ended, _ = wait(pending, 0.0 if more and self.runner.apart else None, FIRST_COMPLETED)
                for future in ended:
                    kernel = pending.pop(future)
                    self._measured_untuned(kernel, future.result())
                    done += 1
                    if report is not None:
                        report(done, len(waiting), kernel.task.name)
                if not ended:
                    break
        for kernel in waiting:
            kernel.progress.exhausted = kernel.progress.exhausted or bool(kernel.left_out)
        if self._kernels and all([kernel.left_out for kernel in self._kernels]):
            first_one, others = self._kernels[0], len(self._kernels) - 1
            so = f"; nor can the {others} other tasks" if others else ""
            raise TVMError(f"{first_one.task.name} cannot be tuned: {first_one.left_out}{so}")

    @property
    def left_out(self) -> dict[str, str]:
        """Why tasks are not tuned, by their names."""
        return {kernel.task.name: kernel.left_out for kernel in self._kernels if kernel.left_out}

    def run(self, limits: Limits, report: Callable[[Event], None] | None = None) -> None:
        """Measures until a limit is reached, or no task is expected to become faster. report: is called after each round.

        Raises TVMError where no task can be tuned, and RPCError where no machine is left to measure on: its records are kept.
        """
        begun = time.monotonic()
        ends = begun + limits.seconds if limits.seconds is not None else float("inf")
        before, searched = len(self.records), 0.0
        self.measure_untuned()
        trials = Trials(self.runner, self._keep, ends)

        def end(rounds: Sequence[Round]) -> None:
            for ended in rounds:
                records, made = self._end(ended), len(self.records) - before
                if report is not None and records:
                    report(Event(ended.number, ended.kernel.progress, records, made, time.monotonic() - begun))

        def wait_until(most: int) -> None:
            """Waits until at most so many candidates are still to be measured, and reports rounds that end."""
            while True:
                end(trials.take_done())
                if trials.open <= most:
                    return
                trials.wait()

        try:
            while True:
                wait_until(limits.batch if self.runner.apart else 0)
                now = time.monotonic()
                left = float("inf")
                if limits.trials is not None:
                    left = limits.trials - (len(self.records) - before) - trials.open
                number = next_task(self.progress, limits.patience) if now < ends and left > 0 else None
                if number is None:
                    if not trials.open:
                        return
                    # What is under way may find a task that is worth going on with.
                    wait_until(trials.open - 1)
                    continue
                kernel = self._kernels[number]
                # What the search may take by its share of the time, and half a second more, since rounds differ.
                share = limits.search * (now - begun) - searched + 0.5
                effort = Effort(seconds=max(min(share, ends - now), 0.0))
                proposals = kernel.search.propose(int(min(limits.batch, left)), effort)
                searched += time.monotonic() - now
                if proposals:
                    trials.begin(self._built(number, proposals))
                else:
                    kernel.progress.exhausted = True
        except BaseException as error:
            if trials.open:
                self.runner.close()
            if isinstance(error, RPCError):
                where = f" in {self.path}" if self.path is not None else ""
                raise RPCError(f"{error}; {len(self.records) - before} records of this run are kept{where}") from error
            raise
        finally:
            end(trials.take_all())

    def _recall(self, kernel: Kernel, records: Sequence[Record]) -> None:
        """Continues a task. The cost model learns from its fastest records whose schedules are still accepted."""
        known: list[tuple[float, int, Any]] = []
        for record in records:
            try:
                candidate = kernel.task.space.read(record.candidate)
            except TVMError:
                continue
            kernel.search.skip(candidate)
            known.append((record.median, len(known), candidate))
        found = []
        for seconds, _, candidate in sorted(known, key=lambda k: k[:2])[:RECALLED]:
            proposal = kernel.search.recall(candidate, seconds)
            if proposal is not None:
                found.append((proposal, seconds))
        self._learn(kernel, found)
        fastest = min(found, key=lambda pair: pair[1], default=None)
        if fastest is not None and fastest[1] < float("inf"):
            kernel.recalled = fastest[0]
            kernel.progress.best.append(fastest[1])

    def _learn(self, kernel: Kernel, told: Sequence[tuple[Proposal, float]]) -> None:
        if told:
            self.model.update(kernel.task.key, [p.program for p, _ in told], kernel.task.target, [s for _, s in told])

    def _untuned(self, kernels: Sequence[Kernel]) -> dict[Future[Measured], Kernel]:
        """Builds untuned kernels, and begins to measure them."""
        sources: list[Source] = []
        found: list[Kernel] = []
        for kernel in kernels:
            try:
                program = kernel.task.space.untuned()
                kernel.signature = signature_of(program)
            except TVMError as error:
                kernel.left_out = f"its untuned kernel is not built: {error}"
                continue
            sources.append(Source(program, kernel.task.target))
            found.append(kernel)
        measured = {}
        for kernel, built in zip(found, self.builder.build(sources, self._new_folder()), strict=True):
            if built.path is None:
                kernel.left_out = f"its untuned kernel is not built: {built.message}"
                continue
            kernel.reference = built.path
            measured[self.runner.submit(Run(built.path, kernel.signature))] = kernel
        return measured

    def _measured_untuned(self, kernel: Kernel, measured: Measured) -> None:
        """The time of an untuned kernel, beside which its candidates are measured."""
        assert kernel.reference is not None
        if measured.failure is not None:
            kernel.left_out = f"its untuned kernel does not run: {measured.message}"
            return
        kernel.progress.untuned = statistics.median(measured.seconds)
        kernel.best = Best(kernel.reference, kernel.progress.untuned)
        if kernel.recalled is not None:
            self._measure_recalled(kernel, kernel.recalled, kernel.best)

    def _measure_recalled(self, kernel: Kernel, proposal: Proposal, best: Best) -> None:
        """Measures the fastest candidate of earlier sessions: the machine may be slower or faster than it was."""
        (built,) = self.builder.build([Source(proposal.program, kernel.task.target)], self._new_folder())
        if built.path is None:
            return
        (measured,) = self.runner.run([Run(built.path, kernel.signature, kernel.reference, best.library)])
        seconds = kernel.record(proposal.candidate, measured, best).median
        kernel.progress.best = [seconds]
        if seconds < best.seconds:
            kernel.best = Best(built.path, seconds)

    def _built(self, number: int, proposals: Sequence[Proposal]) -> Round:
        """Builds candidates of a task."""
        kernel = self._kernels[number]
        sources = [Source(p.program, kernel.task.target) for p in proposals]
        return Round(number, kernel, proposals, self.builder.build(sources, self._new_folder()))

    def _end(self, ended: Round) -> list[Record]:
        """The search and the model learn what was measured in a round; the records in the order of its candidates."""
        kernel, measured = ended.kernel, [(ended.proposals[i], record) for i, record in sorted(ended.records.items())]
        if not measured:
            return []
        for proposal, record in measured:
            kernel.search.told(proposal, record.median)
        kernel.progress.best.append(min([kernel.progress.seconds, *[record.median for _, record in measured]]))
        # That a board went away says nothing about a program.
        self._learn(kernel, [(p, record.median) for p, record in measured if record.failure is not Failure.LOST])
        ended.remove_libraries()
        return [record for _, record in measured]

    def _new_folder(self) -> Path:
        """A folder for libraries."""
        self._folders += 1
        made = Path(self.folder.name) / str(self._folders)
        made.mkdir()
        return made

    def _keep(self, record: Record) -> None:
        self.records.append(record)
        if self.path is None:
            return
        self.unwritten.append(record)
        try:
            log.append(self.path, [record.to_json() for record in self.unwritten])
        except TVMError:
            return
        self.unwritten = []
