"""Tables and progress of `tilewright tune`."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from rich.live import Live
from rich.table import Table

from tilewright.cli.measuring import Contestant, measure_in_turn
from tilewright.cli.models import compile_model, executor_of
from tilewright.cli.options import Build, Feed
from tilewright.cli.peak import Peak
from tilewright.cli.screen import QUIET_SECONDS, console, progress, told, voice
from tilewright.cli.tensors import feed_model, fill_inputs
from tilewright.runtime import num_threads
from tilewright.support.errors import TVMError
from tilewright.target import Target
from tilewright.tuning.allocation import Progress, model_seconds
from tilewright.tuning.measure import Runner
from tilewright.tuning.running.local import LocalRunner
from tilewright.tuning.session import Event, Limits

NAME_WIDTH = 48
BESIDE_SECONDS = 4.0
"""How long the tuned model is measured beside the untuned one."""


def runner_for(
    target: Target,
    threads: int | None,
    tracker: tuple[str, int] | None,
    key: str,
    key_file: Path | None,
    ray: str | None,
) -> Runner:
    """What measures: this machine, boards, or a cluster. Raises TVMError where this machine cannot run code for the target."""
    if tracker is not None and ray is not None:
        raise TVMError("--tracker and --ray exclude each other; give one")
    if tracker is not None:
        if not key:
            raise TVMError("--tracker needs --key, the key of the boards (`tilewright rpc status` lists them)")
        from tilewright.tuning.running.rpc import RPCRunner

        return RPCRunner(key, tracker, key_file=key_file)
    if ray is not None:
        from tilewright.tuning.running.ray import RayRunner

        return RayRunner(ray, threads=threads)
    if not target.is_native:
        raise TVMError(
            f"tune measures on this machine, but --target {target} is for another; give --tracker HOST:PORT and --key of a board"
        )
    return LocalRunner(threads=threads)


def peak_of(runner: Runner) -> float | None:
    """Float operations a second of this machine, if the runner uses it."""
    return None if runner.apart else Peak(num_threads()).rate


def measured_beside(build: Build, feed: Feed, records: Path, output: Path | None, here: bool) -> dict[str, Any]:
    """Compiles the model with records, and writes it to `output`. here: whether it runs on this machine; then it is measured beside the
    untuned model, and the latencies and their ratio are returned."""
    contestants: list[Contestant] = []
    inputs = None
    for name, one in (("untuned", build), ("tuned", build.but(records=records))):
        if not here and one is build:
            continue
        library, _ = compile_model(one)
        if output is not None and one is not build:
            library.export_library(str(output))
        if here:
            executor = executor_of(library)
            inputs = feed_model(executor, feed) if inputs is None else inputs
            fill_inputs(executor, inputs)
            contestants.append(Contestant(name, build.precision, [executor.run]))
    if not here:
        return {}
    with progress("measuring both") as report:
        measure_in_turn(contestants, BESIDE_SECONDS, None, 2, report)
    rows = [c.row() for c in contestants]
    return {"threads": num_threads(), "milliseconds": rows, "ratio": rows[1]["median"] / rows[0]["median"]}


class Row(NamedTuple):
    """A kernel of the model. us, best_us: microseconds of all of its calls in one run, untuned and tuned; share: of the untuned run;
    percent_of_peak: of the machine's multiply-adds, untuned; None if its work is not known."""

    kernel: str
    calls: int
    us: float
    share: float
    percent_of_peak: float | None
    best_us: float | None
    rounds: int


def rows_of(tasks: Sequence[Progress], peak: float | None) -> list[Row]:
    """A row for each kernel whose untuned time is known, the longest first. peak: float operations a second of the machine, if known."""
    total, _ = model_seconds(tasks)
    rows = []
    for state in tasks:
        if state.untuned is None:
            continue
        task = state.task
        us = task.weight * state.untuned * 1e6
        rate = task.flops / state.untuned / peak if task.flops and peak else None
        best = task.weight * state.fastest * 1e6 if state.best else None
        share = us / 1e6 / total
        rows.append(
            Row(task.name, int(task.weight), us, share, None if rate is None else 100 * rate, best, len(state.best))
        )
    return sorted(rows, key=lambda row: -row.us)


def kernel_table(rows: Sequence[Row], top: int, title: str) -> Table:
    """The kernels with their times, untuned and tuned."""
    table = Table(title=title)
    table.add_column("kernel", no_wrap=True)
    for name in ("calls", "us", "share", "% of peak", "tuned us", "ratio"):
        table.add_column(name, justify="right")
    for row in rows[:top]:
        name = row.kernel if len(row.kernel) <= NAME_WIDTH else row.kernel[: NAME_WIDTH - 3] + "..."
        peak = "" if row.percent_of_peak is None else f"{row.percent_of_peak:.0f}"
        tuned = ("", "") if row.best_us is None else (f"{row.best_us:.1f}", f"{row.best_us / row.us:.2f}")
        table.add_row(name, str(row.calls), f"{row.us:.1f}", f"{row.share:.1%}", peak, *tuned)
    if len(rows) > top:
        table.caption = f"and {len(rows) - top} more (--top)"
    return table


def state_line(tasks: Sequence[Progress], event: Event | None, limits: Limits) -> str:
    """One line: what was measured, the time of the model so far, the time that is left."""
    untuned, now = model_seconds(tasks)
    line = f"model {now * 1e3:.3f} ms ({now / untuned:.3f} of untuned)"
    if event is None:
        return line
    left = []
    if limits.seconds is not None:
        left.append(max(limits.seconds - event.elapsed, 0.0))
    if limits.trials is not None and event.trials:
        left.append(event.elapsed / event.trials * (limits.trials - event.trials))
    at_most = f", at most {duration_text(min(left))} left" if left else ""
    return f"{event.trials} candidates measured, {line}{at_most}"


def duration_text(seconds: float) -> str:
    """`45 s`, `3 min 20 s`, `1 h 5 min`."""
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    minutes, rest = divmod(whole, 60)
    if minutes < 60:
        return f"{minutes} min {rest} s"
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes} min"


@contextmanager
def watched(tasks: Sequence[Progress], peak: float | None, limits: Limits, top: int, title: str) -> Iterator[Any]:
    """Yields a function to be called with the events of a session: a table that is drawn again on a terminal, else a line every few
    seconds."""
    if voice.quiet:
        yield lambda event: None
        return
    if not console.is_terminal:
        shown = time.monotonic()

        def line(event: Event) -> None:
            nonlocal shown
            if time.monotonic() - shown >= QUIET_SECONDS:
                shown = time.monotonic()
                told(state_line(tasks, event, limits))

        yield line
        return

    def drawn(event: Event | None) -> Table:
        table = kernel_table(rows_of(tasks, peak), top, title)
        table.caption = state_line(tasks, event, limits)
        return table

    with Live(drawn(None), console=console, auto_refresh=False, transient=True) as live:
        yield lambda event: live.update(drawn(event), refresh=True)
