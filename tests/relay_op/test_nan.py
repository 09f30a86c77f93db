"""A maximum over elements of which one is NaN is NaN, as NumPy and PyTorch have it: in pooling and reductions of every form and type, in
the interpreter and compiled. (ONNX Runtime's kernels drop it or keep it by the shape, some by where in the window it stands.)"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from tilewright import relay

Make = Callable[[Any], Any]


def pooled(x: np.ndarray, axes: tuple[int, ...], size: int, stride: int, pad: int = 0) -> np.ndarray:
    """The maximum of each window."""
    width = [(pad, pad) if a in axes else (0, 0) for a in range(x.ndim)]
    padded = np.pad(x.astype("float32"), width, constant_values=-np.inf)
    windows = np.lib.stride_tricks.sliding_window_view(padded, (size,) * len(axes), axes)
    steps = tuple([slice(None, None, stride) if a in axes else slice(None) for a in range(x.ndim)])
    return np.asarray(windows[steps].max(tuple(range(x.ndim, windows.ndim))))


def image(*shape: int) -> np.ndarray:
    x = np.random.default_rng(0).standard_normal(shape).astype("float32")
    flat = x.reshape(-1)
    flat[:: flat.size // 3] = np.nan
    flat[3::11] = -np.inf
    return x


CASES: dict[str, tuple[tuple[int, ...], Make, Callable[[np.ndarray], np.ndarray]]] = {
    "plain image": (
        (1, 3, 9, 9),
        lambda x: relay.nn.max_pool2d(x, (3, 3), (2, 2), padding=1),
        lambda x: pooled(x, (2, 3), 3, 2, 1),
    ),
    "blocks of channels": (
        (1, 32, 8, 8),
        lambda x: relay.nn.max_pool2d(x, (2, 2), (2, 2)),
        lambda x: pooled(x, (2, 3), 2, 2),
    ),
    "channels last": (
        (1, 8, 8, 5),
        lambda x: relay.nn.max_pool2d(x, (2, 2), layout="NHWC"),
        lambda x: pooled(x, (1, 2), 2, 1),
    ),
    "sequence": ((2, 4, 19), lambda x: relay.nn.max_pool1d(x, 3, 2), lambda x: pooled(x, (2,), 3, 2)),
    "volume": ((1, 2, 5, 5, 5), lambda x: relay.nn.max_pool3d(x, (2, 2, 2), 1), lambda x: pooled(x, (2, 3, 4), 2, 1)),
    "global": ((2, 20, 4, 4), lambda x: relay.nn.global_max_pool2d(x), lambda x: x.max((2, 3), keepdims=True)),
    "adaptive": ((1, 3, 6, 6), lambda x: relay.nn.adaptive_max_pool2d(x, (3, 3)), lambda x: pooled(x, (2, 3), 2, 2)),
    "rows": ((5, 67), lambda x: relay.max(x, axis=1), lambda x: x.max(1)),
    "columns": ((67, 5), lambda x: relay.max(x, axis=0), lambda x: x.max(0)),
    "least of rows": ((5, 67), lambda x: relay.min(x, axis=1), lambda x: x.min(1)),
    "all": ((3, 7, 5), lambda x: relay.max(x), lambda x: np.asarray(x.max())),
}


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16", "bfloat16"])
@pytest.mark.parametrize("name", CASES)
def test_largest_of_some_that_are_no_numbers(name: str, dtype: str) -> None:
    shape, make, reference = CASES[name]
    data = image(*shape).astype(ml_dtypes.bfloat16 if dtype == "bfloat16" else dtype)
    x = relay.var("x", shape=shape, dtype=dtype)
    mod = relay.IRModule.from_expr(relay.Function([x], make(x)))
    want = reference(data.astype("float64"))
    assert np.isnan(want).any() and (want.ndim == 0 or not np.isnan(want).all())
    for kind in ("debug", "graph"):
        found = relay.create_executor(kind, mod).evaluate()(data).numpy().astype("float64")
        np.testing.assert_array_equal(found, want, err_msg=kind)
