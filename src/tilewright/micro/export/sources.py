"""The files of a model for firmware: its C source, or its objects with an interface in C; for the graph executor its tables."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from tilewright.codegen.source.c.interface import Interface, Tensor, output_names, tensors
from tilewright.codegen.source.c.names import C_LANGUAGE
from tilewright.codegen.source.c.toolchain import flags_text
from tilewright.codegen.source.text.identifiers import plain
from tilewright.micro.errors import MicroError
from tilewright.relay.backend.executor_factory import ExecutorFactoryModule
from tilewright.relay.backend.name_transforms import sanitize_name
from tilewright.runtime.linking.export import library_objects
from tilewright.runtime.linking.symbols import CONSTANTS
from tilewright.target.cpu import BARE_ALIGNMENT

_PLACES = {"input": "TW_INPUT", "output": "TW_OUTPUT", "constant": "TW_CONSTANT", "workspace": "TW_WORKSPACE"}


class ModelFiles(NamedTuple):
    """The files of a model, by path in the folder of a project.

    sources: C; headers: what they include; objects: compiled code; flags: of gcc and clang for the sources. kernels: by name of an
    operator, the symbol of its function. workspace, constants: the symbols of these memories; "" where there are none.
    """

    interface: Interface
    sources: dict[str, str]
    headers: dict[str, str]
    objects: dict[str, bytes]
    flags: str
    kernels: dict[str, str]
    workspace: str
    constants: str


def model_files(lib: ExecutorFactoryModule) -> ModelFiles:
    """The files of a model of relay.build, for the target c or llvm. Raises MicroError for models on several devices, of other targets, and
    with code of other compilers."""
    kind = lib.target.kind.name
    if kind not in ("c", "llvm") or len(lib.devices) > 1:
        raise MicroError(
            f"firmware is made of models for one target, c or llvm, but this one is for {lib.target}; build it for"
            " Board.target()"
        )
    if lib.external.sources():
        raise MicroError(
            "the model has code of other compilers, which firmware has no place for; build it without partitioning"
        )
    if lib.metadata["executor"] == "graph":
        return _graph(lib)
    if kind == "c":
        return _c(lib)
    return _objects(lib)


def interface_of(lib: ExecutorFactoryModule) -> Interface:
    """The interface of a model for C programs."""
    facts = lib.metadata
    size = int(facts["workspace_bytes"])
    memory = (facts.get("memory_pools") or {}).get("workspace") if lib.unpacked else None
    return Interface(
        sanitize_name(f"tvmgen_{lib.libmod_name}"),
        tensors(facts["inputs"], [t["name"] for t in facts["inputs"]]),
        tensors(facts["outputs"], output_names(facts["outputs"])),
        size,
        [Tensor(plain(memory, C_LANGUAGE), size, "for what lies between kernels")] if memory else [],
    )


class Given(NamedTuple):
    """What a program gives a model, as C. memories: definitions of arrays; structs: what is filled with their addresses; call: the call."""

    memories: list[str]
    structs: list[str]
    call: str


def given_by_program(interface: Interface, static: str = "", comment: str = "/* {} */") -> Given:
    """The arrays that a program has for a model, the structs of their addresses, and the call. static: before the arrays."""
    name, upper = interface.name, interface.name.upper()
    groups = [("input", "inputs", interface.inputs, ""), ("output", "outputs", interface.outputs, "")]
    if interface.pools:
        groups.append(("workspace", "workspace_pools", interface.pools, "_WORKSPACE_POOL"))
    memories = [
        f"{static}uint8_t {kind}_{t.member}[{upper}_{t.member.upper()}{middle}_SIZE] __attribute__((aligned({BARE_ALIGNMENT})));"
        f" {comment.format(t.comment)}"
        for kind, _, of, middle in groups for t in of
    ]  # fmt: skip
    structs = [
        f"  struct {name}_{called} {called} = {{{', '.join([f'{kind}_{t.member}' for t in of]) or '0'}}};"
        for kind, called, of, _ in groups
    ]
    return Given(memories, structs, f"{name}_run({', '.join([f'&{called}' for _, called, _, _ in groups])})")


def _parts(files: Mapping[str, Any]) -> tuple[dict[str, str], dict[str, str]]:
    """(sources, headers) of the files of an archive."""
    sources = {
        f"model/{path.removeprefix('src/')}": code.text for path, code in files.items() if path.startswith("src/")
    }
    return sources, {f"model/{path}": code.text for path, code in files.items() if path.startswith("include/")}


def _c(lib: ExecutorFactoryModule) -> ModelFiles:
    files = lib.written(True)
    sources, headers = _parts(files)
    interface = interface_of(lib)
    prefix = f"{interface.name}_" if lib.unpacked else lib.prefix
    kernels = {k["name"]: prefix + k["symbol"] for k in lib.metadata["kernels"]}
    constants = (
        (f"{interface.name}_constants" if lib.unpacked else CONSTANTS) if lib.metadata["constants_bytes"] else ""
    )
    workspace = f"workspace_{interface.pools[0].member}" if interface.pools else f"{interface.name}_workspace"
    return ModelFiles(interface, sources, headers, {}, flags_text(lib.target).strip(), kernels, workspace, constants)


def _objects(lib: ExecutorFactoryModule) -> ModelFiles:
    """Objects of LLVM, whose entry takes all addresses in one array; a C file gives it the interface of a model."""
    interface, facts = interface_of(lib), lib.metadata
    constants, flags = CONSTANTS if facts["constants_bytes"] else "", flags_text(lib.target).strip()
    given = [f"{called}->{t.member}" for called, of in _given(interface) for t in of]
    args = [*given, f"(void*)(uintptr_t){constants}" if constants else "0", f"&{interface.name}_workspace"]
    text = _wrapped(
        interface,
        [
            f"extern int32_t {facts['entry']}(void** args);",
            *([f"extern const char {constants}[];"] if constants else []),
        ],
        f"  void* args[{len(args)}] = {{{', '.join(args)}}};\n  return {facts['entry']}(args);",
    )
    objects = {f"model/{name}": data for name, data in library_objects([lib.source()], prefix="").items()}
    header = {f"model/include/{interface.name}.h": interface.header(False)}
    kernels = {k["name"]: k["symbol"] for k in facts["kernels"]}
    sources = {f"model/{interface.name}.c": text}
    return ModelFiles(
        interface,
        sources,
        header,
        objects,
        flags,
        kernels,
        f"{interface.name}_workspace",
        constants,
    )


def _graph(lib: ExecutorFactoryModule) -> ModelFiles:
    """Kernels, and the tables of the runtime's graph executor."""
    interface, facts = interface_of(lib), lib.metadata
    if lib.target.kind.name == "c":
        sources, headers = _parts(lib.written(True, True))
        objects: dict[str, bytes] = {}
    else:
        sources, headers = {}, {}
        objects = {f"model/{n}": d for n, d in library_objects([lib.source(lib.kernel_facts, None)], prefix="").items()}
    blob = lib.constants()
    values = np.zeros(0, np.uint8) if blob is None else np.frombuffer(blob.numpy().tobytes(), np.uint8)
    sources[f"model/{interface.name}_graph.c"] = _tables(interface, facts["kernels"], values)
    headers[f"model/include/{interface.name}.h"] = interface.header(False)
    kernels = {k["name"]: k["symbol"] for k in facts["kernels"]}
    constants = f"{interface.name}_constants" if values.size else ""
    flags = flags_text(lib.target).strip()
    return ModelFiles(
        interface,
        sources,
        headers,
        objects,
        flags,
        kernels,
        f"{interface.name}_workspace",
        constants,
    )


def _given(interface: Interface) -> list[tuple[str, list[Tensor]]]:
    return [("inputs", interface.inputs), ("outputs", interface.outputs)]


def _wrapped(interface: Interface, before: Sequence[str], body: str) -> str:
    """C text of the function of an interface. before: declarations; body: what it does."""
    unused = [f"  (void){called};\n" for called, of in _given(interface) if not of]
    lines = [
        f'#include "{interface.name}.h"', "", *before, "",
        f"static union {{ char bytes[{interface.workspace}]; int64_t whole; }} {interface.name}_workspace;", "",
        f"{interface.declaration()} {{", *([*unused] if unused else []), body, "}", "",
    ]  # fmt: skip
    return "\n".join(lines)


def _tables(interface: Interface, kernels: Sequence[Mapping[str, Any]], constants: Any) -> str:
    """C text of the tables of a graph, and of the function that runs it."""
    name = interface.name
    values = [f"  {{{_PLACES[place]}, {at}u}}," for k in kernels for place, at in k["args"]]
    nodes, first = [], 0
    for k in kernels:
        nodes.append(f"  {{{k['symbol']}, {first}u, {len(k['args'])}u}},")
        first += len(k["args"])
    most = max([len(k["args"]) for k in kernels], default=1)
    symbols = dict.fromkeys([k["symbol"] for k in kernels])
    place = f"&{name}_constants" if constants.size else "0"
    before = [
        "#include <stddef.h>", '#include "tilewright/micro.h"', "",
        *[f"extern int32_t {s}(void** args);" for s in symbols],
        *([_words(f"{name}_constants", constants)] if constants.size else []),
        f"static const struct tw_value {name}_values[] = {{", *values, "};",
        f"static const struct tw_node {name}_nodes[] = {{", *nodes, "};",
        f"static const struct tw_graph {name}_graph = {{{name}_nodes, {name}_values, {place}, {len(nodes)}u, {len(interface.inputs)}u,"
        f" {len(interface.outputs)}u, {most}u}};",
    ]  # fmt: skip
    lists = [
        f"  void* {called}_list[{max(len(of), 1)}] = {{{', '.join([f'{called}->{t.member}' for t in of]) or '0'}}};"
        for called, of in _given(interface)
    ]
    run = f"  void* args[{most}];\n  return tw_graph_run(&{name}_graph, inputs_list, outputs_list, &{name}_workspace, args);"
    return _wrapped(interface, before, "\n".join([*lists, run]))


def _words(name: str, data: Any) -> str:
    """The definition of constants as words, little-endian as all boards are."""
    words = np.frombuffer(data.tobytes() + bytes(-data.nbytes % 4), "<u4")
    rows = [", ".join([f"{w:#x}u" for w in words[k : k + 8]]) for k in range(0, len(words), 8)]
    joined = ",\n  ".join(rows)
    return (
        f"static const uint32_t {name}[{len(words)}] __attribute__((aligned({BARE_ALIGNMENT}))) = {{\n  {joined}\n}};"
    )


__all__ = ["ModelFiles", "given_by_program", "interface_of", "model_files"]
