"""Packages in classic TVM's model library format: an archive of sources or objects, parameters, and a description of their sizes.

metadata.json                       models: target, executors, sizes of memory
codegen/host/src, include           C source and headers (targets of the kind c), flags for the compiler
codegen/host/lib                    objects (other targets)
codegen/host/src/*.tir              for boards, the programs that the lines of these objects are of
executor-config/graph/NAME.graph    the graph, for the graph executor
executor-config/aot/NAME.json       inputs, outputs and calls of kernels, for the ahead-of-time executor
parameters/NAME.params              parameters that are not part of the code
src/NAME.relay, src/tir-1.txt       the program
"""

from __future__ import annotations

import datetime
import io
import json
import os
import tarfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tilewright.codegen.source.c.interface import Interface, Tensor
from tilewright.codegen.source.c.names import C_LANGUAGE
from tilewright.codegen.source.text.identifiers import plain
from tilewright.micro.package_format import GENERATED_VERSION, HOST, METADATA_FILE, package_metadata
from tilewright.micro.sizes import main_memory, operator_memory, operator_parameters, storage_memory
from tilewright.relay.backend.executor_factory import ExecutorFactoryModule
from tilewright.relay.backend.name_transforms import sanitize_name
from tilewright.runtime import Module, ModuleSource, save_param_dict
from tilewright.runtime.linking.export import library_objects
from tilewright.support.errors import TVMError
from tilewright.support.files import write_whole
from tilewright.support.version import VERSION

MAIN_FUNC_NAME_STR = "main"
EPHEMERAL_MODULE_TYPE_KEYS = ("metadata_module",)
"""Kinds of imported modules that classic packages leave out, since they are made anew. Here metadata are objects of the module itself."""

ExportableModule = ExecutorFactoryModule | Module
"""What can be written: a model of relay.build, or a module of tvm.build."""


class UnsupportedInModelLibraryFormatError(TVMError):
    """The format has no place for something."""


class NonStaticShapeError(TVMError):
    """A function has dimensions that are known at run time only, so its sizes cannot be told."""


def export_model_library_format(
    mods: ExportableModule | Sequence[ExportableModule], file_name: str | os.PathLike[str]
) -> str:
    """Writes a package of models (results of relay.build) or of functions (of tvm.build) to a .tar. Returns its path.

    Several modules have different names (`mod_name` of relay.build, `name` of tvm.build); their symbols get the prefix tvmgen_<name>_.
    Raises UnsupportedInModelLibraryFormatError for code of devices, for models on several devices and for programs of the virtual machine,
    ValueError for names that occur twice.
    """
    path = os.fspath(file_name)
    given = list(mods) if isinstance(mods, Sequence) else [mods]
    if not given:
        raise ValueError(f"{path}: a package holds one module at least")
    names = [_name_of(m) for m in given]
    twice = next((n for i, n in enumerate(names) if n in names[:i]), None)
    if twice is not None:
        raise ValueError(
            f"{path}: Multiple modules should have unique names, but two are called {twice!r}; give relay.build mod_name="
        )
    files: dict[str, bytes] = {}
    described = {}
    for name, mod in zip(names, given, strict=True):
        several = len(given) > 1
        if isinstance(mod, ExecutorFactoryModule):
            facts = _add_model(files, name, mod, several)
        else:
            facts = _add_operators(files, name, mod, several)
        described[name] = {
            "model_name": name,
            "export_datetime": datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%d %H:%M:%SZ"),
            **facts,
        }
    metadata = {"modules": described, "version": GENERATED_VERSION}
    files = {METADATA_FILE: json.dumps(metadata, indent=2, sort_keys=True).encode(), **files}
    write_whole(path, _tar(files))
    return path


def _name_of(mod: Any) -> str:
    if isinstance(mod, ExecutorFactoryModule):
        return mod.libmod_name
    if isinstance(mod, Module) and mod.source is not None and mod.source.program is not None:
        return mod.source.program[0]
    kind = f"a module of the kind {mod.type_key!r}" if isinstance(mod, Module) else f"a {type(mod).__name__}"
    raise UnsupportedInModelLibraryFormatError(
        f"a package holds models of relay.build and modules of tvm.build, but was given {kind}"
    )


def _need_host(target: Any, what: str) -> None:
    if target.kind.name not in ("c", "llvm"):
        raise UnsupportedInModelLibraryFormatError(
            f"{what}: a package holds C source or objects of LLVM, but the target is {target.kind.name!r}; compile for c or llvm"
        )


def _add_model(files: dict[str, bytes], name: str, mod: ExecutorFactoryModule, several: bool) -> dict[str, Any]:
    """Adds the files of a model; returns its description."""
    _need_host(mod.target, f"the model {name}")
    if len(mod.devices) > 1:
        raise UnsupportedInModelLibraryFormatError(
            f"the model {name} runs on {len(mod.devices)} devices, but a package is for one; build it for one target"
        )
    executor = mod.metadata["executor"]
    graph = executor == "graph" and not mod.links_params
    prefix = f"tvmgen_{sanitize_name(name)}_" if several and not mod.unpacked else ""
    external = mod.external.sources()
    if mod.target.kind.name == "c":
        _add_source(files, name, {n: c.text for n, c in mod.written(True, graph, prefix or None).items()})
        extra = external
    else:
        source = mod.source(mod.kernel_facts, None) if graph else mod.source()
        source.looked_up = [*source.looked_up, *mod.external.exported()]
        extra = [_with_lines(files, name, source), *external]
    if extra:
        registers = mod.system_lib and mod.target.kind.name != "c"
        objects = library_objects(extra, registers=registers, prefix=prefix or mod.prefix)
        _add_objects(files, name, objects)
    if executor == "graph":
        files[f"executor-config/graph/{name}.graph"] = mod.get_graph_json().encode()
    else:
        config = {
            k: mod.metadata[k] for k in ("inputs", "outputs", "kernels", "entry", "workspace_bytes", "constants_bytes")
        }
        files[f"executor-config/aot/{name}.json"] = json.dumps(config, indent=1).encode()
    files[f"parameters/{name}.params"] = save_param_dict(mod.get_params() if graph else {})
    files[f"src/{name}.relay"] = f"{mod.ir_mod}\n".encode()
    symbols = f"{sanitize_name(f'tvmgen_{name}')}_" if mod.unpacked else prefix or mod.prefix
    memory: dict[str, Any] = {
        "functions": {
            MAIN_FUNC_NAME_STR: [main_memory(mod.metadata, mod.devices[0].device_type)],
            "operator_functions": operator_memory(mod.texts, symbols, mod.devices[0].device_type),
        }
    }
    if executor == "graph":
        memory["sids"] = storage_memory(mod.get_graph_json())
    needs = [] if mod.unpacked else [{"short_name": "tilewright_runtime", "version_spec": f"=={VERSION}"}]
    return {
        "memory": memory, "target": [str(mod.target)], "executors": [executor], "style": "full-model",
        "runtime": mod.runtime.name, "system_lib_prefix": prefix or mod.prefix, "external_dependencies": needs,
    }  # fmt: skip


def _add_operators(files: dict[str, bytes], name: str, mod: Module, several: bool) -> dict[str, Any]:
    """Adds the files of functions; returns their description."""
    source = mod.source
    assert source is not None and source.program is not None
    programs = source.program[1]
    prefix = f"tvmgen_{sanitize_name(name)}_" if several else source.prefix
    memory: dict[str, Any] = {}
    for target, lowered in programs.items():
        _need_host(target, f"the module {name}")
        device = target.get_target_device_type()
        files[f"src/{f'{name}-' if several else ''}tir-{device}.txt"] = f"{lowered}\n".encode()
        for gvar, func in lowered.functions.items():
            symbol = str(func.attrs.get("global_symbol", gvar.name_hint))
            parameters = operator_parameters(func)
            if parameters is None:
                raise NonStaticShapeError(
                    f"the function {symbol} has dimensions that are known at run time only, so a package cannot tell its sizes"
                )
            memory[symbol] = parameters
    if source.archive is not None and not prefix:
        _add_source(files, name, {n: data.decode() for n, data in source.archive().items()})
    else:
        source = _with_lines(files, name, source)
        _add_objects(files, name, library_objects([source], registers=source.system_lib, prefix=prefix))
    return {
        "memory": memory, "target": [str(t) for t in programs], "executors": [], "style": "operator",
        "system_lib_prefix": prefix,
        "external_dependencies": [{"short_name": "tilewright_runtime", "version_spec": f"=={VERSION}"}],
    }  # fmt: skip


def _add_source(files: dict[str, bytes], name: str, texts: Mapping[str, str]) -> None:
    """Adds C source as NAME_lib0.c, NAME_lib1.c, ..., the one with the entry first, with its headers and flags."""
    sources = sorted(
        [n for n in texts if n.endswith(".c")], key=lambda n: Path(n).stem != sanitize_name(f"tvmgen_{name}")
    )
    for number, file in enumerate(sources):
        files[f"{HOST}/src/{sanitize_name(name)}_lib{number}.c"] = texts[file].encode()
    for file, text in texts.items():
        if file.startswith("include/"):
            files[f"{HOST}/{file}"] = text.encode()
    files[f"{HOST}/src/flags"] = texts["flags"].encode()


def _with_lines(files: dict[str, bytes], name: str, source: ModuleSource) -> ModuleSource:
    """A source whose objects for boards have the lines of their programs, which are added as NAME_lib0.tir, NAME_lib1.tir, ..."""
    source, texts = source.with_lines(lambda number: f"{sanitize_name(name)}_lib{number}.tir")
    for number, text in enumerate(texts):
        files[f"{HOST}/src/{sanitize_name(name)}_lib{number}.tir"] = text.encode()
    return source


def _add_objects(files: dict[str, bytes], name: str, objects: Mapping[str, bytes]) -> None:
    """Adds objects as NAME_lib0.o, NAME_lib1.o, ..."""
    for number, data in enumerate(objects.values()):
        files[f"{HOST}/lib/{sanitize_name(name)}_lib{number}.o"] = data


def _tar(files: Mapping[str, bytes]) -> bytes:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as tar:
        for name, data in files.items():
            info = tarfile.TarInfo(f"./{name}")
            info.size = len(data)
            tar.addfile(info, io.BytesIO(data))
    return out.getvalue()


def generate_c_interface_header(
    module_name: str,
    inputs: Sequence[str],
    outputs: Sequence[str],
    pools: Mapping[str, Any] | None,
    io_pool_allocations: Mapping[str, Any] | None,
    devices: Sequence[str],
    workspace_size: int,
    include_path: str | os.PathLike[str],
    input_sizes: Mapping[str, int],
    output_sizes: Mapping[str, int],
) -> str:
    """Writes the header tvmgen_<module_name>.h of a model with the interface for C programs into a folder; returns its path.

    inputs, outputs: their names; input_sizes, output_sizes: their bytes. pools: memories that the program gives, by variable, with
    `pool_info` (its name) and `allocated_size`; without them the workspace is static memory of `workspace_size` bytes. devices: names of
    handles that the program gives. io_pool_allocations: must be empty, because inputs and outputs are the program's.
    """
    if io_pool_allocations:
        raise UnsupportedInModelLibraryFormatError(
            "inputs and outputs cannot be placed in pools; the program gives their memory"
        )

    def tensors(names: Sequence[str], sizes: Mapping[str, int]) -> list[Tensor]:
        return [Tensor(plain(n, C_LANGUAGE), int(sizes.get(n, -1)), "") for n in names]

    memories = [
        Tensor(plain(p.pool_info.pool_name, C_LANGUAGE), int(p.allocated_size), "")
        for p in (pools or {}).values()
    ]  # fmt: skip
    name = sanitize_name(f"tvmgen_{module_name}")
    interface = Interface(
        name, tensors(inputs, input_sizes), tensors(outputs, output_sizes), workspace_size, memories, devices
    )
    path = Path(include_path) / f"{name}.h"
    write_whole(path, interface.header(False).encode())
    return os.fspath(path)


__all__ = [
    "EPHEMERAL_MODULE_TYPE_KEYS", "METADATA_FILE", "ExportableModule", "NonStaticShapeError", "UnsupportedInModelLibraryFormatError",
    "export_model_library_format", "generate_c_interface_header", "package_metadata",
]  # fmt: skip
