"""How much of LLVM's optimisation a program gets, by what is left to optimise in it."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tilewright as tvm
from tilewright.codegen.llvm import compile_assembly, emit_module
from tilewright.codegen.llvm.native.effort import SHORT, WHOLE, effort
from tilewright.driver import host_pipeline, lower
from tilewright.script import tir as T
from tilewright.target import Target

sys.path.insert(0, str(Path(__file__).resolve().parents[3] / "examples"))


def level(program: Any) -> int:
    return effort(host_pipeline(Target("llvm"))(lower(program)))


@T.prim_func
def scalars(x: T.Buffer((64,), "float32"), y: T.Buffer((64,), "float32")) -> None:
    for i in range(64):
        y[i] = x[i] + T.float32(1)


@T.prim_func
def vectors(x: T.Buffer((64,), "float32"), y: T.Buffer((64,), "float32")) -> None:
    for i in range(4):
        for j in T.vectorized(16):
            y[i * 16 + j] = x[i * 16 + j] + T.float32(1)


@T.prim_func
def sum_in_memory(x: T.Buffer((64, 16), "float32"), y: T.Buffer((16,), "float32")) -> None:
    for i in range(64):
        for j in T.vectorized(16):
            y[j] = y[j] + x[i, j]


@T.prim_func
def sum_that_a_loop_reads(x: T.Buffer((64, 16), "float32"), y: T.Buffer((2, 16), "float32")) -> None:
    total = T.alloc_buffer((2, 16), "float32", scope="local")
    for k in T.unroll(2):
        for j in T.vectorized(16):
            total[k, j] = T.float32(0)
    for i in range(32):
        for k in T.unroll(2):
            for j in T.vectorized(16):
                total[k, j] = total[k, j] + x[i * 2 + k, j]
    for k in range(2):
        for j in T.vectorized(16):
            y[k, j] = total[k, j]


@T.prim_func
def sum_in_registers(x: T.Buffer((64, 16), "float32"), y: T.Buffer((2, 16), "float32")) -> None:
    total = T.alloc_buffer((2, 16), "float32", scope="local")
    for k in T.unroll(2):
        for j in T.vectorized(16):
            total[k, j] = T.float32(0)
    for i in range(32):
        for k in T.unroll(2):
            for j in T.vectorized(16):
                total[k, j] = total[k, j] + x[i * 2 + k, j]
    for k in T.unroll(2):
        for j in T.vectorized(16):
            y[k, j] = total[k, j]


@pytest.mark.parametrize(
    ("program", "expected"),
    [
        (scalars, WHOLE),
        (vectors, SHORT),
        (sum_in_memory, WHOLE),
        (sum_in_registers, SHORT),
        (sum_that_a_loop_reads, WHOLE),
    ],
    ids=["scalars", "vectors", "sum in memory", "sum in registers", "sum that a loop reads"],
)
def test_what_is_left_to_optimise(program: Any, expected: int) -> None:
    assert level(program) == expected


def test_the_steps_of_a_matrix_product() -> None:
    """Until the tile of C is kept in registers, LLVM has sums to take out of memory."""
    import gemm_te

    levels = {}
    for name, step in gemm_te.LADDER:
        s, args = step(28, 64, 32)
        levels[name] = level(s.to_prim_func(list(args)))
    assert levels["write cache"] == levels["parallel"] == SHORT
    assert {levels[n] for n in ("naive", "blocking", "vectorize", "loop order", "array packing")} == {WHOLE}


def test_loops_that_go_backwards() -> None:
    """LLVM's vectorizer aborts the process on this one."""

    @T.prim_func
    def backwards(x: T.Buffer((31,), "float32"), y: T.Buffer((31,), "float32"), z: T.Buffer((31,), "float32")) -> None:
        for i in range(31):
            z[i] = x[30 - i] + y[i] - y[i]

    given = np.arange(31, dtype="float32")
    made = tvm.nd.array(np.zeros(31, "float32"))
    tvm.build(backwards, target="llvm")(tvm.nd.array(given), tvm.nd.array(given), made)
    np.testing.assert_array_equal(made.numpy(), given[::-1])


def test_loops_beside_those_that_go_backwards() -> None:
    """A loop of the same function still becomes vectors."""

    @T.prim_func
    def turned(x: T.Buffer((512,), "float32"), y: T.Buffer((512,), "float32"), z: T.Buffer((512,), "float32")) -> None:
        for i in range(512):
            y[i] = T.max(x[511 - i], T.float32(0))
        for j in range(512):
            z[j] = T.max(x[j], T.float32(0))

    target = Target("llvm -mtriple=x86_64-unknown-linux-gnu -mcpu=haswell")
    code = compile_assembly(emit_module(host_pipeline(target, unpacked=True)(lower(turned)), target), target, WHOLE)
    assert re.search(r"\bvmaxss\b", code) and re.search(r"\bvmaxps\b.*%ymm", code)
