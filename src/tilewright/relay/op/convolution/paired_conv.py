"""Convolutions and dense layers of bytes by pairs of 16-bit numbers, for processors with Arm's DSP extension, or by vectors of 16 bytes,
for those with Helium.

Their attribute `decisions` holds, as JSON, what a record of AutoTVM decides about the kernel, in the place of the cost model.
"""

from __future__ import annotations

import numpy as np

from tilewright import te, topi
from tilewright.ir import TensorType, Type
from tilewright.relay.cards.card import OUT_ELEMWISE, OpCard, any_bytes, need
from tilewright.relay.cards.relations import Dim, dims, is_static, known_extent, need_count, tensor, tensor_type
from tilewright.relay.op.convolution.windows import np_conv
from tilewright.topi.nn.paired_conv import paired_weights, plain_weights


def _need_groups(weight: TensorType, row: Dim, groups: Dim) -> None:
    """Weights have groups of 4 or 16 for a row of so many bytes."""
    group = known_extent(weight.shape[-1])
    need(group in (4, 16), "weights must have groups of 4 or 16", f"they have groups of {group}", 1)
    wanted = -(-known_extent(row) // group)
    need(groups == wanted, f"weights must have {wanted} groups for a row of {row}", f"they have {groups}", 1)


def _need_bytes(data: Type, weight: Type) -> tuple[TensorType, TensorType]:
    d, w = tensor(data, 0), tensor(weight, 1)
    for k, t in enumerate((d, w)):
        need(str(t.dtype) == "int8", "data and weights must be int8", f"they are {t.dtype}", k)
        need(is_static(t), "the extents of data and weights must be known", f"they are {t}", k)
    return d, w


class conv2d_pairs(OpCard, key="nn.contrib_conv2d_pairs"):
    """int8 data (N, H, W, C) and packed weights (O / t, KH, groups, KW, t, 4 or 16): int32 sums (N, H', W', O). padding: (top, left,
    bottom, right), of the value `fill`. kernel_width: that of weights whose groups run along the columns and channels of a row, which then
    have one column; 0 for groups of channels. Groups of 16 run along rows."""

    strides: tuple[int, ...] = (1, 1)
    padding: tuple[int, ...] = (0, 0, 0, 0)
    fill: int = 0
    kernel_width: int = 0
    decisions: str = ""
    fuse = OUT_ELEMWISE
    samples = [
        ((any_bytes((1, 5, 6, 8)), any_bytes((4, 3, 2, 3, 1, 4))), {"padding": (1, 1, 1, 1), "fill": -3}),
        ((any_bytes((1, 7, 8, 4)), any_bytes((2, 3, 1, 3, 2, 4))), {"strides": (2, 2), "padding": (0, 0, 1, 1), "fill": 5}),
        ((any_bytes((1, 7, 5, 1)), any_bytes((2, 3, 1, 1, 1, 4))), {"kernel_width": 4, "padding": (1, 1, 1, 2)}),
        ((any_bytes((2, 1, 1, 8)), any_bytes((3, 1, 2, 1, 2, 4))), {}),
        ((any_bytes((1, 5, 6, 8)), any_bytes((4, 3, 2, 1, 1, 16))), {"kernel_width": 4, "padding": (1, 2, 1, 1), "fill": -3}),
    ]  # fmt: skip

    def infer(self, data: TensorType, weight: TensorType) -> Type:
        d, w = _need_bytes(data, weight)
        need(len(d.shape) == 4, "data must have the axes N, H, W, C", f"it has {len(d.shape)} axes", 0)
        need(len(w.shape) == 6, "weights must have six axes", f"they have {len(w.shape)}", 1)
        n, height, width, channels = dims(d)
        panels, kh, groups, kw, filters, _ = dims(w)
        row = self.kernel_width * channels if self.kernel_width else channels
        _need_groups(w, row, groups)
        if known_extent(w.shape[-1]) == 16:
            need(self.kernel_width > 0, "groups of 16 must run along rows", "kernel_width is 0")
        need_count("strides", self.strides, [2])
        need_count("padding", self.padding, [4])
        top, left, bottom, right = self.padding
        window = (kh, self.kernel_width or kw)
        extents = (height + top + bottom, width + left + right)
        out = [(e - k) // s + 1 for e, k, s in zip(extents, window, self.strides, strict=True)]
        need(
            all([known_extent(e) > 0 for e in out]),
            "windows must fit into the data",
            f"they are {window} in {extents}",
            0,
        )
        return tensor_type((n, *out, panels * filters), "int32")

    def compute(self, data: te.Tensor, weight: te.Tensor) -> te.Tensor:
        return topi.nn.conv2d_pairs(data, weight, self.strides, self.padding, self.fill, self.kernel_width)

    def ref(self, data: np.ndarray, weight: np.ndarray) -> np.ndarray:
        top, left, bottom, right = self.padding
        width = ((0, 0), (top, bottom), (left, right), (0, 0))
        filled = np.pad(data, width, constant_values=self.fill).astype(np.int32).transpose(0, 3, 1, 2)
        plain = plain_weights(weight, data.shape[3], self.kernel_width).astype(np.int32).transpose(3, 2, 0, 1)
        found = np_conv(filled, plain, tuple(self.strides), ((0, 0), (0, 0)), (1, 1), 1)
        return np.asarray(found.transpose(0, 2, 3, 1).astype(np.int32))


class depthwise_conv2d_pairs(OpCard, key="nn.contrib_depthwise_conv2d_pairs"):
    """int8 data (N, H, W, C) and weights (C / 4, KH, KW, 4): int32 sums (N, H', W', C) of each channel on its own. padding: (top, left,
    bottom, right), of the value `fill`."""

    strides: tuple[int, ...] = (1, 1)
    padding: tuple[int, ...] = (0, 0, 0, 0)
    fill: int = 0
    decisions: str = ""
    fuse = OUT_ELEMWISE
    samples = [
        ((any_bytes((1, 6, 8, 8)), any_bytes((2, 3, 3, 4))), {"padding": (1, 1, 1, 1), "fill": -3}),
        ((any_bytes((1, 7, 5, 4)), any_bytes((1, 3, 3, 4))), {"strides": (2, 2), "padding": (0, 0, 1, 1), "fill": 5}),
    ]

    def infer(self, data: TensorType, weight: TensorType) -> Type:
        d, w = _need_bytes(data, weight)
        need(len(d.shape) == 4, "data must have the axes N, H, W, C", f"it has {len(d.shape)} axes", 0)
        need(len(w.shape) == 4, "weights must have four axes", f"they have {len(w.shape)}", 1)
        n, height, width, channels = dims(d)
        groups, kh, kw, _ = dims(w)
        need(groups * 4 == channels, f"weights must be for {channels} channels", f"they are for {groups * 4}", 1)
        need_count("strides", self.strides, [2])
        need_count("padding", self.padding, [4])
        top, left, bottom, right = self.padding
        extents = (height + top + bottom, width + left + right)
        out = [(e - k) // s + 1 for e, k, s in zip(extents, (kh, kw), self.strides, strict=True)]
        need(
            all([known_extent(e) > 0 for e in out]),
            "windows must fit into the data",
            f"they are {(kh, kw)} in {extents}",
            0,
        )
        return tensor_type((n, *out, channels), "int32")

    def compute(self, data: te.Tensor, weight: te.Tensor) -> te.Tensor:
        return topi.nn.depthwise_conv2d_pairs(data, weight, self.strides, self.padding, self.fill)

    def ref(self, data: np.ndarray, weight: np.ndarray) -> np.ndarray:
        top, left, bottom, right = self.padding
        width = ((0, 0), (top, bottom), (left, right), (0, 0))
        filled = np.pad(data, width, constant_values=self.fill).astype(np.int32).transpose(0, 3, 1, 2)
        plain = weight.transpose(0, 3, 1, 2).reshape(-1, 1, *weight.shape[1:3]).astype(np.int32)
        found = np_conv(filled, plain, tuple(self.strides), ((0, 0), (0, 0)), (1, 1), len(plain))
        return np.asarray(found.transpose(0, 2, 3, 1).astype(np.int32))


class dense_pairs(OpCard, key="nn.contrib_dense_pairs"):
    """int8 data (M, K) and packed weights (N / t, groups, t, 4 or 16): int32 sums (M, N)."""

    decisions: str = ""
    fuse = OUT_ELEMWISE
    samples = [
        ((any_bytes((1, 8)), any_bytes((3, 2, 5, 4))), {}),
        ((any_bytes((6, 7)), any_bytes((4, 2, 1, 4))), {}),
        ((any_bytes((3, 21)), any_bytes((4, 2, 1, 16))), {}),
    ]

    def infer(self, data: TensorType, weight: TensorType) -> Type:
        d, w = _need_bytes(data, weight)
        need(len(d.shape) == 2, "data must be a matrix", f"it has {len(d.shape)} axes", 0)
        need(len(w.shape) == 4, "weights must have four axes", f"they have {len(w.shape)}", 1)
        rows, inner = dims(d)
        panels, groups, filters, _ = dims(w)
        _need_groups(w, inner, groups)
        return tensor_type((rows, panels * filters), "int32")

    def compute(self, data: te.Tensor, weight: te.Tensor) -> te.Tensor:
        return topi.nn.dense_pairs(data, weight)

    def ref(self, data: np.ndarray, weight: np.ndarray) -> np.ndarray:
        plain = plain_weights(weight[:, None, :, None], data.shape[1], 0)[0, 0]
        return np.asarray(data.astype(np.int32) @ plain.astype(np.int32))


__all__ = ["conv2d_pairs", "dense_pairs", "paired_weights"]
