"""Dot products on 64-bit ARM: of bytes (dotprod, and i8mm where only one has a sign; by NEON on every machine), of bfloat16 (bf16)."""

from __future__ import annotations

from tilewright.tir import PrimExpr, PrimFunc, call_llvm_pure_intrin
from tilewright.tir.builtin import vectorhigh, vectorlow
from tilewright.tir.tensor_intrin.dot_product import Multiply, description, implementation, register, spread
from tilewright.tir.tensor_intrin.tile_programs import Pair

SIGNED, MIXED, BFLOATS = ("int8", "int8", "int32"), ("uint8", "int8", "int32"), ("bfloat16", "bfloat16", "float32")
UNSIGNED = ("uint8", "uint8", "uint32")


def _dot(name: str, dtype: str) -> Multiply:
    """Products of 32 bits of A by each 32 bits of B, added up to the four sums."""

    def multiply(sums: PrimExpr, a: PrimExpr, b: PrimExpr) -> PrimExpr:
        return call_llvm_pure_intrin(str(sums.dtype), f"llvm.aarch64.neon.{name}", sums, spread(a, dtype, 4), b)

    return multiply


def _neon(sums: PrimExpr, a: PrimExpr, b: PrimExpr) -> PrimExpr:
    """Products of bytes as words, whose pairs are added up twice."""
    rows = spread(a, "int8x16", 4)
    pairs = []
    for half in (vectorlow, vectorhigh):
        words = call_llvm_pure_intrin(
            "int16x8", "llvm.aarch64.neon.smull.v8i16", half("int8x8", rows), half("int8x8", b)
        )
        pairs.append(call_llvm_pure_intrin("int32x4", "llvm.aarch64.neon.saddlp.v4i32.v8i16", words))
    return sums + call_llvm_pure_intrin("int32x4", "llvm.aarch64.neon.addp.v4i32", *pairs)


_SDOT, _UDOT = _dot("sdot.v4i32.v16i8", "int8x16"), _dot("udot.v4i32.v16i8", "uint8x16")
ARM_DOT_4x4_i8_SDOT_INTRIN = register("dot_4x4_i8i8s32_sdot", 4, 4, SIGNED, _SDOT)
ARM_DOT_4x4_i8_NEON_INTRIN = register("dot_4x4_i8i8s32_neon", 4, 4, SIGNED, _neon)
ARM_DOT_4x4_u8_UDOT_INTRIN = register("dot_4x4_u8u8u32_udot", 4, 4, UNSIGNED, _UDOT)
ARM_DOT_4x4_u8_HDOT_INTRIN = register("dot_4x4_u8u8i32_hdot", 4, 4, ("uint8", "uint8", "int32"), _UDOT)
USDOT_4x4_INTRIN = register("dot_4x4_usdot", 4, 4, MIXED, _dot("usdot.v4i32.v16i8", "uint8x16"))
BFDOT_4x2_INTRIN = register("dot_4x2_bfdot", 4, 2, BFLOATS, _dot("bfdot.v4f32.v8bf16", "bfloat16x8"))

neon_4x4_i8i8i32_desc: PrimFunc = description(4, 4, SIGNED)
neon_4x4_i8i8i32_impl: PrimFunc = implementation(4, 4, SIGNED, _neon)


def get_dotprod_intrin(in_dtype: str, out_dtype: str) -> Pair:
    """Description and implementation of four sums of products of bytes. out_dtype: "int32", or "uint32" of in_dtype "uint8"."""
    if in_dtype not in ("int8", "uint8") or out_dtype not in ("int32", "uint32")[: 1 + (in_dtype == "uint8")]:
        raise ValueError(
            f"there are dot products of int8 and uint8 as int32, and of uint8 as uint32, not of {in_dtype} as {out_dtype}"
        )
    dtypes = (in_dtype, in_dtype, out_dtype)
    return description(4, 4, dtypes), implementation(4, 4, dtypes, _SDOT if in_dtype == "int8" else _UDOT)
