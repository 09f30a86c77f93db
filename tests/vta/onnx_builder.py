"""Networks as files of ONNX: float32 operators between QuantizeLinear and DequantizeLinear (QDQ)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import onnx
from onnx import helper, numpy_helper

from tests.vta.builders import Builder, Scale, Shape, integers, whole_weights
from tilewright import relay
from tilewright.ir import IRModule


class Value(NamedTuple):
    """A dequantised tensor, the quantised one, its shape, scale and zero point."""

    name: str
    whole: str
    shape: Shape
    scale: float
    zero: int


class OnnxNet(Builder):
    """Weights have scales of each channel, activations of `dtype` one of their own."""

    def __init__(self, shape: Sequence[int], width: float = 1.0, seed: int = 0, dtype: str = "int8") -> None:
        super().__init__(width, seed)
        self.dtype, self.scales = dtype, Scale(np.random.default_rng(seed + 1), 0.2)
        self.nodes: list[Any] = []
        self.constants: list[Any] = []
        self.input = tuple(shape)
        self.data = self._rounded("x", self.input, "")

    def shape(self, x: Value) -> Shape:
        return x.shape

    def _constant(self, value: Any) -> str:
        name = f"c{len(self.constants)}"
        self.constants.append(numpy_helper.from_array(np.asarray(value), name))
        return name

    def _node(self, kind: str, inputs: Sequence[str], **attributes: Any) -> str:
        name = f"n{len(self.nodes)}"
        self.nodes.append(helper.make_node(kind, list(inputs), [name], **attributes))
        return name

    def _rounded(self, x: str, shape: Sequence[int], act: str, like: Value | None = None) -> Value:
        """A result between QuantizeLinear and DequantizeLinear; with the scale of another one, or its own."""
        scale, zero = (like.scale, like.zero) if like is not None else self.scales.of(act)
        shift = 128 if self.dtype == "uint8" else 0
        parameters = [self._constant(np.float32(scale)), self._constant(np.array(zero + shift, self.dtype))]
        whole = self._node("QuantizeLinear", [x, *parameters])
        return Value(self._node("DequantizeLinear", [whole, *parameters]), whole, tuple(shape), scale, zero)

    def _acted(self, x: str, act: str) -> str:
        if act == "relu6":
            return self._node("Clip", [x, self._constant(np.float32(0)), self._constant(np.float32(6))])
        return self._node("Relu", [x]) if act else x

    def _weights(self, x: Value, w: Any, bias: Any) -> list[str]:
        """Weights and bias, dequantised."""
        whole, scales = whole_weights(w)
        spread = scales * np.float32(x.scale)
        found = []
        for value, scale in ((whole, scales), (np.round(bias / spread).astype("int32"), spread)):
            zeros = self._constant(np.zeros(len(w), value.dtype))
            found.append(self._node("DequantizeLinear", [self._constant(value), self._constant(scale), zeros], axis=0))
        return found

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
        pad = kernel // 2 if pad is None else pad
        weights = self._weights(x, self.filters(channels, inputs // groups, kernel), self.bias(channels))
        y = self._node("Conv", [x.name, *weights], pads=[pad] * 4, group=groups, strides=[stride, stride])
        sizes = [(extent + 2 * pad - kernel) // stride + 1 for extent in (h, w)]
        return self._rounded(self._acted(y, act), (n, channels, *sizes), act)

    def dense(self, x: Value, units: int, act: str = "") -> Value:
        rows, inputs = x.shape
        w = self.rng.normal(0, np.sqrt(1 / inputs), (units, inputs)).astype("float32")
        y = self._node("Gemm", [x.name, *self._weights(x, w, self.bias(units))], transB=1)
        return self._rounded(self._acted(y, act), (rows, units), act)

    def max_pool(self, x: Value, size: int, stride: int, pad: int = 0, ceil: bool = False) -> Value:
        n, c, *extents = x.shape
        counts = [(e + 2 * pad - size + (stride - 1 if ceil else 0)) // stride + 1 for e in extents]
        y = self._node(
            "MaxPool",
            [x.name],
            kernel_shape=[size, size],
            strides=[stride, stride],
            pads=[pad] * 4,
            ceil_mode=int(ceil),
        )
        return self._rounded(y, (n, c, *counts), "", x)

    def add(self, x: Value, y: Value, act: str = "") -> Value:
        return self._rounded(self._acted(self._node("Add", [x.name, y.name]), act), x.shape, act)

    def concat(self, parts: Sequence[Value]) -> Value:
        n, _, h, w = parts[0].shape
        joined = self._node("Concat", [p.name for p in parts], axis=1)
        return self._rounded(joined, (n, sum([p.shape[1] for p in parts]), h, w), "relu")

    def enlarge(self, x: Value) -> Value:
        n, c, h, w = x.shape
        scales = self._constant(np.array([1, 1, 2, 2], "float32"))
        how = {"mode": "nearest", "coordinate_transformation_mode": "asymmetric", "nearest_mode": "floor"}
        return self._rounded(self._node("Resize", [x.name, "", scales], **how), (n, c, 2 * h, 2 * w), "", x)

    def averaged(self, x: Value) -> Value:
        mean = self._rounded(self._node("GlobalAveragePool", [x.name]), (*x.shape[:2], 1, 1), "", x)
        return self.flatten(mean)

    def flatten(self, x: Value) -> Value:
        n, *rest = x.shape
        return self._rounded(self._node("Flatten", [x.name]), (n, math.prod(rest)), "", x)

    def file(self, *results: Value) -> onnx.ModelProto:
        """The model, whose results are integers."""
        kind = getattr(onnx.TensorProto, self.dtype.upper())
        outputs = [helper.make_tensor_value_info(r.whole, kind, r.shape) for r in results]
        data = helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, self.input)
        graph = helper.make_graph(self.nodes, "quantised", [data], outputs, self.constants)
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)

    def module(self, *results: Value) -> IRModule:
        mod, _ = relay.frontend.from_onnx(self.file(*results), freeze_params=True)
        whole = relay.transform.FakeQuantizationToInteger()(relay.transform.InferType()(mod))
        return integers(whole, rounding="UPWARD" if self.dtype == "int8" else "TONEAREST")


__all__ = ["OnnxNet", "Value"]
