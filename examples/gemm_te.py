"""Matrix multiplication, one schedule step at a time: what each buys in GFLOP/s on one core, beside NumPy and the peak.

Run: python examples/gemm_te.py [size] [--seconds S]. Every step is the same computation; only the schedule (and, from step 5 on, the
layout of B) changes, and each result is compared with NumPy's.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable
from functools import partial
from typing import Any

os.environ["OPENBLAS_NUM_THREADS"] = os.environ["TVM_NUM_THREADS"] = "1"

import time

import numpy as np

import tilewright as tvm
from tilewright import te
from tilewright.cli.peak import Peak
from tilewright.target import Target

LANES = max(Target("llvm").cpu.lanes(32), 4)
TILE_M, TILE_N, DEPTH = 6, (4 if LANES >= 16 else 2) * LANES, 4
"""A tile of C: 6 rows of four vectors, 24 sums in registers beside one row of B and an element of A; two vectors where there are only 16
registers (AVX2)."""
BLOCK = 32
"""Tiles whose rows of A stay in the second cache while all of B goes by."""
Program = tuple[Any, list[Any]]


def multiply(m: int, n: int, k: int) -> tuple[Any, Any, Any]:
    """A, B and C[i, j] = sum over k of A[i, k] * B[k, j]."""
    a, b = te.placeholder((m, k), name="A"), te.placeholder((k, n), name="B")
    r = te.reduce_axis((0, k), "k")
    return a, b, te.compute((m, n), lambda i, j: te.sum(a[i, r] * b[r, j], axis=r), name="C")


def naive(m: int, n: int, k: int) -> Program:
    """Three nested loops as they are written."""
    a, b, c = multiply(m, n, k)
    return te.create_schedule(c.op), [a, b, c]


def blocking(m: int, n: int, k: int) -> Program:
    """Tiles of C, so that what is read of A and B is read again while it is still in the cache."""
    a, b, c = multiply(m, n, k)
    s = te.create_schedule(c.op)
    io, jo, ii, ji = s[c].tile(c.op.axis[0], c.op.axis[1], TILE_M, TILE_N)
    ko, ki = s[c].split(s[c].op.reduce_axis[0], factor=DEPTH)
    s[c].reorder(io, jo, ko, ii, ki, ji)
    return s, [a, b, c]


def vectorized(m: int, n: int, k: int) -> Program:
    """The columns of a tile become lanes of vectors."""
    a, b, c = multiply(m, n, k)
    s = te.create_schedule(c.op)
    io, jo, ii, ji = s[c].tile(c.op.axis[0], c.op.axis[1], TILE_M, TILE_N)
    ko, ki = s[c].split(s[c].op.reduce_axis[0], factor=DEPTH)
    s[c].reorder(io, jo, ko, ii, ki, ji)
    s[c].vectorize(ji)
    return s, [a, b, c]


def permuted(m: int, n: int, k: int) -> Program:
    """Rows inside of the reduction: a row of B, once read, serves all rows of the tile."""
    a, b, c = multiply(m, n, k)
    s = te.create_schedule(c.op)
    io, jo, ii, ji = s[c].tile(c.op.axis[0], c.op.axis[1], TILE_M, TILE_N)
    ko, ki = s[c].split(s[c].op.reduce_axis[0], factor=DEPTH)
    s[c].reorder(io, jo, ko, ki, ii, ji)
    s[c].vectorize(ji)
    return s, [a, b, c]


def multiply_packed(m: int, n: int, k: int) -> tuple[Any, Any, Any, Any]:
    """As `multiply`, with B copied to panels of TILE_N columns that are read front to back."""
    a, b = te.placeholder((m, k), name="A"), te.placeholder((k, n), name="B")
    r = te.reduce_axis((0, k), "k")
    packed = te.compute((n // TILE_N, k, TILE_N), lambda p, x, j: b[x, p * TILE_N + j], name="packed")
    c = te.compute(
        (m, n), lambda i, j: te.sum(a[i, r] * packed[j // TILE_N, r, te.indexmod(j, TILE_N)], axis=r), name="C"
    )
    return a, b, packed, c


def schedule_packing(s: Any, packed: Any) -> None:
    """Panels side by side, each row of a panel one vector after the other."""
    panel, _, lane = s[packed].op.axis
    s[packed].vectorize(lane)
    s[packed].parallel(panel)


def array_packing(m: int, n: int, k: int) -> Program:
    """B in the order in which it is read."""
    a, b, packed, c = multiply_packed(m, n, k)
    s = te.create_schedule(c.op)
    io, jo, ii, ji = s[c].tile(c.op.axis[0], c.op.axis[1], TILE_M, TILE_N)
    ko, ki = s[c].split(s[c].op.reduce_axis[0], factor=DEPTH)
    s[c].reorder(io, jo, ko, ki, ii, ji)
    s[c].vectorize(ji)
    schedule_packing(s, packed)
    return s, [a, b, c]


def write_cached(m: int, n: int, k: int, parallel: bool = False) -> Program:
    """A tile of C in registers through the whole reduction, written back once; rows in blocks that stay in the cache."""
    a, b, packed, c = multiply_packed(m, n, k)
    s = te.create_schedule(c.op)
    acc = s.cache_write(c, "local")
    io, jo, ii, ji = s[c].tile(c.op.axis[0], c.op.axis[1], TILE_M, TILE_N)
    block, io = s[c].split(io, factor=BLOCK)
    s[c].reorder(block, jo, io, ii, ji)
    s[acc].compute_at(s[c], io)
    rows, columns = s[acc].op.axis
    ko, ki = s[acc].split(s[acc].op.reduce_axis[0], factor=DEPTH)
    vectors, lanes = s[acc].split(columns, factor=LANES)
    s[acc].reorder(ko, ki, rows, vectors, lanes)
    for axis in (ki, rows, vectors):
        s[acc].unroll(axis)
    s[acc].vectorize(lanes)
    s[c].unroll(ii)
    s[c].vectorize(ji)
    schedule_packing(s, packed)
    if parallel:
        s[c].parallel(jo)
    return s, [a, b, c]


def parallel(m: int, n: int, k: int) -> Program:
    """Panels of B shared among threads (one thread here, as everything is measured on one core)."""
    return write_cached(m, n, k, parallel=True)


LADDER: list[tuple[str, Callable[[int, int, int], Program]]] = [
    ("naive", naive),
    ("blocking", blocking),
    ("vectorize", vectorized),
    ("loop order", permuted),
    ("array packing", array_packing),
    ("write cache", write_cached),
    ("parallel", parallel),
]


def best_seconds(run: Callable[[], Any], budget: float = 0.5) -> float:
    """The fastest of repeated runs, for about `budget` seconds.

    Only the time of this thread counts, so that the other programs of a busy machine do not.
    """
    run()
    best, end = float("inf"), time.perf_counter() + budget
    while True:
        began = time.thread_time()
        run()
        best = min(best, time.thread_time() - began)
        if time.perf_counter() > end:
            return best


def climb(m: int, n: int, k: int, budget: float = 0.5) -> dict[str, float]:
    """GFLOP/s of each step, of NumPy and of multiply-adds alone ("peak"); every result is compared with NumPy's."""
    rng = np.random.default_rng(0)
    left, right = rng.standard_normal((m, k)).astype("float32"), rng.standard_normal((k, n)).astype("float32")
    want, work = left @ right, 2e-9 * m * n * k
    args = [tvm.nd.array(left), tvm.nd.array(right), tvm.nd.array(np.zeros((m, n), "float32"))]
    top = Peak()
    rates = {"NumPy": work / best_seconds(lambda: np.dot(left, right), budget)}
    for name, program in LADDER:
        s, parameters = program(m, n, k)
        function = tvm.build(s, parameters, "llvm", name="gemm")["gemm"]
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
    m = -(-options.size // TILE_M) * TILE_M
    n = -(-options.size // TILE_N) * TILE_N
    rates = climb(m, n, options.size, options.seconds)
    print(f"C[{m}, {n}] = A[{m}, {options.size}] @ B[{options.size}, {n}], float32, one core")
    for name, rate in rates.items():
        print(f"{name:14} {rate:8.2f} GFLOP/s {100 * rate / rates['peak']:6.1f} % of peak")


if __name__ == "__main__":
    main()
