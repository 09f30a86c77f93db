"""Axes that follow each other in all tensors of a kernel become one; values and parameters stay."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tilewright import te, tir, topi
from tilewright.codegen import interp
from tilewright.ir import IntImm
from tilewright.scheduling import KernelPlan, schedule_kernel
from tilewright.scheduling.long_rows import merge_rows
from tilewright.target import Target
from tilewright.tir import Block, PrimFunc
from tilewright.tir.schedule import Schedule
from tilewright.tir.stmt_functor import post_order_visit
from tilewright.topi import nn

TARGET = "llvm -mtriple=x86_64-unknown-linux-gnu -mcpu=skylake-avx512 -num-cores=2"


def kernel(*tensors: te.Tensor) -> PrimFunc:
    with Target(TARGET) as chosen, KernelPlan(chosen):
        made: Any = te.create_prim_func(list(tensors))
    return made  # type: ignore[no-any-return]


def merge_axes(func: PrimFunc) -> PrimFunc:
    """The kernel after the first step of its schedule."""
    sch = Schedule(func, debug_mask="all")
    merge_rows(sch)
    return sch.mod["main"]  # type: ignore[no-any-return]


def extents(func: PrimFunc) -> list[list[int]]:
    """Of the axes of each block."""
    found: list[list[int]] = []

    def look(s: Any) -> None:
        if isinstance(s, Block) and s.name_hint != "root":
            found.append([iv.dom.extent.value for iv in s.iter_vars if iv.dom and isinstance(iv.dom.extent, IntImm)])

    post_order_visit(func.body, look)
    return found


def ph(*shape: int, name: str = "x", dtype: str = "float32") -> te.Tensor:
    return te.placeholder(shape, dtype, name)


def test_elements_are_counted_through() -> None:
    x = ph(2, 3, 1, 5)
    assert extents(merge_axes(kernel(x, nn.relu(x)))) == [[30]]


def test_axes_that_something_is_broadcast_along_stay() -> None:
    x, b = ph(2, 6, 5, 7), ph(6, 1, 1, name="b")
    assert extents(merge_axes(kernel(x, b, topi.add(x, b)))) == [[2, 6, 35]]


def test_neighbours_that_are_reduced_together() -> None:
    x = ph(3, 4, 5, 6)
    assert extents(merge_axes(kernel(x, topi.sum(x, (1, 2))))) == [[3, 6, 20]]
    assert extents(merge_axes(kernel(x, topi.sum(x, (0, 1), keepdims=True)))) == [[30, 12]]
    # Digits of one number, over whole vectors.
    z = ph(3, 4, 7, 6)
    with Target(TARGET) as chosen, KernelPlan(chosen):
        total = topi.sum(z, (2, 3))
    assert extents(merge_axes(kernel(z, total))) == [[12, 48]]
    y = ph(2, 1, 1, 1)
    assert extents(merge_axes(kernel(y, topi.sum(y, (1, 3))))) == [[2, 1]]


def test_what_changes_places_stays_apart() -> None:
    x = ph(2, 3, 4, 5)
    assert extents(merge_axes(kernel(x, topi.transpose(x, (0, 2, 3, 1))))) == [[2, 20, 3]]
    assert extents(merge_axes(kernel(x, topi.transpose(x, (3, 2, 1, 0))))) == [[5, 4, 3, 2]]
    assert extents(merge_axes(kernel(x, topi.reshape(x, (6, 20))))) == [[120]]


def test_parts_of_an_axis_join_what_follows_it_and_not_what_comes_before() -> None:
    x, y = ph(4, 3, 8), ph(4, 2, 8, name="y")
    assert extents(merge_axes(kernel(x, y, topi.concatenate([x, y], 1)))) == [[4, 40]]
    one = ph(4, 1, 8, name="one")
    assert extents(merge_axes(kernel(x, one, topi.concatenate([x, one], 1)))) == [[4, 32]]
    assert extents(merge_axes(kernel(x, topi.strided_slice(x, [0, 1, 0], [4, 3, 8])))) == [[4, 16]]
    assert extents(merge_axes(kernel(x, topi.strided_slice(x, [0, 0, 1], [4, 3, 8])))) == [[12, 7]]


def test_an_axis_whose_number_is_a_value_stays() -> None:
    x = ph(4, 3, 8)
    f = te.compute((4, 3, 8), lambda i, j, k: x[i, j, k] + j.astype("float32"))
    assert extents(merge_axes(kernel(x, f))) == [[4, 3, 8]]


def test_products_and_windows_keep_their_axes() -> None:
    a, b = ph(2, 4, 8), ph(2, 16, 8, name="b")
    func = kernel(a, b, nn.batch_matmul(a, b))
    assert merge_axes(func) is func
    x = ph(1, 2, 9, 9)
    func = kernel(x, nn.pool2d(x, (3, 3), (1, 1), (1, 1), (0, 0, 0, 0), "max"))
    assert merge_axes(func) is func


def test_loops_of_their_own_kind_keep_what_they_touch() -> None:
    x = ph(2, 3, 8)
    merged = merge_axes(kernel(x, topi.cumsum(nn.relu(x), 2)))
    assert [2, 3, 8] in extents(merged)


def test_dynamic_sizes_stay() -> None:
    n = te.var("n", "int64")
    x = te.placeholder((n, 3, 4), name="x")
    func: Any = te.create_prim_func([x, nn.relu(x)])
    assert merge_axes(func).buffer_map[func.params[0]].shape[0] is n


def test_parameters_keep_their_shapes() -> None:
    x = ph(2, 3, 4)
    scheduled: Any = schedule_kernel(kernel(x, nn.relu(x)), Target(TARGET))
    assert [[int(e) for e in b.shape] for b in scheduled.buffer_map.values()] == [[2, 3, 4]] * 2


@pytest.mark.parametrize("seed", range(40))
def test_random_kernels(seed: int) -> None:
    """Chains of operators over random shapes, units among them, interpreted before and after."""
    rng = np.random.default_rng(seed)
    shape = [int(rng.choice([1, 1, 2, 3, 5])) for _ in range(int(rng.integers(1, 5)))]
    x = ph(*shape)
    held, value = [x], x
    for step in range(int(rng.integers(1, 4))):
        here = [int(e) for e in value.shape]
        axes = (
            sorted(map(int, rng.choice(len(here), int(rng.integers(1, len(here) + 1)), replace=False))) if here else []
        )
        kind = str(rng.choice(["unary", "broadcast", "reduce", "softmax", "transpose", "reshape", "concat", "argmax"]))
        if kind == "broadcast":
            other = ph(*[e if rng.random() < 0.5 else 1 for e in here], name=f"y{step}")
            held.append(other)
            value = topi.add(value, other)
        elif kind == "reduce" and axes:
            value = (topi.sum, topi.max)[int(rng.integers(2))](value, axes, bool(rng.random() < 0.5))
        elif kind == "softmax" and axes:
            value = nn.softmax(value, axes[0])
        elif kind == "transpose" and here:
            value = topi.transpose(value, [int(a) for a in rng.permutation(len(here))])
        elif kind == "reshape":
            flat = int(np.prod(here))
            split = int(rng.choice([d for d in range(1, flat + 1) if flat % d == 0]))
            value = topi.reshape(value, (split, flat // split))
        elif kind == "concat" and axes:
            value = topi.concatenate([value, nn.relu(value)], axes[0])
        elif kind == "argmax" and axes:
            value = topi.cast(topi.argmax(value, axes[0]), "float32")
        else:
            value = nn.relu(value)
    func = kernel(*held, value)
    arrays = [rng.standard_normal([int(e) for e in b.shape]).astype("float32") for b in func.buffer_map.values()]
    results = []
    for f in (func, merge_axes(func), schedule_kernel(func, Target(TARGET))):
        given = [a.copy() for a in arrays]
        interp.run(f, given)
        results.append(given[-1])
    np.testing.assert_array_equal(results[0], results[1])
    np.testing.assert_allclose(results[0], results[2], rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(("axis", "merged"), [(0, [2, 140]), (1, [3, 2, 35]), (2, [12, 2, 7])])
def test_axes_behind_places_of_another_type_join(axis: int, merged: list[int]) -> None:
    x, places = ph(3, 4, 5, 7), ph(2, name="places", dtype="int64")
    func = merge_axes(kernel(x, places, topi.take(x, places, axis)))
    assert merged in extents(func) and "//" not in str(func) and "%" not in str(func)
    values, at = np.arange(420, dtype="float32").reshape(3, 4, 5, 7), np.array([2, 0])
    shape = list(values.shape)
    shape[axis] = 2
    out = np.zeros(shape, "float32")
    interp.run(func, [values, at, out])
    np.testing.assert_array_equal(out, np.take(values, at, axis))


def test_gathered_rows_are_one() -> None:
    x, i = ph(9, 4, 5), ph(6, name="i", dtype="int64")
    merged = merge_axes(kernel(x, i, topi.take(x, i, 0)))
    assert extents(merged) == [[6], [6, 20]]
    assert isinstance(merged, tir.PrimFunc)
