"""Fourier transforms, as sums."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from tilewright import te
from tilewright.topi.lang import compute, tir
from tilewright.topi.stages import MATERIALIZE
from tilewright.topi.utils import as_int, shape_of, to

LARGEST_MATRIX = 256
"""Transforms of up to so many elements are products with matrices; larger matrices would take longer to fill than to use."""

if TYPE_CHECKING:
    from tilewright.ir import PrimExpr
    from tilewright.tir.expr import Var


def _turns(n: Any, dtype: str) -> tuple[te.Tensor, te.Tensor]:
    """Cosines and sines of 2 pi q / n for q < n: tables, since a sum has n of each for every frequency. Angles are reduced to the nearest
    quarter turn in integers, so that quarter turns are exact."""
    whole = to(n, "int64")

    def turned(q: Var) -> tuple[PrimExpr, PrimExpr]:
        part = to(q, "int64")
        quarter = tir.floordiv(8 * part + whole, 2 * whole)
        angle = to(4 * part - quarter * whole, dtype) * tir.const(math.pi / 2, dtype) / to(n, dtype)
        c, s = tir.cos(angle), tir.sin(angle)
        even = tir.EQ(tir.floormod(quarter, 2), tir.const(0, "int64"))
        cosine, sine = tir.Select(even, c, s), tir.Select(even, s, c)
        left = tir.EQ(tir.floormod(tir.floordiv(quarter + 1, 2), 2), tir.const(1, "int64"))
        lower = tir.EQ(tir.floormod(tir.floordiv(quarter, 2), 2), tir.const(1, "int64"))
        return tir.Select(left, -cosine, cosine), tir.Select(lower, -sine, sine)

    return compute([n], lambda q: turned(q)[0], name="cosines"), compute([n], lambda q: turned(q)[1], name="sines")


def _place(frequency: Any, time: Any, n: Any) -> PrimExpr:
    """The entry of the tables for a frequency and a time."""
    return tir.floormod(to(frequency, "int64") * to(time, "int64"), to(n, "int64"))


def stft(
    data: te.Tensor,
    n_fft: int,
    hop_length: int,
    win_length: int,
    window: te.Tensor,
    normalized: bool,
    onesided: bool,
    output_shape: Any = None,
) -> te.Tensor:
    """Fourier transforms of windows that are `hop_length` apart: (batch, frequencies, windows, 2). data: (length,) or (batch,
    length). `window` (win_length,) is centred in `n_fft` elements."""
    shape = shape_of(data)
    batched = len(shape) == 2
    frames = as_int((shape[-1] - n_fft) // hop_length + 1)
    bins = n_fft // 2 + 1 if onesided else n_fft
    dtype = data.dtype
    scale = 1 / math.sqrt(n_fft) if normalized else 1.0
    offset = (n_fft - win_length) // 2
    k = te.reduce_axis((0, win_length), name="k")
    cosines, sines = _turns(n_fft, dtype)

    def turn(n: Var, column: Var) -> Any:
        at = _place(column // 2, offset + n, n_fft)
        return window(n) * tir.Select(column % 2 <= 0, cosines(at), -sines(at)) * tir.const(scale, dtype)

    # One for each window: with it, transforms are a product of matrices.
    turns = compute([win_length, 2 * bins], turn, name="turns", attrs={MATERIALIZE: 1})

    def element(b: Var, t: Var, column: Var) -> Any:
        place = t * hop_length + offset + k.var
        return te.sum((data(b, place) if batched else data(place)) * turns(k.var, column), axis=[k])

    parts = compute([shape[0] if batched else 1, frames, 2 * bins], element, name="stft_parts", tag="stft")
    if batched:
        return compute(
            [shape[0], bins, frames, 2], lambda b, f, t, part: parts(b, t, 2 * f + part), name="stft", tag="injective"
        )
    return compute([bins, frames, 2], lambda f, t, part: parts(0, t, 2 * f + part), name="stft", tag="injective")


def dft(re_data: te.Tensor, im_data: te.Tensor, inverse: bool) -> list[te.Tensor]:
    """(real, imaginary) parts of the Fourier transform of the last axis, or of its inverse."""
    shape = shape_of(re_data)
    n, dtype = shape[-1], re_data.dtype
    sign = 1.0 if inverse else -1.0
    cosines, sines = _turns(n, dtype)

    def turns(table: te.Tensor, factor: float, name: str) -> Any:
        """A table's entry for a time and a frequency; where the transform is a product, from a matrix of them."""

        def entry(time: Any, frequency: Any) -> Any:
            value = table(_place(frequency, time, n)) * tir.const(factor, dtype)
            return value / to(n, dtype) if inverse else value

        if not isinstance(n, int) or n > LARGEST_MATRIX:
            return entry
        return compute([n, n], entry, name=name, attrs={MATERIALIZE: 1})

    c, s = turns(cosines, 1.0, "dft_cosines"), turns(sines, sign, "dft_sines")

    def part(imaginary: bool) -> te.Tensor:
        k = te.reduce_axis((0, n), name="k")

        def element(*i: Var) -> Any:
            re, im = re_data(*i[:-1], k.var), im_data(*i[:-1], k.var)
            cosine, sine = c(k.var, i[-1]), s(k.var, i[-1])
            value = re * sine + im * cosine if imaginary else re * cosine - im * sine
            return te.sum(value, axis=[k])

        return compute(shape, element, name="dft_im" if imaginary else "dft_re", tag="dft")

    return [part(False), part(True)]
