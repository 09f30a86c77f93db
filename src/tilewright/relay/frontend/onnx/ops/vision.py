"""Converters of boxes, regions, sampled grids, and pooling by norms. The host decodes images."""

from __future__ import annotations

import io
import math
from typing import Any

import numpy as np

from tilewright.relay.expr import Expr
from tilewright.relay.frontend.onnx.ops.layers import explicit, spatial, windows
from tilewright.relay.frontend.onnx.value import OnnxNode, Tensor, Value, onnx_op
from tilewright.runtime.host_functions.registry import Config, host_function
from tilewright.support.errors import DiagnosticError, TVMError


@onnx_op("GridSample", since=16)
def _grid_sample(node: OnnxNode, x: Value, grid: Value) -> Expr:
    mode = node.get("mode", "bilinear" if node.opset < 20 else "linear")
    method = {"linear": "bilinear", "cubic": "bicubic"}.get(mode, mode)
    rank = x.ndim - 2
    if rank not in (2, 3):
        raise node.refuse("rank of the input", x.ndim, "4 and 5")
    # Coordinates become the second axis.
    places = node.call("transpose", node.cast(grid, x.dtype), axes=(0, rank + 1, *range(1, rank + 1)))
    return node.call(
        "image.grid_sample",
        x,
        places,
        method=method,
        layout="NCHW" if rank == 2 else "NCDHW",
        padding_mode=node.get("padding_mode", "zeros"),
        align_corners=bool(node.get("align_corners", 0)),
    )


@onnx_op("NonMaxSuppression", since=10)
def _non_max_suppression(
    node: OnnxNode,
    boxes: Value,
    scores: Value,
    most: Value | None = None,
    overlap: Value | None = None,
    least: Value | None = None,
) -> Tensor:
    if node.get("center_point_box", 0):
        x, y, w, h = node.calls("split", boxes, indices_or_sections=4, axis=2)
        half = [node.call("multiply", v, node.scalar(0.5, boxes)) for v in (w, h)]
        low = [node.call("subtract", v, d) for v, d in ((y, half[1]), (x, half[0]))]
        high = [node.call("add", v, d) for v, d in ((y, half[1]), (x, half[0]))]
        boxes = node.value("concatenate", [*low, *high], axis=2)
    one = Value(array=np.zeros((), np.int64)) if most is None else most
    if one.is_number and one.array is not None and int(one.array.reshape(-1)[0]) <= 0:
        return np.zeros((0, 3), np.int64)
    limits = [
        node.value("reshape", node.cast(one, "int64"), newshape=()),
        _threshold(node, overlap, 0.0),
        _threshold(node, least, -np.inf),
    ]
    found = node.calls("vision.all_class_non_max_suppression", boxes, scores, *limits, output_format="onnx")
    return node.call("dyn.prefix", found[0], found[1])


def _threshold(node: OnnxNode, v: Value | None, default: float) -> Value:
    if v is None:
        return Value(array=np.array(default, np.float32))
    return node.value("reshape", v, newshape=()) if v.ndim else v


@onnx_op("RoiAlign", since=10)
def _roi_align(node: OnnxNode, x: Value, rois: Value, images: Value) -> Expr:
    scale = float(node.get("spatial_scale", 1.0))
    mode = node.get("coordinate_transformation_mode", "half_pixel" if node.opset >= 16 else "output_half_pixel")
    image = node.call("expand_dims", node.cast(images, rois.dtype), axis=1)
    return node.call(
        "vision.roi_align",
        x,
        node.call("concatenate", [image, rois], axis=1),
        pooled_size=(node.get("output_height", 1), node.get("output_width", 1)),
        spatial_scale=scale,
        sample_ratio=node.get("sampling_ratio", 0) or -1,
        mode="max_term" if node.get("mode", "avg") == "max" else "avg",
        aligned=mode == "half_pixel",
    )


@onnx_op("MaxRoiPool")
def _max_roi_pool(node: OnnxNode, x: Value, rois: Value) -> Expr:
    return node.call(
        "vision.roi_pool", x, rois, pooled_size=tuple(node.get("pooled_shape")),
        spatial_scale=float(node.get("spatial_scale", 1.0)),
    )  # fmt: skip


@onnx_op("DeformConv", since=19)
def _deform_conv(
    node: OnnxNode, x: Value, w: Value, offset: Value, bias: Value | None = None, mask: Value | None = None
) -> Expr:
    # The data is sampled at the learned position of every kernel offset. A product with the weights remains.
    batch, channels, *extents = node.static(x)
    filters, depth, *kernel = node.static(w)
    if len(kernel) != 2:
        raise node.refuse("rank of the kernel", len(kernel), "2")
    out = node.static(offset)[2:]
    strides, dilations, pads = spatial(node, x, kernel)
    parts, groups, kernel_offsets = node.get("offset_group", 1), node.get("group", 1), int(np.prod(kernel))
    shifts = node.call("reshape", offset, newshape=(batch * parts, kernel_offsets, 2, *out))
    grids = []
    for axis in (1, 0):
        step = np.array([p[axis] * dilations[axis] - pads[axis] for p in np.ndindex(*kernel)])
        first = np.arange(out[axis]) * strides[axis]
        base = step[:, None, None] + (first[:, None] if axis == 0 else first[None, :])
        shift = node.call("squeeze", node.call("take", shifts, node.scalar(axis, "int32"), axis=2))
        shift = node.call("reshape", shift, newshape=(batch * parts, kernel_offsets, *out))
        place = node.call("add", shift, Value(array=np.broadcast_to(base, (kernel_offsets, *out)).astype(x.dtype)))
        # -1 and 1 are the outer edges of the outer elements.
        scaled = node.call("multiply", place, node.scalar(2 / extents[axis], x))
        grids.append(node.call("add", scaled, node.scalar(1 / extents[axis] - 1, x)))
    grid = node.call(
        "reshape", node.call("stack", grids, axis=1), newshape=(batch * parts, 2, kernel_offsets * out[0], out[1])
    )
    data = node.call("reshape", x, newshape=(batch * parts, channels // parts, *extents))
    sampled = node.call("image.grid_sample", data, grid, method="bilinear", padding_mode="zeros", align_corners=False)
    sampled = node.call("reshape", sampled, newshape=(batch, parts, channels // parts, kernel_offsets, *out))
    if mask is not None:
        sampled = node.call(
            "multiply", sampled, node.call("reshape", mask, newshape=(batch, parts, 1, kernel_offsets, *out))
        )
    columns = node.call("reshape", sampled, newshape=(batch, groups, depth * kernel_offsets, out[0] * out[1]))
    weights = node.call("reshape", w, newshape=(1, groups, filters // groups, depth * kernel_offsets))
    product = node.call("nn.batch_matmul", weights, columns, transpose_b=False)
    result = node.call("reshape", product, newshape=(batch, filters, *out))
    return result if bias is None else node.call("nn.bias_add", result, bias)


@onnx_op("MaxUnpool", since=9)
def _max_unpool(node: OnnxNode, x: Value, places: Value, output_shape: Value | None = None) -> Any:
    shape, n = x.shape, len(node.get("kernel_shape"))
    if n != x.ndim - 2:
        raise DiagnosticError(f"its kernel has {n} axes, and its input {x.ndim}; it has two more")
    kernel, strides, pads = (
        explicit(node, name, count, least)
        for name, count, least in (("kernel_shape", n, 1), ("strides", n, 1), ("pads", 2 * n, 0))
    )
    inner = [(shape[k + 2] - 1) * strides[k] + kernel[k] - pads[k] - pads[k + n] for k in range(n)]
    whole = [*shape[:2], *inner]
    c = node.builder
    flat = node.value(
        "scatter_elements",
        c.full([math.prod(whole)], 0, x.dtype),
        node.call("reshape", places, newshape=(-1,)),
        node.call("reshape", x, newshape=(-1,)),
        axis=0,
    )
    made = c.reshape(flat, whole)
    if output_shape is None:
        return made.expr
    sizes = c.call("stack", [c.extent(made, k) for k in range(made.ndim)], axis=0)
    behind = node.value("maximum", node.call("subtract", output_shape, sizes), node.scalar(0, "int64"))
    none = Value(array=np.zeros(made.ndim, np.int64))
    return node.nested("Pad", made.expr, node.call("concatenate", [none, behind], axis=0))


@onnx_op("LpPool")
def _lp_pool(node: OnnxNode, x: Value) -> Expr:
    kernel, p = list(node.get("kernel_shape")), float(node.get("p", 2))
    strides, dilations, pads = spatial(node, x, kernel)
    return _norm(node, windows(node, x, kernel, strides, dilations, pads, 0.0)[0], p, (0,), False)


@onnx_op("GlobalLpPool")
def _global_lp_pool(node: OnnxNode, x: Value) -> Expr:
    return _norm(node, x, float(node.get("p", 2)), tuple(range(2, x.ndim)), True)


def _norm(node: OnnxNode, x: Any, p: float, axes: tuple[int, ...], keep: bool) -> Expr:
    if not 0 < p < math.inf:
        raise node.refuse("p", p, "positive numbers")
    if p == 1:
        return node.call("sum", node.call("abs", x), axis=axes, keepdims=keep)
    if p == 2:
        return node.call("sqrt", node.call("sum", node.call("multiply", x, x), axis=axes, keepdims=keep))
    like = Value(x) if not isinstance(x, Value) else x
    power = node.call("power", node.call("abs", x), node.scalar(p, like))
    return node.call("power", node.call("sum", power, axis=axes, keepdims=keep), node.scalar(1 / p, like))


@onnx_op("ImageDecoder", since=20)
def _image_decoder(node: OnnxNode, data: Value) -> Value:
    return node.host_call_sized("image.decode", [data], 3, "uint8", {"format": node.get("pixel_format", "RGB")})


def _decoded(config: Config, data: np.ndarray) -> np.ndarray:
    try:
        from PIL import Image, UnidentifiedImageError
    except ImportError:
        raise TVMError("ImageDecoder needs the package pillow: pip install 'tilewright[images]'") from None
    gray = config["format"] == "Grayscale"
    try:
        image = Image.open(io.BytesIO(data.tobytes())).convert("L" if gray else "RGB")
    except (UnidentifiedImageError, OSError, ValueError):
        return np.zeros((0, 0, 1 if gray else 3), np.uint8)
    pixels = np.asarray(image, np.uint8)
    if gray:
        return pixels[:, :, None]
    return pixels[:, :, ::-1] if config["format"] == "BGR" else pixels


@host_function("image.decode")
def _run_decode(config: Config, data: np.ndarray) -> np.ndarray:
    return _decoded(config, data)


@host_function("image.decode.shape")
def _decode_shape(config: Config, data: np.ndarray) -> np.ndarray:
    return np.array(_decoded(config, data).shape, np.int64)
