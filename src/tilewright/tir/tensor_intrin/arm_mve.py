"""Products of 16 pairs of bytes, by Arm's vectors for microcontrollers (Helium: Cortex-M55, M85).

VMLADAV multiplies the lanes of two vectors and adds all products to a general register.
"""

from __future__ import annotations

from tilewright.ir import Range
from tilewright.tir import (
    Block,
    BlockRealize,
    Buffer,
    BufferLoad,
    BufferRegion,
    BufferStore,
    For,
    ForKind,
    IterVar,
    PrimFunc,
    Stmt,
    Var,
    call_llvm_pure_intrin,
    cast_to,
    const,
    decl_buffer,
)
from tilewright.tir.schedule import TensorIntrin

LANES = 16


def _buffers() -> tuple[Buffer, Buffer, Buffer]:
    return (
        decl_buffer((LANES,), "int8", "A", offset_factor=1),
        decl_buffer((LANES,), "int8", "B", offset_factor=1),
        decl_buffer((1,), "int32", "C", offset_factor=1, scope="local"),
    )


def _function(buffers: tuple[Buffer, Buffer, Buffer], body: Stmt) -> PrimFunc:
    a, b, c = [BufferRegion(x, (Range.from_min_extent(0, x.shape[0]),)) for x in buffers]
    root = Block((), (c, a, b), (c,), "root", body)
    return PrimFunc(buffers, BlockRealize((), const(True, "bool"), root))


def _described() -> PrimFunc:
    """for k in 16: C[0] += cast(A[k]) * cast(B[k])."""
    a, b, c = buffers = _buffers()
    k = Var("k", "int32")
    vk = IterVar(Range(0, LANES), Var("vk", "int32"), IterVar.CommReduce)
    reads_a, reads_b = [BufferRegion(x, (Range.from_min_extent(vk.var, 1),)) for x in (a, b)]
    total = BufferLoad(c, (const(0, "int32"),))
    reads_c = BufferRegion(c, (Range.from_min_extent(total.indices[0], 1),))
    left, right = [cast_to(BufferLoad(x, (vk.var,)), "int32") for x in (a, b)]
    step = BufferStore(c, total + left * right, total.indices)
    block = Block((vk,), (reads_c, reads_a, reads_b), (reads_c,), "update", step)
    return _function(buffers, For(k, 0, LANES, ForKind.SERIAL, BlockRealize((k,), const(True, "bool"), block)))


def _implemented() -> PrimFunc:
    a, b, c = buffers = _buffers()
    left, right = [x.vload([0], f"int8x{LANES}") for x in (a, b)]
    # Of signed numbers, added, lane by lane.
    how = [const(0, "int32") for _ in ("unsigned", "subtract", "exchange")]
    total = call_llvm_pure_intrin("int32", f"llvm.arm.mve.vmldava.v{LANES}i8", *how, c.vload([0], "int32"), left, right)
    return _function(buffers, c.vstore([0], total))


VMLADAV_16_INTRIN = "dot_1x16_vmladav"
TensorIntrin.register(VMLADAV_16_INTRIN, _described(), _implemented())

__all__ = ["LANES", "VMLADAV_16_INTRIN"]
