"""The dot product of four bytes on GPUs as a tensor intrinsic, dp4a: C[0] += sum over k of A[k] * B[k]."""

from __future__ import annotations

from itertools import product

from tilewright.tir import Buffer, BufferLoad, BufferStore, Var, cast_to, const, decl_buffer, dp4a
from tilewright.tir.schedule import TensorIntrin
from tilewright.tir.tensor_intrin.tile_programs import Intrinsics, Pair, function, nest

_LETTERS = {"int8": "s8", "uint8": "u8", "int32": "s32", "uint32": "u32"}


def get_dp4a_intrin(dtype_a: str, dtype_b: str, dtype_c: str) -> Pair:
    """Description and implementation for bytes in shared memory and a sum in registers. dtype_c: "int32", or "uint32" of bytes without
    sign."""
    unsigned = dtype_a == dtype_b == "uint8"
    if {dtype_a, dtype_b} - {"int8", "uint8"} or dtype_c != ("uint32" if unsigned else "int32"):
        raise ValueError(
            f"dp4a adds up products of bytes as int32, or as uint32 if none has a sign, but the types are {dtype_a}, {dtype_b}, {dtype_c}"
        )
    a, b = (decl_buffer((4,), t, n, scope="shared", offset_factor=1) for t, n in ((dtype_a, "A"), (dtype_b, "B")))
    at = (const(0, "int32"),)
    c: Buffer = decl_buffer((1,), dtype_c, "C", scope="local", offset_factor=1)

    def update(k: Var) -> tuple[BufferStore, tuple[BufferLoad, ...]]:
        total, left, right = BufferLoad(c, at), BufferLoad(a, (k,)), BufferLoad(b, (k,))
        step = total + cast_to(left, dtype_c) * cast_to(right, dtype_c)
        return BufferStore(c, step, at), (total, left, right)

    found = dp4a(a.vload([0], f"{dtype_a}x4"), b.vload([0], f"{dtype_b}x4"))
    bodies = nest((4,), "R", "update", update), BufferStore(c, BufferLoad(c, at) + found, at)
    desc, impl = [function((a, b, c), [c, a, b], c, body) for body in bodies]
    return desc, impl


INTRINSICS = Intrinsics("dp4a_")
for _a, _b in product(("int8", "uint8"), repeat=2):
    _c = "uint32" if _a == _b == "uint8" else "int32"
    _types = "".join([_LETTERS[t] for t in (_a, _b, _c)])
    INTRINSICS.add(f"DP4A_{_types.upper()}_INTRIN", f"dp4a_{_types}", get_dp4a_intrin, _a, _b, _c)
TensorIntrin.register_family("dp4a_", INTRINSICS.get)
globals().update(INTRINSICS.constants)

__all__ = ["INTRINSICS", "get_dp4a_intrin"]
