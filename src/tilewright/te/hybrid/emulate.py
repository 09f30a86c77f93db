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


def allocate(shape: Any, dtype: str = "float32", scope: str = "global") -> np.ndarray:
    """An array of zeros."""
    return np.zeros(shape, dtype)


def bind(tag: str, ext: int) -> Iterator[int]:
    """The places of an axis of threads, one after the other."""
    return iter(range(ext))


def max_num_threads(allow_none: bool = True) -> int:
    """The threads that a block of the current target can have; 1 without a target."""
    target = Target.current(allow_none)
    return int(target.max_num_threads) if target is not None else 1


def sigmoid(x: Any) -> Any:
    """1 / (1 + exp(-x))."""
    return 1 / (1 + np.exp(-x))


def rsqrt(x: Any) -> Any:
    """1 / sqrt(x)."""
    return 1 / np.sqrt(x)


def popcount(x: int) -> int:
    """How many bits of a number are 1."""
    return int(x).bit_count()


def inf(dtype: str) -> Any:
    """Infinity, or the largest number of a type without one."""
    return np.dtype(dtype).type(np.inf) if np.dtype(dtype).kind == "f" else np.iinfo(dtype).max


def ninf(dtype: str) -> Any:
    """Minus infinity, or the smallest number of a type without one."""
    return np.dtype(dtype).type(-np.inf) if np.dtype(dtype).kind == "f" else np.iinfo(dtype).min


_TYPES = ["int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "float16", "float32", "float64"]
HYBRID_GLOBALS: dict[str, Any] = {
    "output_tensor": _output,
    "allocate": allocate,
    "bind": bind,
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
    "max_num_threads": max_num_threads,
    "rsqrt": rsqrt,
    "power": np.power,
    "sigmoid": sigmoid,
    "erf": math.erf,
    "popcount": popcount,
    "inf": inf,
    "ninf": ninf,
    "likely": lambda x: x,
    "if_then_else": lambda c, a, b: a if c else b,
    "max_value": lambda dtype: np.finfo(dtype).max if np.dtype(dtype).kind == "f" else np.iinfo(dtype).max,
    "min_value": lambda dtype: np.finfo(dtype).min if np.dtype(dtype).kind == "f" else np.iinfo(dtype).min,
    **{name: getattr(np, name) for name in _TYPES},
}


def emulated(pyfunc: Callable[..., Any]) -> Callable[..., Any]:
    """The function with the script's names defined. Variables that it captured itself take precedence."""
    assert isinstance(pyfunc, FunctionType)
    names = {**HYBRID_GLOBALS, **pyfunc.__globals__}
    return FunctionType(pyfunc.__code__, names, pyfunc.__name__, pyfunc.__defaults__, pyfunc.__closure__)
