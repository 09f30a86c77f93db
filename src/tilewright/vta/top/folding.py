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
    """How the columns of a kernel become channels. kernel_width: the number of these columns; step: the stride along a row; left, right:
    columns of padding, which have the value `outside`."""

    kernel_width: int
    step: int
    left: int
    right: int
    outside: int

    def of(self, data: Expr) -> Expr:
        """Data (N, C, H, W) as (N, kernel_width * C, H, columns of the result): the channels that each column of the kernel reads."""
        n, c, h, w = static_shape(data) or ()
        if self.left or self.right:
            widths = ((0, 0), (0, 0), (0, 0), (self.left, self.right))
            data = op("nn.pad")(data, widths, const(self.outside, str(tensor_of(data).dtype)))
        last = w + self.left + self.right - self.kernel_width
        parts = [
            op("strided_slice")(data, (0, 0, 0, x), (n, c, h, x + last + 1), (1, 1, 1, self.step))
            for x in range(self.kernel_width)
        ]
        return op("concatenate")(Tuple(tuple(parts)), axis=1)


def fold_of(product: Product, packing: Packing) -> Fold | None:
    """How the columns of a product's kernel become channels, where this takes fewer steps; None for others."""
    (_, channels, _, kernel_width), unit = product.weights.shape, packing.unit
    fewer = packing.whole(channels * kernel_width) < packing.whole(channels) * kernel_width
    if product.groups != 1 or channels >= unit or not fewer:
        return None
    _, left, _, right = product.padding
    return Fold(kernel_width, product.strides[1], left, right, product.outside)


def folded(product: Product, data: Expr) -> Product:
    """The product for folded data."""
    outputs, channels, kh, kernel_width = product.weights.shape
    weights = product.weights.transpose(0, 3, 1, 2).reshape(outputs, kernel_width * channels, kh, 1)
    top, _, bottom, _ = product.padding
    return product._replace(
        data=data, weights=np.ascontiguousarray(weights), strides=(product.strides[0], 1), padding=(top, 0, bottom, 0)
    )


__all__ = ["Fold", "fold_of", "folded"]
