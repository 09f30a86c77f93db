"""Views of regions (match_buffer) that are handed on as pointers."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tilewright as tvm
from tilewright.script import tir as T


@tvm.register_func("tests.negate", override=True)
def negate(source: Any, target: Any) -> None:
    target.copyfrom(-source.numpy())


def test_rows_are_passed_as_views() -> None:
    @T.prim_func
    def f(A: T.Buffer((8, 6), "float32"), B: T.Buffer((8, 6), "float32")):
        for i in T.parallel(8):
            with T.block("row"):
                vi = T.axis.spatial(8, i)
                T.reads(A[vi, 0:6])
                T.writes(B[vi, 0:6])
                a = T.match_buffer(A[vi, 0:6], (6,), offset_factor=1)
                b = T.match_buffer(B[vi, 0:6], (6,), offset_factor=1)
                T.evaluate(T.call_packed("tests.negate", a, b))

    x, out = np.random.default_rng(0).random((8, 6), "float32"), tvm.nd.empty((8, 6))
    tvm.build(f)(tvm.nd.array(x), out)
    np.testing.assert_array_equal(out.numpy(), -x)


def test_a_pointer_to_a_view_without_offset() -> None:
    @T.prim_func
    def f(A: T.Buffer((8, 6), "float32"), B: T.Buffer((8, 6), "float32")):
        for i in range(8):
            with T.block("row"):
                vi = T.axis.spatial(8, i)
                T.reads(A[vi, 0:6])
                T.writes(B[vi, 0:6])
                a = T.match_buffer(A[vi, 0:6], (6,))
                b = T.match_buffer(B[vi, 0:6], (6,), offset_factor=1)
                T.evaluate(T.call_packed("tests.negate", a, b))

    with pytest.raises(tvm.TVMError) as caught:
        tvm.lower(f)
    assert str(caught.value) == (
        "match_buffer: a pointer to a is taken, whose elem_offset is 0, but the region begins at i * 6;"
        " give match_buffer offset_factor=1, so that the offset is a variable"
    )


def test_a_view_without_offset_is_read() -> None:
    @T.prim_func
    def f(A: T.Buffer((8, 6), "float32"), B: T.Buffer((8, 6), "float32")):
        for i in range(8):
            with T.block("row"):
                vi = T.axis.spatial(8, i)
                T.reads(A[vi, 0:6])
                T.writes(B[vi, 0:6])
                a = T.match_buffer(A[vi, 0:6], (6,))
                for j in range(6):
                    B[vi, j] = -a[j]

    x, out = np.random.default_rng(0).random((8, 6), "float32"), tvm.nd.empty((8, 6))
    tvm.build(f)(tvm.nd.array(x), out)
    np.testing.assert_array_equal(out.numpy(), -x)
