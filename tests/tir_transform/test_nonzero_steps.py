"""KeepNonzeroSteps: loops over products of padded zeros are shorter, results are the same."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tilewright as tvm
from tests.slow import seeds
from tilewright import te
from tilewright.arith import Analyzer
from tilewright.codegen import interp
from tilewright.ir import IntImm, IRModule
from tilewright.support.errors import TVMError
from tilewright.tir import For, PrimFunc
from tilewright.tir.schedule import Schedule
from tilewright.tir.stmt_functor import post_order_visit, substitute
from tilewright.tir.transform import KeepNonzeroSteps


def convolution(extent: int, kernel: int, before: int, after: int, stride: int, dilation: int) -> PrimFunc:
    """A convolution of one axis, of data in a padded copy."""
    x, w = te.placeholder((extent,), name="x"), te.placeholder((kernel,), name="w")

    def padded(i: Any) -> Any:
        return te.if_then_else(te.all(i >= before, i < before + extent), x[i - before], te.const(0.0))

    pad = te.compute((extent + before + after,), padded, name="padded")
    count = (extent + before + after - (kernel - 1) * dilation - 1) // stride + 1
    k: Any = te.reduce_axis((0, kernel), "k")
    return te.create_prim_func(
        [x, w, te.compute((count,), lambda i: te.sum(pad[i * stride + k * dilation] * w[k], k), name="sums")]
    )


def scheduled(func: PrimFunc, tile: int, mark: Any) -> Schedule:
    """Tiles of a few sums inside the loop over the kernel."""
    sch = Schedule(func)
    sums = sch.get_block("sums")
    i, k = sch.get_loops(sums)
    outer, inner = sch.split(i, [None, tile])
    sch.reorder(outer, k, inner)
    sch.annotate(k, "nonzero_steps", mark)
    sch.decompose_reduction(sums, k)
    return sch


def shortened(mod: IRModule) -> PrimFunc:
    (func,) = KeepNonzeroSteps()(mod).functions.values()
    assert isinstance(func, PrimFunc)
    return func


def steps_of(func: Any, name: str) -> list[For]:
    found: list[For] = []
    post_order_visit(func.body, lambda s: found.append(s) if isinstance(s, For) and s.loop_var.name == name else None)
    return found


@pytest.mark.parametrize("seed", seeds(60, 12))
def test_random_windows_sum_the_same_in_fewer_steps(seed: int) -> None:
    rng = np.random.default_rng(seed)
    while True:
        extent, kernel, stride, dilation, tile = (
            int(rng.integers(*r)) for r in ((1, 9), (2, 9), (1, 4), (1, 4), (1, 4))
        )
        before, after = (int(p) for p in rng.integers(0, kernel * dilation + 1, 2))
        if extent + before + after > (kernel - 1) * dilation:
            break
    func = convolution(extent, kernel, before, after, stride, dilation)
    sch = scheduled(func, tile, ["padded", 0, before, before + extent - 1])
    cut = shortened(sch.mod)
    (loop,) = steps_of(cut, "k")
    assert not loop.annotations
    x, w = rng.integers(-9, 9, extent).astype("float32"), rng.integers(-9, 9, kernel).astype("float32")
    ((count,),) = [func.buffer_map[func.params[2]].shape]
    assert isinstance(count, IntImm)
    shape = (count.value,)
    expected, found = np.zeros(shape, "float32"), np.ones(shape, "float32")
    interp.run(func, [x, w, expected])
    interp.run(cut, [x, w, found])
    np.testing.assert_array_equal(found, expected)
    native = [tvm.nd.array(a) for a in (x, w, np.ones(shape, "float32"))]
    tvm.build(sch.mod, target="llvm")(*native)
    np.testing.assert_array_equal(native[2].numpy(), expected)


def test_bounds_of_the_loop_follow_the_tile() -> None:
    sch = scheduled(convolution(6, 11, 5, 5, 1, 1), 2, ["padded", 0, 5, 10])
    cut = shortened(sch.mod)
    (loop,) = steps_of(cut, "k")
    (outer,) = steps_of(cut, "i_0")
    counts = []
    for tile in range(3):
        at = {outer.loop_var: IntImm("int32", tile)}
        bounds = [Analyzer().simplify(substitute(e, at)) for e in (loop.min, loop.extent)]
        counts.append(tuple(b.value for b in bounds if isinstance(b, IntImm)))
    assert counts == [(4, 7), (2, 7), (0, 7)]


def test_a_block_around_a_tile_reads_several_places() -> None:
    func = convolution(6, 5, 2, 2, 1, 1)
    sch = scheduled(func, 3, ["padded", 0, 2, 7])
    sch.blockize(sch.get_loops(sch.get_block("sums_update"))[-1])
    x, w = np.arange(1, 7, dtype="float32"), np.array([1, 2, 0, 1, 3], "float32")
    expected, found = np.zeros(6, "float32"), np.ones(6, "float32")
    interp.run(func, [x, w, expected])
    interp.run(shortened(sch.mod), [x, w, found])
    np.testing.assert_array_equal(found, expected)


def test_sums_that_begin_in_the_loop_are_refused() -> None:
    sch = Schedule(convolution(6, 3, 1, 1, 1, 1))
    sch.annotate(sch.get_loops("sums")[1], "nonzero_steps", ["padded", 0, 1, 6])
    with pytest.raises(TVMError, match="of loop k: a block below it begins its sums itself; decompose_reduction"):
        KeepNonzeroSteps()(sch.mod)


def test_what_is_not_annotated_stays_the_same_object() -> None:
    func = convolution(6, 3, 1, 1, 1, 1)
    assert shortened(IRModule.from_expr(func)).body is func.body


@pytest.mark.parametrize(
    ("mark", "text"),
    [
        (["padded", 0, 1], "must hold a buffer's name, a dimension, and the first and last index there"),
        ([0, "padded", 1, 2], "must hold a buffer's name"),
        (2, "must hold a buffer's name"),
        (["other", 0, 1, 6], "must read dimension 0 of 'other' at a place that grows with the loop, but it is read at no place"),
        (["sums", 0, 1, 6], "must read dimension 0 of 'sums' at a place that grows with the loop, but it is read at i_0 \\* 2 \\+ i_1"),
    ],
)  # fmt: skip
def test_annotations_that_do_not_fit(mark: Any, text: str) -> None:
    sch = scheduled(convolution(6, 3, 1, 1, 1, 1), 2, mark)
    with pytest.raises(TVMError, match="KeepNonzeroSteps: .* of loop k: .*" + text):
        KeepNonzeroSteps()(sch.mod)


def in_place(kernel: int, before: int, largest: bool = False, outside: float = 0.0) -> PrimFunc:
    """Windows over six elements, which are padded without a copy: sums of products, or the largest elements."""
    x, w = te.placeholder((6,), name="x"), te.placeholder((kernel,), name="w")
    k: Any = te.reduce_axis((0, kernel), "k")

    def window(i: Any) -> Any:
        at = i + k - before
        element = te.if_then_else(te.all(at >= 0, at < 6), x[at], te.const(outside))
        return te.max(element, k) if largest else te.sum(element * w[k], k)

    return te.create_prim_func([x, w, te.compute((6,), window, name="sums")])


def with_tests(func: PrimFunc, axes: Any, unroll: bool = False) -> Schedule:
    sch = Schedule(func)
    i, k = sch.get_loops("sums")
    sch.decompose_reduction("sums", k)
    sch.annotate(sch.get_block("sums_update"), "nonzero_steps", axes)
    if unroll:
        sch.unroll(k)
        sch.unroll(i)
    return sch


@pytest.mark.parametrize("unroll", [False, True])
@pytest.mark.parametrize("largest", [False, True])
def test_blocks_test_what_they_accumulate(largest: bool, unroll: bool) -> None:
    func = in_place(5, 2, largest, -3.4028234663852886e38 if largest else 0.0)
    sch = with_tests(func, [0, 1], unroll)
    x, w = np.array([3, -1, 4, -1, 5, -9], "float32"), np.array([1, 2, 0, -1, 3], "float32")
    expected, found = np.zeros(6, "float32"), np.ones(6, "float32")
    interp.run(func, [x, w, expected])
    cut = shortened(sch.mod)
    assert "nonzero_steps" not in str(cut) and "if_then_else" not in str(cut)
    interp.run(cut, [x, w, found])
    np.testing.assert_array_equal(found, expected)
    native = [tvm.nd.array(a) for a in (x, w, np.ones(6, "float32"))]
    tvm.build(sch.mod, target="llvm")(*native)
    np.testing.assert_array_equal(native[2].numpy(), expected)


@pytest.mark.parametrize("unroll", [False, True])
def test_blocks_test_what_they_read_of_padded_copies(unroll: bool) -> None:
    func = convolution(6, 5, 2, 2, 1, 1)
    sch = with_tests(func, [["padded", 0, 2, 7]], unroll)
    x, w = np.array([3, -1, 4, -1, 5, -9], "float32"), np.array([1, 2, 0, -1, 3], "float32")
    expected, found = np.zeros(6, "float32"), np.ones(6, "float32")
    interp.run(func, [x, w, expected])
    cut = shortened(tvm.script.from_source(sch.mod.script()))
    assert "if v_i + v_k >= 2 and v_i + v_k <= 7" in str(cut)
    interp.run(cut, [x, w, found])
    np.testing.assert_array_equal(found, expected)
    native = [tvm.nd.array(a) for a in (x, w, np.ones(6, "float32"))]
    tvm.build(sch.mod, target="llvm")(*native)
    np.testing.assert_array_equal(native[2].numpy(), expected)


@pytest.mark.parametrize(
    ("marks", "text"),
    [
        (3, "must be a list, but is 3"),
        ([["padded", 0, 1]], "must hold a buffer's name, a dimension, and the first and last index there"),
        ([["other", 0, 1, 6]], "must read one element of 'other'"),
    ],
)
def test_marks_of_blocks_that_do_not_fit(marks: Any, text: str) -> None:
    with pytest.raises(TVMError, match="KeepNonzeroSteps: .* of block sums_update: it " + text):
        KeepNonzeroSteps()(with_tests(convolution(6, 3, 1, 1, 1, 1), marks).mod)


def test_extremes_of_converted_elements_are_refused() -> None:
    x, k = te.placeholder((6,), "int8", "x"), te.reduce_axis((0, 3), "k")
    padded = lambda at: te.if_then_else(te.all(at >= 0, at < 6), x[at], te.const(-128, "int8")).astype("int32")  # noqa: E731
    func = te.create_prim_func([x, te.compute((9,), lambda i: te.max(padded(i + k.var - 3), k), name="sums")])
    with pytest.raises(TVMError, match="it must accumulate products or extremes"):
        KeepNonzeroSteps()(with_tests(func, [0, 1]).mod)


def test_a_test_of_other_axes_stays_in_the_product() -> None:
    assert "if_then_else" in str(shortened(with_tests(in_place(5, 2), [1]).mod))


@pytest.mark.parametrize("func", [in_place(3, 1, outside=1.0), in_place(3, 1, True), convolution(6, 3, 1, 1, 1, 1)])
def test_blocks_that_accumulate_something_outside_are_refused(func: PrimFunc) -> None:
    with pytest.raises(TVMError, match="of block sums_update: it must accumulate products or extremes of one element"):
        KeepNonzeroSteps()(with_tests(func, [0, 1]).mod)
