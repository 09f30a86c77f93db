"""Networks as files of TFLite on int8, with channels last."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from tests.frontend.tflite.ops.writer import Writer
from tests.vta.builders import Builder, Scale, Shape, integers, whole_weights
from tilewright.ir import IRModule
from tilewright.relay.frontend import from_tflite

_ACTS = {"": 0, "relu": 1, "relu6": 3}
_SAME, _VALID = 0, 1


class Value(NamedTuple):
    """The number of a tensor, its shape as (N, C, H, W) or (rows, columns), scale and zero point."""

    tensor: int
    shape: Shape
    scale: float
    zero: int


class TfliteNet(Builder):
    """Weights of convolutions have scales of each channel. Padding is that of TFLite, as much behind as before or one more."""

    def __init__(self, shape: Sequence[int], width: float = 1.0, seed: int = 0) -> None:
        super().__init__(width, seed)
        # What is joined has one scale, since TFLite joins bytes.
        self.file, self.scales = Writer(9), Scale(self.rng, 0.0)
        scale, zero = self.scales.of("")
        self.data = Value(self.file.main.input("int8", self._last(shape), (scale, zero)), tuple(shape), scale, zero)

    def shape(self, x: Value) -> Shape:
        return x.shape

    @staticmethod
    def _last(shape: Sequence[int]) -> Shape:
        """A shape with channels last."""
        return (shape[0], *shape[2:], shape[1])

    def _op(
        self,
        kind: str,
        inputs: Sequence[int],
        shape: Sequence[int],
        act: str,
        options: dict[str, Any],
        table: str,
        like: Value | None = None,
    ) -> Value:
        scale, zero = (like.scale, like.zero) if like is not None else self.scales.of(act)
        (made,) = self.file.main.op(kind, inputs, [("int8", self._last(shape), (scale, zero))], options, table)
        return Value(int(made), tuple(shape), scale, zero)

    def _weights(self, x: Value, w: Any, bias: Any, axis: int, single: bool = False) -> list[int]:
        """Weights with the output channels along an axis, and the bias."""
        whole, scales = whole_weights(w)
        if single:
            scales = np.full(1, np.abs(w).max() / np.float32(127), "float32")
            whole = np.round(w / scales).astype("int8")
        if w.ndim == 4:
            whole = np.ascontiguousarray(whole.transpose((1, 2, 3, 0) if axis == 3 else (0, 2, 3, 1)))
        spread, zeros = scales * np.float32(x.scale), np.zeros(len(scales), np.int64)
        added = np.round(bias / spread).astype("int32")
        constant = self.file.main.constant
        return [constant(whole, (scales, zeros, axis)), constant(added, (spread, zeros, 0))]

    def conv(
        self,
        x: Value,
        channels: int,
        kernel: int,
        stride: int = 1,
        pad: int | None = None,
        groups: int = 1,
        act: str = "relu",
    ) -> Value:
        n, inputs, h, w = x.shape
        deep = groups > 1
        assert groups in (1, inputs) and pad in (None, kernel // 2), (
            "TFLite has depthwise convolutions, and padding of its own"
        )
        weights = self._weights(
            x, self.filters(channels, inputs // groups, kernel), self.bias(channels), 3 if deep else 0
        )
        options = {"padding": _SAME, "stride_w": stride, "stride_h": stride, "fused_activation_function": _ACTS[act]}
        if deep:
            options["depth_multiplier"] = channels // groups
        kind, table = ("DEPTHWISE_CONV_2D", "DepthwiseConv2DOptions") if deep else ("CONV_2D", "Conv2DOptions")
        return self._op(
            kind, [x.tensor, *weights], (n, channels, -(-h // stride), -(-w // stride)), act, options, table
        )

    def dense(self, x: Value, units: int, act: str = "") -> Value:
        rows, inputs = x.shape
        w = self.rng.normal(0, np.sqrt(1 / inputs), (units, inputs)).astype("float32")
        weights = self._weights(x, w, self.bias(units), 0, single=True)
        options = {"fused_activation_function": _ACTS[act]}
        return self._op("FULLY_CONNECTED", [x.tensor, *weights], (rows, units), act, options, "FullyConnectedOptions")

    def max_pool(self, x: Value, size: int, stride: int, pad: int = 0, ceil: bool = False) -> Value:
        n, c, *extents = x.shape
        same = pad > 0 or ceil
        counts = [-(-e // stride) if same else (e - size) // stride + 1 for e in extents]
        options = {
            "padding": _SAME if same else _VALID, "stride_w": stride, "stride_h": stride, "filter_width": size, "filter_height": size,
            "fused_activation_function": 0,
        }  # fmt: skip
        return self._op("MAX_POOL_2D", [x.tensor], (n, c, *counts), "", options, "Pool2DOptions", x)

    def add(self, x: Value, y: Value, act: str = "") -> Value:
        options = {"fused_activation_function": _ACTS[act]}
        return self._op("ADD", [x.tensor, y.tensor], x.shape, act, options, "AddOptions")

    def concat(self, parts: Sequence[Value]) -> Value:
        n, _, h, w = parts[0].shape
        options = {"axis": 3, "fused_activation_function": 0}
        shape = (n, sum([p.shape[1] for p in parts]), h, w)
        return self._op(
            "CONCATENATION", [p.tensor for p in parts], shape, "", options, "ConcatenationOptions", parts[0]
        )

    def enlarge(self, x: Value) -> Value:
        n, c, h, w = x.shape
        size = self.file.main.constant(np.array([2 * h, 2 * w], "int32"))
        options = {"align_corners": False, "half_pixel_centers": False}
        return self._op(
            "RESIZE_NEAREST_NEIGHBOR",
            [x.tensor, size],
            (n, c, 2 * h, 2 * w),
            "",
            options,
            "ResizeNearestNeighborOptions",
            x,
        )

    def averaged(self, x: Value) -> Value:
        axes = self.file.main.constant(np.array([1, 2], "int32"))
        return self._op("MEAN", [x.tensor, axes], x.shape[:2], "", {"keep_dims": False}, "ReducerOptions", x)

    def flatten(self, x: Value) -> Value:
        shape = (x.shape[0], math.prod(x.shape[1:]))
        wanted = self.file.main.constant(np.array(shape, "int32"))
        return self._op("RESHAPE", [x.tensor, wanted], shape, "", {"new_shape": list(shape)}, "ReshapeOptions", x)

    def bytes(self, *results: Value) -> bytes:
        """The file."""
        return bytes(self.file.finish([r.tensor for r in results]))

    def module(self, *results: Value) -> IRModule:
        return integers(*from_tflite(self.bytes(*results)))


__all__ = ["TfliteNet", "Value"]
