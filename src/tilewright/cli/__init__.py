"""The command line: import, compile, run, bench, profile, memory, compare, cache."""

from __future__ import annotations

import atexit
import gc
import sys

import click

from tilewright.support.errors import TVMError


@click.group(context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110})
@click.version_option(package_name="tilewright")
def cli() -> None:
    """Compile trained models to native code, run them, and see where the time goes.

    \b
    tilewright import resnet50.onnx --check
    tilewright compile resnet50.onnx -o resnet50.so --report passes.html
    tilewright run resnet50.so --input picture.npz
    tilewright bench resnet50.onnx
    tilewright profile resnet50.onnx
    tilewright memory resnet50.onnx
    tilewright compare resnet50.onnx --reference onnxruntime
    tilewright compare resnet50.onnx --precision bf16
    """


def main() -> None:
    """Entry point of the console script: user errors are printed without a traceback, with exit code 1."""
    from tilewright.cli import commands

    # To look for cycles once more among a million objects, as the process ends, would take longer than many commands.
    atexit.register(gc.freeze)
    try:
        cli(prog_name="tilewright", standalone_mode=False)
    except click.ClickException as error:
        error.show()
        sys.exit(error.exit_code)
    except (click.Abort, KeyboardInterrupt):
        click.echo("interrupted", err=True)
        sys.exit(130)
    except (TVMError, OSError) as error:
        click.echo(f"error: {error}", err=True)
        sys.exit(1)
    except Exception as error:
        click.echo(f"error: {type(error).__name__}: {error}\n{report_defect()}", err=True)
        sys.exit(70)


def report_defect() -> str:
    """Keeps the traceback of an error that no user should meet in a file; says so."""
    import tempfile
    import traceback

    with tempfile.NamedTemporaryFile("w", prefix="tilewright-", suffix=".txt", delete=False) as file:
        file.write(f"{' '.join(sys.argv)}\n\n{traceback.format_exc()}")
    return f"This is a defect of the compiler, not of your model: please report it with {file.name}, which says where it happened."


__all__ = ["cli", "main"]
