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
    from rich.table import Table

    from tilewright.tuning.record import best

    records = [record for path in logs for record in read(path)]
    counts: dict[tuple[str, str], int] = {}
    for record in records:
        counts[record.task, record.target] = counts.get((record.task, record.target), 0) + 1
    rows: list[dict[str, Any]] = [
        {
            "kernel": r.name, "target": r.target, "us": r.median * 1e6, "untuned_us": None if r.untuned is None else r.untuned * 1e6,
            "ratio": None if r.untuned is None else r.median / r.untuned, "measured": counts[key], "candidate": r.candidate,
        }
        for key, r in best(records).items()
    ]  # fmt: skip
    rows.sort(key=lambda row: row["ratio"] if row["ratio"] is not None else 1.0)

    def tables() -> list[Any]:
        table = Table(
            "kernel", "target", "us", "untuned us", "ratio", "measured", title=", ".join([p.name for p in logs])
        )
        for row in rows[:top]:
            untuned, ratio = (
                (f"{row['untuned_us']:.1f}", f"{row['ratio']:.2f}") if row["ratio"] is not None else ("", "")
            )
            table.add_row(row["kernel"], row["target"], f"{row['us']:.1f}", untuned, ratio, str(row["measured"]))
        rest = len(rows) - top
        return [table, *([f"and {rest} more (--top)"] if rest > 0 else [])]

    form.show({"logs": [str(p) for p in logs], "kernels": rows}, rows, tables)


@log_group.command("merge", short_help="Join files of records.")
@logs_argument
@output_option
@shown
def merge_command(logs: Sequence[Path], output: Path, form: Form) -> None:
    """Join the records of LOGS, each once.

    \b
    tilewright log merge monday.records board7.records -o all.records
    """
    import json

    lines = {json.dumps(record.to_json(), sort_keys=True): record for path in logs for record in read(path)}
    records = list(lines.values())
    write(output, records)
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
    """Keep the fastest records of each kernel and target in LOG.

    \b
    tilewright log prune resnet50.records --keep 3 -o small.records
    """
    records = read(log)
    groups: dict[tuple[str, str], list[Record]] = {}
    for record in records:
        if record.failure is None:
            groups.setdefault((record.task, record.target), []).append(record)
    kept = [record for group in groups.values() for record in sorted(group, key=lambda r: r.median)[:keep]]
    write(output, kept)
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
    from rich.table import Table

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
        table = Table("kernel", "target", "before us", "after us", "ratio")
        for row in rows:
            cells = [
                ("" if row[n] is None else f"{row[n]:.{digits}f}")
                for n, digits in (("before_us", 1), ("after_us", 1), ("ratio", 2))
            ]
            table.add_row(row["kernel"], row["target"], *cells)
        return [table]

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


def write(path: Path, records: Sequence[Record]) -> None:
    """Writes a file of records whole."""
    import json

    from tilewright.support.files import write_whole

    check_writable(path, "--output")
    write_whole(path, b"".join([json.dumps(r.to_json()).encode() + b"\n" for r in records]))
