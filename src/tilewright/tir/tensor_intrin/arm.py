"""Dot products on 64-bit ARM: of bytes (dotprod, and i8mm where only one has a sign), of bfloat16 (bf16)."""

from __future__ import annotations

from tilewright.tir import PrimExpr, call_llvm_pure_intrin
from tilewright.tir.tensor_intrin.dot_product import Multiply, register, spread

SIGNED, MIXED, BFLOATS = ("int8", "int8", "int32"), ("uint8", "int8", "int32"), ("bfloat16", "bfloat16", "float32")


def _dot(name: str, dtype: str) -> Multiply:
    """Products of 32 bits of A by each 32 bits of B, added up to the four sums."""

    def multiply(sums: PrimExpr, a: PrimExpr, b: PrimExpr) -> PrimExpr:
        return call_llvm_pure_intrin(str(sums.dtype), f"llvm.aarch64.neon.{name}", sums, spread(a, dtype, 4), b)

    return multiply


SDOT_4x4_INTRIN = register("dot_4x4_sdot", 4, 4, SIGNED, _dot("sdot.v4i32.v16i8", "int8x16"))
USDOT_4x4_INTRIN = register("dot_4x4_usdot", 4, 4, MIXED, _dot("usdot.v4i32.v16i8", "uint8x16"))
BFDOT_4x2_INTRIN = register("dot_4x2_bfdot", 4, 2, BFLOATS, _dot("bfdot.v4f32.v8bf16", "bfloat16x8"))
