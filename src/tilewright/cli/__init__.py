"""The command line: the group of commands, and the handling of errors."""

from __future__ import annotations

import atexit
import errno
import gc
import io
import os
import sys

import click

from tilewright.support.errors import InternalError, TVMError, environment_fault

DEFECT = 70
"""The exit code for a defect of the compiler."""
UNWRITTEN = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO)


@click.group(context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110})
@click.version_option(package_name="tilewright")
def cli() -> None:
    """Compile trained models to native code, run and measure them.

    \b
    tilewright import resnet50.onnx --check
    tilewright compile resnet50.onnx -o resnet50.so --report passes.html
    tilewright inspect resnet50.so
    tilewright run resnet50.so --input picture.npz
    tilewright bench resnet50.onnx --threads 1
    tilewright profile resnet50.onnx
    tilewright memory resnet50.onnx
    tilewright tune resnet50.onnx --time 10m -o resnet50.so
    tilewright compare resnet50.onnx --reference onnxruntime
    tilewright compare resnet50.onnx --precision bf16
    tilewright targets raspberry
    tilewright devices
    tilewright completion bash

    Each command has examples in its --help. Most print JSON (--json) or CSV (--csv).
    """
    # Help is shown whatever the environment holds.
    if not {"-h", "--help"} & set(sys.argv[1:]):
        from tilewright.cli.environment import check_environment

        check_environment()


def main() -> None:
    """Runs the command line.

    Exit codes: 0; 1 for errors of users and machines, which are printed without a traceback; 2 for a wrong command line; 130 for an
    interrupt, 143 for SIGTERM; 70 for a defect of the compiler.
    """
    open_streams()
    from tilewright.cli import commands

    # A last search for cycles among a million objects, at the end of the process, would take longer than many commands.
    atexit.register(gc.freeze)
    try:
        cli(prog_name="tilewright", standalone_mode=False)
        sys.stdout.flush()
    except click.ClickException as error:
        error.show()
        sys.exit(error.exit_code)
    except (click.Abort, KeyboardInterrupt):
        click.echo("interrupted", err=True)
        sys.exit(130)
    except BrokenPipeError:
        # The reader of the output (head, less) has seen enough.
        forget_output()
        sys.exit(1)
    except Exception as error:
        sys.exit(tell(error))


def tell(error: Exception) -> int:
    """Prints an error; returns the exit code."""
    fault = fault_of(error)
    if fault is not None:
        complain(fault)
        return 1
    complain(f"the compiler failed unexpectedly\n{report_defect()}")
    return DEFECT


def fault_of(error: Exception) -> str | None:
    """What an error says to a user; None for one that was not foreseen."""
    raised = isinstance(error, TVMError) and not isinstance(error, InternalError)
    fault = str(error) if raised else environment_fault(error)
    if isinstance(error, OSError) and error.filename is None and error.errno in UNWRITTEN:
        # Functions that write files name them; an error without a name is about standard output.
        forget_output()
        fault = f"standard output cannot be written: {error.strerror}"
    return str(error) if fault is None and isinstance(error, InternalError) else fault


def complain(fault: str) -> None:
    """Prints an error on standard error."""
    from tilewright.cli.screen import visible

    click.echo(f"error: {visible(fault)}", err=True)


def open_streams() -> None:
    """Opens the standard streams that are closed: else the next file that the process opens would become one of them. All text can be
    written to them."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            # open() returns the lowest free number, which is the stream's.
            setattr(sys, name, os.fdopen(os.open(os.devnull, os.O_RDWR), mode))
    for stream in (sys.stdout, sys.stderr):
        # A name that the encoding of a terminal lacks ends no command.
        if isinstance(stream, io.TextIOWrapper) and stream.errors == "strict":
            stream.reconfigure(errors="backslashreplace")


def forget_output() -> None:
    """Drops buffered output, so that the end of the process does not try to write it."""
    sys.stdout = os.fdopen(os.open(os.devnull, os.O_WRONLY), "w")


def report_defect() -> str:
    """Writes the traceback of an internal error to a file; returns the request to report it."""
    import tempfile
    import traceback

    text = f"{' '.join(sys.argv)}\n\n{traceback.format_exc()}"
    defect = "This is a defect of the compiler, not of your model: please report it with"
    try:
        with tempfile.NamedTemporaryFile(
            "w", errors="backslashreplace", prefix="tilewright-", suffix=".txt", delete=False
        ) as file:
            file.write(text)
    except OSError:
        return f"{defect} this text:\n{text}"
    return f"{defect} {file.name}, which says where it happened."


__all__ = ["cli", "main"]
