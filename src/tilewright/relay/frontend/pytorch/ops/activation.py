"""Converters of activation functions."""

from __future__ import annotations

from typing import Any

import numpy as np

from tilewright.relay.frontend.common import activations
from tilewright.relay.frontend.common.builder import Operand
from tilewright.relay.frontend.common.value import Value
from tilewright.relay.frontend.pytorch.dtypes import DType, dtype_name
from tilewright.relay.frontend.pytorch.value import Results, TorchCall, aten


@aten("gelu")
def gelu(c: TorchCall, x: Value, approximate: str = "none") -> Value:
    return activations.gelu(c, x, approximate == "tanh")


@aten("silu")
def silu(c: TorchCall, x: Value) -> Value:
    return activations.silu(c, x)


@aten("relu6")
def _relu6(c: TorchCall, x: Value) -> Value:
    return c.call("clip", x, a_min=0.0, a_max=6.0)


@aten("hardtanh")
def _hardtanh(c: TorchCall, x: Value, low: float = -1.0, high: float = 1.0) -> Value:
    return c.call("clip", x, a_min=float(low), a_max=float(high))


@aten("leaky_relu")
def _leaky_relu(c: TorchCall, x: Value, slope: float = 0.01) -> Value:
    return c.call("nn.leaky_relu", x, alpha=float(slope))


@aten("elu")
def _elu(c: TorchCall, x: Value, alpha: float = 1.0, scale: float = 1.0, input_scale: float = 1.0) -> Value:
    return activations.elu(c, x, alpha, scale, input_scale)


@aten("selu")
def _selu(c: TorchCall, x: Value) -> Value:
    return activations.selu(c, x)


@aten("celu")
def _celu(c: TorchCall, x: Value, alpha: float = 1.0) -> Value:
    return _elu(c, x, alpha, 1.0, 1.0 / alpha)


@aten("softplus")
def softplus(c: TorchCall, x: Value, beta: float = 1, threshold: float = 20) -> Value:
    y = c.call("multiply", x, beta) if beta != 1 else x
    soft = activations.softplus(c, y)
    soft = c.call("divide", soft, beta) if beta != 1 else soft
    return c.call("where", c.call("greater", y, threshold), x, soft)


@aten("log_sigmoid", "log_sigmoid_forward")
def _log_sigmoid(c: TorchCall, x: Value) -> Value | Results:
    result = activations.log_sigmoid(c, x)
    return [result, c.call("exp", c.call("negative", c.call("abs", x)))] if "forward" in c.target else result


@aten("mish")
def _mish(c: TorchCall, x: Value) -> Value:
    return activations.mish(c, x)


@aten("hardsigmoid")
def hardsigmoid(c: TorchCall, x: Value) -> Value:
    return c.call("divide", c.call("clip", c.call("add", x, 3), a_min=0.0, a_max=6.0), 6)


@aten("hardswish")
def _hardswish(c: TorchCall, x: Value) -> Value:
    return c.call("multiply", x, hardsigmoid(c, x))


@aten("threshold")
def _threshold(c: TorchCall, x: Value, threshold: Operand, value: Operand) -> Value:
    return c.call("where", c.call("greater", x, threshold), x, c.number(value, x.dtype))


@aten("softshrink")
def _softshrink(c: TorchCall, x: Value, limit: float = 0.5) -> Value:
    low = c.call("where", c.call("less", x, -limit), c.call("add", x, limit), c.number(0, x.dtype))
    return c.call("where", c.call("greater", x, limit), c.call("subtract", x, limit), low)


@aten("hardshrink")
def _hardshrink(c: TorchCall, x: Value, limit: float = 0.5) -> Value:
    return c.call("where", c.call("greater", c.call("abs", x), limit), x, c.number(0, x.dtype))


@aten("tanhshrink")
def _tanhshrink(c: TorchCall, x: Value) -> Value:
    return c.call("subtract", x, c.call("tanh", x))


@aten("softsign")
def _softsign(c: TorchCall, x: Value) -> Value:
    return activations.softsign(c, x)


@aten("prelu", "_prelu_kernel")
def _prelu(c: TorchCall, x: Value, weight: Value) -> Value:
    if weight.ndim == 1 and x.ndim > 1:
        # One slope per channel, along axis 1.
        weight = c.reshape(weight, [*weight.shape, *[1] * (x.ndim - 2)])
    return c.call("where", c.call("greater", x, 0), x, c.call("multiply", x, weight))


@aten("glu")
def _glu(c: TorchCall, x: Value, dim: int = -1) -> Value:
    a, b = c.calls("split", x, indices_or_sections=2, axis=c.axis(dim, x.ndim))
    return c.call("multiply", a, c.call("sigmoid", b))


@aten("logit", "special_logit")
def _logit(c: TorchCall, x: Value, eps: float | None = None) -> Value:
    x = c.floats(x)
    if eps is not None:
        x = c.call("clip", x, a_min=float(eps), a_max=1.0 - float(eps))
    return c.call("log", c.call("divide", x, c.call("subtract", c.number(1, x.dtype), x)))


@aten("softmax", "_softmax", "log_softmax", "_log_softmax", "_safe_softmax", "special_softmax", "special_log_softmax")
def softmax(c: TorchCall, x: Value, dim: int, half_to_float: Any = None, dtype: DType | None = None) -> Value:
    wanted = dtype if dtype is not None else half_to_float if not isinstance(half_to_float, bool) else None
    x = c.cast(x, dtype_name(wanted)) if wanted is not None else c.floats(x)
    if half_to_float is True:
        x = c.cast(x, "float32")
    if x.ndim == 0:
        return c.full((), 0.0 if "log" in c.target else 1.0, x.dtype)
    if any([isinstance(d, int) and not d for d in x.shape]):
        return x
    axis = c.axis(dim, x.ndim)
    result = c.call("nn.log_softmax" if "log_softmax" in c.target else "nn.softmax", x, axis=axis)
    if "_safe" in c.target:
        # Rows with all elements masked become zeros.
        masked = c.call("all", c.call("equal", x, -np.inf), axis=(axis,), keepdims=True)
        return c.call("where", masked, c.number(0, x.dtype), result)
    return result


@aten("softmin")
def _softmin(c: TorchCall, x: Value, dim: int, dtype: DType | None = None) -> Value:
    return softmax(c, c.call("negative", x), dim, dtype)
