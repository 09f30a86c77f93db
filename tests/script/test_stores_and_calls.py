"""Stores of values of other dtypes, and calls of functions of the module in expressions."""

from __future__ import annotations

import sys

import numpy as np
import pytest

import tilewright as tvm
from tilewright import tir
from tilewright.script import from_source
from tilewright.script import ir as I
from tilewright.script import tir as T


def test_stores_cast_to_the_dtype_of_the_buffer() -> None:
    @T.prim_func
    def f(
        a: T.Buffer((4,), "float16"), b: T.Buffer((4,), "int8"), c: T.Buffer((4,), "float32"), d: T.Buffer((4,), "bool")
    ):
        for i in range(4):
            c[i] = i
            a[i] = c[i] * 2.0
            b[i] = T.int64(3) + T.Cast("int64", i)
            d[i] = i

    values = [np.zeros(4, t) for t in ("float16", "int8", "float32", "bool")]
    arrays = [tvm.nd.array(v) for v in values]
    tvm.build(f, target="interp")(*arrays)
    for array, wanted in zip(arrays, ([0, 2, 4, 6], [3, 4, 5, 6], [0, 1, 2, 3], [0, 1, 1, 1]), strict=True):
        np.testing.assert_array_equal(array.numpy(), np.array(wanted, array.dtype))


def test_stores_that_round_warn() -> None:
    text = """
@T.prim_func
def f(A: T.Buffer((1,), "int32"), B: T.Buffer((1,), "float32")):
    A[0] = B[0]
"""
    with pytest.warns(
        UserWarning, match=r"a store to buffer A rounds float32 to int32: B\[0\]; write .astype\('int32'\)"
    ):
        func = from_source(text)
    store = func.body
    assert isinstance(store, tir.BufferStore) and store.value.dtype == "int32"


def test_what_a_called_function_returns() -> None:
    @I.ir_module
    class Module:
        @T.prim_func
        def main(b: T.Buffer((4,), "int32")):
            for i in range(4):
                b[i] = Module.next(i) * 2

        @T.prim_func
        def next(a: T.int32) -> T.int32:
            T.ret(a + 1)

    tvm.ir.assert_structural_equal(from_source(Module.script()), Module)
    calls: list[tir.Call] = []
    tir.stmt_functor.post_order_visit(
        Module["main"].body, lambda e: calls.append(e) if isinstance(e, tir.Call) else None
    )
    assert [str(c.dtype) for c in calls] == ["int32"]


def test_the_header_names_the_package_that_the_program_imported(monkeypatch: pytest.MonkeyPatch) -> None:
    func = from_source("@T.prim_func\ndef f():\n    T.evaluate(0)\n")
    assert func.script().startswith("# from tilewright.script import tir as T\n")
    monkeypatch.setitem(sys.modules, "tvm", tvm)
    assert func.script().startswith("# from tvm.script import tir as T\n")
    assert not func.script().startswith("# from tilewright")
