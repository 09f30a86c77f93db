"""Pooling of plain images: rows padded in whole vectors, windows that step along them; reductions over joined axes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tilewright as tvm
from tilewright import relay

Array = np.ndarray[Any, Any]


def run(body: Any, x: Array) -> Array:
    var = relay.var("x", shape=x.shape)
    executor = relay.build(tvm.IRModule.from_expr(relay.Function([var], body(var))), "llvm")["default"](tvm.cpu())
    executor["set_input"]("x", x)
    executor["run"]()
    result: Array = executor["get_output"](0).numpy()
    return result


def windows(x: Array, size: int, stride: int, pad: int, outside: float) -> Array:
    padded = np.pad(x, ((0, 0), (0, 0), (pad, pad), (pad, pad)), constant_values=outside)
    found = np.lib.stride_tricks.sliding_window_view(padded, (size, size), (2, 3))
    return found[:, :, ::stride, ::stride]


@pytest.mark.parametrize(
    ("shape", "size", "stride", "pad"),
    [((1, 3, 12, 40), 3, 2, 1), ((2, 2, 9, 17), 3, 1, 1), ((1, 2, 16, 64), 2, 2, 0), ((1, 1, 21, 50), 5, 3, 2), ((1, 2, 20, 37), 4, 4, 0)],
)  # fmt: skip
def test_pooling(shape: tuple[int, ...], size: int, stride: int, pad: int) -> None:
    x = np.random.default_rng(0).standard_normal(shape).astype("float32")
    options = {"pool_size": (size, size), "strides": (stride, stride), "padding": (pad, pad)}
    largest = windows(x, size, stride, pad, -np.inf).max((-1, -2))
    np.testing.assert_array_equal(run(lambda v: relay.nn.max_pool2d(v, **options), x), largest)
    mean = windows(x.astype("float64"), size, stride, pad, 0).mean((-1, -2))
    got = run(lambda v: relay.nn.avg_pool2d(v, count_include_pad=True, **options), x)
    np.testing.assert_allclose(got, mean, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("shape", [(1, 5, 7, 7), (2, 3, 5, 13), (1, 2, 33, 31)])
def test_last_axes_joined(shape: tuple[int, ...]) -> None:
    x = np.random.default_rng(0).standard_normal(shape).astype("float32")
    np.testing.assert_allclose(run(relay.nn.global_avg_pool2d, x)[..., 0, 0], x.mean((2, 3)), rtol=1e-4, atol=1e-6)
    np.testing.assert_array_equal(run(lambda v: relay.max(v, axis=[2, 3]), x), x.max((2, 3)))


@pytest.mark.parametrize("size", [33, 100, 1003])
def test_log_softmax(size: int) -> None:
    x = np.random.default_rng(0).standard_normal((3, size)).astype("float32") - 200
    wide = x.astype("float64") - x.max(-1, keepdims=True)
    want = wide - np.log(np.exp(wide).sum(-1, keepdims=True))
    np.testing.assert_allclose(run(relay.nn.log_softmax, x), want, rtol=1e-5, atol=1e-5)
