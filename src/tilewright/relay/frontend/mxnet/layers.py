"""Converters of layers: convolutions, pooling, normalisation, activations, recurrent layers, boxes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tilewright.relay.frontend.common import activations
from tilewright.relay.frontend.common.value import Value
from tilewright.relay.frontend.mxnet.node import SymbolNode, converters
from tilewright.support.errors import OpNotImplemented

SPACE = ("", "W", "HW", "DHW")


@converters.of("FullyConnected")
def _dense(c: SymbolNode, x: Value, weight: Value, bias: Value | None = None) -> Value:
    c.need("num_hidden")
    units = c.whole("num_hidden")
    flat = c.flag("flatten", True)
    shape = x.shape
    if x.ndim != 2:
        x = c.call("nn.batch_flatten", x) if flat else c.reshape(x, [-1, shape[-1]])
    out = c.call("nn.dense", x, weight, units=units)
    out = out if bias is None or c.flag("no_bias") else c.call("nn.bias_add", out, bias)
    return out if flat or len(shape) == 2 else c.reshape(out, [*shape[:-1], units])


def _windows(c: SymbolNode, name: str, axes: int, default: int) -> list[int]:
    found = c.ints(name, (default,) * axes)
    return found or [default] * axes


def _kernel(c: SymbolNode) -> list[int]:
    """The extents of a convolution's kernel."""
    c.need("kernel", "num_filter")
    kernel = c.ints("kernel")
    if not 1 <= len(kernel) <= 3:
        raise c.refuse("kernel", tuple(kernel), "1 to 3 extents")
    return kernel


def _layout(c: SymbolNode, axes: int) -> str:
    return c.text("layout", f"NC{SPACE[axes]}")


def _channel_axis(layout: str) -> int:
    return layout.index("C")


@converters.of("Convolution", "Convolution_v1")
def _conv(c: SymbolNode, x: Value, weight: Value, bias: Value | None = None) -> Value:
    kernel = _kernel(c)
    axes = len(kernel)
    layout = _layout(c, axes)
    space = SPACE[axes]
    out = c.call(
        f"nn.conv{axes}d", x, weight, strides=tuple(_windows(c, "stride", axes, 1)), padding=tuple(_windows(c, "pad", axes, 0) * 2),
        dilation=tuple(_windows(c, "dilate", axes, 1)), groups=c.whole("num_group", 1), channels=c.whole("num_filter"),
        kernel_size=tuple(kernel), data_layout=layout, kernel_layout=f"OI{space}" if layout[1] == "C" else f"O{space}I",
    )  # fmt: skip
    return out if bias is None or c.flag("no_bias") else c.call("nn.bias_add", out, bias, axis=_channel_axis(layout))


@converters.of("Deconvolution")
def _deconv(c: SymbolNode, x: Value, weight: Value, bias: Value | None = None) -> Value:
    kernel = _kernel(c)
    axes = len(kernel)
    layout = _layout(c, axes)
    if layout[1] != "C":
        raise c.refuse("layout", layout, f"NC{SPACE[axes]}")
    if any(d > 1 for d in _windows(c, "dilate", axes, 1)):
        raise c.refuse("dilate", c.text("dilate"), "1")
    strides, pads, added = _windows(c, "stride", axes, 1), _windows(c, "pad", axes, 0), _windows(c, "adj", axes, 0)
    before, after = pads, list(pads)
    target = c.ints("target_shape")
    if target and any(target):
        extents = c.static(x.shape[2:], "the extents of its input")
        totals = [(e - 1) * s + k - t for e, s, k, t in zip(extents, strides, kernel, target, strict=True)]
        added = [max(-t, 0) + max(t, 0) % 2 for t in totals]
        before = after = [(max(t, 0) + 1) // 2 for t in totals]
    out = c.call(
        f"nn.conv{axes}d_transpose", x, weight, strides=tuple(strides), padding=(*before, *after), groups=c.whole("num_group", 1),
        channels=c.whole("num_filter"), kernel_size=tuple(kernel), output_padding=tuple(added),
    )  # fmt: skip
    return out if bias is None or c.flag("no_bias", True) else c.call("nn.bias_add", out, bias, axis=1)


@converters.of("Pooling")
def _pool(c: SymbolNode, x: Value) -> Value:
    kind = c.text("pool_type", "max")
    axes = x.ndim - 2
    layout = _layout(c, axes)
    if kind not in ("max", "avg"):
        raise c.refuse("pool_type", kind, "max, avg")
    start = 2 if layout[1] == "C" else 1
    if c.flag("global_pool"):
        return c.reduce("max" if kind == "max" else "mean", x, list(range(start, start + axes)), keepdims=True)
    c.need("kernel")
    kernel, pads = c.ints("kernel"), _windows(c, "pad", axes, 0)
    strides = _windows(c, "stride", axes, 1)
    convention = c.text("pooling_convention", "valid")
    attrs: dict[str, Any] = {} if kind == "max" else {"count_include_pad": c.flag("count_include_pad", True)}
    if convention not in ("valid", "full"):
        raise c.refuse("pooling_convention", convention, "valid, full")
    return c.call(
        f"nn.{kind}_pool{axes}d", x, pool_size=tuple(kernel), strides=tuple(strides), padding=(*pads, *pads), layout=layout,
        ceil_mode=convention == "full", **attrs,
    )  # fmt: skip


@converters.of("_contrib_AdaptiveAvgPooling2D")
def _adaptive(c: SymbolNode, x: Value) -> Value:
    size = c.ints("output_size") or [1]
    return c.call("nn.adaptive_avg_pool2d", x, output_size=tuple(size * 2 if len(size) == 1 else size))


@converters.of("BatchNorm", "BatchNorm_v1", "CuDNNBatchNorm", "_contrib_SyncBatchNorm")
def _batch_norm(c: SymbolNode, x: Value, gamma: Value, beta: Value, mean: Value, variance: Value) -> list[Value]:
    axis = c.axis(c.whole("axis", 1), x.ndim)
    return c.calls(
        "nn.batch_norm", x, gamma, beta, mean, variance, axis=axis, epsilon=c.real("eps", 1e-3), center=True,
        scale=not c.flag("fix_gamma", True),
    )[:1]  # fmt: skip


@converters.of("LayerNorm")
def _layer_norm(c: SymbolNode, x: Value, gamma: Value, beta: Value) -> Value:
    return c.call(
        "nn.layer_norm", x, gamma, beta, axis=c.axis(c.whole("axis", -1), x.ndim), epsilon=c.real("eps", 1e-5)
    )


@converters.of("InstanceNorm")
def _instance_norm(c: SymbolNode, x: Value, gamma: Value, beta: Value) -> Value:
    return c.call("nn.instance_norm", x, gamma, beta, axis=1, epsilon=c.real("eps", 1e-3))


@converters.of("GroupNorm")
def _group_norm(c: SymbolNode, x: Value, gamma: Value, beta: Value) -> Value:
    groups = c.whole("num_groups", 1)
    if gamma.shape == [groups] and x.shape[1] != groups:
        # A factor and a shift for each group, not for each channel.
        (channels,) = c.static([x.shape[1]], "the number of its channels")
        gamma, beta = (c.call("repeat", v, repeats=channels // groups, axis=0) for v in (gamma, beta))
    return c.call("nn.group_norm", x, gamma, beta, num_groups=groups, axis=1, epsilon=c.real("eps", 1e-5))


@converters.of("L2Normalization")
def _l2(c: SymbolNode, x: Value) -> Value:
    mode = c.text("mode", "instance")
    axes = {"instance": list(range(1, x.ndim)), "channel": [1], "spatial": list(range(2, x.ndim))}.get(mode)
    if axes is None:
        raise c.refuse("mode", mode, "instance, channel, spatial")
    squares = c.reduce("sum", c.call("multiply", x, x), axes, keepdims=True)
    return c.call("divide", x, c.call("sqrt", c.call("add", squares, c.real("eps", 1e-10))))


@converters.of("LRN")
def _lrn(c: SymbolNode, x: Value) -> Value:
    return c.call(
        "nn.lrn",
        x,
        size=c.whole("nsize"),
        axis=1,
        bias=c.real("knorm", 2.0),
        alpha=c.real("alpha", 1e-4),
        beta=c.real("beta", 0.75),
    )


# ---- activations


ACTIVATIONS: dict[str, Any] = {
    "relu": lambda c, x: c.call("nn.relu", x),
    "sigmoid": lambda c, x: c.call("sigmoid", x),
    "tanh": lambda c, x: c.call("tanh", x),
    "softrelu": activations.softplus,
    "softsign": activations.softsign,
}


@converters.of("Activation")
def _activation(c: SymbolNode, x: Value) -> Value:
    kind = c.text("act_type")
    if kind not in ACTIVATIONS:
        raise c.refuse("act_type", kind, ", ".join(ACTIVATIONS))
    made: Value = ACTIVATIONS[kind](c, x)
    return made


@converters.of("LeakyReLU")
def _leaky(c: SymbolNode, x: Value, gamma: Value | None = None) -> Value:
    kind, slope = c.text("act_type", "leaky"), c.real("slope", 0.25)
    if kind == "leaky":
        return c.call("nn.leaky_relu", x, alpha=slope)
    if kind == "rrelu":
        return c.call("nn.leaky_relu", x, alpha=(c.real("lower_bound", 0.125) + c.real("upper_bound", 0.334)) / 2)
    if kind == "prelu":
        gamma = c.given(gamma, "gamma", "act_type=prelu")
        if gamma.shape == [1] and x.shape[1] != 1:
            return c.call("where", c.call("greater", x, 0.0), x, c.call("multiply", x, gamma))
        return c.call("nn.prelu", x, gamma, axis=1)
    if kind == "gelu":
        return activations.gelu(c, x)
    if kind in ("elu", "selu"):
        return activations.elu(c, x, slope) if kind == "elu" else activations.selu(c, x)
    raise c.refuse("act_type", kind, "leaky, prelu, elu, selu, gelu, rrelu")


@converters.of("softmax", "log_softmax", "softmin")
def _softmax(c: SymbolNode, x: Value, lengths: Value | None = None) -> Value:
    if lengths is not None and c.flag("use_length"):
        raise OpNotImplemented("it takes lengths (use_length)")
    axis, heat = c.axis(c.whole("axis", -1), x.ndim), c.real("temperature", 1.0)
    heat = -heat if c.kind == "softmin" else heat
    kind = c.text("dtype", x.dtype)
    x = c.wider(x, kind)
    x = x if heat == 1 else c.call("multiply", x, 1 / heat)
    return c.cast(c.call("nn.log_softmax" if c.kind == "log_softmax" else "nn.softmax", x, axis=axis), kind)


@converters.of("SoftmaxOutput", "Softmax", "SoftmaxActivation")
def _softmax_output(c: SymbolNode, x: Value, label: Value | None = None) -> Value:
    if c.flag("multi_output") or c.text("mode", "instance") == "channel":
        return c.call("nn.softmax", x, axis=1)
    if x.ndim == 2 or c.flag("preserve_shape"):
        return c.call("nn.softmax", x, axis=x.ndim - 1)
    return c.reshape(c.call("nn.softmax", c.call("nn.batch_flatten", x), axis=1), x.shape)


@converters.of("LinearRegressionOutput", "MAERegressionOutput", "LogisticRegressionOutput", "SVMOutput")
def _regression(c: SymbolNode, x: Value, label: Value | None = None) -> Value:
    return c.call("sigmoid", x) if c.kind == "LogisticRegressionOutput" else x


@converters.of("Dropout")
def _dropout(c: SymbolNode, x: Value) -> Value:
    if c.text("mode", "training") == "always":
        raise OpNotImplemented("it drops elements also when the model runs (mode='always')")
    return x


# ---- sizes of images


@converters.of("UpSampling")
def _upsampling(c: SymbolNode, x: Value, *more: Value) -> Value:
    scale, kind = c.whole("scale", 1), c.text("sample_type", "nearest")
    if kind == "bilinear" and len(more) == 1:
        # A transposed convolution of each channel, with the weights of the model.
        size, pad = 2 * scale - scale % 2, scale // 2
        (channels,) = c.static([x.shape[1]], "the number of its channels")
        return c.call(
            "nn.conv2d_transpose", x, more[0], strides=(scale, scale), padding=(pad,) * 4, channels=channels, kernel_size=(size, size),
            groups=channels,
        )  # fmt: skip
    if kind != "nearest" or more:
        raise OpNotImplemented(f"it has sample_type={kind} and {1 + len(more)} inputs")
    return c.call("nn.upsampling", x, scale_h=scale, scale_w=scale, method="nearest_neighbor")


@converters.of("_contrib_BilinearResize2D")
def _bilinear(c: SymbolNode, x: Value, like: Value | None = None) -> Value:
    mode = c.text("mode", "size")
    extents = c.static(x.shape[2:], "the rows and columns of its input")
    if like is not None and mode == "like":
        size = c.static(like.shape[2:], "the rows and columns of its result")
    elif c.has("scale_height"):
        size = [int(e * c.real(k)) for e, k in zip(extents, ("scale_height", "scale_width"), strict=True)]
    elif mode == "size":
        size = [c.whole("height", 1), c.whole("width", 1)]
    else:
        raise c.refuse("mode", mode, "size, like")
    how = "align_corners" if c.flag("align_corners", True) else "half_pixel"
    return c.call(
        "image.resize2d", x, size=tuple(size), layout="NCHW", method="linear", coordinate_transformation_mode=how
    )


# ---- recurrent layers


@converters.of("RNN")
def _rnn(c: SymbolNode, x: Value, weights: Value, state: Value, *more: Value) -> list[Value]:
    if c.flag("use_sequence_length"):
        raise OpNotImplemented("it takes the lengths of the sequences (use_sequence_length)")
    if c.has("lstm_state_clip_min") or c.has("lstm_state_clip_max"):
        raise OpNotImplemented("it bounds the states (lstm_state_clip_min, lstm_state_clip_max)")
    c.need("mode", "state_size", "num_layers")
    kind, hidden, layers = c.text("mode"), c.whole("state_size"), c.whole("num_layers")
    gates = {"lstm": 4, "gru": 3, "rnn_tanh": 1, "rnn_relu": 1}.get(kind)
    if gates is None or c.has("projection_size"):
        raise OpNotImplemented(f"it has mode={kind} and projection_size={c.text('projection_size', 'None')}")
    cell = c.given(more[0] if more else None, "state_cell", "mode=lstm") if kind == "lstm" else None
    sides = 2 if c.flag("bidirectional") else 1
    (width,) = c.static([x.shape[2]], "the number of its input's columns")
    parts = _rnn_weights(c, weights, layers, sides, gates * hidden, width, hidden)
    finals: list[Value] = []
    cells: list[Value] = []
    for layer in range(layers):
        outs = []
        for side in range(sides):
            k = layer * sides + side
            begin = (c.at(state, 0, k), c.at(cell, 0, k) if cell is not None else None)
            out, h, s = _steps(c, kind, x, parts[k], begin, bool(side))
            outs.append(out)
            finals.append(h)
            cells += [s] if s is not None else []
        x = c.concatenate(outs, 2)
    results = [x, c.call("stack", finals, axis=0)]
    return [*results, c.call("stack", cells, axis=0)] if cells else results


def _rnn_weights(
    c: SymbolNode, packed: Value, layers: int, sides: int, rows: int, width: int, hidden: int
) -> list[list[Value]]:
    """Weights of inputs and states, and their biases, of each layer and side. They lie one after the other: first all weights."""
    shapes: list[tuple[int, ...]] = []
    for layer in range(layers):
        inner = width if layer == 0 else hidden * sides
        shapes += [(rows, inner), (rows, hidden)] * sides
    shapes += [(rows,), (rows,)] * (layers * sides)
    found, at = [], 0
    for shape in shapes:
        count = int(np.prod(shape))
        found.append(c.reshape(c.cut(packed, 0, at, at + count), shape))
        at += count
    half = 2 * layers * sides
    return [[*found[2 * k : 2 * k + 2], *found[half + 2 * k : half + 2 * k + 2]] for k in range(layers * sides)]


def _steps(
    c: SymbolNode, kind: str, x: Value, parts: Sequence[Value], begin: tuple[Value, Value | None], back: bool
) -> tuple[Value, Value, Value | None]:
    """(all outputs, the last state, the last cell) of one layer in one direction."""
    w_in, w_state, b_in, b_state = parts
    h, s = begin
    steps, outs = c.steps(x, 0), []
    for step in steps[::-1] if back else steps:
        left = c.call("nn.bias_add", c.call("nn.dense", step, w_in), b_in)
        right = c.call("nn.bias_add", c.call("nn.dense", h, w_state), b_state)
        if kind == "gru":
            (r, z, n), (hr, hz, hn) = c.split(left, 3, 1), c.split(right, 3, 1)
            r, z = c.call("sigmoid", c.call("add", r, hr)), c.call("sigmoid", c.call("add", z, hz))
            n = c.call("tanh", c.call("add", n, c.call("multiply", r, hn)))
            h = c.call("add", n, c.call("multiply", z, c.call("subtract", h, n)))
        elif s is not None:  # an LSTM
            i, f, g, o = c.split(c.call("add", left, right), 4, 1)
            s = c.call(
                "add",
                c.call("multiply", c.call("sigmoid", f), s),
                c.call("multiply", c.call("sigmoid", i), c.call("tanh", g)),
            )
            h = c.call("multiply", c.call("sigmoid", o), c.call("tanh", s))
        else:
            h = c.call("tanh" if kind == "rnn_tanh" else "nn.relu", c.call("add", left, right))
        outs.append(h)
    return c.call("stack", outs[::-1] if back else outs, axis=0), h, s


# ---- boxes


@converters.of("_contrib_MultiBoxPrior", "MultiBoxPrior")
def _priors(c: SymbolNode, x: Value) -> Value:
    given = {k: tuple(float(v) for v in c.parsed(k, d)) for k, d in (("sizes", (1.0,)), ("ratios", (1.0,)))}
    places = {k: tuple(float(v) for v in c.parsed(k, d)) for k, d in (("steps", (-1.0, -1.0)), ("offsets", (0.5, 0.5)))}
    return c.call("vision.multibox_prior", x, **given, **places, clip=c.flag("clip"))


@converters.of("ROIPooling")
def _roi_pool(c: SymbolNode, x: Value, boxes: Value) -> Value:
    size = tuple(c.ints("pooled_size"))
    return c.call("vision.roi_pool", x, boxes, pooled_size=size, spatial_scale=c.real("spatial_scale"), layout="NCHW")


@converters.of("_contrib_ROIAlign")
def _roi_align(c: SymbolNode, x: Value, boxes: Value) -> Value:
    return c.call(
        "vision.roi_align", x, boxes, pooled_size=tuple(c.ints("pooled_size")), spatial_scale=c.real("spatial_scale"),
        sample_ratio=c.whole("sample_ratio", -1), layout="NCHW", mode="avg",
    )  # fmt: skip
