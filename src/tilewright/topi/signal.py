"""Fourier transforms, as sums."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from tilewright import te
from tilewright.topi.lang import compute, tir
from tilewright.topi.utils import as_int, shape_of, to

if TYPE_CHECKING:
    from tilewright.ir import PrimExpr
    from tilewright.tir.expr import Var


def _turned(k: PrimExpr, n: Any, dtype: str) -> tuple[PrimExpr, PrimExpr]:
    """(cosine, sine) of 2 pi k / n. The angle is reduced to the nearest quarter turn in integers, so that quarter turns are exact."""
    whole = to(n, "int64")
    part = tir.floormod(to(k, "int64"), whole)
    quarter = tir.floordiv(8 * part + whole, 2 * whole)
    angle = to(4 * part - quarter * whole, dtype) * tir.const(math.pi / 2, dtype) / to(n, dtype)
    c, s = tir.cos(angle), tir.sin(angle)
    even = tir.EQ(tir.floormod(quarter, 2), tir.const(0, "int64"))
    cosine, sine = tir.Select(even, c, s), tir.Select(even, s, c)
    left = tir.EQ(tir.floormod(tir.floordiv(quarter + 1, 2), 2), tir.const(1, "int64"))
    lower = tir.EQ(tir.floormod(tir.floordiv(quarter, 2), 2), tir.const(1, "int64"))
    return tir.Select(left, -cosine, cosine), tir.Select(lower, -sine, sine)


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

    def element(b: Var, f: Var, t: Var, part: Var) -> Any:
        place = t * hop_length + offset + k.var
        value = (data(b, place) if batched else data(place)) * window(k.var)
        cosine, sine = _turned(f * (offset + k.var), n_fft, dtype)
        turn = tir.Select(part <= 0, cosine, -sine)
        return te.sum(value * turn * tir.const(scale, dtype), axis=[k])

    lead = shape[0] if batched else 1
    out = compute([lead, bins, frames, 2], element, name="stft", tag="stft")
    if batched:
        return out
    return compute([bins, frames, 2], lambda *i: out(0, *i), name="stft_flat", tag="injective")


def dft(re_data: te.Tensor, im_data: te.Tensor, inverse: bool) -> list[te.Tensor]:
    """(real, imaginary) parts of the Fourier transform of the last axis, or of its inverse."""
    shape = shape_of(re_data)
    n, dtype = shape[-1], re_data.dtype
    sign = 1.0 if inverse else -1.0

    def part(imaginary: bool) -> te.Tensor:
        k = te.reduce_axis((0, n), name="k")

        def element(*i: Var) -> Any:
            c, sine = _turned(to(i[-1], "int64") * to(k.var, "int64"), n, dtype)
            s = sine * tir.const(sign, dtype)
            re, im = re_data(*i[:-1], k.var), im_data(*i[:-1], k.var)
            value = re * s + im * c if imaginary else re * c - im * s
            return te.sum(value / to(n, dtype) if inverse else value, axis=[k])

        return compute(shape, element, name="dft_im" if imaginary else "dft_re", tag="dft")

    return [part(False), part(True)]
