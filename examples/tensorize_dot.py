"""An int8 matrix product by the dot-product instruction of AVX-512 VNNI: one instruction, 16 outputs, 64 multiply-adds.

Run: python examples/tensorize_dot.py [size] [--seconds S]. The instruction is described to the schedule as a tensor intrinsic:
what it computes, and how it is called. Where the CPU has no VNNI the implementation is a loop, and the program still runs.
docs/intrinsics_and_tensorize.md explains it.
"""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Callable
from functools import partial
from typing import Any

os.environ.setdefault("TVM_NUM_THREADS", "1")

import numpy as np

import tilewright as tvm
from tilewright import tir
from tilewright.script import tir as T

LANES, DEPTH = 16, 4
"""The instruction makes 16 sums of 4 products each."""


@T.prim_func
def dot_description(a: T.handle, b: T.handle, c: T.handle) -> None:
    """C[j] += sum over k of A[k] * B[j, k]: 4 unsigned and 16 x 4 signed bytes into 16 sums."""
    A = T.match_buffer(a, (4,), "uint8", offset_factor=1)
    B = T.match_buffer(b, (16, 4), "int8", offset_factor=1)
    C = T.match_buffer(c, (16,), "int32", offset_factor=1, scope="local")
    with T.block("root"):
        T.reads(C[0:16], A[0:4], B[0:16, 0:4])
        T.writes(C[0:16])
        for j, k in T.grid(16, 4):
            with T.block("dot"):
                vj, vk = T.axis.remap("SR", [j, k])
                C[vj] = C[vj] + T.Cast("int32", A[vk]) * T.Cast("int32", B[vj, vk])


@T.prim_func
def dot_by_vnni(a: T.handle, b: T.handle, c: T.handle) -> None:
    A = T.match_buffer(a, (4,), "uint8", offset_factor=1)
    B = T.match_buffer(b, (16, 4), "int8", offset_factor=1)
    C = T.match_buffer(c, (16,), "int32", offset_factor=1, scope="local")
    with T.block("root"):
        T.reads(C[0:16], A[0:4], B[0:16, 0:4])
        T.writes(C[0:16])
        # The four bytes of A go to every lane, as one number.
        four: T.int32 = T.reinterpret("int32", A.vload([0], "uint8x4"))
        C[T.ramp(0, 1, 16)] = T.call_llvm_pure_intrin(
            "int32x16",
            "llvm.x86.avx512.vpdpbusd.512",
            C[T.ramp(0, 1, 16)],
            T.reinterpret("uint8x64", T.broadcast(four, 16)),
            B.vload([0, 0], "int8x64"),
        )


@T.prim_func
def dot_by_loop(a: T.handle, b: T.handle, c: T.handle) -> None:
    A = T.match_buffer(a, (4,), "uint8", offset_factor=1)
    B = T.match_buffer(b, (16, 4), "int8", offset_factor=1)
    C = T.match_buffer(c, (16,), "int32", offset_factor=1, scope="local")
    with T.block("root"):
        T.reads(C[0:16], A[0:4], B[0:16, 0:4])
        T.writes(C[0:16])
        for j in T.vectorized(16):
            for k in T.unroll(4):
                C[j] = C[j] + T.Cast("int32", A[k]) * T.Cast("int32", B[j, k])


def has_vnni() -> bool:
    """Whether this machine has the instruction."""
    return tvm.testing.requires_x86_vnni.missing() is None


def register() -> str:
    """Makes the intrinsic known; gives its name."""
    name = "example.dot_16x4"
    tir.TensorIntrin.register(name, dot_description, dot_by_vnni if has_vnni() else dot_by_loop, override=True)
    return name


def multiply(m: int, n: int, k: int) -> tir.PrimFunc:
    """C[i, j] = sum over r of A[i, r] * W[r, j], with W packed so that 16 columns of 4 rows lie together."""

    @T.prim_func
    def main(
        A: T.Buffer((m, k), "uint8"), W: T.Buffer((n // 16, k // 4, 16, 4), "int8"), C: T.Buffer((m, n), "int32")
    ) -> None:
        T.func_attr({"global_symbol": "main", "tir.noalias": True})
        for i, jo, ji, ro, ri in T.grid(m, n // 16, 16, k // 4, 4):
            with T.block("C"):
                vi, vjo, vji, vro, vri = T.axis.remap("SSSRR", [i, jo, ji, ro, ri])
                with T.init():
                    C[vi, vjo * 16 + vji] = 0
                C[vi, vjo * 16 + vji] = C[vi, vjo * 16 + vji] + T.Cast("int32", A[vi, vro * 4 + vri]) * T.Cast(
                    "int32", W[vjo, vro, vji, vri]
                )

    made: tir.PrimFunc = main
    return made


def plain(sch: tir.Schedule) -> None:
    """Columns as vector lanes; the compiler widens bytes to ints, then multiplies and adds."""
    i, jo, ji, ro, ri = sch.get_loops(sch.get_block("C"))
    sch.reorder(i, jo, ro, ri, ji)
    sch.vectorize(ji)


def tensorized(sch: tir.Schedule, rows: int = 8, columns: int = 2) -> None:
    """A tile of sums in registers; each step of its inner loops is one instruction."""
    block = sch.get_block("C")
    i, jo, ji, ro, ri = sch.get_loops(block)
    io, ii = sch.split(i, [None, rows])
    joo, joi = sch.split(jo, [None, columns])
    sch.reorder(joo, io, ro, ii, joi, ji, ri)
    write_back = sch.cache_write(block, 0, "local")
    sch.reverse_compute_at(write_back, io)
    *_, back_rows, back_columns = sch.get_loops(write_back)
    sch.unroll(back_rows)
    sch.vectorize(sch.split(back_columns, [None, LANES])[1])
    init = sch.decompose_reduction(block, ro)
    *_, first, second, lanes = sch.get_loops(init)
    sch.vectorize(lanes)
    for loop in (first, second, ii, joi):
        sch.unroll(loop)
    sch.tensorize(ji, register())


def best_seconds(run: Callable[[], Any], budget: float) -> float:
    """The fastest of repeated runs, for about `budget` seconds."""
    run()
    best, end = float("inf"), time.perf_counter() + budget
    while True:
        began = time.perf_counter()
        run()
        now = time.perf_counter()
        best = min(best, now - began)
        if now > end:
            return best


def compare(m: int, n: int, k: int, budget: float) -> dict[str, float]:
    """10^9 multiplications and additions per second of each way. Raises AssertionError on a wrong result."""
    rng = np.random.default_rng(0)
    a = rng.integers(0, 255, (m, k), dtype="uint8")
    w = rng.integers(-128, 127, (k, n), dtype="int8")
    packed = np.ascontiguousarray(w.reshape(k // DEPTH, DEPTH, n // LANES, LANES).transpose(2, 0, 3, 1))
    want = a.astype("int32") @ w.astype("int32")
    args = [tvm.nd.array(a), tvm.nd.array(packed), tvm.nd.empty((m, n), "int32")]
    rates = {}
    for name, steps in {"vectors": plain, "dot products": tensorized}.items():
        sch = tir.Schedule(multiply(m, n, k))
        steps(sch)
        function = tvm.build(sch.mod, target="llvm")["main"]
        rates[name] = 2e-9 * m * n * k / best_seconds(partial(function, *args), budget)
        np.testing.assert_array_equal(args[2].numpy(), want)
    return rates


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("size", nargs="?", type=int, default=512, help="rows, columns and depth, about (default: 512)")
    parser.add_argument("--seconds", type=float, default=0.3, help="how long each way is measured (default: 0.3)")
    options = parser.parse_args()
    size = -(-options.size // 32) * 32
    print(f"uint8 [{size}, {size}] @ int8 [{size}, {size}], one core, {'with' if has_vnni() else 'without'} VNNI")
    for name, rate in compare(size, size, size, options.seconds).items():
        print(f"{name:13} {rate:8.1f} G operations/s")


if __name__ == "__main__":
    main()
