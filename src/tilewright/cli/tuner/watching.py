"""Progress of `tilewright tune` while it measures."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console, ConsoleOptions, Group, RenderResult
from rich.live import Live
from rich.text import Text

from tilewright.cli.roofline import Roofline
from tilewright.cli.screen import QUIET_SECONDS, console, told, voice
from tilewright.cli.tuner.chart import HEIGHT, latency_chart
from tilewright.cli.tuner.history import History
from tilewright.cli.tuner.kernels import kernel_table, rows_of
from tilewright.tuning.allocation import next_task
from tilewright.tuning.session import Event

AROUND = 9
"""Lines of the screen that are neither kernels nor the chart: those of the table, its title and caption, the state, and the prompt."""


class Screen:
    """The kernels, the chart and the state of a session, as they are when they are drawn."""

    def __init__(self, history: History, roofline: Roofline | None, top: int, title: str) -> None:
        self.history, self.roofline, self.top, self.title = history, roofline, top, title
        self.begun = time.monotonic()

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        history, height = self.history, options.size.height
        chart = latency_chart(history.points, options.max_width, options.ascii_only)
        if height < AROUND + HEIGHT + 5:
            chart = []
        room = max(height - AROUND - len(chart), 1)
        following = next_task(history.tasks, history.limits.patience)
        marked = None if following is None else history.tasks[following].task.name
        rows = rows_of(history.tasks, self.roofline, history.counts())
        yield Group(
            kernel_table(rows, min(self.top, room), self.title, options.max_width, marked),
            *[Text(line, no_wrap=True, overflow="crop") for line in chart],
            Text(history.state(time.monotonic() - self.begun)),
        )


@contextmanager
def watched(history: History, roofline: Roofline | None, top: int, title: str) -> Iterator[Callable[[Event], None]]:
    """Yields a function to be called with the events of a session, which keeps them in its history: a screen that is drawn again each
    second on a terminal, else a line every few seconds."""
    if voice.quiet:
        yield history.add
        return
    if not console.is_terminal:
        shown = time.monotonic()

        def line(event: Event) -> None:
            nonlocal shown
            history.add(event)
            if time.monotonic() - shown >= QUIET_SECONDS:
                shown = time.monotonic()
                told(history.state(event.elapsed))

        yield line
        return
    with Live(Screen(history, roofline, top, title), console=console, refresh_per_second=1, transient=True) as live:

        def drawn(event: Event) -> None:
            history.add(event)
            if roofline is not None:
                roofline.sample()
            live.refresh()

        yield drawn
