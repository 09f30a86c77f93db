"""InjectSoftwarePrefetch: hints of annotated loops and blocks, and annotations that do not fit."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tilewright as tvm
from tilewright.codegen import interp
from tilewright.script import tir as T
from tilewright.support.errors import TVMError
from tilewright.tir import PrimFunc
from tilewright.tir.schedule import Schedule
from tilewright.tir.transform import InjectSoftwarePrefetch


@T.prim_func
def product(
    x: T.Buffer((8, 16), "float32"),
    w: T.Buffer((4, 16, 32), "float32"),
    r: T.Buffer((4, 8, 32), "float32"),
    y: T.Buffer((4, 8, 32), "float32"),
):
    s = T.alloc_buffer((4, 8, 32))
    for p, i, j, k in T.grid(4, 8, 32, 16):
        with T.block("sums"):
            vp, vi, vj, vk = T.axis.remap("SSSR", [p, i, j, k])
            with T.init():
                s[vp, vi, vj] = T.float32(0)
            s[vp, vi, vj] = s[vp, vi, vj] + x[vi, vk] * w[vp, vk, vj]
    for p, i, j in T.grid(4, 8, 32):
        with T.block("added"):
            vp, vi, vj = T.axis.remap("SSS", [p, i, j])
            y[vp, vi, vj] = s[vp, vi, vj] + r[vp, vi, vj]


def scheduled(panels: Any, early: bool = True) -> Schedule:
    """Tiles of four rows, each a loop over steps; the epilogue below the tiles."""
    sch = Schedule(product)
    sums, added = sch.get_block("sums"), sch.get_block("added")
    p, i, j, k = sch.get_loops(sums)
    tile, row = sch.split(i, [None, 4])
    sch.reorder(p, tile, k, row, j)
    tiles = sch.fuse(p, tile)
    sch.reverse_compute_at(added, tiles)
    if panels is not None:
        sch.annotate(k, "software_prefetch_panels", panels)
    if early:
        sch.annotate(k, "software_prefetch", 1)
        sch.annotate(added, "software_prefetch", 1)
    sch.decompose_reduction(sums, k)
    return sch


def hinted(sch: Schedule) -> str:
    return InjectSoftwarePrefetch()(sch.mod).script()


def test_hints_replace_annotations_and_change_no_value() -> None:
    sch = scheduled(["w", 2, 4, 0, 0])
    text = hinted(sch)
    assert "software_prefetch" not in text
    assert "T.address_of(w[T.min(" in text and text.count("T.address_of(w[") == 1
    assert text.index("T.address_of(r[") < text.index("T.address_of(w[")
    lowered = tvm.lower(sch.mod).script()
    assert "T.address_of(w_1[" in lowered and "T.address_of(r_1[" in lowered
    rng = np.random.default_rng(0)
    args = [rng.integers(-9, 9, s).astype("float32") for s in ((8, 16), (4, 16, 32), (4, 8, 32), (4, 8, 32))]
    (func,) = InjectSoftwarePrefetch()(sch.mod).functions.values()
    interp.run(func, args)
    np.testing.assert_array_equal(args[3], np.einsum("ik,pkj->pij", args[0], args[1]) + args[2])
    native = [tvm.nd.array(a) for a in (*args[:3], np.zeros_like(args[3]))]
    tvm.build(sch.mod, target="llvm")(*native)
    np.testing.assert_array_equal(native[3].numpy(), args[3])


def test_what_is_not_annotated_stays_the_same_object() -> None:
    sch = scheduled(None, early=False)
    (before,), (after,) = sch.mod.functions.values(), InjectSoftwarePrefetch()(sch.mod).functions.values()
    assert isinstance(before, PrimFunc) and isinstance(after, PrimFunc) and after.body is before.body


def test_steps_too_few_for_the_lines_of_a_panel_ask_for_nothing() -> None:
    assert "prefetch" not in hinted(scheduled(["w", 1, 1, 0, 0], early=False))


@pytest.mark.parametrize(
    ("panels", "text"),
    [
        (
            ["v", 2, 4, 0, 0],
            "no block below loop k reads a tensor named 'v', as 'software_prefetch_panels' says; the blocks read .*w, x",
        ),
        (["w", 2, 4, 0, 2], "loop k must stand in a loop over tiles and 2 more, as .* says, but there are 1 around it"),
        (
            ["w", 2, 4],
            "of loop k must hold a tensor's name, the tiles of a panel, the panels, and the loops over rows and over steps",
        ),
        (["w", 0, 4, 0, 0], "of loop k must hold a tensor's name"),
        (2, "of loop k must hold a tensor's name"),
    ],
)
def test_annotations_that_do_not_fit(panels: Any, text: str) -> None:
    with pytest.raises(TVMError, match="InjectSoftwarePrefetch: .*" + text) as caught:
        hinted(scheduled(panels))
    assert "for p, i, j, k in T.grid" in str(caught.value)


@T.prim_func
def halves(x: T.Buffer((6, 40), "float32"), y: T.Buffer((6, 40), "float32")):
    for i, j in T.grid(6, 40):
        with T.block("half"):
            vi, vj = T.axis.remap("SS", [i, j])
            y[vi, vj] = x[vi, vj] * T.float32(0.5)


def test_the_next_row() -> None:
    """A hint for each line of a vector; in the last row for that row again."""
    sch = Schedule(halves)
    i, j = sch.get_loops(sch.get_block("half"))
    outer, vector = sch.split(j, [None, 32])
    sch.vectorize(vector)
    sch.annotate(outer, "software_prefetch_next", ["x", 0])
    text = hinted(sch)
    assert text.count('"tir.prefetch"') == 2 and text.count("x[T.min(T.min(i + 1, 5), 5), T.min(") == 2
    result, numbers = np.zeros((6, 40), "float32"), np.arange(240, dtype="float32").reshape(6, 40)
    interp.run(InjectSoftwarePrefetch()(sch.mod)["main"], [numbers, result])
    np.testing.assert_array_equal(result, numbers / 2)


def test_rows_that_are_not_there() -> None:
    sch = Schedule(halves)
    sch.annotate(sch.get_loops(sch.get_block("half"))[1], "software_prefetch_next", ["x", 1])
    with pytest.raises(TVMError, match="loop j must stand in a loop over rows and 1 more, as .* says, but there are 1"):
        hinted(sch)


@pytest.mark.parametrize("given", [1, "x", ["x"], ["x", 0, 3], ["x", "y"], ["x", -1]])
def test_annotations_of_next_rows_that_do_not_fit(given: Any) -> None:
    sch = Schedule(halves)
    sch.annotate(sch.get_loops(sch.get_block("half"))[1], "software_prefetch_next", given)
    with pytest.raises(TVMError, match="of loop j must hold a tensor's name and the number of loops between"):
        hinted(sch)


def test_a_tensor_that_no_row_reads() -> None:
    sch = Schedule(halves)
    sch.annotate(sch.get_loops(sch.get_block("half"))[1], "software_prefetch_next", ["z", 0])
    with pytest.raises(TVMError, match="reads a tensor named 'z', as 'software_prefetch_next' says; the blocks read x"):
        hinted(sch)
