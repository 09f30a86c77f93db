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
    top: int,
    form: Form,
) -> None:
    """Make the kernels of MODEL faster: measure other decisions of their schedules, and keep the fastest in a file of records.

    Ctrl-C ends it early and keeps what was measured; the same command goes on from there. Builds take the records by --records. At the end
    the tuned model is measured beside the untuned one.

    \b
    tilewright tune resnet50.onnx --time 10m
    tilewright tune bert.onnx --shape input_ids=1,128 --trials 500 -o bert.so
    tilewright compile resnet50.onnx --records resnet50.records -o resnet50.so
    """
    from tilewright.cli.measuring import Contestant, measure_in_turn
    from tilewright.cli.models import compile_model, executor_of
    from tilewright.cli.options import use_threads
    from tilewright.cli.peak import Peak
    from tilewright.cli.screen import progress, told
    from tilewright.cli.subcommands.bench import latency_table
    from tilewright.cli.tensors import feed_model, fill_inputs
    from tilewright.cli.tuning import kernel_table, rows_of, state_line, watched
    from tilewright.runtime import num_threads
    from tilewright.tuning.building import LocalBuilder
    from tilewright.tuning.cost_model import best_model
    from tilewright.tuning.running.local import LocalRunner
    from tilewright.tuning.session import Limits, Session

    path = log if log is not None else build.model.with_suffix(".records")
    check_writable(path, "--log")
    if output is not None:
        check_writable(output, "--output")
    use_threads(threads)
    tasks = model_tasks(build)
    limits = Limits(trials, duration)
    session = Session(tasks, LocalBuilder(), LocalRunner(), best_model(), path)
    for refused in session.refused[:5]:
        told(f"warning: {path}:{refused.number} is left out: {refused.why}")
    peak = Peak(num_threads()).rate
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
        "model": str(build.model), "records": str(path), "measured": len(session.records), "threads": num_threads(),
        "kernels": [row._asdict() for row in rows],
    }  # fmt: skip
    contestants = []
    if not interrupted and path.exists():
        tuned = build.but(records=path)
        inputs = None
        for name, one in (("untuned", build), ("tuned", tuned)):
            library, _ = compile_model(one)
            executor = executor_of(library)
            inputs = feed_model(executor, feed) if inputs is None else inputs
            fill_inputs(executor, inputs)
            contestants.append(Contestant(name, build.precision, [executor.run]))
            if one is tuned and output is not None:
                library.export_library(str(output))
        with progress("measuring both") as report:
            measure_in_turn(contestants, 4.0, None, 2, report)
        facts["milliseconds"] = [c.row() for c in contestants]
        facts["ratio"] = facts["milliseconds"][1]["median"] / facts["milliseconds"][0]["median"]

    def tables() -> list[Any]:
        parts: list[Any] = [
            kernel_table(rows, top, build.model.name),
            f"kernels: {state_line(session.progress, None, limits)}",
        ]
        if contestants:
            parts += [latency_table(facts["milliseconds"], build.model.name), f"tuned / untuned: {facts['ratio']:.3f}"]
        return [*parts, f"records: {path}"]

    form.show(facts, facts["kernels"], tables)


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
