"""Tables and progress of `tilewright tune`."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

from rich.live import Live
from rich.table import Table

from tilewright.cli.screen import QUIET_SECONDS, console, told, voice
from tilewright.tuning.allocation import Progress, model_seconds
from tilewright.tuning.session import Event, Limits

NAME_WIDTH = 48


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


def rows_of(tasks: Sequence[Progress], peak: float) -> list[Row]:
    """A row for each kernel whose untuned time is known, the longest first. peak: float operations a second of the machine."""
    total, _ = model_seconds(tasks)
    rows = []
    for progress in tasks:
        if progress.untuned is None:
            continue
        task = progress.task
        us = task.weight * progress.untuned * 1e6
        rate = task.flops / progress.untuned / peak if task.flops else None
        best = task.weight * progress.fastest * 1e6 if progress.best else None
        share = us / 1e6 / total
        rows.append(
            Row(task.name, int(task.weight), us, share, None if rate is None else 100 * rate, best, len(progress.best))
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
def watched(tasks: Sequence[Progress], peak: float, limits: Limits, top: int, title: str) -> Iterator[Any]:
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
