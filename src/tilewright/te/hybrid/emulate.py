"""Runs hybrid functions as plain Python on NumPy arrays: Python definitions of the names that scripts use."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from types import FunctionType
from typing import Any

import ml_dtypes  # noqa: F401  (gives NumPy the names of narrow floats)
import numpy as np

from tilewright.target import Target


def _output(shape: Any, dtype: str) -> Any:
    return np.zeros(shape, dtype)


def _allocate(shape: Any, dtype: str = "float32", scope: str = "global") -> Any:
    return np.zeros(shape, dtype)


def _bind(tag: str, extent: int) -> Iterator[int]:
    return iter(range(extent))


def _threads(allow_none: bool = True) -> int:
    target = Target.current(allow_none)
    return int(target.max_num_threads) if target is not None else 1


def _sigmoid(x: Any) -> Any:
    return 1 / (1 + np.exp(-x))


_TYPES = ["int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "float16", "float32", "float64"]
NAMES: dict[str, Any] = {
    "output_tensor": _output,
    "allocate": _allocate,
    "bind": _bind,
    **dict.fromkeys(("serial", "parallel", "vectorize", "unroll", "const_range"), range),
    **{
        name: getattr(np, name)
        for name in (
            "ceil",
            "cos",
            "cosh",
            "exp",
            "floor",
            "fmod",
            "isfinite",
            "isinf",
            "isnan",
            "log",
            "log10",
            "log2",
            "sin",
            "sinh",
            "sqrt",
            "tan",
            "tanh",
            "trunc",
        )
    },
    "nearbyint": np.rint,
    "ceil_div": lambda a, b: (a + b - 1) // b,
    "max_num_threads": _threads,
    "rsqrt": lambda x: 1 / np.sqrt(x),
    "power": np.power,
    "sigmoid": _sigmoid,
    "erf": math.erf,
    "popcount": lambda x: int(x).bit_count(),
    "likely": lambda x: x,
    "if_then_else": lambda c, a, b: a if c else b,
    "max_value": lambda dtype: np.finfo(dtype).max if np.dtype(dtype).kind == "f" else np.iinfo(dtype).max,
    "min_value": lambda dtype: np.finfo(dtype).min if np.dtype(dtype).kind == "f" else np.iinfo(dtype).min,
    **{name: getattr(np, name) for name in _TYPES},
}


def emulated(pyfunc: Callable[..., Any]) -> Callable[..., Any]:
    """The function with the script's names defined. Variables that it captured itself take precedence."""
    assert isinstance(pyfunc, FunctionType)
    names = {**NAMES, **pyfunc.__globals__}
    return FunctionType(pyfunc.__code__, names, pyfunc.__name__, pyfunc.__defaults__, pyfunc.__closure__)
