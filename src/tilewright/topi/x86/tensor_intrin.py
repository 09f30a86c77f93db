"""Instructions that add up products of bytes, as tensor intrinsics of TE: sixteen sums of four products each.

Data are four bytes, which all sums share, weights sixteen groups of four. `s[made].tensorize(axis, intrinsic)` takes the loops over
sixteen results and four products.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tilewright import te, tir
from tilewright.target import Target
from tilewright.topi.x86.forms import has_feature

LANES, GROUP = 16, 4


def _intrinsic(out_dtype: str, products: Callable[[Any, Any, Any], Any], name: str) -> te.TensorIntrin:
    """The intrinsic whose instructions give products(sums before, data as int32x16, weights as int32x16)."""
    data, kernel = te.placeholder((GROUP,), "uint8", "data"), te.placeholder((LANES, GROUP), "int8", "kernel")
    k = te.reduce_axis((0, GROUP), name="k")
    made = te.compute(
        (LANES,),
        lambda i: te.sum(data[k].astype(out_dtype) * kernel[i, k].astype(out_dtype), axis=k),
        name="dot",
    )
    read = tir.decl_buffer(data.shape, "uint8", "a_buffer", offset_factor=1, strides=[1])
    weights = tir.decl_buffer(kernel.shape, "int8", "b_buffer", offset_factor=1, strides=[te.var("ldw"), 1])
    vector = f"{out_dtype}x{LANES}"

    def body(ins: Any, outs: Any) -> Any:
        def statement(kind: str) -> Any:
            if kind == "reset":
                return outs[0].vstore(0, tir.const(0, vector))
            four = tir.reinterpret("int32", ins[0].vload([0], f"uint8x{GROUP}"))
            a = tir.Broadcast(four, LANES)
            b = tir.reinterpret(f"int32x{LANES}", ins[1].vload([0, 0], f"int8x{LANES * GROUP}"))
            before = tir.const(0, vector) if kind == "body" else outs[0].vload([0], vector)
            return outs[0].vstore(0, products(before, a, b))

        return statement("body"), statement("reset"), statement("update")

    params = {"offset_factor": 1}
    return te.decl_tensor_intrin(made.op, body, name, binds={data: read, kernel: weights}, default_buffer_params=params)


def _call(dtype: str, name: str, *args: Any) -> Any:
    return tir.call_llvm_pure_intrin(dtype, name, tir.const(len(args), "uint32"), *args)


def dot_16x1x16_uint8_int8_int32_cascadelake() -> te.TensorIntrin:
    """Sums in int32 by AVX-512 VNNI: one instruction."""
    return _intrinsic("int32", lambda c, a, b: _call("int32x16", "llvm.x86.avx512.vpdpbusd.512", c, a, b), "dot_vnni")


def dot_16x1x16_uint8_int8_int32_skylake() -> te.TensorIntrin:
    """Sums in int32 by AVX-512BW: pairs of products in int16, which saturate, then pairs of these."""

    def products(c: Any, a: Any, b: Any) -> Any:
        bytes_of = [tir.reinterpret("int8x64", v) for v in (a, b)]
        pairs = _call("int16x32", "llvm.x86.avx512.pmaddubs.w.512", *bytes_of)
        return c + _call("int32x16", "llvm.x86.avx512.pmaddw.d.512", pairs, tir.const(1, "int16x32"))

    return _intrinsic("int32", products, "dot_avx512bw")


def known_dot() -> te.TensorIntrin | None:
    """The best of these instructions that the current target has; None without AVX-512."""
    target = Target.current(True)
    if target is not None and has_feature(target, ("avx512vnni",)):
        return dot_16x1x16_uint8_int8_int32_cascadelake()
    if target is not None and has_feature(target, ("avx512bw",)):
        return dot_16x1x16_uint8_int8_int32_skylake()
    return None


def dot_16x1x16_uint8_int8_int32() -> te.TensorIntrin:
    """Sums in int32 by the best instruction of the current target. Raises RuntimeError for targets without AVX-512."""
    found = known_dot()
    if found is None:
        raise RuntimeError(
            "dot_16x1x16_uint8_int8_int32 needs AVX-512 (-mcpu=skylake-avx512, cascadelake, ...), but the target is"
            f" {Target.current(True)}"
        )
    return found
