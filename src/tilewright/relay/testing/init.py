"""Weights of a network by the names of its parameters."""

from __future__ import annotations

import numpy as np

from tilewright.ir import IRModule
from tilewright.node.field_values import numpy_dtype
from tilewright.relay import transform
from tilewright.relay.cards.relations import tensor
from tilewright.relay.expr import Function, Var
from tilewright.relay.functor import substitute
from tilewright.runtime import NDArray, array


class Initializer:
    """Fills arrays by what their names end with. A subclass says what weights are."""

    def __call__(self, desc: str, arr: np.ndarray) -> None:
        """Fills `arr` for the parameter called `desc`. Raises ValueError for a name that says nothing."""
        if desc.endswith("weight"):
            self._init_weight(desc, arr)
        elif desc.endswith("bias"):
            arr[:] = 0.0
        elif desc.endswith(("gamma", "var")):
            arr[:] = 1.0
        elif desc.endswith(("beta", "mean")):
            arr[:] = 0.0
        else:
            raise ValueError(
                f"the initializer knows parameters whose names end with weight, bias, gamma, beta, mean or var, not {desc!r}"
            )

    def _init_weight(self, name: str, arr: np.ndarray) -> None:
        raise ValueError(f"{type(self).__name__} does not say how to fill the weight {name!r}; override _init_weight")


class Xavier(Initializer):
    """Initialises weights by the numbers of inputs and outputs (X. Glorot, Y. Bengio, 2010)."""

    def __init__(self, rnd_type: str = "uniform", factor_type: str = "avg", magnitude: float = 3) -> None:
        self.rnd_type, self.factor_type, self.magnitude = rnd_type, factor_type, float(magnitude)

    def _init_weight(self, name: str, arr: np.ndarray) -> None:
        shape = arr.shape
        if len(shape) < 2:
            raise ValueError(f"Xavier fills weights of two axes or more, but {name!r} has the shape {shape}")
        field = float(np.prod(shape[2:]))
        fan_in, fan_out = shape[1] * field, shape[0] * field
        factors = {"avg": (fan_in + fan_out) / 2.0, "in": fan_in, "out": fan_out}
        if self.factor_type not in factors:
            raise ValueError(f'factor_type must be "avg", "in" or "out", but is {self.factor_type!r}')
        # Depthwise weights would be as wide as numbers get.
        scale = np.sqrt(self.magnitude / factors[self.factor_type])
        if self.rnd_type == "uniform":
            arr[:] = np.random.uniform(-scale, scale, size=arr.shape)
        elif self.rnd_type == "gaussian":
            arr[:] = np.random.normal(0, scale, size=arr.shape)
        else:
            raise ValueError(f'rnd_type must be "uniform" or "gaussian", but is {self.rnd_type!r}')


class Constant(Initializer):
    """Weights that are all one number."""

    def __init__(self, value: float) -> None:
        self.value = value

    def _init_weight(self, name: str, arr: np.ndarray) -> None:
        arr[:] = self.value


Workload = tuple[IRModule, dict[str, NDArray]]
"""A network as a module, and its weights by name."""


def create_workload(net: Function, initializer: Initializer | None = None, seed: int = 0) -> Workload:
    """(the network as a module with its types inferred, weights by name): every parameter but "data" gets one."""
    infer = transform.InferType()
    typed = infer(IRModule.from_expr(net))["main"]
    # Parameters whose types the operators told say them from here on.
    named = [Var(p.name_hint, p.checked_type) for p in typed.params]
    body = substitute(typed.body, dict(zip(typed.params, named, strict=True)))
    mod = infer(IRModule.from_expr(Function(tuple(named), body)))
    chosen = initializer or Xavier()
    np.random.seed(seed)
    params = {}
    for p in named:
        if p.name_hint == "data":
            continue
        t = tensor(p.checked_type)
        value = np.zeros(t.concrete_shape, numpy_dtype(t.dtype))
        chosen(p.name_hint, value)
        params[p.name_hint] = array(value)
    return mod, params
