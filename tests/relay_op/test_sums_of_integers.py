"""Means, deviations and exponentials of narrow integers: what is between the data and the result is wider than both."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tilewright as tvm
from tests.relay_op.test_real_functions_of_integers import compiled
from tilewright import relay
from tilewright.support.errors import DiagnosticError

COUNT = 600


def data_of(dtype: str) -> np.ndarray:
    return (np.arange(3 * COUNT) % 120 + 3).astype(dtype).reshape(3, COUNT)


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int32"])
def test_means_and_deviations(dtype: str) -> None:
    x, a = relay.var("x", shape=(3, COUNT), dtype=dtype), data_of(dtype)
    image = relay.reshape(x, (1, 3, 20, 30))
    layers = [
        relay.mean(x, axis=1),
        relay.std(x, axis=1),
        relay.variance(relay.minimum(x, relay.const(12, dtype)), axis=1),
        relay.nn.global_avg_pool2d(image),
        relay.nn.avg_pool2d(image, (16, 20)),
        relay.nn.adaptive_avg_pool2d(image, (3, 4)),
    ]
    found = compiled(relay.Tuple(tuple(layers)), a)
    assert found[0].tolist() == np.trunc(a.mean(1)).tolist()
    assert found[1].tolist() == np.trunc(a.std(1)).tolist()
    low = np.minimum(a, 12).astype("float64")
    assert found[2].tolist() == np.trunc(((low - np.trunc(low.mean(1, keepdims=True))) ** 2).mean(1)).tolist()
    assert found[3].reshape(-1).tolist() == found[0].tolist()
    for layer, y in zip(layers, found, strict=True):
        reference = relay.create_executor("debug").evaluate(relay.bind(layer, {x: relay.const(a)})).numpy()
        np.testing.assert_array_equal(y, reference)


def test_softmax_of_unsigned_bytes() -> None:
    x = relay.var("x", shape=(2, 3), dtype="uint8")
    exps = relay.Tuple((relay.nn.softmax(x), relay.nn.log_softmax(x), relay.logsumexp(x, axis=1)))
    one, logs, total = compiled(exps, np.array([[3, 200, 5], [250, 2, 1]], "uint8"))
    assert one.tolist() == [[0, 1, 0], [1, 0, 0]] and total.tolist() == [200, 250]
    assert logs.shape == (2, 3)


def test_logsumexp_of_infinities() -> None:
    x = relay.var("x", shape=(4, 3))
    inf = np.inf
    a = np.array([[-inf] * 3, [-inf, 1, -inf], [inf, 0, -inf], [np.nan, 0, inf]], "float32")
    (found,) = compiled(relay.logsumexp(x, axis=1), a)
    np.testing.assert_allclose(found, [-inf, 1, inf, np.nan], rtol=1e-6)
    reference = relay.create_executor("debug").evaluate(relay.logsumexp(relay.const(a), axis=1)).numpy()
    np.testing.assert_allclose(reference, found, rtol=1e-6)


IMAGE, CHANNELS = relay.var("x", shape=(1, 4, 4, 4), dtype="int32"), relay.var("g", shape=(4,), dtype="int32")


@pytest.mark.parametrize(
    "layer",
    [
        lambda: relay.nn.layer_norm(IMAGE, CHANNELS, CHANNELS),
        lambda: relay.nn.group_norm(IMAGE, CHANNELS, CHANNELS, 2),
        lambda: relay.nn.instance_norm(IMAGE, CHANNELS, CHANNELS),
        lambda: relay.nn.avg_pool2d_grad(relay.var("y", shape=(1, 4, 2, 2), dtype="int32"), IMAGE, (2, 2), (2, 2)),
    ],
)
def test_normalisations_take_floats(layer: Any) -> None:
    with pytest.raises(DiagnosticError, match="must be .*floats, but .* int32"):
        relay.transform.InferType()(tvm.IRModule.from_expr(layer()))
