"""Models of commands: imports and compiles files of any format, loads libraries, makes executors."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tilewright.cli.devices import devices_of
from tilewright.cli.machine import MachineExecutor
from tilewright.cli.options import PRECISIONS, Build, check_writable
from tilewright.cli.screen import Report, noted, progress, shown_warnings, verbose
from tilewright.cli.subgraph import cut
from tilewright.cli.tensors import LIKELY_EXTENTS, Array, likely_extent, samples_of
from tilewright.ir import IntImm
from tilewright.support.errors import TVMError, said

LIBRARIES = (".so", ".dylib", ".wasm", ".tar", ".o", ".a", ".lib")


def compile_model(
    build: Build, instruments: Sequence[Any] = (), without: Sequence[str] = (), static: str = "aot"
) -> tuple[Any, dict[str, float]]:
    """Compiles a model file; returns the library and the seconds of import and compile.

    `instruments` watch the passes; `without`: relay passes to leave out; `static`: the executor of a static model at --executor auto.
    """
    chosen = checked_target(build.target)
    start = time.perf_counter()
    with progress("compiling kernels") as report, shown_warnings():
        report(0, 0, "importing")
        mod, params = imported_model(build)
        imported = time.perf_counter()
        executor = executor_for(build, mod, static)
        verbose(f"{build.model}: imported in {imported - start:.2f} s; runs by {executor}; target {chosen}")
        library = build_module(
            mod,
            params,
            chosen,
            build.opt_level,
            build.precision,
            report,
            instruments,
            executor,
            without,
            build.check_bounds,
            build.records,
        )
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
    check_bounds: bool = False,
    records: Path | None = None,
) -> Any:
    """Compiles an imported module to a library."""
    import tilewright as tvm
    from tilewright import relay

    config: dict[str, Any] = dict(precision_config(precision))
    if check_bounds:
        config["relay.check_bounds"] = True
    if records is not None:
        config["relay.plans"] = str(records)
    with tvm.transform.PassContext(opt_level, disabled_pass=without, instruments=instruments, config=config):
        if executor == "vm":
            return relay.vm.compile(mod, target, params=params, progress=report)
        return relay.build(mod, target=target, params=params, executor=executor, progress=report)


def imported_model(build: Build) -> tuple[Any, Any]:
    """Imports a model file, replaces inputs by constants, cuts and quantises the model as asked; returns module and parameters."""
    form = format_of(build.model)
    values = {name: fixed_value(name, text) for name, text in build.values}
    if values:
        mod, params = form.load_fixed(build.model, dict(build.shapes), values)
    else:
        mod, params = form.load(build.model, dict(build.shapes))
    if build.outputs or build.inputs_at:
        mod = cut(mod, form, build.model, build.outputs, build.inputs_at)
        kept = {p.name_hint for p in mod["main"].params}
        params = {name: value for name, value in params.items() if name in kept}
    if build.precision == "int8":
        return quantised(build, mod, params), {}
    if build.calibrate:
        raise TVMError(f"--calibrate goes with --precision int8, not with {build.precision}")
    return mod, params


def fixed_value(name: str, text: str) -> Array:
    """The array that --value gives an input: numbers, or an .npy file."""
    import numpy as np

    if text.endswith(".npy"):
        from tilewright.cli.tensors import read_arrays

        try:
            return next(iter(read_arrays(Path(text)).values()))
        except OSError as error:
            raise TVMError(f"--value {name}={text}: this .npy file cannot be read: {said(error)}") from error
    words = text.split(",")
    constants = {"true": True, "false": False}
    try:
        numbers = [constants[w.lower()] if w.lower() in constants else _number(w) for w in words]
    except ValueError:
        raise TVMError(
            f"--value {name}={text}: a value is a number, numbers separated by commas, true, false, or a file NAME.npy"
        ) from None
    value = np.array(numbers if len(numbers) > 1 else numbers[0])
    if value.dtype == object:
        raise TVMError(f"--value {name}={text}: a number in it is too large for 64 bits")
    return value


def _number(word: str) -> int | float:
    try:
        return int(word)
    except ValueError:
        return float(word)


def quantised(build: Build, mod: Any, params: Any) -> Any:
    """The module with convolutions and products in int8, with ranges taken from the samples."""
    from tilewright import relay
    from tilewright.relay.frontend.common.formats import type_info
    from tilewright.relay.frontend.common.module import is_static
    from tilewright.relay.parameters import bind_params
    from tilewright.relay.typing.infer_type import infer_module

    if not build.calibrate:
        raise TVMError(
            "--precision int8 needs samples of the inputs to find the ranges of activations: give --calibrate samples.npz"
        )
    if not is_static(mod):
        raise TVMError(
            f"{build.model}: --precision int8 takes models with static dimensions and without control flow;"
            f" {pins_text(build, mod)}"
        )
    bound = infer_module(bind_params(mod, params))
    inputs = [type_info(p.name_hint, p.checked_type) for p in bound["main"].params]
    samples = samples_of(build.calibrate, inputs)
    verbose(f"calibrating on {len(samples)} samples")
    settings: dict[str, Any] = {"calibrate_mode": "percentile", "weight_scale": "channel", "skip_dense_layer": False}
    with relay.quantize.qconfig(**settings):
        return relay.quantize.quantize(bound, dataset=samples)


def format_of(model: Path) -> Any:
    """The format of a model file. Raises TVMError for a compiled library."""
    from tilewright.relay.frontend.common import formats

    if model.suffix in LIBRARIES:
        raise TVMError(f"{model} is a compiled library; this command takes the model file that it was compiled from")
    return formats.format_of(model)


def precision_config(precision: str) -> dict[str, str]:
    """The pass options of a precision; none for int8, since the module itself is quantised."""
    return {"relay.build.precision": PRECISIONS[precision]} if PRECISIONS.get(precision, "float32") != "float32" else {}


def executor_for(build: Build, mod: Any, static: str = "aot") -> str:
    """The executor of a module: the one that was asked for, else the virtual machine if only that can run it. Raises TVMError if the
    one that was asked for cannot."""
    from tilewright.relay.frontend.common.module import is_static

    if build.executor == "vm":
        return "vm"
    if is_static(mod):
        return static if build.executor == "auto" else build.executor
    left = dynamic_dimensions(mod)
    if build.executor != "auto":
        raise TVMError(
            f"{build.model}: --executor {build.executor} needs static dimensions and a fixed order of kernels, but {why_not_static(mod)};"
            f" use --executor vm{', or ' + pins_text(build, mod) if left else ''}"
        )
    faster = "; pinned dimensions (--shape) run faster" if left else ""
    noted(f"{why_not_static(mod)}, so it runs in the virtual machine{faster}")
    return "vm"


def dynamic_dimensions(mod: Any) -> dict[str, tuple[Any, ...]]:
    """The extents of inputs that have dynamic dimensions."""
    found = {}
    for param in mod["main"].params:
        dims = getattr(param.type_annotation, "shape", None) or ()
        if not all([isinstance(d, IntImm) for d in dims]):
            found[param.name_hint] = tuple(dims)
    return found


def why_not_static(mod: Any) -> str:
    """The reason why a module is not one graph of static dimensions, for messages."""
    left = dynamic_dimensions(mod)
    if left:
        found = ", ".join([f"{name} ({', '.join(map(str, dims))})" for name, dims in left.items()])
        return f"the model has dynamic dimensions: {found}"
    return "the model has control flow, or results whose size depends on the data"


def pins_text(build: Build, mod: Any) -> str:
    """Pins to propose: the first likely extents with which the model imports and is static."""
    from tilewright.relay.frontend.common.module import is_static

    left = dynamic_dimensions(mod)
    if not left:
        return "nothing can be pinned"
    for turn in range(len(LIKELY_EXTENTS)):
        pins = likely_pins(left, turn)
        try:
            tried, _ = imported_model(build.but(shapes=[*build.shapes, *pins.items()], precision="fp32", calibrate=()))
        except Exception:
            continue
        if is_static(tried):
            return "pin them, such as " + " ".join([f"--shape {n}={','.join(map(str, p))}" for n, p in pins.items()])
        return "pinning them is not enough: the model also has control flow, or results whose size depends on the data"
    return "pin them: " + " ".join([f"--shape {n}={','.join(map(str, dims))}" for n, dims in left.items()])


def likely_pins(left: Mapping[str, Sequence[Any]], turn: int) -> dict[str, tuple[int, ...]]:
    """Extents to try for dynamic dimensions, different ones at each turn."""
    return {
        name: tuple(
            [d.value if isinstance(d, IntImm) else likely_extent(k, len(dims), turn) for k, d in enumerate(dims)]
        )
        for name, dims in left.items()
    }


def check_library(output: Path, target: str) -> None:
    """Raises TVMError if a library cannot be written to a file: its suffix is unknown, the folder is not writable, there is no linker."""
    from tilewright.codegen.backend import back_end_of
    from tilewright.support.linker import need_writer

    if output.suffix not in (".so", ".dylib", ".dll", ".wasm", ".a", ".lib", ".tar", ".o", ".ll", ".s"):
        raise TVMError(
            f"--output {output}: the suffix is {output.suffix or 'empty'}, but must be .so, .dylib, .dll, .wasm, .a, .tar, .o, .ll or .s"
        )
    check_writable(output, "--output")
    if output.suffix not in (".ll", ".s"):
        made_for = checked_target(target)
        need_writer(output, back_end_of(made_for, "tilewright compile").object_kind(made_for))


def checked_target(text: str) -> Any:
    """The target of a text. Raises TVMError if it is wrong."""
    from tilewright.target import Target

    try:
        return Target(text)
    except (ValueError, TypeError) as error:
        raise TVMError(f"--target {text!r}: {error}") from error


def load_or_compile(build: Build) -> tuple[Any, dict[str, float]]:
    """Loads a library, or compiles a model file."""
    if build.model.suffix not in LIBRARIES:
        return compile_model(build)
    fixed = {
        "--shape": ("shapes are", bool(build.shapes)),
        "--precision": ("precision is", build.precision != "fp32"),
        "--executor": ("executor is", build.executor != "auto"),
        "--value": ("inputs are", bool(build.values)),
        "--outputs": ("outputs are", bool(build.outputs)),
        "--inputs-at": ("inputs are", bool(build.inputs_at)),
        "--calibrate": ("precision is", bool(build.calibrate)),
        "--check-bounds": ("checks are", build.check_bounds),
        "--records": ("kernels are", build.records is not None),
    }
    for option, (what, given) in fixed.items():
        if given:
            raise TVMError(f"{build.model} is a compiled library, so its {what} fixed; {option} needs a model file")
    start = time.perf_counter()
    return load_library(build.model), {"load": time.perf_counter() - start}


def load_library(path: Path) -> Any:
    """Loads a compiled library."""
    from tilewright import runtime

    if path.suffix not in LIBRARIES:
        raise TVMError(
            f"{path} is not a compiled library ({', '.join(LIBRARIES)}); make one with: tilewright compile {path} -o model.so"
        )
    try:
        return runtime.load_module(str(path))
    except (ValueError, RuntimeError) as error:
        raise TVMError(str(error)) from error


def metadata_of(library: Any) -> dict[str, Any]:
    """The metadata of a library; empty if it has none."""
    try:
        found: dict[str, Any] = json.loads(library["get_metadata"]())
    except AttributeError:
        return {}
    return found


def executor_of(library: Any) -> Any:
    """A graph executor on the devices that a library was compiled for, or an object with the same methods."""
    from tilewright.contrib import graph_executor

    try:
        make = library["default"]
    except AttributeError:
        raise TVMError(
            "the library holds functions, but no model; use a library that `tilewright compile` wrote"
        ) from None
    facts = metadata_of(library)
    try:
        if facts.get("executor") == "vm":
            return MachineExecutor(library, facts)
        return graph_executor.GraphModule(make(*devices_of(facts)))
    except (ValueError, RuntimeError) as error:
        raise TVMError(str(error)) from error
