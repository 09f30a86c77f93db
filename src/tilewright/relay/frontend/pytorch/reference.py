"""PyTorch as the reference of its own models, with the results of single nodes."""

from __future__ import annotations

import copy
import functools
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from tilewright.node.field_values import numpy_dtype
from tilewright.relay.frontend.common.formats import Array, Reference
from tilewright.relay.frontend.pytorch.dtypes import tensor_array
from tilewright.relay.frontend.pytorch.exported import ExportedImporter, operator_name
from tilewright.relay.frontend.pytorch.script_graph import (
    attribute_paths,
    inlined,
    number_dtype,
    place_of,
    script_inputs,
)
from tilewright.support.errors import TVMError, said

if TYPE_CHECKING:
    import torch


def tensor_of(array: Array) -> Any:
    """A NumPy array as a tensor, also in types that NumPy lacks."""
    if array.dtype == numpy_dtype("bfloat16"):
        return torch.from_numpy(np.ascontiguousarray(array).view(np.int16)).view(torch.bfloat16)
    return torch.from_numpy(np.ascontiguousarray(array))


def _arrays(x: Any) -> list[Array]:
    if isinstance(x, torch.Tensor):
        return [] if x.is_complex() else [tensor_array(x)]
    if isinstance(x, (list, tuple)):
        return [a for part in x for a in _arrays(part)]
    if isinstance(x, dict):
        return [a for part in x.values() for a in _arrays(part)]
    return []


class _Recording(torch.fx.Interpreter):  # type: ignore[misc]
    """Runs a graph and keeps the results of some nodes."""

    def __init__(self, module: torch.nn.Module, wanted: Sequence[str]) -> None:
        super().__init__(module)
        self.wanted, self.made = set(wanted), dict[str, list[Array]]()

    def run_node(self, n: Any) -> Any:
        result = super().run_node(n)
        if n.name in self.wanted:
            # A copy, which later in-place writes do not change.
            self.made[n.name] = [a.copy() for a in _arrays(result)]
        return result


class ProgramReference(Reference):
    """An exported program, run call by call like in the importer."""

    title = "PyTorch"

    def __init__(self, program: torch.export.ExportedProgram) -> None:
        self.program = ExportedImporter("", "float32", None, False).prepared(program)
        self.nodes = {}
        for node in self.program.graph.nodes:
            named = operator_name(node.target) if node.op == "call_function" else None
            if named is not None and hasattr(node.meta.get("val"), "__len__"):
                self.nodes[node.name] = f"{named[0]}.{named[1]}".removesuffix(".")

    def run(self, inputs: Mapping[str, Array], nodes: Sequence[str] = ()) -> tuple[list[Array], dict[str, list[Array]]]:
        """Outputs (followed by the state that the model writes), and results of nodes."""
        program, signature = self.program, self.program.graph_signature
        held = {**program.constants, **program.state_dict}
        fakes = {n.name: n.meta.get("val") for n in program.graph.nodes if n.op == "placeholder"}
        args = []
        for spec in signature.input_specs:
            name = getattr(spec.arg, "name", "")
            if spec.kind.name != "USER_INPUT":
                args.append(held.get(spec.target))
            elif name in inputs:
                args.append(tensor_of(inputs[name]))
            else:
                args.append(getattr(spec.arg, "value", fakes.get(name)))
        recording = _Recording(program.graph_module, nodes)
        try:
            with torch.no_grad():
                found = recording.run(*[a.clone() if isinstance(a, torch.Tensor) else a for a in args])
        except Exception as error:
            raise TVMError(f"PyTorch cannot run the exported program ({said(error)})") from error
        own: list[Array] = []
        written: list[Array] = []
        for spec, value in zip(signature.output_specs, found, strict=True):
            (written if spec.kind.name.endswith("MUTATION") else own).extend(_arrays(value))
        return own + written, recording.made


class ScriptReference(Reference):
    """TorchScript. Additional outputs of the graph give the results of its nodes."""

    title = "PyTorch"

    def __init__(self, module: torch.nn.Module) -> None:
        self.module = module
        self.graph = inlined(module)
        self.values: dict[str, list[str]] = {}
        self.nodes: dict[str, str] = {}
        for node in self.graph.nodes():
            if not node.kind().startswith(("aten::", "quantized::")):
                continue
            tensors = [o.debugName() for o in node.outputs() if o.type().kind() == "TensorType"]
            if tensors:
                self.nodes[place_of(node)], self.values[place_of(node)] = node.kind(), tensors

    def run(self, inputs: Mapping[str, Array], nodes: Sequence[str] = ()) -> tuple[list[Array], dict[str, list[Array]]]:
        """Outputs (followed by the attributes that the model writes), and results of nodes."""
        graph = inlined(self.module)
        held = {o.debugName(): o for n in graph.nodes() for o in n.outputs()}
        wanted = [(n, v) for n in nodes for v in self.values[n]]
        count = len(list(graph.outputs()))
        if wanted:
            graph.setInsertPoint(next(iter(graph.nodes())))
            nothing = graph.insertConstant(None)
            for _, v in wanted:
                # A copy at its node, which later in-place writes do not change.
                clone = graph.create("aten::clone", [held[v], nothing], 1)
                clone.insertAfter(held[v].node())
                graph.registerOutput(clone.output())
        torch._C._jit_pass_lint(graph)
        graph.makeMultiOutputIntoTuple()
        function = torch._C._create_function_from_graph("forward", graph)
        args = [
            tensor_of(inputs[n]) if number_dtype(v) is None else inputs[n].item()
            for n, v in script_inputs(self.module).items()
        ]
        # Each run begins with the state in the file.
        module = copy.deepcopy(self.module)
        before = {p: (t, t._version) for p, t in attributes(graph, module).items()}
        takes_self = next(iter(graph.inputs())).type().kind() == "ClassType" if len(list(graph.inputs())) else False
        try:
            with torch.no_grad():
                found = function(module._c, *args) if takes_self else function(*args)
        except Exception as error:
            raise TVMError(f"PyTorch cannot run the TorchScript model ({said(error)})") from error
        results = list(found) if count + len(wanted) > 1 else [found]
        made: dict[str, list[Array]] = {n: [] for n in nodes}
        for (n, _), value in zip(wanted, results[count:], strict=True):
            made[n] += [a.copy() for a in _arrays(value)]
        after = attributes(graph, module)
        written = [
            t for p, t in after.items() if p not in before or t is not before[p][0] or t._version != before[p][1]
        ]
        return _arrays(results[:count]) + _arrays(written), made


def attributes(graph: torch.Graph, module: torch.nn.Module) -> dict[str, Any]:
    """The tensors of a script that its graph reads or writes, by path, with the module's current values."""
    held = {p: functools.reduce(getattr, p.split("."), module) for p in attribute_paths(graph)}
    return {p: t for p, t in held.items() if isinstance(t, torch.Tensor)}
