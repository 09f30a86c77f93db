"""Converters of old forms of operators, and of operators equivalent to others."""

from __future__ import annotations

from typing import Any

import numpy as np

from tilewright.relay.frontend.common.builder import same_padding
from tilewright.relay.frontend.common.host_calls import host_call, host_call_like
from tilewright.relay.frontend.common.value import Value
from tilewright.relay.frontend.tensorflow.value import Complex, NodeCall, Result, converters, sizes_value, tf_op
from tilewright.runtime.host_functions.registry import Config
from tilewright.runtime.host_functions.strings import string_host
from tilewright.support.errors import OpNotImplemented

SAME_AS = {
    "AccumulateNV2": "AddN", "BatchMatrixBandPart": "MatrixBandPart", "BatchMatrixDiag": "MatrixDiag",
    "BatchMatrixDiagPart": "MatrixDiagPart", "BatchMatrixSetDiag": "MatrixSetDiag",
    "GuaranteeConst": "Identity", "DeepCopy": "Identity", "CheckNumericsV2": "Identity",
    "DebugGradientIdentity": "Identity", "DebugGradientRefIdentity": "Identity", "Copy": "Identity", "CopyHost": "Identity",
    "BatchFFT": "FFT", "BatchIFFT": "IFFT", "BatchFFT2D": "FFT2D", "BatchIFFT2D": "IFFT2D",
    "BatchFFT3D": "FFT3D", "BatchIFFT3D": "IFFT3D",
    "Conv2DBackpropInputV2": "Conv2DBackpropInput",
}  # fmt: skip
for _name, _like in SAME_AS.items():
    tf_op(_name)(converters[_like])


@tf_op("DisableCopyOnRead")
def _nothing(c: NodeCall, x: Result) -> list[Value]:
    return []


@tf_op("SparseMatMul")
def _sparse_product(c: NodeCall, a: Value, b: Value) -> Value:
    a = c.transpose(a, [1, 0]) if c.attr("transpose_a", False) else a
    b = c.transpose(b, [1, 0]) if c.attr("transpose_b", False) else b
    return c.call("nn.matmul", c.cast(a, "float32"), c.cast(b, "float32"))


@tf_op("ToBool")
def _to_bool(c: NodeCall, x: Value) -> Value:
    return c.home.flag(c, x)


@tf_op("Angle")
def _angle(c: NodeCall, x: Result) -> Any:
    if not isinstance(x, Complex):
        raise OpNotImplemented("its input is not a complex tensor that the model makes")
    return converters["Atan2"](c, x.imag, x.real)


@tf_op("Empty")
def _empty(c: NodeCall, shape: Value) -> Value:
    return c.full(c.ints(shape, "shape"), 0, c.attr("dtype", "float32"))


@tf_op("ParallelConcat")
def _parallel_concat(c: NodeCall, *xs: Value) -> Value:
    return c.concatenate(list(xs), 0)


@tf_op("InplaceUpdate", "InplaceAdd", "InplaceSub")
def _inplace(c: NodeCall, x: Value, at: Value, rows: Value) -> Value:
    rows = c.call("negative", rows) if c.op.endswith("Sub") else rows
    mode = "update" if c.op.endswith("Update") else "add"
    return c.call("scatter_nd", x, c.reshape(at, [1, -1]), rows, mode=mode)


@tf_op("NthElement")
def _nth(c: NodeCall, x: Value, n: Value) -> Value:
    (extent,) = c.static(x.shape[-1:], "the length of its rows")
    k = int(c.number_of(n, "n"))
    ordered = c.call("sort", x, axis=x.ndim - 1, is_ascend=True)
    return c.at(ordered, x.ndim - 1, extent - 1 - k if c.attr("reverse", False) else k)


@tf_op("NextAfter")
def _next_after(c: NodeCall, x: Value, y: Value) -> Value:
    return host_call(c, "tf.NextAfter", [x, y], Value(c.call("add", x, y).expr).shape, x.dtype)


@string_host("tf.NextAfter")
def _run_next_after(config: Config, x: np.ndarray, y: np.ndarray) -> Any:
    return np.nextafter(x, y)


@tf_op("PopulationCount")
def _population(c: NodeCall, x: Value) -> Value:
    return host_call_like(c, "tf.PopulationCount", [x], x, "uint8")


@string_host("tf.PopulationCount")
def _run_population(config: Config, x: np.ndarray) -> Any:
    return np.bitwise_count(x.view(x.dtype.name.replace("u", "").replace("int", "uint")))


@tf_op("CumulativeLogsumexp")
def _log_sums(c: NodeCall, x: Value, axis: Value) -> Value:
    config: Config = {
        "axis": int(c.number_of(axis, "axis")),
        "exclusive": bool(c.attr("exclusive", False)),
        "reverse": bool(c.attr("reverse", False)),
    }
    return host_call_like(c, "tf.CumulativeLogsumexp", [x], x, x.dtype, **config)


@string_host("tf.CumulativeLogsumexp")
def _run_log_sums(config: Config, x: np.ndarray) -> np.ndarray:
    rows = np.moveaxis(x.astype(np.float64), config["axis"], 0)
    rows = rows[::-1] if config["reverse"] else rows
    made = np.logaddexp.accumulate(rows, 0)
    if config["exclusive"]:
        made = np.concatenate([np.full_like(made[:1], np.finfo(x.dtype).min), made[:-1]])
    return np.moveaxis(made[::-1] if config["reverse"] else made, 0, config["axis"])


@tf_op("HistogramFixedWidth")
def _histogram(c: NodeCall, x: Value, bounds: Value, count: Value) -> Value:
    n, kind = int(c.number_of(count, "nbins")), c.attr("dtype", "int32")
    low, high = (c.cast(c.at(bounds, 0, k), "float32") for k in (0, 1))
    step = c.call("divide", c.call("subtract", high, low), float(n))
    flat = c.reshape(c.cast(x, "float32"), [-1])
    at = c.call("floor", c.call("divide", c.call("subtract", flat, low), step))
    places = c.cast(c.call("clip", at, a_min=0.0, a_max=float(n - 1)), "int32")
    one = c.number(1, kind)
    hot = c.call("one_hot", places, one, c.number(0, kind), depth=n, axis=-1, dtype=kind)
    return c.reduce("sum", hot, [0])


@tf_op("DataFormatDimMap", "DataFormatVecPermute")
def _formats(c: NodeCall, x: Value) -> Value:
    source, target = str(c.attr("src_format", "NHWC")), str(c.attr("dst_format", "NCHW"))
    if c.op == "DataFormatDimMap":
        table = [target.index(ch) for ch in source]
        return c.call("take", Value(array=np.array([*table, *table], x.dtype)), c.call("add", x, len(source)), axis=0)
    (n,) = c.static(x.shape[:1], "the number of its rows")
    if n < len(source):
        source, target = (s.replace("N", "").replace("C", "") for s in (source, target))
    order = Value(array=np.array([source.index(ch) for ch in target]))
    if x.array is not None and x.array.dtype == object:
        return sizes_value(c, x.array[order.array], x.dtype)
    return c.call("take", x, order, axis=0)


@tf_op("BatchNormWithGlobalNormalization")
def _old_norm(c: NodeCall, x: Value, mean: Value, variance: Value, beta: Value, gamma: Value) -> Value:
    scale = c.call("rsqrt", c.call("add", variance, float(c.attr("variance_epsilon"))))
    scale = c.call("multiply", scale, gamma) if c.attr("scale_after_normalization", True) else scale
    return c.call("add", c.call("multiply", c.call("subtract", x, mean), scale), beta)


@tf_op("SpaceToBatch", "BatchToSpace")
def _old_space(c: NodeCall, x: Value, borders: Value) -> Any:
    block = Value(array=np.full(2, int(c.attr("block_size")), np.int32))
    return converters[f"{c.op}ND"](c.renamed(f"{c.op}ND"), x, block, borders)


@tf_op("FusedPadConv2D", "FusedResizeAndPadConv2D")
def _fused_pad(c: NodeCall, x: Value, *rest: Value) -> Any:
    *size, borders, kernel = rest
    if size:
        from tilewright.relay.frontend.tensorflow.ops.layers import _resize

        made = c.renamed("ResizeBilinear")
        x = _resize(made, x, size[0])
    pairs = [[int(v) for v in p] for p in c.known(borders, "paddings")]
    x = c.call("nn.mirror_pad", x, pad_width=tuple(map(tuple, pairs)), mode=str(c.attr("mode", "REFLECT")))
    return converters["Conv2D"](c.renamed("Conv2D"), x, kernel)


@tf_op("MaxPoolWithArgmax")
def _pool_places(c: NodeCall, x: Value) -> list[Value]:
    """The maximum of each window, and its index in the image (or batch)."""
    size, strides = list(c.attr("ksize"))[1:3], list(c.attr("strides"))[1:3]
    n, h, w, channels = c.static(x.shape, "the shape of its images")
    same = str(c.attr("padding")) == "SAME"
    pads = [same_padding(e, k, s) if same else (0, 0) for e, k, s in zip((h, w), size, strides, strict=True)]
    wide = c.pad(
        x,
        [(0, 0), *pads, (0, 0)],
        float(np.finfo(x.dtype).min) if x.dtype.startswith("float") else int(np.iinfo(x.dtype).min),
    )
    outs = [(e + sum(p) - k) // s + 1 for e, p, k, s in zip((h, w), pads, size, strides, strict=True)]
    rows = np.arange(outs[0])[:, None] * strides[0] + np.arange(size[0])[None]
    columns = np.arange(outs[1])[:, None] * strides[1] + np.arange(size[1])[None]
    taken = c.call("take", c.call("take", wide, Value(array=columns), axis=2), Value(array=rows), axis=1)
    flat = c.reshape(c.transpose(taken, [0, 1, 3, 5, 2, 4]), [n, *outs, channels, size[0] * size[1]])
    best = c.call("argmax", flat, axis=(4,))
    # The index in its image of each element of each window.
    at = (rows - pads[0][0])[:, None, :, None] * w + (columns - pads[1][0])[None, :, None, :]
    table = Value(array=at.reshape(outs[0] * outs[1], -1).reshape(-1))
    window = np.arange(outs[0] * outs[1]).reshape(1, *outs, 1) * (size[0] * size[1])
    place = c.call("take", table, c.call("add", c.cast(best, "int64"), Value(array=window.astype(np.int64))), axis=0)
    place = c.call("add", c.call("multiply", place, channels), Value(array=np.arange(channels)))
    if c.attr("include_batch_in_index", False):
        place = c.call("add", place, Value(array=(np.arange(n) * h * w * channels).reshape(-1, 1, 1, 1)))
    return [c.reduce("max", flat, [4]), c.cast(place, c.attr("Targmax", "int64"))]


# ---- quantisation
