"""Random tensors made at run time by NumPy's generator, as external tensor operations under their classic names."""

from __future__ import annotations

from typing import Any

import numpy as np

from tilewright import te
from tilewright.ir import DataType
from tilewright.runtime import register_func
from tilewright.tir import call_packed

_generator = [np.random.default_rng()]


def randint(low: int, high: int, size: Any, dtype: str = "int32") -> Any:
    """A tensor of integers in [low, high)."""
    if not (DataType(dtype).is_int or DataType(dtype).is_uint):
        raise ValueError(f"random.randint makes integers, but dtype is {dtype}")
    return _extern("randint", (int(low), int(high)), size, dtype)


def uniform(low: float, high: float, size: Any) -> Any:
    """A float32 tensor of numbers spread evenly over [low, high)."""
    return _extern("uniform", (float(low), float(high)), size, "float32")


def normal(loc: float, scale: float, size: Any) -> Any:
    """A float32 tensor of normally distributed numbers with mean `loc` and standard deviation `scale`."""
    return _extern("normal", (float(loc), float(scale)), size, "float32")


def seed(value: int) -> None:
    """Starts the generator anew, so that the same numbers come again."""
    _generator[0] = np.random.default_rng(value)


def _extern(name: str, parameters: tuple[Any, Any], size: Any, dtype: str) -> Any:
    def call(ins: Any, outs: Any) -> Any:
        return call_packed(f"tvm.contrib.random.{name}", *parameters, outs[0])

    return te.extern(size, [], call, name=name, dtype=dtype)


def _integers(low: int, high: int, out: Any) -> None:
    out.copyfrom(_generator[0].integers(low, high, out.shape, dtype="int64").astype(out.dtype))


register_func("tvm.contrib.random.randint", _integers, override=True)
register_func("tvm.contrib.random.seed", seed, override=True)
register_func(
    "tvm.contrib.random.uniform", lambda a, b, out: out.copyfrom(_generator[0].uniform(a, b, out.shape)), override=True
)
register_func(
    "tvm.contrib.random.normal", lambda m, s, out: out.copyfrom(_generator[0].normal(m, s, out.shape)), override=True
)
