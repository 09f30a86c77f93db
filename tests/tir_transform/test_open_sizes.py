"""Loops and allocations of extents known only at run time: vectors under masks, allocations out of loops."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tilewright import tir
from tilewright.codegen import interp
from tilewright.driver import lower
from tilewright.ir import IRModule
from tilewright.node import post_order_visit
from tilewright.script import from_source

ROWS = """
# from tilewright.script import tir as T
@T.prim_func
def main(pa: T.handle, pb: T.handle, n: T.int64(is_size_var=True), m: T.int64(is_size_var=True)):
    a = T.match_buffer(pa, (n, m))
    b = T.match_buffer(pb, (n, m))
    for f in T.parallel(n * m):
        for o in range((m + 15) // 16):
            for l in T.vectorized(16):
                if o * 16 + l < m:
                    b[f // m, o * 16 + l] = T.if_then_else(o * 16 + l < m, a[f // m, o * 16 + l], T.float32(0)) + 1.0
"""

ROOM = """
# from tilewright.script import tir as T
@T.prim_func
def main(pa: T.handle, pb: T.handle, n: T.int64(is_size_var=True), m: T.int64(is_size_var=True)):
    a = T.match_buffer(pa, (n, m))
    b = T.match_buffer(pb, (n, m))
    for i in T.serial(n):
        with T.block("row"):
            vi = T.axis.spatial(n, i)
            t = T.alloc_buffer((m,))
            for j in T.serial(m):
                with T.block("twice"):
                    vj = T.axis.spatial(m, j)
                    t[vj] = a[vi, vj] * 2.0
            for j in T.serial(m):
                with T.block("sum"):
                    vj = T.axis.spatial(m, j)
                    b[vi, vj] = t[vj] + t[m - 1 - vj]
"""


def nodes(mod: IRModule, kind: type) -> list[Any]:
    found: list[Any] = []
    post_order_visit(mod["main"].body, lambda e: found.append(e) if isinstance(e, kind) else None)
    return found


def check(mod: IRModule, expected: Any, shape: tuple[int, int]) -> None:
    a = np.random.default_rng(0).standard_normal(shape).astype("float32")
    out = np.zeros_like(a)
    interp.run(mod, [a, out, *shape])
    np.testing.assert_array_equal(out, expected(a))


@pytest.mark.parametrize("shape", [(2, 5), (3, 16), (2, 35), (0, 0)])
def test_a_size_divides_below_lanes_that_may_all_be_off(shape: tuple[int, int]) -> None:
    mod = lower(IRModule({"main": from_source(ROWS)}))
    assert not [s for s in nodes(mod, tir.For) if s.kind == tir.ForKind.SERIAL and str(s.extent) == "16"]
    check(mod, lambda a: a + 1, shape)


def test_allocations_of_unknown_size_leave_serial_loops() -> None:
    mod = lower(IRModule({"main": from_source(ROOM)}))
    (allocation,) = nodes(mod, tir.Allocate)
    assert mod["main"].body is allocation or isinstance(allocation.body, tir.For)
    assert not any(isinstance(x, tir.Allocate) for s in nodes(mod, tir.For) for x in [s.body])
    check(mod, lambda a: a * 2 + a[:, ::-1] * 2, (3, 5))
