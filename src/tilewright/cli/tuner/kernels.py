"""The kernels that are tuned: their share of the run time, how far they are from the roofline, what tuning brought."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from rich.table import Table

from tilewright.cli.roofline import Roofline, Work
from tilewright.relay.backend.tuning_tasks import KernelTask
from tilewright.tuning.allocation import Progress, model_seconds

NAME_WIDTH, LEAST_NAME = 48, 24
PREFIXES = ("fused_", "nn_", "contrib_")
FIRST_SHARE, MOST_FIRST = 0.02, 3
"""What a kernel may save of the run, at least, to be worth tuning first; and how many are named."""


class Row(NamedTuple):
    """A kernel of the model. us, best_us: microseconds of all of its calls in one run, untuned and with the fastest candidate, if one was
    measured; share: of the untuned run; least_us: by the roofline of the machine, if that is known; may_save: the share of the untuned run
    that is saved if the kernel gets from where it is to the roofline; tried, failed: candidates of this session."""

    kernel: str
    shapes: str
    calls: int
    us: float
    share: float
    least_us: float | None
    percent_of_roofline: float | None
    may_save: float | None
    best_us: float | None
    tried: int
    failed: int

    @property
    def now_us(self) -> float:
        """With what a build would use."""
        return self.us if self.best_us is None else min(self.us, self.best_us)


def kernel_of(state: Progress) -> KernelTask:
    """The task, which is one of a model's kernels."""
    assert isinstance(state.task, KernelTask)
    return state.task


def work_of(state: Progress) -> Work:
    """What a call of a kernel must do."""
    task = kernel_of(state)
    return Work(task.least_flops, task.moved, task.products)


def rows_of(
    tasks: Sequence[Progress], roofline: Roofline | None, counts: Mapping[str, tuple[int, int]] | None = None
) -> list[Row]:
    """A row for each kernel whose untuned time is known, those first that may save most. roofline: of the machine that measures, if it is
    this one; counts: candidates that were tried and that failed, by the keys of tasks."""
    total, _ = model_seconds(tasks)
    rows = []
    for state in tasks:
        if state.untuned is None:
            continue
        task = kernel_of(state)
        us = task.weight * state.untuned * 1e6
        best = task.weight * state.seconds * 1e6 if state.seconds < float("inf") else None
        least = roofline.least_seconds(work_of(state)) if roofline is not None else None
        least_us = None if least is None else task.weight * least * 1e6
        now = us if best is None else min(us, best)
        rows.append(
            Row(
                task.name,
                task.shapes,
                int(task.weight),
                us,
                us / 1e6 / total,
                least_us,
                # The rates are measured, and those of a kernel on a clock that rose meanwhile may be above.
                None if least_us is None else min(100 * least_us / now, 100.0),
                None if least_us is None else max(now - least_us, 0.0) / 1e6 / total,
                best,
                *(counts or {}).get(task.key, (0, 0)),
            )
        )
    return sorted(rows, key=lambda row: (-(row.may_save or 0.0), -row.us))


def worth_first(rows: Sequence[Row]) -> str | None:
    """What is worth tuning first, as a line; None where the roofline is not known."""
    found = [row for row in rows if row.may_save is not None]
    if not found:
        return None
    first = [row for row in found if (row.may_save or 0.0) >= FIRST_SHARE][:MOST_FIRST]
    if not first:
        return f"worth tuning: nothing; no kernel is far from the roofline and takes more than {FIRST_SHARE:.0%} of the run"
    named = [f"{row.kernel} (at most {row.may_save:.0%} of the run)" for row in first]
    return f"worth tuning first: {', '.join(named)}"


class _Column(NamedTuple):
    """A column of the table. place: in which order columns are left out of a narrow table, 0: never."""

    name: str
    place: int
    text: Any
    left: bool = False


def _us(value: float) -> str:
    return f"{value:.1f}" if value >= 0.1 else f"{value:.2g}"


def _ratio(row: Row) -> str:
    return "" if row.best_us is None else f"{row.now_us / row.us:.2f}"


COLUMNS = (
    _Column("shapes", 1, lambda r: r.shapes, True),
    _Column("calls", 2, lambda r: str(r.calls)),
    _Column("us", 6, lambda r: _us(r.us)),
    _Column("share", 0, lambda r: f"{r.share:.1%}"),
    _Column("% of roofline", 4, lambda r: "" if r.percent_of_roofline is None else f"{r.percent_of_roofline:.0f}"),
    _Column("may save", 5, lambda r: "" if r.may_save is None else f"{r.may_save:.1%}"),
    _Column("tried", 3, lambda r: str(r.tried) if r.tried else ""),
    _Column("tuned us", 7, lambda r: "" if r.best_us is None else _us(r.now_us)),
    _Column("ratio", 0, _ratio),
)
EMPTY = ("% of roofline", "may save", "tried", "tuned us", "ratio")
"""Columns that are left out if all of their cells are empty."""


def shortened(name: str, limit: int) -> str:
    """A name in at most `limit` letters. What all names of kernels begin with is left out first, then letters in the middle."""
    if len(name) <= limit:
        return name
    for prefix in PREFIXES:
        name = name.removeprefix(prefix)
    if len(name) <= limit:
        return name
    head = (limit - 3) // 2
    return f"{name[:head]}...{name[len(name) - (limit - 3 - head) :]}"


def letters_needed(names: Sequence[str]) -> int:
    """The fewest letters, LEAST_NAME at least, in which different names stay different."""
    longest, count = max([len(n) for n in names], default=0), len(set(names))
    enough = [n for n in range(LEAST_NAME, longest) if len({shortened(name, n) for name in names}) == count]
    return min(enough, default=longest)


def kernel_table(rows: Sequence[Row], top: int, title: str, width: int, marked: str | None = None) -> Table:
    """The kernels with their times, untuned and tuned, in at most `width` columns of text: the least important columns are left out.
    marked: the kernel that is measured now."""
    shown = rows[:top]
    mark = "> " if marked is not None else ""
    columns = [c for c in COLUMNS if c.name not in EMPTY or any([c.text(r) for r in rows])]
    names = [r.kernel for r in shown]
    needed = letters_needed(names)
    while True:
        taken = sum([max(len(c.name), *[len(c.text(r)) for r in shown], 0) + 3 for c in columns])
        room = width - taken - 4 - len(mark)
        if room >= needed or not any([c.place for c in columns]):
            break
        first = min([c.place for c in columns if c.place])
        columns = [c for c in columns if c.place != first]
    limit = max(min(room, max(NAME_WIDTH, width // 3)), 8)
    table = Table(title=title)
    table.add_column("kernel", no_wrap=True)
    for column in columns:
        table.add_column(column.name, justify="left" if column.left else "right", no_wrap=True)
    for name, row in zip(names, shown, strict=True):
        begin = mark if name == marked else " " * len(mark)
        table.add_row(begin + shortened(name, limit), *[c.text(row) for c in columns])
    if len(rows) > top:
        rest = sum([r.share for r in rows[top:]])
        table.caption = f"and {len(rows) - top} more with {rest:.1%} of the run (--top)"
    return table
