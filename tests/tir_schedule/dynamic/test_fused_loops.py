"""Loops of unknown extent that are fused with others: what the parts of the fused index reach is still known."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tilewright import te, tir
from tilewright.codegen import interp
from tilewright.support.errors import ScheduleError
from tilewright.tir.schedule import Schedule

N, M = tir.SizeVar("n", "int64"), tir.SizeVar("m", "int64")


def doubled(*shape: Any) -> tir.PrimFunc:
    """b = a * 2; the sizes come last."""
    a = te.placeholder(shape, name="a")
    b = te.compute(shape, lambda *i: a(*i) * 2.0, name="b")
    return te.create_prim_func([a, b, *dict.fromkeys(d for d in shape if not isinstance(d, int))], "int64")


def run(func: tir.PrimFunc, shape: tuple[int, ...], sizes: tuple[int, ...]) -> None:
    a = np.random.default_rng(0).standard_normal(shape).astype("float32")
    out = np.zeros_like(a)
    interp.run(func, [a, out, *sizes])
    np.testing.assert_array_equal(out, a * 2)


@pytest.mark.parametrize(
    ("shape", "fused"),
    [((N, 12, 4), 2), ((N, M, 4), 2), ((N, 3, M, 4), 3), ((N, M, 3, 4), 3), ((N, 3, 2, 4), 3)],
    ids=str,
)
def test_parts_of_a_fused_index_cover_their_domains(shape: tuple[Any, ...], fused: int) -> None:
    sch = Schedule(doubled(*shape))
    loops = sch.get_loops("b")
    sch.parallel(sch.fuse(*loops[:fused]))
    sch.vectorize(loops[-1])
    sizes = {N: 2, M: 5}
    run(
        sch.mod["main"],
        tuple(sizes.get(d, d) for d in shape),
        tuple(dict.fromkeys(sizes[d] for d in shape if d in sizes)),
    )


def test_a_part_that_is_missing_is_seen() -> None:
    from tilewright.script import from_source

    # All columns of a row write one element.
    func = from_source("""
# from tilewright.script import tir as T
@T.prim_func
def main(pa: T.handle, pb: T.handle, n: T.int64, m: T.int64):
    a = T.match_buffer(pa, (n, m))
    b = T.match_buffer(pb, (n,))
    for f in range(n * m):
        with T.block("b"):
            i = T.axis.spatial(n, f // m)
            T.reads(a[i, 0])
            T.writes(b[i])
            b[i] = a[i, 0]
""")
    sch = Schedule(func)
    with pytest.raises(ScheduleError, match="must not be parallel"):
        sch.parallel(sch.get_loops("b")[0])


def test_moved_blocks_need_no_predicate() -> None:
    a = te.placeholder((N, M, 8), name="a")
    b = te.compute((N, M, 8), lambda i, j, k: a[i, j, k] + 1.0, name="b")
    c = te.compute((N, M, 8), lambda i, j, k: b[i, j, k] * 2.0, name="c")
    func = te.create_prim_func([a, c, N, M], "int64")
    down = Schedule(func)
    down.compute_at("b", down.fuse(*down.get_loops("c")[:2]))
    assert "T.where" not in down.mod["main"].script()
    up = Schedule(func)
    up.reverse_compute_at("c", up.get_loops("b")[1])
    assert "T.where" not in up.mod["main"].script()
    x = np.random.default_rng(0).standard_normal((3, 5, 8)).astype("float32")
    for sch in (down, up):
        out = np.zeros_like(x)
        interp.run(sch.mod["main"], [x, out, 3, 5])
        np.testing.assert_array_equal(out, (x + 1) * 2)
