"""Dot products on x86: of bytes by VNNI, or by multiply-add of pairs of words, which every machine has; of bfloat16 by AVX512-BF16."""

from __future__ import annotations

from tilewright.tir import PrimExpr, PrimFunc, call_llvm_pure_intrin
from tilewright.tir.tensor_intrin.dot_product import (
    BYTES,
    Multiply,
    bytes_as_words,
    description,
    implementation,
    register,
    spread,
)

BFLOATS = ("bfloat16", "bfloat16", "float32")


def vnni(lanes: int) -> Multiply:
    """Four products of a byte without sign by one with sign, added to each of `lanes` sums at once."""

    def multiply(sums: PrimExpr, a: PrimExpr, b: PrimExpr) -> PrimExpr:
        name = f"llvm.x86.avx512.vpdpbusd.{32 * lanes}"
        return call_llvm_pure_intrin(str(sums.dtype), name, sums, spread(a, f"uint8x{4 * lanes}", lanes), b)

    return multiply


def words(lanes: int) -> Multiply:
    """Four products of bytes as two times pmaddwd, which every machine has."""
    name = {16: "llvm.x86.avx512.pmaddw.d.512", 8: "llvm.x86.avx2.pmadd.wd", 4: "llvm.x86.sse2.pmadd.wd"}[lanes]
    return bytes_as_words(lanes, name)


def bfloats(lanes: int) -> Multiply:
    """Two products of bfloat16, added to each of `lanes` sums of float32; denormal numbers count as zeros."""

    def multiply(sums: PrimExpr, a: PrimExpr, b: PrimExpr) -> PrimExpr:
        name = f"llvm.x86.avx512bf16.dpbf16ps.{32 * lanes}"
        return call_llvm_pure_intrin(str(sums.dtype), name, sums, spread(a, f"bfloat16x{2 * lanes}", lanes), b)

    return multiply


VNNI_DOT_16x4_INTRIN = register("dot_16x4_vnni", 16, 4, BYTES, vnni(16))
VNNI_DOT_8x4_INTRIN = register("dot_8x4_vnni", 8, 4, BYTES, vnni(8))
VNNI_DOT_4x4_INTRIN = register("dot_4x4_vnni", 4, 4, BYTES, vnni(4))
AVX512_DOT_16x4_INTRIN = register("dot_16x4_avx512", 16, 4, BYTES, words(16))
AVX2_DOT_8x4_INTRIN = register("dot_8x4_avx2", 8, 4, BYTES, words(8))
SSE2_DOT_4x4_INTRIN = register("dot_4x4_sse2", 4, 4, BYTES, words(4))
AVX512_DOT_16x2_BF16_INTRIN = register("dot_16x2_bf16", 16, 2, BFLOATS, bfloats(16))
AVX512_DOT_8x2_BF16_INTRIN = register("dot_8x2_bf16", 8, 2, BFLOATS, bfloats(8))
AVX512_DOT_4x2_BF16_INTRIN = register("dot_4x2_bf16", 4, 2, BFLOATS, bfloats(4))

dot_product_16x4_u8i8i32_desc: PrimFunc = description(16, 4, BYTES)
dot_product_16x4_u8i8i32_vnni: PrimFunc = implementation(16, 4, BYTES, vnni(16))
dot_product_16x4_u8i8i32_avx512: PrimFunc = implementation(16, 4, BYTES, words(16))
