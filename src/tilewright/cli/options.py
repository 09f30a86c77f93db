"""Options that several commands share, and the checks of their values."""

from __future__ import annotations

import functools
import math
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
"""Floating-point types of --precision. int8 is not among them, because it needs samples."""
EXECUTORS = ("auto", "aot", "graph", "vm")


class Build:
    """What a command compiles, and how: a model file or a compiled library, and the options of its import and build."""

    __slots__ = (
        "calibrate", "check_bounds", "executor", "inputs_at", "model", "opt_level", "outputs", "precision", "records", "shapes", "target",
        "values",
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
        records: Path | None = None,
    ) -> None:
        self.model, self.shapes, self.target, self.opt_level = model, tuple(shapes), target, opt_level
        self.precision, self.executor, self.values = precision, executor, tuple(values)
        self.outputs, self.inputs_at, self.calibrate = tuple(outputs), tuple(inputs_at), tuple(calibrate)
        self.check_bounds, self.records = check_bounds, records

    def but(self, **changes: Any) -> Build:
        """The same with other options."""
        return Build(**{**{name: getattr(self, name) for name in self.__slots__}, **changes})

    def words(self) -> list[str]:
        """The options, as the words of a command; not the model, and not --records."""
        plain = Build(self.model)
        single = {
            "target": "--target",
            "opt_level": "--opt-level",
            "precision": "--precision",
            "executor": "--executor",
        }
        found = [
            w for n, o in single.items() if getattr(self, n) != getattr(plain, n) for w in (o, str(getattr(self, n)))
        ]
        for name, pin in self.shapes:
            dtype = f":{pin.dtype}" if isinstance(pin, Pinned) and pin.dtype else ""
            found += ["--shape", f"{name}={','.join(map(str, pin))}{dtype}"]
        for name, text in self.values:
            found += ["--value", f"{name}={text}"]
        for option, names in (("--outputs", self.outputs), ("--inputs-at", self.inputs_at)):
            found += [option, ",".join(names)] if names else []
        for path in self.calibrate:
            found += ["--calibrate", str(path)]
        return [*found, *(["--check-bounds"] if self.check_bounds else [])]


class Feed:
    """The source of inputs: files, and random values (`seed`) for the inputs that the files lack.

    `run_shapes`: shapes of random inputs with dynamic dimensions; `cast`: convert element types; `strict`: refuse random inputs.
    """

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
        """The same files with other random values, for a further set of inputs."""
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
        if not all([part for n in names for part in n.split("=", 1)]):
            self.fail(f"{value!r} is not a list of names such as layer3,layer4", param, ctx)
        need_once([n.split("=", 1)[0] for n in names])
        return names


class FiniteRange(click.FloatRange):
    """A finite number within bounds. NaN is within all bounds, as it compares."""

    def convert(self, value: Any, param: Any, ctx: Any) -> float:
        number: float = super().convert(value, param, ctx)
        if not math.isfinite(number):
            self.fail(f"{value!r} is not a finite number", param, ctx)
        return number


def need_once(names: Sequence[str]) -> None:
    """Raises BadParameter if a name is given twice: one of the two would count for nothing."""
    twice = next((n for k, n in enumerate(names) if n in names[:k]), None)
    if twice is not None:
        raise click.BadParameter(f"{twice!r} is given twice")


def named_once(
    ctx: click.Context, param: click.Parameter, given: Sequence[tuple[str, Any]]
) -> Sequence[tuple[str, Any]]:
    """The values of an option NAME=VALUE, each of a name of its own."""
    need_once([name for name, _ in given])
    return given


model_argument = click.argument("model", type=click.Path(exists=True, path_type=Path))
shape_option = click.option(
    "--shape",
    "shapes",
    type=ShapeType(),
    multiple=True,
    callback=named_once,
    help="Pin the shape of an input: name=1,3,48,320; with an element type for TorchScript: ids=1,16:int64. Repeat for each input."
    " Dimensions that stay dynamic run in the virtual machine; pinned dimensions run faster.",
)
target_option = click.option(
    "--target",
    default="llvm",
    show_default="the host's CPU",
    help="The machine to compile for: a board (raspberry-pi/5; `tilewright targets` lists them), a triple (aarch64-linux-gnu), or a target"
    " such as 'llvm -mcpu=skylake-avx512'. Options may follow: 'aarch64-linux-gnu -mcpu=cortex-a76'. With -num-cores=4 the code is for four"
    " threads.",
)
output_path = click.Path(dir_okay=False, path_type=Path)
input_path = click.Path(exists=True, dir_okay=False, path_type=Path)


def gathered(kind: type, name: str, fields: Sequence[str], options: Sequence[Callable[..., Any]]) -> Callable[[F], F]:
    """A decorator that adds options to a command. The command receives their values as one object."""

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


build_options = (
    shape_option,
    target_option,
    click.option(
        "--opt-level", type=click.IntRange(0, 4), default=3, show_default=True, help="Run passes up to this level."
    ),
    click.option(
        "--precision",
        type=click.Choice([*PRECISIONS, "int8"]),
        default="fp32",
        show_default=True,
        help="Element type of weights and activations. Sums are float32; inputs and outputs keep their types. int8 quantises"
        " convolutions and matrix products, and needs samples of the inputs (--calibrate).",
    ),
    click.option(
        "--executor",
        type=click.Choice(EXECUTORS),
        default="auto",
        show_default=True,
        help="How the model runs: as one compiled entry (aot), as a graph, kernel by kernel (graph), or in the virtual machine (vm)."
        " Dynamic dimensions and control flow need vm. auto is vm if the model needs it, else aot.",
    ),
    click.option(
        "--value",
        "values",
        type=ValueType(),
        multiple=True,
        callback=named_once,
        help="Replace an input by a constant: sr=16000, axes=0,1, mask=mask.npy. Repeat for each input.",
    ),
    click.option(
        "--outputs",
        type=NamesType(),
        default=[],
        help="Compute these values instead of the model's outputs: names of outputs, nodes or (ONNX) tensors. new=old renames one."
        " Nodes that they do not need are removed.",
    ),
    click.option(
        "--inputs-at",
        type=NamesType(),
        default=[],
        help="Turn the results of these nodes or tensors into inputs. Nodes before them are removed.",
    ),
    click.option(
        "--calibrate",
        multiple=True,
        type=input_path,
        help="An .npz file with samples of the inputs, for --precision int8. An array may hold several samples along its first axis."
        " Repeat for more files.",
    ),
    click.option(
        "--check-bounds",
        is_flag=True,
        help="Stop a run with an error at an index out of bounds and at an integer division by zero (docs/out_of_bounds.md).",
    ),
)
records_option = click.option(
    "--records", type=input_path, help="Use the fastest kernels among these records of `tilewright tune`."
)
model_options = gathered(Build, "build", Build.__slots__, (model_argument, *build_options, records_option))
thread_option = click.option(
    "--threads",
    type=click.IntRange(1, 1024),
    default=None,
    help="Number of threads that kernels use.  [default: one per CPU that the process may use]",
)
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
            help="An .npz file with an array for each input, or NAME.npy. Inputs that are not given are random, and a note says so.",
        ),
        click.option("--seed", type=click.IntRange(0), default=0, show_default=True, help="Seed of the random inputs."),
        click.option(
            "--run-shape",
            "run_shapes",
            type=ShapeType(),
            multiple=True,
            callback=named_once,
            help="Shape of a random input that has dynamic dimensions: ids=4,100. The dimensions stay dynamic.",
        ),
        click.option("--cast", is_flag=True, help="Convert inputs to the element types of the model."),
        click.option("--strict", is_flag=True, help="Refuse to run with random inputs."),
    ),
)

duration_option = click.option(
    "--duration",
    "--seconds",
    "seconds",
    type=FiniteRange(0.1),
    default=3.0,
    show_default=True,
    help="Measuring time in seconds.",
)


def top_option(default: int, rows: str) -> Callable[[F], F]:
    """--top: how many rows a table has."""
    return click.option(
        "--top", type=click.IntRange(1), default=default, show_default=True, help=f"Number of {rows} to show."
    )


form_options = (
    click.option("--json", "as_json", is_flag=True, help="Print the result as JSON."),
    click.option("--csv", "as_csv", is_flag=True, help="Print the rows of the result as CSV."),
    click.option("-v", "--verbose", is_flag=True, help="Report each step on standard error."),
    click.option("-q", "--quiet", is_flag=True, help="Print results and errors only: no progress, notes or warnings."),
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
    """Sets the number of threads of kernels, if --threads is given."""
    if threads is not None:
        from tilewright import runtime

        runtime.set_num_threads(threads)


def check_writable(path: Path, option: str) -> None:
    """Raises TVMError if a file cannot be written: before minutes of work, not after."""
    if path.is_dir():
        raise TVMError(f"{option} {path}: this is a folder; name a file in it")
    if not path.parent.is_dir():
        raise TVMError(f"{option} {path}: the folder {path.parent} does not exist; create it first")
    if not os.access(path if path.exists() else path.parent, os.W_OK):
        raise TVMError(f"{option} {path}: this user cannot write in {path.parent}; choose another folder")
