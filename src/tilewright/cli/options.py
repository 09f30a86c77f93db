"""Options that several commands share, how their values are read and checked."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeVar

import click

from tilewright.support.errors import TVMError
from tilewright.support.pinned import Pinned

F = TypeVar("F", bound=Callable[..., Any])
Shapes = Sequence[tuple[str, tuple[int, ...]]]


PRECISIONS = {"fp32": "float32", "bf16": "bfloat16", "fp16": "float16"}
"""The types of --precision."""


class ShapeType(click.ParamType[tuple[str, Pinned]]):
    """`name=1,3,224,224`, or `name=1,16:int64`."""

    name = "name=d0,d1,..."

    def convert(self, value: Any, param: Any, ctx: Any) -> tuple[str, Pinned]:
        if isinstance(value, tuple):
            return value
        name, equals, text = str(value).rpartition("=")
        dims, _, dtype = text.partition(":")
        try:
            shape = tuple([int(d) for d in dims.replace("x", ",").split(",")]) if dims else ()
        except ValueError:
            shape = (-1,)
        if not equals or not name or any([d < 0 for d in shape]):
            self.fail(f"{value!r} is not of the form NAME=D0,D1,... with sizes >= 0, such as x=1,3,48,320", param, ctx)
        return name, Pinned(shape, dtype)


model_argument = click.argument("model", type=click.Path(exists=True, path_type=Path))
shape_option = click.option(
    "--shape",
    "shapes",
    type=ShapeType(),
    multiple=True,
    help="Pin an input's shape: name=1,3,48,320 (ids=1,16:int64 with a type, for TorchScript). Once for each input that has open"
    " dimensions.",
)
target_option = click.option(
    "--target",
    default="llvm",
    show_default="the host's CPU",
    help="What to compile for, such as 'llvm -mcpu=skylake-avx512'.",
)


def model_options(command: F) -> F:
    """MODEL, --shape, --target, --opt-level and --precision."""
    for decorator in reversed(
        (
            model_argument,
            shape_option,
            target_option,
            click.option(
                "--opt-level",
                type=click.IntRange(0, 4),
                default=3,
                show_default=True,
                help="Passes up to this level run.",
            ),
            click.option(
                "--precision",
                type=click.Choice(list(PRECISIONS)),
                default="fp32",
                show_default=True,
                help="What weights and activations are stored in; sums are kept in float32, inputs and outputs keep their types.",
            ),
        )
    ):
        command = decorator(command)
    return command


thread_option = click.option(
    "--threads",
    type=click.IntRange(1, 1024),
    default=None,
    help="Threads that kernels may use. [default: all that this process may run on]",
)
seed_option = click.option("--seed", type=int, default=0, show_default=True, help="Seed of the random inputs.")


def use_threads(threads: int | None) -> None:
    """Limits the pool, when asked to; a number in the environment that is none is refused before anything is compiled."""
    from tilewright import runtime

    try:
        if threads is None:
            runtime.num_threads()
        else:
            runtime.set_num_threads(threads)
    except ValueError as error:
        raise click.ClickException(str(error)) from error


def check_writable(path: Path, option: str) -> None:
    """TVMError where a file could not be written: said before minutes of work, not after."""
    if path.is_dir():
        raise TVMError(f"{option} {path}: that is a folder; give the name of a file in it")
    if not path.parent.is_dir():
        raise TVMError(f"{option} {path}: the folder {path.parent} does not exist; create it first")
    if not os.access(path if path.exists() else path.parent, os.W_OK):
        raise TVMError(f"{option} {path}: {path.parent} cannot be written by this user; give another place")
