"""Models as commands take them: files of any format imported and compiled, libraries loaded, executors made."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tilewright.cli.machine import MachineExecutor
from tilewright.cli.options import PRECISIONS, Build
from tilewright.cli.screen import Report, noted, progress, shown_warnings, verbose
from tilewright.cli.subgraph import cut
from tilewright.cli.tensors import LIKELY_EXTENTS, Array, likely_extent, samples_of
from tilewright.ir import IntImm
from tilewright.support.errors import TVMError, said

LIBRARIES = (".so", ".dylib", ".tar", ".o")


def compile_model(
    build: Build, instruments: Sequence[Any] = (), without: Sequence[str] = (), static: str = "aot"
) -> tuple[Any, dict[str, float]]:
    """The library of a model file, and the seconds that importing and compiling took. `instruments` watch the passes; `without`: relay
    passes that are left out; `static`: what runs it where nothing else is asked for or needed."""
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
) -> Any:
    """The library of an imported module."""
    import tilewright as tvm
    from tilewright import relay

    config: dict[str, Any] = {**precision_config(precision), **({"relay.check_bounds": True} if check_bounds else {})}
    with tvm.transform.PassContext(opt_level, disabled_pass=without, instruments=instruments, config=config):
        if executor == "vm":
            return relay.vm.compile(mod, target, params=params, progress=report)
        return relay.build(mod, target=target, params=params, executor=executor, progress=report)


def imported_model(build: Build) -> tuple[Any, Any]:
    """A model file of any known format as a module and its parameters: inputs fixed, cut to what is asked for, quantised."""
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
    """What --value gives an input: numbers, or the array of an .npy file."""
    import numpy as np

    if text.endswith(".npy"):
        try:
            loaded: Array = np.load(text, allow_pickle=False)
            return loaded
        except (OSError, ValueError) as error:
            raise TVMError(f"--value {name}={text}: this is no .npy file that can be read: {said(error)}") from error
    words = text.split(",")
    constants = {"true": True, "false": False}
    try:
        numbers = [constants[w.lower()] if w.lower() in constants else _number(w) for w in words]
    except ValueError:
        raise TVMError(
            f"--value {name}={text}: a value is a number, several with commas between, true, false, or a file NAME.npy"
        ) from None
    return np.array(numbers if len(numbers) > 1 else numbers[0])


def _number(word: str) -> int | float:
    try:
        return int(word)
    except ValueError:
        return float(word)


def quantised(build: Build, mod: Any, params: Any) -> Any:
    """The module with its convolutions and products in int8, by the ranges that the samples show."""
    from tilewright import relay
    from tilewright.relay.frontend.common.formats import type_info
    from tilewright.relay.frontend.common.module import is_static
    from tilewright.relay.parameters import bind_params
    from tilewright.relay.typing.infer_type import infer_module

    if not build.calibrate:
        raise TVMError(
            "--precision int8 needs samples of the inputs, which show the ranges of activations: give --calibrate samples.npz"
        )
    if not is_static(mod):
        raise TVMError(
            f"{build.model}: --precision int8 takes models whose sizes are known, and which do not decide at run time;"
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
    """The format of a model file; one that is compiled already is none."""
    from tilewright.relay.frontend.common import formats

    if model.suffix in LIBRARIES:
        raise TVMError(f"{model} is compiled already; this command takes the model that it was made from")
    return formats.format_of(model)


def precision_config(precision: str) -> dict[str, str]:
    """The options of a build at one of PRECISIONS; a module in int8 says by itself what it is."""
    return {"relay.build.precision": PRECISIONS[precision]} if PRECISIONS.get(precision, "float32") != "float32" else {}


def executor_for(build: Build, mod: Any, static: str = "aot") -> str:
    """What runs a module: what was asked for, or the virtual machine where nothing else can. TVMError where what was asked for
    cannot."""
    from tilewright.relay.frontend.common.module import is_static

    if build.executor == "vm":
        return "vm"
    if is_static(mod):
        return static if build.executor == "auto" else build.executor
    left = dynamic_dimensions(mod)
    if build.executor != "auto":
        raise TVMError(
            f"{build.model}: --executor {build.executor} has fixed sizes and a fixed order of kernels, but {why_not_static(mod)};"
            f" --executor vm takes it as it is{', or ' + pins_text(build, mod) if left else ''}"
        )
    faster = "; sizes that are pinned (--shape) run faster" if left else ""
    noted(f"{why_not_static(mod)}, so the virtual machine runs it{faster}")
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
    """What keeps a module from being one graph of known sizes, in words."""
    left = dynamic_dimensions(mod)
    if left:
        found = ", ".join([f"{name} ({', '.join(map(str, dims))})" for name, dims in left.items()])
        return f"the model leaves sizes open: {found}"
    return "the model decides at run time what it computes, or how large its results are"


def pins_text(build: Build, mod: Any) -> str:
    """The pins to give, tried on the model: those of the first likely sizes with which it is imported and static."""
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
        return "pinning them is not enough: the model also decides at run time what it computes"
    return "pin them: " + " ".join([f"--shape {n}={','.join(map(str, dims))}" for n, dims in left.items()])


def likely_pins(left: Mapping[str, Sequence[Any]], turn: int) -> dict[str, tuple[int, ...]]:
    """Extents for dynamic dimensions."""
    return {
        name: tuple(
            [d.value if isinstance(d, IntImm) else likely_extent(k, len(dims), turn) for k, d in enumerate(dims)]
        )
        for name, dims in left.items()
    }


def checked_target(text: str) -> Any:
    """The target; its mistakes are the user's."""
    from tilewright.target import Target

    try:
        return Target(text)
    except (ValueError, TypeError) as error:
        raise TVMError(f"--target {text!r}: {error}") from error


def load_or_compile(build: Build) -> tuple[Any, dict[str, float]]:
    """The library of a file that is one, or of a model file compiled now."""
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
    }
    for option, (what, given) in fixed.items():
        if given:
            raise TVMError(f"{build.model} is compiled already, so its {what} fixed; {option} goes with a model file")
    start = time.perf_counter()
    return load_library(build.model), {"load": time.perf_counter() - start}


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


def metadata_of(library: Any) -> dict[str, Any]:
    """What a library says of itself; nothing where it says nothing."""
    try:
        found: dict[str, Any] = json.loads(library["get_metadata"]())
    except AttributeError:
        return {}
    return found


def executor_of(library: Any) -> Any:
    """A graph executor on the CPU for a library, or what has the face of one."""
    import tilewright as tvm
    from tilewright.contrib import graph_executor

    try:
        make = library["default"]
    except AttributeError:
        raise TVMError(
            "the library holds functions, but no model; run and profile take what `tilewright compile` wrote"
        ) from None
    facts = metadata_of(library)
    try:
        if facts.get("executor") == "vm":
            return MachineExecutor(library, facts)
        return graph_executor.GraphModule(make(tvm.cpu()))
    except (ValueError, RuntimeError) as error:
        raise TVMError(str(error)) from error
