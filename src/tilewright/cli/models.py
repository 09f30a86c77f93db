"""Models as commands take them: files of any format imported and compiled, libraries loaded, executors made."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tilewright.cli.options import PRECISIONS, Shapes
from tilewright.cli.screen import Report, progress, shown_warnings
from tilewright.ir import IntImm
from tilewright.support.errors import TVMError

LIBRARIES = (".so", ".dylib", ".tar", ".o")


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
