"""The graph executor of classic TVM: one interface for interpreted graphs and for models compiled ahead of time."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tilewright import runtime
from tilewright.runtime import Device, Module, NDArray, cpu, ext_dev
from tilewright.runtime.device import DEVICES_OF_A_SESSION
from tilewright.runtime.executor import StaticModule


def create(graph_json_str: str, libmod: Any, device: Device | Sequence[Device]) -> GraphModule:
    """An executor of a graph in the classic JSON form, whose functions are in a library: the parts of relay.build, or functions
    of tvm.build. Parameters are set by load_params or set_input. A graph over several devices takes all of them; one over an accelerator
    ("ext_dev") also takes that alone, and the CPU beside it."""
    return GraphModule(native_executor("tvm.graph_executor.create", graph_json_str, libmod, device))


def native_executor(maker: str, graph_json_str: str, libmod: Any, device: Device | Sequence[Device]) -> Module:
    """An executor by the registered function that makes it: by the server's for a library and devices of a session."""
    if not isinstance(graph_json_str, str):
        raise ValueError(f"the graph must be JSON text, but is a {type(graph_json_str).__name__}")
    module = libmod if isinstance(libmod, Module) else libmod.get_lib()
    devices: list[Any] = device_list(device)
    kinds = [d.device_type % DEVICES_OF_A_SESSION for d in devices]
    if kinds == [ext_dev().device_type]:
        devices.append(cpu() if devices[0].device_type == kinds[0] else devices[0].session.cpu())
    remote = [d.device_type >= DEVICES_OF_A_SESSION for d in devices]
    if set(remote) != {module.type_key == "rpc"}:
        where = "in a session" if module.type_key == "rpc" else "in this process"
        raise ValueError(
            f"the library is {where}, but the devices are {', '.join(map(str, devices))}; give devices of the same side"
            " (remote.cpu(0) for remote.load_module)"
        )
    make: Any = devices[0].session.get_function(maker) if remote[0] else runtime.get_global_func(maker)
    made: Module = make(graph_json_str, module, *devices)
    return made


def device_list(device: Device | Sequence[Device]) -> list[Device]:
    """The devices given, one or several."""
    devices: list[Any] = list(device) if isinstance(device, (list, tuple)) else [device]
    wrong = next((d for d in devices if not isinstance(d, runtime.Device)), None)
    if wrong is not None or not devices:
        raise ValueError(f"device must be a Device such as cpu(0), or a list of them, but {wrong!r} was given")
    return devices


class GraphModule(StaticModule):
    """Runs a compiled model: `GraphModule(lib["default"](dev))`. Each has inputs, outputs and a workspace of its own, and runs in one
    thread at a time; parameters are shared by all executors of a library until they are set."""

    def debug_get_output(self, node: int | str, out: NDArray | None = None) -> NDArray:
        """Inner tensors share memory with later ones; the debug executor runs up to a node and keeps its result."""
        raise ValueError(
            f"the tensor of node {node!r} is not kept: use contrib.debugger.debug_executor in place of graph_executor"
        )

    def load_params(self, params_bytes: bytes | bytearray) -> None:
        """Sets parameters, and inputs, from serialised parameters (save_param_dict); what the model has not is passed over."""
        self.module["load_params"](bytes(params_bytes))

    def share_params(self, other: GraphModule, params_bytes: bytes | bytearray) -> None:
        """Uses another executor's memory for what the parameters name, in place of its own."""
        self.module["share_params"](other.module, bytes(params_bytes))
