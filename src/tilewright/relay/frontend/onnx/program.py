"""Runnable models: compiled for the first inputs, and again for inputs that need other facts at compile time.

Compilation depends on more than the declared types: the structure of inputs that are not tensors, shapes if a converter
needs them, and values of inputs that decide a result's shape or the control flow and that kernels
cannot read. Each such variant is compiled once. Graphs of static shape run in the ahead-of-time executor, others in
the virtual machine.
"""

from __future__ import annotations

import warnings
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from tilewright import runtime
from tilewright.ir import IRModule
from tilewright.relay.backend.build import build
from tilewright.relay.backend.vm import compile as compile_vm
from tilewright.relay.frontend.common.module import is_static
from tilewright.relay.frontend.onnx.importing import Imported, import_model
from tilewright.relay.frontend.onnx.interface import structure
from tilewright.relay.frontend.onnx.unsupported import Unsupported
from tilewright.runtime.host_functions.strings import string_table
from tilewright.runtime.vm import VirtualMachine
from tilewright.support.errors import ModelWarning, TVMError

MOST_VARIANTS = 16
"""The largest number of compiled variants of a model that are kept."""

Run = Callable[[Sequence[np.ndarray]], list[Any]]


class Program:
    """A model that is called with the values of its inputs, in order: arrays, lists for sequences, None for empty optionals."""

    def __init__(self, model: Any, target: Any = "llvm", device: Any = None) -> None:
        self.model, self.target = model, target
        self.device = runtime.cpu(0) if device is None else device
        graph = model.graph
        known = {t.name for t in graph.initializer} | {s.values.name for s in graph.sparse_initializer}
        self.infos = [i for i in graph.input if i.name not in known]
        self.outputs = [o.name for o in graph.output]
        self.pinned = False
        self.bound: set[str] = set()
        self.variants: OrderedDict[Any, tuple[Imported, Run]] = OrderedDict()

    def __call__(self, inputs: Sequence[Any] | Mapping[str, Any]) -> list[Any]:
        """Runs the model and returns the values of the outputs, in order."""
        given = self.ordered(inputs)
        with string_table.run():
            imported, run = self.variant(given)
            return imported.interface.results(run(imported.interface.arguments(given)))

    def ordered(self, inputs: Sequence[Any] | Mapping[str, Any]) -> list[Any]:
        """The inputs' values in order. Omitted ones at the end are empty optionals."""
        names = [i.name for i in self.infos]
        if isinstance(inputs, Mapping):
            unknown = [n for n in inputs if n not in names]
            missing = [i.name for i in self.infos if i.name not in inputs and not i.type.HasField("optional_type")]
            if unknown or missing:
                raise TVMError(
                    f"the model takes {', '.join(names) or 'no inputs'}, but "
                    + (f"{', '.join(unknown)} was given" if unknown else f"{', '.join(missing)} was not given")
                )
            return [inputs.get(n) for n in names]
        values = list(inputs)
        if len(values) > len(names):
            raise TVMError(f"the model takes {len(names)} inputs ({', '.join(names)}), but {len(values)} were given")
        for i in self.infos[len(values) :]:
            if not i.type.HasField("optional_type"):
                raise TVMError(f"the model takes the input {i.name}, but it was not given")
            values.append(None)
        return values

    def variant(self, given: list[Any]) -> tuple[Imported, Run]:
        """The program compiled for these inputs."""
        while True:
            key = self.key(given)
            found = self.variants.get(key)
            if found is not None:
                self.variants.move_to_end(key)
                return found
            try:
                imported = self.imported(given)
            except Unsupported as error:
                more = error.values & {i.name for i in self.infos} - self.bound
                if not self.pinned and (error.shapes or more):
                    self.pinned = True
                elif more:
                    self.bound |= more
                else:
                    raise
                continue
            for text in imported.contradictions if not self.variants else ():
                warnings.warn(text, ModelWarning, stacklevel=3)
            made = imported, runner(imported.mod, self.target, self.device)
            self.variants[key] = made
            while len(self.variants) > MOST_VARIANTS:
                self.variants.popitem(last=False)
            return made

    def key(self, given: list[Any]) -> Any:
        """The key of the variant for these inputs."""
        parts = []
        for info, value in zip(self.infos, given, strict=True):
            if info.name in self.bound:
                parts.append(_frozen(value))
            elif self.pinned or not info.type.HasField("tensor_type") or not info.type.tensor_type.HasField("shape"):
                parts.append(structure(value))
            else:
                parts.append(None)
        return tuple(parts)

    def imported(self, given: list[Any]) -> Imported:
        """The model imported for these inputs."""
        shapes: dict[str, Any] = {}
        values: dict[str, Any] = {}
        for info, value in zip(self.infos, given, strict=True):
            if info.name in self.bound:
                values[info.name] = value
            elif not info.type.HasField("tensor_type"):
                shapes[info.name] = structure(value)
            elif self.pinned or not info.type.tensor_type.HasField("shape"):
                shapes[info.name] = list(np.shape(value))
        return import_model(self.model, shapes, given=values)


def _frozen(value: Any) -> Any:
    if isinstance(value, (list, tuple)):
        return tuple(map(_frozen, value))
    if value is None:
        return None
    array = np.asarray(value)
    return (
        array.dtype.name,
        array.shape,
        tuple(array.reshape(-1).tolist()) if array.dtype == object else array.tobytes(),
    )


def runner(mod: IRModule, target: Any, device: Any) -> Run:
    """Compiled code of `main` as a function of arrays."""
    if is_static(mod):
        return static_runner(mod, target, device)
    machine = VirtualMachine(compile_vm(mod, target), device)

    def run(args: Sequence[np.ndarray]) -> list[Any]:
        found = machine.run(*args)
        return [v.numpy() for v in (found if isinstance(found, (list, tuple)) else _fields(found))]

    return run


def _fields(value: Any) -> list[Any]:
    return [value] if hasattr(value, "numpy") else list(value)


def static_runner(mod: IRModule, target: Any, device: Any) -> Run:
    """A graph of static shape, compiled ahead of time."""
    factory = build(mod, target)
    executor = factory["default"](device)
    set_input, run_all, get_output = executor["set_input"], executor["run"], executor["get_output"]
    count = len(factory.metadata["outputs"])

    def run(args: Sequence[np.ndarray]) -> list[Any]:
        for i, value in enumerate(args):
            set_input(i, runtime.array(value))
        run_all()
        return [get_output(i).numpy() for i in range(count)]

    return run
