"""Matrix multiplication scheduled on TensorIR, one step at a time: GFLOP/s of each on one core, beside NumPy and the peak.

Run: python examples/gemm_tensorir.py [size] [--seconds S]. The program is the same at every step; each result is compared
with NumPy's. docs/gemm.md explains the steps; examples/gemm_te.py climbs the same ladder with a schedule of tensor expressions.
"""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Callable
from functools import partial
from typing import Any

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
os.environ.setdefault("TVM_NUM_THREADS", "1")

import numpy as np

import tilewright as tvm
from tilewright import tir
from tilewright.cli.peak import Peak
from tilewright.script import tir as T

TILE_M, TILE_N, LANES, DEPTH = 14, 32, 16, 4
"""A tile of C that fits in the vector registers (14 x 2 of 16 floats), the lanes of one, steps of k unrolled at a time."""


def multiply(m: int, n: int, k: int) -> tir.PrimFunc:
    """C[i, j] = sum over k of A[i, k] * B[k, j]."""

    @T.prim_func
    def main(A: T.Buffer((m, k), "float32"), B: T.Buffer((k, n), "float32"), C: T.Buffer((m, n), "float32")) -> None:
        T.func_attr({"global_symbol": "main", "tir.noalias": True})
        for i, j, r in T.grid(m, n, k):
            with T.block("C"):
                vi, vj, vr = T.axis.remap("SSR", [i, j, r])
                with T.init():
                    C[vi, vj] = T.float32(0)
                C[vi, vj] = C[vi, vj] + A[vi, vr] * B[vr, vj]

    made: tir.PrimFunc = main
    return made


def naive(sch: tir.Schedule) -> None:
    """Three nested loops as they are written."""


def tiled(sch: tir.Schedule) -> tuple[Any, ...]:
    """Tiles of C, so that what is read of A and B is read again while it is still in the cache."""
    block = sch.get_block("C")
    i, j, r = sch.get_loops(block)
    io, ii = sch.split(i, [None, TILE_M])
    jo, ji = sch.split(j, [None, TILE_N])
    sch.reorder(jo, io, r, ii, ji)
    return jo, io, r, ii, ji


def vectorized(sch: tir.Schedule) -> tuple[Any, ...]:
    """The columns of a tile become lanes of vectors."""
    jo, io, r, ii, ji = tiled(sch)
    vectors, lanes = sch.split(ji, [None, LANES])
    sch.vectorize(lanes)
    return jo, io, r, ii, vectors, lanes


def in_registers(sch: tir.Schedule) -> tuple[Any, ...]:
    """A tile of C in registers through the whole reduction: 14 rows of two vectors, written back once."""
    block = sch.get_block("C")
    jo, io, r, ii, vectors, lanes = vectorized(sch)
    write_back = sch.cache_write(block, 0, "local")
    sch.reverse_compute_at(write_back, io)
    rows, columns = sch.get_loops(write_back)[-2:]
    sch.unroll(rows)
    sch.vectorize(columns)
    init = sch.decompose_reduction(block, r)
    *_, first, second, third = sch.get_loops(init)
    for loop in (first, second, ii, vectors):
        sch.unroll(loop)
    sch.vectorize(third)
    return jo, io, r, ii, vectors, lanes


def packed(sch: tir.Schedule) -> tuple[Any, ...]:
    """B copied once into panels of 32 columns, which are then read front to back."""
    block = sch.get_block("C")
    loops = in_registers(sch)
    panel = sch.cache_read(block, "B", "global")
    sch.transform_layout(block, "B_global", lambda k, j: (j // TILE_N, k, j % TILE_N))
    copied, columns = sch.get_loops(panel)
    outer, lanes = sch.split(columns, [None, TILE_N])
    sch.reorder(outer, copied, lanes)
    sch.vectorize(lanes)
    return loops


def unrolled(sch: tir.Schedule) -> tuple[Any, ...]:
    """Four steps of k at a time."""
    jo, io, r, ii, vectors, lanes = packed(sch)
    ro, ri = sch.split(r, [None, DEPTH])
    sch.unroll(ri)
    return jo, io, ro, ri, ii, vectors, lanes


def parallel(sch: tir.Schedule) -> None:
    """Panels shared among threads (one thread here, as everything is measured on one core)."""
    sch.parallel(unrolled(sch)[0])


LADDER: list[tuple[str, Callable[[tir.Schedule], Any]]] = [
    ("naive", naive),
    ("tiles", tiled),
    ("vectors", vectorized),
    ("registers", in_registers),
    ("packing", packed),
    ("unrolling", unrolled),
    ("parallel", parallel),
]


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


def climb(m: int, n: int, k: int, budget: float = 0.5) -> dict[str, float]:
    """GFLOP/s of NumPy, of each step, and of multiply-adds alone ("peak"). Raises AssertionError on a wrong result."""
    rng = np.random.default_rng(0)
    left, right = rng.standard_normal((m, k)).astype("float32"), rng.standard_normal((k, n)).astype("float32")
    want, work = left @ right, 2e-9 * m * n * k
    args = [tvm.nd.array(left), tvm.nd.array(right), tvm.nd.empty((m, n))]
    top = Peak()
    rates = {"NumPy": work / best_seconds(lambda: np.dot(left, right), budget)}
    for name, steps in LADDER:
        sch = tir.Schedule(multiply(m, n, k))
        steps(sch)
        function = tvm.build(sch.mod, target="llvm")["main"]
        rates[name] = work / best_seconds(partial(function, *args), budget)
        np.testing.assert_allclose(args[2].numpy(), want, rtol=1e-3, atol=1e-3)
        for _ in range(5):
            top.sample()
    return {**rates, "peak": top.rate / 1e9}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("size", nargs="?", type=int, default=768, help="rows, columns and depth, about (default: 768)")
    parser.add_argument("--seconds", type=float, default=0.5, help="how long each step is measured (default: 0.5)")
    options = parser.parse_args()
    m, n = -(-options.size // TILE_M) * TILE_M, -(-options.size // TILE_N) * TILE_N
    rates = climb(m, n, options.size, options.seconds)
    print(f"C[{m}, {n}] = A[{m}, {options.size}] @ B[{options.size}, {n}], float32, one core")
    for name, rate in rates.items():
        print(f"{name:10} {rate:8.2f} GFLOP/s {100 * rate / rates['peak']:6.1f} % of peak")


if __name__ == "__main__":
    main()
