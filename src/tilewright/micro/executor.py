"""Models on a device, kernel by kernel: inputs, outputs and what lies between are the device's arrays."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from tilewright.micro import tasks
from tilewright.micro.errors import MicroError
from tilewright.micro.export.report import TensorPlace, listing, model_tensors
from tilewright.micro.module import MicroModule
from tilewright.runtime import NDArray, ndarray
from tilewright.runtime.dtype import item_bytes, parse_dtype
from tilewright.runtime.linking.symbols import CONSTANTS
from tilewright.runtime.ndarray import numeric_array


class MicroExecutor:
    """A model that `create_micro_mod` loaded, ready to run. The functions are those of `graph_executor.GraphModule`.

    calls: the kernels in their order, each as (function, addresses of its arguments on the device).
    """

    def __init__(self, module: MicroModule) -> None:
        facts = module.facts
        if facts is None:
            raise MicroError("the module holds functions of tvm.build; call them: module[name](...)")
        self.module, self.session, self.facts = module, module.session, facts
        self._allocate(facts)
        self.names = [str(t["name"]) for t in facts["inputs"]]
        self.constants = module.image.symbols.get(CONSTANTS, 0)
        self.calls = [(k["symbol"], [self._address(*a) for a in k["args"]]) for k in facts["kernels"]]
        self._entry = facts.get("entry") if module.implements_function(str(facts.get("entry"))) else None

    def _allocate(self, facts: Mapping[str, Any]) -> None:
        """Inputs, outputs and workspace. Raises MemoryError, with what is missing and what is large, where the heap has no room."""
        free = self.session.heap.free_bytes
        arena = max(int(facts["workspace_bytes"]), 1)
        try:
            self.inputs = [self._empty(t) for t in facts["inputs"]]
            self.outputs = [self._empty(t) for t in facts["outputs"]]
            self.workspace: NDArray = ndarray.empty((arena,), "uint8", self.session.device)
        except MemoryError as error:
            given = [TensorPlace(str(t["name"]), "heap", 0, _bytes(t)) for t in (*facts["inputs"], *facts["outputs"])]
            between = sorted([t for t in model_tensors(facts) if t.memory == "workspace"], key=lambda t: -t.size)[:4]
            wanted = arena + sum([t.size for t in given])
            self.inputs = self.outputs = []
            raise MemoryError(
                f"the arrays of the model do not fit on {self.session.board.name}: they take {wanted} bytes ({listing(given)}, and {arena}"
                f" for what lies between kernels, of which the largest are {listing(between) or 'none'}), but {free} are free;"
                f" {max(wanted - free, 1)} are missing. Smaller other sections make room (section_constraints)"
            ) from error

    def _empty(self, tensor: Mapping[str, Any]) -> NDArray:
        return ndarray.empty(tuple(tensor["shape"]), tensor["dtype"], self.session.device)

    def _address(self, place: str, at: int) -> int:
        """The address of a value: the number of an input or output, or bytes into constants or workspace."""
        if place in ("input", "output"):
            chosen = self.inputs if place == "input" else self.outputs
            return chosen[at].data_address
        if place == "constant":
            return self.constants + at
        if place == "workspace":
            return self.workspace.data_address + at
        raise MicroError(f"kernels of the model take values in {place!r}, which a device does not have")

    def set_input(self, key: str | int | None = None, value: Any = None, **inputs: Any) -> None:
        """Copies inputs, by name or number, to the device. Raises ValueError for names that there are none of, and for other shapes."""
        given: list[tuple[str | int, Any]] = [*([(key, value)] if key is not None else []), *inputs.items()]
        for name, array in given:
            self.inputs[self._index(name)].copyfrom(array if isinstance(array, NDArray) else numeric_array(array))

    def _index(self, name: str | int) -> int:
        if isinstance(name, str) and name not in self.names:
            raise ValueError(f"the model has no input {name!r}; it has {', '.join(self.names)}")
        k = self.names.index(name) if isinstance(name, str) else name
        if not 0 <= k < len(self.inputs):
            raise ValueError(f"the model has no input {k}; it has {len(self.inputs)}")
        return k

    def run(self, **inputs: Any) -> None:
        """Runs the model: its entry, or of models for the graph executor one kernel after the other, as one batch."""
        self.set_input(**inputs)
        session = self.session
        if self._entry is not None:
            tensors = [t.data_address for t in (*self.inputs, *self.outputs)]
            pointers = [*tensors, self.constants, self.workspace.data_address]
            calls = [(self._entry, pointers)]
        else:
            calls = self.calls
        for name, addresses in calls:
            session.submit(name, self.module[name].address, tasks.KERNEL, addresses, self)
        if not session.deferred:
            session.synchronize()

    def get_num_inputs(self) -> int:
        """How many inputs there are."""
        return len(self.inputs)

    def get_num_outputs(self) -> int:
        """How many outputs there are."""
        return len(self.outputs)

    def get_input(self, index: str | int, out: NDArray | None = None) -> NDArray:
        """An input on the device; with `out`, copied there."""
        found = self.inputs[self._index(index)]
        return found if out is None else found.copyto(out)

    def get_output(self, index: int, out: NDArray | None = None) -> NDArray:
        """An output on the device; with `out`, copied there."""
        found = self.outputs[index]
        return found if out is None else found.copyto(out)

    def __call__(self, **inputs: Any) -> list[np.ndarray[Any, Any]]:
        """The outputs for some inputs."""
        self.run(**inputs)
        return [o.numpy() for o in self.outputs]


def _bytes(tensor: Mapping[str, Any]) -> int:
    return int(np.prod(tensor["shape"], dtype=np.int64)) * item_bytes(parse_dtype(tensor["dtype"]))


__all__ = ["MicroExecutor"]
