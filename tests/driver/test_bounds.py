"""Accesses outside of their buffer, found at run time under "tir.instrument_bound_checkers"."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tilewright as tvm
from tilewright.codegen.interp import run
from tilewright.driver import lower
from tilewright.ir.transform import PassContext
from tilewright.script import tir as T
from tilewright.tir.schedule import Schedule


def checked(func: Any) -> Any:
    with PassContext(config={"tir.instrument_bound_checkers": True}):
        return lower(func)


@T.prim_func
def shifted(A: T.Buffer((4, 8), "float32"), B: T.Buffer((4, 8), "float32"), by: T.int32):
    for i, j in T.grid(4, 8):
        with T.block("B"):
            vi, vj = T.axis.remap("SS", [i, j])
            B[vi, vj] = A[vi, vj + by]


def outside(mod: Any, by: int) -> str:
    a, b = np.zeros((4, 8), "float32"), np.zeros((4, 8), "float32")
    with pytest.raises(tvm.TVMError) as error:
        run(mod, [a, b, by])
    return str(error.value)


def test_each_dimension_has_its_own_check() -> None:
    # A flat index would only leave the buffer in its last row.
    mod = checked(shifted)
    run(mod, [np.zeros((4, 8), "float32"), np.zeros((4, 8), "float32"), 0])
    text = outside(mod, 1)
    assert "index out of bounds: dimension 1 of buffer A has 8 elements, index j + by\n" in text
    assert "B[vi, vj] = A[vi, vj + by]" in text and "the index is 8" in text
    assert "the index is -1" in outside(mod, -1)


def test_vectors_are_checked_at_both_ends() -> None:
    s = Schedule(shifted)
    s.vectorize(s.get_loops(s.get_block("B"))[-1])
    mod = checked(s.mod)
    run(mod, [np.zeros((4, 8), "float32"), np.zeros((4, 8), "float32"), 0])
    assert "the index is 8" in outside(mod, 1)


def test_choices_guard_what_they_choose() -> None:
    @T.prim_func
    def f(A: T.Buffer((8,), "float32"), B: T.Buffer((8,), "float32"), n: T.int32):
        for i in range(8):
            B[i] = T.if_then_else(i < n, A[i + 1], T.float32(0))

    mod = checked(f)
    run(mod, [np.zeros(8, "float32"), np.zeros(8, "float32"), 7])
    with pytest.raises(tvm.TVMError, match="the index is 8"):
        run(mod, [np.zeros(8, "float32"), np.zeros(8, "float32"), 8])


def test_conditions_and_names_are_checked() -> None:
    @T.prim_func
    def f(A: T.Buffer((8,), "int32"), n: T.int32):
        for i in range(8):
            if A[i + n] > 3:
                A[i] = 1

    @T.prim_func
    def g(A: T.Buffer((8,), "int32"), n: T.int32):
        for i in range(8):
            with T.LetStmt(A[i + n]) as x:
                A[i] = x

    for func in (f, g):
        mod = checked(func)
        run(mod, [np.zeros(8, "int32"), 0])
        with pytest.raises(
            tvm.TVMError, match=r"(?s)dimension 0 of buffer A has 8 elements, index i \+ n.*the index is 8"
        ):
            run(mod, [np.zeros(8, "int32"), 1])


def test_native_code_says_the_same() -> None:
    with PassContext(config={"tir.instrument_bound_checkers": True}):
        built = tvm.build(shifted, target="llvm")
    a = tvm.nd.array(np.zeros((4, 8), "float32"))
    b = tvm.nd.array(np.zeros((4, 8), "float32"))
    built(a, b, 0)
    with pytest.raises(AssertionError, match=r"(?s)dimension 1 of buffer A has 8 elements.*the index is 8"):
        built(a, b, 1)
