"""Products of pairs of 16-bit numbers in general registers, by Arm's DSP extension (Cortex-M4, M7, M33).

SXTB16 widens the bytes 0 and 2 of a register, and behind a rotation by 8 the bytes 1 and 3. SMLAD multiplies two pairs of 16-bit numbers,
and adds both products to a sum.
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
    PrimExpr,
    PrimFunc,
    SeqStmt,
    Stmt,
    Var,
    call_llvm_pure_intrin,
    cast_to,
    const,
    decl_buffer,
    floordiv,
    floormod,
    reinterpret,
)
from tilewright.tir.schedule import TensorIntrin


def _buffers() -> tuple[Buffer, Buffer, Buffer]:
    return (
        decl_buffer((4,), "int16", "A", offset_factor=1, scope="global"),
        decl_buffer((4,), "int8", "B", offset_factor=1),
        decl_buffer((1,), "int32", "C", offset_factor=1, scope="local"),
    )


def _whole(buffer: Buffer) -> BufferRegion:
    return BufferRegion(buffer, tuple([Range.from_min_extent(0, n) for n in buffer.shape]))


def _function(buffers: tuple[Buffer, Buffer, Buffer], body: Stmt) -> PrimFunc:
    a, b, c = buffers
    root = Block((), (_whole(c), _whole(a), _whole(b)), (_whole(c),), "root", body)
    return PrimFunc(buffers, BlockRealize((), const(True, "bool"), root))


def _point(buffer: Buffer, *indices: PrimExpr) -> tuple[BufferLoad, BufferRegion]:
    return BufferLoad(buffer, indices), BufferRegion(buffer, tuple([Range.from_min_extent(i, 1) for i in indices]))


def _described() -> PrimFunc:
    """for h in 2: for k in 2: C[0] += cast(A[2 * h + k]) * cast(B[2 * k + h])."""
    a, b, c = buffers = _buffers()
    h, k = Var("h", "int32"), Var("k", "int32")
    vh = IterVar(Range(0, 2), Var("vh", "int32"), IterVar.CommReduce)
    vk = IterVar(Range(0, 2), Var("vk", "int32"), IterVar.CommReduce)
    (left, reads_a), (right, reads_b) = _point(a, vh.var * 2 + vk.var), _point(b, vk.var * 2 + vh.var)
    total, reads_c = _point(c, const(0, "int32"))
    step = BufferStore(c, total + cast_to(left, "int32") * cast_to(right, "int32"), total.indices)
    block = Block((vh, vk), (reads_c, reads_a, reads_b), (reads_c,), "update", step)
    inner = For(k, 0, 2, ForKind.SERIAL, BlockRealize((h, k), const(True, "bool"), block))
    return _function(buffers, For(h, 0, 2, ForKind.SERIAL, inner))


def smlad(x: PrimExpr, y: PrimExpr, total: PrimExpr) -> PrimExpr:
    """total plus the products of the lower and of the upper halves of x and y."""
    return call_llvm_pure_intrin("int32", "llvm.arm.smlad", x, y, total)


def sxtb16(word: PrimExpr, rotation: int = 0) -> PrimExpr:
    """The bytes 0 and 2 of a word, rotated to the right by bits, as two 16-bit numbers."""
    if rotation:
        turn = const(32 - rotation, "uint32")
        word = call_llvm_pure_intrin("uint32", "llvm.fshl.i32", word, word, turn)
    return call_llvm_pure_intrin("int32", "llvm.arm.sxtb16", word)


def _implemented() -> PrimFunc:
    a, b, c = buffers = _buffers()
    total: PrimExpr = c.vload([0], "int32")
    word = reinterpret("uint32", b.vload([0], "int8x4"))
    data = reinterpret("uint64", a.vload([0], "int16x4"))
    for half in (0, 1):
        pair = cast_to(data >> const(32, "uint64") if half else data, "int32")
        total = smlad(sxtb16(word, 8 * half), pair, total)
    return _function(buffers, c.vstore([0], total))


def _widening(body: Stmt, buffers: tuple[Buffer, Buffer]) -> PrimFunc:
    a, b = buffers
    root = Block((), (_whole(a),), (_whole(b),), "root", body)
    return PrimFunc(buffers, BlockRealize((), const(True, "bool"), root))


def _widening_buffers() -> tuple[Buffer, Buffer]:
    return (
        decl_buffer((4,), "int8", "A", offset_factor=1, scope="local"),
        decl_buffer((4,), "int16", "B", offset_factor=1),
    )


def _widening_described() -> PrimFunc:
    """for i in 4: B[i] = cast(A[i % 2 * 2 + i // 2])."""
    a, b = buffers = _widening_buffers()
    i = Var("i", "int32")
    vi = IterVar(Range(0, 4), Var("vi", "int32"), IterVar.DataPar)
    (value, reads), (_, writes) = _point(a, floormod(vi.var, 2) * 2 + floordiv(vi.var, 2)), _point(b, vi.var)
    step = BufferStore(b, cast_to(value, "int16"), (vi.var,))
    block = Block((vi,), (reads,), (writes,), "widen", step)
    return _widening(For(i, 0, 4, ForKind.SERIAL, BlockRealize((i,), const(True, "bool"), block)), buffers)


def _widening_implemented() -> PrimFunc:
    a, b = buffers = _widening_buffers()
    word = reinterpret("uint32", a.vload([0], "int8x4"))
    low, high = [cast_to(reinterpret("uint32", sxtb16(word, 8 * half)), "uint64") for half in (0, 1)]
    both = low | high << const(32, "uint64")
    return _widening(b.vstore([0], reinterpret("int16x4", both)), buffers)


def _channel_buffers() -> tuple[Buffer, Buffer, Buffer]:
    return (
        decl_buffer((4,), "int16", "A", offset_factor=1),
        decl_buffer((4,), "int8", "B", offset_factor=1),
        decl_buffer((4,), "int32", "C", offset_factor=1, scope="local"),
    )


def _channels_described() -> PrimFunc:
    """for i in 4: for s in 1: C[i] += cast(A[i % 2 * 2 + i // 2]) * cast(B[i])."""
    a, b, c = buffers = _channel_buffers()
    i, s = Var("i", "int32"), Var("s", "int32")
    vi = IterVar(Range(0, 4), Var("vi", "int32"), IterVar.DataPar)
    vs = IterVar(Range(0, 1), Var("vs", "int32"), IterVar.CommReduce)
    at = vi.var
    (left, reads_a), (right, reads_b) = _point(a, floormod(at, 2) * 2 + floordiv(at, 2)), _point(b, at)
    total, reads_c = _point(c, at)
    step = BufferStore(c, total + cast_to(left, "int32") * cast_to(right, "int32"), total.indices)
    block = Block((vi, vs), (reads_c, reads_a, reads_b), (reads_c,), "update", step)
    inner = For(s, 0, 1, ForKind.SERIAL, BlockRealize((i, s), const(True, "bool"), block))
    return _function(buffers, For(i, 0, 4, ForKind.SERIAL, inner))


def _channels_implemented() -> PrimFunc:
    a, b, c = buffers = _channel_buffers()
    word = reinterpret("uint32", b.vload([0], "int8x4"))
    data = reinterpret("uint64", a.vload([0], "int16x4"))
    stores = []
    for half in (0, 1):
        weights = sxtb16(word, 8 * half)
        pair = cast_to(data >> const(32, "uint64") if half else data, "int32")
        for k, name in ((0, "smlabb"), (1, "smlatt")):
            at = [2 * k + half]
            product = call_llvm_pure_intrin("int32", f"llvm.arm.{name}", weights, pair, c.vload(at, "int32"))
            stores.append(c.vstore(at, product))
    return _function(buffers, SeqStmt(tuple(stores)))


SMLAD_1x4_INTRIN, SXTB16_4_INTRIN, SMLA_4_INTRIN = "dot_1x4_smlad", "widen_4_sxtb16", "multiply_add_4_smla"
TensorIntrin.register(SMLA_4_INTRIN, _channels_described(), _channels_implemented())
TensorIntrin.register(SXTB16_4_INTRIN, _widening_described(), _widening_implemented())
TensorIntrin.register(SMLAD_1x4_INTRIN, _described(), _implemented())

__all__ = ["SMLAD_1x4_INTRIN", "SMLA_4_INTRIN", "SXTB16_4_INTRIN", "smlad", "sxtb16"]
