"""Host operators: what no kernel can do (texts, regular expressions, pictures) runs as a Python function in the midst of compiled code.

    @host_function("text.upper")
    def _upper(config, numbers): ...        # NumPy arrays to one NumPy array

`host.call` is an operator like others: its kernel calls one packed function with the name of the Python function, its
configuration (JSON) and all tensors. So executors, memory plans and code for dynamic dimensions need no case for it. Where the
size of the result is known only from the data, another host function computes it, and `shape` is its result (`dyn.host.call`).
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from tilewright import te
from tilewright.ir import TensorType, TupleType, Type
from tilewright.relay.op.card import DYNAMIC, OPAQUE, OpCard, need
from tilewright.relay.op.data_dependent.dynamic import Dynamic
from tilewright.relay.op.relations import dims, tensor, tensor_type
from tilewright.runtime import register_func
from tilewright.support.errors import TVMError
from tilewright.tir import Any as AnyDim
from tilewright.tir import call_packed

ENTRY = "tilewright.host.call"
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


def config_text(values: Mapping[str, Any]) -> str:
    """A configuration as the attribute of an operator."""
    return json.dumps(values, sort_keys=True)


def run_host(name: str, config: str, arrays: Sequence[np.ndarray]) -> np.ndarray:
    """The results of a host function on arrays. Raises TVMError if nothing is registered under its name."""
    function = _functions.get(name)
    if function is None:
        raise TVMError(
            f"the program calls the host function {name!r}, but this process has none of that name."
            f" Import the module that registers it with relay.op.program.host.host_function. Registered: {', '.join(sorted(_functions))}"
        )
    return np.asarray(function(json.loads(config) if config else {}, *arrays))


def _entry(name: str, config: str, *tensors: Any) -> None:
    *inputs, out = tensors
    made = run_host(name, config, [t.numpy() for t in inputs])
    if tuple(made.shape) != tuple(out.shape):
        raise TVMError(
            f"the host function {name!r} made a tensor of shape {made.shape} where {tuple(out.shape)} was declared"
        )
    out.copyfrom(np.asarray(made, out.dtype, order="C"))


register_func(ENTRY, _entry, override=True)


class host_call(OpCard, key="host.call"):
    """The tensor of `shape` and `dtype` that a Python function makes of the tensors `inputs`."""

    function: str
    shape: tuple[int, ...]
    dtype: str = "float32"
    config: str = ""
    fuse = OPAQUE
    undifferentiable = "it is computed by a Python function; write its gradient with operators"

    def infer(self, inputs: TupleType) -> Type:
        need(isinstance(inputs, TupleType), "the inputs must be a tuple of tensors", f"they are {inputs}", 0)
        for k, t in enumerate(inputs.fields):
            tensor(t, k)
        return tensor_type(self.shape, self.dtype)

    def compute(self, inputs: Sequence[te.Tensor]) -> te.Tensor:
        return te.extern(  # type: ignore[no-any-return]
            [self.shape],
            list(inputs),
            lambda ins, outs: call_packed(ENTRY, self.function, self.config, *ins, *outs),
            name="host_call",
            dtype=[self.dtype],
        )

    def ref(self, inputs: Sequence[np.ndarray]) -> np.ndarray:
        return run_host(self.function, self.config, [np.asarray(x) for x in inputs]).astype(self.dtype, copy=False)


class host_draw(host_call, key="host.draw"):
    """`host.call` of a function that answers differently each time: equal calls are kept apart, and nothing is folded."""

    pure = False


class dyn_host_call(Dynamic, key="dyn.host.call"):
    """`host.call` whose result's shape is computed."""

    of = host_call
    function: str
    dtype: str = "float32"
    config: str = ""
    undifferentiable = host_call.undifferentiable

    def infer(self, inputs: TupleType, shape: TensorType) -> Type:  # type: ignore[override]
        rank: Any = dims(tensor(shape, 1))[0]
        need(isinstance(rank, int), "the number of axes must be known", f"the shape has {rank} elements", 1)
        return tensor_type([AnyDim() for _ in range(rank)], self.dtype)


DYNAMIC[host_call] = dyn_host_call
