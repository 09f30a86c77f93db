"""Convolutions of fewer channels than a block, such as those of a picture: the columns of their kernels become channels.

A step of the array is a product of a whole block of channels at one offset of the kernel, and most of the block is empty where there are
three. With the columns that a row of the kernel reads side by side, 7 x 7 offsets of 3 channels are 7 x 1 offsets of 21."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from tilewright.relay.cards.card import constructor as op
from tilewright.relay.expr import Expr, Tuple, const
from tilewright.relay.rewriting import static_shape, tensor_of
from tilewright.vta.top.packing import Packing
from tilewright.vta.top.products import Product


class Fold(NamedTuple):
    """What the columns of a kernel read, as channels: for each of `taps` columns those of the data that it is applied to, which are `step`
    apart. left, right: columns before and behind the data, which are the number `outside`."""

    taps: int
    step: int
    left: int
    right: int
    outside: int

    def of(self, data: Expr) -> Expr:
        """(N, taps * C, H, columns of the result) of data (N, C, H, W)."""
        n, c, h, w = static_shape(data) or ()
        if self.left or self.right:
            widths = ((0, 0), (0, 0), (0, 0), (self.left, self.right))
            data = op("nn.pad")(data, widths, const(self.outside, str(tensor_of(data).dtype)))
        last = w + self.left + self.right - self.taps
        parts = [
            op("strided_slice")(data, (0, 0, 0, x), (n, c, h, x + last + 1), (1, 1, 1, self.step))
            for x in range(self.taps)
        ]
        return op("concatenate")(Tuple(tuple(parts)), axis=1)


def fold_of(product: Product, packing: Packing) -> Fold | None:
    """How the columns of a product's kernel become channels, where this takes fewer steps; None for others."""
    (_, channels, _, taps), unit = product.weights.shape, packing.unit
    fewer = packing.whole(channels * taps) < packing.whole(channels) * taps
    if product.groups != 1 or channels >= unit or not fewer:
        return None
    _, left, _, right = product.padding
    return Fold(taps, product.strides[1], left, right, product.outside)


def folded(product: Product, data: Expr) -> Product:
    """The product for folded data."""
    outputs, channels, kh, taps = product.weights.shape
    weights = product.weights.transpose(0, 3, 1, 2).reshape(outputs, taps * channels, kh, 1)
    top, _, bottom, _ = product.padding
    return product._replace(
        data=data, weights=np.ascontiguousarray(weights), strides=(product.strides[0], 1), padding=(top, 0, bottom, 0)
    )


__all__ = ["Fold", "fold_of", "folded"]
