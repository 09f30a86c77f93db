"""Convolutions over one and three spatial axes, and the adjoints of convolutions."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any, ClassVar

import numpy as np

from tilewright import te, topi
from tilewright.ir import TensorType, Type
from tilewright.relay.expr import Expr
from tilewright.relay.op.adjoint import op
from tilewright.relay.op.card import OUT_ELEMWISE, OpCard, need
from tilewright.relay.op.convolution.conv import np_conv, pads, relayout, weights_of, window
from tilewright.relay.op.convolution.kernel_offsets import without_padded_offsets
from tilewright.relay.op.relations import dims, each, is_any, may_equal, product, product_dtype, tensor, tensor_type
from tilewright.tir import Any as AnyDim


def _small(*shape: int) -> Any:
    """A sample: integers whose products need more than their own 8 bits."""
    return lambda rng: rng.integers(-128, 128, shape).astype(np.int8)


def need_agreement(card: Any, channels: Any, kernel: Sequence[Any]) -> None:
    """Refuse a convolution whose attributes say other channels, or another kernel, than its weights have."""
    size = each(card.kernel_size, len(kernel), "kernel_size") if card.kernel_size is not None else None
    for name, want, found in (("channels", card.channels, channels), ("kernel_size", size, list(kernel))):
        need(
            want is None or want == found,
            f"the attribute {name} must agree with the weights",
            f"it is {want} and the weights have {found}",
            1,
        )


class ConvND(OpCard):
    """The attributes and rules of convolutions over `letters`."""

    strides: tuple[int, ...] = (1,)
    padding: tuple[int, ...] = (0,)
    dilation: tuple[int, ...] = (1,)
    groups: int = 1
    channels: int | None = None
    kernel_size: tuple[int, ...] | None = None
    data_layout: str = ""
    kernel_layout: str = ""
    out_layout: str = ""
    out_dtype: str = ""
    letters: ClassVar[str] = "W"
    fuse = OUT_ELEMWISE

    def complete(self, args: Sequence[Any]) -> Sequence[Any]:
        data_layout, kernel_layout, _ = self.layouts()
        return weights_of(self, args, data_layout, kernel_layout, self.letters)

    @property
    def plain(self) -> tuple[str, str]:
        """The layouts with the channels first."""
        return f"NC{self.letters}", f"OI{self.letters}"

    def layouts(self) -> tuple[str, str, str]:
        """Those of data, weights and result. Raises TypeRuleError for what are no permutations of the axes."""
        data = self.data_layout or self.plain[0]
        weights = self.kernel_layout or (self.plain[1] if data[1] == "C" else f"{self.letters}IO")
        result = self.out_layout or data
        for layout, wanted in ((data, self.plain[0]), (weights, self.plain[1]), (result, self.plain[0])):
            need(
                sorted(layout) == sorted(wanted),
                f"a layout must have the axes {', '.join(wanted)}",
                f"it is {layout}",
            )
        return data, weights, result

    def infer(self, data: TensorType, weight: TensorType) -> Type:
        n = len(self.letters)
        d, w = tensor(data, 0, n + 2), tensor(weight, 1, n + 2)
        dtype = product_dtype(d, w)
        data_layout, kernel_layout, out_layout = self.layouts()
        x = dict(zip(data_layout, dims(d), strict=True))
        k = dict(zip(kernel_layout, dims(w), strict=True))
        o, i, c = k["O"], k["I"], x["C"]
        need(
            all([isinstance(v, int) for v in k.values()]),
            "the weights' extents must be known",
            f"they are {w.shape}",
            1,
        )
        need_agreement(self, o, [k[a] for a in self.letters])
        need(
            (is_any(c) or may_equal(c, product([i, self.groups]))),
            "the weights' input channels times groups must be the data's channels",
            f"{i} times {self.groups} is not {c}",
            1,
        )
        need(o % self.groups == 0, "groups must divide the output channels", f"{self.groups} and {o}", 1)
        strides, dilation = each(self.strides, n, "strides"), each(self.dilation, n, "dilation")
        before, after = pads(self.padding, n)
        out: dict[str, Any] = {"N": x["N"], "C": o}
        for j, a in enumerate(self.letters):
            out[a] = window(x[a], k[a], before[j], after[j], strides[j], dilation[j])  # type: ignore[arg-type]
        return tensor_type(tuple([out[a] for a in out_layout]), self.out_dtype or dtype)

    def compute(self, data: te.Tensor, weight: te.Tensor) -> te.Tensor:
        data_layout, kernel_layout, out_layout = self.layouts()
        n = len(self.letters)
        return topi.nn.conv(
            data,
            weight,
            each(self.strides, n, "strides"),
            self.padding,
            each(self.dilation, n, "dilation"),
            self.groups,
            data_layout,
            kernel_layout,
            self.out_dtype or None,
            out_layout,
        )

    def simplify(self, data: Expr, weight: Expr) -> Expr | None:
        """Without the kernel offsets that only meet padding."""
        n = len(self.letters)
        if self.layouts()[:2] != self.plain:
            return None
        padding = pads(self.padding, n)
        return without_padded_offsets(
            self, data, weight, each(self.strides, n, "strides"), each(self.dilation, n, "dilation"), padding
        )

    def ref(self, data: np.ndarray, weight: np.ndarray) -> np.ndarray:
        data_layout, kernel_layout, out_layout = self.layouts()
        x, w = relayout(data, data_layout, self.plain[0]), relayout(weight, kernel_layout, self.plain[1])
        if self.out_dtype:
            x, w = x.astype(self.out_dtype), w.astype(self.out_dtype)
        n = len(self.letters)
        out = np_conv(
            x,
            w,
            each(self.strides, n, "strides"),
            pads(self.padding, n),
            each(self.dilation, n, "dilation"),
            self.groups,
        )
        return np.ascontiguousarray(relayout(out, self.plain[0], out_layout))


class conv1d(ConvND, key="nn.conv1d"):
    """Convolution of data (N, C, W) with weight (O, C / groups, K), or in layouts NWC and WIO."""

    data_layout: str = "NCW"
    kernel_layout: str = "OIW"
    letters = "W"
    samples = [
        (((1, 4, 9), (6, 2, 3)), {"groups": 2, "strides": 2, "padding": (1, 0)}),
        (((1, 3, 9), (2, 3, 3)), {"dilation": 2}),
        (((1, 9, 3), (3, 3, 2)), {"data_layout": "NWC", "kernel_layout": "WIO", "padding": 1}),
    ]

    def compute(self, data: te.Tensor, weight: te.Tensor) -> te.Tensor:
        if self.layouts() == ("NCW", "OIW", "NCW"):
            return topi.nn.conv1d(
                data, weight, self.strides, self.padding, self.dilation, self.groups, self.out_dtype or None
            )
        return super().compute(data, weight)


class conv3d(ConvND, key="nn.conv3d"):
    """Convolution of data (N, C, D, H, W) with weight (O, C / groups, KD, KH, KW), or in layouts NDHWC and DHWIO. padding: one
    number, one for each axis, or (front, top, left, back, bottom, right)."""

    strides: tuple[int, ...] = (1, 1, 1)
    padding: tuple[int, ...] = (0, 0, 0)
    dilation: tuple[int, ...] = (1, 1, 1)
    data_layout: str = "NCDHW"
    kernel_layout: str = "OIDHW"
    letters = "DHW"
    samples = [
        (((1, 2, 4, 5, 4), (3, 2, 2, 3, 2)), {"padding": (1, 1, 0), "strides": (1, 2, 1)}),
        (((1, 2, 4, 4, 4), (3, 2, 2, 2, 2)), {"kernel_size": (2,), "channels": 3}),
        (((1, 4, 3, 4, 4), (4, 2, 2, 2, 2)), {"groups": 2, "dilation": (1, 2, 1)}),
        (((1, 3, 4, 4, 2), (2, 2, 2, 2, 3)), {"data_layout": "NDHWC", "kernel_layout": "DHWIO"}),
    ]

    def simplify(self, data: Expr, weight: Expr) -> Expr | None:
        """conv2d: on planes, those that a window in depth sees side by side as channels and each place in depth as an image; or where
        windows are single places of a plane, on an image that has planes as its rows."""
        if self.layouts() != ("NCDHW", "OIDHW", "NCDHW"):
            return super().simplify(data, weight)
        if (found := super().simplify(data, weight)) is not None:
            return found
        x, w = dims(tensor(data.checked_type)), dims(tensor(weight.checked_type))
        if not all([isinstance(d, int) for d in (*x[1:], *w)]) or is_any(x[0]):
            return None
        _, c, depth, h, width = [d if isinstance(d, int) else 0 for d in x]
        o, per, kd, kh, kw = [int(d) for d in w]  # type: ignore[arg-type]
        (sd, *strides), (dd, *dilation) = each(self.strides, 3, "strides"), each(self.dilation, 3, "dilation")
        before, after = pads(self.padding, 3)
        planes = window(depth, kd, before[0], after[0], sd, dd)
        rows, columns = [
            window(d, k, before[j], after[j], s, t)
            for j, d, k, s, t in zip((1, 2), (h, width), (kh, kw), strides, dilation, strict=True)
        ]
        conv2d = partial(op("nn.conv2d"), groups=self.groups, channels=o, out_dtype=self.out_dtype)
        if {kh, kw, *strides} == {1} and not any([*before[1:], *after[1:]]):
            image = op("reshape")(data, (-1, c, depth, h * width))
            filters = op("reshape")(weight, (o, per, kd, 1))
            made = conv2d(image, filters, (sd, 1), (before[0], 0, after[0], 0), (dd, 1), kernel_size=(kd, 1))
            return op("reshape")(made, (-1, o, planes, h, width))
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


class ConvTranspose(OpCard):
    """The attributes and rules of the adjoints of convolutions over `letters`."""

    strides: tuple[int, ...] = (1,)
    padding: tuple[int, ...] = (0,)
    dilation: tuple[int, ...] = (1,)
    groups: int = 1
    channels: int | None = None
    kernel_size: tuple[int, ...] | None = None
    data_layout: str = ""
    kernel_layout: str = ""
    out_layout: str = ""
    output_padding: tuple[int, ...] = (0,)
    out_dtype: str = ""
    letters: ClassVar[str] = "W"
    fuse = OUT_ELEMWISE

    def complete(self, args: Sequence[Any]) -> Sequence[Any]:
        plain, kernel = self._plain()
        data, weight = args
        known = isinstance(data, TensorType) and len(data.shape) == len(plain) and self.groups > 0
        known = known and self.kernel_size is not None and len(self.kernel_size) in (1, len(self.letters))
        if weight is None and known and self.channels is not None and self.kernel_size is not None:
            channels = dims(data)[(self.data_layout or plain).index("C")]
            sizes = dict(zip(self.letters, each(self.kernel_size, len(self.letters), "kernel_size"), strict=True))
            place: dict[str, Any] = {"I": channels, "O": self.channels // self.groups, **sizes}
            weight = tensor_type(tuple([place[c] for c in self.kernel_layout or kernel]), data.dtype)
        return [data, weight]

    def _plain(self) -> tuple[str, str]:
        """Data with the channels first; weights with the input channels first."""
        data, weights = f"NC{self.letters}", f"IO{self.letters}"
        for name, layout, wanted in (("data", self.data_layout, data), ("out", self.out_layout, data)):
            need(
                not layout or sorted(layout) == sorted(wanted),
                f"{name}_layout must have the axes {', '.join(wanted)}",
                f"it is {layout}",
            )
        need(
            not self.kernel_layout or sorted(self.kernel_layout) == sorted(weights),
            f"kernel_layout must have the axes {', '.join(weights)}",
            f"it is {self.kernel_layout}",
        )
        return data, weights

    def infer(self, data: TensorType, weight: TensorType) -> Type:
        n = len(self.letters)
        d, w = tensor(data, 0, n + 2), tensor(weight, 1, n + 2)
        dtype = product_dtype(d, w)
        plain, kernel = self._plain()
        x = dict(zip(self.data_layout or plain, dims(d), strict=True))
        k: dict[str, Any] = dict(zip(self.kernel_layout or kernel, dims(w), strict=True))
        need(
            all([isinstance(v, int) for v in k.values()]),
            "the weights' extents must be known",
            f"they are {w.shape}",
            1,
        )
        need(
            may_equal(x["C"], k["I"]),
            "the weights' input channels must be the data's channels",
            f"they are {k['I']} and {x['C']}",
            1,
        )
        need(k["I"] % self.groups == 0, "groups must divide the input channels", f"{self.groups} and {k['I']}", 1)
        need_agreement(self, k["O"] * self.groups, [k[a] for a in self.letters])
        strides, dilation, extra = (
            each(self.strides, n, "strides"),
            each(self.dilation, n, "dilation"),
            each(self.output_padding, n, "output_padding"),
        )
        least = min(strides), min(dilation)
        need(min(least) > 0, "strides and dilations must be positive", f"a stride is {least[0]}, a dilation {least[1]}")
        need(0 not in [x[a] for a in self.letters], "data must have places along every axis", f"they are {dims(d)}", 0)
        before, after = pads(self.padding, n)
        out: dict[str, Any] = {"N": x["N"], "C": k["O"] * self.groups}
        for j, a in enumerate(self.letters):
            more = (k[a] - 1) * dilation[j] + 1 - before[j] - after[j] + extra[j]
            v: Any = x[a]
            out[a] = AnyDim() if is_any(v) else (v - 1) * strides[j] + more
        return tensor_type(
            tuple([out[a] for a in self.out_layout or self.data_layout or plain]), self.out_dtype or dtype
        )

    def compute(self, data: te.Tensor, weight: te.Tensor) -> te.Tensor:
        plain, kernel = self._plain()
        n = len(self.letters)
        out = topi.nn.conv_transpose(
            _ordered(data, self.data_layout or plain, plain),
            _ordered(weight, self.kernel_layout or kernel, kernel),
            each(self.strides, n, "strides"),
            self.padding,
            self.out_dtype or None,
            each(self.output_padding, n, "output_padding"),
            self.groups,
            each(self.dilation, n, "dilation"),
        )
        return _ordered(out, plain, self.out_layout or self.data_layout or plain)

    def ref(self, data: np.ndarray, weight: np.ndarray) -> np.ndarray:
        plain, kernel = self._plain()
        n = len(self.letters)
        x, w = relayout(data, self.data_layout or plain, plain), relayout(weight, self.kernel_layout or kernel, kernel)
        if self.out_dtype:
            x, w = x.astype(self.out_dtype), w.astype(self.out_dtype)
        out = np_conv_transpose(
            x,
            w,
            each(self.strides, n, "strides"),
            pads(self.padding, n),
            each(self.dilation, n, "dilation"),
            each(self.output_padding, n, "output_padding"),
            self.groups,
        )
        return np.ascontiguousarray(relayout(out, plain, self.out_layout or self.data_layout or plain))


def _ordered(x: te.Tensor, src: str, dst: str) -> te.Tensor:
    return x if src == dst else topi.transpose(x, [src.index(c) for c in dst])


def np_conv_transpose(
    data: np.ndarray,
    weight: np.ndarray,
    strides: Sequence[int],
    padding: tuple[Sequence[int], Sequence[int]],
    dilation: Sequence[int],
    extra: Sequence[int],
    groups: int,
) -> np.ndarray:
    """Adjoint of np_conv: data (N, I, ...), weight (I, O / groups, ...). One product per kernel place."""
    before, after = padding
    batch, channels, *extents = data.shape
    per_out, *window_ = weight.shape[1:]
    full_shape = [
        (e - 1) * s + (k - 1) * d + 1 + p
        for e, s, k, d, p in zip(extents, strides, window_, dilation, extra, strict=True)
    ]
    full = np.zeros((batch, groups, per_out, *full_shape), data.dtype)
    values = data.reshape(batch, groups, channels // groups, -1)
    for place in np.ndindex(*window_):
        w = weight[(slice(None), slice(None), *place)].reshape(1, groups, channels // groups, per_out).swapaxes(2, 3)
        part = np.matmul(w, values).reshape(batch, groups, per_out, *extents)
        index = [
            slice(p * d, p * d + (e - 1) * s + 1, s)
            for p, d, e, s in zip(place, dilation, extents, strides, strict=True)
        ]
        full[(slice(None), slice(None), slice(None), *index)] += part
    full = full.reshape(batch, groups * per_out, *full_shape)
    cut = [slice(b, f - a) for b, a, f in zip(before, after, full_shape, strict=True)]
    return np.ascontiguousarray(full[(slice(None), slice(None), *cut)])


class conv1d_transpose(ConvTranspose, key="nn.conv1d_transpose"):
    """Adjoint of conv1d: data (N, C, W), weight (C, O / groups, K)."""

    data_layout: str = "NCW"
    kernel_layout: str = "IOW"
    letters = "W"
    samples = [
        (((1, 3, 5), (3, 2, 3)), {"strides": 2, "padding": 1, "output_padding": 1}),
        (((2, 4, 4), (4, 2, 2)), {"groups": 2}),
    ]


class conv2d_transpose(ConvTranspose, key="nn.conv2d_transpose"):
    """Adjoint of conv2d: data (N, C, H, W), weight (C, O / groups, KH, KW)."""

    strides: tuple[int, ...] = (1, 1)
    padding: tuple[int, ...] = (0, 0)
    dilation: tuple[int, ...] = (1, 1)
    data_layout: str = "NCHW"
    kernel_layout: str = "IOHW"
    output_padding: tuple[int, ...] = (0, 0)
    letters = "HW"
    samples = [
        (((1, 3, 4, 5), (3, 2, 2, 2)), {"strides": (2, 2)}),
        (((1, 4, 4, 4), (4, 3, 3, 3)), {"strides": (2, 2), "padding": (1, 1), "output_padding": (1, 1), "groups": 2}),
        (((1, 2, 4, 4), (2, 3, 3, 3)), {"dilation": (2, 2), "padding": (1, 0, 2, 1)}),
        (((1, 4, 4, 2), (3, 3, 3, 2)), {"data_layout": "NHWC", "kernel_layout": "HWOI"}),
        ((_small(1, 2, 3, 3), _small(2, 1, 2, 2)), {"out_dtype": "int32"}),
    ]

    def compute(self, data: te.Tensor, weight: te.Tensor) -> te.Tensor:
        plain, kernel = self._plain()
        out = topi.nn.conv2d_transpose_nchw(
            _ordered(data, self.data_layout or plain, plain),
            _ordered(weight, self.kernel_layout or kernel, kernel),
            self.strides,
            self.padding,
            self.out_dtype or None,
            self.output_padding,
            self.groups,
            self.dilation,
        )
        return _ordered(out, plain, self.out_layout or self.data_layout or plain)


class conv3d_transpose(ConvTranspose, key="nn.conv3d_transpose"):
    """Adjoint of conv3d: data (N, C, D, H, W), weight (C, O / groups, KD, KH, KW)."""

    strides: tuple[int, ...] = (1, 1, 1)
    padding: tuple[int, ...] = (0, 0, 0)
    dilation: tuple[int, ...] = (1, 1, 1)
    data_layout: str = "NCDHW"
    kernel_layout: str = "IODHW"
    output_padding: tuple[int, ...] = (0, 0, 0)
    letters = "DHW"
    samples = [
        (((1, 2, 2, 3, 3), (2, 2, 2, 2, 3)), {"strides": (2, 1, 2), "padding": (0, 1, 1), "output_padding": (1, 0, 1)})
    ]
