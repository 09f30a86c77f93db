"""Converters of Fourier transforms."""

from __future__ import annotations

import numpy as np

from tilewright.relay.frontend.common.fourier import fourier
from tilewright.relay.frontend.tflite.node import Node, Pair, Value, tflite_op
from tilewright.support.errors import OpNotImplemented


@tflite_op("RFFT2D")
def _rfft2d(node: Node, x: Value, lengths: Value) -> Pair:
    wanted = [int(n) for n in node.whole(lengths, "fft_length").reshape(-1)]
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

    found = fourier(node.call, constant, (real, imag), real.ndim, real.known_extent(-1))
    return list(
        found or node.calls("dft", real, node.call("zeros_like", real) if imag is None else imag, inverse=False)
    )
