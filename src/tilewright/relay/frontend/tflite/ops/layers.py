"""Converters of convolutions, products and pooling: float, quantised, and float with quantised weights (dynamic range)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tilewright.relay.cards.relations import Dim
from tilewright.relay.frontend.common.builder import small
from tilewright.relay.frontend.common.value import known_extents
from tilewright.relay.frontend.tflite.node import Node, Quant, Value, plain, tflite_op
from tilewright.relay.frontend.tflite.ops.arithmetic import quantized
from tilewright.relay.frontend.tflite.ops.dynamic import Rounded, Rows, hybrid, rounded, symmetric
from tilewright.relay.frontend.tflite.ops.quantized import (
    activation_range,
    limits,
    need_single,
    out_quant,
    real,
    scaled,
    scaled_once,
    scaled_wide,
    stored,
)
from tilewright.support.errors import OpNotImplemented

SAME, VALID = 0, 1
LAYOUT = {"data_layout": "NHWC", "kernel_layout": "HWIO"}


def same_padding(
    extents: Sequence[Dim], window: Sequence[int], strides: Sequence[int], dilation: Sequence[int]
) -> list[Any]:
    """Padding (all befores, then all afters) for outputs of ceil(extent / stride) elements."""
    before, behind = [], []
    for d, k, s, r in zip(extents, window, strides, dilation, strict=True):
        reach = (k - 1) * r + 1
        if s == 1:
            total: Any = reach - 1
        elif isinstance(d, int):
            total = max((-(-d // s) - 1) * s + reach - d, 0)
        else:
            from tilewright.tir.op import max as larger

            total = plain(larger(((d + s - 1) // s - 1) * s + reach - d, 0))
        before.append(plain(total // 2))
        behind.append(plain(total - total // 2))
    return [*before, *behind]


def is_same(node: Node) -> bool:
    """Whether outputs have ceil(extent / stride) elements (SAME), or only those with their window inside the input (VALID)."""
    code = int(node.get("padding"))
    if code not in (SAME, VALID):
        raise OpNotImplemented(f"its padding is {code}; supported: {SAME} (SAME), {VALID} (VALID)")
    return code == SAME


def padding_of(
    node: Node, x: Value, window: Sequence[Dim], strides: Sequence[int], dilation: Sequence[int]
) -> tuple[Dim, ...]:
    """The padding of a window over the axes after the first."""
    if not is_same(node):
        return (0,) * (2 * len(window))
    return tuple(same_padding(x.shape[1 : 1 + len(window)], known_extents(window), strides, dilation))


def biased(node: Node, x: Value, bias: Value | None) -> Value:
    """Float sums with a bias along the last axis."""
    if bias is None:
        return x
    return node.call("add", x, real(node, vector(node, bias)))


def vector(node: Node, bias: Value) -> Value:
    """A bias of any shape as TFLite reads it: a number for each channel."""
    return bias if bias.ndim == 1 else node.reshape(bias, [-1])


def finished(node: Node, sums: Value, source: Quant, weights: Quant, bias: Value | None) -> Value:
    """The result of a product's integer sums: plus bias, times the scale of each channel, plus zero point, then the activation."""
    target = out_quant(node)
    low, high = activation_range(node, target, node.out.dtype)
    if weights.single:
        # With one scale, the product of the scales is a float32, as in the kernel.
        factors: Any = float(source.scale[0] * weights.scale[0]) / target.step
        if node.out.dtype != "uint8" and node.name != "FULLY_CONNECTED":
            factors = source.step * weights.step / target.step
    else:
        factors = source.step * weights.scale.astype(np.float64) / target.step
    wide = sums.dtype == "int64" and (bias is None or bias.dtype == "int64")
    if bias is not None:
        if bias.array is not None and bias.dtype == "int64" and np.any((bias.array < -WIDEST) | (bias.array >= WIDEST)):
            raise OpNotImplemented(
                f"its bias {bias.name!r} has numbers of more than 48 bits, the most that TFLite's sums hold"
            )
        sums = node.call("add", sums, node.cast(vector(node, bias), sums.dtype))
    scale = scaled_once if node.name == "FULLY_CONNECTED" else scaled_wide if wide else scaled
    made = scale(node, sums, factors)
    return stored(node, made, target.offset, low, high, node.out.dtype)


def halves(node: Node, x: Value) -> tuple[Value, Value]:
    """16-bit numbers as 256 * (signed byte) + (byte): sums of byte products fit in 32 bits, sums of word products do not."""
    if node.out.dtype != x.dtype:
        raise OpNotImplemented(f"its data are int16 and its result {node.out.dtype}, where int16 is taken")
    high = node.cast(node.call("right_shift", x, 8), "int8")
    low = node.cast(node.call("bitwise_and", x, 255), "uint8")
    return high, low


def halves_for(node: Node, x: Value, weights: Value) -> tuple[Value, Value]:
    """`halves` of data for weights that TFLite multiplies by words: signed bytes."""
    if weights.dtype not in ("int8", "int4"):
        raise OpNotImplemented(f"its data are int16 and its weights {weights.dtype}, where int8 or int4 are taken")
    return halves(node, x)


def need_centred(x: Value, quant: Quant) -> None:
    """Raises OpNotImplemented for a nonzero zero point of a type that TFLite requires to be symmetric."""
    if quant.zero.any():
        raise OpNotImplemented(
            f"its tensor {x.name!r} of {x.dtype} has the zero point {quant.zero[quant.zero != 0][0]}; supported: 0"
        )


def joined(node: Node, high: Value, low: Value) -> Value:
    """The int64 sum of the products of both `halves`."""
    return node.call("add", node.call("left_shift", node.cast(high, "int64"), 8), node.cast(low, "int64"))


ONE = np.array(1, np.float32)
WIDEST = 1 << 47
"""Upper bound of sums of 16-bit products in TFLite's kernels."""


def zero(value: int) -> Value:
    """A zero point in the form for qnn operators."""
    return Value(array=np.array(value, np.int32))


# ---- convolutions


@tflite_op("CONV_2D", "DEPTHWISE_CONV_2D")
def _conv(node: Node, x: Value, weights: Value, bias: Value | None = None) -> Value:
    depthwise = node.name != "CONV_2D"
    kh, kw = weights.shape[1:3]
    strides = (int(node.get("stride_h")), int(node.get("stride_w")))
    dilation = (int(node.get("dilation_h_factor")), int(node.get("dilation_w_factor")))
    padding = padding_of(node, x, (kh, kw), strides, dilation)
    channels, outputs = x.shape[3], weights.shape[3 if depthwise else 0]
    quant = weights.quant
    if depthwise:
        if not isinstance(channels, int) or channels < 1 or outputs % channels:
            raise ValueError(f"{channels} channels do not divide its {outputs} results")
        kernel = node.reshape(weights, (kh, kw, 1, outputs))
        groups = channels
    else:
        kernel = node.transpose(weights, (1, 2, 3, 0))
        taken = weights.known_extent(3)
        if not isinstance(channels, int) or channels % taken:
            raise ValueError(f"its weights take {taken} of {channels} channels")
        groups = channels // taken
    attrs: dict[str, Any] = {
        "strides": strides, "padding": padding, "dilation": dilation, "groups": groups, "channels": outputs,
        "kernel_size": (kh, kw), **LAYOUT,
    }  # fmt: skip
    if quantized(node, x):
        assert quant is not None
        (source,) = need_single(node, x)
        sums = whole_conv(node, x, source, kernel, quant, attrs)
        return finished(node, sums, source, quant, bias)
    if hybrid(x, weights):
        assert quant is not None
        whole = symmetric(node, weights, (outputs,) if depthwise else (1, outputs), () if depthwise else (1,))
        kernel = node.reshape(whole, kernel.shape) if depthwise else node.transpose(whole, (1, 2, 3, 0))
        # For scales per channel the kernel quantises with a zero point, else symmetrically.
        rough = rounded(node, x, asymmetric=depthwise or not quant.single)
        return node.activated(biased(node, rough.times(node, hybrid_conv(node, rough, kernel, attrs), whole), bias))
    return node.activated(biased(node, node.call("nn.conv2d", x, real(node, kernel, quant), **attrs), bias))


def whole_conv(
    node: Node, x: Value, source: Quant, kernel: Value, quant: Quant, attrs: dict[str, Any], key: str = "qnn.conv2d"
) -> Value:
    """Sums of integer products without the zero points' part: int32, or int64 for 16-bit data."""
    # Signed weights are symmetric, whatever the model declares: CONV_2D refuses others, the other kernels ignore their zero point.
    kernel_zero = zero(quant.offset if kernel.dtype == "uint8" else 0)
    if node.name == "CONV_2D" and kernel.dtype != "uint8":
        need_centred(kernel, quant)

    def made(data: Value, offset: int) -> Value:
        return node.call(
            key, data, kernel, zero(offset), kernel_zero, Value(array=ONE), Value(array=ONE), out_dtype="int32", **attrs
        )

    if x.dtype != "int16":
        return made(x, source.offset)
    need_centred(x, source)
    high, low = halves_for(node, x, kernel)
    return joined(node, made(high, 0), made(low, 0))


def hybrid_conv(node: Node, rough: Rounded, kernel: Value, attrs: dict[str, Any]) -> Value:
    """Sums of products of quantised floats, minus the zero points, which differ between examples."""
    top, left, bottom, right = attrs["padding"]
    data = rough.whole
    if rough.offset is not None:
        # Padding must be the example's zero point. So the zero points are subtracted first, and the data padded with 0.
        data = node.call("subtract", node.cast(data, "int16"), node.cast(rough.offset, "int16"))
        data, plain_attrs = node.cast(data, "int32"), {**attrs, "out_dtype": "int32"}
        return node.call("nn.conv2d", data, node.cast(kernel, "int32"), **plain_attrs)
    return node.call(
        "qnn.conv2d", data, kernel, zero(0), zero(0), Value(array=ONE), Value(array=ONE), out_dtype="int32", **attrs
    )


@tflite_op("TRANSPOSE_CONV")
def _transpose_conv(node: Node, shape: Value, weights: Value, x: Value, bias: Value | None = None) -> Value:
    kh, kw = weights.shape[1:3]
    strides = (int(node.get("stride_h")), int(node.get("stride_w")))
    extents = node.ints(shape, "output shape")
    padding, extra = transposed_padding(x.shape[1:3], extents[1:3], known_extents((kh, kw)), strides, is_same(node))
    attrs: dict[str, Any] = {
        "strides": strides, "padding": padding, "output_padding": extra, "channels": weights.shape[0], "kernel_size": (kh, kw),
    }  # fmt: skip
    if quantized(node, x):
        quant = weights.quant
        assert quant is not None
        (source,) = need_single(node, x)
        turned, kernel_first = node.transpose(x, (0, 3, 1, 2)), node.transpose(weights, (3, 0, 1, 2))
        sums = whole_conv(node, turned, source, kernel_first, quant, attrs, "qnn.conv2d_transpose")
        return finished(node, node.transpose(sums, (0, 2, 3, 1)), source, quant, bias)
    if hybrid(x, weights):
        whole = symmetric(node, weights, (1, weights.shape[0]))
        rough = rounded(node, x, asymmetric=True)
        assert rough.offset is not None
        data = node.transpose(node.call("subtract", node.cast(rough.whole, "int32"), rough.offset), (0, 3, 1, 2))
        kernel = node.cast(node.transpose(whole, (3, 0, 1, 2)), "int32")
        sums = node.call("nn.conv2d_transpose", data, kernel, out_dtype="int32", **attrs)
        return node.activated(biased(node, rough.times(node, node.transpose(sums, (0, 2, 3, 1)), whole), bias))
    return node.activated(_spread(node, x, weights, bias, attrs))


def _spread(node: Node, x: Value, weights: Value, bias: Value | None, attrs: dict[str, Any]) -> Value:
    """A transposed convolution of floats."""
    kernel = real(node, weights)
    made = node.call(
        "nn.conv2d_transpose", node.transpose(x, (0, 3, 1, 2)), node.transpose(kernel, (3, 0, 1, 2)), **attrs
    )
    return biased(node, node.transpose(made, (0, 2, 3, 1)), bias)


@tflite_op("Convolution2DTransposeBias")
def _transpose_conv_bias(node: Node, x: Value, weights: Value, bias: Value) -> Value:
    """MediaPipe's own transposed convolution, with integer options: padding (1: same, 2: valid), stride_w, stride_h."""
    kh, kw = weights.shape[1:3]
    padded, across, down = np.frombuffer(bytes(node.record.custom_options), "<i4", 3).tolist()
    if padded not in (1, 2) or min(across, down) < 1:
        raise OpNotImplemented(f"its options are padding {padded}, strides {across} and {down}; padding is 1 or 2")
    window, strides = (kh, kw), (down, across)
    wanted = [
        d if not isinstance(d, int) else d * s if padded == 1 else (d - 1) * s + k
        for d, s, k in zip(x.shape[1:3], strides, window, strict=True)
    ]
    padding, extra = transposed_padding(x.shape[1:3], wanted, known_extents(window), strides, padded == 1)
    attrs = {
        "strides": strides,
        "padding": padding,
        "output_padding": extra,
        "channels": weights.shape[0],
        "kernel_size": window,
    }
    return _spread(node, x, weights, bias, attrs)


def transposed_padding(
    extents: Sequence[Dim], wanted: Sequence[Dim], window: Sequence[int], strides: Sequence[int], same: bool
) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """(padding, output padding) of a transposed convolution for a result of the wanted extents."""
    before, behind, extra = [], [], []
    for d, n, k, s in zip(extents, wanted, window, strides, strict=True):
        if not isinstance(d, int) or not isinstance(n, int):
            raise OpNotImplemented(
                "the extents of its input and result must be known. Pin the input shapes: shape_dict={name: (...)}"
            )
        full = (d - 1) * s + k
        # The padding of the convolution that it inverts, from the result's extents.
        total = max((-(-n // s) - 1) * s + k - n, 0) if same else 0
        before.append(total // 2)
        rest = full - total // 2 - n
        behind.append(max(rest, 0))
        extra.append(max(-rest, 0))
    return (*before, *behind), tuple(extra)


@tflite_op("CONV_3D")
def _conv3d(node: Node, x: Value, weights: Value, bias: Value | None = None) -> Value:
    window = weights.shape[:3]
    strides = tuple([int(node.get(f"stride_{a}")) for a in "dhw"])
    dilation = tuple([int(node.get(f"dilation_{a}_factor")) for a in "dhw"])
    channels, outputs = weights.shape[3:]
    made = node.call(
        "nn.conv3d", node.transpose(x, (0, 4, 1, 2, 3)), node.transpose(weights, (4, 3, 0, 1, 2)), strides=strides,
        padding=padding_of(node, x, window, strides, dilation), dilation=dilation, groups=x.shape[4] // channels, channels=outputs,
        kernel_size=tuple(window),
    )  # fmt: skip
    return node.activated(biased(node, node.transpose(made, (0, 2, 3, 4, 1)), bias))


@tflite_op("CONV_3D_TRANSPOSE")
def _conv3d_transpose(node: Node, shape: Value, weights: Value, x: Value, bias: Value | None = None) -> Value:
    window = known_extents(weights.shape[:3])
    strides = tuple([int(node.get(f"stride_{a}")) for a in "dhw"])
    dilation = tuple([int(node.get(f"dilation_{a}_factor")) for a in "dhw"])
    extents = node.ints(shape, "output shape")
    reach = [(k - 1) * d + 1 for k, d in zip(window, dilation, strict=True)]
    padding, extra = transposed_padding(x.shape[1:4], extents[1:4], reach, strides, is_same(node))
    made = node.call(
        "nn.conv3d_transpose", node.transpose(x, (0, 4, 1, 2, 3)), node.transpose(weights, (4, 3, 0, 1, 2)), strides=strides,
        padding=padding, output_padding=extra, dilation=dilation, channels=weights.shape[3], kernel_size=tuple(window),
    )  # fmt: skip
    return node.activated(biased(node, node.transpose(made, (0, 2, 3, 4, 1)), bias))


# ---- products


@tflite_op("FULLY_CONNECTED")
def _fully_connected(node: Node, x: Value, weights: Value, bias: Value | None = None) -> Value:
    if int(node.get("weights_format")):
        raise OpNotImplemented("its weights are shuffled (SHUFFLED4x16INT8); supported: the DEFAULT format")
    units, depth = weights.shape
    shape = x.shape
    kept = [*shape[:-1], units] if node.get("keep_num_dims", False) else None
    rows = x if x.ndim == 2 and shape[1] == depth else node.reshape(x, [-1, depth])
    rows.quant = x.quant
    made = _product(node, rows, weights, bias)
    return node.reshape(made, kept) if kept is not None else made


def _product(node: Node, x: Value, weights: Value, bias: Value | None) -> Value:
    quant = weights.quant
    units = weights.shape[0]
    if quantized(node, x):
        assert quant is not None
        (source,) = need_single(node, x)
        kernel_zero = zero(quant.offset if quant.single else 0)

        def made(data: Value, offset: int) -> Value:
            return node.call(
                "qnn.dense",
                data,
                weights,
                zero(offset),
                kernel_zero,
                Value(array=ONE),
                Value(array=ONE),
                units=units,
                out_dtype="int32",
            )

        if x.dtype == "int16":
            need_centred(x, source)
            high, low = halves_for(node, x, weights)
            sums = joined(node, made(high, 0), made(low, 0))
        else:
            sums = made(x, source.offset)
        return finished(node, sums, source, quant, bias)
    return node.activated(biased(node, Rows(node, x, (1, units)).times(weights), bias))


@tflite_op("BATCH_MATMUL")
def _batch_matmul(node: Node, a: Value, b: Value) -> Value:
    turn_a, turn_b = bool(node.get("adj_x", False)), bool(node.get("adj_y", False))
    qa, qb = a.quant, b.quant
    whole = symmetric(node, b, (1, b.shape[-2 if turn_b else -1])) if hybrid(a, b) else None
    b = b if whole is None else whole

    def turned(x: Value) -> Value:
        return node.transpose(x, [*range(x.ndim - 2), x.ndim - 1, x.ndim - 2])

    a, b = (turned(a) if turn_a else a), (b if turn_b else turned(b))  # (.., n, k), (.., m, k)
    lead = _broadcast(a.shape[:-2], b.shape[:-2])

    def flat(x: Value) -> Value:
        wide = node.broadcast(x, [*lead, *x.shape[-2:]])
        return wide if wide.ndim == 3 else node.reshape(wide, [-1, *x.shape[-2:]] if lead else [1, *x.shape[-2:]])

    shape = [*lead, a.shape[-2], b.shape[-2]]
    if node.integer and qa is not None and qb is not None:
        target = out_quant(node)

        def made(data: Value, offset: int) -> Value:
            assert qb is not None
            return node.call(
                "qnn.batch_matmul",
                flat(data),
                flat(b),
                zero(offset),
                zero(qb.offset),
                Value(array=ONE),
                Value(array=ONE),
                out_dtype="int32",
            )

        if a.dtype == "int16":
            need_centred(a, qa)
            need_centred(b, qb)
            wide = wide_product(node, flat(a), flat(b))
            sums = scaled_wide(node, wide, float(qa.scale[0] * qb.scale[0]) / target.step)
        else:
            sums = scaled(node, made(a, qa.offset), float(qa.scale[0] * qb.scale[0]) / target.step)
        low, high = limits(node.out.dtype)
        return node.reshape(stored(node, sums, target.offset, low, high, node.out.dtype), shape)
    if whole is not None:
        rows = node.reshape(a, [-1, a.shape[-1]])
        rough = rounded(node, rows, bool(node.get("asymmetric_quantize_inputs", False)))
        data = node.cast(rough.whole, "int32")
        if rough.offset is not None:
            data = node.call("subtract", data, rough.offset)
        left = flat(node.reshape(data, a.shape))
        sums = node.call("nn.batch_matmul", left, node.cast(flat(b), "int32"), out_dtype="int32", transpose_b=True)
        rough.scale = node.reshape(rough.scale, [*a.shape[:-1], 1])
        return rough.times(node, node.reshape(sums, shape), whole)
    if node.out.dtype in ("int8", "uint8", "int16"):
        raise OpNotImplemented(f"its result is of {node.out.dtype} without a scale")
    out = a.dtype if a.dtype != "int8" else "int32"
    return node.reshape(node.call("nn.batch_matmul", flat(a), flat(b), out_dtype=out, transpose_b=True), shape)


def wide_product(node: Node, a: Value, b: Value) -> Value:
    """Sums of products of 16-bit numbers in int64, from products of bytes."""
    ah, al = halves(node, a)
    bh, bl = halves(node, b)

    def part(x: Value, y: Value, shift: int) -> Value:
        sums = node.call(
            "nn.batch_matmul", node.cast(x, "int32"), node.cast(y, "int32"), out_dtype="int32", transpose_b=True
        )
        wide = node.cast(sums, "int64")
        return node.call("left_shift", wide, shift) if shift else wide

    outer = node.call("add", part(ah, bh, 16), part(al, bl, 0))
    return node.call("add", outer, node.call("add", part(ah, bl, 8), part(al, bh, 8)))


def _broadcast(a: Sequence[Any], b: Sequence[Any]) -> list[Any]:
    short, long = sorted([list(a), list(b)], key=len)
    short = [1] * (len(long) - len(short)) + short
    return [q if isinstance(p, int) and p == 1 else p for p, q in zip(short, long, strict=True)]


# ---- pooling


def _window(node: Node, x: Value) -> dict[str, Any]:
    window = (int(node.get("filter_height")), int(node.get("filter_width")))
    strides = (int(node.get("stride_h")), int(node.get("stride_w")))
    if min(*window, *strides) < 1:
        raise OpNotImplemented(f"its windows are {window} elements large and {strides} apart; each must be at least 1")
    padding = padding_of(node, x, window, strides, (1, 1))
    return {"pool_size": window, "strides": strides, "padding": padding, "layout": "NHWC"}


def clamped(node: Node, x: Value) -> Value:
    """The result after the fused activation of an operator that keeps its scale."""
    low, high = activation_range(node, out_quant(node), node.out.dtype)
    if (low, high) == limits(node.out.dtype):
        return x
    return node.call("clip", x, a_min=float(low), a_max=float(high))


@tflite_op("MAX_POOL_2D")
def _max_pool(node: Node, x: Value) -> Value:
    made = node.call("nn.max_pool2d", x, **_window(node, x))
    return clamped(node, made) if quantized(node, x) else node.activated(made)


@tflite_op("AVERAGE_POOL_2D")
def _average_pool(node: Node, x: Value) -> Value:
    attrs = _window(node, x)
    if not quantized(node, x):
        return node.activated(node.call("nn.avg_pool2d", x, count_include_pad=False, **attrs))
    sums, count = window_sums(node, node.cast(x, "int32"), attrs)
    half = node.call("right_shift", count, 1)
    away = node.call(
        "where", node.call("greater", sums, 0), node.call("add", sums, half), node.call("subtract", sums, half)
    )
    low, high = activation_range(node, out_quant(node), node.out.dtype)
    return stored(node, node.call("trunc_divide", away, count), 0, low, high, node.out.dtype)


def window_sums(node: Node, x: Value, attrs: dict[str, Any]) -> tuple[Value, Value]:
    """(sums over windows, the number of elements of each window inside the data)."""
    kh, kw = attrs["pool_size"]
    if tuple(x.shape[1:3]) == (kh, kw) and attrs["padding"] == (0,) * 4:
        return node.call("sum", x, axis=(1, 2), keepdims=True), node.number(kh * kw, x.dtype)
    channels = x.known_extent(3)
    conv = {
        "strides": attrs["strides"], "padding": attrs["padding"], "kernel_size": (kh, kw), **LAYOUT,
        "groups": channels, "channels": channels,
    }  # fmt: skip
    ones = Value(array=np.ones((kh, kw, 1, channels), x.dtype))
    sums = node.call("nn.conv2d", x, ones, out_dtype=x.dtype, **conv)
    top, left, bottom, right = attrs["padding"]
    height, width = x.shape[1:3]
    if not any([isinstance(p, int) is False or p for p in attrs["padding"]]):
        return sums, node.number(kh * kw, x.dtype)
    if not isinstance(height, int) or not isinstance(width, int):
        raise OpNotImplemented(
            "the height and width that it pools must be known. Pin the input shapes: shape_dict={name: (...)}"
        )

    def counts(extent: int, k: int, s: int, before: int, behind: int) -> np.ndarray:
        small([extent + before + behind], "an axis that it pools")
        places = np.arange((extent + before + behind - k) // s + 1) * s - before
        return np.minimum(places + k, extent) - np.maximum(places, 0)

    rows = counts(height, kh, attrs["strides"][0], top, bottom)
    columns = counts(width, kw, attrs["strides"][1], left, right)
    return sums, Value(array=np.multiply.outer(rows, columns)[None, :, :, None].astype(x.dtype))


@tflite_op("L2_POOL_2D")
def _l2_pool(node: Node, x: Value) -> Value:
    mean = node.call("nn.avg_pool2d", node.call("multiply", x, x), count_include_pad=False, **_window(node, x))
    return node.activated(node.call("sqrt", mean))
