"""What commands print: tables and lines on standard output; progress and warnings on standard error."""

from __future__ import annotations

import sys
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

Report = Callable[[int, int, str], None]
console = Console(stderr=True)
QUIET_SECONDS = 5.0


def out() -> Console:
    """Standard output; wide enough for the tables where it is no terminal."""
    return Console(width=None if sys.stdout.isatty() else 140, highlight=False)


@contextmanager
def progress(title: str) -> Iterator[Report]:
    """Yields `report(done, total, what)`: a bar with the time left on a terminal, else a line every few seconds."""
    if not console.is_terminal:
        yield line_report(title)
        return
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=console, transient=True) as bar:
        task = bar.add_task(title, total=None)

        def report(done: int, total: int, what: str) -> None:
            bar.update(task, completed=done, total=total, description=what if len(what) <= 40 else what[:37] + "...")

        yield report


def line_report(title: str) -> Report:
    """Progress for logs. What came before the first report of a number (importing, passes) says nothing of the time left."""
    shown = time.monotonic()
    begun: tuple[float, int] | None = None

    def report(done: int, total: int, what: str) -> None:
        nonlocal shown, begun
        now = time.monotonic()
        if begun is None and total:
            begun = now, done
        if begun is not None and done > begun[1] and now - shown >= QUIET_SECONDS:
            shown = now
            left = (now - begun[0]) / (done - begun[1]) * (total - done)
            console.print(f"{title}: {done} of {total}, about {left:.0f} s left", highlight=False)

    return report


@contextmanager
def shown_warnings() -> Iterator[None]:
    """Warnings as lines of their own, without the source line that raised them; not those for the authors of other packages."""
    with warnings.catch_warnings():
        warnings.showwarning = lambda message, *rest, **options: console.print(
            f"warning: {message}", highlight=False, soft_wrap=True
        )
        warnings.simplefilter("always")
        warnings.simplefilter("ignore", DeprecationWarning)
        yield


def render_seconds(steps: dict[str, float]) -> str:
    """`import 0.5 s, compile 3.2 s`."""
    return ", ".join([f"{step} {s:.2f} s" for step, s in steps.items()])


def in_bytes(count: float) -> str:
    """`16 B`, `4.2 KB`, `102.5 MB` (of a thousand each)."""
    if count < 1000:
        return f"{count:.0f} B"
    for unit in ("KB", "MB"):
        count /= 1000
        if count < 999.95:
            return f"{count:.1f} {unit}"
    return f"{count / 1000:.1f} GB"
