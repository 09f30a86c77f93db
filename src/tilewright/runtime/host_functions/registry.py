"""Host functions by name: Python functions that compiled code calls.

    @host_function("text.upper")
    def _upper(config, numbers): ...        # NumPy arrays to one NumPy array

A kernel calls one packed function (`ENTRY`) with the name of the Python function, its configuration (JSON) and all tensors. The name
in a library says the module that registers the function ("text.upper@my_package.text"), so a process that loads the library imports
what it needs at the first call.
"""

from __future__ import annotations

import importlib
import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from tilewright.runtime.packed_func import register_func
from tilewright.support.errors import TVMError, said

ENTRY = "tilewright.host.call"
Config = Mapping[str, Any]
"""The configuration of a host function: what its JSON says."""
HostFunction = Callable[..., Any]
_functions: dict[str, HostFunction] = {}


def host_function(name: str) -> Callable[[HostFunction], HostFunction]:
    """Register a Python function for `host.call`: f(config, *arrays) -> array of the declared shape and dtype.

    Raises ValueError where another module registered one of that name: programs call functions by name only.
    """

    def register(f: HostFunction) -> HostFunction:
        taken = _functions.get(name)
        if taken is not None and taken.__module__ != f.__module__:
            raise ValueError(
                f"the host function {name!r} of {f.__module__} has the name of one of {taken.__module__}; take another"
            )
        _functions[name] = f
        return f

    return register


def config_text(values: Config) -> str:
    """A configuration as the attribute of an operator."""
    return json.dumps(values, sort_keys=True)


def name_in_code(name: str) -> str:
    """The name that compiled code calls a host function by: its own, with the module that registers it."""
    function = _functions.get(name)
    return name if function is None else f"{name}@{function.__module__}"


def _parts(name: str) -> tuple[str, str]:
    """The name of a function that compiled code calls, and its module, or "" where there is none."""
    own, at, module = name.rpartition("@")
    return (own, module) if at else (name, "")


def run_host(name: str, config: str, arrays: Sequence[np.ndarray]) -> np.ndarray:
    """The results of a host function on arrays. Raises TVMError if nothing is registered under its name."""
    own, module = _parts(name)
    if own not in _functions and module:
        try:
            importlib.import_module(module)
        except ImportError as error:
            raise TVMError(
                f"the program calls the host function {own!r} of {module}, which cannot be imported here: {error}"
            ) from None
    function = _functions.get(own)
    if function is None:
        raise TVMError(
            f"the program calls the host function {own!r}, but this process has none of that name. Import the module that registers"
            " it with tilewright.runtime.host_functions.registry.host_function."
            f" Registered: {', '.join(sorted(_functions)) or 'none'}"
        )
    return np.asarray(function(json.loads(config) if config else {}, *arrays))


def _entry(name: str, config: str, *tensors: Any) -> None:
    *inputs, out = tensors
    try:
        made = run_host(name, config, [t.numpy() for t in inputs])
    except TVMError:
        raise
    except (ValueError, TypeError, LookupError, AttributeError, ArithmeticError) as error:
        raise TVMError(f"the host function {_parts(name)[0]!r} fails: {said(error)}") from error
    if tuple(made.shape) != tuple(out.shape):
        raise TVMError(
            f"the host function {_parts(name)[0]!r} made a tensor of shape {made.shape} where {tuple(out.shape)} was declared"
        )
    out.copyfrom(np.asarray(made, out.dtype, order="C"))


register_func(ENTRY, _entry, override=True)
