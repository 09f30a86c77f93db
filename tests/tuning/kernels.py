"""Programs for builders and runners: kernels that compute x + 1, and such that fail in every way."""

from __future__ import annotations

from tilewright import te
from tilewright.ir import IRModule
from tilewright.script import tir as T
from tilewright.target import Target
from tilewright.tir import PrimFunc
from tilewright.tuning.inputs import signature_of
from tilewright.tuning.measure import Source

SIZE = 256


@T.prim_func
def right(a: T.Buffer((256,), "float32"), b: T.Buffer((256,), "float32")) -> None:
    for i in range(256):
        with T.block("b"):
            v = T.axis.spatial(256, i)
            b[v] = a[v] + T.float32(1)


@T.prim_func
def slow(a: T.Buffer((256,), "float32"), b: T.Buffer((256,), "float32")) -> None:
    for _, i in T.grid(200, 256):
        T.evaluate(T.call_extern("int32", "labs", i))
        b[i] = a[i] + T.float32(1)


@T.prim_func
def wrong(a: T.Buffer((256,), "float32"), b: T.Buffer((256,), "float32")) -> None:
    for i in range(256):
        b[i] = a[i] + T.if_then_else(i == 77, T.float32(2), T.float32(1))


@T.prim_func
def shared(a: T.Buffer((256,), "float32"), b: T.Buffer((256,), "float32")) -> None:
    """Right the first time, and for others a disaster."""
    for i in range(256):
        b[i] = a[i] + T.float32(1)
    a[5] = T.float32(1000)


@T.prim_func
def endless(a: T.Buffer((256,), "float32"), b: T.Buffer((256,), "float32")) -> None:
    while a[0] < T.float32(7):
        b[0] = b[0] + T.float32(1)


@T.prim_func
def crash(a: T.Buffer((256,), "float32"), b: T.Buffer((256,), "float32")) -> None:
    T.evaluate(T.call_extern("int32", "raise", 11))
    b[0] = a[0]


@T.prim_func
def leave(a: T.Buffer((256,), "float32"), b: T.Buffer((256,), "float32")) -> None:
    T.evaluate(T.call_extern("int32", "_exit", 3))
    b[0] = a[0]


@T.prim_func
def hungry(a: T.Buffer((256,), "float32"), b: T.Buffer((256,), "float32")) -> None:
    c = T.alloc_buffer((1 << 33,), "float32")
    for i in range(256):
        c[T.int64(33554432) * T.Cast("int64", i)] = a[i]
    for i in range(256):
        b[i] = c[T.int64(33554432) * T.Cast("int64", i)] + T.float32(1)


@T.prim_func
def unlinked(a: T.Buffer((256,), "float32"), b: T.Buffer((256,), "float32")) -> None:
    T.evaluate(T.call_extern("int32", "a_function_that_nobody_has", 11))
    b[0] = a[0]


def source(func: PrimFunc, target: str = "llvm") -> Source:
    return Source(IRModule.from_expr(func), Target(target))


SIGNATURE = signature_of(IRModule.from_expr(right))


def product(size: int = 64) -> PrimFunc:
    a, b = te.placeholder((size, size), name="a"), te.placeholder((size, size), name="b")
    k = te.reduce_axis((0, size), name="k")
    c = te.compute((size, size), lambda i, j: te.sum(a[i, k] * b[k, j], axis=k), name="c")
    return te.create_prim_func([a, b, c])
