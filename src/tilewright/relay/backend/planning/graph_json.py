"""Graph of a plan in the classic JSON form for the graph executor: nodes, their inputs, and the places of tensors."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from tilewright.node import structural_equal
from tilewright.relay.backend.kernels.kernel import Kernel
from tilewright.relay.backend.kernels.tensor_graph import static_bytes
from tilewright.relay.backend.planning.plan import KernelCall, Place, Plan

OWN_MEMORY = -1
"""The offset of tensors outside of arenas: inputs, parameters, outputs."""


def param_names(plan: Plan) -> list[str]:
    """The names of the constants, `p0`, `p1`, ..., without names of inputs."""
    taken = {name for name, _ in plan.inputs}
    names: list[str] = []
    number = 0
    while len(names) < len(plan.constants.arrays):
        if f"p{number}" not in taken:
            names.append(f"p{number}")
        number += 1
    return names


def kernel_hash(kernel: Kernel) -> str:
    """A hash that identifies a kernel. The graph has it for functions that it calls, and a library for those that it contains."""
    return kernel.digest.hex()[:16]


class _Tensor:
    """One output of a node, with its attributes."""

    __slots__ = ("bytes", "constant", "device", "dtype", "offset", "shape", "storage")

    def __init__(self, place: Place, storage: int, offset: int, constant: int = -1) -> None:
        self.shape, self.dtype = list(place.type.concrete_shape), str(place.type.dtype)
        self.device, self.storage, self.offset, self.constant = place.device, storage, offset, constant
        self.bytes = static_bytes(place.type)


class GraphWriter:
    """Writes a plan as nodes. Tensors of one storage share its memory, and are never live together."""

    def __init__(self, plan: Plan, output_names: Sequence[str], bound_params: Sequence[str]) -> None:
        self.plan, self.output_names, self.bound_params = plan, output_names, bound_params
        self.nodes: list[dict[str, Any]] = []
        self.tensors: list[_Tensor] = []
        self.row_ptr = [0]
        self.arg_nodes: list[int] = []
        self.names: dict[str, int] = {}
        self.storages: dict[Any, int] = {}
        self.at: dict[Place, tuple[int, int]] = {}
        self.inputs: dict[int, tuple[int, int]] = {}
        self.constants: dict[int, tuple[int, int]] = {}
        self.params = param_names(plan)

    def write(self) -> str:
        """The JSON text."""
        for i, (name, t) in enumerate(self.plan.inputs):
            place = Place("input", t, i, None, self.plan.input_devices[i])
            self.inputs[i] = self.null(name, _Tensor(place, self.storage(("input", i)), OWN_MEMORY))
        for call in self.plan.calls:
            self.call(call)
        heads = [[*self.shown(place), 0] for place in self.plan.results]
        return json.dumps(
            {
                "nodes": self.nodes,
                "arg_nodes": self.arg_nodes,
                "heads": heads,
                "attrs": self.attrs(),
                "node_row_ptr": self.row_ptr,
            }
        )

    def attrs(self) -> dict[str, Any]:
        """The attributes of all tensors, in order."""
        devices = [self.plan.devices[t.device] for t in self.tensors]
        attrs: dict[str, Any] = {
            "dltype": ["list_str", [t.dtype for t in self.tensors]],
            "device_index": ["list_int", [d.device_type for d in devices]],
            "storage_id": ["list_int", [t.storage for t in self.tensors]],
            "shape": ["list_shape", [t.shape for t in self.tensors]],
            "storage_offset": ["list_int", [t.offset for t in self.tensors]],
            "constant_offset": ["list_int", [t.constant for t in self.tensors]],
            "output_names": ["list_str", list(self.output_names)],
        }
        if len(self.plan.devices) > 1:
            attrs["device_id"] = ["list_int", [d.device_id for d in devices]]
        if self.bound_params:
            attrs["bound_params"] = ["list_str", list(self.bound_params)]
        return attrs

    def storage(self, key: Any) -> int:
        """The number of the storage with a key."""
        return self.storages.setdefault(key, len(self.storages))

    def node(self, node: dict[str, Any], tensors: Sequence[_Tensor]) -> int:
        base = node["name"]
        count = self.names.get(base, 0)
        self.names[base] = count + 1
        if count:
            node["name"] = f"{base}_{count}"
            self.names.setdefault(node["name"], 1)
        self.nodes.append(node)
        self.tensors += tensors
        self.row_ptr.append(len(self.tensors))
        return len(self.nodes) - 1

    def null(self, name: str, tensor: _Tensor) -> tuple[int, int]:
        """Adds a node that the host sets: an input or a parameter."""
        index = self.node({"op": "null", "name": name, "inputs": []}, [tensor])
        self.arg_nodes.append(index)
        return index, 0

    def call(self, call: KernelCall) -> None:
        reads, writes = call.args[: -call.outputs], call.args[-call.outputs :]
        inputs = [[*self.entry(p), 0] for p in reads]
        func = "__copy" if call.copies else call.kernel.name
        attrs = {
            "num_outputs": str(len(writes)),
            "num_inputs": str(len(reads)),
            "flatten_data": "0",
            "func_name": func,
            "hash": kernel_hash(call.kernel),
        }
        node = {"op": "tvm_op", "name": call.kernel.name, "attrs": attrs, "inputs": inputs}
        index = self.node(node, [self.made(p) for p in writes])
        for k, place in enumerate(writes):
            self.at[place] = (index, k)

    def shown(self, place: Place) -> tuple[int, int]:
        """The output of a place, with the shape that it has in the program."""
        t, entry = self.plan.outputs[place.index], self.entry(place)
        return entry if structural_equal(t, place.type) else self.view(entry, place.shown(t))

    def view(self, source: tuple[int, int], place: Place, at: int = 0) -> tuple[int, int]:
        """Adds a node that is a view of a tensor, from byte `at` on, with another shape."""
        like = self.tensors[self.row_ptr[source[0]] + source[1]]
        if static_bytes(place.type) == like.bytes:
            return self.no_work("reshape_nop", [source], place, _Tensor(place, like.storage, like.offset))
        tensor = _Tensor(place, like.storage, OWN_MEMORY if like.offset == OWN_MEMORY else like.offset + at)
        return self.no_work("slice_nop", [source], place, tensor, {"offset": str(at)})

    def no_work(
        self,
        name: str,
        sources: Sequence[tuple[int, int]],
        place: Place,
        tensor: _Tensor,
        more: dict[str, str] | None = None,
    ) -> tuple[int, int]:
        """Adds a node without work: its tensor is a view of one tensor, of a part of one, or of several that are contiguous."""
        attrs = {
            "num_outputs": "1",
            "num_inputs": str(len(sources)),
            "flatten_data": "0",
            "func_name": "__nop",
            "hash": "0",
            **(more or {}),
        }
        node = {"op": "tvm_op", "name": name, "attrs": attrs, "inputs": [[*s, 0] for s in sources]}
        self.at[place] = (self.node(node, [tensor]), 0)
        return self.at[place]

    def made(self, place: Place) -> _Tensor:
        """A tensor that a kernel writes, or several kernels part by part."""
        if place.kind == "output":
            return _Tensor(place, self.storage(("output", place.index)), OWN_MEMORY)
        assert place.storage is not None
        offset = place.storage.offset
        # Tensors that begin at one offset of the arena are one storage, since they are never live together.
        return _Tensor(place, self.storage((place.device, offset)), offset + place.offset)

    def entry(self, place: Place) -> tuple[int, int]:
        """(node, output) of a place. Parameters and views become nodes when they are first read."""
        if place in self.at:
            return self.at[place]
        if place.view_of is not None:
            return self.view(self.entry(place.view_of), place, place.offset - place.view_of.offset)
        if place.parts:
            return self.no_work("concatenate_nop", [self.entry(p) for p in place.parts], place, self.made(place))
        if place.kind == "input":
            return self.inputs[place.index]
        assert place.kind == "constant"
        if place.index not in self.constants:
            i = place.index
            tensor = _Tensor(place, self.storage(("constant", i)), OWN_MEMORY, self.plan.constants.offsets[i])
            self.constants[i] = self.null(self.params[i], tensor)
        return self.constants[place.index]


def graph_json(plan: Plan, output_names: Sequence[str], bound_params: Sequence[str] = ()) -> str:
    """The graph of a plan as JSON text. bound_params: the names of parameters that compilation has folded."""
    return GraphWriter(plan, output_names, bound_params).write()
