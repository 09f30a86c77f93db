"""Small models for the tests of executors, with their results from NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np

import tilewright as tvm
from tilewright import relay


def dense_model() -> tuple[tvm.IRModule, dict[str, np.ndarray], np.ndarray, list[np.ndarray]]:
    """(module, params, value of its input x, wanted outputs): a dense layer, one output reshaped, one that runs on."""
    rng = np.random.default_rng(0)
    x, w, b = relay.var("x", shape=(4, 8)), relay.var("w", shape=(16, 8)), relay.var("b", shape=(16,))
    y = relay.nn.relu(relay.nn.bias_add(relay.nn.dense(x, w), b))
    z = relay.reshape(y, (2, 32))
    body = relay.Tuple([relay.nn.softmax(z), relay.reshape(z, (64,))])
    mod = tvm.IRModule.from_expr(relay.Function([x, w, b], body))
    params = {
        "w": rng.standard_normal((16, 8)).astype("float32"),
        "b": rng.standard_normal(16).astype("float32"),
    }
    value = rng.standard_normal((4, 8)).astype("float32")
    hidden = np.maximum(value @ params["w"].T + params["b"], 0).reshape(2, 32)
    e = np.exp(hidden - hidden.max(-1, keepdims=True))
    return mod, params, value, [e / e.sum(-1, keepdims=True), hidden.ravel()]


def chain(steps: int = 6) -> tvm.IRModule:
    """A chain of softmaxes over (8, 8), which are not fused: activations that can share memory."""
    x = relay.var("x", shape=(8, 8))
    value: Any = x
    for i in range(steps):
        value = relay.nn.softmax(value, axis=i % 2)
    return tvm.IRModule.from_expr(relay.Function([x], value))


def close(found: Any, wanted: np.ndarray) -> None:
    np.testing.assert_allclose(found.numpy(), wanted, rtol=1e-4, atol=1e-5)
