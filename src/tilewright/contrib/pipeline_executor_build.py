"""Configures and builds pipelines: modules, and the connections between their inputs and outputs."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from tilewright import relay
from tilewright.ir import IRModule, TupleType, Type
from tilewright.node import structural_equal
from tilewright.relay.typing.infer_type import infer_module
from tilewright.runtime import Device, Module, cpu
from tilewright.support.files import write_whole

CONFIG_FILE_NAME = "config"


def pipeline_executor_build_enabled() -> bool:
    """Whether pipelines can be built: always."""
    return True


class Binding:
    """An input, output or parameter group, of a module or of the pipeline, that can be connected."""

    def __init__(self, owner: Any, kind: str, name: str | int, data_type: Type | None = None) -> None:
        self.owner, self.kind, self.name, self.data_type = owner, kind, name, data_type
        self.bindings: list[Binding] = []
        self.parents: list[Binding] = []

    @property
    def is_pipeline(self) -> bool:
        """Whether it is the pipeline's own."""
        return isinstance(self.owner, PipelineConfig)

    def get_name(self) -> str:
        """How messages name it."""
        if self.is_pipeline:
            return f"the pipeline's {self.kind} {self.name!r}"
        if self.kind == "param":
            return f"the parameters of {self.owner.label}"
        return f"{self.kind} {self.name!r} of {self.owner.label}"

    def connect(self, binding: Binding) -> None:
        """Connects this end to another: the pipeline's input to a module's, a module's output to another module's input or to the
        pipeline's output, a parameter group to a module's parameters. Raises RuntimeError for anything else."""
        if not isinstance(binding, Binding):
            raise RuntimeError(f"{self.get_name()} can be connected to an input or output, not to a {type(binding)}")
        pair = (self.is_pipeline, self.kind, binding.is_pipeline, binding.kind)
        allowed = {
            (True, "input", False, "input"): "an input of a module",
            (True, "param_group", False, "param"): "the parameters of a module",
            (False, "output", False, "input"): "an input of a module",
            (False, "output", True, "output"): "an output of the pipeline",
        }
        if pair not in allowed:
            targets = [to for (mine, kind, *_), to in allowed.items() if (mine, kind) == pair[:2]]
            remedy = f"it goes to {' or '.join(targets)}" if targets else "connect from an output, or from the pipeline"
            raise RuntimeError(f"{self.get_name()} cannot be connected to {binding.get_name()}: {remedy}")
        if binding.parents:
            taken = binding.parents[0].get_name()
            raise RuntimeError(f"{binding.get_name()} is connected to {taken} already; each takes one value")
        if not self.is_pipeline and binding.owner is self.owner:
            raise RuntimeError(f"{self.get_name()} cannot be connected to an input of the same module")
        self._check_types(binding)
        self._check_cycles(binding)
        self.bindings.append(binding)
        binding.parents.append(self)

    def _check_types(self, binding: Binding) -> None:
        a, b = self.data_type, binding.data_type
        if a is not None and b is not None and not structural_equal(a, b):
            raise RuntimeError(
                f"{self.get_name()} is {a}, but {binding.get_name()} is {b}; connected inputs and outputs must have one type"
            )
        if self.is_pipeline and self.kind == "input" and self.data_type is None:
            self.data_type = b

    def _check_cycles(self, binding: Binding) -> None:
        if self.is_pipeline or binding.is_pipeline:
            return
        if self.owner in _reached(binding.owner):
            raise RuntimeError(
                f"connecting {self.get_name()} to {binding.get_name()} would make a cycle: {binding.owner.label} comes"
                f" before {self.owner.label} already"
            )


def _reached(wrapper: ModuleWrapper) -> set[ModuleWrapper]:
    """The modules that read what a module gives, it included."""
    found: set[ModuleWrapper] = set()
    todo = [wrapper]
    while todo:
        at = todo.pop()
        if at not in found:
            found.add(at)
            todo += [b.owner for o in at.outputs for b in o.bindings if not b.is_pipeline]
    return found


class BindingList:
    """Bindings by name, made when they are first named."""

    def __init__(self, owner: Any, kind: str) -> None:
        self.owner, self.kind = owner, kind
        self.bindings: dict[str | int, Binding] = {}

    def __getitem__(self, key: str | int) -> Binding:
        if key not in self.bindings:
            self.bindings[key] = Binding(self.owner, self.kind, key)
        return self.bindings[key]

    def __iter__(self) -> Iterator[Binding]:
        return iter(self.bindings.values())

    def __len__(self) -> int:
        return len(self.bindings)


class ModuleWrapper:
    """A module of a pipeline and how it is built: target, dev, params, build_func, mod_name, cpu_affinity ("0,1": the CPUs that its
    thread runs on), export_cc."""

    def __init__(self, mod: IRModule, label: str) -> None:
        self.mod, self.label = mod, label
        self.target: Any = None
        self.target_host: Any = None
        self.dev: Device | None = None
        self.params: dict[str, Any] | None = None
        self.build_func: Callable[..., Any] | None = None
        self.fcompile: Callable[..., Any] | None = None
        self.export_cc: str | None = None
        self.mod_name = "default"
        self.cpu_affinity = ""
        main = infer_module(mod)["main"]
        self.inputs = {p.name_hint: Binding(self, "input", p.name_hint, p.checked_type) for p in main.params}
        result = main.body.checked_type
        types = list(result.fields) if isinstance(result, TupleType) else [result]
        self.outputs = [Binding(self, "output", i, t) for i, t in enumerate(types)]
        self.param_binding = Binding(self, "param", "param")

    def __getitem__(self, key: str) -> Any:
        if key == "input":
            return _Named(self, self.inputs)
        if key == "output":
            return _Numbered(self)
        if key == "param":
            return self.param_binding
        raise RuntimeError(f'{key!r} is not part of a module; its parts are "input", "output" and "param"')

    def set_idx_name(self, idx: int) -> None:
        """Takes its number in the order of the pipeline."""
        self.label = f"mod{idx}"


class _Named:
    def __init__(self, wrapper: ModuleWrapper, found: dict[str, Binding]) -> None:
        self.wrapper, self.found = wrapper, found

    def __getitem__(self, key: str) -> Binding:
        if key not in self.found:
            known = ", ".join(self.found) or "none"
            raise RuntimeError(f"{self.wrapper.label} has no input {key!r}; its inputs are: {known}")
        return self.found[key]


class _Numbered:
    def __init__(self, wrapper: ModuleWrapper) -> None:
        self.wrapper = wrapper

    def __getitem__(self, key: int) -> Binding:
        outputs = self.wrapper.outputs
        if not isinstance(key, int) or not 0 <= key < len(outputs):
            raise RuntimeError(f"{self.wrapper.label} has no output {key!r}; it has {len(outputs)}, numbered from 0")
        return outputs[key]


class PipelineConfig:
    """The modules of a pipeline and their connections: `config[mod]` is a module, `config["input"]["x"]`, `config["output"]["0"]` and
    `config["param_group"]["p"]` are the pipeline's own ends."""

    def __init__(self) -> None:
        self.mod_wrapper: dict[IRModule, ModuleWrapper] = {}
        self.input_bindings = BindingList(self, "input")
        self.output_bindings = BindingList(self, "output")
        self.param_group_bindings = BindingList(self, "param_group")

    def __getitem__(self, key: Any) -> Any:
        if isinstance(key, IRModule):
            if key not in self.mod_wrapper:
                self.mod_wrapper[key] = ModuleWrapper(key, f"mod{len(self.mod_wrapper)}")
            return self.mod_wrapper[key]
        parts = {
            "input": self.input_bindings,
            "output": self.output_bindings,
            "param_group": self.param_group_bindings,
        }
        if not isinstance(key, str) or key not in parts:
            raise RuntimeError(f"{key!r} is neither a module nor one of {', '.join(map(repr, parts))}")
        return parts[key]

    def __str__(self) -> str:
        """Parameter groups and inputs with the modules that take them, outputs, and the connections between modules."""
        order = self.dag_topology_sort()
        lines = []
        if len(self.param_group_bindings):
            groups = [(g.name, to.owner.label) for g in self.param_group_bindings for to in g.bindings]
            lines += ["Params", *[f"|{name}: {label}:param" for name, label in groups], ""]
        lines += [
            "Inputs",
            *[f"|{b.name}: {to.owner.label}:{to.name}" for b in self.input_bindings for to in b.bindings],
        ]
        ends = [(w, o, to) for w in order for o in w.outputs for to in o.bindings]
        outputs = sorted([(self.output_index(to), w.label, o.name) for w, o, to in ends if to.is_pipeline])
        lines += ["", "output", *[f"|output({i}) : {label}.output({name})" for i, label, name in outputs]]
        inner = [f"|{w.label}.output({o.name})-> {to.owner.label}.{to.name}" for w, o, to in ends if not to.is_pipeline]
        return "\n".join([*lines, "", "connections", *inner])

    def dag_topology_sort(self) -> list[ModuleWrapper]:
        """The modules, those before what reads them, numbered so."""
        waiting = {w: {b.parents[0].owner for b in w.inputs.values() if b.parents} - {self} for w in self.modules()}
        order: list[ModuleWrapper] = []
        while waiting:
            ready = next(w for w, before in waiting.items() if not before & waiting.keys())
            order.append(ready)
            del waiting[ready]
        for i, w in enumerate(order):
            w.set_idx_name(i)
        return order

    def get_mod_idx(self, mod: IRModule) -> int:
        """The number of a module in the order in which they run."""
        if mod not in self.mod_wrapper:
            raise ValueError("the pipeline does not have the module")
        return self.dag_topology_sort().index(self.mod_wrapper[mod])

    def pipe_input(self, name: str) -> Binding:
        """An input of the pipeline: `config["input"][name]`."""
        return self.input_bindings[name]

    def pipe_output(self, idx: str | int) -> Binding:
        """An output of the pipeline: `config["output"][idx]`."""
        return self.output_bindings[idx]

    def modules(self) -> list[ModuleWrapper]:
        """The modules, as they were named."""
        return list(self.mod_wrapper.values())

    def get_config(self) -> dict[str, Any]:
        """The configuration as dictionaries: module_connection by module, input_connection, param_connection."""
        order = self.dag_topology_sort()
        number = {w: i for i, w in enumerate(order)}
        modules = {}
        for w in order:
            outputs = []
            for o in w.outputs:
                dependencies: list[dict[str, Any]] = [
                    {"global_output_index": self.output_index(b)}
                    if b.is_pipeline
                    else {"mod_idx": number[b.owner], "input_name": b.name}
                    for b in o.bindings
                ]
                if dependencies:
                    outputs.append({"output_idx": o.name, "dependencies": dependencies})
            pipeline = {"mod_idx": number[w], "cpu_affinity": w.cpu_affinity, "output": outputs}
            modules[w.mod] = {
                "pipeline": pipeline,
                "target_host": w.target_host,
                "mod_name": w.mod_name,
                "build": w.build_func,
                "params": w.params,
                "target": w.target,
                "fcompile": w.fcompile,
                "dev": w.dev,
                "export_cc": w.export_cc,
            }
        inputs = [
            {"global_interface_name": b.name, "mod_idx": number[to.owner], "module_interface_name": to.name}
            for b in self.input_bindings
            for to in b.bindings
        ]
        params = [
            {"global_interface_name": b.name, "mod_idx": number[to.owner]}
            for b in self.param_group_bindings
            for to in b.bindings
        ]
        return {"module_connection": modules, "input_connection": inputs, "param_connection": params}

    def output_index(self, binding: Binding) -> int:
        """The number of an output of the pipeline: its name, where names are numbers, else its place."""
        names = [str(b.name) for b in self.output_bindings]
        if all([n.isdigit() for n in names]):
            return sorted(names, key=int).index(str(binding.name))
        return names.index(str(binding.name))

    def native_config(self) -> dict[str, Any]:
        """The description for the runtime."""
        order = self.dag_topology_sort()
        number = {w: i for i, w in enumerate(order)}
        names = [str(b.name) for b in self.input_bindings if b.bindings]
        stages = []
        for w in order:
            sources = []
            for name, b in w.inputs.items():
                if not b.parents:
                    continue
                given = b.parents[0]
                if given.is_pipeline:
                    sources.append({"name": name, "from": -1, "index": names.index(str(given.name))})
                else:
                    sources.append({"name": name, "from": number[given.owner], "index": given.name})
            cpus = [int(c) for c in w.cpu_affinity.replace(" ", "").split(",") if c]
            stages.append({"name": w.label, "inputs": sources, "cpus": cpus})
        outputs: list[dict[str, Any]] = [{}] * len(self.output_bindings)
        for b in self.output_bindings:
            if not b.parents:
                raise RuntimeError(f"{b.get_name()} is connected to nothing")
            given = b.parents[0]
            outputs[self.output_index(b)] = {"stage": number[given.owner], "index": given.name}
        params = {str(b.name): number[to.owner] for b in self.param_group_bindings for to in b.bindings}
        return {"stages": stages, "inputs": names, "outputs": outputs, "params": params}


def need_inputs(config: PipelineConfig) -> None:
    """RuntimeError for a module's input that nothing is connected to, and that is not a parameter."""
    for w in config.modules():
        loose = [n for n, b in w.inputs.items() if not b.parents and n not in (w.params or {})]
        if loose and not w.param_binding.parents:
            raise RuntimeError(
                f"input {loose[0]!r} of {w.label} is connected to nothing, and its params have no {loose[0]!r}; connect it, or"
                " connect a parameter group to the module"
            )


def build(pipe_configs: PipelineConfig) -> PipelineExecutorFactoryModule:
    """Builds every module of a pipeline, each for its own target."""
    if not isinstance(pipe_configs, PipelineConfig):
        raise RuntimeError(f"build takes a PipelineConfig, but was given a {type(pipe_configs).__name__}")
    if not pipe_configs.mod_wrapper:
        raise RuntimeError("the pipeline has no modules; name them with config[mod]")
    native = pipe_configs.native_config()
    need_inputs(pipe_configs)
    built = []
    for w in pipe_configs.dag_topology_sort():
        make = w.build_func or relay.build
        library = make(w.mod, w.target, params=w.params, target_host=w.target_host, mod_name=w.mod_name)
        built.append(BuiltStage(library, w.dev or cpu(0), w.mod_name, w.fcompile, w.export_cc))
    return PipelineExecutorFactoryModule(built, native, pipe_configs.get_config())


def export_library(factory: PipelineExecutorFactoryModule, directory_path: str | os.PathLike[str]) -> str:
    """Writes a built pipeline: `factory.export_library(directory_path)`."""
    return factory.export_library(directory_path)


class BuiltStage:
    """A module of a pipeline, compiled."""

    __slots__ = ("dev", "export_cc", "fcompile", "library", "mod_name")

    def __init__(
        self, library: Any, dev: Device, mod_name: str, fcompile: Callable[..., Any] | None, export_cc: str | None
    ) -> None:
        self.library, self.dev, self.mod_name = library, dev, mod_name
        self.fcompile, self.export_cc = fcompile, export_cc


class PipelineExecutorFactoryModule:
    """A built pipeline: pipeline_executor.PipelineModule runs it, `export_library` writes it."""

    def __init__(self, stages: list[BuiltStage], native: dict[str, Any], mods_config: dict[str, Any]) -> None:
        self.stages, self._native, self.mods_config = stages, native, mods_config

    def native_config(self) -> dict[str, Any]:
        """The description of the pipeline for the runtime."""
        return self._native

    def executors(self) -> list[Module]:
        """An executor for each stage."""
        return [s.library[s.mod_name](s.dev) for s in self.stages]

    def export_library(self, directory_path: str | os.PathLike[str]) -> str:
        """Writes a library for each stage and the configuration into a directory; the path of the configuration, which
        PipelineModule.load_library reads."""
        folder = Path(directory_path)
        if not folder.is_dir():
            raise RuntimeError(f"The directory {folder} does not exist.")
        libraries = []
        for i, s in enumerate(self.stages):
            name = f"lib{i}.so"
            options = {"cc": s.export_cc} if s.fcompile is not None and s.export_cc else {}
            s.library.export_library(str(folder / name), fcompile=s.fcompile, **options)
            dev = f"{s.dev.device_type},{s.dev.device_id}"
            libraries.append({"mod_idx": i, "lib_name": name, "dev": dev, "mod_name": s.mod_name})
        path = folder / CONFIG_FILE_NAME
        text = json.dumps({"load_config": libraries, "pipeline_config": self._native}, indent=2)
        write_whole(path, text.encode())
        return str(path)


__all__ = [
    "PipelineConfig",
    "PipelineExecutorFactoryModule",
    "build",
    "export_library",
    "pipeline_executor_build_enabled",
]
