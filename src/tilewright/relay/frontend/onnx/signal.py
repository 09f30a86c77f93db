"""Fourier transforms and what belongs to them."""

from __future__ import annotations

from typing import Any

import numpy as np

from tilewright.relay.frontend.onnx.value import OnnxNode, Value, as_value, onnx_op

LARGE = 1024
"""Transforms up to this size are products with a matrix."""


def fourier(node: OnnxNode, x: Value, length: int | None, axis: int, inverse: bool, onesided: bool) -> Any:
    """The transform of an axis of x, whose last axis holds one real part, or real and imaginary parts."""
    rank, shape = x.ndim, node.static(x)
    at = axis % rank
    complex_input = shape[-1] == 2
    extent = shape[at]
    size = extent if length is None else length
    if inverse and onesided:
        return _real_inverse(node, x, at, length)
    x = _resized(node, x, at, extent, size)
    real, imaginary = _parts(node, x, at, complex_input)
    found = _transform(node, real, imaginary if complex_input else None, size, inverse)
    kept = size // 2 + 1 if onesided else size
    parts = [
        node.call("strided_slice", p, begin=(0,), end=(kept,), strides=(1,), axes=(rank - 2,)) if onesided else p
        for p in found
    ]
    return _moved_back(node, node.call("stack", list(parts), axis=-1), at, rank)


def _transform(node: OnnxNode, real: Value, imaginary: Value | None, size: int, inverse: bool) -> tuple[Any, Any]:
    """(real, imaginary) parts of the transform of the last axis."""
    if size > LARGE:
        return tuple(
            node.call("dft", real, node.call("zeros_like", real) if imaginary is None else imaginary, inverse=inverse)
        )
    # Angles as fractions of a turn, so that quarters are exact.
    turn = np.outer(np.arange(size), np.arange(size)) % size
    angle = 2 * np.pi * turn / size
    cosine, sine = np.cos(angle), np.sin(angle)
    for part, zeros in ((cosine, (1, 3)), (sine, (0, 2))):
        for q in zeros:
            part[4 * turn == q * size] = 0
    scale = 1 / size if inverse else 1.0
    c = Value(array=(cosine * scale).astype(real.dtype))
    s = Value(array=((sine if inverse else -sine) * scale).astype(real.dtype))

    def product(x: Value, table: Value) -> Any:
        return node.call("nn.matmul", x, table)

    if imaginary is None:
        return product(real, c), product(real, s)
    return (
        node.call("subtract", product(real, c), product(imaginary, s)),
        node.call("add", product(real, s), product(imaginary, c)),
    )


def _resized(node: OnnxNode, x: Value, axis: int, extent: int, size: int) -> Value:
    """x cut, or filled up with zeros, along an axis."""
    if size < extent:
        return node.value("strided_slice", x, begin=(0,), end=(size,), strides=(1,), axes=(axis,))
    if size > extent:
        width = [(0, 0)] * x.ndim
        width[axis] = (0, size - extent)
        return node.value("nn.pad", x, node.scalar(0, x), pad_width=tuple(width))
    return x


def _parts(node: OnnxNode, x: Value, axis: int, both: bool) -> tuple[Value, Value]:
    """Real and imaginary parts with the axis last."""
    rank = x.ndim
    order = [*[k for k in range(rank - 1) if k != axis], axis]
    found = []
    for k in (0, 1) if both else (0,):
        part = node.call("strided_slice", x, begin=(k,), end=(k + 1,), strides=(1,), axes=(rank - 1,))
        flat = node.call("squeeze", part, axis=(rank - 1,))
        found.append(node.value("transpose", flat, axes=tuple(order)))
    return found[0], found[1] if both else node.value("zeros_like", found[0])


def _moved_back(node: OnnxNode, x: Any, axis: int, rank: int) -> Any:
    """The axis before the last one back at its place."""
    order = list(range(rank - 2))
    order.insert(axis, rank - 2)
    return node.call("transpose", x, axes=(*order, rank - 1))


def _real_inverse(node: OnnxNode, x: Value, axis: int, length: int | None) -> Any:
    """Real numbers from the first half of their spectrum; the rest are its conjugates."""
    half = node.static(x)[axis]
    size = 2 * (half - 1) if length is None else length
    x = _resized(node, x, axis, half, size // 2 + 1)
    real, imaginary = _parts(node, x, axis, True)
    rank = x.ndim
    mirror = Value(array=np.arange((size - 1) // 2, 0, -1, dtype=np.int32))
    back = [node.call("take", p, mirror, axis=rank - 2) for p in (real, imaginary)]
    whole = [
        node.call("concatenate", [real, back[0]], axis=rank - 2),
        node.call("concatenate", [imaginary, node.call("negative", back[1])], axis=rank - 2),
    ]
    found = _transform(node, Value(whole[0]), Value(whole[1]), size, True)
    return _moved_back(node, node.call("expand_dims", found[0], axis=rank - 1), axis, rank)


@onnx_op("DFT", since=17)
def _dft_attributes(node: OnnxNode, x: Value, length: Value | None = None) -> Any:
    size = None if length is None else int(node.numbers(length, "length").reshape(-1)[0])
    return fourier(node, x, size, node.get("axis", 1), bool(node.get("inverse", 0)), bool(node.get("onesided", 0)))


@onnx_op("DFT", since=20)
def _dft(node: OnnxNode, x: Value, length: Value | None = None, axis: Value | None = None) -> Any:
    size = None if length is None else int(node.numbers(length, "length").reshape(-1)[0])
    at = -2 if axis is None else int(node.numbers(axis, "axis").reshape(-1)[0])
    return fourier(node, x, size, at, bool(node.get("inverse", 0)), bool(node.get("onesided", 0)))


@onnx_op("STFT", since=17)
def _stft(node: OnnxNode, x: Value, step: Value, window: Value | None = None, length: Value | None = None) -> Any:
    batch, extent, *parts = node.static(x)
    hop = int(node.numbers(step, "frame step").reshape(-1)[0])
    if length is not None:
        size = int(node.numbers(length, "frame length").reshape(-1)[0])
    else:
        size = node.static(window)[0] if window is not None else extent
    frames = (extent - size) // hop + 1
    places = (np.arange(frames)[:, None] * hop + np.arange(size)[None, :]).astype(np.int32)
    if not parts:
        x = node.value("expand_dims", x, axis=2)
    cut = node.value("take", x, Value(array=places), axis=1)
    if window is not None:
        cut = node.value("multiply", cut, node.call("reshape", window, newshape=(1, 1, size, 1)))
    return fourier(node, cut, None, 2, False, bool(node.get("onesided", 1)))


WINDOWS = {"HannWindow": (0.0, 1.0, 0.0), "HammingWindow": (4 / 46, 42 / 46, 0.0), "BlackmanWindow": (0.0, 0.36, 0.64)}
"""(a, b, c) of windows a + b s + c s**2; s = (1 - cos) / 2 is the square of the half angle's sine, in which nothing cancels."""


@onnx_op(*WINDOWS, since=17)
def _window(node: OnnxNode, size: Value) -> Any:
    from tilewright.relay.frontend.onnx.casting import converted, element_type

    kind = element_type(node.get("output_datatype", 1))
    dtype = "float64" if kind == "float64" else "float32"
    flat, rise, square = WINDOWS[node.op_type]
    zero, one, pi = (Value(array=np.array(v, dtype)) for v in (0, 1, np.pi))
    count = node.cast(node.value("reshape", size, newshape=()), dtype)
    steps = count if node.get("periodic", 1) else node.value("subtract", count, one)
    places = as_value(node.nested("Range", zero, count, one))
    # The way to the nearer end: 0 at both.
    way = node.value("minimum", places, node.value("subtract", steps, places))
    sine = node.value("sin", node.value("divide", node.value("multiply", way, pi), steps))
    s = node.value("multiply", sine, sine)
    made = node.value(
        "multiply", s, node.value("add", node.value("multiply", s, node.scalar(square, s)), node.scalar(rise, s))
    )
    return converted(node, node.value("add", made, node.scalar(flat, s)), kind)


@onnx_op("MelWeightMatrix", since=17)
def _mel(node: OnnxNode, bins: Value, size: Value, rate: Value, low: Value, high: Value) -> Any:
    from tilewright.relay.frontend.onnx.casting import converted, element_type

    names = ("number of bins", "length", "sample rate", "lower edge", "upper edge")
    given = [node.numbers(v, n).reshape(-1)[0] for v, n in zip((bins, size, rate, low, high), names, strict=True)]
    count, length, frequency = (int(v) for v in given[:3])
    edges = [2595 * np.log10(1 + float(v) / 700) for v in given[3:]]
    step = (edges[1] - edges[0]) / (count + 2)
    hertz = 700 * (10 ** ((np.arange(count + 2) * step + edges[0]) / 2595) - 1)
    places = ((length + 1) * hertz // frequency).astype(int)
    out = np.zeros((length // 2 + 1, count), np.float32)
    for k in range(count):
        first, middle, last = places[k : k + 3]
        rise, fall = middle - first, last - middle
        if rise == 0:
            out[middle, k] = 1
        else:
            out[first : middle + 1, k] = (np.arange(first, middle + 1) - first) / rise
        if fall > 0:
            out[middle:last, k] = (last - np.arange(middle, last)) / fall
    return converted(node, Value(array=out), element_type(node.get("output_datatype", 1)))
