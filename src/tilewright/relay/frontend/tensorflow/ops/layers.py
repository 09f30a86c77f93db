"""Converters of convolutions, pooling, normalisation, box suppression and recurrent blocks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tilewright.relay.cards.relations import Dim
from tilewright.relay.frontend.common.builder import same_padding, small
from tilewright.relay.frontend.common.loops import scan
from tilewright.relay.frontend.common.value import Value, known_extents
from tilewright.relay.frontend.tensorflow.value import NodeCall, tf_op
from tilewright.support.errors import OpNotImplemented

SPACE = ("", "W", "HW", "DHW")


def _layout(c: NodeCall, n: int) -> str:
    return f"NC{SPACE[n]}" if c.channels_first() else f"N{SPACE[n]}C"


def _spatial(c: NodeCall, values: Any, n: int) -> list[int]:
    """The spatial part of an attribute with one number per axis."""
    if not values:
        return [1] * n
    start = 2 if c.channels_first() else 1
    return [int(v) for v in values[start : start + n]]


def _padding(
    c: NodeCall, extents: Sequence[Dim], kernel: Sequence[int], strides: Sequence[int], dilation: Sequence[int]
) -> tuple[Dim, ...]:
    """Padding: all befores, then all afters."""
    how, n = str(c.attr("padding", "VALID")), len(kernel)
    if how == "VALID":
        return (0,) * (2 * n)
    if how == "EXPLICIT":
        given = c.attr("explicit_paddings")
        start = 2 if c.channels_first() else 1
        pairs: list[tuple[Dim, Dim]] = [
            (int(given[2 * (start + k)]), int(given[2 * (start + k) + 1])) for k in range(n)
        ]
    else:
        pairs = [same_padding(*g) for g in zip(extents, kernel, strides, dilation, strict=True)]
    return (*[p[0] for p in pairs], *[p[1] for p in pairs])


def _windowed(c: NodeCall, x: Value, pads: tuple[Any, ...], start: int) -> tuple[Value, tuple[int, ...]]:
    """The data, padded by a separate operator if the padding is dynamic."""
    if all([isinstance(p, int) for p in pads]):
        return x, pads
    n = len(pads) // 2
    width: list[Any] = [(0, 0)] * x.ndim
    width[start : start + n] = [(pads[k], pads[k + n]) for k in range(n)]
    return c.pad(x, width), (0,) * (2 * n)


def convolve(c: NodeCall, x: Value, kernel: Value, groups: int) -> Value:
    """A convolution with a kernel (.., in / groups, out)."""
    n = kernel.ndim - 2
    start = 2 if c.channels_first() else 1
    window = known_extents(kernel.shape[:n])
    strides, dilation = _spatial(c, c.attr("strides"), n), _spatial(c, c.attr("dilations"), n)
    x, pads = _windowed(c, x, _padding(c, x.shape[start : start + n], window, strides, dilation), start)
    return c.call(
        f"nn.conv{n}d", x, kernel, strides=tuple(strides), padding=pads, dilation=tuple(dilation), groups=groups,
        channels=kernel.known_extent(-1), kernel_size=tuple(window), data_layout=_layout(c, n), kernel_layout=f"{SPACE[n]}IO",
    )  # fmt: skip


@tf_op("Conv2D", "Conv3D", "Conv")
def _conv(c: NodeCall, x: Value, kernel: Value) -> Value:
    channels = x.known_extent(1 if c.channels_first() else x.ndim - 1)
    return convolve(c, x, kernel, channels // kernel.known_extent(-2))


@tf_op("DepthwiseConv2dNative")
def _depthwise(c: NodeCall, x: Value, kernel: Value) -> Value:
    h, w, channels, times = known_extents(kernel.shape)
    return convolve(c, x, c.reshape(kernel, [h, w, 1, channels * times]), channels)


@tf_op("Conv2DBackpropInput", "Conv3DBackpropInputV2", "Conv3DBackpropInput")
def _transposed(c: NodeCall, shape: Value, kernel: Value, x: Value) -> Value:
    n = kernel.ndim - 2
    start = 2 if c.channels_first() else 1
    window = known_extents(kernel.shape[:n])
    strides, dilation = _spatial(c, c.attr("strides"), n), _spatial(c, c.attr("dilations"), n)
    wanted = c.ints(shape, "output shape")[start : start + n]
    given = x.shape[start : start + n]
    before, after, extra = [], [], []
    explicit = None
    if str(c.attr("padding")) == "EXPLICIT":
        explicit = known_extents(_padding(c, wanted, window, strides, dilation))
    for k, (o, i, w, s, d) in enumerate(zip(wanted, given, window, strides, dilation, strict=True)):
        reach = (w - 1) * d + 1
        if str(c.attr("padding")) == "SAME":
            # With dynamic extents, the result has `stride` elements for each element of the input.
            total = (i - 1) * s + reach - o if isinstance(o, int) and isinstance(i, int) else reach - s
            first = max(total, 0) // 2
        else:
            total = (i - 1) * s + reach - o if isinstance(o, int) and isinstance(i, int) else min(reach - s, 0)
            first = explicit[k] if explicit is not None else 0
        before.append(first)
        after.append(max(total - first, 0))
        extra.append(max(first - total, 0))
    late = [e if e >= s else 0 for e, s in zip(extra, strides, strict=True)]
    out = c.call(
        f"nn.conv{n}d_transpose", x, kernel, strides=tuple(strides), padding=(*before, *after), dilation=tuple(dilation),
        channels=kernel.known_extent(n), kernel_size=tuple(window), data_layout=_layout(c, n), kernel_layout=f"{SPACE[n]}OI",
        output_padding=tuple([0 if w else e for e, w in zip(extra, late, strict=True)]),
    )  # fmt: skip
    return c.pad(out, [(0, 0)] * start + [(0, w) for w in late] + [(0, 0)] * (out.ndim - start - n))


@tf_op("MaxPool", "AvgPool", "MaxPool3D", "AvgPool3D", "MaxPoolV2")
def _pool(c: NodeCall, x: Value, *rest: Value) -> Value:
    n = x.ndim - 2
    start = 2 if c.channels_first() else 1
    sizes = [c.ints(r, "window").copy() for r in rest] or [c.attr("ksize"), c.attr("strides")]
    size, strides = (_spatial(c, s, n) for s in sizes)
    pads = _padding(c, x.shape[start : start + n], size, strides, [1] * n)
    if not all([isinstance(p, int) for p in pads]):
        raise OpNotImplemented("its padding depends on a dynamic dimension: pin it, shape={input name: [...]}")
    key = "max" if c.op.startswith("Max") else "avg"
    return c.call(
        f"nn.{key}_pool{n}d", x, pool_size=tuple(size), strides=tuple(strides), padding=pads, layout=_layout(c, n)
    )


@tf_op("FusedBatchNorm", "FusedBatchNormV2", "FusedBatchNormV3")
def _batch_norm(c: NodeCall, x: Value, gamma: Value, beta: Value, mean: Value, variance: Value) -> list[Value]:
    axis = 1 if c.channels_first() else x.ndim - 1
    epsilon = float(c.attr("epsilon", 1e-4))
    if c.attr("is_training", True):
        axes = [k for k in range(x.ndim) if k != axis]
        middle = c.reduce("mean", x, axes, True)
        moved = c.call("subtract", x, middle)
        power = c.reduce("mean", c.call("multiply", moved, moved), axes, True)
        shape = [-1 if k == axis else 1 for k in range(x.ndim)]
        scale = c.call("multiply", c.call("rsqrt", c.call("add", power, epsilon)), c.reshape(gamma, shape))
        y = c.call("add", c.call("multiply", moved, scale), c.reshape(beta, shape))
        flat = [c.reshape(v, [-1]) for v in (middle, power)]
        return [y, *flat, *flat, flat[0]]
    data = x if x.dtype == gamma.dtype else c.cast(x, gamma.dtype)
    y = c.calls("nn.batch_norm", data, gamma, beta, mean, variance, axis=axis, epsilon=epsilon)[0]
    return [c.cast(y, x.dtype), mean, variance, mean, variance, mean]


@tf_op("LRN")
def _lrn(c: NodeCall, x: Value) -> Value:
    size = 2 * int(c.attr("depth_radius", 5)) + 1
    alpha = float(c.attr("alpha", 1.0)) * size
    return c.call(
        "nn.lrn", x, size=size, axis=3, bias=float(c.attr("bias", 1.0)), alpha=alpha, beta=float(c.attr("beta", 0.5))
    )


@tf_op("Dilation2D")
def _dilation(c: NodeCall, x: Value, kernel: Value) -> Value:
    window = known_extents(kernel.shape[:2])
    strides, rates = (_spatial(c, c.attr(k), 2) for k in ("strides", "rates"))
    pads = _padding(c, x.shape[1:3], window, strides, rates)
    return c.call(
        "image.dilation2d", x, kernel, strides=tuple(strides), padding=pads, dilations=tuple(rates), data_layout="NHWC", kernel_layout="HWI"
    )  # fmt: skip


# ---- images


@tf_op("ResizeBilinear", "ResizeNearestNeighbor", "ResizeBicubic")
def _resize(c: NodeCall, x: Value, size: Value) -> Value:
    data = x if x.dtype == "float32" or c.op == "ResizeNearestNeighbor" else c.cast(x, "float32")
    align, half = bool(c.attr("align_corners", False)), bool(c.attr("half_pixel_centers", False))
    nearest = c.op == "ResizeNearestNeighbor"
    mode = "align_corners" if align else ("tf_half_pixel_for_nn" if nearest else "half_pixel") if half else "asymmetric"
    if nearest and half:
        return _nearest_places(c, data, c.ints(size, "size"))
    rounding = ("round_prefer_ceil" if align else "floor") if nearest else ""
    return c.call(
        "image.resize2d", data, size=tuple(c.ints(size, "size")), layout="NHWC", coordinate_transformation_mode=mode,
        method={"ResizeBilinear": "linear", "ResizeNearestNeighbor": "nearest_neighbor", "ResizeBicubic": "cubic"}[c.op],
        rounding_method=rounding, cubic_alpha=-0.5 if half else -0.75, cubic_exclude=1 if half else 0,
    )  # fmt: skip


def _nearest_places(c: NodeCall, x: Value, size: Sequence[Dim]) -> Value:
    for axis, target in ((1, size[0]), (2, size[1])):
        extent, wanted = c.static([x.shape[axis], target], "the extents that it resizes")
        small([wanted], "an axis of its result")
        places = np.floor((np.arange(wanted, dtype=np.float32) + 0.5) * np.float32(extent / wanted))
        x = c.call("take", x, Value(array=np.clip(places, 0, extent - 1).astype(np.int32)), axis=axis)
    return x


@tf_op("CropAndResize")
def _crop_and_resize(c: NodeCall, x: Value, boxes: Value, which: Value, size: Value) -> Value:
    return c.call(
        "image.crop_and_resize", x, boxes, which, crop_size=tuple(c.ints(size, "crop size")), layout="NHWC",
        method={"bilinear": "bilinear", "nearest": "nearest_neighbor"}[str(c.attr("method", "bilinear"))],
        extrapolation_value=float(c.attr("extrapolation_value", 0.0)), out_dtype="float32",
    )  # fmt: skip


@tf_op("SpaceToDepth", "DepthToSpace")
def _space_to_depth(c: NodeCall, x: Value) -> Value:
    block = int(c.attr("block_size"))
    if c.channels_first():
        key, attrs = ("nn.space_to_depth", {}) if c.op == "SpaceToDepth" else ("nn.depth_to_space", {"mode": "DCR"})
        return c.call(key, x, block_size=block, layout="NCHW", **attrs)
    n, h, w, channels = x.shape
    if c.op == "SpaceToDepth":
        apart = c.reshape(x, [n, h // block, block, w // block, block, channels])
        return c.reshape(c.transpose(apart, [0, 1, 3, 2, 4, 5]), [n, h // block, w // block, channels * block * block])
    apart = c.reshape(x, [n, h, w, block, block, channels // (block * block)])
    return c.reshape(c.transpose(apart, [0, 1, 3, 2, 4, 5]), [n, h * block, w * block, channels // (block * block)])


@tf_op("SpaceToBatchND", "BatchToSpaceND")
def _space_to_batch(c: NodeCall, x: Value, block: Value, borders: Value) -> Value:
    pairs = tuple([tuple([int(v) for v in p]) for p in c.known(borders, "borders")])
    sizes = tuple(c.ints(block, "block shape"))
    if c.op == "SpaceToBatchND":
        return c.call("nn.space_to_batch_nd", x, block_shape=sizes, paddings=pairs)
    return c.call("nn.batch_to_space_nd", x, block_shape=sizes, crops=pairs)


@tf_op("NonMaxSuppressionV2", "NonMaxSuppressionV3", "NonMaxSuppressionV4", "NonMaxSuppressionV5")
def _suppression(
    c: NodeCall,
    boxes: Value,
    scores: Value,
    most: Value,
    overlap: Value | None = None,
    least: Value | None = None,
    *rest: Value,
) -> list[Value]:
    if rest and float(c.number_of(rest[0], "soft_nms_sigma")):
        raise c.refuse("soft_nms_sigma", float(c.number_of(rest[0], "soft_nms_sigma")), "0")
    limit = float(c.number_of(overlap, "iou_threshold")) if overlap is not None else 0.5
    floor = float(c.number_of(least, "score_threshold")) if least is not None else -np.inf
    count = int(c.number_of(most, "max_output_size"))
    (n,) = c.static([boxes.shape[0]], "the number of its boxes")
    # Corners [y1, x1, y2, x2] may come in any order.
    parts = c.split(boxes, 4, 1)
    corners = [
        c.call(k, parts[a], parts[b])
        for k, a, b in (("minimum", 0, 2), ("minimum", 1, 3), ("maximum", 0, 2), ("maximum", 1, 3))
    ]
    data = c.concatenate([c.reshape(scores, [n, 1]), *corners], 1)
    valid = c.calls(
        "vision.get_valid_counts", c.call("expand_dims", data, axis=0), max(floor, -3e38), id_index=-1, score_index=0
    )
    found = c.calls(
        "vision.non_max_suppression", valid[1], valid[0], valid[2], c.number(count, "int32"), limit, force_suppress=True,
        top_k=-1, coord_start=1, score_index=0, id_index=-1, return_indices=True, invalid_to_bottom=False,
    )  # fmt: skip
    picked = c.reshape(found[0], [-1])
    kept = c.reshape(found[1], [])
    if c.op in ("NonMaxSuppressionV4", "NonMaxSuppressionV5") and c.attr("pad_to_max_output_size", False):
        if n < count:
            raise OpNotImplemented("it pads its result past the number of its boxes")
        whole = c.cut(picked, 0, 0, count)
        places = Value(array=np.arange(count, dtype=np.int32))
        chosen = c.call("where", c.call("less", places, kept), whole, 0)
    else:
        size = c.call("minimum", c.call("expand_dims", kept, axis=0), min(count, n))
        chosen = c.call(
            "dyn.strided_slice",
            picked,
            Value(array=np.zeros(1, np.int32)),
            size,
            Value(array=np.ones(1, np.int32)),
            slice_mode="end",
            axes=(0,),
        )
    if c.op == "NonMaxSuppressionV5":
        return [chosen, c.call("take", scores, chosen, axis=0), kept]
    return [chosen, kept]


# ---- recurrent blocks


def _lstm_step(
    c: NodeCall,
    x: Value,
    cell: Value,
    hidden: Value,
    weight: Value,
    peeps: Sequence[Value] | None,
    bias: Value,
    order: str,
) -> dict[str, Value]:
    both = c.concatenate([x, hidden], 1)
    gates = c.call("add", c.call("nn.dense", both, c.call("transpose", weight, axes=(1, 0))), bias)
    part = dict(zip(order, c.split(gates, 4, 1), strict=True))
    forget = float(c.attr("forget_bias", 1.0)) if c.op != "BlockLSTMV2" else 0.0
    clip = float(c.attr("cell_clip", -1.0 if c.op != "BlockLSTM" else 3.0))

    def seen(gate: Value, state: Value, k: int) -> Value:
        return c.call("add", gate, c.call("multiply", state, peeps[k])) if peeps is not None else gate

    i = c.call("sigmoid", seen(part["i"], cell, 0))
    f = c.call("sigmoid", seen(c.call("add", part["f"], forget) if forget else part["f"], cell, 1))
    ci = c.call("tanh", part["c"])
    cs = c.call("add", c.call("multiply", ci, i), c.call("multiply", cell, f))
    cs = c.call("clip", cs, a_min=-clip, a_max=clip) if clip > 0 else cs
    o = c.call("sigmoid", seen(part["o"], cs, 2))
    co = c.call("tanh", cs)
    return {"i": i, "cs": cs, "f": f, "o": o, "ci": ci, "co": co, "h": c.call("multiply", co, o)}


NAMES = ("i", "cs", "f", "o", "ci", "co", "h")


@tf_op("LSTMBlockCell")
def _lstm_cell(
    c: NodeCall, x: Value, cell: Value, hidden: Value, weight: Value, wci: Value, wcf: Value, wco: Value, bias: Value
) -> list[Value]:
    peeps = [wci, wcf, wco] if c.attr("use_peephole", False) else None
    made = _lstm_step(c, x, cell, hidden, weight, peeps, bias, "icfo")
    return [made[n] for n in NAMES]


@tf_op("BlockLSTM", "BlockLSTMV2")
def _block_lstm(
    c: NodeCall,
    length: Value,
    x: Value,
    cell: Value,
    hidden: Value,
    weight: Value,
    wci: Value,
    wcf: Value,
    wco: Value,
    bias: Value,
) -> list[Value]:
    peeps = [wci, wcf, wco] if c.attr("use_peephole", False) else None
    order = "icfo" if c.op == "BlockLSTM" else "ifco"

    def row(parts: list[Value], now: list[Value]) -> tuple[list[Value], Value]:
        made = _lstm_step(c, parts[0], now[0], now[1], weight, peeps, bias, order)
        return [made["cs"], made["h"]], c.call("stack", [made[n] for n in NAMES], axis=0)

    _, gathered = scan(c, [x], 0, [cell, hidden], row)
    whole = gathered()
    return [c.at(whole, 1, k) for k in range(len(NAMES))]


@tf_op("GRUBlockCell")
def _gru_cell(c: NodeCall, x: Value, hidden: Value, ru: Value, cw: Value, bru: Value, bc: Value) -> list[Value]:
    def product(a: Value, w: Value, b: Value) -> Value:
        return c.call("add", c.call("nn.dense", a, c.call("transpose", w, axes=(1, 0))), b)

    r, u = c.split(c.call("sigmoid", product(c.concatenate([x, hidden], 1), ru, bru)), 2, 1)
    new = c.call("tanh", product(c.concatenate([x, c.call("multiply", r, hidden)], 1), cw, bc))
    kept = c.call("multiply", u, hidden)
    return [r, u, new, c.call("add", kept, c.call("multiply", c.call("subtract", c.number(1, u.dtype), u), new))]
