"""`tvmc tune`: its options. There is no tuner to run."""

from __future__ import annotations

import argparse
import logging
from collections.abc import Mapping, Sequence
from typing import Any, NoReturn

from tilewright.driver.tvmc.errors import TVMCException
from tilewright.driver.tvmc.frontends import get_frontend_names
from tilewright.driver.tvmc.main import register_parser, with_defaults
from tilewright.driver.tvmc.model import TVMCModel
from tilewright.driver.tvmc.shape_parser import parse_shape_string
from tilewright.driver.tvmc.target import generate_target_args
from tilewright.driver.tvmc.transform import generate_transform_args

logger = logging.getLogger("TVMC")

NO_TUNER = (
    "there is no tuner here, and no records of tuning are read: the cost model chooses the schedule of each kernel when a model is"
    " compiled. `tvmc compile` is all that is needed; a file of plans (--pass-config relay.plans=FILE) overrides single choices"
)


@register_parser
def add_tune_parser(subparsers: Any, _: argparse.ArgumentParser, json_params: Sequence[Mapping[str, Any]]) -> None:
    """Adds the command."""
    parser = subparsers.add_parser(
        "tune",
        help="auto-tune a model (not available)",
        usage="tvmc tune [options] -o RECORDS FILE",
        description=NO_TUNER,
    )
    parser.set_defaults(func=drive_tune)
    parser.add_argument("-o", "--output", required=True, help="the file of records.")
    for option in ("trials", "number", "repeat", "timeout", "early-stopping", "min-repeat-ms"):
        parser.add_argument(f"--{option}", type=int, help=argparse.SUPPRESS)
    for option in ("tuner", "rpc-key", "rpc-tracker", "target-host", "tuning-records", "tasks", "parallel"):
        parser.add_argument(f"--{option}", help=argparse.SUPPRESS)
    for option in ("enable-autoscheduler", "include-simple-tasks", "log-estimated-latency"):
        parser.add_argument(f"--{option}", action="store_true", help=argparse.SUPPRESS)
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


def drive_tune(args: argparse.Namespace) -> NoReturn:
    """Raises TVMCException."""
    raise TVMCException(NO_TUNER)


def tune_model(
    tvmc_model: TVMCModel,
    target: Any,
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
) -> NoReturn:
    """Raises TVMCException: it says what there is in place of tuning."""
    raise TVMCException(NO_TUNER)
