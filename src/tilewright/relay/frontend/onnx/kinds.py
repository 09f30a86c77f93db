"""Element types that kernels do not know, each held in a carrier that they do know.

| kind | carrier |
|---|---|
| string | int64: numbers of texts in `strings` |
| float8_*, float4_e2m1fn | uint8: the bits |
| int4, int2 / uint4, uint2 | int8 / uint8: the numbers |
| complex64 | int64: the bits |

What only moves elements works on carriers as it is; the schema says which results have their inputs' type. What computes on
elements decodes them first, and encodes the results: float kinds by tables, so that one piece of code serves all formats.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache
from typing import Any

import ml_dtypes
import numpy as np

SMALL_FLOATS = (
    "float8_e4m3fn", "float8_e4m3fnuz", "float8_e5m2", "float8_e5m2fnuz", "float8_e8m0fnu", "float4_e2m1fn",
)  # fmt: skip
SMALL_INTS = {"int4": "int8", "uint4": "uint8", "int2": "int8", "uint2": "uint8"}
CARRIERS = {
    "string": "int64", "complex64": "int64", **SMALL_INTS, **dict.fromkeys(SMALL_FLOATS, "uint8"),
}  # fmt: skip

MOVING = {
    "Identity", "Reshape", "Transpose", "Squeeze", "Unsqueeze", "Flatten", "Concat", "Split", "Slice", "Gather", "GatherElements",
    "GatherND", "Scatter", "ScatterElements", "ScatterND", "Expand", "Tile", "Where", "Compress", "DepthToSpace", "SpaceToDepth",
    "ReverseSequence", "Shape", "Size", "Constant", "ConstantOfShape", "Pad", "TensorScatter",
}  # fmt: skip
"""Operators that only move elements."""


class Strings:
    """Texts by number. Numbers of constants stay; those made while programs run are forgotten when none runs any more."""

    def __init__(self) -> None:
        self._numbers: dict[Any, int] = {}
        self._texts: dict[int, Any] = {}
        self._passing: list[int] = []
        self._next = 1
        self._running = 0
        self._lock = threading.RLock()

    def number(self, text: Any, keep: bool = False) -> int:
        """The number of a text; equal texts have one number."""
        with self._lock:
            found = self._numbers.get(text)
            if found is None:
                found, self._next = self._next, self._next + 1
                self._numbers[text] = found
                self._texts[found] = text
                if self._running and not keep:
                    self._passing.append(found)
            elif keep and found in self._passing:
                self._passing.remove(found)
            return found

    def encode(self, texts: Any, keep: bool = False) -> np.ndarray:
        """Numbers of an array of texts."""
        array = np.asarray(texts)
        flat = [self.number(t.decode() if isinstance(t, bytes) else str(t), keep) for t in array.reshape(-1).tolist()]
        return np.array(flat, np.int64).reshape(array.shape)

    def decode(self, numbers: np.ndarray) -> np.ndarray:
        """The texts of an array of numbers; 0, which fills what nothing was written to, is the empty text."""
        out = np.empty(numbers.shape, object)
        out.reshape(-1)[:] = [self._texts.get(n, "") for n in numbers.reshape(-1).tolist()]
        return out

    @contextmanager
    def run(self) -> Iterator[None]:
        """While a program runs."""
        with self._lock:
            self._running += 1
        try:
            yield
        finally:
            with self._lock:
                self._running -= 1
                if not self._running:
                    for n in self._passing:
                        del self._numbers[self._texts.pop(n)]
                    self._passing.clear()


strings = Strings()


def kind_of(dtype: Any) -> str:
    """The kind of a NumPy dtype; "" when kernels know it."""
    name = np.dtype(dtype).name
    if np.dtype(dtype).kind in "OUST":
        return "string"
    return name if name in CARRIERS else ""


def carried(array: np.ndarray, keep: bool = True) -> tuple[np.ndarray, str]:
    """(the array in its carrier, its kind). An array of objects that are no texts (sizes as symbols) is what it is."""
    if array.dtype == object and not all([isinstance(t, (str, bytes)) for t in array.reshape(-1)[:1]]):
        return array, ""
    kind = kind_of(array.dtype)
    return (array, "") if not kind else (encode(array, kind, keep), kind)


def encode(array: np.ndarray, kind: str, keep: bool = False) -> np.ndarray:
    """An array of a kind in its carrier."""
    if kind == "string":
        return strings.encode(array, keep)
    if kind in SMALL_INTS:
        return np.asarray(array).astype(SMALL_INTS[kind])
    return np.asarray(np.ascontiguousarray(array, numpy_dtype(kind)).view(CARRIERS[kind])).reshape(np.shape(array))


def decode(array: np.ndarray, kind: str) -> np.ndarray:
    """An array in its carrier as one of its kind."""
    if kind == "string":
        return strings.decode(array)
    if kind in SMALL_INTS:
        return array.astype(numpy_dtype(kind))
    return np.asarray(np.ascontiguousarray(array).view(numpy_dtype(kind))).reshape(array.shape)


def numpy_dtype(kind: str) -> Any:
    """The NumPy dtype of a kind or of a type that kernels know."""
    if kind == "string":
        return np.dtype(object)
    return np.dtype(getattr(ml_dtypes, kind, kind))


@lru_cache
def decoding(kind: str) -> np.ndarray:
    """The float32 value of each code of a small float."""
    codes = np.arange(16 if kind.startswith("float4") else 256, dtype=np.uint8)
    return np.asarray(codes.view(numpy_dtype(kind)), np.float32)


@lru_cache
def encoding(kind: str, saturate: bool = True, up: bool = False) -> tuple[np.ndarray, np.ndarray, int, int]:
    """How magnitudes become codes: (bounds, codes, the code of NaN, the bit of the sign).

    A magnitude m gets codes[number of bounds below m]; a bound is the midpoint of two neighbours, less one step where a tie goes to
    the upper one (ties go to even codes). `saturate`: what is too large becomes the largest, else infinity or NaN.
    """
    values = decoding(kind)
    signed = kind != "float8_e8m0fnu"
    half = len(values) // 2 if signed else len(values)
    finite = np.flatnonzero(np.isfinite(values[:half]))
    order = finite[np.argsort(values[finite], kind="stable")]
    grid = values[order].astype(np.float64)
    if up:
        middle = grid[:-1].astype(np.float32)
    else:
        middle = ((grid[:-1] + grid[1:]) / 2).astype(np.float32)
        odd = order[:-1] % 2 == 1
        middle = np.where(odd, np.nextafter(middle, np.float32(0)), middle)
    nans = np.flatnonzero(np.isnan(values))
    nan = int(nans[0]) if len(nans) else half
    codes = [*order.tolist()]
    if not kind.startswith("float4") and signed:
        infinite = np.flatnonzero(np.isposinf(values[:half]))
        step = grid[-1] - grid[-2]
        beyond = np.float32(grid[-1] + step / 2)
        if order[-1] % 2 == 1:
            beyond = np.nextafter(beyond, np.float32(0))
        if not saturate:
            middle = np.append(middle, beyond)
            codes.append(int(infinite[0]) if len(infinite) else nan)
    return middle.astype(np.float32), np.array(codes, np.uint8), nan, half if signed else 0
