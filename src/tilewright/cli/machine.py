"""Programs that decide when they run, as the commands take them: the virtual machine with the face of a graph executor."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from tilewright.cli.models import precision_config
from tilewright.cli.screen import Report
from tilewright.cli.tensors import Array


class MachineExecutor:
    """A module compiled for the virtual machine. Its inputs are the parameters of main that have no value in `params`."""

    def __init__(
        self, mod: Any, params: Mapping[str, Any], target: Any, opt_level: int, precision: str, report: Report
    ) -> None:
        import tilewright as tvm
        from tilewright import relay
        from tilewright.relay.frontend.common.formats import tensors_of

        main = mod["main"]
        self.inputs = {p.name_hint: p.checked_type for p in main.params if p.name_hint not in params}
        results = tensors_of(main.checked_type.ret_type)
        names = list((main.attrs or {}).get("output_tensor_names", ()))
        self.names = [str(names[k]) if k < len(names) else f"output{k}" for k in range(len(results))]
        with tvm.transform.PassContext(opt_level=opt_level, config=precision_config(precision)):
            executable = relay.vm.compile(mod, target, params=params, progress=report)
        self.machine = tvm.runtime.vm.VirtualMachine(executable, tvm.cpu())
        self.given: dict[str, Array] = {}
        self.results: list[Any] = []

    def get_input_info(self) -> tuple[dict[str, Any], dict[str, str]]:
        """Shapes and dtypes by the names of inputs."""
        return {n: t.shape for n, t in self.inputs.items()}, {n: str(t.dtype) for n, t in self.inputs.items()}

    def set_input(self, name: str, value: Array) -> None:
        """Gives an input its value."""
        self.given[name] = np.asarray(value, order="C")

    def run(self) -> None:
        """Runs main on what was set."""
        import tilewright as tvm

        found = self.machine.run(**{n: tvm.nd.array(v) for n, v in self.given.items()})
        self.results = flat(found)

    def get_num_outputs(self) -> int:
        """How many tensors main answers."""
        return len(self.names)

    def get_output(self, index: int) -> Any:
        """One of them, of the last run."""
        return self.results[index]


def flat(value: Any) -> list[Any]:
    """The tensors of a result, tuples flattened."""
    return [value] if hasattr(value, "numpy") else [x for field in value for x in flat(field)]
