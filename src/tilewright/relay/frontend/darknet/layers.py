"""Converters of Darknet's layers. Data are (batch, channels, rows, columns)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from tilewright.formats.darknet import LAYERTYPE, Layer, padding_of, sources
from tilewright.relay.frontend.common import activations
from tilewright.relay.frontend.common.builder import Builder
from tilewright.relay.frontend.common.listed import Converters, ListedNode
from tilewright.relay.frontend.common.value import Value, near_text
from tilewright.support.errors import OpNotImplemented

if TYPE_CHECKING:
    from tilewright.relay.frontend.darknet.frontend import DarknetImporter

converters = Converters()
"""Converters by the name of the section."""
REASONS = {
    "normalization": "its sums leave out a channel at the border",
    "crnn": "recurrent convolutions keep a state of images",
    "logxent": "it belongs to training",
    "xnor": "its weights are single bits",
    "blank": "it has no result",
}
"""Why layers are not supported."""


class LayerNode(ListedNode):
    """The layer that is being converted: `layer`, its number `k`, and the import."""

    __slots__ = ("k", "layer", "walk")

    def __init__(self, layer: Layer, k: int, name: str, home: DarknetImporter) -> None:
        super().__init__(layer.section.kind, name, home)
        self.layer, self.k, self.walk = layer, k, home

    def parameter(self, name: str, array: np.ndarray) -> Value:
        """A weight in the type of the program."""
        return self.weight(name, np.ascontiguousarray(array, self.walk.dtype))

    def image(self, x: Value) -> Value:
        """The input as channels, rows and columns."""
        layer = self.layer
        return self.reshape(x, [x.shape[0], layer.c, layer.h, layer.w])

    def flat(self, x: Value) -> Value:
        """The input as one axis of elements."""
        return x if x.ndim == 2 else self.call("nn.batch_flatten", x)


# ---- activations


def _hardtan(c: Builder, x: Value) -> Value:
    return c.call("clip", x, a_min=-1.0, a_max=1.0)


def _line(c: Builder, x: Value, factor: float, shift: float = 0.0) -> Value:
    scaled = c.call("multiply", x, factor)
    return c.call("add", scaled, shift) if shift else scaled


def _selu(c: Builder, x: Value) -> Value:
    # With Darknet's digits.
    return activations.selu(c, x, 1.6732, 1.0507)


def _plse(c: Builder, x: Value) -> Value:
    high = c.call("where", c.call("greater", x, 4.0), _line(c, x, 0.01, 0.96), _line(c, x, 0.125, 0.5))
    return c.call("where", c.call("less", x, -4.0), _line(c, x, 0.01, 0.04), high)


def _stair(c: Builder, x: Value) -> Value:
    whole = c.call("floor", x)
    half = c.call("floor", c.call("multiply", x, 0.5))
    even = c.call("equal", c.call("multiply", c.call("floor", c.call("multiply", whole, 0.5)), 2.0), whole)
    return c.call("where", even, half, c.call("add", c.call("subtract", x, whole), half))


def _lhtan(c: Builder, x: Value) -> Value:
    high = c.call("where", c.call("greater", x, 1.0), _line(c, x, 0.001, 0.999), x)
    return c.call("where", c.call("less", x, 0.0), _line(c, x, 0.001), high)


ACTIVATIONS: dict[str, Any] = {
    "linear": lambda c, x: x,
    "logistic": lambda c, x: c.call("sigmoid", x),
    "loggy": lambda c, x: _line(c, c.call("sigmoid", x), 2.0, -1.0),
    "relu": lambda c, x: c.call("nn.relu", x),
    "relu6": lambda c, x: c.call("clip", x, a_min=0.0, a_max=6.0),
    "elu": activations.elu,
    "selu": _selu,
    "relie": lambda c, x: c.call("nn.leaky_relu", x, alpha=0.01),
    "ramp": lambda c, x: c.call("add", c.call("nn.relu", x), _line(c, x, 0.1)),
    "tanh": lambda c, x: c.call("tanh", x),
    "leaky": lambda c, x: c.call("nn.leaky_relu", x, alpha=0.1),
    "plse": _plse,
    "stair": _stair,
    "hardtan": _hardtan,
    "lhtan": _lhtan,
    "mish": activations.mish,
    "swish": activations.silu,
}


def activated(c: LayerNode, x: Value, default: str) -> Value:
    """x through the activation that the layer names."""
    name = c.layer.section.text("activation", default)
    if name not in ACTIVATIONS:
        raise OpNotImplemented(f"its activation is {name!r}{near_text(name, ACTIVATIONS)}")
    made: Value = ACTIVATIONS[name](c, x)
    return made


def normalised(weights: dict[str, np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
    """The kernel and the bias with what batch normalisation multiplies and adds: Darknet divides by sqrt(variance) + 1e-6."""
    kernel, bias = weights["weights"], weights["biases"]
    if "scales" not in weights:
        return kernel, bias
    factor = weights["scales"] / (np.sqrt(weights["variance"]) + np.float32(1e-6))
    return kernel * factor.reshape(-1, *[1] * (kernel.ndim - 1)), bias - weights["mean"] * factor


# ---- layers with weights


@converters.of("convolutional")
def _convolutional(c: LayerNode, x: Value) -> Value:
    layer, s = c.layer, c.layer.section
    if s.whole("binary") or s.whole("xnor"):
        raise OpNotImplemented("its weights are single bits (binary, xnor)")
    if s.whole("antialiasing"):
        raise OpNotImplemented("it has antialiasing")
    kernel, bias = normalised(layer.weights)
    size, stride, pad = s.whole("size", 1), s.whole("stride", 1), padding_of(layer)
    out = c.call(
        "nn.conv2d", c.image(x), c.parameter("weight", kernel), strides=(stride, stride), padding=(pad, pad, pad, pad),
        dilation=(s.whole("dilation", 1),) * 2, groups=s.whole("groups", 1), channels=layer.n, kernel_size=(size, size),
    )  # fmt: skip
    return activated(c, c.call("nn.bias_add", out, c.parameter("bias", bias)), "logistic")


@converters.of("deconvolutional")
def _deconvolutional(c: LayerNode, x: Value) -> Value:
    layer, s = c.layer, c.layer.section
    given = dict(layer.weights)
    given["weights"] = given["weights"].swapaxes(0, 1)
    kernel, bias = normalised(given)
    size, stride, pad = s.whole("size", 1), s.whole("stride", 1), padding_of(layer)
    out = c.call(
        "nn.conv2d_transpose", c.image(x), c.parameter("weight", kernel.swapaxes(0, 1)), strides=(stride, stride),
        padding=(pad, pad, pad, pad), channels=layer.n, kernel_size=(size, size),
    )  # fmt: skip
    return activated(c, c.call("nn.bias_add", out, c.parameter("bias", bias)), "logistic")


@converters.of("local")
def _local(c: LayerNode, x: Value) -> Value:
    layer, s = c.layer, c.layer.section
    size, stride = s.whole("size", 1), s.whole("stride", 1)
    pad = 1 if s.whole("pad") else 0
    x = c.pad(c.image(x), [(0, 0), (0, 0), (pad, pad), (pad, pad)])
    rows, columns = layer.out_h, layer.out_w
    # One axis for the places of the window, in the order of the weights: channel, row, column.
    parts = []
    for i in range(size):
        for j in range(size):
            ends = (i + (rows - 1) * stride + 1, j + (columns - 1) * stride + 1)
            part = c.call("strided_slice", x, begin=(i, j), end=ends, strides=(stride, stride), axes=(2, 3))
            parts.append(c.reshape(part, [x.shape[0], layer.c, 1, rows * columns]))
    windows = c.reshape(c.concatenate(parts, 2), [x.shape[0], layer.c * size * size, rows * columns])
    kernel = c.parameter("weight", layer.weights["weights"])
    # (places, filters, window) by (places, window, batch)
    product = c.call("nn.batch_matmul", kernel, c.transpose(windows, [2, 1, 0]), transpose_a=False, transpose_b=False)
    out = c.reshape(c.transpose(product, [2, 1, 0]), [x.shape[0], layer.n, rows, columns])
    bias = c.parameter("bias", layer.weights["biases"].reshape(1, layer.n, rows, columns))
    return activated(c, c.call("add", out, bias), "logistic")


def _dense(c: LayerNode, x: Value, weights: dict[str, np.ndarray], prefix: str = "") -> Value:
    kernel, bias = normalised(weights)
    out = c.call("nn.dense", x, c.parameter(f"{prefix}weight", kernel), units=len(bias))
    return c.call("nn.bias_add", out, c.parameter(f"{prefix}bias", bias))


@converters.of("connected")
def _connected(c: LayerNode, x: Value) -> Value:
    return activated(c, _dense(c, c.flat(x), c.layer.weights), "logistic")


@converters.of("batchnorm")
def _batchnorm(c: LayerNode, x: Value) -> Value:
    given = c.layer.weights
    factor = given["scales"] / (np.sqrt(given["variance"]) + np.float32(1e-6))
    shape = (1, -1, 1, 1)
    scaled = c.call("multiply", c.image(x), c.parameter("factor", factor.reshape(shape)))
    return c.call("add", scaled, c.parameter("shift", (-given["mean"] * factor).reshape(shape)))


# ---- recurrent layers


def _state(c: LayerNode, x: Value, suffix: str = "state") -> Value:
    """A state from the last step, zero at first."""
    if c.walk.net.time_steps > 1 or c.layer.section.whole("time_steps", 1) > 1:
        raise OpNotImplemented("its network runs several steps at once; write time_steps=1 in [net]")
    name = f"{c.name}_{suffix}"
    (batch,) = c.static([x.shape[0]], "the batch, which its state has too")
    return c.home.weight(name, np.zeros((batch, c.layer.n), c.walk.dtype))


def _kept(c: LayerNode, value: Value, suffix: str = "state") -> Value:
    """A state for the next step: an output of the program."""
    c.walk.states.append((f"{c.name}_{suffix}", value))
    return value


@converters.of("rnn")
def _rnn(c: LayerNode, x: Value) -> Value:
    inner = c.layer.inner
    state = _state(c, x)

    def part(name: str, given: Value) -> Value:
        return activated(c, _dense(c, given, inner[name], f"{name}_"), "logistic")

    new = c.call("add", part("input", c.flat(x)), part("self", state))
    if c.layer.section.whole("shortcut"):
        new = c.call("add", new, state)
    return part("output", _kept(c, new))


@converters.of("gru")
def _gru(c: LayerNode, x: Value) -> Value:
    inner, state, x = c.layer.inner, _state(c, x), c.flat(x)

    def sums(name: str, given: Value) -> Value:
        return c.call(
            "add", _dense(c, x, inner[f"u{name}"], f"u{name}_"), _dense(c, given, inner[f"w{name}"], f"w{name}_")
        )

    z, r = (c.call("sigmoid", sums(name, state)) for name in "zr")
    new = c.call("tanh" if c.layer.section.whole("tanh") else "sigmoid", sums("h", c.call("multiply", state, r)))
    held = c.call("multiply", z, state)
    return _kept(c, c.call("add", held, c.call("multiply", c.call("subtract", c.number(1, z.dtype), z), new)))


@converters.of("lstm")
def _lstm(c: LayerNode, x: Value) -> Value:
    inner, state, cell, x = c.layer.inner, _state(c, x), _state(c, x, "cell"), c.flat(x)

    def sums(name: str) -> Value:
        return c.call(
            "add", _dense(c, state, inner[f"w{name}"], f"w{name}_"), _dense(c, x, inner[f"u{name}"], f"u{name}_")
        )

    f, i, o = (c.call("sigmoid", sums(name)) for name in "fio")
    new = c.call("multiply", i, c.call("tanh", sums("g")))
    cell = _kept(c, c.call("add", c.call("multiply", f, cell), new), "cell")
    return _kept(c, c.call("multiply", o, c.call("tanh", cell)))


# ---- windows, sizes and places


@converters.of("maxpool")
def _maxpool(c: LayerNode, x: Value) -> Value:
    layer, s = c.layer, c.layer.section
    stride = s.whole("stride", 1)
    size = s.whole("size", stride)
    if s.whole("maxpool_depth") or s.whole("antialiasing"):
        raise OpNotImplemented("it pools over channels, or has antialiasing")
    before = s.whole("padding", size - 1) // 2
    after = [
        max((out - 1) * stride + size - extent - before, 0)
        for out, extent in zip((layer.out_h, layer.out_w), (layer.h, layer.w), strict=True)
    ]
    return c.call(
        "nn.max_pool2d", c.image(x), pool_size=(size, size), strides=(stride, stride), padding=(before, before, *after)
    )


@converters.of("avgpool")
def _avgpool(c: LayerNode, x: Value) -> Value:
    return c.call("nn.global_avg_pool2d", c.image(x))


@converters.of("upsample")
def _upsample(c: LayerNode, x: Value) -> Value:
    s = c.layer.section
    stride = s.whole("stride", 2)
    out = c.call("nn.upsampling", c.image(x), scale_h=stride, scale_w=stride, method="nearest_neighbor")
    return _line(c, out, s.real("scale", 1.0)) if s.real("scale", 1.0) != 1 else out


@converters.of("reorg")
def _reorg(c: LayerNode, x: Value) -> Value:
    s = c.layer.section
    if s.whole("flatten") or s.whole("extra"):
        raise OpNotImplemented("it has flatten or extra, which only copy elements in another order")
    stride, image = s.whole("stride", 1), c.image(x)
    if not s.whole("reverse"):
        return c.call("vision.yolo_reorg", image, stride=stride)
    # The same places the other way: channels are blocks of a wide image.
    n, depth = x.shape[0], c.layer.out_c
    blocks = c.reshape(image, [n, stride, stride, depth, c.layer.h, c.layer.w])
    return c.reshape(c.transpose(blocks, [0, 3, 4, 1, 5, 2]), [n, *c.layer.shape])


@converters.of("crop")
def _crop(c: LayerNode, x: Value) -> Value:
    layer = c.layer
    top, left = (layer.h - layer.out_h) // 2, (layer.w - layer.out_w) // 2
    begin, end = (top, left), (top + layer.out_h, left + layer.out_w)
    out = c.call("strided_slice", c.image(x), begin=begin, end=end, axes=(2, 3))
    return out if layer.section.whole("noadjust") else _line(c, out, 2.0, -1.0)


# ---- joins


def _inputs(c: LayerNode) -> list[tuple[Layer, Value]]:
    net = c.walk.net
    return [(net.layers[k], c.walk.results[k]) for k in sources(net, c.layer, c.k)]


@converters.of("route")
def _route(c: LayerNode, x: Value) -> Value:
    s = c.layer.section
    parts, which = s.whole("groups", 1), s.whole("group_id")
    taken = []
    for layer, value in _inputs(c):
        value = c.reshape(value, [value.shape[0], *layer.shape])
        depth = layer.out_c // parts
        taken.append(c.cut(value, 1, which * depth, (which + 1) * depth))
    return c.concatenate(taken, 1)


@converters.of("shortcut")
def _shortcut(c: LayerNode, x: Value) -> Value:
    s, layer = c.layer.section, c.layer
    if s.text("weights_type") not in ("", "none"):
        raise OpNotImplemented("it weights the layers that it adds (weights_type)")
    out = c.image(x)
    for other, value in _inputs(c):
        out = _added(c, out, layer, c.reshape(value, [value.shape[0], *other.shape]), other)
    return activated(c, out, "linear")


def _added(c: LayerNode, x: Value, layer: Layer, value: Value, other: Layer) -> Value:
    """x plus an earlier result. Where shapes differ only the common channels are added, at steps over the larger image."""
    s = layer.section
    alpha, beta = s.real("alpha", 1.0), s.real("beta", 1.0)
    step = max(other.out_w // layer.w, 1)
    if layer.w > other.out_w or other.out_h // step != layer.h or other.out_w // step != layer.w:
        raise OpNotImplemented(
            f"it adds a result of the shape {other.shape} to one of the shape {(layer.c, layer.h, layer.w)}"
        )
    if step > 1:
        value = c.call(
            "strided_slice", value, begin=(0, 0), end=(other.out_h, other.out_w), strides=(step, step), axes=(2, 3)
        )
        value = c.cut(c.cut(value, 2, 0, layer.h), 3, 0, layer.w)
    common = min(layer.c, other.out_c)
    value = c.cut(value, 1, 0, common)
    kept = c.cut(x, 1, 0, common)
    kept = kept if alpha == 1 else _line(c, kept, alpha)
    total = c.call("add", kept, value if beta == 1 else _line(c, value, beta))
    return total if common == layer.c else c.concatenate([total, c.cut(x, 1, common, layer.c)], 1)


# ---- element-wise layers and results


@converters.of("active")
def _active(c: LayerNode, x: Value) -> Value:
    return activated(c, x, "linear")


@converters.of("dropout", "cost")
def _unchanged(c: LayerNode, x: Value) -> Value:
    return x


@converters.of("l2norm")
def _l2norm(c: LayerNode, x: Value) -> Value:
    image = c.image(x)
    squares = c.reduce("sum", c.call("multiply", image, image), [1], keepdims=True)
    return c.call("divide", image, c.call("sqrt", squares))


@converters.of("softmax")
def _softmax(c: LayerNode, x: Value) -> Value:
    s, layer = c.layer.section, c.layer
    if s.text("tree"):
        raise OpNotImplemented("it takes a tree of classes")
    heat, groups = s.real("temperature", 1.0), s.whole("groups", 1)
    if s.whole("spatial"):
        return c.call("nn.softmax", _line(c, c.image(x), 1 / heat) if heat != 1 else c.image(x), axis=1)
    flat = c.reshape(x, [x.shape[0], groups, layer.inputs // groups])
    out = c.call("nn.softmax", _line(c, flat, 1 / heat) if heat != 1 else flat, axis=2)
    return c.reshape(out, [x.shape[0], layer.inputs])


def _by_anchor(c: LayerNode, x: Value, ends: Sequence[int], changes: Sequence[str]) -> Value:
    """The entries of each anchor, cut at `ends`: each part through a change ("", "sigmoid" or "softmax")."""
    layer = c.layer
    apart = c.reshape(c.image(x), [x.shape[0], layer.n, layer.c // layer.n, layer.h, layer.w])
    parts, begin = [], 0
    for end, change in zip(ends, changes, strict=True):
        if end > begin:
            part = c.cut(apart, 2, begin, end)
            attrs: dict[str, Any] = {"axis": 2} if change == "softmax" else {}
            key = "nn.softmax" if change == "softmax" else change
            parts.append(c.call(key, part, **attrs) if change else part)
        begin = end
    return c.reshape(c.concatenate(parts, 2), [x.shape[0], *layer.shape])


@converters.of("yolo")
def _yolo(c: LayerNode, x: Value) -> Value:
    return _by_anchor(c, x, [2, 4, c.layer.c // c.layer.n], ["sigmoid", "", "sigmoid"])


@converters.of("region")
def _region(c: LayerNode, x: Value) -> Value:
    s = c.layer.section
    if s.text("tree"):
        raise OpNotImplemented("it takes a tree of classes")
    coords, whole = s.whole("coords", 4), c.layer.c // c.layer.n
    if s.whole("background"):
        # The background is one class more, and nothing says by itself whether there is an object.
        ends, changes = [2, coords, whole], ["sigmoid", "", "softmax" if s.whole("softmax") else ""]
        if not s.whole("softmax"):
            ends, changes = [2, coords + 1, whole], ["sigmoid", "", "sigmoid"]
    else:
        ends = [2, coords, coords + 1, whole]
        changes = ["sigmoid", "", "sigmoid", "softmax" if s.whole("softmax") else "sigmoid"]
    return _by_anchor(c, x, ends, changes)


@converters.of("detection")
def _detection(c: LayerNode, x: Value) -> Value:
    s = c.layer.section
    flat = c.flat(x)
    if not s.whole("softmax"):
        return flat
    classes = s.whole("classes", 1)
    count = s.whole("side", 7) ** 2 * classes
    first = c.reshape(c.cut(flat, 1, 0, count), [x.shape[0], -1, classes])
    likely = c.reshape(c.call("nn.softmax", first, axis=2), [x.shape[0], count])
    return c.concatenate([likely, c.cut(flat, 1, count, c.layer.inputs)], 1)


SUPPORTED = tuple(kind.name.lower() for kind in LAYERTYPE if kind.name.lower() in converters)
"""The layers that the importer supports."""
