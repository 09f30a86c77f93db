"""Tensor intrinsics take tiles of the memory that they were written for."""

from __future__ import annotations

import pytest

from tilewright import tir
from tilewright.script import tir as T


@T.prim_func
def doubled(a: T.handle, b: T.handle) -> None:
    A = T.match_buffer(a, (8,), "float32", offset_factor=1)
    B = T.match_buffer(b, (8,), "float32", offset_factor=1)
    with T.block("root"):
        T.reads(A[0:8])
        T.writes(B[0:8])
        for i in range(8):
            with T.block("twice"):
                vi = T.axis.spatial(8, i)
                B[vi] = A[vi] + A[vi]


def test_a_tile_in_another_scope() -> None:
    @T.prim_func
    def main(X: T.Buffer((64,), "float32"), Y: T.Buffer((64,), "float32")) -> None:
        for i in range(64):
            with T.block("Y"):
                vi = T.axis.spatial(64, i)
                Y[vi] = X[vi] + X[vi]

    tir.TensorIntrin.register("tests.doubled", doubled, doubled, override=True)
    sch = tir.Schedule(main)
    sch.cache_write(sch.get_block("Y"), 0, "local")
    outer, inner = sch.split(sch.get_loops(sch.get_block("Y"))[0], [None, 8])
    with pytest.raises(tir.ScheduleError) as caught:
        sch.tensorize(inner, "tests.doubled")
    assert str(caught.value).splitlines()[0] == (
        "tensorize: block Y_o has buffer Y_local in scope local, where B of the intrinsic is in scope global;"
        " give match_buffer of the intrinsic scope='local'"
    )
