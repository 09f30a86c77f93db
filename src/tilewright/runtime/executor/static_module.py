"""Base of executors of graphs with static shapes: inputs, outputs, runs, and their times."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from tilewright.runtime.benchmark import BenchmarkResult
from tilewright.runtime.device import DEVICES_OF_A_SESSION, Device
from tilewright.runtime.module import Module, time_function
from tilewright.runtime.ndarray import NDArray, array, empty, from_dlpack, numeric_array
from tilewright.runtime.packed_func import PackedFunc


class StaticModule:
    """Runs a compiled model: inputs, outputs and a workspace of its own, in one thread at a time."""

    def __init__(self, module: Module) -> None:
        self.module = module
        self._is_remote = module.type_key == "rpc"
        self._set_input = module["set_input"]
        self._set_input_zero_copy = module["set_input_zero_copy"]
        self._set_output_zero_copy = module["set_output_zero_copy"]
        self._run = module["run"]
        self._get_input = module["get_input"]
        self._get_output = module["get_output"]
        self._get_num_inputs = module["get_num_inputs"]
        self._get_num_outputs = module["get_num_outputs"]
        self._get_input_index = module["get_input_index"]
        self._get_input_name = module["get_input_name"]
        self._get_input_dtype = module["get_input_dtype"]
        self._taken: dict[str | int, set[Any]] = {}

    def set_input(self, key: str | int | None = None, value: Any = None, **params: Any) -> None:
        """Copies values into inputs, by name or index, or several by keyword. Shapes must be the model's. Values of any strides,
        byte order and numeric dtype are converted, as NumPy converts; an NDArray must have the input's dtype (TypeError). Of
        keywords, the parameters that the model was built with are passed over: they are constants in it."""
        if key is not None:
            self._set(key, value)
        for name, each in params.items():
            if not self._is_folded(name):
                self._set(name, each)

    def _is_folded(self, name: str) -> bool:
        if self._get_input_index(name) >= 0 or not self.module.implements_function("is_bound"):
            return False
        return bool(self.module["is_bound"](name))

    def _set(self, key: str | int, value: Any) -> None:
        if self._is_remote and not (isinstance(value, NDArray) and value.device.device_type >= DEVICES_OF_A_SESSION):
            self.get_input(key).copyfrom(value)
            return
        if not isinstance(value, NDArray):
            known = getattr(value, "dtype", None) in self._taken.get(key, ())
            if not known or (isinstance(value, np.ndarray) and not value.flags.c_contiguous):
                value = self._converted(key, value)
        self._set_input(key, value)

    def _converted(self, key: str | int, value: Any) -> Any:
        """A value that is not an NDArray, in the dtype of an input. dtypes that match are remembered."""
        wanted: str = self._get_input_dtype(key)
        if not isinstance(value, np.ndarray) and hasattr(type(value), "__dlpack__"):
            tensor = from_dlpack(value)
            same = tensor.dtype == wanted
            converted = value if same else numeric_array(tensor._view(), wanted)
        else:
            converted = numeric_array(value, wanted)
            same = isinstance(value, np.ndarray) and value.dtype == converted.dtype
        if same:
            self._taken.setdefault(key, set()).add(value.dtype)
        return converted

    def set_input_zero_copy(self, key: str | int | None = None, value: Any = None, **params: Any) -> None:
        """Runs on the caller's memory, which must be aligned to 64 bytes and stay alive."""
        if key is not None:
            self._set_input_zero_copy(key, from_dlpack(value))
        for name, each in params.items():
            self._set_input_zero_copy(name, from_dlpack(each))

    def set_output_zero_copy(self, key: str | int, value: Any) -> None:
        """Writes an output into the caller's memory, which must be aligned to 64 bytes."""
        self._set_output_zero_copy(key, from_dlpack(value))

    def run(self, **input_dict: Any) -> None:
        """Runs the model, after setting the inputs given by keyword."""
        if input_dict:
            self.set_input(**input_dict)
        self._run()

    def get_num_outputs(self) -> int:
        """How many outputs the model has."""
        count: int = self._get_num_outputs()
        return count

    def get_num_inputs(self) -> int:
        """How many inputs the model has."""
        count: int = self._get_num_inputs()
        return count

    def get_input(self, index: int | str, out: NDArray | None = None) -> NDArray:
        """An input: the executor's own array, or a copy in `out`."""
        return self._tensor(self._get_input, index, out)

    def get_input_index(self, name: str) -> int:
        """Index of a named input, -1 when there is none."""
        index: int = self._get_input_index(name)
        return index

    def get_input_name(self, index: int) -> str:
        """The name of an input."""
        name: str = self._get_input_name(index)
        return name

    def get_input_info(self) -> tuple[dict[str, tuple[int, ...]], dict[str, str]]:
        """Shapes and dtypes, by name, of the inputs that are not parameters."""
        shapes: dict[str, tuple[int, ...]] = {}
        dtypes: dict[str, str] = {}
        for i in range(self.get_num_inputs()):
            if self.module["is_param"](i):
                continue
            name: str = self._get_input_name(i)
            tensor = self.get_input(i)
            shapes[name], dtypes[name] = tensor.shape, tensor.dtype
        return shapes, dtypes

    def get_output(self, index: int | str, out: NDArray | None = None) -> NDArray:
        """An output: the executor's own array, which the next run overwrites, or a copy in `out`."""
        return self._tensor(self._get_output, index, out)

    def _tensor(self, get: PackedFunc, index: int | str, out: NDArray | None) -> NDArray:
        # The other side of a session neither writes an array of this process, nor gives back one that it was only lent.
        result: NDArray = get(index).copyto(out) if out is not None and self._is_remote else get(index, out)
        return result

    def __getitem__(self, key: str) -> Any:
        """A function of the executor, by name."""
        return self.module[key]

    def benchmark(
        self,
        device: Device,
        func_name: str = "run",
        repeat: int = 5,
        number: int = 5,
        min_repeat_ms: int | None = None,
        limit_zero_time_iterations: int = 100,
        end_to_end: bool = False,
        cooldown_interval_ms: int = 0,
        repeats_to_cooldown: int = 1,
        **kwargs: Any,
    ) -> BenchmarkResult:
        """Times runs; with `end_to_end`, setting the inputs and fetching the outputs belongs to it: for a model of a session by this
        machine's clock, with what the network takes."""
        if min_repeat_ms is None:
            min_repeat_ms = 0
        self.set_input(**kwargs)
        if not end_to_end:
            timer = self.module.time_evaluator(
                func_name,
                device,
                number,
                repeat,
                min_repeat_ms,
                limit_zero_time_iterations,
                cooldown_interval_ms,
                repeats_to_cooldown,
            )
            return timer()
        outputs = [empty(t.shape, t.dtype) for t in map(self.get_output, range(self.get_num_outputs()))]
        inputs: Mapping[str, NDArray] = {
            name: array(numeric_array(value, self._get_input_dtype(name))) for name, value in kwargs.items()
        }

        def whole() -> None:
            for name, value in inputs.items():
                self._set(name, value)
            self._run()
            for i, out in enumerate(outputs):
                self._tensor(self._get_output, i, out)

        return time_function(
            whole, number, repeat, min_repeat_ms, limit_zero_time_iterations, cooldown_interval_ms, repeats_to_cooldown
        )
