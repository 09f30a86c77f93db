"""`tvmc tune`: the kernels of a model made faster by measuring, with the classic options over the one engine of tuning."""

from __future__ import annotations

import argparse
import logging
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tilewright.driver.tvmc.errors import TVMCException
from tilewright.driver.tvmc.frontends import get_frontend_names, load_model
from tilewright.driver.tvmc.main import register_parser, with_defaults
from tilewright.driver.tvmc.model import TVMCModel
from tilewright.driver.tvmc.shape_parser import parse_shape_string
from tilewright.driver.tvmc.target import generate_target_args, reconstruct_target_args, target_from_cli
from tilewright.driver.tvmc.tracker import tracker_host_port_from_cli
from tilewright.driver.tvmc.transform import apply_graph_transforms, generate_transform_args, parse_graph_transform_args
from tilewright.ir.transform import PassContext
from tilewright.target import Target

logger = logging.getLogger("TVMC")

WITHOUT_EFFECT = "accepted; the engine of tuning decides this."
BATCH = 16
"""Candidates of a round."""


@register_parser
def add_tune_parser(subparsers: Any, _: argparse.ArgumentParser, json_params: Sequence[Mapping[str, Any]]) -> None:
    """Adds the command."""
    parser = subparsers.add_parser(
        "tune",
        help="auto-tune a model",
        usage="tvmc tune [options] -o RECORDS FILE",
        description="Measures other schedules of the kernels of a model, and adds them to a file of records, which `tvmc compile"
        " --tuning-records` and `tilewright` take.",
    )
    parser.set_defaults(func=drive_tune)
    parser.add_argument("-o", "--output", required=True, help="the file of records; it is continued if it exists.")
    parser.add_argument("--trials", type=int, default=10000, help="number of measurements, at most.")
    parser.add_argument(
        "--early-stopping",
        type=int,
        help="number of measurements of a kernel without a faster one, after which it rests.",
    )
    parser.add_argument(
        "--repeat", type=int, default=1, help="number of times that are taken of a candidate, at least."
    )
    parser.add_argument(
        "--number", type=int, default=1, help="number of calls of which each time is the mean, at least."
    )
    parser.add_argument("--min-repeat-ms", type=int, help="milliseconds of one of these, at least.")
    parser.add_argument("--timeout", type=int, default=10, help="seconds of a build and of a measurement.")
    parser.add_argument("--parallel", type=int, default=4, help="number of builds at once, and of boards.")
    parser.add_argument("--tuning-records", metavar="PATH", help="records of earlier to begin with.")
    parser.add_argument("--rpc-tracker", help="HOST:PORT of a tracker, on whose boards candidates are measured.")
    parser.add_argument("--rpc-key", help="the key of the boards.")
    parser.add_argument(
        "--tasks", default="all", help='kernels to be tuned: "all", numbers such as "0,3-5", or "list".'
    )
    for option in ("tuner", "target-host"):
        parser.add_argument(f"--{option}", help=WITHOUT_EFFECT)
    for option in ("enable-autoscheduler", "include-simple-tasks", "log-estimated-latency"):
        parser.add_argument(f"--{option}", action="store_true", help=WITHOUT_EFFECT)
    for option in (
        "cache-line-bytes", "num-cores", "vector-unit-bytes", "max-shared-memory-per-block", "max-local-memory-per-block",
        "max-threads-per-block", "max-vthread-extent", "warp-size",
    ):  # fmt: skip
        parser.add_argument(f"--{option}", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--model-format", choices=get_frontend_names(), help="the format of the model's file.")
    parser.add_argument("--input-shapes", type=parse_shape_string, metavar="SHAPES", help="shapes of inputs.")
    generate_transform_args(parser)
    generate_target_args(parser)
    parser.add_argument("-v", "--verbose", action="count", default=argparse.SUPPRESS, help="increase verbosity.")
    parser.add_argument("FILE", help="path to the input model file.")
    with_defaults(parser, json_params)


def drive_tune(args: argparse.Namespace) -> int:
    """Tunes what parsed arguments name; returns the exit code."""
    from tilewright.cli.options import check_writable

    check_writable(Path(args.output), "--output")
    hostname, port = tracker_host_port_from_cli(args.rpc_tracker)
    tune_model(
        load_model(args.FILE, args.model_format, args.input_shapes),
        args.target,
        tuning_records=args.output,
        prior_records=args.tuning_records,
        rpc_key=args.rpc_key,
        hostname=hostname,
        port=port,
        trials=args.trials,
        min_repeat_ms=args.min_repeat_ms,
        early_stopping=args.early_stopping,
        timeout=args.timeout,
        repeat=args.repeat,
        number=args.number,
        parallel=args.parallel,
        additional_target_options=reconstruct_target_args(args),
        tasks_filter=args.tasks,
        **parse_graph_transform_args(args),
    )
    return 0


def tune_model(
    tvmc_model: TVMCModel,
    target: str | Target | Mapping[str, Any],
    tuning_records: str | None = None,
    prior_records: str | None = None,
    enable_autoscheduler: bool = False,
    rpc_key: str | None = None,
    hostname: str | None = None,
    port: int | str | None = 9090,
    trials: int = 10000,
    target_host: Any = None,
    tuner: str = "xgb",
    min_repeat_ms: int | None = None,
    early_stopping: int | None = None,
    timeout: int = 10,
    repeat: int = 1,
    number: int = 10,
    parallel: int = 4,
    hardware_params: Any = None,
    include_simple_tasks: bool = False,
    log_estimated_latency: bool = False,
    additional_target_options: Mapping[str, Mapping[str, Any]] | None = None,
    tasks_filter: str | None = None,
    desired_layout: str | Sequence[str] | None = None,
    desired_layout_ops: Sequence[str] | None = None,
    mixed_precision: bool = False,
    mixed_precision_ops: Sequence[str] | None = None,
    mixed_precision_calculation_type: str | None = None,
    mixed_precision_acc_type: str | None = None,
) -> str:
    """Measures schedules of the kernels of a model. Returns the path of the file of records, which `compile` takes as tuning_records.

    tuning_records: the file; default: one that goes with the model. prior_records: a file whose records are added to it first. rpc_key,
    hostname, port: of boards and of their tracker; by default this machine measures. trials: measurements, at most. min_repeat_ms,
    repeat, number: of one measurement, at least: times that are taken, each the mean of so many calls, or of as many as take so long.
    early_stopping: measurements of a kernel without a faster one, after which it rests. timeout: seconds of a build, and of a
    measurement. parallel: builds at once, and boards. tasks_filter: "all", numbers such as "0,3-5", or "list", which prints the kernels
    and measures nothing. desired_layout, mixed_precision and those that begin so: see `transform`. The engine decides the rest:
    enable_autoscheduler, tuner, target_host, hardware_params, include_simple_tasks and log_estimated_latency have no effect.

    Raises TVMCException for what cannot be measured.
    """
    from tilewright.relay.backend.model_program import ModelProgram, decide_program
    from tilewright.tuning import log
    from tilewright.tuning.building import LocalBuilder
    from tilewright.tuning.cost_model import default_model
    from tilewright.tuning.record import load
    from tilewright.tuning.running.measuring import Plan
    from tilewright.tuning.session import Event, Limits, Session

    changes = parse_graph_transform_args(locals())
    chosen, _ = target_from_cli(target, additional_target_options)
    path = tuning_records or tvmc_model.default_tuning_records_path()
    program = ModelProgram(apply_graph_transforms(tvmc_model.mod, changes), chosen, tvmc_model.params)
    with PassContext(opt_level=3):
        tasks = program.tasks(path)
    if tasks_filter == "list":
        for i, task in enumerate(tasks):
            print(f"{i}. {task.name}: {task.flops / 1e6:.1f} MFLOP, {task.weight:.0f} calls")
        return path
    tasks = [tasks[i] for i in chosen_tasks(tasks_filter or "all", len(tasks))]
    if not tasks:
        raise TVMCException(f"the model has no kernels whose schedules could be tuned for {chosen}")
    plan = Plan(
        repeats=max(repeat, 1),
        min_repeat_ms=float(min_repeat_ms or 3),
        seconds=min(timeout / 2, 1.0),
        number=max(number, 1),
    )
    runner = _runner(chosen, plan, timeout, parallel, rpc_key, hostname, port)
    if prior_records is not None and os.path.abspath(prior_records) != os.path.abspath(path):
        log.append(path, [record.to_json() for record in load(prior_records)[0]])

    def report(event: Event) -> None:
        logger.info("%s: %d measured, %.3g of untuned", event.progress.task.name, event.trials, _ratio(event))

    limits = Limits(trials=trials, batch=BATCH)
    if early_stopping is not None:
        limits = Limits(trials=trials, batch=BATCH, patience=max(-(-early_stopping // BATCH), 1))
    builder = LocalBuilder(parallel, timeout)
    if tasks_filter in (None, "all"):
        with PassContext(opt_level=3):
            decide_program(program, builder, runner, path, limits)
            tasks = program.tasks(path)
    Session(tasks, builder, runner, default_model(), path).run(limits, report)
    return path


def chosen_tasks(text: str, count: int) -> list[int]:
    """The numbers of tasks that "all", or "0,3-5", names. Raises TVMCException for others."""
    if text == "all":
        return list(range(count))
    found: list[int] = []
    for part in text.split(","):
        first, dash, last = part.strip().partition("-")
        if not first.isdigit() or (dash and not last.isdigit()):
            raise TVMCException(f'--tasks takes "all", "list" or numbers such as "0,3-5", but was given {text!r}')
        found += range(int(first), int(last if dash else first) + 1)
    outside = [i for i in found if i >= count]
    if outside:
        raise TVMCException(
            f"--tasks {text}: there are {count} tasks, from 0 to {count - 1}; `--tasks list` prints them"
        )
    return list(dict.fromkeys(found))


def _ratio(event: Any) -> float:
    progress = event.progress
    return float(progress.fastest / progress.untuned)


def _runner(
    target: Target, plan: Any, timeout: int, boards: int, key: str | None, host: str | None, port: int | str | None
) -> Any:
    """What measures: boards, if a tracker is given, else this machine."""
    if host is not None:
        from tilewright.tuning.running.rpc import RPCRunner

        if not key:
            raise TVMCException("boards need a key: give --rpc-key with --rpc-tracker (rpc_key with hostname)")
        return RPCRunner(key, (host, int(port or 9090)), boards=boards, timeout=timeout, plan=plan)
    if not target.is_native:
        raise TVMCException(
            f"{target} is not this machine: give --rpc-tracker and --rpc-key of boards (hostname, port, rpc_key) to measure there"
        )
    from tilewright.tuning.running.local import LocalRunner

    return LocalRunner(timeout, plan)
