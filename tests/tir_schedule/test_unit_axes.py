"""Axes and dimensions of a single element: regions name the element, bodies the axis."""

from __future__ import annotations

import numpy as np
import pytest

import tilewright as tvm
from tilewright import tir
from tilewright.script import tir as T


@pytest.mark.parametrize("rows", [1, 2])
@pytest.mark.parametrize("factor", [1, 4])
def test_consumer_joins_the_tile_of_a_reduction(rows: int, factor: int) -> None:
    @T.prim_func
    def main(X: T.Buffer((rows, 9), "float32"), Z: T.Buffer((rows, 8), "float32")) -> None:
        Y = T.alloc_buffer((rows, 8), "float32")
        for i, j, k in T.grid(rows, 8, 9):
            with T.block("Y"):
                vi, vj, vk = T.axis.remap("SSR", [i, j, k])
                with T.init():
                    Y[vi, vj] = T.float32(0)
                Y[vi, vj] = Y[vi, vj] + X[vi, vk]
        for i, j in T.grid(rows, 8):
            with T.block("Z"):
                vi, vj = T.axis.remap("SS", [i, j])
                Z[vi, vj] = Y[vi, vj] * T.float32(2)

    sch = tir.Schedule(main)
    block = sch.get_block("Y")
    i, j, k = sch.get_loops(block)
    j0, j1 = sch.split(j, factors=[None, factor])
    sch.reorder(j0, k, j1)
    sch.reverse_compute_at(sch.get_block("Z"), j0)
    sch.decompose_reduction(block, k)
    x, out = np.random.default_rng(0).random((rows, 9), "float32"), tvm.nd.empty((rows, 8))
    tvm.build(sch.mod)(tvm.nd.array(x), out)
    np.testing.assert_allclose(out.numpy(), np.repeat(2 * x.sum(1)[:, None], 8, 1), rtol=1e-5)
