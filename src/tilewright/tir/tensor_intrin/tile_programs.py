"""Parts of the descriptions and implementations of tensor intrinsics for tiles of matrices."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tilewright.ir import IntImm, Range
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
    const,
    decl_buffer,
)
from tilewright.tir.schedule import TensorIntrin

Pair = tuple[PrimFunc, PrimFunc]
"""Description and implementation of an intrinsic."""


class Intrinsics:
    """Tensor intrinsics by name, made when they are first used. prefix: of all names."""

    def __init__(self, prefix: str) -> None:
        self.prefix = prefix
        self.constants: dict[str, str] = {}
        """Classic constant, such as WMMA_FILL_16x16x16_F32_INTRIN -> name."""
        self._makers: dict[str, Callable[[], Pair]] = {}

    def add(self, constant: str, name: str, make: Callable[..., Pair], *args: Any) -> None:
        """Registers an intrinsic as make(*args)."""
        self.constants[constant] = name
        self._makers[name] = lambda: make(*args)

    def get(self, name: str) -> TensorIntrin | None:
        """The intrinsic of that name; None if there is none."""
        return TensorIntrin(*self._makers[name]()) if name in self._makers else None


def tile(name: str, shape: tuple[int, int], dtype: str, scope: str, aligned: int, strides: bool = False) -> Buffer:
    steps = (Var(f"{name}_s1", "int32"), Var(f"{name}_s0", "int32")) if strides else ()
    return decl_buffer(shape, dtype, name, scope=scope, data_alignment=64, offset_factor=aligned, strides=steps or None)


def whole(buffer: Buffer) -> BufferRegion:
    return BufferRegion(buffer, tuple([Range.from_min_extent(0, n) for n in buffer.shape]))


def function(params: tuple[Buffer, ...], read: list[Buffer], written: Buffer, body: Stmt) -> PrimFunc:
    root = Block((), tuple([whole(b) for b in read]), (whole(written),), "root", body)
    return PrimFunc(params, BlockRealize((), const(True, "bool"), root))


def nest(extents: tuple[int, ...], kinds: str, name: str, make: Any) -> Stmt:
    """A block in loops. kinds: S or R for each loop. make: from the block's variables to (store, loads)."""
    loops = [Var(n, "int32") for n in "ijk"[: len(extents)]]
    kind = {"S": IterVar.DataPar, "R": IterVar.CommReduce}
    axes = [
        IterVar(Range(0, e), Var(f"v{v.name}", "int32"), kind[letter])
        for v, e, letter in zip(loops, extents, kinds, strict=True)
    ]
    store, loads = make(*[a.var for a in axes])

    def region(x: Any) -> BufferRegion:
        return BufferRegion(x.buffer, tuple([Range.from_min_extent(e, 1) for e in x.indices]))

    block = Block(tuple(axes), tuple([region(x) for x in loads]), (region(store),), name, store)
    body: Stmt = BlockRealize(tuple(loops), const(True, "bool"), block)
    for v, e in reversed(list(zip(loops, extents, strict=True))):
        body = For(v, 0, e, ForKind.SERIAL, body)
    return body


def copied(source: Buffer, to: Buffer, name: str) -> Stmt:
    def make(i: Var, j: Var) -> Any:
        load = BufferLoad(source, (i, j))
        return BufferStore(to, load, (i, j)), (load,)

    return nest(tuple([int(n.value) for n in to.shape if isinstance(n, IntImm)]), "SS", name, make)
