"""The part of firmware that knows the model: tables of functions and of a model, in C, of a package in the model library format; for the
server of sessions, or for a program that takes commands in words."""

from __future__ import annotations

import json
import os
import tarfile
from collections.abc import Mapping
from pathlib import PurePosixPath
from typing import Any, NamedTuple

from tilewright.micro.errors import MicroError
from tilewright.micro.package_format import HOST, METADATA_FILE, package_metadata
from tilewright.runtime.dtype import item_bytes, parse_dtype
from tilewright.runtime.linking.symbols import CONSTANTS

PACKED = "__tvm_ffi_"
"""What symbols of packed functions begin with."""


INPUT_DATA = "input_data.h"
"""The header with the values of the first input of a program without a client: an array `input_data`."""
REGISTERS = b"TVMBackendRegisterSystemLibSymbol"
"""What the file of a system library calls that tells the runtime of its functions. Firmware has tables of them instead."""
ORDERED = frozenset(
    [f"{kind}{bits}" for kind in ("int", "uint") for bits in (8, 16, 32, 64)]
    + ["bool", "float16", "bfloat16", "float32", "float64"]
)
"""The types of outputs of which a program without a client tells the largest element (`native/c99/src/standalone.c`)."""


class Program(NamedTuple):
    """files: of the model, by path below the folder `model`. flags: of the compiler for its sources. text: the tables, and the function
    `tw_program_serve(memory, size)`. target: of the first module."""

    files: dict[str, bytes]
    flags: list[str]
    text: str
    target: str


def read_program(package: str | os.PathLike[str], standalone: bool = False, given: str = "") -> Program:
    """The program of a package. standalone: without a client; given: the path by which it includes INPUT_DATA, "" where there is none.

    Raises MicroError for packages of several models, of none for a program without a client, or of one whose first output it has no order
    for, and TVMError for those of another version.
    """
    metadata = package_metadata(package)
    if metadata is None:
        raise MicroError(f"{os.fspath(package)} has no {METADATA_FILE}: it is no package in the model library format")
    with tarfile.open(package) as tar:
        opened = {os.path.normpath(m.name): tar.extractfile(m) for m in tar if m.isfile()}
        found = {path: file.read() for path, file in opened.items() if file is not None}
    files: dict[str, bytes] = {}
    flags = "-O2 -std=c99"
    for path, data in found.items():
        part = PurePosixPath(path)
        if not path.startswith(f"{HOST}/"):
            continue
        if part.name == "flags":
            flags = data.decode()
        elif REGISTERS not in data:
            files[part.name if part.parent.name in ("src", "lib") else path.removeprefix(f"{HOST}/")] = data
    modules: Mapping[str, Any] = metadata["modules"]
    functions: dict[str, str] = {}
    """By symbol, which of the two calling conventions it has."""
    model = ""
    for name, facts in modules.items():
        if facts["style"] == "operator":
            prefix = facts.get("system_lib_prefix") or ""
            functions |= {prefix + f: "packed" for f in facts["memory"]}
        elif "graph" in facts["executors"]:
            functions |= dict.fromkeys(_kernels(found[f"executor-config/graph/{name}.graph"]), "kernel")
        elif model:
            raise MicroError("a project serves one model that was compiled ahead of time, but the package has several")
        else:
            model = _model(name, json.loads(found[f"executor-config/aot/{name}.json"]), files)
    target = str(next(iter(modules.values()))["target"][0])
    if standalone:
        if not model:
            raise MicroError(
                f"{os.fspath(package)}: a program without a client runs a model that was compiled ahead of time, and the package has none"
            )
        dtype = _models(modules, found)[0]["outputs"][0]["dtype"]
        if dtype not in ORDERED:
            raise MicroError(
                f"{os.fspath(package)}: a program without a client tells the largest element of the first output, which is of type {dtype};"
                f" cast it to one of {', '.join(sorted(ORDERED))}"
            )
        text = _standalone(model, sum([len(m["inputs"]) for m in _models(modules, found)]), given)
    else:
        text = _text(functions, model)
    return Program(files, flags.split(), text, target)


def _models(modules: Mapping[str, Any], found: Mapping[str, bytes]) -> list[dict[str, Any]]:
    paths = [f"executor-config/aot/{name}.json" for name in modules]
    return [json.loads(found[path]) for path in paths if path in found]


def _kernels(graph: bytes) -> list[str]:
    """The symbols of the kernels of a graph."""
    names = [n["attrs"]["func_name"] for n in json.loads(graph)["nodes"] if n["op"] == "tvm_op"]
    return [n for n in dict.fromkeys(names) if not n.startswith("__")]


def _text(functions: Mapping[str, str], model: str) -> str:
    declared = [
        f"extern int32_t {PACKED}{n}(void* self, void* args, int32_t count, void* result);"
        if kind == "packed"
        else f"extern int32_t {n}(void** args);"
        for n, kind in functions.items()
    ]
    rows = [f'  {{"{n}", {f"{PACKED}{n}, 0" if kind == "packed" else f"0, {n}"}}},' for n, kind in functions.items()]
    return "\n".join([
        "/* What the server of sessions serves: functions, and a model. */",
        '#include "tilewright/micro_rpc.h"', *declared,
        "static const struct tw_rpc_function functions[] = {", *(rows or ["  {0, 0, 0},"]), "};",
        model,
        "void tw_program_serve(uint8_t* memory, size_t size) {",
        f"  const struct tw_rpc_program program = {{functions, {'&model' if model else '0'}, memory, size, {len(rows)}u}};",
        "  tw_rpc_serve(&program);", "}", "",
    ])  # fmt: skip


def _standalone(model: str, inputs: int, given: str) -> str:
    """C text of a program that runs its model at a command."""
    values = ["input_data" if given and k == 0 else "0" for k in range(inputs)]
    checked = "input_data_has_the_bytes_of_the_input"
    return "\n".join([
        "/* The model, and the values of its inputs. */",
        '#include "tilewright/micro_program.h"', *([f'#include "{given}"'] if given else []), model,
        *([f"typedef char {checked}[sizeof input_data == sizeof data_0 ? 1 : -1];"] if given else []),
        f"static const void* const given[] = {{{', '.join(values) or '0'}}};",
        "void tw_program_serve(uint8_t* memory, size_t size) {", "  (void)memory;", "  (void)size;",
        "  tw_standalone_serve(&model, given);", "}", "",
    ])  # fmt: skip


def _model(name: str, facts: Mapping[str, Any], files: dict[str, bytes]) -> str:
    """C text of the tables of a model that was compiled ahead of time."""
    lines, rows, places = [], [], []
    for k, tensor in enumerate([*facts["inputs"], *facts["outputs"]]):
        shape, (code, bits, lanes) = tensor["shape"], parse_dtype(tensor["dtype"])
        size = item_bytes((code, bits, lanes))
        for extent in shape:
            size *= int(extent)
        lines += [
            f"static const int64_t shape_{k}[] = {{{', '.join(map(str, shape)) or '0'}}};",
            f"static uint8_t data_{k}[{max(size, 1)}] __attribute__((aligned(64)));",
        ]
        rows.append(
            f'  {{"{tensor["name"]}", "{tensor["dtype"]}", data_{k}, shape_{k}, {len(shape)}, {code}, {bits}, {lanes}}},'
        )
        places.append(f"data_{k}")
    inputs, outputs = len(facts["inputs"]), len(facts["outputs"])
    header = next((path for path in files if path.startswith("include/tvmgen_")), None)
    if header is not None:
        lines += [
            f'#include "{PurePosixPath(header).name}"',
            *_run(PurePosixPath(header).stem, facts, files[header].decode()),
        ]
    else:
        lines += _run_entry(facts)
    return "\n".join([
        *lines,
        "static const struct tw_model_value values[] = {", *rows, "};",
        f"static void* at[] = {{{', '.join(places)}}};",
        f'static const struct tw_model model = {{"{name}", values, at, run, {inputs}, {outputs}}};',
    ])  # fmt: skip


def _workspace(facts: Mapping[str, Any]) -> str:
    return f"static uint8_t workspace[{max(int(facts['workspace_bytes']), 1)}] __attribute__((aligned(64)));"


def _run(name: str, facts: Mapping[str, Any], header: str) -> list[str]:
    """The call of a model's interface for C programs. name: of its function, and of the structs that it takes."""
    n = len(facts["inputs"])
    groups = [
        ("inputs", [f"at[{k}]" for k in range(n)]),
        ("outputs", [f"at[{n + k}]" for k in range(len(facts["outputs"]))]),
    ]
    memory = []
    if f"struct {name}_workspace_pools" in header:
        memory = [_workspace(facts)]
        groups.append(("workspace_pools", ["workspace"]))
    return [
        *memory, "static int32_t run(void** at) {",
        *[f"  struct {name}_{kind} {kind} = {{{', '.join(of) or '0'}}};" for kind, of in groups],
        f"  return {name}_run({', '.join([f'&{kind}' for kind, _ in groups])});", "}",
    ]  # fmt: skip


def _run_entry(facts: Mapping[str, Any]) -> list[str]:
    """The call of the entry of objects, which takes all addresses in one array."""
    count = len(facts["inputs"]) + len(facts["outputs"])
    constants = f"(void*)(uintptr_t){CONSTANTS}" if facts["constants_bytes"] else "0"
    args = ", ".join([*[f"at[{k}]" for k in range(count)], constants, "workspace"])
    return [
        f"extern int32_t {facts['entry']}(void** args);",
        *([f"extern const char {CONSTANTS}[];"] if facts["constants_bytes"] else []),
        _workspace(facts),
        "static int32_t run(void** at) {", f"  void* args[] = {{{args}}};", f"  return {facts['entry']}(args);", "}",
    ]  # fmt: skip


__all__ = ["INPUT_DATA", "PACKED", "Program", "read_program"]
