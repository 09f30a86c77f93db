"""Tensors of models in the layout of the accelerator, and back.

Packed data that products read are (N / BATCH, C / BLOCK_IN, H, W, BATCH, BLOCK_IN) of int8, and results have BLOCK_OUT instead; channels
are filled up with zeros until both divide them. A matrix (M, K) is an image of one column: its rows are rows of the image where BATCH is 1,
else rows of the array."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from tilewright.relay.cards.card import constructor as op
from tilewright.relay.expr import Expr, const

Shape = tuple[int, ...]


class Packing:
    """Layouts for an array. batch: rows of the array; block_in, block_out: its inputs and outputs."""

    def __init__(self, batch: int, block_in: int, block_out: int) -> None:
        self.batch, self.block_in, self.block_out = batch, block_in, block_out
        self.unit = math.lcm(block_in, block_out)
        self.data_layout, self.result_layout = (f"NCHW{batch}n{block}c" for block in (block_in, block_out))
        self.kernel_layout = f"OIHW{block_out}o{block_in}i"

    @property
    def alike(self) -> bool:
        """Whether results are data as products read them."""
        return self.block_in == self.block_out

    def whole(self, channels: int) -> int:
        """So many channels, filled up."""
        return -(-channels // self.unit) * self.unit

    def image(self, shape: Sequence[int]) -> Shape | None:
        """A tensor's shape as an image (N, C, H, W); None where there is no such form, or N is no multiple of the array's rows."""
        if len(shape) == 4:
            found = tuple(shape)
        elif len(shape) == 2:
            found = (1, shape[1], shape[0], 1) if self.batch == 1 else (shape[0], shape[1], 1, 1)
        else:
            return None
        return found if found[0] % self.batch == 0 else None

    def packed_shape(self, image: Shape) -> Shape:
        """The shape of data that products read."""
        n, c, h, w = image
        return n // self.batch, self.whole(c) // self.block_in, h, w, self.batch, self.block_in

    # ---- expressions

    def pack(self, e: Expr, shape: Sequence[int]) -> Expr:
        """int8 data of a shape, packed for products."""
        image = self._need(shape)
        n, c, h, w = image
        if len(shape) == 2:
            e = op("transpose")(e, (1, 0)) if self.batch == 1 else e
            e = op("reshape")(e, image)
        missing = self.whole(c) - c
        if missing:
            e = op("nn.pad")(e, ((0, 0), (0, missing), (0, 0), (0, 0)), const(0, "int8"))
        split = (n // self.batch, self.batch, self.whole(c) // self.block_in, self.block_in, h, w)
        return op("transpose")(op("reshape")(e, split), (0, 2, 4, 5, 1, 3))

    def unpack(self, e: Expr, shape: Sequence[int]) -> Expr:
        """Packed results as a tensor of the shape."""
        n, c, h, w = self._need(shape)
        whole = (n, self.whole(c), h, w)
        e = op("reshape")(op("transpose")(e, (0, 4, 1, 5, 2, 3)), whole)
        if whole[1] != c:
            e = op("strided_slice")(e, (0, 0, 0, 0), (n, c, h, w), (1, 1, 1, 1))
        if len(shape) == 2:
            e = op("reshape")(e, (c, shape[0]) if self.batch == 1 else tuple(shape))
            e = op("transpose")(e, (1, 0)) if self.batch == 1 else e
        return e

    def _need(self, shape: Sequence[int]) -> Shape:
        found = self.image(shape)
        assert found is not None
        return found

    # ---- constants

    def constant(self, value: np.ndarray[Any, Any], shape: Sequence[int]) -> np.ndarray[Any, Any]:
        """An int32 constant, to be broadcast against a tensor of the shape, packed as results. Axes along which it does not change have
        extent 1, except for channels and rows of the array, since elements are read whole."""
        full = np.asarray(value, np.int32).reshape((1,) * (len(shape) - value.ndim) + value.shape)
        if len(shape) == 2:
            full = full.T[None, :, :, None] if self.batch == 1 else full[:, :, None, None]
        channels = self._need(shape)[1]
        n, c, h, w = full.shape
        full = np.broadcast_to(full, (n, channels, h, w))
        full = np.pad(full, ((0, 0), (0, self.whole(channels) - channels), (0, 0), (0, 0)))
        if n == 1:
            full = np.broadcast_to(full, (self.batch, *full.shape[1:]))
        split = full.reshape(len(full) // self.batch, self.batch, -1, self.block_out, h, w)
        return np.ascontiguousarray(split.transpose(0, 2, 4, 5, 1, 3))

    def weights(self, w: np.ndarray[Any, Any], groups: int) -> tuple[np.ndarray[Any, Any], int]:
        """(weights (O, I, KH, KW) packed, groups of whole blocks). Groups that are smaller than blocks become parts of them, whose other
        weights are zero."""
        outputs, inputs, kh, kw = w.shape
        per_group = outputs // groups
        if groups > 1 and (inputs % self.unit or per_group % self.unit):
            spread = self._in_blocks(w, groups)
            if spread is not None:
                return spread
            dense = np.zeros((outputs, inputs * groups, kh, kw), w.dtype)
            for g in range(groups):
                rows = slice(g * per_group, (g + 1) * per_group)
                dense[rows, g * inputs : (g + 1) * inputs] = w[rows]
            w, groups = dense, 1
        return self._packed(w), groups

    def _in_blocks(self, w: np.ndarray[Any, Any], groups: int) -> tuple[np.ndarray[Any, Any], int] | None:
        """Groups of as many inputs as outputs, a whole number of which fill blocks; None for others."""
        outputs, inputs, kh, kw = w.shape
        if outputs != inputs * groups or self.unit % inputs:
            return None
        filled = np.zeros((self.whole(outputs), self.unit, kh, kw), w.dtype)
        for o in range(outputs):
            first = o % self.unit // inputs * inputs
            filled[o, first : first + inputs] = w[o]
        return self._packed(filled), len(filled) // self.unit

    def identity(self, channels: int) -> tuple[np.ndarray[Any, Any], int]:
        """`weights` of a convolution that gives what it is given."""
        return self.weights(np.ones((channels, 1, 1, 1), "int8"), channels)

    def _packed(self, w: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        outputs, inputs, kh, kw = w.shape
        o, i = self.whole(outputs), self.whole(inputs)
        w = np.pad(w, ((0, o - outputs), (0, i - inputs), (0, 0), (0, 0)))
        split = (o // self.block_out, self.block_out, i // self.block_in, self.block_in, kh, kw)
        return np.ascontiguousarray(w.reshape(split).transpose(0, 2, 4, 5, 1, 3))


__all__ = ["Packing"]
