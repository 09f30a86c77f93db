"""Running sums and products of lines, several of which run side by side."""

from __future__ import annotations

import numpy as np
import pytest

import tilewright as tvm
from tilewright import te, topi
from tilewright.codegen import interp


@pytest.mark.parametrize("exclusive", [False, True])
@pytest.mark.parametrize(
    ("shape", "axis"),
    [((1, 5), 1), ((3, 7), 1), ((8, 4), 1), ((13, 2, 6), 2), ((5, 9, 1), 1), ((2, 6, 3), 1), ((64, 3000), 1), ((7, 9000), 1),
     ((2, 33), 1), ((1, 48), 1), ((9000, 70), 1)],
)  # fmt: skip
def test_running_sums(shape: tuple[int, ...], axis: int, exclusive: bool) -> None:
    x = te.placeholder(shape, name="x", dtype="int32")
    func = te.create_prim_func([x, topi.cumsum(x, axis, exclusive=exclusive)])
    a = np.random.default_rng(0).integers(-9, 9, shape).astype("int32")
    expected = np.cumsum(a, axis) - (a if exclusive else 0)
    native = [tvm.nd.array(a), tvm.nd.array(np.full(shape, 77, "int32"))]
    tvm.build(func, target="llvm")(*native)
    np.testing.assert_array_equal(native[1].numpy(), expected)
    if a.size < 1000:
        found = np.full(shape, 77, "int32")
        interp.run(func, [a, found])
        np.testing.assert_array_equal(found, expected)
