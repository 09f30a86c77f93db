"""`tilewright log`: files of records of tuning."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from tilewright.cli import cli
from tilewright.cli.options import check_writable, input_path, output_path, shown, top_option

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tilewright.cli.screen import Form
    from tilewright.tuning.record import Record

output_option = click.option("-o", "--output", required=True, type=output_path, help="File to write.")
logs_argument = click.argument("logs", nargs=-1, required=True, type=input_path)


@cli.group("log", short_help="Look at records of tuning, and join them.")
def log_group() -> None:
    """Look at files of records that `tilewright tune` writes, and join them.

    Lines that are damaged, or that another version wrote, are named and left out.
    """


@log_group.command("best", short_help="Show the fastest record of each kernel.")
@logs_argument
@top_option(40, "kernels")
@shown
def best_command(logs: Sequence[Path], top: int, form: Form) -> None:
    """Show the fastest record of each kernel and target in LOGS.

    \b
    tilewright log best resnet50.records --top 10
    """
    import json

    from tilewright.scheduling.database import FASTER
    from tilewright.tuning.record import best

    records = [record for path in logs for record in read(path)]
    counts: dict[tuple[str, str], int] = {}
    failures: dict[tuple[str, str], int] = {}
    for record in records:
        key = record.task, record.target
        counts[key] = counts.get(key, 0) + 1
        failures[key] = failures.get(key, 0) + (record.failure is not None)
    rows: list[dict[str, Any]] = [
        {
            "kernel": r.name, "target": r.target, "us": r.median * 1e6, "untuned_us": None if r.untuned is None else r.untuned * 1e6,
            "ratio": None if r.untuned is None else r.median / r.untuned,
            "used": r.untuned is None or r.median <= FASTER * r.untuned, "measured": counts[key], "failed": failures[key],
            "candidate": r.candidate,
        }
        for key, r in best(records).items()
    ]  # fmt: skip
    rows.sort(key=lambda row: row["ratio"] if row["ratio"] is not None else 1.0)

    def tables() -> list[Any]:
        failed = ["failed"] if any([row["failed"] for row in rows]) else []
        names = ", ".join([p.name for p in logs])
        table = kernels_table(rows[:top], ("us", "untuned us", "ratio", "used", "measured", *failed), names)
        rest = [f"and {len(rows) - top} more (--top)"] if len(rows) > top else []
        used = len([row for row in rows if row["used"]])
        return [
            table,
            *rest,
            f"builds use {used} of these {len(rows)} records: a kernel must be faster than the untuned one by {1 - FASTER:.0%} at least",
        ]

    flat = [{**row, "candidate": json.dumps(row["candidate"])} for row in rows]
    form.show({"logs": [str(p) for p in logs], "kernels": rows}, flat, tables)


@log_group.command("merge", short_help="Join files of records.")
@logs_argument
@output_option
@shown
def merge_command(logs: Sequence[Path], output: Path, form: Form) -> None:
    """Join the records of LOGS, each once, and their decisions: of several about the same, the last one counts.

    \b
    tilewright log merge monday.records board7.records -o all.records
    """
    import json

    from tilewright.tuning.record import decisions

    lines = {json.dumps(record.to_json(), sort_keys=True): record for path in logs for record in read(path)}
    records = list(lines.values())
    write(output, records, [decided for path in logs for decided in decisions(path)])
    facts = {"output": str(output), "records": len(records)}
    form.show(facts, [facts], lambda: [f"{output}: {len(records)} records"])


@log_group.command("prune", short_help="Keep the fastest records only.")
@click.argument("log", type=input_path)
@output_option
@click.option(
    "--keep", type=click.IntRange(1), default=1, show_default=True, help="Number of records of each kernel and target."
)
@shown
def prune_command(log: Path, output: Path, keep: int, form: Form) -> None:
    """Keep the fastest records of each kernel and target in LOG, and all decisions.

    \b
    tilewright log prune resnet50.records --keep 3 -o small.records
    """
    from tilewright.tuning.record import decisions

    records = read(log)
    groups: dict[tuple[str, str], list[Record]] = {}
    for record in records:
        if record.failure is None:
            groups.setdefault((record.task, record.target), []).append(record)
    kept = [record for group in groups.values() for record in sorted(group, key=lambda r: r.median)[:keep]]
    write(output, kept, decisions(log))
    facts = {"output": str(output), "records": len(kept), "of": len(records)}
    form.show(facts, [facts], lambda: [f"{output}: {len(kept)} of {len(records)} records"])


@log_group.command("diff", short_help="Compare the fastest records of two files.")
@click.argument("before", type=input_path)
@click.argument("after", type=input_path)
@shown
def diff_command(before: Path, after: Path, form: Form) -> None:
    """Compare the fastest record of each kernel and target in BEFORE and AFTER.

    \b
    tilewright log diff monday.records tuesday.records
    """
    from tilewright.tuning.record import best

    old, new = best(read(before)), best(read(after))
    rows: list[dict[str, Any]] = []
    for key in dict.fromkeys([*old, *new]):
        a, b = old.get(key), new.get(key)
        known = b or a
        assert known is not None
        times = [None if r is None else r.median * 1e6 for r in (a, b)]
        ratio = b.median / a.median if a is not None and b is not None else None
        rows.append(
            {"kernel": known.name, "target": known.target, "before_us": times[0], "after_us": times[1], "ratio": ratio}
        )

    def tables() -> list[Any]:
        return [kernels_table(rows, ("before us", "after us", "ratio"), f"{before.name}, {after.name}")]

    form.show({"before": str(before), "after": str(after), "kernels": rows}, rows, tables)


def read(path: Path) -> list[Record]:
    """The records of a file; what is left out is told."""
    from tilewright.cli.screen import told
    from tilewright.tuning.record import load

    records, refused = load(path)
    for line in refused[:5]:
        told(f"warning: {path}:{line.number} is left out: {line.why}")
    if len(refused) > 5:
        told(f"warning: {len(refused) - 5} more lines of {path} are left out")
    return records


def write(path: Path, records: Sequence[Record], decided: Sequence[dict[str, Any]]) -> None:
    """Writes a file of records whole. decided: lines that are decisions; of several about the same, the last one is kept."""
    import json

    from tilewright.support.files import write_whole

    check_writable(path, "--output")
    last = {(line.get("kernel"), line.get("target")): line for line in decided}
    lines = [*last.values(), *[r.to_json() for r in records]]
    write_whole(path, b"".join([json.dumps(line).encode() + b"\n" for line in lines]))


def kernels_table(rows: Sequence[dict[str, Any]], columns: Sequence[str], title: str) -> Any:
    """A table of kernels and targets; a target that all share is in the title. columns: names of numbers, as in the rows but for spaces.
    Names are shortened where the terminal is narrow."""
    from rich.table import Table

    from tilewright.cli.screen import plain
    from tilewright.cli.tuner.kernels import shortened

    def cell(row: dict[str, Any], column: str) -> str:
        value = row[column.replace(" ", "_")]
        if value is None:
            return ""
        if isinstance(value, bool):
            return "yes" if value else "no"
        return str(value) if isinstance(value, int) else f"{value:.2f}" if column == "ratio" else f"{value:.1f}"

    cells = [[cell(row, column) for column in columns] for row in rows]
    taken = sum([max([len(c) for c in column]) + 3 for column in zip(columns, *cells, strict=True)])
    targets = list(dict.fromkeys([row["target"] for row in rows]))
    shown = len(targets) > 1
    taken += max([len(target) for target in targets]) + 3 if shown else 0
    limit = max(plain().width - taken - 4, 16)
    table = Table(title=f"{title}: {targets[0]}" if len(targets) == 1 else title)
    for name in ("kernel", *(["target"] if shown else [])):
        table.add_column(name, no_wrap=name == "kernel")
    for name in columns:
        table.add_column(name, justify="right", no_wrap=True)
    for row, numbers in zip(rows, cells, strict=True):
        table.add_row(shortened(row["kernel"], limit), *([row["target"]] if shown else []), *numbers)
    return table
