"""Dot-product instructions as tensor intrinsics: C[i] += sum over k of A[k] * B[i, k], for a few k at once."""

from __future__ import annotations

from collections.abc import Callable

from tilewright.ir import Range
from tilewright.tir import (
    Block,
    BlockRealize,
    Broadcast,
    Buffer,
    BufferLoad,
    BufferRegion,
    BufferStore,
    For,
    ForKind,
    IterVar,
    PrimExpr,
    PrimFunc,
    Stmt,
    Var,
    call_llvm_pure_intrin,
    cast_to,
    const,
    decl_buffer,
    reinterpret,
)
from tilewright.tir.schedule import TensorIntrin

LOCAL = "_local"
"""Ends the name of the same intrinsic for sums in scope "local", where schedules keep accumulators."""

Multiply = Callable[[PrimExpr, PrimExpr, PrimExpr], PrimExpr]
"""(sums, A, B) -> sums: vectors of `lanes`, `group` and `lanes * group` elements."""


def spread(value: PrimExpr, dtype: str, lanes: int) -> PrimExpr:
    """The elements of a vector of 32 bits, again and again, `lanes` times."""
    return reinterpret(dtype, Broadcast(reinterpret("int32", value), lanes))


BYTES = ("uint8", "int8", "int32")
"""The types of A, B and C."""


def bytes_as_words(lanes: int, name: str) -> Multiply:
    """Four products of a byte without sign by one with sign as two times two of words, by the LLVM function `name`, which multiplies words
    and adds up pairs. It is exact, which pairs of bytes in words (vpmaddubsw) are not."""
    pairs = 2 * lanes

    def multiply(sums: PrimExpr, a: PrimExpr, b: PrimExpr) -> PrimExpr:
        left, right = spread(a, f"uint16x{pairs}", lanes), reinterpret(f"int16x{pairs}", b)
        eight, mask = Broadcast(const(8, "uint16"), pairs), Broadcast(const(255, "uint16"), pairs)
        signed = Broadcast(const(8, "int16"), pairs)
        even = reinterpret(f"int16x{pairs}", left & mask), (right << signed) >> signed
        odd = reinterpret(f"int16x{pairs}", left >> eight), right >> signed
        for words in (even, odd):
            sums = sums + call_llvm_pure_intrin(str(sums.dtype), name, *words)
        return sums

    return multiply


def _buffers(lanes: int, group: int, dtypes: tuple[str, str, str], scope: str) -> tuple[Buffer, Buffer, Buffer]:
    a, b, c = dtypes
    return (
        decl_buffer((group,), a, "A", offset_factor=1),
        decl_buffer((lanes, group), b, "B", offset_factor=1),
        decl_buffer((lanes,), c, "C", offset_factor=1, scope=scope),
    )


def _whole(buffer: Buffer) -> BufferRegion:
    return BufferRegion(buffer, tuple([Range.from_min_extent(0, n) for n in buffer.shape]))


def _function(buffers: tuple[Buffer, Buffer, Buffer], body: Stmt) -> PrimFunc:
    a, b, c = buffers
    root = Block((), (_whole(c), _whole(a), _whole(b)), (_whole(c),), "root", body)
    return PrimFunc(buffers, BlockRealize((), const(True, "bool"), root))


def description(lanes: int, group: int, dtypes: tuple[str, str, str], scope: str = "global") -> PrimFunc:
    """for i in lanes: for k in group: C[i] += cast(A[k]) * cast(B[i, k]); dtypes: those of A, B and C."""
    a, b, c = buffers = _buffers(lanes, group, dtypes, scope)
    i, k = Var("i", "int32"), Var("k", "int32")
    vi = IterVar(Range(0, lanes), Var("vi", "int32"), IterVar.DataPar)
    vk = IterVar(Range(0, group), Var("vk", "int32"), IterVar.CommReduce)
    left, right = BufferLoad(a, (vk.var,)), BufferLoad(b, (vi.var, vk.var))
    total = BufferLoad(c, (vi.var,))
    step = BufferStore(c, total + cast_to(left, dtypes[2]) * cast_to(right, dtypes[2]), (vi.var,))
    reads = tuple(
        [
            BufferRegion(load.buffer, tuple([Range.from_min_extent(e, 1) for e in load.indices]))
            for load in (total, left, right)
        ]
    )
    block = Block((vi, vk), reads, reads[:1], "update", step)
    realize = BlockRealize((i, k), const(True, "bool"), block)
    inner = For(k, 0, group, ForKind.SERIAL, realize)
    return _function(buffers, For(i, 0, lanes, ForKind.SERIAL, inner))


def implementation(
    lanes: int, group: int, dtypes: tuple[str, str, str], multiply: Multiply, scope: str = "global"
) -> PrimFunc:
    """One vector of sums, loaded, given to `multiply` with the elements of A and B, and stored."""
    a, b, c = buffers = _buffers(lanes, group, dtypes, scope)
    sums = c.vload([0], f"{dtypes[2]}x{lanes}")
    left = a.vload([0], f"{dtypes[0]}x{group}")
    right = b.vload([0, 0], f"{dtypes[1]}x{lanes * group}")
    return _function(buffers, c.vstore([0], multiply(sums, left, right)))


def register(name: str, lanes: int, group: int, dtypes: tuple[str, str, str], multiply: Multiply) -> str:
    """Registers the instruction under `name`, and under name + LOCAL for sums in scope "local"; gives the name."""
    for scope, suffix in (("global", ""), ("local", LOCAL)):
        TensorIntrin.register(
            name + suffix,
            description(lanes, group, dtypes, scope),
            implementation(lanes, group, dtypes, multiply, scope),
        )
    return name
