"""The steps of `tilewright tune`, and what it shows at the end."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

from tilewright.cli.measuring import Contestant
from tilewright.cli.models import executor_of
from tilewright.cli.options import Feed
from tilewright.cli.roofline import Roofline
from tilewright.cli.screen import Form, Report, noted, plain, progress, told
from tilewright.cli.tensors import feed_model, fill_inputs, run_checked
from tilewright.cli.tuner.beside import Ratio, beside_table, measure_beside
from tilewright.cli.tuner.board import Board
from tilewright.cli.tuner.chart import latency_chart
from tilewright.cli.tuner.history import History, candidates_text, duration_text, model_text
from tilewright.cli.tuner.kernels import Row, kernel_table, rows_of, work_of, worth_first
from tilewright.cli.tuner.report import TuningPage
from tilewright.cli.tuner.subject import Subject
from tilewright.cli.tuner.watching import watched
from tilewright.runtime import num_threads
from tilewright.support.errors import RPCError, said
from tilewright.support.version import VERSION
from tilewright.tuning.building import LocalBuilder
from tilewright.tuning.cost_model import default_model
from tilewright.tuning.measure import Builder, Runner
from tilewright.tuning.session import Event, Limits, Session

PAGE_SECONDS = 5.0
"""How often the page is written while candidates are measured."""


class Beside:
    """What became of the measurement of the tuned model beside the untuned one. used: kernels of the tuned one that come from records;
    ratio, latencies: None where both were not measured, since they are the same or run elsewhere; remarks: lines for people."""

    def __init__(self, remarks: Sequence[str] = ()) -> None:
        self.used, self.kernels = 0, 0
        self.ratio: Ratio | None = None
        self.latencies: list[dict[str, Any]] = []
        self.remarks = list(remarks)


class Command:
    """subject: what is tuned; runner: where; board: how one is asked for, if boards measure; path: the file of records; output: the library
    to write; page: the HTML file to write."""

    def __init__(
        self,
        subject: Subject,
        feed: Feed,
        runner: Runner,
        board: Board | None,
        limits: Limits,
        path: Path,
        output: Path | None,
        page: Path | None,
        top: int,
    ) -> None:
        self.subject, self.feed, self.runner, self.board, self.limits = subject, feed, runner, board, limits
        self.path, self.output, self.page, self.top = path, output, page, top
        self.roofline: Roofline | None = None

    def show_tasks(self, only: Sequence[str], form: Form) -> None:
        """Measures the untuned kernels, and shows what is worth tuning."""
        session = self._session(only, LocalBuilder())
        rows = self._rows(session, None)
        listed = [row._asdict() for row in rows]
        facts = {"model": self.subject.title, "threads": num_threads(), "kernels": listed}
        form.show(facts, listed, lambda: [self._table(rows), worth_first(rows) or ""])

    def tune(self, only: Sequence[str], form: Form) -> None:
        """Measures candidates, and the tuned model beside the untuned one. Raises KeyboardInterrupt at the end if the measurements were
        interrupted."""
        begun = time.monotonic()
        builder = LocalBuilder()
        try:
            remarks = [] if only else self._decide(builder)
        except KeyboardInterrupt:
            told("interrupted while other kernels were tried; the same command goes on with what was kept")
            if self.output is not None:
                self._measure_beside(Beside())
            raise
        limits = self.limits
        if limits.seconds is not None:
            limits = replace(limits, seconds=max(limits.seconds - (time.monotonic() - begun), 0.0))
        session = self._session(only, builder)
        history = History(session.progress, limits)
        history.begin()
        if find_spec("xgboost") is None:
            noted(
                "without xgboost candidates are chosen by estimates only; pip install 'tilewright[tune]' adds a model that learns"
            )
        first = worth_first(self._rows(session, None))
        if first is not None:
            told(first)
        interrupted = False
        begun = time.monotonic()
        try:
            with watched(history, self.roofline, self.top, self.subject.title) as watch:
                self._write_page(session, history, None, running=True)
                session.run(limits, self._kept(session, history, watch))
        except KeyboardInterrupt:
            interrupted = True
            told(f"interrupted: {len(session.records)} records are in {self.path}; the same command goes on")
        except RPCError:
            # No board is left.
            self._write_page(session, history, None)
            raise
        if session.unwritten:
            told(f"warning: {len(session.unwritten)} records could not be written to {self.path}")
        elapsed = time.monotonic() - begun
        beside = Beside(remarks)
        try:
            if not interrupted or self.output is not None:
                self._measure_beside(beside)
        finally:
            self._write_page(session, history, beside)
        self._show(session, history, beside, elapsed, form)
        if interrupted:
            raise KeyboardInterrupt

    def _decide(self, builder: Builder) -> list[str]:
        """Tunes the decisions about the program, and returns what to say of them."""
        decided = self.subject.decide(builder, self.runner, self.path, self.limits)
        if decided is None or not decided.tried:
            return []
        changed = len(decided.given)
        gained = f": the kernels take {decided.seconds / decided.untuned:.3f} of the time" if changed else ""
        return [f"decisions about the program: {decided.tried} other values tried, {changed} kept{gained}"]

    def _session(self, only: Sequence[str], builder: Builder) -> Session:
        """A session whose untuned kernels are measured."""
        session = Session(self.subject.tasks(only, self.path), builder, self.runner, default_model(), self.path)
        for refused in session.refused[:5]:
            told(f"warning: {self.path}:{refused.number} is left out: {refused.why}")
        if len(session.refused) > 5:
            told(f"warning: {len(session.refused) - 5} more lines of {self.path} are left out")
        with progress("measuring untuned kernels") as report:
            session.measure_untuned(report)
        for name, why in session.left_out.items():
            told(f"warning: {name} is not tuned: {why}")
        if not self.runner.apart:
            with progress("measuring the machine") as report:
                report(0, 0, "measuring the machine")
                self.roofline = Roofline([work_of(p) for p in session.progress], num_threads())
        return session

    def _rows(self, session: Session, history: History | None) -> list[Row]:
        return rows_of(session.progress, self.roofline, history.counts() if history is not None else None)

    def _kept(self, session: Session, history: History, watch: Any) -> Any:
        """What is called with the events of the session: it is shown, and the page is written now and then."""
        written = time.monotonic()

        def keep(event: Event) -> None:
            nonlocal written
            watch(event)
            if time.monotonic() - written >= PAGE_SECONDS:
                written = time.monotonic()
                self._write_page(session, history, None, running=True)

        return keep

    def _write_page(self, session: Session, history: History, beside: Beside | None, running: bool = False) -> None:
        if self.page is None:
            return
        target = self.subject.target
        where = "boards or a cluster" if self.runner.apart else f"this machine, {num_threads()} threads"
        summary = [f"target {target}", f"measured on {where}", f"records in {self.path}", f"tilewright {VERSION}"]
        use = self.subject.commands(self.path)
        found = beside if beside is not None else Beside()
        made = TuningPage(f"Tuning of {self.subject.title}", summary, use, found.latencies, found.ratio, found.remarks)
        made.write(self.page, history, self._rows(session, history), running)

    def _measure_beside(self, found: Beside) -> None:
        """Compiles the model with records, and measures it beside the untuned one if both run here and differ. Writes the library."""
        if not self.path.exists():
            found.remarks.append("no candidate was measured, so there are no records")
            if self.output is not None:
                self._write_library(self.subject.library(None), found, "the untuned kernels")
            return
        tuned = self.subject.library(self.path)
        kernels = {k["name"]: k for k in tuned.metadata["kernels"]}
        found.kernels, found.used = len(kernels), len([k for k in kernels.values() if "record" in k])
        if not found.used and not self.subject.decisions(self.path):
            found.remarks.append(
                "no candidate was clearly faster than the untuned kernel, so builds use none of the records: nothing was gained"
            )
        elif self.board is None and not self.subject.target.is_native:
            found.remarks.append(f"the library is for {self.subject.target}: it is not measured on this machine")
        elif self.board is not None and tuned.metadata["executor"] == "vm":
            found.remarks.append("models of the virtual machine are not measured on boards")
        else:
            self._measure_both(tuned, found)
        if self.output is not None:
            slower = found.ratio is not None and found.ratio.sure_low > 1.0
            library = self.subject.library(None) if slower else tuned
            what = (
                "the untuned kernels, which are faster as a whole"
                if slower
                else f"{found.used} of {found.kernels} kernels from records"
            )
            self._write_library(library, found, what)

    def _measure_both(self, tuned: Any, found: Beside) -> None:
        libraries = {"untuned": self.subject.library(None), "tuned": tuned}
        if self.board is None:
            with progress("measuring both") as report:
                self._compare(self._contestants(libraries), found, report)
            return
        try:
            with (
                progress("measuring both on a board") as report,
                self.board.contestants(libraries, self.subject.build.precision, self.feed) as contestants,
            ):
                self._compare(contestants, found, report)
        except RPCError as error:
            found.remarks.append(f"the tuned model was not measured beside the untuned one: {said(error)}")

    def _contestants(self, libraries: Mapping[str, Any]) -> list[Contestant]:
        """Both models on this machine, with the same inputs."""
        executors = [executor_of(library) for library in libraries.values()]
        inputs = feed_model(executors[0], self.feed)
        fill_inputs(executors[1], inputs)
        for executor in executors:
            run_checked(executor)
        precision = self.subject.build.precision
        return [Contestant(n, precision, [e.run]) for n, e in zip(libraries, executors, strict=True)]

    def _compare(self, contestants: Sequence[Contestant], found: Beside, report: Report) -> None:
        untuned, tuned = contestants
        found.ratio = measure_beside(untuned, tuned, report=report)
        for contestant in contestants:
            low, high = np.percentile(contestant.milliseconds, [25, 75])
            found.latencies.append({**contestant.row(), "p25": float(low), "p75": float(high)})

    def _write_library(self, library: Any, found: Beside, what: str) -> None:
        library.export_library(str(self.output))
        found.remarks.append(f"{self.output}: {what}")

    def _table(self, rows: Sequence[Row]) -> Any:
        return kernel_table(rows, self.top, self.subject.title, plain().width)

    def _show(self, session: Session, history: History, beside: Beside, elapsed: float, form: Form) -> None:
        rows = self._rows(session, history)
        facts: dict[str, Any] = {
            "model": self.subject.title, "records": str(self.path), "measured": len(history.candidates),
            "failed": len([c for c in history.candidates if c.seconds is None]), "seconds": elapsed, "threads": num_threads(),
            "kernels": [row._asdict() for row in rows], "kernels_from_records": beside.used, "remarks": beside.remarks,
            "history": [{"seconds": p.elapsed, "candidates": p.trials, "model_ms": p.model_seconds * 1e3} for p in history.points],
        }  # fmt: skip
        if beside.ratio is not None:
            facts |= {"milliseconds": beside.latencies, "ratio": beside.ratio.median, "spread": beside.ratio._asdict()}
            facts["verdict"] = beside.ratio.verdict

        def tables() -> list[Any]:
            stream = plain()
            chart = latency_chart(history.points, stream.width, stream.options.ascii_only)
            failed = f", {facts['failed']} failed" if facts["failed"] else ""
            parts: list[Any] = [
                self._table(rows),
                f"kernels: {model_text(session.progress)}; {candidates_text(facts['measured'])} in {duration_text(elapsed)}{failed}",
            ]
            parts += ["\n".join(chart)] if chart else []
            if beside.ratio is not None:
                parts += [beside_table(beside.latencies), beside.ratio.text]
            parts += beside.remarks
            if self.page is not None:
                parts.append(f"page: {self.page}")
            use = f"; to use them: {self.subject.commands(self.path)[0]}" if beside.used else ""
            return [*parts, f"records: {self.path}{use}"]

        form.show(facts, facts["kernels"], tables)
