"""Values of inputs that a task is measured with: where they matter, such as the indices of sparse matrices."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from tilewright.auto_scheduler.utils import get_func_name
from tilewright.auto_scheduler.workload_registry import inputs_of
from tilewright.runtime import NDArray
from tilewright.runtime.ndarray import array
from tilewright.support.errors import TVMError
from tilewright.te.tensor import Tensor
from tilewright.tuning.inputs import random_input
from tilewright.tuning.measure import Argument, Signature

if TYPE_CHECKING:
    from tilewright.auto_scheduler.search_task import SearchTask

TASK_INPUT_BUFFER_TABLE: dict[str, dict[str, NDArray]] = {}
"""Values by the key of a workload and the name of an input."""
TASK_INPUT_CHECK_FUNC_REGISTRY: dict[str, Callable[[Sequence[Tensor]], dict[Tensor, str]]] = {}
"""Functions that find the inputs of computations, by the names under which they were registered."""


def register_task_input_buffer(
    workload_key: str, input_name: str, input_data: Any, overwrite: bool = False, save_to_file: bool = False
) -> NDArray:
    """Sets the values of a workload's input, an array. Those that were set before stay, unless `overwrite`. save_to_file: writes them to a
    file of the current folder as well, whose name says name, shape and dtype. Returns the values that the input has now."""
    known = TASK_INPUT_BUFFER_TABLE.setdefault(workload_key, {})
    if input_name not in known or overwrite:
        known[input_name] = input_data if isinstance(input_data, NDArray) else array(np.asarray(input_data))
        if save_to_file:
            values = known[input_name].numpy()
            sizes = "".join([f"{d}_" for d in values.shape])
            values.tofile(f"{input_name}.{sizes}{values.dtype}.npy")
    return known[input_name]


def get_task_input_buffer(workload_key: str, input_name: str) -> NDArray:
    """The values of a workload's input, if need be from a file of the current folder. Raises TVMError where there are none."""
    known = TASK_INPUT_BUFFER_TABLE.setdefault(workload_key, {})
    if input_name not in known:
        found = _from_file(input_name)
        if found is None:
            raise TVMError(
                f"no values are known of the input {input_name} of {workload_key}: give them by SearchTask(..., task_inputs={{...}})"
            )
        known[input_name] = found
    return known[input_name]


def _from_file(name: str) -> NDArray | None:
    for path in sorted(Path().glob(f"{name}.*.npy")):
        *sizes, dtype = path.name[len(name) + 1 : -len(".npy")].split("_")
        if all([s.isdecimal() for s in sizes]):
            return array(np.fromfile(path, dtype).reshape([int(s) for s in sizes]))
    return None


def register_task_input_check_func(func_name: Any, f: Any = None, override: bool = False) -> Any:
    """Registers a function, by a name or as a decorator: of a computation's tensors, it returns {tensor: name of the input whose values it
    takes}. By default, a tensor takes those of its own name."""
    if callable(func_name):
        f, func_name = func_name, get_func_name(func_name)

    def register(func: Any) -> Any:
        if func_name in TASK_INPUT_CHECK_FUNC_REGISTRY and not override:
            raise TVMError(f"a function {func_name} is registered already; give another name, or override=True")
        TASK_INPUT_CHECK_FUNC_REGISTRY[func_name] = func
        return func

    return register if f is None else register(f)


def prepare_input_map(args: Sequence[Tensor], workload_key: str | None = None) -> dict[Tensor, str]:
    """The names of inputs of a computation, by its tensors: what registered functions say, or the tensors' own."""
    found = {t: t.op.name for t in inputs_of(list(args))}
    for check in TASK_INPUT_CHECK_FUNC_REGISTRY.values():
        found.update(check(args))
    return found


def registered_names(task_inputs: Any, workload_key: str, overwrite: bool, save_to_file: bool) -> list[str]:
    """The names of a task's inputs, whose values are registered if they are given: {name: array}, or names."""
    if task_inputs is None:
        return []
    if isinstance(task_inputs, dict):
        for name, values in task_inputs.items():
            register_task_input_buffer(workload_key, name, values, overwrite, save_to_file)
    return [os.fspath(name) for name in task_inputs]


def with_values(signature: Signature, task: SearchTask) -> Signature:
    """The signature of a task's programs with the values of its inputs; other parameters have random ones. Raises TVMError for an input
    that no parameter is, and for values of another shape or type than its own."""
    if not task.task_input_names:
        return signature
    tensors = task.compute_dag.tensors
    names = prepare_input_map(tensors, task.workload_key)
    unknown = set(task.task_input_names) - set(names.values())
    if unknown:
        raise TVMError(
            f"{task.workload_key} has no input {', '.join(sorted(unknown))}; it has {', '.join(names.values())}"
        )
    random, held = np.random.default_rng(0), []
    for tensor, argument in zip(tensors, signature.arguments, strict=True):
        name = names.get(tensor)
        if name not in task.task_input_names:
            held.append(random_input(argument, random).tobytes())
            continue
        values = get_task_input_buffer(task.workload_key, str(name)).numpy()
        if Argument(values.shape, values.dtype.name) != argument:
            raise TVMError(
                f"the input {name} is {argument.dtype} of {list(argument.shape)}, but its values are {values.dtype} of"
                f" {list(values.shape)}"
            )
        held.append(values.tobytes())
    return signature._replace(values=tuple(held))
