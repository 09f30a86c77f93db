"""Converters of Fourier transforms, windows and mel weights."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tilewright.relay.expr import Expr
from tilewright.relay.frontend.common.builder import small
from tilewright.relay.frontend.common.fourier import fourier as products
from tilewright.relay.frontend.onnx.value import OnnxNode, Tensor, Value, as_value, onnx_op

Size = int | Value
"""An extent: a number, or a scalar of int64 that a run computes."""


def fourier(node: OnnxNode, x: Value, length: Size | None, axis: int, inverse: bool, onesided: bool) -> Expr:
    """The transform of an axis of x. Its last axis has the real part, or the real and the imaginary part."""
    rank, at = x.ndim, node.place(axis, x.ndim)
    complex_input = node.static_extent(x, rank - 1) == 2
    if inverse and onesided:
        return _real_inverse(node, x, at, length)
    size = _extent(node, x, at) if length is None else length
    x = x if length is None else _resized(node, x, at, length)
    real, imaginary = _parts(node, x, at, complex_input)
    found = _transform(node, real, imaginary if complex_input else None, size, inverse)
    if onesided:
        kept = _reckoned(node, "add", _reckoned(node, "floor_divide", size, 2), 1)
        found = tuple([_front(node, p, rank - 2, kept) for p in found])
    return _moved_back(node, node.call("stack", list(found), axis=-1), at, rank)


def _extent(node: OnnxNode, x: Value, axis: int) -> Size:
    extent = x.shape[axis]
    return extent if isinstance(extent, int) else Value(node.builder.extent(x, axis).expr)


def _number(node: OnnxNode, x: Value, what: str) -> Size:
    """An input of one element, as an extent."""
    if x.is_number:
        return int(node.numbers(x, what).reshape(-1)[0])
    return node.cast(node.value("reshape", x, newshape=()), "int64")


def _reckoned(node: OnnxNode, key: str, a: Size, b: Size) -> Size:
    """An operator on extents; a number if both are numbers."""
    if isinstance(a, int) and isinstance(b, int):
        return {"add": a + b, "subtract": a - b, "multiply": a * b, "floor_divide": a // (b or 1)}[key]
    return node.value(key, *[Value(array=np.array(v, np.int64)) if isinstance(v, int) else v for v in (a, b)])


def _counted(node: OnnxNode, size: Size) -> Value:
    """0, 1, ... below an extent."""
    if isinstance(size, int):
        small([size], "an axis that it counts along")
    return Value(array=np.arange(size)) if isinstance(size, int) else node.value("dyn.iota", size)


def _front(node: OnnxNode, x: Tensor, axis: int, size: Size) -> Expr:
    """The first elements along an axis."""
    if isinstance(size, int):
        return node.call("strided_slice", x, begin=(0,), end=(size,), strides=(1,), axes=(axis,))
    zero, one = (Value(array=np.array([v], np.int64)) for v in (0, 1))
    return node.call("dyn.strided_slice", x, zero, node.call("reshape", size, newshape=(1,)), one, axes=(axis,))


def _transform(node: OnnxNode, real: Value, imaginary: Value | None, size: Size, inverse: bool) -> Sequence[Expr]:
    """(real, imaginary) parts of the transform of the last axis."""
    found: Sequence[Expr] | None = None
    if isinstance(size, int):

        def constant(array: np.ndarray) -> Value:
            return Value(array=array.astype(real.dtype))

        found = products(node.call, constant, (real, imaginary), real.ndim, size, inverse)
    if found is None:
        zeros = node.call("zeros_like", real) if imaginary is None else imaginary
        found = tuple(node.calls("dft", real, zeros, inverse=inverse))
    return found


def _resized(node: OnnxNode, x: Value, axis: int, size: Size) -> Value:
    """x cropped, or padded with zeros, along an axis."""
    extent = x.shape[axis]
    if isinstance(size, int) and isinstance(extent, int):
        if size > extent:
            width = [(0, 0)] * x.ndim
            width[axis] = (0, size - extent)
            return node.value("nn.pad", x, node.scalar(0, x), pad_width=tuple(width))
        return Value(_front(node, x, axis, size)) if size < extent else x
    places = _counted(node, size)
    picked = node.value("take", x, places, axis=axis, mode="clip")
    end = Value(array=np.array(extent, np.int64)) if isinstance(extent, int) else _extent(node, x, axis)
    inside = node.call("expand_dims", node.call("less", places, end), axis=1, num_newaxis=x.ndim - 1 - axis)
    return node.value("where", inside, picked, node.scalar(0, x))


def _parts(node: OnnxNode, x: Value, axis: int, both: bool) -> tuple[Value, Value]:
    """Real and imaginary parts with this axis last."""
    rank = x.ndim
    order = [*[k for k in range(rank - 1) if k != axis], axis]
    found = []
    for k in (0, 1) if both else (0,):
        part = node.call("strided_slice", x, begin=(k,), end=(k + 1,), strides=(1,), axes=(rank - 1,))
        flat = node.call("squeeze", part, axis=(rank - 1,))
        found.append(node.value("transpose", flat, axes=tuple(order)))
    return found[0], found[1] if both else node.value("zeros_like", found[0])


def _moved_back(node: OnnxNode, x: Tensor, axis: int, rank: int) -> Expr:
    """The axis before the last one, moved back to its position."""
    order = list(range(rank - 2))
    order.insert(axis, rank - 2)
    return node.call("transpose", x, axes=(*order, rank - 1))


def _real_inverse(node: OnnxNode, x: Value, axis: int, length: Size | None) -> Expr:
    """Real numbers from the first half of their spectrum. The second half has its conjugates."""
    if length is None:
        length = _reckoned(node, "multiply", _reckoned(node, "subtract", _extent(node, x, axis), 1), 2)
    x = _resized(node, x, axis, _reckoned(node, "add", _reckoned(node, "floor_divide", length, 2), 1))
    real, imaginary = _parts(node, x, axis, True)
    rank = x.ndim
    mirrored = _reckoned(node, "floor_divide", _reckoned(node, "subtract", length, 1), 2)
    last = Value(array=np.array(mirrored, np.int64)) if isinstance(mirrored, int) else mirrored
    mirror = node.value("subtract", last, _counted(node, mirrored))
    back = [node.call("take", p, mirror, axis=rank - 2) for p in (real, imaginary)]
    whole = [
        node.call("concatenate", [real, back[0]], axis=rank - 2),
        node.call("concatenate", [imaginary, node.call("negative", back[1])], axis=rank - 2),
    ]
    found = _transform(node, Value(whole[0]), Value(whole[1]), length, True)
    return _moved_back(node, node.call("expand_dims", found[0], axis=rank - 1), axis, rank)


@onnx_op("DFT", since=17)
def _dft_attributes(node: OnnxNode, x: Value, length: Value | None = None) -> Expr:
    size = None if length is None else _number(node, length, "length")
    return fourier(node, x, size, node.get("axis", 1), bool(node.get("inverse", 0)), bool(node.get("onesided", 0)))


@onnx_op("DFT", since=20)
def _dft(node: OnnxNode, x: Value, length: Value | None = None, axis: Value | None = None) -> Expr:
    size = None if length is None else _number(node, length, "length")
    at = -2 if axis is None else int(node.numbers(axis, "axis").reshape(-1)[0])
    return fourier(node, x, size, at, bool(node.get("inverse", 0)), bool(node.get("onesided", 0)))


@onnx_op("STFT", since=17)
def _stft(node: OnnxNode, x: Value, step: Value, window: Value | None = None, length: Value | None = None) -> Expr:
    extent, hop = _extent(node, x, 1), _number(node, step, "frame step")
    if length is not None:
        size = _number(node, length, "frame length")
    else:
        size = extent if window is None else _extent(node, window, 0)
    frames = _reckoned(node, "add", _reckoned(node, "floor_divide", _reckoned(node, "subtract", extent, size), hop), 1)
    begins = node.value("multiply", _counted(node, frames), Value(array=np.array(hop)) if isinstance(hop, int) else hop)
    places = node.value("add", node.call("expand_dims", begins, axis=1), _counted(node, size))
    if x.ndim == 2:
        x = node.value("expand_dims", x, axis=2)
    cut = node.value("take", x, places, axis=1)
    if window is not None:
        cut = node.value("multiply", cut, node.call("reshape", window, newshape=(1, 1, -1, 1)))
    return fourier(node, cut, None, 2, False, bool(node.get("onesided", 1)))


WINDOWS = {"HannWindow": (0.0, 1.0, 0.0), "HammingWindow": (4 / 46, 42 / 46, 0.0), "BlackmanWindow": (0.0, 0.36, 0.64)}
"""(a, b, c) of windows a + b s + c s**2. s = (1 - cos) / 2 is computed as the squared sine of half the angle, without cancellation."""


@onnx_op(*WINDOWS, since=17)
def _window(node: OnnxNode, size: Value) -> Value:
    from tilewright.relay.frontend.onnx.ops.casting import converted, element_type

    kind = element_type(node.get("output_datatype", 1))
    dtype = "float64" if kind == "float64" else "float32"
    flat, rise, square = WINDOWS[node.op_type]
    zero, one, pi = (Value(array=np.array(v, dtype)) for v in (0, 1, np.pi))
    count = node.cast(node.value("reshape", size, newshape=()), dtype)
    steps = count if node.get("periodic", 1) else node.value("subtract", count, one)
    places = as_value(node.nested("Range", zero, count, one))
    # The distance to the nearer end.
    way = node.value("minimum", places, node.value("subtract", steps, places))
    sine = node.value("sin", node.value("divide", node.value("multiply", way, pi), steps))
    s = node.value("multiply", sine, sine)
    made = node.value(
        "multiply", s, node.value("add", node.value("multiply", s, node.scalar(square, s)), node.scalar(rise, s))
    )
    return converted(node, node.value("add", made, node.scalar(flat, s)), kind)


@onnx_op("MelWeightMatrix", since=17)
def _mel(node: OnnxNode, bins: Value, size: Value, rate: Value, low: Value, high: Value) -> Value:
    from tilewright.relay.frontend.onnx.ops.casting import converted, element_type

    count, length, frequency, lower, upper = [
        node.cast(node.value("reshape", v, newshape=()), dtype)
        for v, dtype in zip((bins, size, rate, low, high), ["int64"] * 3 + ["float64"] * 2, strict=True)
    ]

    def number(value: float, like: Value) -> Value:
        return Value(array=np.array(value, like.dtype))

    def f(key: str, a: Value, b: float | Value) -> Value:
        return node.value(key, a, b if isinstance(b, Value) else number(b, a))

    def mel(hertz: Value) -> Value:
        return f("multiply", node.value("log10", f("add", f("divide", hertz, 700), 1)), 2595)

    first = mel(lower)
    step = f("divide", f("subtract", mel(upper), first), node.cast(f("add", count, 2), "float64"))
    edges = f("add", f("multiply", node.cast(node.value("dyn.iota", f("add", count, 2)), "float64"), step), first)
    hertz = f("multiply", f("subtract", node.value("power", number(10, edges), f("divide", edges, 2595)), 1), 700)
    scaled = f(
        "divide", f("multiply", hertz, node.cast(f("add", length, 1), "float64")), node.cast(frequency, "float64")
    )
    places = node.cast(node.value("floor", scaled), "int64")
    columns = node.value("dyn.iota", count)
    begin, middle, end = [node.value("take", places, f("add", columns, k), axis=0) for k in range(3)]
    row = node.value("expand_dims", node.value("dyn.iota", f("add", f("floor_divide", length, 2), 1)), axis=1)

    def share(part: Value, whole: Value) -> Value:
        return f("divide", node.cast(part, "float64"), node.cast(f("maximum", whole, 1), "float64"))

    zero = number(0, edges)
    rise, fall = f("subtract", middle, begin), f("subtract", end, middle)
    inside = f("logical_and", f("greater_equal", row, begin), f("less_equal", row, middle))
    peak = node.value("where", f("equal", rise, 0), number(1, edges), share(f("subtract", row, begin), rise))
    rising = node.value("where", inside, peak, zero)
    behind = f("logical_and", f("greater_equal", row, middle), f("less", row, end))
    made = node.value("where", behind, share(f("subtract", end, row), fall), rising)
    return converted(node, node.cast(made, "float32"), element_type(node.get("output_datatype", 1)))
