"""Result of relay.build: the compiled model, its metadata, its executors, and its export as a library."""

from __future__ import annotations

import functools
import json
import os
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from tilewright import runtime
from tilewright.codegen.backend import Code, back_end_of, host_target
from tilewright.ir import IRModule
from tilewright.relay.backend import model_source
from tilewright.relay.backend.byoc.external import ExternalCode
from tilewright.relay.backend.kernels import machine_code
from tilewright.relay.backend.options import Executor, Runtime
from tilewright.runtime.linking.export import export_library
from tilewright.runtime.linking.object_file import data_object
from tilewright.runtime.linking.symbols import CONSTANTS, CONTEXT, METADATA
from tilewright.support.errors import TVMError
from tilewright.support.files import write_whole
from tilewright.target import Target
from tilewright.target.triples import is_bare

if TYPE_CHECKING:
    from tilewright.relay.backend.kernels.kernel import Kernel
    from tilewright.relay.backend.planning.plan import Plan

TIR_FORMS = ("te", "tir", "lowered")
"""Forms of kernels before code generation: unscheduled, scheduled and lowered TIR."""


def need_host(target: Target, what: str) -> None:
    """Raises TVMError unless code for a target runs on this machine. what: the compiled thing for the message, a "model" or a "program"."""
    if not target.is_native:
        raise TVMError(
            f"this {what} was compiled for {target}, which is not this machine, so it cannot run here;"
            f' write it with export_library("{what}.so") and run it there'
        )


def registration_object(target: Target, symbols: Sequence[str]) -> bytes:
    """The object of a system library that registers symbols. target: of the functions that the host calls."""
    return machine_code.cached_object(back_end_of(target).emit_registration(symbols, target), target)


class KernelSources:
    """Gives the texts of a model's kernels, and of the entry that calls them. It holds no weights, since a loaded library keeps it."""

    def __init__(
        self, make: Callable[[], Mapping[str, Kernel]], entry: Code, target: Target, targets: Mapping[str, Target]
    ) -> None:
        self._make, self._entry, self.target, self.targets = make, entry, target, targets

    @functools.cached_property
    def kernels(self) -> Mapping[str, Kernel]:
        """The kernels by name."""
        return self._make()

    @property
    def whole_forms(self) -> tuple[str, ...]:
        """The forms of `whole`: none where kernels are in several languages, or launched on a device."""
        kinds = {target.kind.name for target in (self.target, *self.targets.values())}
        back_end = back_end_of(self.target)
        return () if len(kinds) > 1 or back_end.launches else back_end.forms

    def all(self, kind: str = "") -> str:
        """The text of all kernels."""
        return "\n".join(self.each(kind))

    def each(self, kind: str = "") -> list[str]:
        """The text of each kernel."""
        with self.target:
            return [self.of(name, kind) for name in self.kernels]

    def whole(self, form: str) -> list[str]:
        """All that the objects of the model define, in one of `whole_forms`: the text of each kernel, then that of the entry."""
        return [*self.each(form), back_end_of(self.target).text(self._entry, self.target, form)]

    def of(self, name: str, kind: str = "") -> str:
        """The text of one kernel in one of TIR_FORMS, or a form of its back end or of that of its host; "" for the first of its own."""
        kernel = self.kernels.get(name)
        if kernel is None:
            raise TVMError(f"the model has no kernel {name!r}; it has {', '.join(self.kernels)}")
        target = self.targets.get(name, self.target)
        own, host = back_end_of(target).forms, back_end_of(host_target(target)).forms
        kind, forms = kind or own[0], dict.fromkeys((*TIR_FORMS, *own, *host))
        if kind not in forms:
            raise ValueError(f"a kernel has no source of the kind {kind!r}; there are {', '.join(forms)}")
        with target:
            if kind == "te":
                return str(kernel.func)
            if kind == "tir":
                return str(machine_code.scheduled(kernel.func, target, kernel.plan))
            if kind == "lowered":
                return str(machine_code.lowered(machine_code.scheduled(kernel.func, target, kernel.plan), target))
            return back_end_of(target).text(machine_code.kernel_code(kernel, target), target, kind)

    def lined(self, name: str, file: str) -> tuple[str, bytes] | None:
        """As `BackEnd.lined`, of one kernel; None where it has no lines."""
        kernel, target = self.kernels[name], self.targets.get(name, self.target)
        with target:
            lowered = machine_code.lowered(machine_code.scheduled(kernel.func, target, kernel.plan), target)
            return back_end_of(target).lined(lowered, target, file)


class ExecutorFactoryModule:
    """A compiled model.

    `lib["default"](device)` makes an executor. `export_library("model.so")` writes a library with everything that the model needs.
    `lib.lib` is the library in this process, `ir_mod` the relay module after all passes, and `metadata` describes inputs, outputs and
    kernels. Unpacks as (graph JSON, library, parameters), from which graph_executor.create makes an executor.
    """

    def __init__(
        self,
        program: Callable[[], tuple[IRModule, Plan]],
        texts: KernelSources,
        target: Target,
        executor: Executor,
        libmod_name: str,
        devices: Sequence[runtime.Device],
        metadata: dict[str, Any],
        objects: Sequence[bytes],
        symbols: Sequence[str],
        constants: np.ndarray,
        external: ExternalCode,
        run_by: Runtime | None = None,
        prefix: str = "",
    ) -> None:
        self.external, self.runtime, self.prefix = external, run_by or Runtime("cpp"), prefix
        self._make_program, self.texts = program, texts
        self.target, self.executor, self.libmod_name = target, executor, libmod_name
        self.devices, self.metadata = list(devices), metadata
        self.objects, self.symbols = list(objects), list(symbols)
        self._module: runtime.Module | None = None
        self._kernels: runtime.Module | None = None
        self._loaded: Any = None
        self._loading = threading.RLock()
        self._constants = runtime.from_dlpack(constants) if constants.size else None

    @functools.cached_property
    def _program(self) -> tuple[IRModule, Plan]:
        return self._make_program()

    @property
    def ir_mod(self) -> IRModule:
        """The relay module after all passes. For a library from the cache the passes run now."""
        return self._program[0]

    @property
    def plan(self) -> Plan:
        """The execution plan: the calls of kernels, and the places of their tensors in memory."""
        return self._program[1]

    @property
    def graph_json(self) -> str:
        """The graph in the classic JSON form: nodes, arg_nodes, heads, attrs of every tensor, node_row_ptr."""
        text: str = self.metadata["graph"]
        return text

    graph_json_str = graph_json

    @property
    def params(self) -> dict[str, Any]:
        """Parameters by their names in the graph."""
        return self.get_params()

    def get_devices(self) -> list[runtime.Device]:
        """The devices on which the model runs."""
        return list(self.devices)

    def get_graph_json(self) -> str:
        """The graph in the classic JSON form."""
        return self.graph_json

    def get_executor_config(self) -> str:
        """The description of the program for the executor, as JSON."""
        return self.graph_json

    def get_params(self) -> dict[str, Any]:
        """Parameters by their names in the graph, in memory that all executors of this process share; empty if they are linked into
        the library ("link-params")."""
        if self.links_params or self._constants is None:
            return {}
        return {
            item["name"]: self._constants._create_view(item["shape"], item["dtype"], item["offset"])
            for item in self.metadata["params"]
        }

    @property
    def links_params(self) -> bool:
        """Whether parameters are linked into the library."""
        return bool(self.executor.get("link-params"))

    def get_lib(self) -> runtime.Module:
        """The library of the kernels. For a graph, it has the parameters only if they are linked. One for another machine can be exported,
        but not called."""
        if self.metadata["executor"] != "graph" or self.links_params:
            return self.lib
        with self._loading:
            if self._kernels is None:
                self._kernels = self._module_with(self.kernel_facts, None)
            return self._kernels

    def _module_with(self, facts: Mapping[str, Any], constants: Any) -> runtime.Module:
        """The objects as a module whose metadata are `facts`: loaded, or to export only if they are code for another machine."""
        if self.target.is_native:
            return self.loaded_with(facts, constants)
        source = self.source(facts, constants)
        source.why_not_here = f"it was compiled for {self.target.triple}"
        return self.external.attach(runtime.Module.from_symbols({}, None, source))

    def constants(self) -> Any:
        """All constants as one NDArray of bytes; None for a model without constants."""
        return self._constants

    @property
    def unpacked(self) -> bool:
        """Whether exported functions take their arguments directly, for programs without the runtime."""
        return bool(self.executor.get("unpacked-api"))

    @property
    def system_lib(self) -> bool:
        """Whether libraries register themselves when they are loaded, or linked into a program."""
        return bool(self.runtime.get("system-lib") or self.target.attrs.get("system-lib")) and not self.unpacked

    def written(self, archive: bool, kernels_only: bool = False, prefix: str | None = None) -> dict[str, Code]:
        """The whole model as source in the back end's language: files by suffix, or by name for an archive. kernels_only: without entry
        and constants, for the graph executor. prefix: instead of that of the module, before all symbols."""
        constants = np.zeros(0, np.uint8) if self._constants is None or kernels_only else self._constants.numpy()
        registered: list[str] = []
        if self.system_lib:
            registered = self._registered(constants.size > 0, kernels_only)
        model = model_source.whole_model(
            self.libmod_name,
            self.plan,
            self.texts.kernels,
            self.target,
            self.kernel_facts if kernels_only else self.metadata,
            constants,
            registered,
            self.unpacked,
            self.prefix if prefix is None else prefix,
        )
        return back_end_of(self.target).write(model, self.target, archive)

    @property
    def kernel_facts(self) -> dict[str, Any]:
        """The metadata of a library that has the kernels of the graph alone."""
        return {k: self.metadata[k] for k in ("format", "mod_name", "kernels", "target")} | {"executor": "kernels"}

    def _registered(self, with_constants: bool, kernels_only: bool = False) -> list[str]:
        """The symbols that a system library registers."""
        blob = [CONSTANTS] if with_constants else []
        symbols = [s for s in self.symbols if s != self.metadata["entry"] or not kernels_only]
        return [*symbols, CONTEXT, METADATA, *blob, *self.external.exported()]

    def _unpacked_objects(self) -> list[bytes]:
        parts = [code for name, code in self.written(True).items() if name.startswith("src/")]
        return [machine_code.cached_object(code, self.target) for code in parts]

    def _archive(self) -> dict[str, bytes]:
        return {name: code.text.encode() for name, code in self.written(True).items()}

    def source(self, facts: Mapping[str, Any] | None = None, constants: Any = None) -> runtime.ModuleSource:
        """Objects, metadata and constants, for export."""
        if self.unpacked:
            unpacked = runtime.ModuleSource(self._unpacked_objects, {}, self.target.triple)
            unpacked.archive = self._archive
            return unpacked
        whole = facts is None or facts is self.metadata
        if facts is None:
            facts, constants = self.metadata, self.constants()
        text = json.dumps(facts).encode() + b"\0"
        back_end = back_end_of(self.target)
        described = data_object(METADATA, text, back_end.object_kind(self.target))
        texts = {kind: functools.partial(self.texts.all, kind) for kind in (*back_end.forms, "tir")}
        objects = self.objects if back_end.linkable else []
        source = runtime.ModuleSource(objects, texts, self.target.triple, constants, self.external.data())
        source.beside = [described, *back_end.companions(self.target)]
        source.code_files = {form: functools.partial(self.texts.whole, form) for form in self.texts.whole_forms}
        source.system_lib, source.prefix = self.system_lib, self.prefix
        source.registration = functools.partial(registration_object, host_target(self.target))
        source.looked_up = self.symbols
        if is_bare(self.target.triple):
            source.lined = self._lined
        if whole and back_end.writes_models:
            source.archive = self._archive
        if not back_end.linkable:
            source.hold(lambda: back_end.held(self.objects, self._exports))
        return source

    def _lined(self, name: Callable[[int], str]) -> list[tuple[str, bytes]]:
        """As `ModuleSource.lined`: the objects of kernels come first."""
        made = [self.texts.lined(kernel, name(number)) for number, kernel in enumerate(self.texts.kernels)]
        return [found for found in made if found is not None]

    @property
    def _exports(self) -> list[str]:
        """Symbols to look up in the objects."""
        return [*self.symbols, CONTEXT, *self.external.slots()]

    def loaded_with(self, facts: Mapping[str, Any], constants: Any) -> runtime.Module:
        """The objects as a module whose metadata are `facts`. They are loaded once."""
        if self._loaded is None:
            need_host(self.target, "model")
            self._loaded = back_end_of(self.target).load(self.objects, self._exports)
        source, held = self.source(facts, constants), self.external.base(self._loaded)
        symbols = self.external.without_slots(self._loaded.symbols)
        return self.external.attach(runtime.Module.from_aot(symbols, json.dumps(facts), constants, held, source))

    @property
    def lib(self) -> runtime.Module:
        """The library, loaded into this process. One for another machine can be exported, but not called."""
        with self._loading:
            if self._module is None:
                self._module = self._module_with(self.metadata, self.constants())
            return self._module

    def __getitem__(self, name: str) -> Callable[..., Any]:
        """A function by name: "default" makes an executor for a device; other names are functions of the library."""
        need_host(self.target, "model")
        return self.lib[name]

    @property
    def module(self) -> ExecutorFactoryModule:
        return self

    def __iter__(self) -> Iterator[Any]:
        return iter((self.graph_json, self.get_lib(), self.get_params()))

    def export_library(
        self,
        file_name: str | os.PathLike[str],
        fcompile: Callable[..., Any] | None = None,
        addons: Sequence[str] | None = None,
        workspace_dir: str | None = None,
        **kwargs: Any,
    ) -> str:
        """Writes a library, by the suffix of the file: .so (a shared library with constants and metadata), .a (a static library that
        registers itself in the program that it is linked into), .tar (its objects; for the
        target c its source), .o (one object), .c (for the target c: one file of source, with a header beside it), or the kernels as text:
        .ll (LLVM IR) or .s (assembly). Returns the path."""
        path = os.fspath(file_name)
        stem, suffix = os.path.splitext(path)
        back_end = back_end_of(self.target)
        kind = suffix.removeprefix(".")
        if back_end.writes_models and kind == back_end.forms[0]:
            if self.external:
                raise TVMError(
                    f"{path} would hold the whole model as source, but external code generators made the functions"
                    f" {', '.join(self.external.symbols)}; write a .tar or .so"
                )
            for ending, code in self.written(False).items():
                write_whole(stem + ending, code.text.encode())
            return path
        if kind in back_end.forms:
            write_whole(path, self.get_source(kind).encode())
            return path
        source = self.source()
        source.looked_up = [*source.looked_up, *self.external.exported()]
        export_library(path, [source, *self.external.sources()], fcompile, list(addons or ()), workspace_dir, kwargs)
        return path

    def get_source(self, kind: str = "") -> str:
        """The text of all kernels. kind: "te", "tir" or "lowered" for TIR; for LLVM "ll" (IR, the default), "s" or "asm" (assembly)."""
        return self.texts.all(kind)

    def kernel_source(self, name: str, kind: str = "") -> str:
        """The text of one kernel. kind: "te" (unscheduled TIR), "tir" (scheduled) or "lowered", or a form of code: for LLVM "ll" (IR, the
        default) or "s" (assembly)."""
        return self.texts.of(name, kind)


class GraphExecutorFactoryModule(ExecutorFactoryModule):
    """A compiled model for the graph executor, with its parts: graph JSON, library, parameters."""


class AOTExecutorFactoryModule(ExecutorFactoryModule):
    """A compiled model whose library has everything: an entry, the kernels, the parameters."""
