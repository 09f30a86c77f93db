"""The command `tvmc`.

examples:
  tvmc compile --target llvm --output package.tar resnet50.onnx
  tvmc run --inputs picture.npz --outputs scores.npz --print-top 5 package.tar
  tvmc run --print-time --repeat 10 --number 5 package.tar
  tvmc run --rpc-tracker 192.168.0.10:9190 --rpc-key board package.tar
"""

from __future__ import annotations

import argparse
import difflib
import logging
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

from tilewright.driver.tvmc.errors import TVMCException, TVMCImportError
from tilewright.support.version import VERSION

Maker = TypeVar("Maker", bound=Callable[..., None])
REGISTERED_PARSER: list[Callable[..., None]] = []
"""What adds each command: f(subparsers, main parser, options of the configuration)."""
SHOWN = ("compiler", "runner", "autotuner", "micro")
"""The modules of the commands, in the order of --help; commands of others follow."""
FAILED, NOT_INSTALLED = 4, 5
"""Exit codes. Besides: 0; 1 without a command; 2 for a wrong command line; 70 for a defect; 130 for an interrupt; 143 for SIGTERM."""


def register_parser(make_subparser: Maker) -> Maker:
    """Registers what adds a command."""
    REGISTERED_PARSER.append(make_subparser)
    return make_subparser


def with_defaults(parser: argparse.ArgumentParser, json_params: Sequence[Mapping[str, Any]]) -> None:
    """Makes the options of a configuration the defaults of a command that has them."""
    known = {action.dest for action in parser._actions}
    for entry in json_params:
        parser.set_defaults(**{name: value for name, value in entry.items() if name in known})


def main(argv: Sequence[str] | None = None) -> None:
    """Runs the command line, and ends the process with its exit code."""
    from tilewright.cli import open_streams

    open_streams()
    try:
        code = run(list(sys.argv[1:] if argv is None else argv))
    except KeyboardInterrupt:
        sys.stderr.write("interrupted\n")
        code = 130
    except BrokenPipeError:
        from tilewright.cli import forget_output

        forget_output()
        code = 1
    sys.exit(code)


def run(argv: list[str]) -> int:
    """Runs a command line; returns its exit code. What is wrong is said on standard error."""
    try:
        code = _run(argv)
        sys.stdout.flush()
        return code
    except TVMCImportError as error:
        sys.stderr.write(f'Package "{error}" is not installed. Hint: "pip install {error}".\n')
        return NOT_INSTALLED
    except SystemExit as error:  # argparse has said what is wrong, or printed help
        return int(error.code or 0)
    except BrokenPipeError:
        raise
    except Exception as error:
        return _told(error)


def _told(error: Exception) -> int:
    """Says what is wrong; returns the exit code."""
    from tilewright.cli import DEFECT, fault_of, report_defect
    from tilewright.cli.screen import visible

    fault = fault_of(error)
    if fault is not None:
        sys.stderr.write(f"Error: {visible(fault)}\n")
        return FAILED
    sys.stderr.write(f"Error: tvmc failed unexpectedly\n{report_defect()}\n")
    return DEFECT


def _run(argv: list[str]) -> int:
    from tilewright.driver.tvmc.config_options import read_and_convert_json_into_dict

    first = argparse.ArgumentParser(prog="tvmc", add_help=False, allow_abbrev=False)
    first.add_argument(
        "--config", default="default", help="configuration json file, or the name of one (default: default)"
    )
    config, rest = first.parse_known_args(argv)
    json_params = read_and_convert_json_into_dict(config)
    parser = argparse.ArgumentParser(
        prog="tvmc",
        parents=[first],
        formatter_class=argparse.RawDescriptionHelpFormatter,
        description="compiles trained models, runs and measures them",
        epilog=(__doc__ or "").partition("\n\n")[2],
    )
    parser.add_argument("-v", "--verbose", action="count", default=0, help="increase verbosity")
    parser.add_argument("--version", action="store_true", help="print the version and exit")
    commands = parser.add_subparsers(title="commands", metavar="{compile,run,tune,micro}")
    for make_subparser in sorted(REGISTERED_PARSER, key=_place):
        make_subparser(commands, parser, json_params)
    _need_known(commands.choices, json_params)
    args = parser.parse_args(rest)
    logging.basicConfig(format="%(name)s: %(message)s")
    logging.getLogger("TVMC").setLevel(logging.ERROR - 10 * min(args.verbose, 3))
    if args.version:
        print(VERSION)
        return 0
    if not hasattr(args, "func"):
        parser.print_help(sys.stderr)
        return 1
    return int(args.func(args) or 0)


def _place(make_subparser: Callable[..., None]) -> int:
    module = make_subparser.__module__.rpartition(".")[2]
    return SHOWN.index(module) if module in SHOWN else len(SHOWN)


def _need_known(commands: Mapping[str, argparse.ArgumentParser], json_params: Sequence[Mapping[str, Any]]) -> None:
    """Raises TVMCException for options of the configuration that no command has."""
    known = {action.dest for command in commands.values() for action in command._actions}
    for name in [name for entry in json_params for name in entry]:
        if name not in known:
            near = difflib.get_close_matches(name, known, n=3)
            raise TVMCException(
                f"--config: no command has an option {name.replace('_', '-')!r}"
                + (f"; near it: {', '.join([n.replace('_', '-') for n in near])}" if near else "")
            )
