"""Converters of Fourier transforms, random numbers, look-ups in tables, windows and dilation."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import numpy as np

from tilewright.relay.frontend.common.fourier import fourier
from tilewright.relay.frontend.tflite.node import Node, Pair, Value, small, tflite_op
from tilewright.relay.frontend.tflite.schema import WINDOW_FUNCTIONS
from tilewright.relay.op.arithmetic.randomness import threefry_key
from tilewright.support.errors import OpNotImplemented

LARGEST_WINDOW = 4096
"""Most elements of a window whose function is not one of pooling."""


@tflite_op("RFFT2D")
def _rfft2d(node: Node, x: Value, lengths: Value) -> Pair:
    wanted = [int(n) for n in node.numbers(lengths, "fft_length").reshape(-1)]
    for axis, n in zip((x.ndim - 2, x.ndim - 1), wanted, strict=True):
        extent = x.shape[axis]
        if not isinstance(extent, int):
            raise OpNotImplemented(
                f"the length that it transforms must be known, but is {extent}. Pin the input shapes: shape_dict={{name: (...)}}"
            )
        if n < extent:
            x = node.call("strided_slice", x, begin=(0,), end=(n,), axes=(axis,))
        elif n > extent:
            widths = [(0, 0)] * x.ndim
            widths[axis] = (0, n - extent)
            x = node.call("nn.pad", x, 0, pad_width=tuple(widths))
    half, last = wanted[1] // 2 + 1, x.ndim - 1
    parts = [node.call("strided_slice", v, begin=(0,), end=(half,), axes=(last,)) for v in _fourier(node, x, None)]
    if wanted[0] > 1:
        order = [*range(x.ndim - 2), last, last - 1]
        turned = [node.transpose(v, order) for v in parts]
        parts = [node.transpose(v, order) for v in _fourier(node, turned[0], turned[1])]
    return Pair(parts[0], parts[1])


def _fourier(node: Node, real: Value, imag: Value | None) -> list[Value]:
    """(real, imaginary) parts of the transform of the last axis."""

    def constant(array: np.ndarray) -> Value:
        return Value(array=array.astype(real.dtype))

    found = fourier(node.call, constant, (real, imag), real.ndim, real.shape[-1])
    return list(
        found or node.calls("dft", real, node.call("zeros_like", real) if imag is None else imag, inverse=False)
    )


def drawn(node: Node, shape: Sequence[int], low: float = 0.0) -> Value:
    """Numbers between `low` and 1, the same in every run: they follow from the seeds in the model."""
    seed = (int(node.get("seed")) * 0x9E3779B97F4A7C15 + int(node.get("seed2"))) % (1 << 63)
    return node.calls("random.uniform", threefry_key(seed), shape=tuple(shape), dtype="float32", low=low, high=1.0)[1]


@tflite_op("RANDOM_UNIFORM")
def _random_uniform(node: Node, shape: Value) -> Value:
    return drawn(node, [int(n) for n in node.numbers(shape, "shape").reshape(-1)])


@tflite_op("RANDOM_STANDARD_NORMAL")
def _random_normal(node: Node, shape: Value) -> Value:
    extents = [int(n) for n in node.numbers(shape, "shape").reshape(-1)]
    u, v = node.calls("split", drawn(node, [2, *extents], 1e-7), indices_or_sections=2, axis=0)
    radius = node.call("sqrt", node.call("multiply", node.call("log", u), -2.0))
    return node.reshape(node.call("multiply", radius, node.call("cos", node.call("multiply", v, 2 * np.pi))), extents)


@tflite_op("MULTINOMIAL")
def _multinomial(node: Node, logits: Value, count: Value) -> Value:
    batch, classes = node.static(logits)
    number = int(node.numbers(count, "num_samples").reshape(-1)[0])
    u = drawn(node, [batch, number, classes], 1e-7)
    gumbel = node.call("negative", node.call("log", node.call("negative", node.call("log", u))))
    return node.call("argmax", node.call("add", node.reshape(logits, [batch, 1, classes]), gumbel), axis=(2,))


@tflite_op("HASHTABLE_LOOKUP")
def _lookup(node: Node, wanted: Value, keys: Value, values: Value) -> list[Value]:
    places = node.call("searchsorted", keys, wanted, right=False, dtype="int32")
    places = node.call("minimum", places, node.static(keys)[0] - 1)
    hit = node.call("equal", node.call("take", keys, places, axis=0), wanted)
    rows = node.call("take", values, places, axis=0)
    shaped = node.reshape(hit, [*hit.shape, *[1] * (rows.ndim - hit.ndim)])
    return [node.call("where", shaped, rows, node.number(0, rows.dtype)), node.cast(hit, "uint8")]


@tflite_op("DILATE")
def _dilate(node: Node, x: Value, steps: Value, fill: Value) -> Value:
    value = node.numbers(fill, "padding value").reshape(-1)[0].item()
    strides = tuple([int(n) for n in node.numbers(steps, "dilations").reshape(-1)])
    if x.dtype.startswith("float"):
        return node.call("nn.dilate", x, strides=strides, dilation_value=float(value))
    return dilated(node, x, strides, node.number(value, x.dtype))


def dilated(node: Node, x: Value, strides: Sequence[int], fill: Value) -> Value:
    """x with `fill` between its elements."""
    for axis, s in enumerate(strides):
        n = node.static(x)[axis]
        if s == 1 or n == 0:
            continue
        small([n, s], "an axis that it dilates")
        places = np.arange((n - 1) * s + 1)
        kept = Value(array=(places % s == 0).reshape([-1, *[1] * (x.ndim - 1 - axis)]))
        x = node.call("where", kept, node.call("take", x, (places // s).astype(np.int32), axis=axis), fill)
    return x


REDUCERS = {
    "ADD": "add", "MUL": "multiply", "MULTIPLY": "multiply", "MINIMUM": "minimum", "MAXIMUM": "maximum", "ALL": "logical_and",
    "ANY": "logical_or", "AND": "logical_and", "OR": "logical_or", "LOGICAL_AND": "logical_and", "LOGICAL_OR": "logical_or",
}  # fmt: skip


@tflite_op("REDUCE_WINDOW")
def _reduce_window(node: Node, x: Value, start: Value, window: Value, strides: Value, dilations: Value) -> Value:
    name = WINDOW_FUNCTIONS[int(node.get("reduce_function"))]
    if name not in REDUCERS:
        raise OpNotImplemented(f"its function is {name}; supported: {', '.join(WINDOW_FUNCTIONS[1:])}")
    sizes = [[int(n) for n in node.numbers(v, "window").reshape(-1)] for v in (window, strides, dilations)]
    return windows(node, x, start, REDUCERS[name], *sizes)


def windows(
    node: Node,
    x: Value,
    start: Value,
    key: str,
    window: Sequence[int],
    strides: Sequence[int],
    dilations: Sequence[int],
) -> Value:
    """A function over the elements of each window."""
    shape = node.static(x)
    if np.prod(window) > LARGEST_WINDOW:
        raise OpNotImplemented(f"its windows have {np.prod(window)} elements; up to {LARGEST_WINDOW} are supported")
    extents = [
        max((n - (k - 1) * d - 1) // s + 1, 0) for n, k, s, d in zip(shape, window, strides, dilations, strict=True)
    ]
    total: Value | None = None
    for place in itertools.product(*[range(k) for k in window]):
        begin = [p * d for p, d in zip(place, dilations, strict=True)]
        end = [b + (n - 1) * s + 1 if n else b for b, n, s in zip(begin, extents, strides, strict=True)]
        part = node.call("strided_slice", x, begin=tuple(begin), end=tuple(end), strides=tuple(strides))
        total = part if total is None else node.call(key, total, part)
    assert total is not None
    return node.call(key, total, node.reshape(start, ()))


def body_function(node: Node, subgraph: int) -> str:
    """The relay operator of a subgraph that is one operator on two numbers. Raises OpNotImplemented for others."""
    model = node.importer.model
    graph = model.item(model.root.subgraphs, subgraph, "subgraph")
    names = [model.operator_name(op)[0].removeprefix("STABLEHLO_") for op in graph.operators]
    if len(names) != 1 or names[0] not in REDUCERS:
        raise OpNotImplemented(
            f"its function is {', '.join(names) or 'empty'}; supported: one of {', '.join(sorted(REDUCERS))}"
        )
    return REDUCERS[names[0]]
