"""Kernels whose analysis is known by hand."""

from __future__ import annotations

from typing import Any

from tilewright import tir
from tilewright.script import tir as T


def transpose(row: int, dtype: str = "float32") -> tir.PrimFunc:
    """A transposed matrix through a tile of 32 rows of `row` elements; a column of it is read by a warp."""

    @T.prim_func
    def func(x: T.Buffer((1024, 1024), dtype), y: T.Buffer((1024, 1024), dtype)):  # type: ignore[no-untyped-def]
        for by in T.thread_binding(32, thread="blockIdx.y"):
            for bx in T.thread_binding(32, thread="blockIdx.x"):
                for ty in T.thread_binding(8, thread="threadIdx.y"):
                    for tx in T.thread_binding(32, thread="threadIdx.x"):
                        with T.block("b"):
                            vy, vx, wy, wx = T.axis.remap("SSSS", [by, bx, ty, tx])
                            tile = T.alloc_buffer((32 * row,), dtype, scope="shared")
                            for k in range(4):
                                tile[(wy + k * 8) * row + wx] = x[vy * 32 + wy + k * 8, vx * 32 + wx]
                            T.tvm_storage_sync("shared")
                            for k in range(4):
                                y[vx * 32 + wy + k * 8, vy * 32 + wx] = tile[wx * row + wy + k * 8]

    return func


def copies(
    index: Any, dtype: str = "float32", threads: int = 256, blocks: int = 64, size: int = 1 << 22
) -> tir.PrimFunc:
    """y[i] = x[index(i)] for each thread i."""

    @T.prim_func
    def func(x: T.Buffer((size,), dtype), y: T.Buffer((blocks * threads,), dtype)):  # type: ignore[no-untyped-def]
        for b in T.thread_binding(blocks, thread="blockIdx.x"):
            for t in T.thread_binding(threads, thread="threadIdx.x"):
                with T.block("b"):
                    v, w = T.axis.remap("SS", [b, t])
                    y[v * threads + w] = x[index(v, w)]

    return func


def panels(place: Any, blocks: int = 4096) -> tir.PrimFunc:
    """Each block reads a panel of A and one of B, of 1024 elements: those of the row and the column that place(block) gives."""

    @T.prim_func
    def func(a: T.Buffer((65536,)), b: T.Buffer((65536,)), c: T.Buffer((blocks * 1024,))):  # type: ignore[no-untyped-def]
        for k in T.thread_binding(blocks, thread="blockIdx.x"):
            for t in T.thread_binding(1024, thread="threadIdx.x"):
                with T.block("b"):
                    v, w = T.axis.remap("SS", [k, t])
                    c[v * 1024 + w] = a[place(v)[0] * 1024 + w] + b[place(v)[1] * 1024 + w]

    return func


def of_one_warp(body: Any, threads: int = 32, **storage: tuple[int, str, str]) -> tir.PrimFunc:
    """A block that runs body(thread, buffers by name): `out` and `src` of the arguments, and storage: name -> (elements, dtype, scope)."""
    out, src = tir.decl_buffer((4096,), "float32", "out"), tir.decl_buffer((4096,), "float32", "src")
    buffers = {name: tir.decl_buffer((n,), dtype, name, scope=scope) for name, (n, dtype, scope) in storage.items()}
    axis = tir.IterVar(None, tir.Var("tx", "int32"), 1, "threadIdx.x")
    made: Any = body(axis.var, {"out": out, "src": src, **buffers})
    for b in buffers.values():
        made = tir.Allocate(b.data, b.dtype, b.shape, tir.const(True, "bool"), made)
    return tir.PrimFunc([out, src], tir.AttrStmt(axis, "thread_extent", tir.IntImm("int32", threads), made))
