"""The loop of tuning: choose a task, search, build, run, record."""

from __future__ import annotations

import os
import statistics
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

from tilewright.support.errors import TVMError
from tilewright.support.files import kept_folder
from tilewright.tuning import log
from tilewright.tuning.allocation import PATIENCE, Progress, next_task
from tilewright.tuning.inputs import signature_of
from tilewright.tuning.measure import Builder, CostModel, Measured, Run, Runner, Signature, Source
from tilewright.tuning.record import Record, load, of_task
from tilewright.tuning.search import Effort, Proposal, Search
from tilewright.tuning.task import Task

RECALLED = 64
"""Records of a task that are scheduled again when its log is continued, the fastest ones: each takes tens of milliseconds."""


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


@dataclass(eq=False)
class _State:
    """What a session has of a task. reference: the library of the untuned kernel. recalled: the fastest candidate of earlier sessions.
    best: the library of the fastest candidate, else the untuned one."""

    progress: Progress
    search: Search
    folder: Path = Path()
    signature: Signature = Signature((), ())
    reference: Path | None = None
    recalled: Proposal | None = None
    best: Path | None = None
    best_seconds: float = float("inf")

    @property
    def task(self) -> Task:
        return self.progress.task


class Session:
    """Tunes tasks. The records of a round are on the disk before the next one begins, so whatever ends the process loses at most the round
    that ran. A log that has records of the tasks is continued.

    path: the log; None: records are in memory only. records: those of this session. refused: lines of the log that are not used.
    The untuned kernels of all tasks are measured first (`measure_untuned`), so that the time of the model is known.

    unwritten: records that could not be written, since the disk is full or the file cannot be opened; each round tries again.
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
        self._states = [
            _State(Progress(task), Search(task.space, task.target, model, Random(random.random()))) for task in tasks
        ]
        known, self.refused = load(path) if path is not None and os.path.exists(path) else ([], [])
        for state in self._states:
            self._recall(state, of_task(known, state.task))

    @property
    def progress(self) -> list[Progress]:
        """What each task reached, in the order of the tasks."""
        return [state.progress for state in self._states]

    def measure_untuned(self, report: Callable[[int, int, str], None] | None = None) -> None:
        """Measures the untuned kernels of the tasks that have none. report: is called with the tasks that are done, all tasks, and what is
        done.

        Raises TVMError where one cannot be built and run: nothing could be compared with it.
        """
        waiting = [state for state in self._states if state.best is None]
        for i, state in enumerate(waiting):
            if report is not None:
                report(i, len(waiting), state.task.name)
            self._measure_untuned(state)

    def run(self, limits: Limits, report: Callable[[Event], None] | None = None) -> None:
        """Measures until a limit is reached, or no task is expected to become faster. report: is called after each round.

        Raises TVMError where the untuned kernel of a task cannot be built and run.
        """
        begun = time.monotonic()
        ends = begun + limits.seconds if limits.seconds is not None else float("inf")
        before, searched = len(self.records), 0.0
        self.measure_untuned()
        while True:
            now = time.monotonic()
            left = float("inf") if limits.trials is None else limits.trials - (len(self.records) - before)
            number = next_task(self.progress, limits.patience)
            if now >= ends or left <= 0 or number is None:
                return
            state = self._states[number]
            # What the search may take by its share of the time, and half a second more, since rounds differ.
            share = limits.search * (now - begun) - searched + 0.5
            effort = Effort(seconds=max(min(share, ends - now), 0.0))
            proposals = state.search.propose(int(min(limits.batch, left)), effort)
            searched += time.monotonic() - now
            records = self._measure(state, proposals)
            if report is not None:
                made = len(self.records) - before
                report(Event(number, state.progress, records, made, time.monotonic() - begun))

    def _recall(self, state: _State, records: Sequence[Record]) -> None:
        """Continues a task. The cost model learns from its fastest records whose schedules are still accepted."""
        known: list[tuple[float, int, Any]] = []
        for record in records:
            try:
                candidate = state.task.space.read(record.candidate)
            except TVMError:
                continue
            state.search.skip(candidate)
            known.append((record.median, len(known), candidate))
        found = []
        for seconds, _, candidate in sorted(known, key=lambda k: k[:2])[:RECALLED]:
            proposal = state.search.recall(candidate, seconds)
            if proposal is not None:
                found.append((proposal, seconds))
        self._learn(state, [proposal for proposal, _ in found], [seconds for _, seconds in found])
        fastest = min(found, key=lambda pair: pair[1], default=None)
        if fastest is not None and fastest[1] < float("inf"):
            state.recalled = fastest[0]
            state.progress.best.append(fastest[1])

    def _learn(self, state: _State, proposals: Sequence[Proposal], seconds: Sequence[float]) -> None:
        if proposals:
            self.model.update(state.task.key, [p.program for p in proposals], state.task.target, seconds)

    def _measure_untuned(self, state: _State) -> None:
        """The time of the untuned kernel, and what its candidates must compute."""
        task = state.task
        state.folder = Path(self.folder.name) / str(self._states.index(state))
        state.folder.mkdir()
        program = task.space.untuned()
        (built,) = self.builder.build([Source(program, task.target)], state.folder)
        if built.path is None:
            raise TVMError(f"{task.name} cannot be tuned: its untuned kernel is not built: {built.message}")
        state.signature, state.reference = signature_of(program), built.path
        (measured,) = self.runner.run([Run(built.path, state.signature)])
        if measured.failure is not None:
            raise TVMError(f"{task.name} cannot be tuned: its untuned kernel does not run: {measured.message}")
        state.progress.untuned = state.best_seconds = statistics.median(measured.seconds)
        state.best = built.path
        if state.recalled is not None:
            self._measure_recalled(state, state.recalled)

    def _measure_recalled(self, state: _State, proposal: Proposal) -> None:
        """Measures the fastest candidate of earlier sessions: the machine may be slower or faster than it was."""
        (built,) = self.builder.build([Source(proposal.program, state.task.target)], state.folder)
        if built.path is None:
            return
        (measured,) = self.runner.run([Run(built.path, state.signature, state.reference, state.best)])
        record = self._record(state, proposal.candidate, measured)
        state.progress.best = [record.median]
        if record.median < state.best_seconds:
            state.best, state.best_seconds = built.path, record.median

    def _measure(self, state: _State, proposals: Sequence[Proposal]) -> list[Record]:
        """Builds, measures and records candidates."""
        task, progress = state.task, state.progress
        if not proposals:
            progress.exhausted = True
            return []
        folder = state.folder / str(len(progress.best))
        folder.mkdir(exist_ok=True)
        built = self.builder.build([Source(p.program, task.target) for p in proposals], folder)
        runs = [Run(b.path, state.signature, state.reference, state.best) for b in built if b.path is not None]
        results = iter(self.runner.run(runs) if runs else [])
        measured = [next(results) if b.path is not None else Measured((), (), b.failure, b.message) for b in built]
        records = [self._record(state, p.candidate, m) for p, m in zip(proposals, measured, strict=True)]
        self._confirm(state, records, [b.path for b in built])
        for proposal, record in zip(proposals, records, strict=True):
            state.search.told(proposal, record.median)
        times = [record.median for record in records]
        progress.best.append(min(progress.seconds, *times))
        self._keep(records)
        self._learn(state, proposals, times)
        return records

    def _confirm(self, state: _State, records: list[Record], libraries: Sequence[Path | None]) -> None:
        """Measures the candidates that seem to be faster than the best so far once again: the least of many times is too good to be true.
        What is fastest then is the best; the records have their second times."""
        tried: set[int] = set()
        while True:
            fastest = min(range(len(records)), key=lambda i: records[i].median)
            library = libraries[fastest]
            if records[fastest].median >= state.best_seconds or library is None:
                return
            if fastest in tried:
                state.best, state.best_seconds = library, records[fastest].median
                return
            tried.add(fastest)
            (measured,) = self.runner.run([Run(library, state.signature, None, state.best)])
            records[fastest] = self._record(state, records[fastest].candidate, measured, written=True)

    def _record(self, state: _State, candidate: Any, measured: Measured, written: bool = False) -> Record:
        """The record of a measurement. Its seconds are scaled by how much slower than before the best candidate was, whose runs alternated
        with its own. written: whether the candidate is as JSON holds it."""
        task, scale = state.task, 1.0
        if measured.beside:
            scale = state.best_seconds / statistics.median(measured.beside)
        return Record(
            task.key,
            task.name,
            str(task.target),
            candidate if written else task.space.write(candidate),
            tuple([seconds * scale for seconds in measured.seconds]),
            measured.failure,
            measured.message,
            state.progress.untuned,
        )

    def _keep(self, records: Sequence[Record]) -> None:
        self.records += records
        if self.path is None:
            return
        self.unwritten += records
        try:
            log.append(self.path, [record.to_json() for record in self.unwritten])
        except TVMError:
            return
        self.unwritten = []
