"""Pooling of plain images: rows padded in whole vectors, windows that step along them; reductions over joined axes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tilewright as tvm
from tilewright import relay, te, topi
from tilewright.scheduling import KernelPlan

Array = np.ndarray[Any, Any]


def run(body: Any, x: Array, target: str = "llvm") -> Array:
    var = relay.var("x", shape=x.shape)
    executor = relay.build(tvm.IRModule.from_expr(relay.Function([var], body(var))), target)["default"](tvm.cpu())
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
    [
        ((1, 3, 12, 40), 3, 2, 1), ((2, 2, 9, 17), 3, 1, 1), ((1, 2, 16, 64), 2, 2, 0), ((1, 1, 21, 50), 5, 3, 2),
        ((1, 2, 20, 37), 4, 4, 0), ((1, 20, 2, 2), 9, 2, 4), ((1, 3, 3, 5), 11, 1, 5),
    ],
)  # fmt: skip
def test_pooling(shape: tuple[int, ...], size: int, stride: int, pad: int) -> None:
    x = np.random.default_rng(0).standard_normal(shape).astype("float32")
    options = {"pool_size": (size, size), "strides": (stride, stride), "padding": (pad, pad)}
    largest = windows(x, size, stride, pad, -np.inf).max((-1, -2))
    np.testing.assert_array_equal(run(lambda v: relay.nn.max_pool2d(v, **options), x), largest)
    mean = windows(x.astype("float64"), size, stride, pad, 0).mean((-1, -2))
    got = run(lambda v: relay.nn.avg_pool2d(v, count_include_pad=True, **options), x)
    np.testing.assert_allclose(got, mean, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("target", ["llvm", "llvm -mcpu=x86-64-v3"])
@pytest.mark.parametrize("layout", ["NCHW", "NHWC"])
def test_largest_of_nan(layout: str, target: str) -> None:
    """NaN in a window is its result, as in PyTorch; padding is none."""
    x = np.random.default_rng(0).standard_normal((1, 16, 17, 23)).astype("float32")
    x[:, ::5, ::6, ::7] = np.nan
    want = windows(x, 3, 2, 1, -np.inf).max((-1, -2))
    own = x if layout == "NCHW" else np.ascontiguousarray(x.transpose(0, 2, 3, 1))

    def pool(v: Any) -> Any:
        return relay.nn.max_pool2d(v, pool_size=(3, 3), strides=(2, 2), padding=(1, 1), layout=layout)

    got = run(pool, own, target)
    np.testing.assert_array_equal(got if layout == "NCHW" else got.transpose(0, 3, 1, 2), want)


@pytest.mark.parametrize("rank", [1, 2, 3])
def test_adaptive_largest_of_nan(rank: int) -> None:
    shape = (2, 3, *(7, 6, 5)[:rank])
    x = np.random.default_rng(0).standard_normal(shape).astype("float32")
    x[0, 1], x[1, 2, 3] = np.nan, np.nan
    adaptive = getattr(relay.nn, f"adaptive_max_pool{rank}d")
    want = np.empty((2, 3, *[3] * rank), "float32")
    for at in np.ndindex(*want.shape):
        parts = [slice(i * n // 3, -(-(i + 1) * n // 3)) for i, n in zip(at[2:], shape[2:], strict=True)]
        want[at] = x[(*at[:2], *parts)].max()
    np.testing.assert_array_equal(run(lambda v: adaptive(v, (3,) * rank), x), want)


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


@pytest.mark.parametrize("target", ["llvm", "llvm -mcpu=x86-64-v3"])
@pytest.mark.parametrize("layout", ["NCHW", "NHWC", "NCHW8c"])
@pytest.mark.parametrize(("size", "stride", "ceil"), [(5, 1, False), (9, 2, True), (13, 1, False)])
def test_largest_of_large_windows(size: int, stride: int, ceil: bool, layout: str, target: str) -> None:
    """Those of their columns are found first; NaN goes through both steps, padding and what `ceil_mode` adds are none."""
    x = np.random.default_rng(size).standard_normal((2, 8, 22, 27)).astype("float32")
    x[0, ::5, ::6, ::9] = np.nan
    pad, more = size // 2, stride - 1 if ceil else 0
    padded = np.pad(x, ((0, 0), (0, 0), (pad, pad + more), (pad, pad + more)), constant_values=-np.inf)
    want = np.lib.stride_tricks.sliding_window_view(padded, (size, size), (2, 3))[:, :, ::stride, ::stride].max(
        (-1, -2)
    )
    to = {
        "NCHW": lambda a: a,
        "NHWC": lambda a: a.transpose(0, 2, 3, 1),
        "NCHW8c": lambda a: a.transpose(0, 2, 3, 1)[:, None],
    }
    own = np.ascontiguousarray(to[layout](x))

    def pool(v: Any) -> Any:
        options = {"pool_size": (size, size), "strides": (stride, stride), "padding": (pad, pad)}
        return relay.nn.max_pool2d(v, layout=layout, ceil_mode=ceil, **options)

    np.testing.assert_array_equal(run(pool, own, target), to[layout](want))


@pytest.mark.parametrize("counted", [False, True])
@pytest.mark.parametrize("layout", ["NCHW", "NHWC", "NCHW8c"])
@pytest.mark.parametrize(("size", "stride", "ceil"), [(5, 1, False), (9, 2, True), (13, 2, False)])
def test_mean_of_large_windows(size: int, stride: int, ceil: bool, layout: str, counted: bool) -> None:
    """Sums of their columns are found first; what is padding, and what `ceil_mode` adds, counts as in one step."""
    x = np.random.default_rng(size).standard_normal((2, 8, 22, 27)).astype("float32")
    pad = size // 2
    own = np.ascontiguousarray(x.transpose(0, 2, 3, 1) if layout != "NCHW" else x)
    own = own[:, None] if layout == "NCHW8c" else own
    options: Any = {"pool_size": (size, size), "strides": (stride, stride), "padding": (pad, pad), "layout": layout}
    options |= {"ceil_mode": ceil, "count_include_pad": counted}
    v = relay.var("x", shape=own.shape)
    want = relay.create_executor(
        "debug", mod=tvm.IRModule.from_expr(relay.Function([v], relay.nn.avg_pool2d(v, **options)))
    )
    got = run(lambda v: relay.nn.avg_pool2d(v, **options), own)
    np.testing.assert_allclose(got, want.evaluate()(own).numpy(), rtol=1e-4, atol=1e-5)


def test_means_of_large_windows_are_sums_of_columns() -> None:
    """Of the smallest ones they are not: those would be written and read again for little."""
    for size, stride, count in ((9, 1, 2), (2, 2, 1)):
        x = te.placeholder((1, 4, 20, 20), "float32", "x")
        with KernelPlan("llvm"):
            mean = topi.nn.pool2d(x, (size, size), (stride, stride), (1, 1), 0, "avg")
        assert te.create_prim_func([x, mean]).script().count('T.block("pool_sum') == count


def test_largest_of_volumes() -> None:
    x = np.random.default_rng(1).standard_normal((1, 2, 9, 11, 17)).astype("float32")
    want = np.lib.stride_tricks.sliding_window_view(x, (5, 7, 5), (2, 3, 4))[:, :, ::2, ::1, ::2].max((-1, -2, -3))
    got = run(lambda v: relay.nn.max_pool3d(v, pool_size=(5, 7, 5), strides=(2, 1, 2)), x)
    np.testing.assert_array_equal(got, want)
