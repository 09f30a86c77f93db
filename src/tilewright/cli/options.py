"""Options that several commands share, how their values are read and checked."""

from __future__ import annotations

import functools
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
"""The floating-point types of --precision; int8 is another matter, since it needs samples."""
EXECUTORS = ("auto", "aot", "graph", "vm")


class Build:
    """What a command compiles, and how: a model file (or a library that is compiled already) and the options that say how to import
    and compile it."""

    __slots__ = (
        "calibrate", "check_bounds", "executor", "inputs_at", "model", "opt_level", "outputs", "precision", "shapes", "target", "values",
    )  # fmt: skip

    def __init__(
        self,
        model: Path,
        shapes: Shapes = (),
        target: str = "llvm",
        opt_level: int = 3,
        precision: str = "fp32",
        executor: str = "auto",
        values: Sequence[tuple[str, str]] = (),
        outputs: Sequence[str] = (),
        inputs_at: Sequence[str] = (),
        calibrate: Sequence[Path] = (),
        check_bounds: bool = False,
    ) -> None:
        self.model, self.shapes, self.target, self.opt_level = model, tuple(shapes), target, opt_level
        self.precision, self.executor, self.values = precision, executor, tuple(values)
        self.outputs, self.inputs_at, self.calibrate = tuple(outputs), tuple(inputs_at), tuple(calibrate)
        self.check_bounds = check_bounds

    def but(self, **changes: Any) -> Build:
        """The same with other options."""
        return Build(**{**{name: getattr(self, name) for name in self.__slots__}, **changes})


class Feed:
    """Where inputs come from: files, and for what they leave out random values of a seed. `run_shapes`: of random inputs with
    dynamic dimensions; `cast`: convert element types; `strict`: make nothing up."""

    __slots__ = ("cast", "files", "run_shapes", "seed", "strict")

    def __init__(
        self,
        files: Sequence[Path] = (),
        seed: int = 0,
        run_shapes: Shapes = (),
        cast: bool = False,
        strict: bool = False,
    ) -> None:
        self.files, self.seed, self.run_shapes = tuple(files), seed, dict(run_shapes)
        self.cast, self.strict = cast, strict

    def next(self, number: int) -> Feed:
        """The same for a further set of inputs, whose random values are others."""
        return Feed(self.files, self.seed + number, tuple(self.run_shapes.items()), self.cast, self.strict)


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


class ValueType(click.ParamType[tuple[str, str]]):
    """`name=16000`, `name=1,2,3` or `name=file.npy`."""

    name = "name=value"

    def convert(self, value: Any, param: Any, ctx: Any) -> tuple[str, str]:
        if isinstance(value, tuple):
            return value
        name, equals, text = str(value).partition("=")
        if not equals or not name or not text:
            self.fail(
                f"{value!r} is not of the form NAME=VALUE, such as sr=16000, axes=0,1 or mask=mask.npy", param, ctx
            )
        return name, text


class NamesType(click.ParamType[list[str]]):
    """`name,name,...`."""

    name = "name,..."

    def convert(self, value: Any, param: Any, ctx: Any) -> list[str]:
        if isinstance(value, list):
            return value
        names = [n.strip() for n in str(value).split(",")]
        if not all(names):
            self.fail(f"{value!r} is no list of names, such as layer3,layer4", param, ctx)
        return names


model_argument = click.argument("model", type=click.Path(exists=True, path_type=Path))
shape_option = click.option(
    "--shape",
    "shapes",
    type=ShapeType(),
    multiple=True,
    help="Pin an input's shape: name=1,3,48,320 (ids=1,16:int64 with a type, for TorchScript). Once for each input. What stays open"
    " runs in the virtual machine; pinned sizes run faster.",
)
target_option = click.option(
    "--target",
    default="llvm",
    show_default="the host's CPU",
    help="What to compile for, such as 'llvm -mcpu=skylake-avx512'. 'llvm -num-cores=4' fixes the number of threads that schedules are"
    " made for.",
)
output_path = click.Path(dir_okay=False, path_type=Path)
input_path = click.Path(exists=True, dir_okay=False, path_type=Path)


def gathered(kind: type, name: str, fields: Sequence[str], options: Sequence[Callable[..., Any]]) -> Callable[[F], F]:
    """A decorator that adds options to a command, which receives their values as one object."""

    def decorate(command: F) -> F:
        @functools.wraps(command)
        def run(**given: Any) -> Any:
            found = {field: given.pop(field) for field in fields if field in given}
            return command(**given, **{name: kind(**found)})

        made: Any = run
        # click keeps the options of a function on it; those below this decorator came first.
        for option in reversed(options):
            made = option(made)
        decorated: F = made
        return decorated

    return decorate


model_options = gathered(
    Build,
    "build",
    Build.__slots__,
    (
        model_argument,
        shape_option,
        target_option,
        click.option(
            "--opt-level", type=click.IntRange(0, 4), default=3, show_default=True, help="Passes up to this level run."
        ),
        click.option(
            "--precision",
            type=click.Choice([*PRECISIONS, "int8"]),
            default="fp32",
            show_default=True,
            help="What weights and activations are stored in; sums are kept in float32, inputs and outputs keep their types. int8"
            " quantises convolutions and products, by the ranges that samples show (--calibrate).",
        ),
        click.option(
            "--executor",
            type=click.Choice(EXECUTORS),
            default="auto",
            show_default=True,
            help="What runs the model: one compiled entry (aot), the graph kernel by kernel (graph), or the virtual machine (vm), which"
            " takes dynamic dimensions and control flow. auto: aot, and vm where the model needs it.",
        ),
        click.option(
            "--value",
            "values",
            type=ValueType(),
            multiple=True,
            help="Fix an input to a value, which then is none any more: sr=16000, axes=0,1, mask=mask.npy. May be given again.",
        ),
        click.option(
            "--outputs",
            type=NamesType(),
            default=[],
            help="Compute these instead of the model's outputs: names of outputs, of nodes, or of tensors between them (ONNX);"
            " new=old gives one another name. What they do not need is cut off.",
        ),
        click.option(
            "--inputs-at",
            type=NamesType(),
            default=[],
            help="Make the results of these nodes (or tensors) inputs: what comes before them is cut off.",
        ),
        click.option(
            "--calibrate",
            multiple=True,
            type=input_path,
            help="For --precision int8: an .npz with samples of the inputs, one or many along the first axis. May be given again.",
        ),
        click.option(
            "--check-bounds",
            is_flag=True,
            help="End a run with an error at an index outside of its axis, and at an integer divided by zero (docs/out_of_bounds.md).",
        ),
    ),
)
thread_option = click.option(
    "--threads",
    type=click.IntRange(1, 1024),
    default=None,
    help="Threads that kernels may use. [default: all that this process may run on]",
)
seed_option = click.option("--seed", type=int, default=0, show_default=True, help="Seed of the random inputs.")
feed_options = gathered(
    Feed,
    "feed",
    Feed.__slots__,
    (
        click.option(
            "-i",
            "--input",
            "files",
            multiple=True,
            type=input_path,
            help="An .npz with an array for each input, or NAME.npy. Inputs that are not given are random, which is said.",
        ),
        seed_option,
        click.option(
            "--run-shape",
            "run_shapes",
            type=ShapeType(),
            multiple=True,
            help="The shape of a random input whose sizes are left open: ids=4,100. Nothing is pinned by it.",
        ),
        click.option("--cast", is_flag=True, help="Convert inputs of other element types to the model's."),
        click.option("--strict", is_flag=True, help="Refuse to make up inputs that are not given."),
    ),
)

form_options = (
    click.option("--json", "as_json", is_flag=True, help="Print the result as JSON."),
    click.option("--csv", "as_csv", is_flag=True, help="Print the rows of the result as CSV."),
    click.option("-v", "--verbose", is_flag=True, help="Say each step on standard error."),
    click.option(
        "-q", "--quiet", is_flag=True, help="Say nothing but results and errors: no progress, notes or warnings."
    ),
)


def shown(command: F) -> F:
    """Adds --json, --csv, --verbose and --quiet; the command receives them as `form`."""

    @functools.wraps(command)
    def run(**given: Any) -> Any:
        from tilewright.cli.screen import Form

        names = ("as_json", "as_csv", "verbose", "quiet")
        return command(**{k: v for k, v in given.items() if k not in names}, form=Form(*[given[n] for n in names]))

    made: Any = run
    for option in reversed(form_options):
        made = option(made)
    decorated: F = made
    return decorated


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
