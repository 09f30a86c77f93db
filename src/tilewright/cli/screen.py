"""Output of commands: tables and lines on standard output, progress and warnings on standard error."""

from __future__ import annotations

import csv
import io
import json
import re
import sys
import time
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import click
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from rich.table import Table
from rich.text import Text

Report = Callable[[int, int, str], None]
QUIET_SECONDS = 5.0
ANY_WIDTH = 1 << 16
"""Width of an output that is not a terminal: programs read it, so lines are not wrapped."""


_COMMANDS = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")
"""Characters that terminals obey, such as the one that begins changes of colour, and bytes of names that are not UTF-8."""


def visible(text: str) -> str:
    """A text in which commands for terminals are written as escapes: names of models and files are not to move the cursor."""
    return _COMMANDS.sub(lambda found: ascii(found[0])[1:-1], text)


class PlainConsole(Console):
    """A console that prints strings as they are, in lines and in cells of tables, without commands for terminals."""

    def render_str(self, text: str, **options: Any) -> Text:
        return super().render_str(visible(text), **options)


def plain(stderr: bool = False) -> Console:
    """A console for which brackets and colons in paths and names are not markup."""
    stream = sys.stderr if stderr else sys.stdout
    return PlainConsole(
        stderr=stderr, width=None if stream.isatty() else ANY_WIDTH, highlight=False, markup=False, emoji=False
    )


console = plain(stderr=True)


class Verbosity:
    """The amount of output on standard error: `quiet`, errors only; `verbose`, each step too."""

    quiet = False
    verbose = False


voice = Verbosity()


class Form:
    """The form of a command's result: tables, JSON, or rows of CSV."""

    __slots__ = ("as_csv", "as_json")

    def __init__(self, as_json: bool = False, as_csv: bool = False, verbose: bool = False, quiet: bool = False) -> None:
        for one, other, names in (
            (as_json, as_csv, "--json and --csv"),
            (verbose, quiet, "--verbose and --quiet"),
        ):
            if one and other:
                raise click.UsageError(f"{names} exclude each other; give one")
        self.as_json, self.as_csv = as_json, as_csv
        voice.verbose, voice.quiet = verbose, quiet

    def show(
        self,
        facts: Mapping[str, Any],
        rows: Sequence[Mapping[str, Any]],
        tables: Callable[[], Sequence[Any]],
    ) -> None:
        """Prints a result: all facts as JSON, the rows of its main table as CSV, or tables and lines."""
        if self.as_json:
            click.echo(json.dumps(facts, indent=1))
        elif self.as_csv:
            click.echo(csv_text(rows), nl=False)
        else:
            for part in tables():
                show(part)


def show(part: Table | str) -> None:
    """Prints a table or a line. Title and caption of a table are not wrapped to its width."""
    stream = plain()
    if isinstance(part, Table):
        above, below = part.title, part.caption
        part.title = part.caption = None
        lines = [above, part, below]
    else:
        lines = [part]
    for line in lines:
        if line:
            stream.print(line, soft_wrap=isinstance(line, str))


def csv_text(rows: Sequence[Mapping[str, Any]]) -> str:
    """Rows as CSV, with a header."""
    text = io.StringIO()
    columns = list(dict.fromkeys([name for row in rows for name in row]))
    writer = csv.DictWriter(text, columns, lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return text.getvalue()


def noted(message: str) -> None:
    """Reports a choice that the command made."""
    told(f"note: {message}")


def told(message: str) -> None:
    """Prints a line on standard error, unless --quiet."""
    if not voice.quiet:
        console.print(message, soft_wrap=True)


def verbose(message: str) -> None:
    """Prints a line on standard error, if --verbose."""
    if voice.verbose:
        told(message)


@contextmanager
def progress(title: str) -> Iterator[Report]:
    """Yields `report(done, total, what)`: a bar with the time left on a terminal, else a line every few seconds."""
    if voice.quiet:
        yield lambda done, total, what: None
        return
    if not console.is_terminal:
        yield line_report(title)
        return
    columns = (
        TextColumn("{task.description}", markup=False),
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
    """Progress as lines, for logs. The time left is estimated from reports with numbers only, not from importing and passes."""
    shown = time.monotonic()
    begun: tuple[float, int] | None = None
    last = 0

    def report(done: int, total: int, what: str) -> None:
        nonlocal shown, begun, last
        now = time.monotonic()
        if total and (begun is None or done < last):  # or the next of several counts
            begun = now, done
        last = done
        if begun is not None and begun[1] < done < total and now - shown >= QUIET_SECONDS:
            shown = now
            left = (now - begun[0]) / (done - begun[1]) * (total - done)
            console.print(f"{title}: {done} of {total}, about {left:.0f} s left", soft_wrap=True)

    return report


@contextmanager
def shown_warnings() -> Iterator[None]:
    """Prints warnings as lines, without the source line that raised them. Drops those that are for programmers: of what is deprecated in
    other packages, and of files and folders that are closed late."""
    with warnings.catch_warnings():
        warnings.showwarning = lambda message, *rest, **options: told(f"warning: {message}")
        warnings.simplefilter("always")
        warnings.simplefilter("ignore", DeprecationWarning)
        warnings.simplefilter("ignore", ResourceWarning)
        yield


def render_seconds(steps: dict[str, float]) -> str:
    """Seconds by step: `import 0.5 s, compile 3.2 s`."""
    return ", ".join([f"{step} {s:.2f} s" for step, s in steps.items()])


def in_bytes(count: float) -> str:
    """A size with a decimal unit: `16 B`, `4.2 KB`, `102.5 MB`."""
    if count < 1000:
        return f"{count:.0f} B"
    for unit in ("KB", "MB"):
        count /= 1000
        if count < 999.95:
            return f"{count:.1f} {unit}"
    return f"{count / 1000:.1f} GB"
