"""Schedules of programs whose sizes are known only when they run, against NumPy for several sizes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from tilewright import te
from tilewright.codegen.interp import run
from tilewright.support.errors import ScheduleError
from tilewright.tir import PrimFunc
from tilewright.tir.schedule import Schedule

Shape = tuple[int, int, int]
SIZES: list[Shape] = [(1, 1, 1), (5, 7, 3), (8, 8, 8), (9, 4, 6)]


def matmul() -> PrimFunc:
    m, n, k = te.var("m"), te.var("n"), te.var("k")
    a = te.placeholder((m, k), name="A")
    b = te.placeholder((k, n), name="B")
    r = te.reduce_axis((0, k), name="r")
    c = te.compute((m, n), lambda i, j: te.sum(a[i, r] * b[r, j], axis=r), name="C")
    return te.create_prim_func([a, b, te.compute((m, n), lambda i, j: c[i, j] + 1.0, name="D")])


def check(s: Schedule) -> None:
    rng = np.random.default_rng(0)
    for m, n, k in SIZES:
        a, b = (rng.integers(-3, 4, shape).astype("float32") for shape in ((m, k), (k, n)))
        out = np.zeros((m, n), "float32")
        run(s.mod, [a, b, out])
        np.testing.assert_array_equal(out, a @ b + 1)


def tile(s: Schedule) -> list[Any]:
    i, j = s.get_loops("D")
    io, ii = s.split(i, [None, 4])
    jo, ji = s.split(j, [None, 4])
    s.reorder(io, jo, ii, ji)
    return [io, jo, ii, ji]


def _tiled(s: Schedule) -> None:
    io, _, _, ji = tile(s)
    s.parallel(io)
    s.vectorize(ji)


def _attached(s: Schedule) -> None:
    _, jo, _, _ = tile(s)
    s.compute_at("C", jo)
    loops = s.get_loops("C")
    s.decompose_reduction("C", loops[-1])


def _attached_to_rows(s: Schedule) -> None:
    s.compute_at("C", s.get_loops("D")[0])


def _reverse_attached(s: Schedule) -> None:
    i, j, r = s.get_loops("C")
    io, ii = s.split(i, [None, 4])
    s.reorder(io, ii, j, r)
    s.reverse_compute_at("D", ii)


def _fused(s: Schedule) -> None:
    f = s.fuse(*s.get_loops("D"))
    outer, inner = s.split(f, [None, 8])
    s.bind(outer, "blockIdx.x")
    s.bind(inner, "threadIdx.x")


def _reduction(s: Schedule) -> None:
    ro, _ = s.split(s.get_loops("C")[2], [None, 4])
    s.decompose_reduction("C", ro)


def _staged(s: Schedule) -> None:
    s.cache_read("C", 0, "local")
    s.cache_write("C", 0, "local")
    s.reindex("C", ("read", 1))


def _transposed(s: Schedule) -> None:
    s.transform_layout("C", ("write", 0), lambda i, j: (j, i))


def _packed(s: Schedule) -> None:
    s.transform_layout("C", ("write", 0), lambda i, j: (i, j // 4, j % 4), pad_value=0.0)


def _partial(s: Schedule) -> None:
    s.rfactor(s.get_loops("C")[2], 0)


def _inlined(s: Schedule) -> None:
    s.cache_read("D", 0, "global")
    s.compute_inline("C_global")


def _reverse_inlined(s: Schedule) -> None:
    s.cache_write("D", 0, "global")
    s.reverse_compute_inline("D_global")


def _partitioned(s: Schedule) -> None:
    s.loop_partition(s.get_loops("D")[0], [2, 3])


def _by_a_size(s: Schedule) -> None:
    (func,) = s.mod.functions.values()
    n = func.buffer_map[func.params[2]].shape[1]
    f = s.fuse(*s.get_loops("D"))
    s.split(f, [None, n])


def _block(s: Schedule) -> None:
    s.blockize(s.get_loops("D")[1])


WAYS: list[Callable[[Schedule], None]] = [
    _tiled, _attached, _attached_to_rows, _reverse_attached, _fused, _reduction, _staged, _transposed, _packed,
    _partial, _inlined, _reverse_inlined, _partitioned, _by_a_size, _block,
]  # fmt: skip


@pytest.mark.parametrize("way", WAYS, ids=[w.__name__[1:] for w in WAYS])
def test_symbolic(way: Callable[[Schedule], None]) -> None:
    func = matmul()
    s = Schedule(func, debug_mask="all")
    way(s)
    check(s)
    again = Schedule(func)
    assert s.trace is not None
    s.trace.apply_to_schedule(again, remove_postproc=False)
    assert str(again.mod) == str(s.mod)


def test_vectors_need_a_constant_length() -> None:
    s = Schedule(matmul())
    with pytest.raises(
        ScheduleError, match=r"^vectorize: loop j must have a constant extent to be a vector, but runs to n"
    ):
        s.vectorize(s.get_loops("D")[1])


def test_padding_of_a_symbolic_dimension_needs_a_value() -> None:
    s = Schedule(matmul())
    with pytest.raises(
        ScheduleError, match=r"^transform_layout: the new layout of buffer C has padding \(where not .* < n\)"
    ):
        s.transform_layout("C", ("write", 0), lambda i, j: (i, j // 4, j % 4))
