"""Programs that decide when they run, as the commands take them: the virtual machine with the face of a graph executor."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from tilewright.cli.tensors import Array
from tilewright.relay.frontend.common.formats import TensorInfo
from tilewright.support.errors import TVMError


class MachineExecutor:
    """A library for the virtual machine, with the metadata that tell its inputs and outputs."""

    def __init__(self, library: Any, facts: Mapping[str, Any]) -> None:
        import tilewright as tvm

        if "inputs" not in facts:
            raise TVMError(
                "the library says nothing of its inputs: it was written by an older version; compile it again"
            )
        for i in facts["inputs"]:
            if i["dtype"] is None:
                raise TVMError(
                    f"the input {i['name']} of the program is no tensor; runtime.vm.VirtualMachine runs it from a program of one's own"
                )
        self.inputs = [TensorInfo(i["name"], i["dtype"], i["shape"]) for i in facts["inputs"]]
        self.kernels = list(facts["kernels"])
        self.names = [str(o["name"]) for o in facts["outputs"]]
        self.machine = tvm.runtime.vm.VirtualMachine(library, tvm.cpu())
        self.module = self.machine.module

    def set_input(self, name: str, value: Array) -> None:
        """Gives an input its value."""
        import tilewright as tvm

        self.machine.set_one_input("main", name, tvm.nd.array(np.asarray(value, order="C")))

    def run(self) -> None:
        """Runs main on what was set."""
        self.machine.invoke_stateful("main")

    def get_num_outputs(self) -> int:
        """How many values main answers."""
        return len(self.names)

    def get_output(self, index: int) -> Any:
        """One of them, of the last run."""
        found = self.module["get_output"](index)
        if not hasattr(found, "numpy"):
            raise TVMError(
                f"the output {self.names[index]} is no tensor, but a tuple or a value of a data type;"
                " runtime.vm.VirtualMachine runs it from a program of one's own"
            )
        return found

    def peak_memory(self) -> int:
        """The most bytes that tensors of runs took at once since this was last asked."""
        found: int = self.module["peak_memory"]()
        return found
