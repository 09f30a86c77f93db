"""Discrete Fourier transforms of known size, as products with tables of cosines and sines."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TypeVar

import numpy as np

from tilewright.relay.expr import Expr
from tilewright.relay.frontend.common.value import Value

MATRIX = 256
"""The largest size of a transform that is one product. Larger ones are two products, of sizes that are factors of their size."""
LARGEST_MATRIX = 1024
"""The largest size of a transform that is one product if its size has no two factors that are nearly equal."""
LARGEST = 1 << 24
"""The largest size of a transform that is two products."""

Tensor = TypeVar("Tensor", bound=Value | Expr)
Call = Callable[..., Tensor]
"""An operator on tensors: (key, *arguments, **attributes)."""
Constant = Callable[[np.ndarray], Value]
Parts = tuple[Value | Expr, Value | Expr | None]
"""(real part, imaginary part) of a tensor; the imaginary part is None for real tensors."""


def fourier(
    call: Call[Tensor], constant: Constant, x: Parts, rank: int, size: int, inverse: bool = False
) -> tuple[Tensor, Tensor] | None:
    """(real, imaginary) parts of the transform of the last axis, of extent `size`, for tensors of `rank` axes. None for sizes at which
    products are too costly. constant: makes a constant in the tensors' type from an array of float64."""
    if size > LARGEST:
        return None
    scale = 1 / size if inverse else 1.0
    low = next(k for k in range(math.isqrt(size), 0, -1) if size % k == 0)
    if size <= MATRIX or size <= LARGEST_MATRIX and low * 8 < size // low:
        return _product(call, constant, x, _table(size, np.outer(np.arange(size), np.arange(size)), inverse, scale))
    if low * 8 < size // low:
        return None
    high = size // low
    last = rank - 1
    lead = (0,) * last
    swapped = (*range(last), last + 1, last)

    def turned(v: Tensor) -> Tensor:
        return call("transpose", v, axes=swapped)

    def apart(v: Value | Expr) -> Tensor:
        return turned(call("reshape", v, newshape=(*lead, low, high)))

    # Cooley and Tukey: element a * high + b of x, frequency c + low * d. First: sums over a, for each b.
    columns: Parts = (apart(x[0]), None if x[1] is None else apart(x[1]))
    first = np.outer(np.arange(low), np.arange(low)) * high
    real, imag = _product(call, constant, columns, _table(size, first, inverse))
    # Second: multiply by the twiddle factors of b * c.
    cosine, sine = [constant(t) for t in _table(size, np.outer(np.arange(high), np.arange(low)), inverse)]
    real, imag = (
        call("subtract", call("multiply", real, cosine), call("multiply", imag, sine)),
        call("add", call("multiply", real, sine), call("multiply", imag, cosine)),
    )
    # Third: sums over b.
    second = np.outer(np.arange(high), np.arange(high)) * low
    found = _product(call, constant, (turned(real), turned(imag)), _table(size, second, inverse, scale))
    whole = [call("reshape", turned(v), newshape=(*lead, size)) for v in found]
    return whole[0], whole[1]


def _table(size: int, turn: np.ndarray, inverse: bool, scale: float = 1.0) -> tuple[np.ndarray, np.ndarray]:
    """Cosines and sines of angles 2 pi k / `size` for these k, exact at multiples of a quarter turn."""
    turn = turn % size
    angle = 2 * np.pi * turn / size
    cosine, sine = np.cos(angle), np.sin(angle)
    for part, zeros in ((cosine, (1, 3)), (sine, (0, 2))):
        for q in zeros:
            part[4 * turn == q * size] = 0
    return cosine * scale, (sine if inverse else -sine) * scale


def _product(
    call: Call[Tensor], constant: Constant, x: Parts, table: tuple[np.ndarray, np.ndarray]
) -> tuple[Tensor, Tensor]:
    """The product of the last axis of a complex tensor with a complex matrix."""
    cosine, sine = [constant(t) for t in table]
    real, imag = x
    made = call("nn.matmul", real, cosine), call("nn.matmul", real, sine)
    if imag is None:
        return made
    return (
        call("subtract", made[0], call("nn.matmul", imag, sine)),
        call("add", made[1], call("nn.matmul", imag, cosine)),
    )
