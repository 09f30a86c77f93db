"""Networks in the making, through one interface: as float32 programs of relay, as files of ONNX and of TFLite on int8."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from tilewright import relay
from tilewright.ir import IRModule
from tilewright.relay.parameters import bind_params
from tilewright.vta.top.partitioning import canonical

Shape = tuple[int, ...]


class Builder:
    """What the makers of networks call. Values have shapes (N, C, H, W), or (rows, columns). width: the factor of all channels."""

    def __init__(self, width: float = 1.0, seed: int = 0) -> None:
        self.rng, self.factor = np.random.default_rng(seed), width

    def width(self, channels: int) -> int:
        """Channels of a network of this width."""
        return max(int(channels * self.factor), 4)

    def filters(self, channels: int, inputs: int, kernel: int) -> Any:
        """Random weights that keep the size of numbers."""
        spread = np.sqrt(2 / (inputs * kernel * kernel))
        return self.rng.normal(0, spread, (channels, inputs, kernel, kernel)).astype("float32")

    def bias(self, channels: int) -> Any:
        return self.rng.normal(0, 0.1, channels).astype("float32")

    # ---- what each form has of its own

    data: Any

    def shape(self, x: Any) -> Shape:
        raise NotImplementedError

    def conv(
        self,
        x: Any,
        channels: int,
        kernel: int,
        stride: int = 1,
        pad: int | None = None,
        groups: int = 1,
        act: str = "relu",
    ) -> Any:
        """A convolution with a bias (batch normalisation that is folded), of exactly so many channels. act: relu, relu6 or nothing."""
        raise NotImplementedError

    def dense(self, x: Any, units: int, act: str = "") -> Any:
        raise NotImplementedError

    def max_pool(self, x: Any, size: int, stride: int, pad: int = 0, ceil: bool = False) -> Any:
        raise NotImplementedError

    def add(self, x: Any, y: Any, act: str = "") -> Any:
        raise NotImplementedError

    def concat(self, parts: Sequence[Any]) -> Any:
        """Along channels."""
        raise NotImplementedError

    def enlarge(self, x: Any) -> Any:
        """Twice as many rows and columns."""
        raise NotImplementedError

    def averaged(self, x: Any) -> Any:
        """The mean of each channel: a matrix."""
        raise NotImplementedError

    def flatten(self, x: Any) -> Any:
        raise NotImplementedError

    def module(self, *results: Any) -> IRModule:
        """The network: integers, but for float32 that quantisation of our own begins with."""
        raise NotImplementedError

    def head(self, x: Any, classes: int = 10) -> Any:
        """Global average and a dense layer."""
        return self.dense(self.averaged(x), classes)


class Net(Builder):
    """A float32 program of relay; `quantised` makes it a network of integers by our own quantisation."""

    def __init__(self, shape: Sequence[int], width: float = 1.0, seed: int = 0) -> None:
        super().__init__(width, seed)
        self.data = relay.var("data", shape=tuple(shape), dtype="float32")
        self.shapes: dict[Any, Shape] = {self.data: tuple(shape)}

    def shape(self, x: Any) -> Shape:
        return self.shapes[x]

    def _made(self, x: Any, shape: Sequence[int], act: str = "") -> Any:
        x = {"relu": relay.nn.relu, "relu6": lambda v: relay.clip(v, 0.0, 6.0), "": lambda v: v}[act](x)
        self.shapes[x] = tuple(shape)
        return x

    def conv(
        self,
        x: Any,
        channels: int,
        kernel: int,
        stride: int = 1,
        pad: int | None = None,
        groups: int = 1,
        act: str = "relu",
    ) -> Any:
        n, inputs, h, w = self.shape(x)
        pad = kernel // 2 if pad is None else pad
        y = relay.nn.conv2d(
            x, relay.const(self.filters(channels, inputs // groups, kernel)), strides=(stride, stride), padding=(pad, pad), groups=groups,
            channels=channels, kernel_size=(kernel, kernel),
        )  # fmt: skip
        sizes = [(extent + 2 * pad - kernel) // stride + 1 for extent in (h, w)]
        return self._made(relay.nn.bias_add(y, relay.const(self.bias(channels))), (n, channels, *sizes), act)

    def dense(self, x: Any, units: int, act: str = "") -> Any:
        rows, inputs = self.shape(x)
        w = self.rng.normal(0, np.sqrt(1 / inputs), (units, inputs)).astype("float32")
        y = relay.nn.bias_add(relay.nn.dense(x, relay.const(w)), relay.const(self.bias(units)))
        return self._made(y, (rows, units), act)

    def max_pool(self, x: Any, size: int, stride: int, pad: int = 0, ceil: bool = False) -> Any:
        n, c, *extents = self.shape(x)
        counts = [(e + 2 * pad - size + (stride - 1 if ceil else 0)) // stride + 1 for e in extents]
        made = relay.nn.max_pool2d(
            x, pool_size=(size, size), strides=(stride, stride), padding=(pad, pad), ceil_mode=ceil
        )
        return self._made(made, (n, c, *counts))

    def add(self, x: Any, y: Any, act: str = "") -> Any:
        return self._made(relay.add(x, y), self.shape(x), act)

    def concat(self, parts: Sequence[Any]) -> Any:
        n, _, h, w = self.shape(parts[0])
        return self._made(relay.concatenate(list(parts), axis=1), (n, sum([self.shape(p)[1] for p in parts]), h, w))

    def enlarge(self, x: Any) -> Any:
        n, c, h, w = self.shape(x)
        return self._made(relay.nn.upsampling(x, 2.0, 2.0), (n, c, 2 * h, 2 * w))

    def averaged(self, x: Any) -> Any:
        n, c, *_ = self.shape(x)
        return self._made(relay.nn.batch_flatten(relay.nn.global_avg_pool2d(x)), (n, c))

    def flatten(self, x: Any) -> Any:
        n, *rest = self.shape(x)
        return self._made(relay.nn.batch_flatten(x), (n, math.prod(rest)))

    def module(self, *results: Any) -> IRModule:
        body = results[0] if len(results) == 1 else relay.Tuple(results)
        return relay.transform.InferType()(IRModule.from_expr(relay.Function([self.data], body)))


def quantised(mod: IRModule) -> IRModule:
    """A float32 network on int8 by our own quantisation, with requantisation in integers."""
    settings = relay.quantize.qconfig(
        calibrate_mode="global_scale", global_scale=8.0, skip_conv_layers=None, skip_dense_layer=False
    )
    with settings, relay.qnn.op.requantize_config(compute_dtype="int64"):
        return relay.quantize.quantize(mod)


def integers(mod: IRModule, params: Any = None, rounding: str = "UPWARD") -> IRModule:
    """An imported network in plain operators, with requantisation in integers."""
    with relay.qnn.op.requantize_config(rounding, "int64"):
        return canonical(bind_params(mod, params) if params else mod)


class Scale:
    """Scales and zero points of int8: those of numbers from 0 on, and of others."""

    def __init__(self, rng: np.random.Generator, spread: float) -> None:
        self.rng, self.spread = rng, spread

    def of(self, act: str) -> tuple[float, int]:
        """(scale, zero point) of what an activation gives."""
        factor = float(self.rng.uniform(1 - self.spread, 1 + self.spread)) if self.spread else 1.0
        return (0.025 * factor, -128) if act else (0.045 * factor, -3)


def whole_weights(w: Any) -> tuple[Any, Any]:
    """(int8, scales) of float32 weights, by output channel."""
    scales = np.maximum(np.abs(w).reshape(len(w), -1).max(axis=1), 1e-6).astype("float32") / np.float32(127)
    return np.round(w / scales.reshape(-1, *[1] * (w.ndim - 1))).astype("int8"), scales


__all__ = ["Builder", "Net", "Scale", "Shape", "integers", "quantised", "whole_weights"]
