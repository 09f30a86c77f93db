"""Convolutions over one and three spatial axes, and the adjoints of convolutions."""

from __future__ import annotations

from functools import partial
from math import gcd
from typing import NamedTuple

import numpy as np

from tilewright import te, topi
from tilewright.ir import TensorType, Type
from tilewright.relay.cards.card import Draw, need
from tilewright.relay.cards.relations import (
    Dim,
    dims,
    each,
    is_any,
    known_extent,
    may_equal,
    product_dtype,
    tensor,
    tensor_type,
)
from tilewright.relay.expr import Expr
from tilewright.relay.op.adjoint import op
from tilewright.relay.op.convolution.attributes import ConvAttrs, Convolution, Over1D, Over2D, Over3D, relayout
from tilewright.relay.op.convolution.windows import np_conv_transpose
from tilewright.tir import Any as AnyDim

LANES, COPY, ADDED = 8, 32, 3
"""Filters that are multiplied at once, about; multiply-adds that cost as much as to copy an element; copies that cost as much as to write a
result, transpose it and add it to a sum. Fitted to both forms of random convolutions on a core with AVX-512."""


def _small(*shape: int) -> Draw:
    """A sample: integers whose products need more than their own 8 bits."""
    return lambda rng: rng.integers(-128, 128, shape).astype(np.int8)


class conv1d(Over1D, Convolution, key="nn.conv1d"):
    """Convolution of data (N, C, W) with weight (O, C / groups, K), or in layouts NWC and WIO."""

    samples = [
        (((1, 4, 9), (6, 2, 3)), {"groups": 2, "strides": 2, "padding": (1, 0)}),
        (((1, 3, 9), (2, 3, 3)), {"dilation": 2}),
        (((1, 9, 3), (3, 3, 2)), {"data_layout": "NWC", "kernel_layout": "WIO", "padding": 1}),
    ]


class conv3d(Over3D, Convolution, key="nn.conv3d"):
    """Convolution of data (N, C, D, H, W) with weight (O, C / groups, KD, KH, KW), or in layouts NDHWC and DHWIO. padding: one
    number, one for each axis, or (front, top, left, back, bottom, right)."""

    samples = [
        (((1, 2, 4, 5, 4), (3, 2, 2, 3, 2)), {"padding": (1, 1, 0), "strides": (1, 2, 1)}),
        (((1, 2, 4, 4, 4), (3, 2, 2, 2, 2)), {"kernel_size": (2,), "channels": 3}),
        (((1, 4, 3, 4, 4), (4, 2, 2, 2, 2)), {"groups": 2, "dilation": (1, 2, 1)}),
        (((1, 3, 4, 4, 2), (2, 2, 2, 2, 3)), {"data_layout": "NDHWC", "kernel_layout": "DHWIO"}),
        (((2, 3, 5, 4, 3), (4, 3, 1, 1, 1)), {"strides": (2, 1, 2)}),
        (((1, 3, 4, 5, 4), (6, 1, 3, 2, 3)), {"groups": 3, "padding": 1, "strides": (2, 1, 1)}),
        (((1, 3, 1, 5, 4), (2, 3, 3, 2, 2)), {"padding": (1, 0, 0), "strides": 2}),
    ]

    def simplify(self, data: Expr, weight: Expr) -> Expr | None:
        """Replaces the convolution by conv2d. The planes that a window covers in depth become channels, and each depth of the
        result becomes an image; or each plane is an image, and its results are added up, where filters are few. If windows have one
        element per plane, the planes become rows of one image instead."""
        if self.layouts() != ("NCDHW", "OIDHW", "NCDHW"):
            return super().simplify(data, weight)
        if (found := super().simplify(data, weight)) is not None:
            return found
        x, w = dims(tensor(data.checked_type)), dims(tensor(weight.checked_type))
        if not all([isinstance(d, int) for d in (*x[1:], *w)]) or is_any(x[0]):
            return None
        _, c, depth, h, width = [d if isinstance(d, int) else 0 for d in x]
        o, per, kd, kh, kw = [known_extent(d) for d in w]
        windows, wide = self.windows(), str(tensor(data.checked_type).dtype) in ("float32", "float64")
        (sd, *strides), (dd, *dilation), before, after = windows
        planes, rows, columns = windows.counts((depth, h, width), (kd, kh, kw))
        conv2d = partial(op("nn.conv2d"), groups=self.groups, channels=o, out_dtype=self.out_dtype)
        if {kh, kw} == {1} and not any([*before[1:], *after[1:]]) and {*strides} != {1}:
            # Elements between windows are not read.
            data = op("strided_slice")(data, [0] * 2, [h, width], strides, axes=[3, 4])
            (h, width), strides = (known_extent(rows), known_extent(columns)), [1, 1]
        if kd == 1 and not before[0] and not after[0] and sd > 1:
            data = op("strided_slice")(data, [0], [depth], [sd], axes=[2])
            depth, sd = known_extent(planes), 1
        if {kh, kw, *strides} == {1} and not any([*before[1:], *after[1:]]):
            image = op("reshape")(data, (-1, c, depth, h * width))
            filters = op("reshape")(weight, (o, per, kd, 1))
            made = conv2d(image, filters, (sd, 1), (before[0], 0, after[0], 0), (dd, 1), kernel_size=(kd, 1))
            return op("reshape")(made, (-1, o, planes, rows, columns))
        if {kd, kh, sd, strides[0]} == {1} and not any([*before[:2], *after[:2]]):
            image = op("reshape")(data, (-1, c, depth * h, width))
            filters = op("reshape")(weight, (o, per, 1, kw))
            padding, steps = (0, before[2], 0, after[2]), (1, strides[1])
            made = conv2d(image, filters, steps, padding, (1, dilation[1]), kernel_size=(1, kw))
            return op("reshape")(made, (-1, o, planes, rows, columns))
        if wide and c == self.groups > 1:
            # Filters of one channel do too little with each copy of it: 14 random convolutions took 0.76 of the time without copies.
            return None
        if wide and kd > 1 and (by_planes := self._sums_of_planes(data, weight)) is not None:
            return by_planes
        padded = data
        if before[0] or after[0]:
            padded = op("nn.pad")(data, ((0, 0), (0, 0), (before[0], after[0]), (0, 0), (0, 0)))
        reach = (kd - 1) * dd + 1
        # (batch, channels, planes, 1, 1, kernel offsets in depth, rows, columns)
        seen = op("sliding_window")(padded, 2, (reach, h, width), (sd, 1, 1))
        if dd > 1:
            seen = op("strided_slice")(seen, [0], [reach], [dd], axes=[5])
        images = op("transpose")(seen, (0, 2, 1, 5, 6, 7, 3, 4))
        images = op("reshape")(images, (-1, c * kd, h, width))
        filters = op("reshape")(weight, (o, per * kd, kh, kw))
        made = conv2d(images, filters, strides, (*before[1:], *after[1:]), dilation, kernel_size=(kh, kw))
        split = op("reshape")(made, (-1, planes, o, rows, columns))
        return op("transpose")(split, (0, 2, 1, 3, 4))

    def _sums_of_planes(self, data: Expr, weight: Expr) -> Expr | None:
        """The convolution as one of each plane of the data with the filters of all depths, whose results are added where they belong. None
        where it is cheaper to copy the planes of each window."""
        _, c, depth, h, width = [known_extent(d) if isinstance(d, int) else 1 for d in dims(tensor(data.checked_type))]
        o, per, kd, kh, kw = [known_extent(d) for d in dims(tensor(weight.checked_type))]
        windows = self.windows()
        (sd, *strides), (dd, *dilation), before, after = windows
        planes, rows, columns = [known_extent(n) for n in windows.counts((depth, h, width), (kd, kh, kw))]
        places, parts = rows * columns, _depths(depth, kd, sd, dd, before[0])
        copied = (
            planes * kd * c * h * width,
            sum([p.used * (c * h * width + ADDED * o * p.kernel * places) for p in parts]),
        )
        products = planes * kd * _whole(o, LANES), sum([p.used * _whole(o * p.kernel, LANES) for p in parts])
        costs = [n * per * kh * kw * places + COPY * m for n, m in zip(products, copied, strict=True)]
        if not parts or costs[1] >= costs[0]:
            return None
        found: Expr | None = None
        for part in parts:
            x, w = data, weight
            if sd > 1:
                x = op("strided_slice")(x, [part.first], [depth], [sd], axes=[2])
                w = op("strided_slice")(w, [part.offset], [kd], [sd // gcd(sd, dd)], axes=[2])
            images = op("reshape")(op("transpose")(x, (0, 2, 1, 3, 4)), (-1, c, h, width))
            # The first depth of a filter is added to the last of the planes that it reaches.
            turned = op("reverse")(op("transpose")(w, (0, 2, 1, 3, 4)), 1)
            filters = op("reshape")(turned, (o * part.kernel, per, kh, kw))
            conv2d = partial(op("nn.conv2d"), groups=self.groups, channels=o * part.kernel, out_dtype=self.out_dtype)
            made = conv2d(images, filters, strides, (*before[1:], *after[1:]), dilation, kernel_size=(kh, kw))
            each = op("transpose")(op("reshape")(made, (-1, part.used, o * part.kernel, places)), (0, 2, 1, 3))
            add_windows = op("nn.contrib_add_windows")
            summed = add_windows(each, (1, 1), (part.apart, 1), (part.begin, 0), (part.kernel, 1), (planes, places))
            found = summed if found is None else op("add")(found, summed)
        assert found is not None
        return op("reshape")(found, (-1, o, planes, rows, columns))


class _Depths(NamedTuple):
    """Depths of a kernel that read the same planes of the data: every stride-th one from `first` on, `used` in all. The depths: `kernel`
    from `offset` on, which read planes `apart` from each other, of those. begin: as `nn.contrib_add_windows` has it."""

    first: int
    used: int
    offset: int
    kernel: int
    apart: int
    begin: int


def _depths(depth: int, kernel: int, stride: int, dilation: int, before: int) -> list[_Depths]:
    """The depths of a kernel by the planes that they read."""
    common = gcd(stride, dilation)
    period, apart = stride // common, dilation // common
    found = []
    for offset in range(min(period, kernel)):
        first = (offset * dilation - before) % stride
        used, depths = len(range(first, depth, stride)), len(range(offset, kernel, period))
        start = (offset * dilation - before - first) // stride
        if used:
            found.append(_Depths(first, used, offset, depths, apart, start + (depths - 1) * apart))
    return found


def _whole(count: int, lanes: int) -> int:
    """The count, rounded up to whole vectors."""
    return -(-count // lanes) * lanes


class ConvTranspose(ConvAttrs):
    """The adjoint of a convolution, its weights with the channels of the data first."""

    output_padding: tuple[int, ...] = (0,)
    out_dtype: str = ""
    filters = "IO"

    def filters_of(self, channels: Dim) -> dict[str, Dim] | None:
        return None if self.channels is None else {"I": channels, "O": self.channels // self.groups}

    def more(self) -> list[int]:
        """The number of additional elements along each axis beyond those that windows reach."""
        return each(self.output_padding, len(self.letters), "output_padding")

    def infer(self, data: TensorType, weight: TensorType) -> Type:
        n = len(self.letters)
        d, w = tensor(data, 0, n + 2), tensor(weight, 1, n + 2)
        dtype = product_dtype(d, w)
        data_layout, kernel_layout, out_layout = self.layouts()
        x = dict(zip(data_layout, dims(d), strict=True))
        k = {a: e for a, e in zip(kernel_layout, dims(w), strict=True) if isinstance(e, int)}
        need(len(k) == n + 2, "the weights' extents must be known", f"they are {w.shape}", 1)
        need(
            may_equal(x["C"], k["I"]),
            "the weights' input channels must be the data's channels",
            f"they are {k['I']} and {x['C']}",
            1,
        )
        need(k["I"] % self.groups == 0, "groups must divide the input channels", f"{self.groups} and {k['I']}", 1)
        self.need_agreement(k["O"] * self.groups, [k[a] for a in self.letters])
        strides, dilation, before, after = self.windows()
        extra, least = self.more(), (min(strides), min(dilation))
        need(min(least) > 0, "strides and dilations must be positive", f"a stride is {least[0]}, a dilation {least[1]}")
        need(0 not in [x[a] for a in self.letters], "data must have places along every axis", f"they are {dims(d)}", 0)
        out: dict[str, Dim] = {"N": x["N"], "C": k["O"] * self.groups}
        for j, a in enumerate(self.letters):
            reach = (k[a] - 1) * dilation[j] + 1 - before[j] - after[j] + extra[j]
            out[a] = AnyDim() if is_any(x[a]) else (x[a] - 1) * strides[j] + reach
        return tensor_type(tuple([out[a] for a in out_layout]), self.out_dtype or dtype)

    def compute(self, data: te.Tensor, weight: te.Tensor) -> te.Tensor:
        (data_layout, kernel_layout, out_layout), (plain, kernel) = self.layouts(), self.plain
        out = topi.nn.conv_transpose(
            _ordered(data, data_layout, plain),
            _ordered(weight, kernel_layout, kernel),
            self.strides,
            self.padding,
            self.out_dtype or None,
            self.output_padding,
            self.groups,
            self.dilation,
        )
        return _ordered(out, plain, out_layout)

    def ref(self, data: np.ndarray, weight: np.ndarray) -> np.ndarray:
        (data_layout, kernel_layout, out_layout), (plain, kernel) = self.layouts(), self.plain
        x, w = relayout(data, data_layout, plain), relayout(weight, kernel_layout, kernel)
        if self.out_dtype:
            x, w = x.astype(self.out_dtype), w.astype(self.out_dtype)
        strides, dilation, *padding = self.windows()
        out = np_conv_transpose(x, w, strides, (padding[0], padding[1]), dilation, self.more(), self.groups)
        return np.ascontiguousarray(relayout(out, plain, out_layout))


def _ordered(x: te.Tensor, src: str, dst: str) -> te.Tensor:
    return x if src == dst else topi.transpose(x, [src.index(c) for c in dst])


class conv1d_transpose(Over1D, ConvTranspose, key="nn.conv1d_transpose"):
    """The adjoint of conv1d: data (N, C, W), weight (C, O / groups, K)."""

    kernel_layout: str = "IOW"
    samples = [
        (((1, 3, 5), (3, 2, 3)), {"strides": 2, "padding": 1, "output_padding": 1}),
        (((2, 4, 4), (4, 2, 2)), {"groups": 2}),
    ]


class conv2d_transpose(Over2D, ConvTranspose, key="nn.conv2d_transpose"):
    """The adjoint of conv2d: data (N, C, H, W), weight (C, O / groups, KH, KW)."""

    kernel_layout: str = "IOHW"
    output_padding: tuple[int, ...] = (0, 0)
    samples = [
        (((1, 3, 4, 5), (3, 2, 2, 2)), {"strides": (2, 2)}),
        (((1, 4, 4, 4), (4, 3, 3, 3)), {"strides": (2, 2), "padding": (1, 1), "output_padding": (1, 1), "groups": 2}),
        (((1, 2, 4, 4), (2, 3, 3, 3)), {"dilation": (2, 2), "padding": (1, 0, 2, 1)}),
        (((1, 4, 4, 2), (3, 3, 3, 2)), {"data_layout": "NHWC", "kernel_layout": "HWOI"}),
        ((_small(1, 2, 3, 3), _small(2, 1, 2, 2)), {"out_dtype": "int32"}),
    ]


class conv3d_transpose(Over3D, ConvTranspose, key="nn.conv3d_transpose"):
    """The adjoint of conv3d: data (N, C, D, H, W), weight (C, O / groups, KD, KH, KW)."""

    kernel_layout: str = "IODHW"
    output_padding: tuple[int, ...] = (0, 0, 0)
    samples = [
        (((1, 2, 2, 3, 3), (2, 2, 2, 2, 3)), {"strides": (2, 1, 2), "padding": (0, 1, 1), "output_padding": (1, 0, 1)})
    ]
