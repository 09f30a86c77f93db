"""`tvmc micro`: projects for microcontrollers, which are not made here."""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from typing import Any, NoReturn

from tilewright.driver.tvmc.errors import TVMCException
from tilewright.driver.tvmc.main import register_parser

SUPPORT_MICRO = False
"""Whether projects for microcontrollers are made and run."""
NO_MICRO = (
    "projects for microcontrollers are not made here; compile the model to sources for one: tvmc compile --target c --executor aot"
    " --runtime crt --output-format mlf"
)


@register_parser
def add_micro_parser(
    subparsers: Any, main_parser: argparse.ArgumentParser, json_params: Sequence[Mapping[str, Any]]
) -> None:
    """Adds the command."""
    parser = subparsers.add_parser(
        "micro", help="projects for microcontrollers (not available)", description=NO_MICRO, add_help=True
    )
    parser.add_argument("arguments", nargs=argparse.REMAINDER, help=argparse.SUPPRESS)
    parser.set_defaults(func=drive_micro)


def drive_micro(args: argparse.Namespace) -> NoReturn:
    """Raises TVMCException."""
    raise TVMCException(NO_MICRO)
