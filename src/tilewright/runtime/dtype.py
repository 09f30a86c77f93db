"""Data types at the boundary: names as in `float32x4`, DLPack codes, and NumPy types with ml_dtypes."""

from __future__ import annotations

import contextlib
import re
import sys
from typing import Any

import ml_dtypes
import numpy as np

DTypeCode = tuple[int, int, int]
"""DLPack's (type code, bits, lanes)."""

INT, UINT, FLOAT, HANDLE, BFLOAT, COMPLEX, BOOL = 0, 1, 2, 3, 4, 5, 6

_SMALL_FLOATS: dict[str, tuple[int, int]] = {
    "float8_e3m4": (7, 8), "float8_e4m3": (8, 8), "float8_e4m3b11fnuz": (9, 8), "float8_e4m3fn": (10, 8),
    "float8_e4m3fnuz": (11, 8), "float8_e5m2": (12, 8), "float8_e5m2fnuz": (13, 8), "float8_e8m0fnu": (14, 8),
    "float6_e2m3fn": (15, 6), "float6_e3m2fn": (16, 6), "float4_e2m1fn": (17, 4),
}  # fmt: skip
# TVM v0.18 names
_ALIASES = {"e4m3_float8": "float8_e4m3fn", "e5m2_float8": "float8_e5m2", "custom[bfloat]16": "bfloat16"}
_BASES = {"int": INT, "uint": UINT, "float": FLOAT, "bfloat": BFLOAT, "complex": COMPLEX}
_PATTERN = re.compile(r"(int|uint|float|bfloat|complex)(\d+)(?:x(\d+))?\Z")
_NAMES = {code: name for name, (code, _) in _SMALL_FLOATS.items()}

_codes: dict[Any, DTypeCode] = {}
_names: dict[DTypeCode, str] = {}


def parse_dtype(dtype: Any) -> DTypeCode:
    """(code, bits, lanes) of a name, a NumPy type or anything that NumPy takes as one; ValueError for others."""
    try:
        return _codes[dtype]
    except (KeyError, TypeError):
        pass
    text = dtype if isinstance(dtype, str) else _numpy_name(dtype)
    code = _parse_name(_ALIASES.get(text, text))
    with contextlib.suppress(TypeError):  # not hashable
        _codes[dtype] = code
    return code


def _numpy_name(dtype: Any) -> str:
    try:
        return str(np.dtype(dtype).name)
    except TypeError:
        return str(dtype)


def _parse_name(text: str) -> DTypeCode:
    match = _PATTERN.match(text)
    if match:
        return (_BASES[match[1]], int(match[2]), int(match[3] or 1))
    base, _, lanes = text.rpartition("x") if re.search(r"x\d+\Z", text) else (text, "", "1")
    if base == "bool":
        return (UINT, 1, int(lanes))
    if base == "handle":
        return (HANDLE, 64, int(lanes))
    if base in ("void", ""):
        return (HANDLE, 0, 0)
    if base in _SMALL_FLOATS:
        return (*_SMALL_FLOATS[base], int(lanes))
    if base in ("int", "uint", "float"):
        return (_BASES[base], 32, int(lanes))
    raise ValueError(f"unknown data type `{text}`; examples: float32, int8x16, bfloat16, bool")


def dtype_name(code: int, bits: int, lanes: int) -> str:
    """The name of a DLPack type."""
    key = (code, bits, lanes)
    if key in _names:
        return _names[key]
    suffix = f"x{lanes}" if lanes > 1 else ""
    if code in _NAMES:
        name = _NAMES[code]
    elif code == BOOL or (code == UINT and bits == 1):
        name = "bool"
    elif code == HANDLE:
        name = "handle" if bits else "void"
    else:
        name = f"{ {v: k for k, v in _BASES.items()}.get(code, f'custom[{code}]') }{bits}"
    _names[key] = name + suffix
    return _names[key]


def to_numpy_dtype(name: str) -> np.dtype[Any]:
    """The NumPy type of a scalar data type, ml_dtypes' for those that NumPy lacks."""
    if name in ("bfloat16", *_SMALL_FLOATS) or name in ("int4", "uint4", "int2", "uint2"):
        small: np.dtype[Any] = np.dtype(getattr(ml_dtypes, name))
        return small
    try:
        result: np.dtype[Any] = np.dtype(name)
        return result
    except TypeError:
        raise TypeError(f"data type `{name}` has no NumPy form") from None


def native_order(values: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """The array in this machine's byte order: itself, or a converted copy."""
    kind = values.dtype
    return values if kind.isnative else values.astype(kind.newbyteorder("="))


def need_native_order(values: np.ndarray[Any, Any]) -> None:
    """Raises ValueError for an array in another byte order than this machine's, where its memory is to be shared."""
    if not values.dtype.isnative:
        own, other = ("little", "big") if sys.byteorder == "little" else ("big", "little")
        raise ValueError(
            f"the memory of an array of dtype {values.dtype.name} in {other}-endian byte order ({values.dtype.str!r}) cannot be"
            f" shared: this machine is {own}-endian; convert it first: a.astype(a.dtype.newbyteorder('='))"
        )


def item_bytes(code: DTypeCode) -> int:
    """Bytes of one element in memory; types below a byte take one."""
    return (code[1] * max(code[2], 1) + 7) // 8
