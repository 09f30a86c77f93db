"""Element types that kernels do not support, each held in a carrier type that they do support.

| kind | carrier |
|---|---|
| string | int64: numbers of strings in `strings` |
| float8_*, float4_e2m1fn | uint8: the bits |
| int4, int2 / uint4, uint2 | int8 / uint8: the numbers |
| complex64 | int64: the bits |
| complex128 | int64: numbers of strings that spell the value, since kernels cannot move 16 bytes |

Operators that only move elements work directly on carriers. The schema gives the results with an input's type. Operators that compute
on elements decode them first, and encode the results. Float kinds use tables, so one implementation serves all formats.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import ml_dtypes
import numpy as np

from tilewright.runtime.host_functions.strings import string_table

SMALL_FLOATS = (
    "float8_e4m3fn", "float8_e4m3fnuz", "float8_e5m2", "float8_e5m2fnuz", "float8_e8m0fnu", "float4_e2m1fn",
)  # fmt: skip
SMALL_INTS = {"int4": "int8", "uint4": "uint8", "int2": "int8", "uint2": "uint8"}
CARRIERS = {
    "string": "int64", "complex64": "int64", "complex128": "int64", **SMALL_INTS, **dict.fromkeys(SMALL_FLOATS, "uint8"),
}  # fmt: skip

MOVING = {
    "Identity", "Reshape", "Transpose", "Squeeze", "Unsqueeze", "Flatten", "Concat", "Split", "Slice", "Gather", "GatherElements",
    "GatherND", "Scatter", "ScatterElements", "ScatterND", "Expand", "Tile", "Where", "Compress", "DepthToSpace", "SpaceToDepth",
    "ReverseSequence", "Shape", "Size", "Constant", "ConstantOfShape", "Pad", "TensorScatter",
}  # fmt: skip
"""Operators that only move elements."""


def kind_of(dtype: Any) -> str:
    """The kind of a NumPy dtype; "" for a type that kernels support."""
    name = np.dtype(dtype).name
    if np.dtype(dtype).kind in "OUST":
        return "string"
    return name if name in CARRIERS else ""


def carried(array: np.ndarray, keep: bool = True) -> tuple[np.ndarray, str]:
    """(the array in its carrier, its kind). An array of objects other than strings (sizes with symbols) is returned unchanged."""
    if array.dtype == object and not all([isinstance(t, (str, bytes)) for t in array.reshape(-1)[:1]]):
        return array, ""
    kind = kind_of(array.dtype)
    return (array, "") if not kind else (encode(array, kind, keep), kind)


def encode(array: np.ndarray, kind: str, keep: bool = False) -> np.ndarray:
    """An array of a kind, converted to its carrier."""
    if kind == "string":
        return string_table.encode(array, keep)
    if kind == "complex128":
        strings = [f"{z.real.hex()} {z.imag.hex()}" for z in np.ravel(array).tolist()]
        return string_table.encode(np.array(strings, object), keep).reshape(np.shape(array))
    if kind in SMALL_INTS:
        return np.asarray(array).astype(SMALL_INTS[kind])
    return np.asarray(np.ascontiguousarray(array, numpy_dtype(kind)).view(CARRIERS[kind])).reshape(np.shape(array))


def decode(array: np.ndarray, kind: str) -> np.ndarray:
    """An array in its carrier, converted to its kind."""
    if kind == "string":
        return string_table.decode(array)
    if kind == "complex128":
        parts = [string.split() or ("0", "0") for string in string_table.decode(array).reshape(-1)]
        return np.array([complex(*map(float.fromhex, p)) for p in parts], np.complex128).reshape(array.shape)
    if kind in SMALL_INTS:
        return array.astype(numpy_dtype(kind))
    return np.asarray(np.ascontiguousarray(array).view(numpy_dtype(kind))).reshape(array.shape)


def numpy_dtype(kind: str) -> Any:
    """The NumPy dtype of a kind or of a type that kernels support."""
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
    """The encoding of magnitudes as codes: (bounds, codes, the code of NaN, the bit of the sign).

    A magnitude m gets codes[number of bounds below m]. A bound is the midpoint of two neighbours, less one step if a tie goes to
    the upper one (ties go to even codes). `saturate`: values that are too large become the largest one, else infinity or NaN.
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
