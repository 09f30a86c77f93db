"""NumPy implementations of instructions that programs call by their LLVM names."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np


def _groups(a: Any, b: Any, lanes: int, kind: Any) -> Any:
    """For each lane, the sum of the products of its elements of a and b."""
    wide = np.asarray(a, kind).reshape(lanes, -1) * np.asarray(b, kind).reshape(lanes, -1)
    return wide.sum(1)


def _dot(kind: Any, sums: Any, a: Any, b: Any) -> Any:
    """sums + a dot b in each lane; integers wrap around."""
    return (np.asarray(sums, np.int64) + _groups(a, b, len(sums), np.int64)).astype(kind)


def _pairs(kind: Any, a: Any, b: Any) -> Any:
    return _groups(a, b, len(a) // 2, np.int64).astype(kind)


def _float_dot(kind: Any, sums: Any, a: Any, b: Any) -> Any:
    """sums + a dot b in each lane, in float32."""
    return np.asarray(sums, kind) + _groups(a, b, len(sums), kind)


LLVM: dict[str, Callable[..., Any]] = {
    **{f"llvm.x86.avx512.vpdpbusd.{bits}": _dot for bits in (128, 256, 512)},
    **{f"llvm.x86.avx512bf16.dpbf16ps.{bits}": _float_dot for bits in (128, 256, 512)},
    **{f"llvm.aarch64.neon.{name}.v4i32.v16i8": _dot for name in ("sdot", "usdot")},
    "llvm.aarch64.neon.bfdot.v4f32.v8bf16": _float_dot,
    "llvm.x86.sse2.pmadd.wd": _pairs,
    "llvm.x86.avx2.pmadd.wd": _pairs,
    "llvm.x86.avx512.pmaddw.d.512": _pairs,
    "llvm.wasm.dot": _pairs,
}
"""Name -> f(NumPy type of the result's elements, *arguments)."""
