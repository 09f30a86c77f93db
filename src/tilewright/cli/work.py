"""What the commands are made of: importing, compiling with progress, making inputs, timing."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from tilewright.node.leaves import numpy_dtype
from tilewright.support.errors import TVMError

console = Console(stderr=True)


@contextmanager
def progress() -> Iterator[Callable[[int, int, str], None]]:
    """Yields `report(done, total, what)`; shows a bar with an ETA while there is a terminal to show it on."""
    with Progress(
        SpinnerColumn(),
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
        console=console,
        transient=True,
    ) as bar:
        task = bar.add_task("importing", total=None)

        def report(done: int, total: int, what: str) -> None:
            bar.update(task, completed=done, total=total, description=what)

        yield report


def compile_model(
    model: Path, shapes: Sequence[tuple[str, tuple[int, ...]]], target: str, opt_level: int
) -> tuple[Any, dict[str, float]]:
    """The library of a model file, and the seconds that importing and compiling took."""
    import tilewright as tvm
    from tilewright import relay

    start = time.perf_counter()
    with progress() as report:
        mod, params = relay.frontend.from_onnx(model, shape=dict(shapes) or None)
        imported = time.perf_counter()
        with tvm.transform.PassContext(opt_level=opt_level):
            library = relay.build(mod, target=target, params=params, progress=report)
    return library, {"import": imported - start, "compile": time.perf_counter() - imported}


def load_or_compile(
    path: Path, shapes: Sequence[tuple[str, tuple[int, ...]]], target: str, opt_level: int
) -> tuple[Any, dict[str, float]]:
    """The executor factory of a library file, or of a model file compiled now."""
    from tilewright import runtime

    if path.suffix in (".so", ".tar"):
        if shapes:
            raise TVMError(f"{path} is compiled already, so its shapes are fixed; --shape goes with a model file")
        start = time.perf_counter()
        return runtime.load_module(str(path)), {"load": time.perf_counter() - start}
    return compile_model(path, shapes, target, opt_level)


def executor_of(library: Any) -> Any:
    """A graph executor on the CPU for a library."""
    import tilewright as tvm
    from tilewright.contrib import graph_executor

    return graph_executor.GraphModule(library["default"](tvm.cpu()))


def random_input(shape: Sequence[int], dtype: str, rng: np.random.Generator) -> np.ndarray[Any, Any]:
    """Values a model can take: normal for floats, small indices for integers, ones for masks."""
    kind = numpy_dtype(dtype)
    if np.issubdtype(kind, np.integer):
        return rng.integers(0, 2, size=shape).astype(kind)
    if kind == np.bool_:
        return np.ones(shape, kind)
    return rng.standard_normal(shape).astype(kind)


def read_inputs(paths: Sequence[Path]) -> dict[str, np.ndarray[Any, Any]]:
    """Arrays by input name from .npz archives, and from .npy files by the file's stem."""
    inputs: dict[str, np.ndarray[Any, Any]] = {}
    for path in paths:
        try:
            loaded = np.load(path, allow_pickle=False)
        except (ValueError, OSError, EOFError) as error:
            raise TVMError(f"{path} is no .npz or .npy file that can be read: {error}") from error
        if isinstance(loaded, np.ndarray):
            inputs[path.stem] = loaded
        else:
            with loaded:
                inputs.update({name: loaded[name] for name in loaded.files})
    return inputs


def timed(run: Callable[[], Any], seconds: float, least: int = 5) -> np.ndarray[Any, Any]:
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
