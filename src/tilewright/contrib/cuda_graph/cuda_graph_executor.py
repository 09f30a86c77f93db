"""The graph executor whose runs on a CUDA device are captured into a CUDA graph. Short kernels are launched much faster that way."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any

from tilewright.contrib import graph_executor
from tilewright.runtime import Device, Module, NDArray, PackedFunc, get_global_func


def create(graph_json_str: str, libmod: Any, device: Device | Sequence[Device]) -> GraphModuleCudaGraph:
    """An executor of a graph in the classic JSON form, whose functions are in a library. ValueError where an output is not on a device
    of CUDA."""
    return GraphModuleCudaGraph(graph_executor.create(graph_json_str, libmod, device).module)


class GraphModuleCudaGraph(graph_executor.GraphModule):
    """Runs a compiled model by a CUDA graph: `GraphModuleCudaGraph(lib["cuda_graph_create"](tvm.cuda(0)))`. All the model does must be
    on one device of CUDA: it is launches of kernels and copies there, on fixed addresses."""

    def __init__(self, module: Module) -> None:
        super().__init__(module)
        devices = {self.get_output(i).device for i in range(self.get_num_outputs())}
        wrong = next((d for d in devices if d.device_type != Device.kDLCUDA), None)
        if wrong is not None:
            raise ValueError(f"a CUDA graph runs on devices of CUDA, but the outputs of this model are on {wrong}")
        self._device: Device = devices.pop()
        self._replay: PackedFunc | None = None

    def capture_cuda_graph(self) -> None:
        """Captures a run into a graph, which later runs replay. The model runs once before, which loads its code and its constants.
        RuntimeError where a part of the run is not work on the device."""
        self._run()
        self._device.sync()
        with self._capturing():
            self._run()

    def run_cuda_graph(self) -> None:
        """Replays the captured run in the current stream of the device; it need not wait."""
        if self._replay is None:
            raise ValueError("no run of this model was captured: call capture_cuda_graph, or run")
        self._replay(_current_stream(self._device))

    def run(self, **input_dict: Any) -> None:
        """Runs the model, after setting the inputs given by keyword; the first run is captured."""
        if input_dict:
            self.set_input(**input_dict)
        if self._replay is None:
            self.capture_cuda_graph()
        self.run_cuda_graph()

    def set_input_zero_copy(self, key: str | int | None = None, value: Any = None, **params: Any) -> None:
        """Runs on the caller's memory, from the next run on, which is captured anew."""
        super().set_input_zero_copy(key, value, **params)
        self._replay = None

    def set_output_zero_copy(self, key: str | int, value: Any) -> None:
        """Writes an output into the caller's memory, from the next run on, which is captured anew."""
        super().set_output_zero_copy(key, value)
        self._replay = None

    def debug_get_output(self, node: int | str, out: NDArray | None = None) -> NDArray:
        """Not in a graph: NotImplementedError."""
        raise NotImplementedError("a captured run keeps no inner tensors; use contrib.debugger.debug_executor")

    @contextmanager
    def _capturing(self) -> Iterator[None]:
        """What the block gives the device becomes the graph."""
        device = self._device
        before, stream = _current_stream(device), device.create_raw_stream()
        device.set_raw_stream(stream)
        try:
            _function("runtime.cuda.begin_capture")(device.device_id, stream)
            try:
                yield
            except BaseException:
                with suppress(RuntimeError):  # a capture that has failed already
                    _function("runtime.cuda.end_capture")(device.device_id, stream)
                raise
            self._replay = _function("runtime.cuda.end_capture")(device.device_id, stream)
        finally:
            device.set_raw_stream(before)
            device.free_raw_stream(stream)


def _current_stream(device: Device) -> int:
    found: int | None = _function("runtime.GetCurrentStream")(device.device_type, device.device_id)
    return found or 0


def _function(name: str) -> PackedFunc:
    """A function of the runtime, or of the library of CUDA, which registers its own when the first device is used."""
    found = get_global_func(name)
    assert found is not None
    return found
