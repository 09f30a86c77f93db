"""Concatenations: a row has a loop for each part, so that no vector asks for each element which part it is of."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tilewright as tvm
from tilewright import te, topi
from tilewright.codegen import interp
from tilewright.scheduling import schedule_kernel
from tilewright.target import Target

AVX512 = "llvm -mtriple=x86_64-unknown-linux-gnu -mcpu=skylake-avx512 -num-cores=2"


def kernel(shape: tuple[int, ...], axis: int, sizes: tuple[int, ...], target: str, dtype: str = "float32") -> Any:
    parts = [te.placeholder((*shape[:axis], s, *shape[axis + 1 :]), dtype, f"x{k}") for k, s in enumerate(sizes)]
    joined = topi.concatenate(parts, axis)
    return schedule_kernel(te.create_prim_func([*parts, topi.nn.relu(joined)]), Target(target))


def random_case(seed: int) -> tuple[tuple[int, ...], int, tuple[int, ...], str]:
    rng = np.random.default_rng(seed)
    shape = tuple([int(e) for e in rng.integers(1, 9, rng.integers(1, 4))])
    axis = int(rng.integers(len(shape)))
    sizes = tuple([int(e) for e in rng.integers(1, rng.choice([4, 20, 70]), rng.integers(2, 6))])
    return shape, axis, sizes, str(rng.choice(["float32", "int8", "float64"]))


@pytest.mark.parametrize("seed", range(24))
def test_random(seed: int) -> None:
    shape, axis, sizes, dtype = random_case(seed)
    func = kernel(shape, axis, sizes, "llvm", dtype)
    rng = np.random.default_rng(seed)
    arrays = [rng.integers(-9, 9, (*shape[:axis], s, *shape[axis + 1 :])).astype(dtype) for s in sizes]
    wanted = np.maximum(np.concatenate(arrays, axis), 0)
    found = np.zeros_like(wanted)
    interp.run(func, [*arrays, found])
    np.testing.assert_array_equal(found, wanted)
    made = tvm.nd.array(np.zeros_like(wanted))
    tvm.build(func, target="llvm")(*[tvm.nd.array(a) for a in arrays], made)
    np.testing.assert_array_equal(made.numpy(), wanted)


@pytest.mark.parametrize(
    ("shape", "axis", "sizes"),
    [
        ((20, 1), 1, (181, 4, 73, 360)),
        ((992, 1, 2), 1, (48, 3)),  # Lines of two join the axis of the parts.
        ((3, 1, 5, 7), 1, (16, 1, 3)),
        ((1,), 0, (13, 200)),
    ],
)
def test_a_loop_for_each_part(shape: tuple[int, ...], axis: int, sizes: tuple[int, ...]) -> None:
    func = kernel(shape, axis, sizes, AVX512)
    text = tvm.lower(func).script()
    assert "Select" not in text and "if_then_else" not in text
    assert func.script().count("with T.block(") - 1 == len(sizes)


def test_parts_of_less_than_a_vector_stay_in_one() -> None:
    assert kernel((50, 1), 1, (2, 3, 7), AVX512).script().count("with T.block(") == 2
