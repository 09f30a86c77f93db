"""`tilewright bench`: latencies of a model, beside a peer's."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from tilewright.cli import cli
from tilewright.cli.options import Build, Feed, duration_option, feed_options, model_options, shown, thread_option

if TYPE_CHECKING:
    from rich.table import Table

    from tilewright.cli.screen import Form


@cli.command("bench", short_help="Measure latency and throughput, beside ONNX Runtime.")
@model_options
@feed_options
@thread_option
@duration_option
@click.option("--iterations", type=click.IntRange(1), help="Number of measured runs, instead of a duration.")
@click.option(
    "--warmup",
    type=click.IntRange(0),
    default=2,
    show_default=True,
    help="Number of runs before each round of measuring, not counted.",
)
@click.option(
    "--streams",
    type=click.IntRange(1, 1024),
    default=1,
    show_default=True,
    help="Number of runs at the same time, each with its own inputs and outputs: measures throughput.",
)
@click.option(
    "--peer/--no-peer",
    default=True,
    show_default=True,
    help="Also measure ONNX Runtime on an .onnx file, if it is installed, on the same inputs.",
)
@shown
def bench_command(
    build: Build,
    feed: Feed,
    threads: int | None,
    seconds: float,
    iterations: int | None,
    warmup: int,
    streams: int,
    peer: bool,
    form: Form,
) -> None:
    """Measure latency and throughput of MODEL, a model file or a compiled library.

    For an .onnx file, ONNX Runtime is measured too: the two alternate. --duration, --iterations and --warmup apply to each of them.

    \b
    tilewright bench resnet50.onnx --threads 1
    tilewright bench bert.onnx --input ids.npz --iterations 200 --warmup 10
    tilewright bench resnet50.so --streams 2 --duration 10 --json
    """
    from tilewright import runtime
    from tilewright.cli.devices import completed
    from tilewright.cli.machine import MachineExecutor
    from tilewright.cli.measuring import Contestant, disturbance, measure_in_turn
    from tilewright.cli.models import executor_of
    from tilewright.cli.peers import onnxruntime_peer
    from tilewright.cli.running import run_once
    from tilewright.cli.screen import progress, render_seconds, told
    from tilewright.cli.tensors import facts_of, fill_inputs

    first = run_once(build, feed, threads)
    executors = [first.executor, *[executor_of(first.library) for _ in range(streams - 1)]]
    inputs, prepared = first.inputs, first.seconds
    for other in executors[1:]:
        fill_inputs(other, inputs)
    precision = build.precision if "import" in prepared else "as compiled"
    contestants = [Contestant("Tilewright", precision, [completed(e.run, facts_of(e)) for e in executors])]
    if peer:
        found = onnxruntime_peer(build, inputs, threads, streams, not isinstance(executors[0], MachineExecutor))
        contestants += [found] if found is not None else []
    with progress("measuring") as report:
        measure_in_turn(contestants, seconds, iterations, warmup, report)
    rows = [c.row() for c in contestants]
    disturbed = disturbance(rows)
    if disturbed is not None:
        told(f"warning: {disturbed}")
    facts: dict[str, Any] = {
        "model": str(build.model), "threads": runtime.num_threads(), "streams": streams, "preparation_seconds": prepared,
        "inputs": {n: {"shape": list(v.shape), "dtype": v.dtype.name} for n, v in inputs.items()}, "milliseconds": rows,
    }  # fmt: skip
    if len(rows) > 1:
        facts["ratio_to_peer"] = rows[0]["median"] / rows[1]["median"]

    def tables() -> list[Any]:
        parts: list[Any] = [latency_table(rows, build.model.name)]
        if len(rows) > 1:
            parts.append(ratio_text(rows))
        return [*parts, render_seconds(prepared)]

    form.show(facts, rows, tables)


def latency_table(rows: list[dict[str, Any]], title: str) -> Table:
    """A table with a row per contestant."""
    from rich.table import Table

    columns = ("median", "mean", "p5", "p95", "p99", "min", "max")
    table = Table("milliseconds", "", *columns, "runs", "runs/s", title=title)
    for r in rows:
        numbers = [f"{r[c]:.4g}" for c in columns]
        table.add_row(r["contestant"], r["precision"], *numbers, str(r["runs"]), f"{r['runs_per_second']:.4g}")
    return table


def ratio_text(rows: list[dict[str, Any]]) -> str:
    """The ratio of medians; names the precisions if they differ."""
    mine, theirs = rows
    other = ""
    if mine["precision"] != theirs["precision"]:
        other = f" (not the same arithmetic: {mine['precision']} here, {theirs['precision']} there)"
    return f"ratio to {theirs['contestant']}: {mine['median'] / theirs['median']:.2f}{other}"
