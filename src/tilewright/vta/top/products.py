"""Convolutions and dense layers of models with constant weights, as products of the array."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from tilewright.relay.expr import Call, Expr
from tilewright.relay.rewriting import card_of, constant_of, is_op, tensor_of

Array = np.ndarray[Any, Any]


class Product(NamedTuple):
    """A convolution. weights: (O, C / groups, KH, KW) of int8; padding: (top, left, bottom, right), which stands for the number
    `outside`."""

    data: Expr
    weights: Array
    strides: tuple[int, int]
    padding: tuple[int, int, int, int]
    groups: int
    outside: int

    def border(self, extents: tuple[int, ...]) -> Array:
        """The convolution (O, OH, OW) of an image that is 1 in the padding and 0 inside; extents: rows and columns inside."""
        (h, w), (top, left, bottom, right) = extents, self.padding
        mask = np.pad(np.zeros((h, w), np.int64), ((top, bottom), (left, right)), constant_values=1)
        sums = self.weights.sum(axis=1, dtype=np.int64)
        (kh, kw), (sy, sx) = sums.shape[1:], self.strides
        rows, columns = (h + top + bottom - kh) // sy + 1, (w + left + right - kw) // sx + 1
        total = np.zeros((len(sums), rows, columns), np.int64)
        for y in range(kh):
            for x in range(kw):
                part = mask[y : y + sy * rows : sy, x : x + sx * columns : sx][:rows, :columns]
                total += sums[:, y, x, None, None] * part
        return total


def product_of(e: Call) -> Product | None:
    """The product that a call is; None for other operators and other forms, such as dilated kernels."""
    if not is_op(e, "nn.conv2d", "nn.dense") or str(tensor_of(e).dtype) != "int32":
        return None
    data, weights = e.args[0], constant_of(e.args[1])
    if weights is None or weights.dtype != np.int8 or str(tensor_of(data).dtype) not in ("int8", "uint8"):
        return None
    if is_op(e, "nn.dense"):
        return Product(data, weights[:, :, None, None], (1, 1), (0, 0, 0, 0), 1, 0)
    card: Any = card_of(e)
    if card.data_layout != "NCHW" or card.kernel_layout != "OIHW" or card.out_layout not in ("", "NCHW"):
        return None
    if tuple(card.dilation) != (1, 1):
        return None
    strides = tuple(card.strides) * (3 - len(card.strides))
    padding = tuple(card.padding)
    padding = padding * (4 // len(padding))
    top, left, bottom, right = (int(p) for p in padding)
    outside = 0
    if is_op(data, "nn.pad") and not any(padding):
        inner, value = data.args[0], constant_of(data.args[1])
        pad: Any = card_of(data)
        widths = pad.pad_width
        if value is not None and pad.pad_mode == "constant" and not any([*widths[0], *widths[1]]):
            (top, bottom), (left, right) = widths[2], widths[3]
            outside, data = int(value.reshape(-1)[0]), inner
    return Product(
        data,
        weights,
        (int(strides[0]), int(strides[1])),
        (int(top), int(left), int(bottom), int(right)),
        int(card.groups),
        outside,
    )


__all__ = ["Product", "product_of"]
