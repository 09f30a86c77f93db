"""Converters of complex numbers (pairs of tensors here) and Fourier transforms."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from tilewright.relay.frontend.common.fourier import fourier
from tilewright.relay.frontend.common.value import Value
from tilewright.relay.frontend.tensorflow.value import Complex, NodeCall, Result, tensor, tf_op
from tilewright.support.errors import OpNotImplemented


def _complex(x: Result) -> Complex:
    if isinstance(x, Complex):
        return x
    raise OpNotImplemented(
        "its input is not a complex tensor that the model makes; constants and inputs of complex numbers are not supported"
    )


@tf_op("Complex")
def _pair(c: NodeCall, real: Value, imag: Value) -> Complex:
    return Complex(*c.broadcast_all([real, imag]))


@tf_op("Real")
def _real(c: NodeCall, x: Result) -> Value:
    return _complex(x).real


@tf_op("Imag")
def _imag(c: NodeCall, x: Result) -> Value:
    return _complex(x).imag


@tf_op("Conj")
def _conj(c: NodeCall, x: Result) -> Complex | Value:
    return Complex(x.real, c.call("negative", x.imag)) if isinstance(x, Complex) else tensor(x)


@tf_op("ComplexAbs")
def _size(c: NodeCall, x: Result) -> Value:
    x = _complex(x)
    return c.call("sqrt", c.call("add", c.call("multiply", x.real, x.real), c.call("multiply", x.imag, x.imag)))


def _on_axis(c: NodeCall, x: Complex, axis: int, f: Callable[[Complex], Complex]) -> Complex:
    """f, which works on the last axis, applied to another axis."""
    order = list(range(x.real.ndim))
    if axis == order[-1]:
        return f(x)
    order[axis], order[-1] = order[-1], order[axis]
    made = f(Complex(c.transpose(x.real, order), c.transpose(x.imag, order)))
    return Complex(c.transpose(made.real, order), c.transpose(made.imag, order))


def _transformed(c: NodeCall, x: Complex, inverse: bool) -> Complex:
    size = x.real.shape[-1]
    found = None
    if isinstance(size, int):

        def constant(array: np.ndarray) -> Value:
            return Value(array=array.astype(x.real.dtype))

        found = fourier(c.call, constant, (x.real, x.imag), x.real.ndim, size, inverse)
    return Complex(*(found or c.calls("dft", x.real, x.imag, inverse=inverse)))


@tf_op("FFT", "IFFT", "FFT2D", "IFFT2D", "FFT3D", "IFFT3D")
def _fft(c: NodeCall, x: Result) -> Complex:
    x = _complex(x)
    axes = {"2D": 2, "3D": 3}.get(c.op[-2:], 1)
    for k in range(axes):
        x = _on_axis(c, x, x.real.ndim - 1 - k, lambda v: _transformed(c, v, c.op.startswith("I")))
    return x


def _fitted(c: NodeCall, x: Value, axis: int, size: int) -> Value:
    """x cropped, or padded with zeros, along an axis."""
    (extent,) = c.static([x.shape[axis]], "the length that it transforms")
    if extent > size:
        return c.cut(x, axis, 0, size)
    return x if extent == size else c.pad(x, [(0, size - extent if k == axis else 0) for k in range(x.ndim)])


@tf_op("RFFT", "RFFT2D", "RFFT3D")
def _rfft(c: NodeCall, x: Value, length: Value) -> Complex:
    sizes = [int(v) for v in c.ints(length, "fft_length")]
    first = x.ndim - len(sizes)
    for k, n in enumerate(sizes):
        x = _fitted(c, x, first + k, n)
    made = _transformed(c, Complex(x, c.call("zeros_like", x)), False)
    kept = sizes[-1] // 2 + 1
    made = Complex(*[c.cut(v, x.ndim - 1, 0, kept) for v in (made.real, made.imag)])
    for k in range(len(sizes) - 1):
        made = _on_axis(c, made, first + k, lambda v: _transformed(c, v, False))
    return made


@tf_op("IRFFT", "IRFFT2D", "IRFFT3D")
def _irfft(c: NodeCall, x: Result, length: Value) -> Value:
    x, sizes = _complex(x), [int(v) for v in c.ints(length, "fft_length")]
    last = x.real.ndim - 1
    first = last + 1 - len(sizes)
    for k, n in enumerate([*sizes[:-1], sizes[-1] // 2 + 1]):
        x = Complex(_fitted(c, x.real, first + k, n), _fitted(c, x.imag, first + k, n))
    for k in range(len(sizes) - 1):
        x = _on_axis(c, x, first + k, lambda v: _transformed(c, v, True))
    # The second half of the spectrum is the reversed conjugate of the first.
    behind = (sizes[-1] - 1) // 2
    mirrored = [c.call("reverse", c.cut(v, last, 1, 1 + behind), axis=last) for v in (x.real, x.imag)] if behind else []
    if behind:
        x = Complex(
            c.concatenate([x.real, mirrored[0]], last), c.concatenate([x.imag, c.call("negative", mirrored[1])], last)
        )
    return _transformed(c, x, True).real
