"""`tilewright tune`: faster kernels for a model or for operators, found by measuring."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from tilewright.cli import cli
from tilewright.cli.options import (
    Build,
    Feed,
    build_options,
    feed_options,
    gathered,
    input_path,
    output_path,
    shown,
    thread_option,
    top_option,
)

if TYPE_CHECKING:
    from tilewright.cli.screen import Form

FEWEST, ROUND_SECONDS = 4, 30.0
"""Candidates of a round, at least; and of how much time a round has one."""
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


BUILD_OPTIONS = gathered(
    Build,
    "build",
    Build.__slots__,
    (click.argument("model", required=False, type=click.Path(exists=True, path_type=Path)), *build_options),
)


@cli.command("tune", short_help="Make the kernels of a model faster by measuring.")
@BUILD_OPTIONS
@click.option(
    "--shapes",
    "operators",
    multiple=True,
    metavar="OPERATOR",
    help="Tune an operator instead of a model: NAME(SHAPE, ..., ATTRIBUTE=VALUE, ...), with the names of relay. Weights are constants;"
    " const before a shape makes other arguments constants, :TYPE behind it gives an element type. Repeat for more operators.",
)
@feed_options
@thread_option
@click.option(
    "--time", "duration", type=DurationType(), default="10m", show_default=True, help="Time to measure: 90s, 10m, 2h."
)
@click.option(
    "--trials",
    type=click.IntRange(1),
    help="Number of candidates to measure, if that takes less than --time.  [default: no limit]",
)
@click.option(
    "--only",
    multiple=True,
    metavar="NAME",
    help="Tune the kernels with this in their name only. Repeat for more names.",
)
@click.option("--list", "listed", is_flag=True, help="Measure the untuned kernels, show what is worth tuning, and end.")
@click.option(
    "--log",
    type=output_path,
    help="File of records, which is continued if it exists.  [default: MODEL with the suffix .records; operators.records with --shapes]",
)
@click.option(
    "--resume",
    is_flag=True,
    help="Go on from the file of records only: end with an error if there is none, so that none is begun by mistake.",
)
@click.option(
    "-o",
    "--output",
    type=output_path,
    help="Also write the tuned library, as `tilewright compile` does: the untuned one if that turns out to be faster.",
)
@click.option(
    "--html",
    "page",
    type=output_path,
    help="Also write a page with charts: the latency over time, the kernels, before and after. It is written again while the command runs.",
)
@click.option("--tracker", type=AddressType(), help="Measure on the boards of this tracker that have the key --key.")
@click.option("--key", default="", help="Key of the boards.")
@click.option("--key-file", type=input_path, help="File with the secret that proves this client to the boards.")
@click.option(
    "--ray",
    metavar="ADDRESS",
    help="Measure on the machines of the Ray cluster of this address; auto: the one that is running."
    " Needs pip install 'tilewright[farm]'.",
)
@top_option(15, "kernels")
@shown
def tune_command(
    build: Build,
    operators: tuple[str, ...],
    feed: Feed,
    threads: int | None,
    duration: float,
    trials: int | None,
    only: tuple[str, ...],
    listed: bool,
    log: Path | None,
    resume: bool,
    output: Path | None,
    page: Path | None,
    tracker: tuple[str, int] | None,
    key: str,
    key_file: Path | None,
    ray: str | None,
    top: int,
    form: Form,
) -> None:
    """Make the kernels of MODEL, or of operators, faster: measure other decisions of their schedules, and keep the fastest in a file of
    records.

    First the untuned kernels are measured: the share of the run that each takes, how near it is to the roofline of the machine (the least
    time that its operations and bytes can take), and what it may save. Then candidates are measured, where most is expected to be saved. At
    the end the tuned model is measured beside the untuned one, in turns, if it runs on this machine.

    Ctrl-C ends the measurements early and keeps all that was measured; the same command goes on from there. With -o the library is still
    written; a second Ctrl-C ends that, too. --resume begins no new file of records. Builds take the records by --records.

    \b
    tilewright tune resnet50.onnx --time 10m -o resnet50.so --html tuning.html
    tilewright tune bert.onnx --shape input_ids=1,128 --trials 500
    tilewright tune resnet50.onnx --list
    tilewright tune --shapes "conv2d(1x64x56x56, 64x64x3x3, padding=1)" --time 2m
    tilewright tune --shapes "relu(dense(8x512, 1024x512))" --shapes "softmax(8x128x128)" --time 2m
    tilewright compile resnet50.onnx --records resnet50.records -o resnet50.so
    tilewright tune resnet50.onnx --target raspberry-pi/5 --tracker farm:9190 --key pi5
    """
    from tilewright.cli.models import check_library
    from tilewright.cli.options import check_writable, use_threads
    from tilewright.cli.tuner.board import Board
    from tilewright.cli.tuner.command import Command
    from tilewright.cli.tuner.runners import runner_for
    from tilewright.cli.tuner.subject import Subject
    from tilewright.tuning.session import Limits

    if (build.model is None) == (not operators):
        raise click.UsageError("give a model file, or operators by --shapes" + ("; not both" if operators else ""))
    subject = Subject(build, operators)
    path = log if log is not None else subject.records
    check_writable(path, "--log")
    if resume and not path.exists():
        raise click.UsageError(f"--resume: there is no file of records {path}; without --resume a new one is begun")
    if output is not None:
        check_library(output, build.target)
    if page is not None:
        check_writable(page, "--html")
    use_threads(threads)
    runner = runner_for(subject.target, threads, tracker, key, key_file, ray)
    # Short sessions have short rounds: the last one may begin just before the time is over.
    batch = max(FEWEST, min(Limits.batch, int(duration / ROUND_SECONDS)))
    board = None if tracker is None else Board(tracker, key, key_file)
    command = Command(subject, feed, runner, board, Limits(trials, duration, batch=batch), path, output, page, top)
    if listed:
        command.show_tasks(only, form)
    else:
        command.tune(only, form)
