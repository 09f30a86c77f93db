"""Loops of unknown extent fused with known ones inside: what threads may share of a dynamic batch."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tilewright as tvm
from tilewright.codegen import interp
from tilewright.script import tir as T
from tilewright.support.errors import ScheduleError


@T.prim_func
def doubled(a: T.handle, b: T.handle) -> None:
    n = T.int64()
    A = T.match_buffer(a, (n, T.int64(28)))
    B = T.match_buffer(b, (n, T.int64(28)))
    for i, j in T.grid(n, T.int64(28)):
        with T.block("B"):
            vi, vj = T.axis.remap("SS", [i, j])
            B[vi, vj] = A[vi, vj] * T.float32(2)


def fused(*parts: Any) -> tuple[Any, Any]:
    sch = tvm.tir.Schedule(doubled)
    image, line = sch.get_loops(sch.get_block("B"))
    part, rest = sch.split(line, list(parts))
    return sch, sch.fuse(image, part)


@pytest.mark.parametrize("batch", [1, 3])
def test_parts_of_all_images_are_shared(batch: int) -> None:
    sch, both = fused(7, 4)
    sch.parallel(both)
    x = np.random.default_rng(batch).random((batch, 28), "float32")
    out = np.zeros_like(x)
    interp.run(sch.mod["main"], [x, out])
    np.testing.assert_array_equal(out, x * 2)


@pytest.mark.parametrize("rounds", [4, 14])
def test_lines_that_two_rounds_write_are_refused(rounds: int) -> None:
    """Seven rounds for each image: three lines of it are met more than once, and so are images by rounds of another number."""

    @T.prim_func
    def wrong(b: T.handle) -> None:
        n = T.int64()
        B = T.match_buffer(b, (n, T.int64(3)))
        for f in range(n * T.int64(7)):
            with T.block("B"):
                vi = T.axis.spatial(n, f // T.int64(rounds))
                vj = T.axis.spatial(T.int64(3), f % T.int64(3))
                B[vi, vj] = T.float32(1)

    sch = tvm.tir.Schedule(wrong)
    (loop,) = sch.get_loops(sch.get_block("B"))
    with pytest.raises(ScheduleError, match="must be one to one"):
        sch.parallel(loop)
