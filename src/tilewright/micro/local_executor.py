"""Graph executors that run here, while the kernels and all tensors are on a device: a session calls one kernel after the other."""

from __future__ import annotations

import json
import math
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from tilewright.micro.errors import MicroError
from tilewright.runtime import Device, Module, NDArray, PackedFunc, load_param_dict, ndarray
from tilewright.runtime.dtype import to_numpy_dtype
from tilewright.runtime.ndarray import numeric_array


class Node(NamedTuple):
    """A call: its name in the graph, the function, and the entries that it reads and writes."""

    name: str
    function: PackedFunc
    args: list[NDArray]
    outputs: list[int]


class LocalGraphExecutor:
    """A graph executor in this process. The functions are those of `graph_executor.GraphModule`.

    graph_json_str: of a model for the graph executor. mod: what has its kernels (`Session.get_system_lib`). device: `Session.device`.

    Raises MicroError for kernels that the device does not have, and RPCError where its memory is too small.
    """

    def __init__(self, graph_json_str: str, mod: Module, device: Device) -> None:
        graph = json.loads(graph_json_str)
        attrs = {name: value[1] for name, value in graph["attrs"].items()}
        self.device, self.nodes = device, graph["nodes"]
        self._rows: list[int] = graph["node_row_ptr"]
        self.entries = self._entries(attrs)
        self._inputs = {self.nodes[n]["name"]: self._rows[n] for n in graph["arg_nodes"]}
        self._outputs = [self._entry(head) for head in graph["heads"]]
        self._calls = [self._call(n, node, mod) for n, node in enumerate(self.nodes) if _calls(node)]

    def _entry(self, place: Sequence[int]) -> int:
        return int(self._rows[place[0]] + place[1])

    def _entries(self, attrs: Mapping[str, Any]) -> list[NDArray]:
        """The tensors: values between kernels in one memory, as the build has laid it out; others apart, one for each storage."""
        offsets = attrs.get("storage_offset", [-1] * len(attrs["shape"]))
        sizes = [math.prod(s) * _bytes(d) for s, d in zip(attrs["shape"], attrs["dltype"], strict=True)]
        arena = max([o + s for o, s in zip(offsets, sizes, strict=True) if o >= 0], default=0)
        memory = ndarray.empty((max(arena, 1),), "uint8", self.device)
        apart: dict[int, NDArray] = {}
        found = []
        facts = zip(attrs["shape"], attrs["dltype"], attrs["storage_id"], offsets, sizes, strict=True)
        for shape, dtype, storage, offset, size in facts:
            if offset >= 0:
                found.append(memory._create_view(tuple(shape), dtype, offset))
                continue
            if storage not in apart:
                apart[storage] = ndarray.empty((max(size, 1),), "uint8", self.device)
            found.append(apart[storage]._create_view(tuple(shape), dtype, 0))
        return found

    def _call(self, number: int, node: Mapping[str, Any], mod: Module) -> Node:
        name = node["attrs"]["func_name"]
        try:
            function = mod.get_function(name)
        except AttributeError as error:
            raise MicroError(f"the device has no kernel {name!r}; its firmware is of another model") from error
        outputs = list(range(self._rows[number], self._rows[number + 1]))
        args = [*[self._entry(i) for i in node["inputs"]], *outputs]
        return Node(node["name"], function, [self.entries[e] for e in args], outputs)

    def _index(self, key: str | int) -> int:
        names = [*self._inputs]
        if isinstance(key, str) and key not in self._inputs:
            raise ValueError(f"the graph has no input {key!r}; it has {', '.join(names)}")
        if isinstance(key, int) and not 0 <= key < len(names):
            raise ValueError(f"the graph has no input {key}; it has {len(names)}")
        return int(self._inputs[key if isinstance(key, str) else names[key]])

    def set_input(self, key: str | int | None = None, value: Any = None, **params: Any) -> None:
        """Copies values into inputs, and parameters, by name or number."""
        given: list[tuple[str | int, Any]] = [*([(key, value)] if key is not None else []), *params.items()]
        for name, array in given:
            self.entries[self._index(name)].copyfrom(array if isinstance(array, NDArray) else numeric_array(array))

    def load_params(self, params_bytes: bytes | bytearray) -> None:
        """Sets the parameters of a serialised dictionary (save_param_dict)."""
        for name, value in load_param_dict(bytes(params_bytes)).items():
            if name in self._inputs:
                self.set_input(name, value)

    def run(self, **input_dict: Any) -> None:
        """Runs the kernels, after setting the inputs that are given."""
        self.set_input(**input_dict)
        for call in self._calls:
            call.function(*call.args)

    def get_num_inputs(self) -> int:
        """How many inputs there are, parameters among them."""
        return len(self._inputs)

    def get_num_outputs(self) -> int:
        """How many outputs there are."""
        return len(self._outputs)

    def get_input(self, index: str | int, out: NDArray | None = None) -> NDArray:
        """An input, on the device; with `out`, copied there."""
        found = self.entries[self._index(index)]
        return found if out is None else found.copyto(out)

    def get_output(self, index: int, out: NDArray | None = None) -> NDArray:
        """An output, on the device; with `out`, copied there."""
        found = self.entries[self._outputs[index]]
        return found if out is None else found.copyto(out)


class LocalDebugExecutor(LocalGraphExecutor):
    """The same, but each node is timed, as seen from here, and its values are kept: `times`, by name of a node, in seconds.

    dump_root: a folder in which the values of each node are written, NAME____N.npy; None: nowhere.
    """

    def __init__(self, graph_json_str: str, mod: Module, device: Device, dump_root: str | None = None) -> None:
        super().__init__(graph_json_str, mod, device)
        self.dump_root = dump_root
        self.times: dict[str, float] = {}
        self.values: dict[str, list[np.ndarray[Any, Any]]] = {}

    def run(self, **input_dict: Any) -> None:
        self.set_input(**input_dict)
        for call in self._calls:
            begun = time.perf_counter()
            call.function(*call.args)
            self.times[call.name] = time.perf_counter() - begun
            self.values[call.name] = [self.entries[e].numpy() for e in call.outputs]
        if self.dump_root is not None:
            folder = Path(self.dump_root)
            folder.mkdir(parents=True, exist_ok=True)
            for name, values in self.values.items():
                for k, value in enumerate(values):
                    np.save(folder / f"{name}____{k}.npy", value)

    def debug_get_output(self, node: int | str, out: NDArray | None = None) -> NDArray:
        """The value of a node, by name or number, in the last run."""
        name = self.nodes[node]["name"] if isinstance(node, int) else node
        if name not in self.values:
            raise ValueError(
                f"the node {name!r} has no value: it is no call, or nothing ran yet; there are {', '.join(self.values)}"
            )
        found = ndarray.array(self.values[name][0])
        return found if out is None else found.copyto(out)


def _calls(node: Mapping[str, Any]) -> bool:
    """Whether a node calls a kernel: those that only reshape do not."""
    return node["op"] == "tvm_op" and not str(node["attrs"]["func_name"]).startswith("__")


def _bytes(dtype: str) -> int:
    return to_numpy_dtype(dtype).itemsize


def create_local_graph_executor(graph_json_str: str, mod: Module, device: Device) -> LocalGraphExecutor:
    """A graph executor in this process, with kernels and tensors on a device."""
    return LocalGraphExecutor(graph_json_str, mod, device)


def create_local_debug_executor(
    graph_json_str: str, mod: Module, device: Device, dump_root: str | None = None
) -> LocalDebugExecutor:
    """The same, with the time and the values of each node."""
    return LocalDebugExecutor(graph_json_str, mod, device, dump_root)


__all__ = ["LocalDebugExecutor", "LocalGraphExecutor", "create_local_debug_executor", "create_local_graph_executor"]
