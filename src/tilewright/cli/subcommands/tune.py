"""`tilewright tune`: faster kernels for a model, found by measuring."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from tilewright.cli import cli
from tilewright.cli.options import (
    Build,
    Feed,
    check_writable,
    feed_options,
    input_path,
    model_options,
    output_path,
    shown,
    thread_option,
    top_option,
)
from tilewright.support.errors import TVMError

if TYPE_CHECKING:
    from tilewright.cli.screen import Form

UNITS = {"": 1.0, "s": 1.0, "m": 60.0, "min": 60.0, "h": 3600.0}


class DurationType(click.ParamType[float]):
    """`90`, `90s`, `10m`, `1.5h`: seconds."""

    name = "duration"

    def convert(self, value: Any, param: Any, ctx: Any) -> float:
        if isinstance(value, float):
            return value
        found = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([a-z]*)", str(value).strip())
        if found is None or found[2] not in UNITS or float(found[1]) == 0:
            self.fail(f"{value!r} is no duration, such as 90s, 10m or 2h", param, ctx)
        return float(found[1]) * UNITS[found[2]]


class AddressType(click.ParamType[tuple[str, int]]):
    """`host:port`."""

    name = "host:port"

    def convert(self, value: Any, param: Any, ctx: Any) -> tuple[str, int]:
        if isinstance(value, tuple):
            return value
        host, colon, port = str(value).rpartition(":")
        if not colon or not host or not port.isdigit() or not 0 < int(port) < 65536:
            self.fail(f"{value!r} is no address HOST:PORT, such as farm:9190", param, ctx)
        return host, int(port)


@cli.command("tune", short_help="Make the kernels of a model faster by measuring.")
@model_options
@feed_options
@thread_option
@click.option(
    "--time", "duration", type=DurationType(), default="10m", show_default=True, help="Time to measure: 90s, 10m, 2h."
)
@click.option(
    "--trials", type=click.IntRange(1), help="Number of candidates to measure, if that takes less than --time."
)
@click.option(
    "--log",
    type=output_path,
    help="File of records, which is continued if it exists.  [default: MODEL with the suffix .records]",
)
@click.option("-o", "--output", type=output_path, help="Also write the tuned model, as `tilewright compile` does.")
@click.option("--tracker", type=AddressType(), help="Measure on the boards of this tracker that have the key --key.")
@click.option("--key", default="", help="Key of the boards.")
@click.option("--key-file", type=input_path, help="File with the secret that proves this client to the boards.")
@click.option(
    "--ray", help="Measure on the machines of the Ray cluster of this address; auto: the one that is running."
)
@top_option(15, "kernels")
@shown
def tune_command(
    build: Build,
    feed: Feed,
    threads: int | None,
    duration: float,
    trials: int | None,
    log: Path | None,
    output: Path | None,
    tracker: tuple[str, int] | None,
    key: str,
    key_file: Path | None,
    ray: str | None,
    top: int,
    form: Form,
) -> None:
    """Make the kernels of MODEL faster: measure other decisions of their schedules, and keep the fastest in a file of records.

    Ctrl-C ends it early and keeps what was measured; the same command goes on from there. Builds take the records by --records. At the end
    the tuned model is measured beside the untuned one, if it runs on this machine.

    \b
    tilewright tune resnet50.onnx --time 10m
    tilewright tune bert.onnx --shape input_ids=1,128 --trials 500 -o bert.so
    tilewright compile resnet50.onnx --records resnet50.records -o resnet50.so
    tilewright tune resnet50.onnx --target raspberry-pi/5 --tracker farm:9190 --key pi5
    """
    from tilewright.cli.models import checked_target
    from tilewright.cli.options import use_threads
    from tilewright.cli.screen import progress, told
    from tilewright.cli.subcommands.bench import latency_table
    from tilewright.cli.tuning import kernel_table, measured_beside, peak_of, rows_of, runner_for, state_line, watched
    from tilewright.tuning.building import LocalBuilder
    from tilewright.tuning.cost_model import default_model
    from tilewright.tuning.session import Limits, Session

    path = log if log is not None else build.model.with_suffix(".records")
    check_writable(path, "--log")
    if output is not None:
        check_writable(output, "--output")
    use_threads(threads)
    target = checked_target(build.target)
    runner = runner_for(target, threads, tracker, key, key_file, ray)
    limits = Limits(trials, duration)
    session = Session(model_tasks(build), LocalBuilder(), runner, default_model(), path)
    for refused in session.refused[:5]:
        told(f"warning: {path}:{refused.number} is left out: {refused.why}")
    peak = peak_of(runner)
    interrupted = False
    try:
        with progress("measuring untuned kernels") as report:
            session.measure_untuned(report)
        with watched(session.progress, peak, limits, top, build.model.name) as event:
            session.run(limits, event)
    except KeyboardInterrupt:
        interrupted = True
        told(f"interrupted: {len(session.records)} records are in {path}; the same command goes on")
    if session.unwritten:
        told(f"warning: {len(session.unwritten)} records could not be written to {path}")
    rows = rows_of(session.progress, peak)
    facts: dict[str, Any] = {
        "model": str(build.model), "records": str(path), "measured": len(session.records),
        "kernels": [row._asdict() for row in rows],
    }  # fmt: skip
    if not interrupted and path.exists():
        facts |= measured_beside(build, feed, path, output, target.is_native)

    def tables() -> list[Any]:
        parts: list[Any] = [
            kernel_table(rows, top, build.model.name),
            f"kernels: {state_line(session.progress, None, limits)}",
        ]
        if "ratio" in facts:
            parts += [latency_table(facts["milliseconds"], build.model.name), f"tuned / untuned: {facts['ratio']:.3f}"]
        return [*parts, f"records: {path}"]

    form.show(facts, facts["kernels"], tables)
    if interrupted:
        raise KeyboardInterrupt


def model_tasks(build: Build) -> list[Any]:
    """The kernels of the model. Raises TVMError if there are none to be tuned."""
    import tilewright as tvm
    from tilewright.cli.models import checked_target, imported_model, precision_config
    from tilewright.cli.screen import progress, shown_warnings
    from tilewright.relay.backend.tuning_tasks import tuning_tasks

    target = checked_target(build.target)
    with progress("importing") as report, shown_warnings():
        report(0, 0, "importing")
        mod, params = imported_model(build)
        with tvm.transform.PassContext(build.opt_level, config=precision_config(build.precision)):
            tasks = tuning_tasks(mod, target, params)
    if not tasks:
        raise TVMError(f"{build.model} has no kernels whose schedules could be tuned for {target}")
    return tasks
