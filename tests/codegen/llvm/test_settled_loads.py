"""Where parts of addresses are read: outside the loops that use them, unless these may not run or what is read may change."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.codegen.small_programs import aligned, native
from tilewright.codegen.backend import AOT
from tilewright.codegen.llvm import emit_module
from tilewright.ir import IRModule
from tilewright.script import tir as T


@T.prim_func
def rows(table: T.Buffer((8, 32), "float32"), at: T.Buffer((5,), "int64"), out: T.Buffer((5, 32), "float32")) -> None:
    T.func_attr({"tir.noalias": True})
    for i in range(5):
        for j in range(2):
            for k in T.vectorized(16):
                out[i, j * 16 + k] = table[T.Cast("int32", at[i] % T.int64(8)), j * 16 + k]


@T.prim_func
def maybe_none(
    table: T.Buffer((99,), "float32"),
    at: T.Buffer((5,), "int32"),
    count: T.Buffer((1,), "int64"),
    out: T.Buffer((5, 32), "float32"),
) -> None:
    T.func_attr({"tir.noalias": True})
    for i in range(5):
        for j in range(count[0]):
            out[i, j] = table[at[i]]


@T.prim_func
def counted(table: T.Buffer((99,), "float32"), at: T.Buffer((4,), "int32"), out: T.Buffer((4, 16), "float32")) -> None:
    T.func_attr({"tir.noalias": True})
    for i in range(4):
        for j in range(16):
            out[i, j] = table[at[i]]
            at[i] = 7


@T.prim_func
def shared(table: T.Buffer((99,), "float32"), at: T.Buffer((4,), "int32"), out: T.Buffer((4, 16), "float32")) -> None:
    T.func_attr({"tir.noalias": False})
    for i in range(4):
        for j in range(16):
            out[i, j] = table[at[i]]


@T.prim_func
def value(at: T.Buffer((4,), "int32"), out: T.Buffer((4, 16), "int32")) -> None:
    T.func_attr({"tir.noalias": True})
    for i in range(4):
        for j in range(16):
            out[i, j] = at[i]


def loops_around_reads(func: Any) -> list[int]:
    """For each load of an integer, how many loops are open where it stands."""
    text = emit_module(IRModule({"main": func.with_attr("calling_conv", AOT)}), "llvm")
    depth, found = 0, []
    for line in text.splitlines():
        depth += line.startswith("loop") - line.startswith("done")
        if "= load i64" in line or "= load i32" in line:
            found.append(depth)
    return found


@pytest.mark.parametrize(
    "func, depths", [(rows, [1]), (maybe_none, [1, 2]), (counted, [2]), (shared, [2]), (value, [2])]
)
def test_where_they_are_read(func: Any, depths: list[int]) -> None:
    assert loops_around_reads(func) == depths


def test_rows_looked_up() -> None:
    table = aligned(np.arange(256).reshape(8, 32), "float32")
    at, out = aligned(np.array([3, -1, 0, 7, 3]), "int64"), aligned(np.zeros((5, 32)), "float32")
    assert native(rows.with_attr("global_symbol", "main"), [table, at, out]) == 0
    np.testing.assert_array_equal(out, table[at % 8])
