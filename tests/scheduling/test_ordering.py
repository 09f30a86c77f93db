"""Sorting and the k best: each way that lengths of lines and numbers wanted lead to, with equal elements, NaN and infinities."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tilewright as tvm
from tilewright import te, topi
from tilewright.codegen import interp
from tilewright.scheduling import KernelPlan, schedule_kernel
from tilewright.target import Target

Array = np.ndarray[Any, Any]


def kernel(
    shape: tuple[int, ...], axis: int, number: int, is_ascend: bool, dtype: str, choices: dict[str, str] | None = None
) -> Any:
    x, plan = te.placeholder(shape, dtype, "x"), KernelPlan("llvm", choices or {})
    with plan:
        best = topi.topk(x, number, axis, "both", is_ascend, "int64")
    return schedule_kernel(te.create_prim_func([x, *best]), Target("llvm"), plan)


def in_order(x: Array, axis: int, number: int, is_ascend: bool) -> Array:
    """Places of the first, equal ones in their old order; NaN counts as the largest."""
    keys = x.astype("float64") if x.dtype.kind == "f" else x.astype("int64")
    if not is_ascend:
        keys = -keys if x.dtype.kind != "f" else np.where(np.isnan(keys), -np.inf, -keys)
    if x.dtype.kind == "f":
        # NaN before infinity where the largest come first, behind it where they come last.
        rank = np.isnan(x).astype(int) if is_ascend else 1 - np.isnan(x).astype(int)
        return np.asarray(np.lexsort((np.nan_to_num(keys, nan=0, posinf=1e300, neginf=-1e300), rank), axis)).take(
            range(number), axis
        )
    return np.argsort(keys, axis, kind="stable").take(range(number), axis)


def check(
    shape: tuple[int, ...],
    axis: int,
    number: int,
    is_ascend: bool,
    *arrays: Array,
    choices: dict[str, str] | None = None,
) -> None:
    """One kernel, for arrays of one dtype."""
    func = kernel(shape, axis, number, is_ascend, arrays[0].dtype.name, choices)
    built = tvm.build(func, target="llvm")
    for x in arrays:
        places = in_order(x, axis, number, is_ascend)
        values = np.take_along_axis(x, places, axis)
        made = [tvm.nd.array(np.zeros_like(values)), tvm.nd.array(np.zeros_like(places))]
        built(tvm.nd.array(x), *made)
        results = [[m.numpy() for m in made]]
        if x.size < 400:
            found = [np.zeros_like(values), np.zeros_like(places)]
            interp.run(func, [x, *found])
            results.append(found)
        for value, place in results:
            np.testing.assert_array_equal(place, places)
            np.testing.assert_array_equal(value, values)


def special(x: Array, rng: np.random.Generator) -> Array:
    """With NaN, both infinities and both zeros in it."""
    for value in (np.nan, np.inf, -np.inf, 0.0, -0.0):
        x[rng.random(x.shape) < 0.08] = value
    return x


@pytest.mark.parametrize("is_ascend", [False, True])
@pytest.mark.parametrize(
    ("shape", "axis", "number"),
    [
        ((3, 7), 1, 7), ((2, 96), 1, 96), ((2, 97), 1, 40), ((3, 300), 1, 128), ((2, 300), 1, 129), ((2, 120), 1, 120), ((130, 3), 0, 60),
        ((2, 3000), 1, 3), ((2, 2000), 1, 64), ((2, 2000), 1, 100), ((3, 20), 1, 2), ((1,), 0, 1), ((4, 1), 1, 1), ((2, 5000), 1, 5000),
    ],
)  # fmt: skip
def test_floats(shape: tuple[int, ...], axis: int, number: int, is_ascend: bool) -> None:
    rng = np.random.default_rng(number)
    check(shape, axis, number, is_ascend, special(rng.standard_normal(shape).astype("float32"), rng))


@pytest.mark.parametrize("dtype", ["float32", "int8", "uint8", "int32", "uint32", "float16", "int64", "float64"])
@pytest.mark.parametrize(("length", "number"), [(30, 30), (110, 50), (400, 100)])
def test_equal_elements_keep_their_order(length: int, number: int, dtype: str) -> None:
    rng = np.random.default_rng(length)
    check((2, length), 1, number, False, rng.integers(0, 4, (2, length)).astype(dtype))
    limit = np.iinfo(dtype) if np.dtype(dtype).kind in "iu" else np.finfo(dtype)
    extremes = rng.choice(np.array([limit.min, limit.max]), (2, length)).astype(dtype)
    check((2, length), 1, number, True, np.zeros((2, length), dtype), extremes)


@pytest.mark.parametrize("is_ascend", [False, True])
@pytest.mark.parametrize(
    ("shape", "axis", "number"),
    [
        ((16, 7), 1, 7),
        ((17, 30), 1, 5),
        ((3, 41, 11), 1, 4),
        ((5, 2, 9, 1), 2, 1),
        ((33, 200), 1, 20),
        ((2, 3), 1, 2),
        ((24, 40), 0, 3),
    ],
)
def test_side_by_side(shape: tuple[int, ...], axis: int, number: int, is_ascend: bool) -> None:
    rng = np.random.default_rng(number)
    choices = {"order.form": "side by side"}
    reals = special(rng.standard_normal(shape).astype("float32"), rng)
    check(shape, axis, number, is_ascend, reals, np.zeros(shape, "float32"), choices=choices)
    few = rng.integers(-2, 2, shape).astype("int8")
    check(shape, axis, number, is_ascend, few, rng.choice([-128, 127], shape).astype("int8"), choices=choices)


@pytest.mark.parametrize(
    ("lines", "length", "number", "way"),
    [
        (4, 41, 41, "ranked"),
        (4, 482, 68, "ranked"),
        (4, 160, 40, "ranked"),
        (4, 128, 128, "ranked"),
        (4, 50000, 2, "topk"),
        (4, 300, 200, "sort"),
        (4, 5000, 5000, "sort"),
        (64, 36, 7, "side_by_side"),
        (64, 1000, 10, "side_by_side"),
        (64, 300, 60, "ranked"),
    ],
)
def test_way(lines: int, length: int, number: int, way: str) -> None:
    """Counting where few are wanted, one pass where those are very few of many, digits for whole lines; several lines in vectors."""
    assert f'T.block("{way}")' in kernel((lines, length), 1, number, False, "float32").script()
