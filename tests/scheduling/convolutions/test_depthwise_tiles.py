"""Depthwise convolutions by large dilated kernels, in tiles of columns."""

from __future__ import annotations

import numpy as np
import pytest

import tilewright as tvm
from tilewright import relay


@pytest.mark.parametrize("width", [34, 37, 60])
def test_columns_fill_tiles(width: int) -> None:
    """34 = 2 * 17 and 37 columns have no tile that hides the wait for a sum: some columns are padded work, and are cut off again."""
    rng = np.random.default_rng(width)
    x, w = rng.standard_normal((1, 16, 20, width + 16)), rng.standard_normal((16, 1, 9, 9))
    data, weight = relay.var("x", shape=x.shape), relay.const(w.astype("float32"))
    call = relay.nn.conv2d(data, weight, groups=16, channels=16, kernel_size=(9, 9), dilation=(2, 2), padding=(0, 0))
    executor = relay.create_executor("graph", tvm.IRModule.from_expr(call), tvm.cpu(), "llvm").evaluate()
    expected = sum(
        x[:, :, 2 * i : 2 * i + 4, 2 * j : 2 * j + width] * w[None, :, 0, i, j, None, None]
        for i in range(9)
        for j in range(9)
    )
    np.testing.assert_allclose(executor(x.astype("float32")).numpy(), expected, rtol=1e-3, atol=1e-3)


def test_padded_columns_are_whole_tiles() -> None:
    """89 columns are prime."""
    weight = relay.const(np.ones((16, 1, 9, 9), "float32"))
    call = relay.nn.conv2d(
        relay.var("x", shape=(1, 16, 200, 89)),
        weight,
        groups=16,
        channels=16,
        kernel_size=(9, 9),
        dilation=(2, 2),
        padding=(8, 8),
    )
    with tvm.transform.PassContext(opt_level=3):
        library = relay.build(tvm.IRModule.from_expr(call), target="llvm -mcpu=x86-64-v4")
    text = "".join([library.kernel_source(name, "tir") for name in library.texts.kernels])
    assert "depthwise_conv2d_NCHWc = T.alloc_buffer((1, 1, 200, 90, 16)" in text
