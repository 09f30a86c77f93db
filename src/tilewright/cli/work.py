"""What the commands are made of: importing, compiling with progress, making inputs, timing."""

from __future__ import annotations

import io
import os
import time
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from tilewright.cli.options import PRECISIONS
from tilewright.ir import IntImm
from tilewright.node.leaves import numpy_dtype
from tilewright.support.errors import TVMError
from tilewright.support.files import write_whole

console = Console(stderr=True)
Array = np.ndarray[Any, Any]
Report = Callable[[int, int, str], None]
Shapes = Sequence[tuple[str, tuple[int, ...]]]
LIBRARIES = (".so", ".dylib", ".tar", ".o")
QUIET_SECONDS = 5.0


@contextmanager
def progress(title: str) -> Iterator[Report]:
    """Yields `report(done, total, what)`: a bar with the time left on a terminal, else a line every few seconds."""
    if not console.is_terminal:
        yield line_report(title)
        return
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=console, transient=True) as bar:
        task = bar.add_task(title, total=None)

        def report(done: int, total: int, what: str) -> None:
            bar.update(task, completed=done, total=total, description=what if len(what) <= 40 else what[:37] + "...")

        yield report


def line_report(title: str) -> Report:
    """Progress for logs. What came before the first report of a number (importing, passes) says nothing of the time left."""
    shown = time.monotonic()
    begun: tuple[float, int] | None = None

    def report(done: int, total: int, what: str) -> None:
        nonlocal shown, begun
        now = time.monotonic()
        if begun is None and total:
            begun = now, done
        if begun is not None and done > begun[1] and now - shown >= QUIET_SECONDS:
            shown = now
            left = (now - begun[0]) / (done - begun[1]) * (total - done)
            console.print(f"{title}: {done} of {total}, about {left:.0f} s left", highlight=False)

    return report


def compile_model(
    model: Path,
    shapes: Shapes,
    target: str,
    opt_level: int,
    instruments: Sequence[Any] = (),
    executor: str = "aot",
    precision: str = "fp32",
    without: Sequence[str] = (),
) -> tuple[Any, dict[str, float]]:
    """The library of a model file, and the seconds that importing and compiling took. `instruments` watch the passes; `executor` is
    what the library runs by; `precision` one of PRECISIONS; `without`: relay passes that are left out."""
    chosen = checked_target(target)
    start = time.perf_counter()
    with progress("compiling kernels") as report, shown_warnings():
        report(0, 0, "importing")
        mod, params = imported_model(model, shapes)
        imported = time.perf_counter()
        check_shapes(model, mod["main"])
        library = build_module(mod, params, chosen, opt_level, precision, report, instruments, executor, without)
    return library, {"import": imported - start, "compile": time.perf_counter() - imported}


def build_module(
    mod: Any,
    params: Any,
    target: Any,
    opt_level: int,
    precision: str = "fp32",
    report: Report | None = None,
    instruments: Sequence[Any] = (),
    executor: str = "graph",
    without: Sequence[str] = (),
) -> Any:
    """The library of an imported module."""
    import tilewright as tvm
    from tilewright import relay

    config = precision_config(precision)
    with tvm.transform.PassContext(opt_level, disabled_pass=without, instruments=instruments, config=config):
        return relay.build(mod, target=target, params=params, executor=executor, progress=report)


def imported_model(model: Path, shapes: Shapes) -> tuple[Any, Any]:
    """A model file of any known format as a module and its parameters; what is float32 between quantised tensors runs on integers."""
    mod, params = format_of(model).load(model, dict(shapes))
    return mod, params


def format_of(model: Path) -> Any:
    """The format of a model file; one that is compiled already is none."""
    from tilewright.relay.frontend.common import formats

    if model.suffix in LIBRARIES:
        raise TVMError(f"{model} is compiled already; this command takes the model that it was made from")
    return formats.format_of(model)


def precision_config(precision: str) -> dict[str, str]:
    """The options of a build at one of PRECISIONS."""
    return {} if precision == "fp32" else {"relay.build.precision": PRECISIONS[precision]}


def memory_of(model: Path, shapes: Shapes, target: str, opt_level: int, precision: str = "fp32") -> Any:
    """The memory report of a model file; its kernels are not compiled."""
    import tilewright as tvm
    from tilewright.relay.backend.compilation import plan_memory

    chosen = checked_target(target)
    with shown_warnings():
        mod, params = imported_model(model, shapes)
        check_shapes(model, mod["main"])
        with tvm.transform.PassContext(opt_level=opt_level, config=precision_config(precision)):
            return plan_memory(mod, chosen, params)


def check_shapes(model: Path, main: Any) -> None:
    """TVMError with the options to give where inputs have open dimensions."""
    open_inputs = {}
    for param in main.params:
        dims = param.type_annotation.shape
        if not all([isinstance(d, IntImm) for d in dims]):
            open_inputs[param.name_hint] = dims
    if not open_inputs:
        return
    found = ", ".join([f"{name} ({', '.join(map(str, dims))})" for name, dims in open_inputs.items()])
    pins = [
        f"{n}={','.join([str(d) if isinstance(d, IntImm) else '1' for d in dims])}" for n, dims in open_inputs.items()
    ]
    remedy = " ".join([f"--shape {pin}" for pin in pins])
    raise TVMError(
        f"{model}: compiled code has fixed sizes, but the model leaves some open: {found}; pin them, such as {remedy}"
    )


def checked_target(text: str) -> Any:
    """The target; its mistakes are the user's."""
    from tilewright.target import Target

    try:
        return Target(text)
    except (ValueError, TypeError) as error:
        raise TVMError(f"--target {text!r}: {error}") from error


@contextmanager
def shown_warnings() -> Iterator[None]:
    """Warnings as lines of their own, without the source line that raised them; not those for the authors of other packages."""
    with warnings.catch_warnings():
        warnings.showwarning = lambda message, *rest, **options: console.print(
            f"warning: {message}", highlight=False, soft_wrap=True
        )
        warnings.simplefilter("always")
        warnings.simplefilter("ignore", DeprecationWarning)
        yield


def load_or_compile(
    path: Path, shapes: Shapes, target: str, opt_level: int, precision: str = "fp32"
) -> tuple[Any, dict[str, float]]:
    """The executor factory of a library file, or of a model file compiled now."""
    if path.suffix in LIBRARIES:
        if shapes:
            raise TVMError(f"{path} is compiled already, so its shapes are fixed; --shape goes with a model file")
        if precision != "fp32":
            raise TVMError(f"{path} is compiled already, so its precision is fixed; --precision goes with a model file")
        start = time.perf_counter()
        return load_library(path), {"load": time.perf_counter() - start}
    return compile_model(path, shapes, target, opt_level, precision=precision)


def load_library(path: Path) -> Any:
    """A compiled model from a file."""
    from tilewright import runtime

    if path.suffix not in LIBRARIES:
        raise TVMError(
            f"{path} is no compiled library ({', '.join(LIBRARIES)}); make one with: tilewright compile {path} -o model.so"
        )
    try:
        return runtime.load_module(str(path))
    except (ValueError, RuntimeError) as error:
        raise TVMError(str(error)) from error


def executor_of(library: Any) -> Any:
    """A graph executor on the CPU for a library."""
    import tilewright as tvm
    from tilewright.contrib import graph_executor

    try:
        make = library["default"]
    except AttributeError:
        raise TVMError(
            "the library holds functions, but no model; run and profile take what `tilewright compile` wrote"
        ) from None
    try:
        return graph_executor.GraphModule(make(tvm.cpu()))
    except (ValueError, RuntimeError) as error:
        raise TVMError(str(error)) from error


def input_table(executor: Any) -> dict[str, tuple[tuple[int, ...], str]]:
    """Shape and dtype by input name."""
    shapes, dtypes = executor.get_input_info()
    return {name: (tuple([int(d) for d in shape]), str(dtypes[name])) for name, shape in shapes.items()}


def describe_inputs(table: Mapping[str, tuple[tuple[int, ...], str]]) -> str:
    """`x float32 1x3x48x192, ...`, for messages."""
    return ", ".join(
        [f"{name} {dtype} {'x'.join(map(str, shape)) or 'scalar'}" for name, (shape, dtype) in table.items()]
    )


def fill_inputs(executor: Any, given: Mapping[str, Array], seed: int) -> dict[str, Array]:
    """Sets every input, from `given` or at random; names, shapes and dtypes must be the model's."""
    table = input_table(executor)
    for name, value in given.items():
        if name not in table:
            raise TVMError(f"the model has no input {name!r}; its inputs are: {describe_inputs(table)}")
        shape, dtype = table[name]
        if value.shape != shape or value.dtype != numpy_dtype(dtype):
            found = describe_inputs({name: (value.shape, value.dtype.name)})
            raise TVMError(
                f"input {found} does not fit the model, which takes {describe_inputs({name: (shape, dtype)})}"
            )
    rng = np.random.default_rng(seed)
    values = {
        name: given[name] if name in given else random_input(shape, dtype, rng)
        for name, (shape, dtype) in table.items()
    }
    for name, value in values.items():
        executor.set_input(name, np.asarray(value, order="C"))
    return values


def output_names(executor: Any) -> list[str]:
    """Names of the outputs in order."""
    if hasattr(executor, "names"):
        return list(executor.names)
    return [str(executor.module["get_output_name"](i)) for i in range(executor.get_num_outputs())]


def random_input(shape: Sequence[int], dtype: str, rng: np.random.Generator) -> Array:
    """Values a model can take: normal for floats, small indices for integers, ones for masks."""
    kind = numpy_dtype(dtype)
    if np.issubdtype(kind, np.integer):
        return rng.integers(0, 2, size=shape).astype(kind)
    if kind == np.bool_:
        return np.ones(shape, kind)
    return rng.standard_normal(shape).astype(kind)


def read_inputs(paths: Sequence[Path]) -> dict[str, Array]:
    """Arrays by input name from .npz archives, and from .npy files by the file's stem."""
    inputs: dict[str, Array] = {}
    for path in paths:
        with path.open("rb") as file:
            mark = file.read(6)
        # NumPy would take anything else for pickled objects, and propose to load them unsafely.
        if mark != b"\x93NUMPY" and mark[:2] != b"PK":
            raise TVMError(
                f"{path} is no .npz or .npy file; numpy.savez({path.stem + '.npz'!r}, name=array) writes one"
            )
        try:
            loaded = np.load(path, allow_pickle=False)
            if isinstance(loaded, np.ndarray):
                inputs[path.stem] = loaded
            else:
                with loaded:
                    inputs.update({name: loaded[name] for name in loaded.files})
        except Exception as error:  # zipfile, pickle and NumPy raise many kinds
            raise TVMError(f"{path} is no .npz or .npy file that can be read: {error}") from error
    return inputs


def check_writable(path: Path, option: str) -> None:
    """TVMError where a file could not be written: said before minutes of work, not after."""
    if path.is_dir():
        raise TVMError(f"{option} {path}: that is a folder; give the name of a file in it")
    if not path.parent.is_dir():
        raise TVMError(f"{option} {path}: the folder {path.parent} does not exist; create it first")
    if not os.access(path if path.exists() else path.parent, os.W_OK):
        raise TVMError(f"{option} {path}: {path.parent} cannot be written by this user; give another place")


def write_outputs(path: Path, results: Mapping[str, Array]) -> None:
    """An .npz of the results."""
    data = io.BytesIO()
    np.savez(data, **results)  # type: ignore[arg-type]
    write_whole(path, data.getvalue())


def timed(run: Callable[[], Any], seconds: float, least: int = 5) -> Array:
    """Milliseconds of calls made for about that many seconds, after two calls that do not count."""
    run()
    run()
    times: list[float] = []
    stop = time.perf_counter() + seconds
    while len(times) < least or time.perf_counter() < stop:
        start = time.perf_counter()
        run()
        times.append((time.perf_counter() - start) * 1e3)
    return np.array(times)


def in_bytes(count: float) -> str:
    """`16 B`, `4.2 KB`, `102.5 MB` (of a thousand each)."""
    if count < 1000:
        return f"{count:.0f} B"
    for unit in ("KB", "MB"):
        count /= 1000
        if count < 999.95:
            return f"{count:.1f} {unit}"
    return f"{count / 1000:.1f} GB"
