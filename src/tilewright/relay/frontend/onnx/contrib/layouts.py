"""Converters of com.microsoft's convolutions and pooling with channels last."""

from __future__ import annotations

from typing import Any

from tilewright.relay.cards.relations import known_equal
from tilewright.relay.expr import Expr
from tilewright.relay.frontend.onnx.contrib.fused import DOMAIN, activated, add, channels_first, channels_last
from tilewright.relay.frontend.onnx.ops.integers import qlinear_convolution
from tilewright.relay.frontend.onnx.ops.layers import convolution
from tilewright.relay.frontend.onnx.value import OnnxNode, Value, onnx_op
from tilewright.support.errors import OpNotImplemented


@onnx_op("FusedConv", domain=DOMAIN)
def _fused_conv(node: OnnxNode, x: Value, w: Value, b: Value | None = None, z: Value | None = None) -> Value:
    return activated(node, add(node, convolution(node, x, w, b), z))


@onnx_op("NhwcFusedConv", "NhwcConv", domain=DOMAIN)
def _nhwc_conv(node: OnnxNode, x: Value, w: Value, b: Value | None = None, z: Value | None = None) -> Value:
    if not known_equal(w.shape[1] * node.get("group", 1), x.shape[-1]):
        # The weights have channels last, too.
        w = channels_first(node, w)
    made = channels_last(node, convolution(node, channels_first(node, x), w, b))
    return activated(node, add(node, made, z))


@onnx_op("QLinearConv", domain=DOMAIN)
def _qlinear_conv(node: OnnxNode, x: Value, *rest: Value) -> Value:
    if not node.get("channels_last", 0):
        return qlinear_convolution(node, x, *rest)
    return channels_last(node, qlinear_convolution(node, channels_first(node, x), *rest))


@onnx_op("NhwcMaxPool", domain=DOMAIN)
def _nhwc_max_pool(node: OnnxNode, x: Value) -> Value:
    return channels_last(node, node.nested("MaxPool", channels_first(node, x), **node.attrs))


@onnx_op("ConvTransposeWithDynamicPads", domain=DOMAIN)
def _conv_transpose(node: OnnxNode, x: Value, w: Value, pads: Value | None = None, b: Value | None = None) -> Any:
    attrs = dict(node.attrs)
    if pads is not None:
        attrs["pads"] = [int(p) for p in node.numbers(pads, "pads").reshape(-1)]
    return node.nested("ConvTranspose", x, w, b, **attrs)


@onnx_op("Pad", domain=DOMAIN)
def _pad(node: OnnxNode, x: Value, pads: Value, value: Value | None = None) -> Any:
    return node.nested("Pad", x, node.value("reshape", pads, newshape=(-1,)) if pads.ndim > 1 else pads, value,
                       opset=13, **node.attrs)  # fmt: skip


@onnx_op("GridSample", domain=DOMAIN)
def _grid_sample(node: OnnxNode, x: Value, grid: Value) -> Any:
    return node.nested("GridSample", x, grid, opset=16, **node.attrs)


@onnx_op("CropAndResize", domain=DOMAIN)
def _crop_and_resize(node: OnnxNode, x: Value, regions: Value, images: Value, size: Value) -> Expr:
    mode = node.get("mode", "bilinear")
    if mode not in ("bilinear", "nearest"):
        raise node.refuse("mode", mode, "bilinear, nearest")
    return node.call(
        "image.crop_and_resize", x, regions, node.cast(images, "int32"), method=mode if mode == "bilinear" else "nearest_neighbor",
        crop_size=tuple(int(n) for n in node.numbers(size, "size of the crops").reshape(-1)),
        extrapolation_value=float(node.get("extrapolation_value", 0.0)),
    )  # fmt: skip


@onnx_op("UnfoldTensor", domain=DOMAIN)
def _unfold(node: OnnxNode, x: Value) -> Expr:
    import numpy as np

    axis, size, step = node.place(node.get("dim", -1), x.ndim), node.get("size"), node.get("step", 1)
    count = (node.static(x)[axis] - size) // step + 1
    if count < 1:
        raise OpNotImplemented(f"its size {size} is more than the extent {node.static(x)[axis]} of axis {axis}")
    places = np.arange(count, dtype=np.int32)[:, None] * step + np.arange(size, dtype=np.int32)
    rows = node.value("take", x, Value(array=places), axis=axis)
    order = [k for k in range(rows.ndim) if k != axis + 1]
    return node.call("transpose", rows, axes=(*order, axis + 1))
