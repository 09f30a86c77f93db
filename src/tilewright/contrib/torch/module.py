"""Exported models as modules of PyTorch: `GraphModule` runs graphs, `VMModule` programs of the virtual machine. PyTorch can script and
trace them (`TraceTvmModule`); what it makes of them runs in the process that made it."""

from typing import Any, List  # noqa: UP035  TorchScript reads the annotations of this module, and knows this name

import torch

from tilewright.contrib.graph_executor import create
from tilewright.contrib.torch.tensors import as_argument, as_tensor
from tilewright.relay import load_param_dict
from tilewright.runtime import device as device_of
from tilewright.runtime import load_module
from tilewright.runtime.vm import Executable, VirtualMachine

# PyTorch's compilers record calls of operators. `tilewright::run` is one, which finds what it runs by number. It stays for good, as nothing
# tells when the last recording that calls it is gone.
_running: list[Any] = []
_library = torch.library.Library("tilewright", "DEF")
_library.define("run(int number, Tensor[] inputs) -> Tensor[]")


def _run(number: int, inputs: Any) -> Any:
    found = _running[number](inputs) if number >= 0 else None
    if found is None:
        raise RuntimeError("the module has no model; call init first")
    return found


_library.impl("run", _run, "CompositeExplicitAutograd")


class _Module(torch.nn.Module):  # type: ignore[misc]
    """A model with num_inputs inputs and num_outputs outputs on a device of PyTorch, such as "cuda:0"."""

    __jit_unused_properties__ = ["device"]

    @classmethod
    def shape_repr(cls, input_shapes: Any) -> str:
        """Shapes as text, such as "2x3,4"."""
        return ",".join(["x".join([str(int(d)) for d in shape]) for shape in input_shapes])

    def __init__(self, num_inputs: int, num_outputs: int, device: Any = None) -> None:
        super().__init__()
        self.num_inputs, self.num_outputs, self.number = num_inputs, num_outputs, -1
        self.dummy_param = torch.nn.Parameter(torch.empty(0))
        if device is not None:
            self.to(device)

    @property
    def device(self) -> str:
        """The device, as PyTorch writes it."""
        return str(self.dummy_param.device)

    def forward(self, inputs: List[torch.Tensor]) -> List[torch.Tensor]:  # noqa: UP006
        """The outputs of a run."""
        found: List[torch.Tensor] = torch.ops.tilewright.run(self.number, inputs)  # noqa: UP006
        return found

    def _start(self, input_shapes: Any, model: Any) -> None:
        shapes = [tuple(s) for s in input_shapes]
        if len(shapes) != self.num_inputs:
            raise ValueError(f"the module has {self.num_inputs} inputs, but {len(shapes)} shapes were given")

        def run(inputs: Any) -> Any:
            given = [tuple(i.shape) for i in inputs]
            if given != shapes:
                raise ValueError(f"the model takes tensors of shapes {shapes}, but was given {given}")
            found = [as_tensor(o).clone() for o in model([as_argument(i) for i in inputs])]
            if len(found) != self.num_outputs:
                raise ValueError(f"the model has {len(found)} outputs, not {self.num_outputs}")
            return found

        _running.append(run)
        self.number = len(_running) - 1

    def _device(self) -> Any:
        place = self.dummy_param.device
        return device_of(place.type, place.index or 0)


class GraphModule(_Module):
    """A graph that was exported: `init` reads it, and a call takes a list of tensors and gives one."""

    def init(self, input_shapes: Any, lib_path: str, graph_path: str, params_path: str) -> None:
        """Reads the library, the graph (JSON) and the parameters (save_param_dict's bytes). The model runs on the device that the module is
        on now."""
        with open(graph_path, encoding="utf-8") as text, open(params_path, "rb") as data:
            executor = create(text.read(), load_module(lib_path), self._device())
            executor.set_input(None, **load_param_dict(data.read()))

        def model(inputs: Any) -> Any:
            for k, value in enumerate(inputs):
                executor.set_input(k, value)
            executor.run()
            return [executor.get_output(k) for k in range(executor.get_num_outputs())]

        self._start(input_shapes, model)


class VMModule(_Module):
    """A program of the virtual machine that was exported: `init` reads it, and a call takes a list of tensors and gives one."""

    def init(self, input_shapes: Any, lib_path: str, code_path: str) -> None:
        """Reads the library and the code (the two that Executable.save gives). The program runs on the device that the module is on now."""
        with open(code_path, "rb") as code:
            machine = VirtualMachine(Executable.load_exec(code.read(), load_module(lib_path)), self._device())

        def model(inputs: Any) -> Any:
            found = machine.invoke("main", *inputs)
            return list(found) if not hasattr(found, "to_dlpack") else [found]

        self._start(input_shapes, model)


class TraceTvmModule(torch.nn.Module):  # type: ignore[misc]
    """A GraphModule or VMModule, scripted or not, as a module that takes tensors rather than a list, for `torch.jit.trace`."""

    def __init__(self, tvm_module: Any) -> None:
        super().__init__()
        self.tvm_module = tvm_module

    def forward(self, *inputs: Any) -> Any:
        """The output of a run; a tuple of several."""
        found = self.tvm_module(list(inputs))
        return found[0] if len(found) == 1 else tuple(found)


__all__ = ["GraphModule", "TraceTvmModule", "VMModule"]
