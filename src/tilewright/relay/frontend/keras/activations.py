"""Activation functions, by name or as layers."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from tilewright.relay.frontend.common import activations
from tilewright.relay.frontend.common.value import Value, near_text
from tilewright.relay.frontend.keras.value import LayerCall, keras_layer
from tilewright.support.errors import OpNotImplemented

Activation = Callable[..., Value]


def relu(
    c: LayerCall, x: Value, negative_slope: float = 0.0, max_value: float | None = None, threshold: float = 0.0
) -> Value:
    if threshold:
        low = c.call("multiply", c.call("subtract", x, float(threshold)), float(negative_slope))
        out = c.call("where", c.call("greater_equal", x, float(threshold)), x, low)
    elif negative_slope:
        out = c.call("nn.leaky_relu", x, alpha=float(negative_slope))
    elif max_value is not None:
        return c.call("clip", x, a_min=0.0, a_max=float(max_value))
    else:
        out = c.call("nn.relu", x)
    return out if max_value is None else c.call("minimum", out, float(max_value))


def elu(c: LayerCall, x: Value, alpha: float = 1.0) -> Value:
    return activations.elu(c, x, float(alpha))


def hard_sigmoid(c: LayerCall, x: Value) -> Value:
    # Keras 2 had other constants.
    scale, shift = (1 / 6, 0.5) if c.version >= 3 else (0.2, 0.5)
    return c.call("clip", c.call("add", c.call("multiply", x, scale), shift), a_min=0.0, a_max=1.0)


def _soft_shrink(c: LayerCall, x: Value, threshold: float = 0.5) -> Value:
    away = c.call("maximum", c.call("subtract", c.call("abs", x), float(threshold)), 0.0)
    return c.call("multiply", c.call("sign", x), away)


def _hard_shrink(c: LayerCall, x: Value, threshold: float = 0.5) -> Value:
    return c.call("where", c.call("greater", c.call("abs", x), float(threshold)), x, 0.0)


def _celu(c: LayerCall, x: Value, alpha: float = 1.0) -> Value:
    if not alpha:
        raise c.refuse("alpha", alpha, "numbers other than 0, by which it divides")
    return activations.elu(c, x, float(alpha), steepness=1 / float(alpha))


def _squareplus(c: LayerCall, x: Value, b: float = 4) -> Value:
    root = c.call("sqrt", c.call("add", c.call("multiply", x, x), float(b)))
    return c.call("multiply", c.call("add", x, root), 0.5)


def _sparse_plus(c: LayerCall, x: Value) -> Value:
    bend = c.call("multiply", c.call("multiply", c.call("add", x, 1.0), c.call("add", x, 1.0)), 0.25)
    inner = c.call("where", c.call("less", x, 1.0), bend, x)
    return c.call("where", c.call("less_equal", x, -1.0), c.call("multiply", x, 0.0), inner)


def sparsemax(c: LayerCall, x: Value, axis: int = -1) -> Value:
    """Martins and Astudillo, From Softmax to Sparsemax, 2016."""
    at = c.axis(axis, x.ndim)
    (n,) = c.static([x.shape[at]], "the extent of its axis")
    down = c.call("sort", x, axis=at, is_ascend=False)
    ranks = np.arange(1, n + 1, dtype=x.dtype).reshape([n if k == at else 1 for k in range(x.ndim)])
    sums = c.call("cumsum", down, axis=at)
    kept = c.call("greater", c.call("add", c.call("multiply", down, Value(array=ranks)), 1.0), sums)
    count = c.reduce("sum", c.cast(kept, x.dtype), [at], True)
    total = c.reduce("sum", c.call("where", kept, down, 0.0), [at], True)
    border = c.call("divide", c.call("subtract", total, 1.0), count)
    return c.call("maximum", c.call("subtract", x, border), 0.0)


def softmax(c: LayerCall, x: Value, axis: Any = -1) -> Value:
    if isinstance(axis, (list, tuple)):
        axes = [c.axis(a, x.ndim) for a in axes_list(axis)]
        if len(axes) == 1:
            return softmax(c, x, axes[0])
        rest = [k for k in range(x.ndim) if k not in axes]
        order = [*rest, *axes]
        turned = c.transpose(x, order)
        flat = c.reshape(turned, [*turned.shape[: len(rest)], -1])
        out = c.reshape(c.call("nn.softmax", flat, axis=len(rest)), turned.shape)
        return c.transpose(out, [order.index(k) for k in range(x.ndim)])
    return c.call("nn.softmax", x, axis=c.axis(axis, x.ndim))


def axes_list(axis: Any) -> list[int]:
    """Axes as a list."""
    return [int(a) for a in axis] if isinstance(axis, (list, tuple)) else [int(axis)]


def _composed(*keys: str) -> Activation:
    def apply(c: LayerCall, x: Value) -> Value:
        for key in keys:
            x = c.call(key, x)
        return x

    return apply


def _relu6(c: LayerCall, x: Value) -> Value:
    return c.call("clip", x, a_min=0.0, a_max=6.0)


def _hard_tanh(c: LayerCall, x: Value) -> Value:
    return c.call("clip", x, a_min=-1.0, a_max=1.0)


def _tanh_shrink(c: LayerCall, x: Value) -> Value:
    return c.call("subtract", x, c.call("tanh", x))


def _hard_silu(c: LayerCall, x: Value) -> Value:
    return c.call("multiply", x, hard_sigmoid(c, x))


def _log_softmax(c: LayerCall, x: Value, axis: int = -1) -> Value:
    return c.call("nn.log_softmax", x, axis=c.axis(axis, x.ndim))


def _glu(c: LayerCall, x: Value, axis: int = -1) -> Value:
    value, gate = c.split(x, 2, axis)
    return c.call("multiply", value, c.call("sigmoid", gate))


def _threshold(c: LayerCall, x: Value, threshold: float = 0.0, default_value: float = 0.0) -> Value:
    return c.call("where", c.call("greater", x, float(threshold)), x, float(default_value))


def _leaky(c: LayerCall, x: Value, negative_slope: float = 0.2) -> Value:
    return relu(c, x, negative_slope)


def _linear(c: LayerCall, x: Value) -> Value:
    return x


def _sparse_sigmoid(c: LayerCall, x: Value) -> Value:
    half = c.call("multiply", c.call("add", x, 1.0), 0.5)
    return c.call("clip", half, a_min=0.0, a_max=1.0)


ACTIVATIONS: dict[str, Activation] = {
    "linear": _linear, "relu": relu, "relu6": _relu6, "elu": elu, "selu": activations.selu, "gelu": activations.gelu, "softmax": softmax,
    "log_softmax": _log_softmax, "sigmoid": _composed("sigmoid"), "tanh": _composed("tanh"), "exponential": _composed("exp"),
    "softplus": activations.softplus, "softsign": activations.softsign, "silu": activations.silu, "swish": activations.silu,
    "hard_sigmoid": hard_sigmoid, "hard_silu": _hard_silu, "hard_swish": _hard_silu, "hard_tanh": _hard_tanh, "tanh_shrink": _tanh_shrink,
    "soft_shrink": _soft_shrink, "hard_shrink": _hard_shrink, "leaky_relu": _leaky, "mish": activations.mish, "celu": _celu, "glu": _glu,
    "log_sigmoid": activations.log_sigmoid, "squareplus": _squareplus, "sparse_plus": _sparse_plus, "sparsemax": sparsemax,
    "threshold": _threshold, "sparse_sigmoid": _sparse_sigmoid,
}  # fmt: skip


def activate(c: LayerCall, x: Value, which: Any) -> Value:
    """x after an activation: a name, a serialised function or layer, or None."""
    if which is None:
        return x
    if isinstance(which, Mapping):
        if which.get("class_name") == "function":
            which = which.get("config")
        else:
            made: Value = c.run(c.inner(which, "activation"), x)
            return made
    name = str(which).rpartition(">")[2]
    found = ACTIVATIONS.get(name)
    if found is None:
        raise OpNotImplemented(f"its activation is {name!r}{near_text(name, ACTIVATIONS)}")
    return found(c, x)


def activated(c: LayerCall, x: Value, default: Any = None, key: str = "activation") -> Value:
    """x after the activation under a key of the layer's configuration; None is the identity."""
    return activate(c, x, c.config.get(key, default))


@keras_layer("Activation")
def _activation(c: LayerCall, x: Value) -> Value:
    return activated(c, x)


@keras_layer("ReLU")
def _relu_layer(c: LayerCall, x: Value) -> Value:
    most = c.config.get("max_value")
    return relu(c, x, float(c.get("negative_slope", 0.0)), most, float(c.get("threshold", 0.0)))


@keras_layer("LeakyReLU")
def _leaky_layer(c: LayerCall, x: Value) -> Value:
    slope = c.config.get("negative_slope", c.config.get("alpha", 0.3))
    return relu(c, x, float(slope))


@keras_layer("ThresholdedReLU")
def _thresholded(c: LayerCall, x: Value) -> Value:
    return _threshold(c, x, float(c.get("theta", 1.0)))


@keras_layer("ELU")
def _elu_layer(c: LayerCall, x: Value) -> Value:
    return elu(c, x, float(c.get("alpha", 1.0)))


@keras_layer("PReLU")
def _prelu(c: LayerCall, x: Value) -> Value:
    (alpha,) = c.weights("alpha")
    return c.call("where", c.call("greater", x, 0.0), x, c.call("multiply", x, alpha))


@keras_layer("Softmax")
def _softmax_layer(c: LayerCall, x: Value, mask: Value | None = None) -> Value:
    if mask is not None:
        lowest = -3e4 if x.dtype == "float16" else -1e9
        x = c.call("add", x, c.call("multiply", c.cast(c.call("logical_not", mask), x.dtype), lowest))
    return softmax(c, x, c.get("axis", -1))
