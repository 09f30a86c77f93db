"""Converters of rarer operators: decoding of sequences, old forms of common ones, quantisation, windows, histograms."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tilewright.relay.frontend.common.builder import same_padding
from tilewright.relay.frontend.common.hosted import hosted, hosted_like, hosted_sized, text_host
from tilewright.relay.frontend.common.value import Value
from tilewright.relay.frontend.tensorflow.value import Complex, NodeCall, converters, sizes_value, tf_op
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
def _nothing(c: NodeCall, x: Any) -> Any:
    return []


@tf_op("SparseMatMul")
def _sparse_product(c: NodeCall, a: Value, b: Value) -> Any:
    a = c.transpose(a, [1, 0]) if c.attr("transpose_a", False) else a
    b = c.transpose(b, [1, 0]) if c.attr("transpose_b", False) else b
    return c.call("nn.matmul", c.cast(a, "float32"), c.cast(b, "float32"))


@tf_op("ToBool")
def _to_bool(c: NodeCall, x: Value) -> Any:
    return c.home.flag(c, x)


@tf_op("Angle")
def _angle(c: NodeCall, x: Any) -> Any:
    if not isinstance(x, Complex):
        raise OpNotImplemented("its input is no complex tensor that the model makes")
    return converters["Atan2"](c, x.imag, x.real)


@tf_op("Empty")
def _empty(c: NodeCall, shape: Value) -> Any:
    return c.full(c.ints(shape, "shape"), 0, c.attr("dtype", "float32"))


@tf_op("ParallelConcat")
def _parallel_concat(c: NodeCall, *xs: Value) -> Any:
    return c.concatenate(list(xs), 0)


@tf_op("InplaceUpdate", "InplaceAdd", "InplaceSub")
def _inplace(c: NodeCall, x: Value, at: Value, rows: Value) -> Any:
    rows = c.call("negative", rows) if c.op.endswith("Sub") else rows
    mode = "update" if c.op.endswith("Update") else "add"
    return c.call("scatter_nd", x, c.reshape(at, [1, -1]), rows, mode=mode)


@tf_op("NthElement")
def _nth(c: NodeCall, x: Value, n: Value) -> Any:
    (extent,) = c.static(x.shape[-1:], "the length of its rows")
    k = int(c.number_of(n, "n"))
    ordered = c.call("sort", x, axis=x.ndim - 1, is_ascend=True)
    return c.at(ordered, x.ndim - 1, extent - 1 - k if c.attr("reverse", False) else k)


@tf_op("NextAfter")
def _next_after(c: NodeCall, x: Value, y: Value) -> Any:
    return hosted(c, "tf.NextAfter", [x, y], Value(c.call("add", x, y).expr).shape, x.dtype)


@text_host("tf.NextAfter")
def _run_next_after(config: Any, x: np.ndarray, y: np.ndarray) -> Any:
    return np.nextafter(x, y)


@tf_op("PopulationCount")
def _population(c: NodeCall, x: Value) -> Any:
    return hosted_like(c, "tf.PopulationCount", [x], x, "uint8")


@text_host("tf.PopulationCount")
def _run_population(config: Any, x: np.ndarray) -> Any:
    return np.bitwise_count(x.view(x.dtype.name.replace("u", "").replace("int", "uint")))


@tf_op("CumulativeLogsumexp")
def _log_sums(c: NodeCall, x: Value, axis: Value) -> Any:
    config: dict[str, Any] = {
        "axis": int(c.number_of(axis, "axis")),
        "exclusive": bool(c.attr("exclusive", False)),
        "reverse": bool(c.attr("reverse", False)),
    }
    return hosted_like(c, "tf.CumulativeLogsumexp", [x], x, x.dtype, **config)


@text_host("tf.CumulativeLogsumexp")
def _run_log_sums(config: Any, x: np.ndarray) -> np.ndarray:
    rows = np.moveaxis(x.astype(np.float64), config["axis"], 0)
    rows = rows[::-1] if config["reverse"] else rows
    made = np.logaddexp.accumulate(rows, 0)
    if config["exclusive"]:
        made = np.concatenate([np.full_like(made[:1], np.finfo(x.dtype).min), made[:-1]])
    return np.moveaxis(made[::-1] if config["reverse"] else made, 0, config["axis"])


@tf_op("HistogramFixedWidth")
def _histogram(c: NodeCall, x: Value, bounds: Value, count: Value) -> Any:
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
def _formats(c: NodeCall, x: Value) -> Any:
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
def _old_norm(c: NodeCall, x: Value, mean: Value, variance: Value, beta: Value, gamma: Value) -> Any:
    scale = c.call("rsqrt", c.call("add", variance, float(c.attr("variance_epsilon"))))
    scale = c.call("multiply", scale, gamma) if c.attr("scale_after_normalization", True) else scale
    return c.call("add", c.call("multiply", c.call("subtract", x, mean), scale), beta)


@tf_op("SpaceToBatch", "BatchToSpace")
def _old_space(c: NodeCall, x: Value, borders: Value) -> Any:
    block = Value(array=np.full(2, int(c.attr("block_size")), np.int32))
    return converters[f"{c.op}ND"](_renamed(c, f"{c.op}ND"), x, block, borders)


def _renamed(c: NodeCall, op: str) -> NodeCall:
    """The node as if it were of another operator."""
    made = NodeCall(c.node, c.home, c.scope)
    made.op = op
    return made


@tf_op("FusedPadConv2D", "FusedResizeAndPadConv2D")
def _fused_pad(c: NodeCall, x: Value, *rest: Value) -> Any:
    *size, borders, kernel = rest
    if size:
        from tilewright.relay.frontend.tensorflow.ops_nn import _resize

        made = _renamed(c, "ResizeBilinear")
        x = _resize(made, x, size[0])
    pairs = [[int(v) for v in p] for p in c.known(borders, "paddings")]
    x = c.call("nn.mirror_pad", x, pad_width=tuple(map(tuple, pairs)), mode=str(c.attr("mode", "REFLECT")))
    return converters["Conv2D"](_renamed(c, "Conv2D"), x, kernel)


@tf_op("MaxPoolWithArgmax")
def _pool_places(c: NodeCall, x: Value) -> Any:
    """The largest of each window, and where in the image (or batch) it lies."""
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
    # The place of each element of each window in its image.
    at = (rows - pads[0][0])[:, None, :, None] * w + (columns - pads[1][0])[None, :, None, :]
    table = Value(array=at.reshape(outs[0] * outs[1], -1).reshape(-1))
    window = np.arange(outs[0] * outs[1]).reshape(1, *outs, 1) * (size[0] * size[1])
    place = c.call("take", table, c.call("add", c.cast(best, "int64"), Value(array=window.astype(np.int64))), axis=0)
    place = c.call("add", c.call("multiply", place, channels), Value(array=np.arange(channels)))
    if c.attr("include_batch_in_index", False):
        place = c.call("add", place, Value(array=(np.arange(n) * h * w * channels).reshape(-1, 1, 1, 1)))
    return [c.reduce("max", flat, [4]), c.cast(place, c.attr("Targmax", "int64"))]


# ---- quantisation


@tf_op("QuantizeAndDequantize", "QuantizeAndDequantizeV2", "QuantizeAndDequantizeV3", "QuantizeAndDequantizeV4")
def _fake(c: NodeCall, x: Value, *given: Value) -> Any:
    """Rounded to a grid with 0 on it, by the bounds that are given or those of the data."""
    bits = int(c.number_of(given[2], "num_bits")) if c.op.endswith("V3") else int(c.attr("num_bits", 8))
    axis, signed, narrow = (
        int(c.attr("axis", -1)),
        bool(c.attr("signed_input", True)),
        bool(c.attr("narrow_range", False)),
    )
    if c.attr("range_given", False):
        low, high = (c.cast(v, x.dtype) for v in given[:2])
    else:
        over = [k for k in range(x.ndim) if k != axis % x.ndim] if axis >= 0 else list(range(x.ndim))
        low, high = c.reduce("min", x, over), c.reduce("max", x, over)
    if axis >= 0 and low.ndim:
        shape = [-1 if k == axis else 1 for k in range(x.ndim)]
        low, high = c.reshape(low, shape), c.reshape(high, shape)
    first = (-(2 ** (bits - 1)) + narrow) if signed else 0
    last = 2 ** (bits - 1) - 1 if signed else 2**bits - 1
    none = c.number(0, x.dtype)
    # The finer of the grids that the bounds ask for would cut one of them off.
    up = c.call(
        "where",
        c.call("greater", high, none),
        c.call("divide", c.number(last, x.dtype), high),
        c.number(np.finfo(x.dtype).max, x.dtype),
    )
    if first:
        down = c.call("divide", c.number(first, x.dtype), low)
        down = c.call("where", c.call("less", low, none), down, c.number(np.finfo(x.dtype).max, x.dtype))
        scale = c.call("minimum", up, down)
    else:
        scale = up
    inside = c.call(
        "minimum",
        c.call("maximum", x, c.call("divide", c.number(first, x.dtype), scale)),
        c.call("divide", c.number(last, x.dtype), scale),
    )
    steps = c.call("multiply", inside, scale)
    half_up = str(c.attr("round_mode", "HALF_TO_EVEN")) == "HALF_UP"
    whole = c.call("floor", c.call("add", steps, 0.5)) if half_up else c.call("round", steps)
    return c.call("divide", whole, scale)


@tf_op("Dequantize")
def _dequantize(c: NodeCall, x: Value, low: Value, high: Value) -> Any:
    mode, info = str(c.attr("mode", "MIN_COMBINED")), np.iinfo(x.dtype)
    axis, narrow = int(c.attr("axis", -1)), bool(c.attr("narrow_range", False))
    a, b = (c.known(v, "range").astype(np.float32) for v in (low, high))
    if axis >= 0 and a.ndim:
        a, b = (v.reshape([-1 if k == axis else 1 for k in range(x.ndim)]) for v in (a, b))
    wide = c.cast(x, "float32")
    if mode == "SCALED":
        scale = np.maximum(a / (info.min + narrow) if info.min else np.float32(0), b / info.max)
        return c.cast(c.call("multiply", wide, Value(array=np.asarray(scale, np.float32))), c.attr("dtype", "float32"))
    if mode == "MIN_FIRST":
        step = (b - a) / np.float32(info.max - info.min)
        wide = c.call("subtract", wide, float(info.min))
        return c.call("add", c.call("multiply", wide, Value(array=step)), Value(array=np.round(a / step) * step))
    step = (b - a) / np.float32(info.max - info.min)
    wide = c.call("add", wide, (info.max - info.min + 1) / 2) if info.min else wide
    return c.call(
        "add",
        c.call("multiply", wide, Value(array=np.asarray(step, np.float32))),
        Value(array=np.asarray(a, np.float32)),
    )


@tf_op("QuantizeV2")
def _quantize(c: NodeCall, x: Value, low: Value, high: Value) -> Any:
    mode, kind = str(c.attr("mode", "MIN_COMBINED")), c.attr("T")
    if mode == "MIN_FIRST" or int(c.attr("axis", -1)) >= 0:
        raise c.refuse("mode", f"{mode}, axis {c.attr('axis', -1)}", "MIN_COMBINED and SCALED of whole tensors")
    info, narrow = np.iinfo(kind), bool(c.attr("narrow_range", False))
    a, b = (float(np.float32(c.number_of(v, "range"))) for v in (low, high))
    b = max(b, a + max(1.0, abs(a), abs(b)) * float(c.attr("ensure_minimum_range", 0.01)))
    a = min(a, 0.0)
    if mode == "SCALED":
        first = info.min + narrow
        size = max(-a, b) if info.min else b
        scale = np.float32(info.max / size)
        steps = c.call("multiply", x, float(scale))
        rounded = c.call("round", steps)
        made = c.call("clip", rounded, a_min=float(first), a_max=float(info.max))
        a, b = (first / float(scale), info.max / float(scale)) if info.min else (0.0, b)
    else:
        inside = c.call("clip", x, a_min=a, a_max=b)
        steps = c.call("multiply", c.call("subtract", inside, a), float(np.float32((info.max - info.min) / (b - a))))
        steps = c.call("subtract", steps, (info.max - info.min + 1) / 2) if info.min else steps
        made = c.call("round", steps)
    return [c.cast(made, kind), c.number(a, "float32"), c.number(b, "float32")]


# ---- sequences of classes


@tf_op("CTCGreedyDecoder")
def _greedy(c: NodeCall, x: Value, lengths: Value) -> Any:
    config: dict[str, Any] = {"merge": bool(c.attr("merge_repeated", False)), "blank": int(c.attr("blank_index", -1))}
    return _decoded(c, "tf.ctc", [x, lengths], 1, **config)


@tf_op("CTCBeamSearchDecoder")
def _beams(c: NodeCall, x: Value, lengths: Value) -> Any:
    paths = int(c.attr("top_paths"))
    config: dict[str, Any] = {"most": paths, "width": int(c.attr("beam_width"))}
    config["merge"] = bool(c.attr("merge_repeated", True))
    return _decoded(c, "tf.beams", [x, lengths], paths, **config)


def _decoded(c: NodeCall, function: str, given: list[Value], paths: int, **config: Any) -> list[Value]:
    """What a decoder makes: the places, classes and size of each path as a sparse tensor, and the paths' scores.

    The search runs once, and writes a table of int64 (paths, examples, 2 + steps): the bits of the score, the length, the classes.
    """
    steps, examples = given[0].shape[:2]
    table = [hosted(c, function, given, [paths, examples, steps + 2], "int64", **config)]
    groups = [
        [hosted_sized(c, "tf.path.places", table, 2, "int64", path=k) for k in range(paths)],
        [hosted_sized(c, "tf.path.classes", table, 1, "int64", path=k) for k in range(paths)],
        [hosted(c, "tf.path.size", table, [2], "int64", path=k) for k in range(paths)],
    ]
    return [*groups[0], *groups[1], *groups[2], hosted(c, "tf.path.scores", table, [examples, paths], given[0].dtype)]


def _table(found: Sequence[Sequence[tuple[Sequence[int], float]]], paths: int, steps: int) -> np.ndarray:
    """Of (classes, score) for each path of each example."""
    out = np.zeros((paths, len(found), steps + 2), np.int64)
    for b, ranked in enumerate(found):
        if len(ranked) < paths:
            raise ValueError(f"the example {b} has {len(ranked)} paths, fewer than the {paths} of top_paths")
        for k, (classes, score) in enumerate(ranked):
            out[k, b, 0] = np.float64(score).view(np.int64)
            out[k, b, 1 : 2 + len(classes)] = len(classes), *classes
    return out


@text_host("tf.ctc")
def _greedy_table(config: Any, x: np.ndarray, lengths: np.ndarray) -> np.ndarray:
    blank = config["blank"] % x.shape[2]
    found = []
    for b, n in enumerate(lengths.tolist()):
        best = x[:n, b].argmax(-1).tolist()
        kept = [v for k, v in enumerate(best) if not (config["merge"] and k and v == best[k - 1])]
        found.append([([v for v in kept if v != blank], -float(x[:n, b].max(-1).sum()))])
    return _table(found, 1, len(x))


@text_host("tf.beams")
def _beam_table(config: Any, x: np.ndarray, lengths: np.ndarray) -> np.ndarray:
    """For each example the likeliest sequences with the logarithms of their likelihoods (prefix search)."""
    blank = x.shape[2] - 1
    found = []
    logs = x.astype(np.float64) - np.logaddexp.reduce(x.astype(np.float64), 2, keepdims=True)
    for b, n in enumerate(lengths.tolist()):
        # Each prefix: (likelihood that it ends with a blank, that it does not).
        beams: dict[tuple[int, ...], tuple[float, float]] = {(): (0.0, -np.inf)}
        for row in logs[:n, b]:
            made: dict[tuple[int, ...], list[float]] = {}
            for prefix, (ends, goes) in beams.items():
                total = np.logaddexp(ends, goes)
                held = made.setdefault(prefix, [-np.inf, -np.inf])
                held[0] = np.logaddexp(held[0], total + row[blank])
                if prefix:
                    held[1] = np.logaddexp(held[1], goes + row[prefix[-1]])
                for v in range(blank):
                    longer = made.setdefault((*prefix, v), [-np.inf, -np.inf])
                    before = ends if prefix and v == prefix[-1] else total
                    longer[1] = np.logaddexp(longer[1], before + row[v])
            best = sorted(made.items(), key=lambda p: -float(np.logaddexp(p[1][0], p[1][1])))[: config["width"]]
            beams = {p: (v[0], v[1]) for p, v in best}
        ranked = [(list(p), float(np.logaddexp(*v))) for p, v in beams.items()][: config["most"]]
        if config["merge"]:
            ranked = [([v for k, v in enumerate(p) if not k or v != p[k - 1]], score) for p, score in ranked]
        found.append(ranked)
    return _table(found, config["most"], len(x))


@text_host("tf.path.places", sized=True)
def _path_places(config: Any, table: np.ndarray) -> np.ndarray:
    counts = table[config["path"], :, 1].tolist()
    return np.array([(b, k) for b, n in enumerate(counts) for k in range(n)], np.int64).reshape(-1, 2)


@text_host("tf.path.classes", sized=True)
def _path_classes(config: Any, table: np.ndarray) -> np.ndarray:
    return np.array([v for row in table[config["path"]] for v in row[2 : 2 + row[1]]], np.int64)


@text_host("tf.path.size")
def _path_size(config: Any, table: np.ndarray) -> np.ndarray:
    return np.array([table.shape[1], table[config["path"], :, 1].max(initial=0)], np.int64)


@text_host("tf.path.scores")
def _path_scores(config: Any, table: np.ndarray) -> np.ndarray:
    return np.ascontiguousarray(table[:, :, 0]).view(np.float64).T


# ---- boxes


@tf_op("NonMaxSuppression")
def _oldest_suppression(c: NodeCall, boxes: Value, scores: Value, most: Value) -> Any:
    limit = c.number(float(c.attr("iou_threshold", 0.5)), "float32")
    return converters["NonMaxSuppressionV3"](_renamed(c, "NonMaxSuppressionV3"), boxes, scores, most, limit)


@tf_op("NonMaxSuppressionWithOverlaps")
def _overlap_suppression(c: NodeCall, overlaps: Value, scores: Value, most: Value, limit: Value, least: Value) -> Any:
    return hosted_sized(c, "tf.overlaps", [overlaps, scores, most, limit, least], 1, "int32")


@text_host("tf.overlaps", sized=True)
def _run_overlaps(
    config: Any, overlaps: np.ndarray, scores: np.ndarray, most: np.ndarray, limit: np.ndarray, least: np.ndarray
) -> np.ndarray:
    kept: list[int] = []
    for k in np.argsort(-scores, kind="stable").tolist():
        if len(kept) < int(most) and scores[k] > least and all([overlaps[k, j] <= limit for j in kept]):
            kept.append(k)
    return np.array(kept, np.int32)


@tf_op("CombinedNonMaxSuppression")
def _combined(c: NodeCall, boxes: Value, scores: Value, each: Value, most: Value, limit: Value, least: Value) -> Any:
    per, total = int(c.number_of(each, "max_output_size_per_class")), int(c.number_of(most, "max_total_size"))
    batch, _, classes = c.static(scores.shape, "the shape of its scores")
    count = min(total, per * classes) if c.attr("pad_per_class", False) else total
    config: dict[str, Any] = {
        "per": per, "total": total, "count": count, "limit": float(c.number_of(limit, "iou_threshold")),
        "least": float(c.number_of(least, "score_threshold")), "clip": bool(c.attr("clip_boxes", True)),
    }  # fmt: skip
    whole = hosted(c, "tf.combined", [boxes, scores], [batch, count, 7], "float32", **config)
    parts = [c.cut(whole, 2, a, b) for a, b in ((0, 4), (4, 5), (5, 6), (6, 7))]
    scores_, classes_, valid = (c.reshape(p, [batch, count]) for p in parts[1:])
    return [parts[0], scores_, classes_, c.cast(c.reduce("sum", valid, [1]), "int32")]


def overlap(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """How much of two boxes together (corners in any order) they share."""
    corners = [
        np.concatenate([np.minimum(v[..., :2], v[..., 2:]), np.maximum(v[..., :2], v[..., 2:])], -1) for v in (a, b)
    ]
    inner = np.maximum(
        np.minimum(corners[0][..., 2:], corners[1][..., 2:]) - np.maximum(corners[0][..., :2], corners[1][..., :2]), 0
    )
    sizes = [np.prod(v[..., 2:] - v[..., :2], -1) for v in corners]
    shared = np.prod(inner, -1)
    return np.where((sizes[0] > 0) & (sizes[1] > 0), shared / np.maximum(sizes[0] + sizes[1] - shared, 1e-30), 0.0)


def suppressed(boxes: np.ndarray, scores: np.ndarray, most: int, limit: float, least: float) -> list[int]:
    """Places of the boxes that are kept, best first."""
    kept: list[int] = []
    for k in np.argsort(-scores, kind="stable").tolist():
        if len(kept) == most or scores[k] <= least:
            break
        if not kept or not (overlap(boxes[kept], boxes[k][None]) > limit).any():
            kept.append(k)
    return kept


@text_host("tf.combined")
def _run_combined(config: Any, boxes: np.ndarray, scores: np.ndarray) -> np.ndarray:
    """Rows of box, score, class, 1 for those that are there."""
    out = np.zeros((len(scores), config["count"], 7), np.float32)
    for b in range(len(scores)):
        found: list[tuple[float, int, np.ndarray]] = []
        for k in range(scores.shape[2]):
            own = boxes[b, :, min(k, boxes.shape[2] - 1)]
            found += [
                (float(scores[b, i, k]), k, own[i])
                for i in suppressed(own, scores[b, :, k], config["per"], config["limit"], config["least"])
            ]
        found.sort(key=lambda f: -f[0])
        for row, (score, k, box) in enumerate(found[: config["count"]]):
            out[b, row] = [*(np.clip(box, 0, 1) if config["clip"] else box), score, k, 1]
    return out
