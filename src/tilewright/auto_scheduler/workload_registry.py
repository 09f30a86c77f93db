"""Computations by name: a workload's key is JSON of its function's name and its arguments."""

from __future__ import annotations

import json
import pickle
from collections.abc import Callable
from typing import Any

from tilewright.auto_scheduler.utils import (
    decode_workload_key,
    deserialize_args,
    get_func_name,
    key_error,
    serialize_args,
)
from tilewright.support.errors import TVMError
from tilewright.te.operation import PlaceholderOp
from tilewright.te.tensor import Tensor

WORKLOAD_FUNC_REGISTRY: dict[str, Any] = {}
"""Functions by their names; lists of tensors by the keys of their workloads."""


def register_workload(func_name: Any, f: Callable[..., Any] | None = None, override: bool = False) -> Any:
    """Names a function that returns a list of tensors, its inputs and outputs, for constant arguments: a decorator, with or without a name.

    Raises TVMError for a name that is taken, unless `override` is true.
    """
    if callable(func_name):
        f, func_name = func_name, get_func_name(func_name)
    if not isinstance(func_name, str):
        raise TypeError(f"register_workload takes a name or a function, but was given {func_name!r}")

    def register(func: Callable[..., Any]) -> Callable[..., Any]:
        known = WORKLOAD_FUNC_REGISTRY.get(func_name)
        if known is not None and known is not func and not override:
            raise TVMError(f"a workload {func_name} is registered already; give another name, or override=True")
        WORKLOAD_FUNC_REGISTRY[func_name] = func
        return func

    return register if f is None else register(f)


def register_workload_tensors(workload_key: str, tensors: list[Tensor], override: bool = True) -> str:
    """Names tensors, inputs and outputs, by a key. Returns the key."""
    if workload_key in WORKLOAD_FUNC_REGISTRY and not override:
        raise TVMError(f"the workload {workload_key} is registered already; use override=True")
    WORKLOAD_FUNC_REGISTRY[workload_key] = list(tensors)
    return workload_key


def make_workload_key(func: Any, args: Any) -> str:
    """The key of a registered function, or its name, with arguments: tensors, numbers, texts, and tuples of these."""
    name = func if isinstance(func, str) else get_func_name(func) if callable(func) else None
    if name is None:
        raise TypeError(f"make_workload_key takes a function or its name, but was given {func!r}")
    if name not in WORKLOAD_FUNC_REGISTRY:
        raise TVMError(
            f"{name} is not registered as a workload; decorate it by auto_scheduler.register_workload. Known are"
            f" {', '.join([k for k in WORKLOAD_FUNC_REGISTRY if not k.startswith('[')]) or 'none'}"
        )
    return json.dumps((name, *serialize_args(args)))


def workload_key_to_tensors(workload_key: str) -> list[Tensor]:
    """The inputs and outputs of a workload. Raises TVMError for one that is not registered."""
    if workload_key in WORKLOAD_FUNC_REGISTRY:
        return list(WORKLOAD_FUNC_REGISTRY[workload_key])
    try:
        name, *args = json.loads(workload_key)
    except ValueError as error:
        raise TVMError(
            f"a workload's key is JSON, as make_workload_key makes it, but this is {workload_key!r}"
        ) from error
    func = WORKLOAD_FUNC_REGISTRY.get(name) if isinstance(name, str) else None
    if not callable(func):
        raise key_error(workload_key)
    return list(func(*deserialize_args(args)))


def save_workload_func_registry(filename: str) -> None:
    """Writes the registered functions, which must be importable, to a file."""
    named = {k: v for k, v in WORKLOAD_FUNC_REGISTRY.items() if callable(v)}
    with open(filename, "wb") as file:
        pickle.dump(named, file)


def load_workload_func_registry(filename: str) -> None:
    """Registers the functions of a file that `save_workload_func_registry` wrote. Files from strangers may run any code."""
    with open(filename, "rb") as file:
        WORKLOAD_FUNC_REGISTRY.update(pickle.load(file))


def serialize_workload_registry_entry(workload_key: str) -> bytes:
    """What is registered for a workload, as bytes: its tensors, or its function, which must be importable. Raises TVMError for one that is
    not registered."""
    name = workload_key if workload_key in WORKLOAD_FUNC_REGISTRY else str(decode_workload_key(workload_key)[0])
    if name not in WORKLOAD_FUNC_REGISTRY:
        raise key_error(workload_key)
    return pickle.dumps((name, WORKLOAD_FUNC_REGISTRY[name]))


def deserialize_workload_registry_entry(data: bytes) -> None:
    """Registers what `serialize_workload_registry_entry` wrote, unless its name is taken. Bytes from strangers may run any code."""
    name, value = pickle.loads(data)
    WORKLOAD_FUNC_REGISTRY.setdefault(name, value)


def inputs_of(tensors: list[Tensor]) -> list[Tensor]:
    """Those that are read only."""
    return [t for t in tensors if isinstance(t.op, PlaceholderOp)]
