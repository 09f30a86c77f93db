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


def _signed(value: int, bits: int) -> int:
    """The lowest bits of a number, as a number with a sign."""
    value &= (1 << bits) - 1
    return value - (1 << bits) if value >> bits - 1 else value


def _halves(word: Any) -> tuple[int, int]:
    """The lower and the upper half of 32 bits."""
    return _signed(int(word), 16), _signed(int(word) >> 16, 16)


def _smlad(kind: Any, a: Any, b: Any, total: Any) -> Any:
    """total plus the products of the lower and of the upper halves."""
    products = [x * y for x, y in zip(_halves(a), _halves(b), strict=True)]
    return kind.type(_signed(int(total) + sum(products), 32))


def _vmldava(kind: Any, unsigned: Any, subtract: Any, exchange: Any, total: Any, a: Any, b: Any) -> Any:
    """total plus the products of all lanes of signed vectors."""
    assert not (int(unsigned) or int(subtract) or int(exchange)), "only plain sums of signed products are known"
    return kind.type(_signed(int(total) + int(_groups(a, b, 1, np.int64)[0]), 32))


def _one_half(left: int, right: int) -> Callable[..., Any]:
    """total plus the product of one half of each operand (0: the lower one)."""
    return lambda kind, a, b, total: kind.type(_signed(int(total) + _halves(a)[left] * _halves(b)[right], 32))


def _sxtb16(kind: Any, word: Any) -> Any:
    """The bytes 0 and 2 as 16-bit numbers."""
    low, high = _signed(int(word), 8), _signed(int(word) >> 16, 8)
    return kind.type(_signed((high & 0xFFFF) << 16 | low & 0xFFFF, 32))


def _funnel_left(kind: Any, high: Any, low: Any, count: Any) -> Any:
    """The upper 32 bits of two words that are moved to the left."""
    joined = (int(high) & 0xFFFFFFFF) << 32 | int(low) & 0xFFFFFFFF
    return kind.type((joined << int(count) % 32) >> 32 & 0xFFFFFFFF)


LLVM: dict[str, Callable[..., Any]] = {
    **{f"llvm.x86.avx512.vpdpbusd.{bits}": _dot for bits in (128, 256, 512)},
    **{f"llvm.x86.avx512bf16.dpbf16ps.{bits}": _float_dot for bits in (128, 256, 512)},
    **{f"llvm.aarch64.neon.{name}.v4i32.v16i8": _dot for name in ("sdot", "usdot")},
    "llvm.aarch64.neon.bfdot.v4f32.v8bf16": _float_dot,
    "llvm.x86.sse2.pmadd.wd": _pairs,
    "llvm.x86.avx2.pmadd.wd": _pairs,
    "llvm.x86.avx512.pmaddw.d.512": _pairs,
    "llvm.wasm.dot": _pairs,
    "llvm.arm.mve.vmldava.v16i8": _vmldava,
    "llvm.arm.smlad": _smlad,
    **{f"llvm.arm.smla{'bt'[i]}{'bt'[j]}": _one_half(i, j) for i in (0, 1) for j in (0, 1)},
    "llvm.arm.sxtb16": _sxtb16,
    "llvm.fshl.i32": _funnel_left,
}
"""Name -> f(NumPy type of the result's elements, *arguments)."""
