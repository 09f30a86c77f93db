"""Models compiled ahead of time to C, run as a program of this machine beside expected outputs, under the classic names.

model = AOTTestModel(module=mod, inputs={"x": x}, outputs=generate_ref_data(mod, {"x": x}, params), params=params)
compile_and_run(model, AOTTestRunner(), interface_api="c", use_unpacked_api=True)
"""

from __future__ import annotations

import itertools
import subprocess
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from tilewright import relay
from tilewright.contrib import graph_executor
from tilewright.ir import IntImm, IRModule
from tilewright.ir.transform import PassContext, Sequential
from tilewright.relay.backend import Executor, Runtime
from tilewright.runtime import cpu, load_module
from tilewright.runtime.linking.c_source import compiler_command

AOT_SUCCESS_TOKEN, AOT_FAILURE_TOKEN = "AOT_TEST_SUCCESS", "AOT_TEST_FAILURE"
NP_TYPE_TO_C = {
    **{f"{sign}int{bits}": f"{sign}int{bits}_t" for sign in ("", "u") for bits in (8, 16, 32, 64)},
    "float32": "float",
    "float64": "double",
    "bool": "int8_t",
}
"""Types of C by those of NumPy."""


class AOTTestModel(NamedTuple):
    """A model with values of its inputs, and the outputs that it must have, by name or in order."""

    module: IRModule
    inputs: Mapping[str, np.ndarray]
    outputs: Mapping[str, np.ndarray] | Sequence[np.ndarray]
    output_tolerance: int | float | None = None
    name: str = "default"
    params: Mapping[str, Any] | None = None
    extra_memory_in_bytes: int = 0


class AOTCompiledTestModel(NamedTuple):
    """A model, and what it was compiled to."""

    model: AOTTestModel
    executor_factory: Any


class AOTDataLinkage(NamedTuple):
    """The section of a program and the alignment in bytes that inputs and outputs have."""

    section: str
    alignment: int


class AOTTestRunner(NamedTuple):
    """How a program is built: `prologue` and `epilogue` are C statements around the run, `includes` headers, `parameters` macros.
    makefile: "default", the machine's compiler."""

    makefile: str = "default"
    prologue: str = ""
    epilogue: str = ""
    includes: Sequence[str] = ()
    parameters: Mapping[str, str] = {}
    pass_config: Mapping[str, Any] = {}


AOT_DEFAULT_RUNNER = AOTTestRunner()


def parametrize_aot_options(test: Callable[..., Any]) -> Callable[..., Any]:
    """Decorator: a test of pytest gets interface_api, use_unpacked_api and test_runner: packed functions, and C functions."""
    import pytest

    cases = [("packed", False, AOT_DEFAULT_RUNNER), ("c", True, AOT_DEFAULT_RUNNER)]
    decorated: Callable[..., Any] = pytest.mark.parametrize(
        ("interface_api", "use_unpacked_api", "test_runner"), cases, ids=["packed", "c"]
    )(test)
    return decorated


def get_dtype_range(dtype: str) -> tuple[int, int]:
    """The smallest and the largest number of an integer type; -1000 and 1000 for floats."""
    kind = np.dtype(dtype)
    if kind.kind == "f":
        return -1000, 1000
    facts = np.iinfo(kind)
    return int(facts.min), int(facts.max)


def convert_to_relay(tflite_model_buf: bytes, bind_params_by_name: bool = True) -> tuple[IRModule, dict[str, Any]]:
    """A model of TFLite as a module and its parameters, which are constants of the module if they are bound."""
    mod, params = relay.frontend.from_tflite(tflite_model_buf)
    if bind_params_by_name:
        mod["main"] = relay.build_module.bind_params_by_name(mod["main"], params)
    return mod, params


def create_relay_module_and_inputs_from_tflite_file(
    tflite_model_file: str, bind_params_by_name: bool = True
) -> tuple[IRModule, dict[str, np.ndarray], dict[str, Any]]:
    """(module, random values of its inputs, parameters) of a file of TFLite."""
    with open(tflite_model_file, "rb") as file:
        mod, params = convert_to_relay(file.read(), bind_params_by_name)
    rng = np.random.default_rng(0)
    inputs = {}
    for p in mod["main"].params:
        if p.name_hint not in params:
            low, high = get_dtype_range(str(p.type_annotation.dtype))
            shape = [int(d) for d in p.type_annotation.shape]
            inputs[p.name_hint] = rng.uniform(low, high, shape).astype(str(p.type_annotation.dtype))
    return mod, inputs, params


def generate_ref_data(
    mod: IRModule | relay.Function,
    input_data: Mapping[str, np.ndarray],
    params: Mapping[str, Any] | None = None,
    target: Any = "llvm",
) -> dict[str, np.ndarray]:
    """What a model computes by LLVM's code: its outputs by name, "output" or "output0", "output1", ..., unless the main function has the
    attribute "output_tensor_names"."""
    module = mod if isinstance(mod, IRModule) else IRModule.from_expr(mod)
    executor = graph_executor.GraphModule(relay.build(module, target, params=params)["default"](cpu(0)))
    executor.run(**input_data)
    found = [executor.get_output(i).numpy() for i in range(executor.get_num_outputs())]
    return dict(zip(_output_names(module["main"], len(found)), found, strict=True))


def _output_names(main: relay.Function, count: int) -> list[str]:
    names = main.attrs.get("output_tensor_names") if main.attrs is not None else None
    if names:
        return [str(n) for n in names]
    return ["output"] if count == 1 else [f"output{i}" for i in range(count)]


def compile_models(
    models: Sequence[AOTTestModel] | AOTTestModel,
    interface_api: str,
    use_unpacked_api: bool,
    workspace_byte_alignment: int = 16,
    constant_byte_alignment: int = 16,
    enable_op_fusion: bool = True,
    pass_config: Mapping[str, Any] | None = None,
    use_runtime_executor: bool = True,
    target: Any = "c",
    workspace_memory_pools: Any = None,
    constant_memory_pools: Any = None,
    schedule_name: str | None = None,
    runtime: Runtime | None = None,
) -> list[AOTCompiledTestModel]:
    """Builds models for the executor "aot". Raises ValueError for a schedule, which the target's plans choose."""
    del use_runtime_executor
    if schedule_name is not None:
        raise ValueError(f"plans choose schedules, but schedule_name is {schedule_name!r}")
    executor = Executor(
        "aot",
        {
            "workspace-byte-alignment": workspace_byte_alignment,
            "constant-byte-alignment": constant_byte_alignment,
            "interface-api": interface_api,
            "unpacked-api": use_unpacked_api,
        },
    )
    config = {**(pass_config or {}), **({} if enable_op_fusion else {"relay.FuseOps.max_depth": 1})}
    made = []
    with PassContext(opt_level=3, config=config):
        for model in [models] if isinstance(models, AOTTestModel) else models:
            factory = relay.build(
                model.module, target, params=model.params, executor=executor, runtime=runtime or Runtime("crt"),
                workspace_memory_pools=workspace_memory_pools, constant_memory_pools=constant_memory_pools,
                mod_name=model.name,
            )  # fmt: skip
            made.append(AOTCompiledTestModel(model, factory))
    return made


class _Values(NamedTuple):
    """The values of a model's inputs, and the outputs that it must have, in its own order."""

    inputs: list[np.ndarray]
    outputs: list[np.ndarray]


def _values(models: Iterable[AOTTestModel]) -> list[_Values]:
    """Raises ValueError where a model has other inputs or outputs than are given, or others in shape or dtype."""
    found = []
    for model in models:
        module = model.module.shallow_copy()
        module["main"] = relay.build_module.bind_params_by_name(module["main"], model.params or {})
        main = Sequential([relay.transform.InferType(), relay.transform.DynamicToStatic()])(module)["main"]
        inputs = {p.name_hint: p.checked_type for p in main.params}
        results = list(_tensors(main.ret_type))
        outputs = dict(zip(_output_names(main, len(results)), results, strict=True))
        wanted = model.outputs
        if not isinstance(wanted, Mapping):
            if len(wanted) != len(results):
                names = ", ".join(outputs)
                raise ValueError(f"{model.name} has {len(results)} outputs ({names}), but {len(wanted)} are expected")
            wanted = dict(zip(outputs, wanted, strict=True))
        found.append(_Values(_arrays(model, "input", inputs, model.inputs), _arrays(model, "output", outputs, wanted)))
    return found


def _tensors(kind: relay.Type) -> Iterator[relay.Type]:
    """The tensors of a type; those of tuples in order."""
    if isinstance(kind, relay.TupleType):
        for inner in kind.fields:
            yield from _tensors(inner)
    else:
        yield kind


def _arrays(
    model: AOTTestModel, role: str, types: Mapping[str, relay.Type], given: Mapping[str, Any]
) -> list[np.ndarray]:
    if set(types) != set(given):
        raise ValueError(
            f"the {role}s of {model.name} are {', '.join(types)}, but values are given of {', '.join(given) or 'none'}"
        )
    arrays = {name: np.asarray(given[name], order="C") for name in types}
    for name, value in arrays.items():
        if not _has_type(value, types[name]):
            raise ValueError(
                f"{role} {name} of {model.name} is {types[name]}, but the value that is given is {value.dtype} of shape"
                f" {value.shape}"
            )
    return list(arrays.values())


def _has_type(value: np.ndarray, kind: relay.Type) -> bool:
    if not isinstance(kind, relay.TensorType) or str(kind.dtype) != str(value.dtype) or len(kind.shape) != value.ndim:
        return False
    # Models with open sizes are refused where they are built.
    return all([not isinstance(d, IntImm) or d.value == n for d, n in zip(kind.shape, value.shape, strict=True)])


def _array(name: str, value: np.ndarray, place: str, filled: bool) -> str:
    """The definition of an array. Its elements are given by their bytes, so that all are exact."""
    kind = f"{place} union {{ uint8_t bytes[{max(value.nbytes, 1)}]; double aligned; }} {name}"
    given = ", ".join([str(b) for b in value.tobytes()])
    return f"static {kind}{f' = {{ {{ {given} }} }}' if filled else ''};"


def _quoted(header: str) -> str:
    return header if header[:1] in ("<", '"') else f'"{header}"'


def _program(values: Mapping[str, _Values], runner: AOTTestRunner, linkage: AOTDataLinkage | None) -> str:
    """A program that runs models by their names, and writes all outputs to the standard output, then the token of success."""
    place = f'__attribute__((section("{linkage.section}"), aligned({linkage.alignment})))' if linkage else ""
    lines = [
        "#include <stdint.h>",
        "#include <stdio.h>",
        *[f"#include {_quoted(header)}" for header in runner.includes],
    ]
    lines += [f'#include "{name}.h"' for name in values]
    run: list[str] = []
    for model, (inputs, outputs) in values.items():
        prefix = f"tvmgen_{model}"
        names = {}
        for kind, arrays in (("in", inputs), ("out", outputs)):
            names[kind] = [f"{prefix}_{kind}{k}" for k in range(len(arrays))]
            lines += [_array(n, v, place, kind == "in") for n, v in zip(names[kind], arrays, strict=True)]
        given, got = (", ".join([f"{n}.bytes" for n in names[kind]]) for kind in ("in", "out"))
        run += [
            f"  struct {prefix}_inputs {prefix}_i = {{ {given} }};",
            f"  struct {prefix}_outputs {prefix}_o = {{ {got} }};",
            f'  if ({prefix}_run(&{prefix}_i, &{prefix}_o)) {{ fputs("{AOT_FAILURE_TOKEN}", stdout); return 1; }}',
            *[f"  fwrite({n}.bytes, 1, {v.nbytes}, stdout);" for n, v in zip(names["out"], outputs, strict=True)],
        ]
    end = f'  fputs("{AOT_SUCCESS_TOKEN}", stdout);'
    return "\n".join([*lines, "int main(void) {", runner.prologue, *run, end, runner.epilogue, "  return 0;", "}", ""])


def _compiled_outputs(
    models: Sequence[AOTCompiledTestModel],
    values: Sequence[_Values],
    runner: AOTTestRunner,
    linkage: AOTDataLinkage | None,
    folder: Path,
    verbose: bool,
) -> bytes:
    """What the program of models writes. Raises AssertionError with the words of the compiler or of the program."""
    sources = [folder / "main.c"]
    for compiled in models:
        sources.append(folder / f"{compiled.model.name}.c")
        compiled.executor_factory.export_library(str(sources[-1]))
    by_name = {c.model.name: v for c, v in zip(models, values, strict=True)}
    sources[0].write_text(_program(by_name, runner, linkage))
    macros = [f"-D{name}={value}" for name, value in runner.parameters.items()]
    command = [
        *compiler_command("c"),
        "-std=c99",
        "-O2",
        f"-I{folder}",
        *macros,
        *map(str, sources),
        "-o",
        str(folder / "main"),
        "-lm",
    ]
    if verbose:
        print(" ".join(command))
    made = subprocess.run(command, capture_output=True, text=True, check=False)
    assert made.returncode == 0, made.stderr
    done = subprocess.run([str(folder / "main")], capture_output=True, check=False)
    assert done.returncode == 0 and done.stdout.endswith(AOT_SUCCESS_TOKEN.encode()), done.stdout[-200:] + done.stderr
    return done.stdout.removesuffix(AOT_SUCCESS_TOKEN.encode())


def _called_outputs(compiled: AOTCompiledTestModel, folder: Path) -> bytes:
    """What a model computes as a library in this process, by the interface of packed functions."""
    path = folder / f"{compiled.model.name}.so"
    compiled.executor_factory.export_library(str(path))
    executor = graph_executor.GraphModule(load_module(str(path))[compiled.model.name](cpu(0)))
    executor.run(**compiled.model.inputs)
    return b"".join([executor.get_output(i).numpy().tobytes() for i in range(executor.get_num_outputs())])


def run_and_check(
    models: Sequence[AOTCompiledTestModel],
    runner: AOTTestRunner,
    interface_api: str,
    debug_calculated_workspaces: bool = False,
    workspace_byte_alignment: int = 16,
    constant_byte_alignment: int = 16,
    data_linkage: AOTDataLinkage | None = None,
    test_dir: str | None = None,
    verbose: bool = False,
    use_workspace_io: bool = False,
    debug_last_error: bool = False,
    checker: Callable[[str], bool] | None = None,
    print_output_on_mismatch: bool = False,
) -> bool:
    """Runs compiled models, and compares their outputs with those expected: floats may differ by 1e-3 of the value and by
    the model's tolerance (1e-3 if None or 0) besides, integers by the tolerance. With the interface "c" they are a program of this machine,
    built in test_dir (a temporary folder if None); with "packed" a library of this process. checker: says of that folder whether it is as
    wanted. Raises AssertionError where anything differs, ValueError for other runners, and before anything is built where the model has
    other inputs or outputs than are given, in number, names, shapes or dtypes."""
    del debug_calculated_workspaces, workspace_byte_alignment, constant_byte_alignment, debug_last_error
    if runner.makefile != "default":
        raise ValueError(
            f'programs run on this machine (makefile "default"), not by {runner.makefile!r}: see micro.testing for boards'
        )
    if use_workspace_io:
        raise ValueError("inputs and outputs are in the program's memory, not in the workspace")
    values = _values([c.model for c in models])
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(test_dir or temporary)
        folder.mkdir(parents=True, exist_ok=True)
        if interface_api == "c":
            raw = _compiled_outputs(models, values, runner, data_linkage, folder, verbose)
        else:
            raw = b"".join([_called_outputs(compiled, folder) for compiled in models])
        assert checker is None or checker(str(folder)), f"the checker refuses {folder}"
    at = itertools.accumulate([o.nbytes for v in values for o in v.outputs], initial=0)
    for compiled, (_, outputs) in zip(models, values, strict=True):
        for k, wanted in enumerate(outputs):
            found = np.frombuffer(raw, wanted.dtype, wanted.size, next(at)).reshape(wanted.shape)
            if print_output_on_mismatch and not np.array_equal(found, wanted):
                print(f"output {k} of {compiled.model.name}:\n{found}\nexpected:\n{wanted}")
            _compare(found, wanted, compiled.model, k)
    return True


def _compare(found: np.ndarray, wanted: np.ndarray, model: AOTTestModel, place: int) -> None:
    what = f"output {place} of {model.name}"
    tolerance = model.output_tolerance
    if wanted.dtype.kind not in "biu":
        # Short floats are no kind of NumPy's own.
        found, wanted = found.astype("float64"), wanted.astype("float64")
        np.testing.assert_allclose(found, wanted, rtol=1e-3, atol=tolerance or 1e-3, err_msg=what)
    elif tolerance:
        np.testing.assert_allclose(found.astype("int64"), wanted.astype("int64"), rtol=0, atol=tolerance, err_msg=what)
    else:
        np.testing.assert_array_equal(found, wanted, err_msg=what)


def compile_and_run(
    models: Sequence[AOTTestModel] | AOTTestModel,
    runner: AOTTestRunner,
    interface_api: str,
    use_unpacked_api: bool,
    debug_calculated_workspaces: bool = False,
    workspace_byte_alignment: int = 16,
    constant_byte_alignment: int = 16,
    enable_op_fusion: bool = True,
    data_linkage: AOTDataLinkage | None = None,
    use_runtime_executor: bool = True,
    target: Any = "c",
    target_opts: Mapping[str, Any] | None = None,
    test_dir: str | None = None,
    verbose: bool = False,
    schedule_name: str | None = None,
    debug_last_error: bool = False,
    checker: Callable[[str], bool] | None = None,
    print_output_on_mismatch: bool = False,
    runtime: Runtime | None = None,
) -> bool:
    """Builds models, and does with them what `run_and_check` does. target_opts: further options of the target, as `-name=value`."""
    _values([models] if isinstance(models, AOTTestModel) else models)
    options = "".join([f" {key}={value}" for key, value in (target_opts or {}).items()])
    compiled = compile_models(
        models, interface_api, use_unpacked_api, workspace_byte_alignment, constant_byte_alignment, enable_op_fusion, runner.pass_config,
        use_runtime_executor, f"{target}{options}" if options else target, schedule_name=schedule_name, runtime=runtime,
    )  # fmt: skip
    return run_and_check(
        compiled, runner, interface_api, debug_calculated_workspaces, workspace_byte_alignment, constant_byte_alignment, data_linkage,
        test_dir, verbose, False, debug_last_error, checker, print_output_on_mismatch,
    )  # fmt: skip
