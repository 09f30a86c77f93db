"""Networks of int8 as microcontrollers run them, with random weights: as TFLite models, and as lists of layers for other programs.

DS-CNN (keyword spotting), MobileNetV1 0.25 of 96 x 96 (visual wake words), ResNet-8 (CIFAR-10) and an autoencoder (anomaly detection)
have the layers of MLPerf Tiny's. "cifar" has the layers of the PyPI package cifar-10-model's network, without its normalisations.
Scales of activations are those of a run on random data, so that results fill their range; or the caller's, with trained weights
(`trained.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from tests.frontend.tflite.ops.writer import Writer

NONE, RELU = 0, 1
LOW, HIGH = -128, 127


@dataclass(frozen=True)
class Tensor:
    """A tensor of activations: its number, shape (H, W, C), scale, zero point."""

    number: int
    shape: tuple[int, int, int]
    scale: float
    zero: int


@dataclass
class Layer:
    """A layer: kind ("conv", "depthwise", "dense", "max_pool", "average_pool", "add", "softmax"), its tensors, window, stride and padding
    (top, left), weights as TFLite has them, bias, the scales of weights by channel, and the least result."""

    kind: str
    inputs: list[Tensor]
    output: Tensor
    window: tuple[int, int] = (1, 1)
    stride: tuple[int, int] = (1, 1)
    padding: tuple[int, int] = (0, 0)
    weights: np.ndarray = field(default_factory=lambda: np.zeros(0, np.int8))
    bias: np.ndarray = field(default_factory=lambda: np.zeros(0, np.int32))
    scales: np.ndarray = field(default_factory=lambda: np.zeros(0))
    low: int = LOW


Weights = tuple[np.ndarray, np.ndarray]
"""Trained weights and bias of a layer, real numbers: (KH, KW, C, O) or (terms, units), and (O,)."""


class Network:
    """A network in the making: layers, a TFLite model, and the values of a run on one input.

    quant: scale and zero point of the input; sample: what runs, as int8 (default: random data). spans: the largest value of each layer, in
    order, by which its result is quantised; default: what the run has. `found` holds those of the run.
    """

    def __init__(self, name: str, shape: tuple[int, int, int], seed: int = 0, flat: bool = False, quant: tuple[float, int] = (1 / 64, 0),
                 sample: np.ndarray | None = None, spans: Sequence[float] | None = None) -> None:  # fmt: skip
        self.name, self.layers = name, list[Layer]()
        self.random = np.random.default_rng(seed)
        self.writer = Writer(3)
        self.graph = self.writer.main
        self.flat = flat
        scale, zero = quant
        self.spans, self.found = spans, list[float]()
        given = self.random.integers(LOW, HIGH + 1, shape) if sample is None else sample.reshape(shape)
        number = self.graph.input("int8", (1, shape[2]) if flat else (1, *shape), ([scale], [zero]))
        self.input = self.last = Tensor(number, shape, scale, zero)
        self.values = {number: (given.astype(np.float64) - zero) * scale}
        self.multiplications = 0

    def _made(self, op: str, options: dict[str, Any], kind: str, given: list[int], real: np.ndarray, act: int,
              quant: tuple[float, int] | None = None) -> Tensor:  # fmt: skip
        real = np.maximum(real, 0) if act == RELU else real
        if quant is None:
            span = (
                max(float(np.quantile(np.abs(real), 0.999)), 1e-3)
                if self.spans is None
                else self.spans[len(self.found)]
            )
            self.found.append(float(np.abs(real).max()))
            quant = (span / 255, LOW) if act == RELU else (span / 127, 0)
        scale, zero = float(np.float32(quant[0])), quant[1]
        shape = tuple(int(d) for d in real.shape)
        tensor = (1, shape[2]) if self.flat else (1, *shape)
        (number,) = self.graph.op(op, given, [("int8", tensor, ([scale], [zero]))], options, kind, version=3)
        self.values[number] = (np.clip(np.rint(real / scale) + zero, LOW, HIGH) - zero) * scale
        self.last = Tensor(number, shape, scale, zero)  # type: ignore[arg-type]
        return self.last

    def _weights(
        self, shape: tuple[int, ...], axis: int, terms: int, given: np.ndarray | None, one: bool = False
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """(weights of int8, their scales by channel, real weights). one: whether all channels have one scale."""
        real = self.random.standard_normal(shape) * np.sqrt(2 / terms) if given is None else given
        across = tuple(k for k in range(len(shape)) if k != axis)
        scales = (np.maximum(np.abs(real).max(across), 1e-12) / 127).astype(np.float32)
        scales = np.full_like(scales, scales.max()) if one else scales
        spread = scales.reshape([-1 if k == axis else 1 for k in range(len(shape))])
        whole = np.clip(np.rint(real / spread), -127, 127).astype(np.int8)
        return whole, scales.astype(np.float64), whole * spread.astype(np.float64)

    def _bias(self, count: int, scales: np.ndarray, given: np.ndarray | None) -> np.ndarray:
        """Bias of int32, at these scales."""
        if given is None:
            return self.random.integers(-1000, 1000, count).astype(np.int32)
        return np.clip(np.rint(given / scales), -(1 << 31), (1 << 31) - 1).astype(np.int32)

    def convolution(self, filters: int, window: tuple[int, int] = (3, 3), stride: int = 1, act: int = RELU, depthwise: bool = False,
                    same: bool = True, source: Tensor | None = None, given: Weights | None = None) -> Tensor:  # fmt: skip
        """A convolution of the last tensor, or of another. given: weights, other than random ones."""
        x = source or self.last
        h, w, c = x.shape
        kh, kw = window
        filters = c if depthwise else filters
        shape = (1, kh, kw, c) if depthwise else (filters, kh, kw, c)
        terms = kh * kw * (1 if depthwise else c)
        real = None if given is None else given[0] if depthwise else given[0].transpose(3, 0, 1, 2)
        whole, scales, real = self._weights(shape, 3 if depthwise else 0, terms, real)
        bias = self._bias(filters, scales * x.scale, None if given is None else given[1])
        oh, ow = (-(-h // stride), -(-w // stride)) if same else ((h - kh) // stride + 1, (w - kw) // stride + 1)
        pad = [max((o - 1) * stride + k - e, 0) if same else 0 for o, k, e in ((oh, kh, h), (ow, kw, w))]
        padded = np.pad(
            self.values[x.number], ((pad[0] // 2, pad[0] - pad[0] // 2), (pad[1] // 2, pad[1] - pad[1] // 2), (0, 0))
        )
        sums = np.zeros((oh, ow, filters))
        for i in range(kh):
            for j in range(kw):
                part = padded[i : i + (oh - 1) * stride + 1 : stride, j : j + (ow - 1) * stride + 1 : stride]
                sums += part * real[0, i, j] if depthwise else part @ real[:, i, j].T
        sums += bias * scales * x.scale
        options = {"padding": 0 if same else 1, "stride_w": stride, "stride_h": stride, "fused_activation_function": act,
                   "dilation_w_factor": 1, "dilation_h_factor": 1, **({"depth_multiplier": 1} if depthwise else {})}  # fmt: skip
        zeros = [0] * filters
        operands = [x.number, self.graph.constant(whole, (scales, zeros, 3 if depthwise else 0)),
                    self.graph.constant(bias, (scales * x.scale, zeros, 0))]  # fmt: skip
        kind = "DepthwiseConv2DOptions" if depthwise else "Conv2DOptions"
        y = self._made("DEPTHWISE_CONV_2D" if depthwise else "CONV_2D", options, kind, operands, sums, act)
        low = max(LOW, y.zero) if act == RELU else LOW
        self.layers.append(Layer("depthwise" if depthwise else "conv", [x], y, window, (stride, stride),
                                 (pad[0] // 2, pad[1] // 2), whole, bias, scales, low))  # fmt: skip
        self.multiplications += oh * ow * filters * terms
        return y

    def dense(self, units: int, act: int = NONE, given: Weights | None = None) -> Tensor:
        """A fully connected layer on all elements of the last tensor. given: weights, other than random ones."""
        x = self.last
        flat = self.values[x.number].reshape(-1)
        # TFLite's layers of this kind have one scale.
        real = None if given is None else given[0].T
        whole, scales, _ = self._weights((units, flat.size), 0, flat.size, real, one=given is not None)
        scale = float(np.float32(scales.max()))
        bias = self._bias(units, scales * x.scale, None if given is None else given[1])
        sums = (whole * scale) @ flat + bias * scale * x.scale
        operands = [
            x.number,
            self.graph.constant(whole, ([scale], [0])),
            self.graph.constant(bias, ([scale * x.scale], [0])),
        ]
        options = {"fused_activation_function": act}
        self.flat = True
        y = self._made("FULLY_CONNECTED", options, "FullyConnectedOptions", operands, sums.reshape(1, 1, -1), act)
        low = max(LOW, y.zero) if act == RELU else LOW
        self.layers.append(Layer("dense", [x], y, weights=whole, bias=bias, scales=np.array([scale]), low=low))
        self.multiplications += whole.size
        return y

    def pool(self, kind: str, window: tuple[int, int], stride: tuple[int, int]) -> Tensor:
        """Maxima or means of windows that do not overlap the border; kind: "max" or "average"."""
        x = self.last
        h, w, c = x.shape
        oh, ow = (h - window[0]) // stride[0] + 1, (w - window[1]) // stride[1] + 1
        values = self.values[x.number]
        reduce: Callable[..., Any] = np.max if kind == "max" else np.mean
        made = np.stack([
            np.stack([reduce(values[i * stride[0] : i * stride[0] + window[0], j * stride[1] : j * stride[1] + window[1]], axis=(0, 1))
                      for j in range(ow)])
            for i in range(oh)
        ])  # fmt: skip
        options = {"padding": 1, "stride_w": stride[1], "stride_h": stride[0], "filter_width": window[1], "filter_height": window[0],
                   "fused_activation_function": NONE}  # fmt: skip
        op = "MAX_POOL_2D" if kind == "max" else "AVERAGE_POOL_2D"
        y = self._made(op, options, "Pool2DOptions", [x.number], made, NONE, (x.scale, x.zero))
        self.layers.append(Layer(f"{kind}_pool", [x], y, window, stride))
        return y

    def add(self, a: Tensor, b: Tensor, act: int = RELU) -> Tensor:
        """The sum of two tensors."""
        made = self.values[a.number] + self.values[b.number]
        y = self._made("ADD", {"fused_activation_function": act}, "AddOptions", [a.number, b.number], made, act)
        self.layers.append(Layer("add", [a, b], y, low=max(LOW, y.zero) if act == RELU else LOW))
        return y

    def softmax(self) -> Tensor:
        """Softmax of the last tensor."""
        x = self.last
        e = np.exp(self.values[x.number] - self.values[x.number].max())
        y = self._made("SOFTMAX", {"beta": 1.0}, "SoftmaxOptions", [x.number], e / e.sum(), NONE, (1 / 256, LOW))
        self.layers.append(Layer("softmax", [x], y))
        return y

    def model(self) -> bytes:
        """The TFLite model."""
        return self.writer.finish([self.last.number])

    def sample(self) -> np.ndarray:
        """Random input, as the model takes it."""
        shape = (1, self.input.shape[2]) if self.input.shape[:2] == (1, 1) else (1, *self.input.shape)
        return np.random.default_rng(1).integers(LOW, HIGH + 1, shape).astype(np.int8)


def _classified(net: Network, window: tuple[int, int], classes: int) -> Network:
    """The network with its end: means of the last image, a dense layer, softmax."""
    net.pool("average", window, window)
    net.dense(classes)
    net.softmax()
    return net


def keywords() -> Network:
    net = Network("keywords", (49, 10, 1))
    net.convolution(64, (10, 4), 2)
    for _ in range(4):
        net.convolution(64, depthwise=True)
        net.convolution(64, (1, 1))
    return _classified(net, (25, 5), 12)


def wake_words() -> Network:
    net = Network("wake words", (96, 96, 3))
    net.convolution(8, stride=2)
    for filters, stride in ((16, 1), (32, 2), (32, 1), (64, 2), (64, 1), (128, 2), *[(128, 1)] * 5, (256, 2), (256, 1)):
        net.convolution(filters, stride=stride, depthwise=True)
        net.convolution(filters, (1, 1))
    return _classified(net, (3, 3), 2)


def images() -> Network:
    net = Network("images", (32, 32, 3))
    x = net.convolution(16)
    for filters in (16, 32, 64):
        stride = 1 if filters == 16 else 2
        net.convolution(filters, stride=stride)
        y = net.convolution(filters, act=NONE)
        short = x if stride == 1 else net.convolution(filters, (1, 1), stride, NONE, source=x)
        x = net.add(short, y)
    return _classified(net, (8, 8), 10)


def anomalies() -> Network:
    net = Network("anomalies", (1, 1, 640), flat=True)
    for units in (128, 128, 128, 128, 8, 128, 128, 128, 128):
        net.dense(units, RELU)
    net.dense(640)
    return net


def cifar(net: Network | None = None, weights: Sequence[Weights] | None = None) -> Network:
    """net: an empty network, other than one of random data; weights: of all layers, in order, other than random ones."""
    net = net or Network("cifar", (32, 32, 3))
    left: Iterator[Weights | None] = iter(weights or [None] * 9)
    for filters in (64, 128):
        net.convolution(filters, same=False, given=next(left))
        net.convolution(filters, same=False, given=next(left))
        net.pool("max", (2, 2), (2, 2))
    net.convolution(64, same=False, given=next(left))
    net.convolution(64, same=False, given=next(left))
    for units in (1024, 512, 10):
        net.dense(units, RELU, given=next(left))
    return net


NETWORKS: dict[str, Callable[[], Network]] = {
    "keywords": keywords, "wake_words": wake_words, "images": images, "anomalies": anomalies, "cifar": cifar,
}  # fmt: skip

__all__ = ["NETWORKS", "Layer", "Network", "Tensor", "Weights", "cifar"]
