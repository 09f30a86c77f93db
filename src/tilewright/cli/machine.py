"""The virtual machine with the interface of a graph executor, for models with dynamic dimensions or control flow."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from tilewright.cli.devices import devices_of
from tilewright.cli.tensors import Array
from tilewright.support.errors import TVMError


class MachineExecutor:
    """An executor for a library of the virtual machine; `facts` is its metadata."""

    def __init__(self, library: Any, facts: Mapping[str, Any]) -> None:
        import tilewright as tvm

        if "inputs" not in facts:
            raise TVMError(
                "the library lacks a description of its inputs, because an older version wrote it; compile it again"
            )
        for i in facts["inputs"]:
            if i["dtype"] is None:
                raise TVMError(
                    f"the input {i['name']} of the program is not a tensor; run it from Python with runtime.vm.VirtualMachine"
                )
        self.facts = dict(facts)
        self.machine = tvm.runtime.vm.VirtualMachine(library, devices_of(facts))
        self.module = self.machine.module

    def set_input(self, name: str, value: Array) -> None:
        """Sets an input."""
        import tilewright as tvm

        self.machine.set_one_input("main", name, tvm.nd.array(np.asarray(value, order="C")))

    def run(self) -> None:
        """Runs main on the inputs that were set."""
        self.machine.invoke_stateful("main")

    def get_num_outputs(self) -> int:
        """The number of results of main."""
        return len(self.facts["outputs"])

    def get_output(self, index: int) -> Any:
        """A result of the last run. Raises TVMError if it is not a tensor."""
        found = self.module["get_output"](index)
        if not hasattr(found, "numpy"):
            raise TVMError(
                f"the output {self.facts['outputs'][index]['name']} is not a tensor, but a tuple or a value of a data type;"
                " run it from Python with runtime.vm.VirtualMachine"
            )
        return found

    def peak_memory(self) -> int:
        """The peak of bytes of tensors since the last call of this method."""
        found: int = self.module["peak_memory"]()
        return found
