"""Converters of layers with weights and windows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tilewright.relay.frontend.common.builder import same_padding
from tilewright.relay.frontend.common.products import product
from tilewright.relay.frontend.common.value import Value
from tilewright.relay.frontend.coreml.node import CoreMLLayer, converters
from tilewright.support.errors import ModelError, OpNotImplemented


def edges(amounts: Any) -> list[int]:
    """Amounts at the border: top, left, bottom, right."""
    found = [(int(e.startEdgeSize), int(e.endEdgeSize)) for e in amounts.borderAmounts] or [(0, 0), (0, 0)]
    return [found[0][0], found[1][0], found[0][1], found[1][1]]


def window_padding(
    c: CoreMLLayer, x: Value, kernel: Sequence[int], strides: Sequence[int], dilation: Sequence[int] = (1, 1)
) -> list[int]:
    """The padding of a window: top, left, bottom, right."""
    if c.options.HasField("same"):
        extents = c.static(x.shape[-2:], "the rows and columns of its input")
        pairs = [same_padding(*given) for given in zip(extents, kernel, strides, dilation, strict=True)]
        pairs = [p[::-1] for p in pairs] if c.options.same.asymmetryMode == 1 else pairs
        return [pairs[0][0], pairs[1][0], pairs[0][1], pairs[1][1]]
    return edges(c.options.valid.paddingAmounts)


@converters.of("convolution")
def _conv(c: CoreMLLayer, x: Value) -> Value:
    p = c.options
    x, front = c.image(x)
    kernel, strides = c.pair("kernelSize", 3), c.pair("stride", 1)
    filters, groups, depth = int(p.outputChannels), int(p.nGroups) or 1, int(p.kernelChannels)
    if p.isDeconvolution:
        out = _deconv(c, x, kernel, strides, groups)
    else:
        dilation = c.pair("dilationFactor", 1)
        out = c.call(
            "nn.conv2d", x, c.parameter("weights", [filters, depth, *kernel]), strides=strides,
            padding=tuple(window_padding(c, x, kernel, strides, dilation)), dilation=dilation, groups=groups, channels=filters,
            kernel_size=kernel,
        )  # fmt: skip
    if p.hasBias:
        out = c.call("nn.bias_add", out, c.parameter("bias", [filters]), axis=1)
    return c.back(out, front)


def _deconv(c: CoreMLLayer, x: Value, kernel: tuple[int, int], strides: tuple[int, int], groups: int) -> Value:
    p = c.options
    filters, depth = int(p.outputChannels), int(p.kernelChannels)
    added = (0, 0)
    if len(p.outputShape) or p.HasField("same"):
        extents = c.static(x.shape[2:], "the rows and columns of its input")
        goal = [int(d) for d in p.outputShape] or [e * s for e, s in zip(extents, strides, strict=True)]
        cut = [(e - 1) * s + k - g for e, s, k, g in zip(extents, strides, kernel, goal, strict=True)]
        added = (max(-cut[0], 0), max(-cut[1], 0))
        cut = [max(v, 0) for v in cut]
        first = [(v + 1) // 2 if p.same.asymmetryMode == 1 else v // 2 for v in cut]
        padding = [*first, *[v - f for v, f in zip(cut, first, strict=True)]]
    else:
        padding = edges(p.valid.paddingAmounts)
    return c.call(
        "nn.conv2d_transpose", x, c.parameter("weights", [depth, filters // groups, *kernel]), strides=strides, padding=tuple(padding),
        groups=groups, channels=filters, kernel_size=kernel, output_padding=added,
    )  # fmt: skip


@converters.of("pooling")
def _pool(c: CoreMLLayer, x: Value) -> Value:
    p = c.options
    x, front = c.image(x)
    kind = int(p.type)
    if kind not in (0, 1, 2):
        raise c.refuse("type", kind, "0 (MAX), 1 (AVERAGE), 2 (L2)")
    if p.globalPooling:
        squares = c.call("multiply", x, x) if kind == 2 else x
        out = c.reduce({0: "max", 1: "mean", 2: "sum"}[kind], squares, [2, 3], keepdims=True)
        return c.back(c.call("sqrt", out) if kind == 2 else out, front)
    kernel, strides = c.pair("kernelSize", 3), c.pair("stride", 1)
    last = p.HasField("includeLastPixel")
    if last:
        amounts = [int(v) for v in p.includeLastPixel.paddingAmounts] or [0, 0]
        padding = amounts * 2
    else:
        padding = window_padding(c, x, kernel, strides)
    attrs: dict[str, Any] = {"pool_size": kernel, "strides": strides, "padding": tuple(padding), "ceil_mode": last}
    if kind == 0:
        return c.back(c.call("nn.max_pool2d", x, **attrs), front)
    if kind == 1:
        return c.back(c.call("nn.avg_pool2d", x, count_include_pad=not p.avgPoolExcludePadding, **attrs), front)
    means = c.call("nn.avg_pool2d", c.call("multiply", x, x), count_include_pad=True, **attrs)
    return c.back(c.call("sqrt", c.call("multiply", means, float(kernel[0] * kernel[1]))), front)


@converters.of("innerProduct")
def _dense(c: CoreMLLayer, x: Value) -> Value:
    p = c.options
    rows, units = int(p.inputChannels), int(p.outputChannels)
    shape = list(x.shape)
    # Tensors of four and more axes end with channels, rows and columns; others with the vector.
    front = shape[:-3] if x.ndim > 3 else shape[:-1]
    out = c.call("nn.dense", c.reshape(x, [-1, rows]), c.parameter("weights", [units, rows]), units=units)
    if p.hasBias:
        out = c.call("nn.bias_add", out, c.parameter("bias", [units]))
    if not c.exact and x.ndim in (2, 4):
        return out
    return c.reshape(out, [*front, units, 1, 1] if x.ndim > 3 else [*front, units])


@converters.of("embedding", "embeddingND")
def _embedding(c: CoreMLLayer, x: Value) -> Value:
    p = c.options
    nd = c.kind == "embeddingND"
    size, width = int(p.vocabSize if nd else p.inputDim), int(p.embeddingSize if nd else p.outputChannels)
    table = c.weight("weights", np.ascontiguousarray(c.array("weights", [width, size]).T))
    front = list(x.shape[:-1]) if nd else list(x.shape[:-3])
    out = c.call("take", table, c.cast(c.reshape(x, [-1]), "int32"), axis=0)
    if p.hasBias:
        out = c.call("nn.bias_add", out, c.parameter("bias", [width]))
    return c.reshape(out, [*front, width] if nd else [*front, width, 1, 1])


@converters.of("batchnorm")
def _batch_norm(c: CoreMLLayer, x: Value) -> Value:
    p = c.options
    epsilon, axis, count = float(p.epsilon) or 1e-5, c.channel(x), int(p.channels)
    gamma, beta = c.parameter("gamma", [count]), c.parameter("beta", [count])
    if p.computeMeanVar:
        if not p.instanceNormalization:
            raise OpNotImplemented("it normalises by the mean of the batch, which belongs to training")
        return c.call("nn.instance_norm", x, gamma, beta, axis=axis, epsilon=epsilon)
    mean, variance = c.parameter("mean", [count]), c.parameter("variance", [count])
    return c.calls("nn.batch_norm", x, gamma, beta, mean, variance, axis=axis, epsilon=epsilon)[0]


@converters.of("layerNormalization")
def _layer_norm(c: CoreMLLayer, x: Value) -> Value:
    p = c.options
    shape = [int(d) for d in p.normalizedShape]
    axes = list(range(x.ndim - len(shape), x.ndim))
    moved = c.call("subtract", x, c.reduce("mean", x, axes, True))
    power = c.reduce("mean", c.call("multiply", moved, moved), axes, True)
    out = c.call("multiply", moved, c.call("rsqrt", c.call("add", power, float(p.eps) or 1e-5)))
    return c.call("add", c.call("multiply", out, c.parameter("gamma", shape)), c.parameter("beta", shape))


@converters.of("mvn")
def _mvn(c: CoreMLLayer, x: Value) -> Value:
    p = c.options
    axes = [x.ndim - 3, x.ndim - 2, x.ndim - 1] if p.acrossChannels else [x.ndim - 2, x.ndim - 1]
    moved = c.call("subtract", x, c.reduce("mean", x, axes, True))
    if not p.normalizeVariance:
        return moved
    power = c.reduce("mean", c.call("multiply", moved, moved), axes, True)
    return c.call("divide", moved, c.call("sqrt", c.call("add", power, float(p.epsilon) or 1e-6)))


@converters.of("l2normalize")
def _l2(c: CoreMLLayer, x: Value) -> Value:
    axes = list(range(max(x.ndim - 3, 0 if c.exact else 1), x.ndim))
    squares = c.reduce("sum", c.call("multiply", x, x), axes, True)
    return c.call("divide", x, c.call("sqrt", c.call("add", squares, float(c.options.epsilon) or 1e-6)))


@converters.of("lrn")
def _lrn(c: CoreMLLayer, x: Value) -> Value:
    p = c.options
    return c.call(
        "nn.lrn",
        x,
        size=int(p.localSize),
        axis=c.channel(x),
        bias=float(p.k) or 1.0,
        alpha=float(p.alpha),
        beta=float(p.beta),
    )


@converters.of("softmax", "softmaxND")
def _softmax(c: CoreMLLayer, x: Value) -> Value:
    axis = c.channel(x) if c.kind == "softmax" else c.axis(int(c.options.axis), x.ndim)
    return c.call("nn.softmax", x, axis=axis)


def _broadcast(c: CoreMLLayer, x: Value, field: str, dims: Any) -> Value:
    """Weights of the shape [1], [C], [1, H, W] or [C, H, W] over x."""
    shape = [int(d) for d in dims]
    v = c.parameter(field, shape)
    return c.per_channel(x, v) if len(shape) == 1 and shape != [1] else v


@converters.of("scale")
def _scale(c: CoreMLLayer, x: Value) -> Value:
    out = c.call("multiply", x, _broadcast(c, x, "scale", c.options.shapeScale))
    return c.call("add", out, _broadcast(c, x, "bias", c.options.shapeBias)) if c.options.hasBias else out


@converters.of("bias")
def _bias(c: CoreMLLayer, x: Value) -> Value:
    return c.call("add", x, _broadcast(c, x, "bias", c.options.shape))


@converters.of("padding")
def _pad(c: CoreMLLayer, x: Value) -> Value:
    top, left, bottom, right = edges(c.options.paddingAmounts)
    width = [(0, 0)] * (x.ndim - 2) + [(top, bottom), (left, right)]
    mode = (
        "reflect" if c.options.HasField("reflection") else "edge" if c.options.HasField("replication") else "constant"
    )
    return c.pad(x, width, float(c.options.constant.value), mode)


@converters.of("crop")
def _crop(c: CoreMLLayer, x: Value, like: Value | None = None) -> Value:
    rows, columns = c.static(x.shape[-2:], "the rows and columns of its input")
    if like is None:
        top, left, bottom, right = edges(c.options.cropAmounts)
        size: list[Any] = [rows - top - bottom, columns - left - right]
    else:
        top, left = c.pair("offset", 0)
        size = c.static(like.shape[-2:], "the rows and columns of its result")
    return c.cut(c.cut(x, x.ndim - 2, top, top + size[0]), x.ndim - 1, left, left + size[1])


def _enlarged(c: CoreMLLayer, extents: Sequence[int]) -> list[int]:
    """The rows and columns of an upsampled image."""
    p = c.options
    if p.mode not in (0, 1):
        raise c.refuse("mode", int(p.mode), "NN, BILINEAR")
    if p.linearUpsampleMode not in (0, 1, 2):
        raise c.refuse(
            "linearUpsampleMode", int(p.linearUpsampleMode), "DEFAULT, ALIGN_CORNERS_TRUE, ALIGN_CORNERS_FALSE"
        )
    if p.mode == 0 and len(p.fractionalScalingFactor):
        raise OpNotImplemented("it repeats elements (mode NN) by a fractionalScalingFactor")
    factors: Sequence[float] = [float(v) for v in p.fractionalScalingFactor] or c.pair("scalingFactor", 1)
    if len(factors) != 2 or min(factors) <= 0:
        raise ModelError(
            f"its fractionalScalingFactor is {list(factors)}; it has a positive factor for rows and one for columns"
        )
    return [int(e * s) for e, s in zip(extents, factors, strict=True)]


@converters.of("upsample", "resizeBilinear")
def _resize(c: CoreMLLayer, x: Value) -> Value:
    p = c.options
    x, front = c.image(x)
    extents = c.static(x.shape[2:], "the rows and columns of its input")
    if c.kind == "upsample":
        size = _enlarged(c, extents)
        method, how = "nearest_neighbor", "asymmetric"
        if p.mode == 1:
            # By the format, DEFAULT steps by the quotient of the extents from the first element on.
            method, how = "linear", ("asymmetric", "align_corners", "half_pixel")[int(p.linearUpsampleMode)]
    else:
        size, method = list(c.pair("targetSize", 1)), "linear"
        mode = int(p.mode.samplingMethod)
        if mode == 3:
            raise c.refuse("mode", "ROI_ALIGN_MODE", "STRICT_ALIGN_ENDPOINTS_MODE, ALIGN_ENDPOINTS_MODE, UPSAMPLE_MODE")
        how = "asymmetric" if mode == 2 else "align_corners"
    rounding = "floor" if method == "nearest_neighbor" else ""
    out = c.call(
        "image.resize2d",
        x,
        size=tuple(size),
        layout="NCHW",
        method=method,
        coordinate_transformation_mode=how,
        rounding_method=rounding,
    )
    return c.back(out, front)


@converters.of("batchedMatmul")
def _matmul(c: CoreMLLayer, a: Value, b: Value | None = None) -> Value:
    p = c.options
    if b is None:
        rows, columns = int(p.weightMatrixFirstDimension), int(p.weightMatrixSecondDimension)
        # The matrix is stored by columns.
        weight = c.parameter("weights", [columns, rows])
        out = c.call("nn.dense", c.reshape(a, [-1, rows]), weight, units=columns)
        out = c.call("nn.bias_add", out, c.parameter("bias", [columns])) if p.hasBias else out
        return c.reshape(out, [*a.shape[:-1], columns])
    if min(a.ndim, b.ndim) < 2:
        raise OpNotImplemented("one of its inputs is a vector")
    return product(c, a, b, bool(p.transposeA), bool(p.transposeB))
