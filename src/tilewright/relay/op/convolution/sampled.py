"""Convolutions at positions that are data, correlation, adjoints of weights, Winograd's and bit-serial forms, packed bits,
dilation."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from tilewright import te, topi
from tilewright.ir import TensorType, Type
from tilewright.ir.span import BaseSpan
from tilewright.relay.cards.card import INJECTIVE, OUT_ELEMWISE, Draw, Made, OpCard, Operand, need
from tilewright.relay.cards.relations import (
    Dim,
    dims,
    each,
    is_any,
    known_extent,
    may_equal,
    normal_axis,
    product,
    same_dtype,
    tensor,
    tensor_type,
)
from tilewright.relay.op.convolution.attributes import Over2D, relayout
from tilewright.relay.op.convolution.conv import conv2d
from tilewright.relay.op.convolution.windows import need_steps_of_one, np_conv, pads, windows_of
from tilewright.tir import Any as AnyDim


class deformable_conv2d(Over2D, key="nn.deformable_conv2d"):
    """Convolution at positions that `offset` shifts by fractions of an element; the data there is interpolated, and zero outside.
    data (N, C, H, W), weight (O, C / groups, KH, KW), offset (N, 2 * deformable_groups * KH * KW, OH, OW) with y before x."""

    out_dtype: str = ""
    deformable_groups: int = 1
    first = ("strides", "padding", "dilation", "deformable_groups")
    tolerance = 1e-4
    samples = [
        (((1, 2, 5, 5), (1, 18, 3, 3), (3, 2, 3, 3)), {}),
        (((1, 4, 4, 4), (1, 16, 4, 4), (2, 2, 2, 2)), {"groups": 2, "deformable_groups": 2, "padding": (0, 0, 1, 1)}),
    ]

    def infer(self, data: TensorType, offset: TensorType, weight: TensorType) -> Type:
        need(
            (self.data_layout, self.kernel_layout) == ("NCHW", "OIHW"),
            "deformable_conv2d takes data in NCHW and weights in OIHW",
            f"they are {self.data_layout} and {self.kernel_layout}",
        )
        f = tensor(offset, 1, 4)
        names = ("strides", "padding", "dilation", "groups", "channels", "kernel_size")
        card = conv2d(**{n: getattr(self, n) for n in names})
        out = tensor(card.infer(data, weight))
        kh, kw = dims(weight)[2:]
        wanted = product([2 * self.deformable_groups, kh, kw])
        shape = dims(f)
        need(
            may_equal(shape[1], wanted),
            "there must be two offsets for each element of the kernel",
            f"there are {shape[1]} of {wanted}",
            1,
        )
        for a in (2, 3):
            need(may_equal(shape[a], dims(out)[a]), "offsets must be as large as the result", f"they are {shape}", 1)
        return tensor_type(out.shape, self.out_dtype or out.dtype)

    def compute(self, data: te.Tensor, offset: te.Tensor, weight: te.Tensor) -> te.Tensor:
        return topi.nn.deformable_conv2d_nchw(
            data, offset, weight, self.strides, self.padding, self.dilation, self.deformable_groups, self.groups,
            self.out_dtype or None,
        )  # fmt: skip

    def ref(self, data: np.ndarray, offset: np.ndarray, weight: np.ndarray) -> np.ndarray:
        n, channels, h, w = data.shape
        o, per_group, kh, kw = weight.shape
        (sh, sw), (dh, dw), before, _ = self.windows()
        oh, ow = offset.shape[2:]
        per = channels // self.deformable_groups
        moved = np.zeros((n, channels, kh, kw, oh, ow), data.dtype)

        def element(b: int, c: int, y: int, x: int) -> float:
            return float(data[b, c, y, x]) if 0 <= y < h and 0 <= x < w else 0.0

        for b, c, ky, kx, oy, ox in np.ndindex(*moved.shape):
            at = ((c // per * kh + ky) * kw + kx) * 2
            y = oy * sh - before[0] + ky * dh + float(offset[b, at, oy, ox])
            x = ox * sw - before[1] + kx * dw + float(offset[b, at + 1, oy, ox])
            y0, x0 = int(np.floor(y)), int(np.floor(x))
            ty, tx = y - y0, x - x0
            top = element(b, c, y0, x0) * (1 - tx) + element(b, c, y0, x0 + 1) * tx
            bottom = element(b, c, y0 + 1, x0) * (1 - tx) + element(b, c, y0 + 1, x0 + 1) * tx
            moved[b, c, ky, kx, oy, ox] = top * (1 - ty) + bottom * ty
        split = moved.reshape(n, self.groups, per_group, kh, kw, oh, ow)
        filters = weight.reshape(self.groups, o // self.groups, per_group, kh, kw)
        out = np.asarray(np.einsum("ngcyxhw,gocyx->ngohw", split, filters))
        return out.reshape(n, o, oh, ow).astype(data.dtype)


class correlation(OpCard, key="nn.correlation"):
    """FlowNet's correlation: the mean product (or absolute difference) of windows of two images, where the second is shifted by up
    to max_displacement in steps of stride2: (N, displacements squared, OH, OW)."""

    kernel_size: int = 1
    max_displacement: int = 1
    stride1: int = 1
    stride2: int = 1
    padding: tuple[int, ...] = (0, 0)
    is_multiply: bool = True
    layout: str = "NCHW"
    fuse = OUT_ELEMWISE
    samples = [
        (((1, 2, 5, 6), (1, 2, 5, 6)), {"padding": (1, 1)}),
        (
            ((1, 2, 6, 6), (1, 2, 6, 6)),
            {"kernel_size": 3, "max_displacement": 2, "stride2": 2, "padding": (2, 2), "is_multiply": False},
        ),
    ]

    @classmethod
    def make(
        cls,
        data1: Operand,
        data2: Operand,
        kernel_size: int,
        max_displacement: int,
        stride1: int,
        stride2: int,
        padding: Operand,
        is_multiply: bool,
        layout: str,
        span: BaseSpan | None = None,
    ) -> Made:
        """Makes the call. All attributes must be given."""
        attrs = {
            "kernel_size": kernel_size,
            "max_displacement": max_displacement,
            "stride1": stride1,
            "stride2": stride2,
            "padding": padding,
            "is_multiply": is_multiply,
            "layout": layout,
        }
        return cls.call([data1, data2], attrs, span)

    def infer(self, data1: TensorType, data2: TensorType) -> Type:
        a, b = tensor(data1, 0, 4), tensor(data2, 1, 4)
        dtype = same_dtype(a, b)
        need(self.layout == "NCHW", "correlation takes NCHW", f"it is {self.layout}")
        need(all(map(may_equal, dims(a), dims(b))), "both images must have one shape", f"they are {a} and {b}", 1)
        before, after = pads(self.padding)
        border = self.max_displacement + (self.kernel_size - 1) // 2
        sizes: list[Dim] = []
        for d, p, q in zip(dims(a)[2:], before, after, strict=True):
            room = AnyDim() if is_any(d) else d + (p + q - 2 * border)
            need(
                not isinstance(room, int) or room > 0,
                "the windows must fit into the padded images",
                f"{d} is too short",
                0,
            )
            sizes.append(room if is_any(room) else (room + self.stride1 - 1) // self.stride1)
        side = 2 * (self.max_displacement // self.stride2) + 1
        return tensor_type((dims(a)[0], side * side, *sizes), dtype)

    def compute(self, data1: te.Tensor, data2: te.Tensor) -> te.Tensor:
        return topi.nn.correlation_nchw(
            data1, data2, self.kernel_size, self.max_displacement, self.stride1, self.stride2, list(self.padding),
            self.is_multiply,
        )  # fmt: skip

    def ref(self, data1: np.ndarray, data2: np.ndarray) -> np.ndarray:
        before, after = pads(self.padding)
        widths = [(0, 0), (0, 0), *zip(before, after, strict=True)]
        a, b = np.pad(data1, widths), np.pad(data2, widths)
        k, m = self.kernel_size, self.max_displacement
        border, radius = m + (k - 1) // 2, m // self.stride2
        side = 2 * radius + 1
        oh, ow = [-(-(d - 2 * border) // self.stride1) for d in a.shape[2:]]
        out = np.zeros((a.shape[0], side * side, oh, ow), data1.dtype)
        for n, q, i, j in np.ndindex(*out.shape):
            y, x = i * self.stride1 + m, j * self.stride1 + m
            v, u = y + (q // side - radius) * self.stride2, x + (q % side - radius) * self.stride2
            p, r = a[n, :, y : y + k, x : x + k], b[n, :, v : v + k, u : u + k]
            out[n, q, i, j] = (p * r if self.is_multiply else np.abs(p - r)).mean()
        return out


class conv2d_backward_weight(OpCard, key="nn.conv2d_backward_weight"):
    """The adjoint of conv2d's weights, from the adjoint `grad` (N, O, OH, OW) of its result and its data (N, C, H, W)."""

    strides: tuple[int, ...] = (1, 1)
    padding: tuple[int, ...] = (0, 0)
    dilation: tuple[int, ...] = (1, 1)
    groups: int = 1
    channels: int | None = None
    kernel_size: tuple[int, ...] | None = None
    grad_layout: str = "NCHW"
    data_layout: str = "NCHW"
    kernel_layout: str = "OIHW"
    out_dtype: str = ""
    fuse = OUT_ELEMWISE
    tolerance = 1e-4
    samples = [
        (((1, 4, 3, 3), (1, 2, 6, 6)), {"kernel_size": (3, 3), "strides": (2, 2), "padding": (1, 1, 0, 0)}),
        (((2, 4, 3, 3), (2, 2, 4, 4)), {"kernel_size": (2, 2), "groups": 2}),
    ]

    def size(self) -> list[int]:
        """The kernel's height and width."""
        need(self.kernel_size is not None, "kernel_size must be given", "it is not")
        return each(self.kernel_size or (), 2, "kernel_size")

    def infer(self, grad: TensorType, data: TensorType) -> Type:
        g, d = tensor(grad, 0, 4), tensor(data, 1, 4)
        layouts = (self.grad_layout, self.data_layout, self.kernel_layout)
        need(layouts == ("NCHW", "NCHW", "OIHW"), "the layouts must be NCHW, NCHW and OIHW", f"they are {layouts}")
        kh, kw = self.size()
        o, c = dims(g)[1], dims(d)[1]
        need(isinstance(o, int) and isinstance(c, int), "the channels must be known", f"they are {o} and {c}", 0)
        for found, given in zip(windows_of(self, 2).counts(dims(d)[2:], (kh, kw)), dims(g)[2:], strict=True):
            need(may_equal(found, given), "grad must have the extents of the result", f"{given}, not {found}", 0)
        return tensor_type((o, known_extent(c) // self.groups, kh, kw), self.out_dtype or g.dtype)

    def compute(self, grad: te.Tensor, data: te.Tensor) -> te.Tensor:
        return topi.nn.conv2d_backward_weight_nchw(
            grad, data, self.size(), self.strides, list(self.padding), self.dilation, self.groups,
            self.out_dtype or None,
        )  # fmt: skip

    def ref(self, grad: np.ndarray, data: np.ndarray) -> np.ndarray:
        kh, kw = self.size()
        (sh, sw), (dh, dw), before, after = windows_of(self, 2)
        padded = np.pad(data, [(0, 0), (0, 0), *zip(before, after, strict=True)])
        g = self.groups
        n, o, oh, ow = grad.shape
        out = np.zeros((g, o // g, data.shape[1] // g, kh, kw), grad.dtype)
        by_group = grad.reshape(n, g, o // g, oh, ow)
        for y, x in np.ndindex(kh, kw):
            part = padded[:, :, y * dh : y * dh + (oh - 1) * sh + 1 : sh, x * dw : x * dw + (ow - 1) * sw + 1 : sw]
            out[..., y, x] = np.einsum("ngohw,ngihw->goi", by_group, part.reshape(n, g, -1, oh, ow))
        return out.reshape(o, -1, kh, kw).astype(self.out_dtype or grad.dtype)


class winograd_weight_transform(OpCard, key="nn.contrib_conv2d_winograd_weight_transform"):
    """Weights (O, I, K, K) for Winograd's convolution with tiles of `tile_size`: (tile, tile, I, O)."""

    tile_size: int
    fuse = OUT_ELEMWISE
    tolerance = 1e-4
    samples = [(((2, 3, 3, 3),), {"tile_size": 2}), (((1, 2, 3, 3),), {"tile_size": 4})]

    def infer(self, weight: TensorType) -> Type:
        t = tensor(weight, 0, 4)
        o, i, kh, kw = dims(t)
        known = all([isinstance(d, int) for d in (o, i, kh, kw)])
        need(known and kh == kw, "the weights must be known to be (O, I, K, K)", f"they are {t}", 0)
        n = self.tile_size + known_extent(kh) - 1
        return tensor_type((n, n, i, o), t.dtype)

    def compute(self, weight: te.Tensor) -> te.Tensor:
        return topi.nn.winograd_weight_transform(weight, self.tile_size)

    def ref(self, weight: np.ndarray) -> np.ndarray:
        from tilewright.topi.nn.winograd import winograd_transform_matrices

        _, _, g = winograd_transform_matrices(self.tile_size, weight.shape[-1])
        return np.asarray(np.einsum("ar,oirs,bs->abio", g, weight, g), weight.dtype)


class winograd_conv2d(Over2D, key="nn.contrib_conv2d_winograd_without_weight_transform"):
    """conv2d with stride 1 and weights (tile, tile, I, O) from nn.contrib_conv2d_winograd_weight_transform."""

    out_dtype: str = ""
    tile_size: int = 4
    first = ("tile_size",)
    tolerance = 1e-3
    samples = [
        (((1, 2, 6, 7), (4, 4, 2, 3)), {"tile_size": 2, "padding": (1, 1), "kernel_size": (3, 3)}),
        (((1, 2, 6, 6), (6, 6, 2, 3)), {"tile_size": 4, "kernel_size": (3, 3), "channels": 3}),
    ]

    def infer(self, data: TensorType, weight: TensorType) -> Type:
        d, w = tensor(data, 0, 4), tensor(weight, 1, 4)
        tile, _, i, o = dims(w)
        known = all([isinstance(v, int) for v in (tile, i, o)])
        need(known, "the weights' extents must be known", f"they are {w}", 1)
        need(self.groups == 1, "Winograd's convolution has no groups", f"there are {self.groups}")
        need_steps_of_one(self, 2)
        need(may_equal(dims(d)[1], i), "the weights' input channels must be the data's", f"{i} is not {dims(d)[1]}", 1)
        k = known_extent(tile) - self.tile_size + 1
        fits = k > 0 and self.size() in (None, [k, k])
        need(fits, "the tile must fit the kernel", f"{tile} of {self.tile_size}", 1)
        return tensor_type((dims(d)[0], o, *self.windows().counts(dims(d)[2:], (k, k))), self.out_dtype or d.dtype)

    def compute(self, data: te.Tensor, weight: te.Tensor) -> te.Tensor:
        return topi.nn.conv2d_winograd_nchw_without_weight_transform(
            data, weight, 1, list(self.padding), 1, self.out_dtype or None, tile_size=self.tile_size
        )

    def ref(self, data: np.ndarray, weight: np.ndarray) -> np.ndarray:
        from tilewright.topi.nn.winograd import winograd_transform_matrices

        tile, _, channels, o = weight.shape
        m, k = self.tile_size, tile - self.tile_size + 1
        a, b, _ = winograd_transform_matrices(m, k)
        before, after = pads(self.padding)
        padded = np.pad(data, [(0, 0), (0, 0), (before[0], after[0] + m), (before[1], after[1] + m)])
        oh, ow = [data.shape[2 + j] + before[j] + after[j] - k + 1 for j in range(2)]
        out = np.zeros((data.shape[0], o, -(-oh // m) * m, -(-ow // m) * m))
        for y, x in np.ndindex(-(-oh // m), -(-ow // m)):
            part = padded[:, :, y * m : y * m + tile, x * m : x * m + tile]
            part = np.pad(part, [(0, 0), (0, 0), *[(0, tile - d) for d in part.shape[2:]]])
            there = np.einsum("ya,ncyx,xb->ncab", b, part, b)
            met = np.einsum("ncab,abco->noab", there, weight)
            out[:, :, y * m : y * m + m, x * m : x * m + m] = np.einsum("ai,noab,bj->noij", a, met, a)
        return out[:, :, :oh, :ow].astype(self.out_dtype or data.dtype)


class dilate(OpCard, key="nn.dilate"):
    """data with strides[a] - 1 elements of `dilation_value` between adjacent elements along each axis."""

    strides: tuple[int, ...]
    dilation_value: float = 0.0
    fuse = INJECTIVE
    samples = [(((2, 3),), {"strides": (2, 3), "dilation_value": 1.5}), (((2, 3),), {"strides": (1, 2)})]

    def infer(self, data: TensorType) -> Type:
        t = tensor(data, 0)
        need(len(self.strides) == len(t.shape), "strides must have a number for each axis", f"it is {self.strides}")
        need(min(self.strides, default=1) > 0, "strides must be positive", f"they are {self.strides}")
        out = [
            d if s == 1 else AnyDim() if is_any(d) else (d - 1) * s + 1
            for d, s in zip(dims(t), self.strides, strict=True)
        ]
        return tensor_type(tuple(out), t.dtype)

    def compute(self, data: te.Tensor) -> te.Tensor:
        return topi.nn.dilate(data, self.strides, self.dilation_value)

    def ref(self, data: np.ndarray) -> np.ndarray:
        shape = [(d - 1) * s + 1 for d, s in zip(data.shape, self.strides, strict=True)]
        out = np.full(shape, self.dilation_value, data.dtype)
        out[tuple([slice(None, None, s) for s in self.strides])] = data
        return out


class fifo_buffer(OpCard, key="nn.fifo_buffer"):
    """`buffer` followed by `data` along `axis`, without as many elements at the front: the length stays that of `buffer`."""

    axis: int
    fuse = INJECTIVE
    samples = [(((2, 1, 3), (2, 4, 3)), {"axis": 1}), (((3,), (2,)), {"axis": 0})]

    def infer(self, data: TensorType, buffer: TensorType) -> Type:
        d, b = tensor(data, 0), tensor(buffer, 1)
        same_dtype(d, b)
        at = normal_axis(self.axis, len(b.shape), arg=1)
        alike = len(d.shape) == len(b.shape) and all(
            [a == at or may_equal(x, y) for a, (x, y) in enumerate(zip(dims(d), dims(b), strict=True))]
        )
        need(alike, f"both may differ along axis {at} only", f"they are {d} and {b}", 0)
        return b

    def compute(self, data: te.Tensor, buffer: te.Tensor) -> te.Tensor:
        return topi.nn.fifo_buffer(data, buffer, self.axis)

    def ref(self, data: np.ndarray, buffer: np.ndarray) -> np.ndarray:
        at = self.axis % buffer.ndim
        whole = np.concatenate([buffer, data], at)
        return np.take(whole, np.arange(whole.shape[at] - buffer.shape[at], whole.shape[at]), at)


class bitpack(OpCard, key="nn.bitpack"):
    """Packs the bits of elements along `pack_axis` into words of `pack_type`, the first element in the highest bit. Bit b of the
    elements is at index b of a new axis `bit_axis`."""

    bits: int = 1
    pack_axis: int = 1
    bit_axis: int = 2
    pack_type: str = "uint32"
    name: str = "BitPack"
    flat = True
    fuse = INJECTIVE
    samples = [
        ((lambda rng: rng.integers(0, 4, (2, 8, 3)).astype(np.uint8),), {"bits": 2, "pack_type": "uint8"}),
        ((lambda rng: rng.integers(0, 2, (1, 64)).astype(np.int32),), {"bit_axis": 0}),
    ]

    def _width(self) -> int:
        return int(self.pack_type.removeprefix("u").removeprefix("int"))

    def infer(self, data: TensorType) -> Type:
        t = tensor(data, 0)
        shape = dims(t)
        at, width = normal_axis(self.pack_axis, len(shape), "pack_axis"), self._width()
        need(
            isinstance(shape[at], int) and shape[at] % width == 0,
            f"the extent along pack_axis must be known and a multiple of {width}",
            f"it is {shape[at]}",
            0,
        )
        shape[at] //= width
        shape.insert(self.bit_axis, self.bits)
        return tensor_type(tuple(shape), self.pack_type)

    def compute(self, data: te.Tensor) -> te.Tensor:
        return topi.nn.bitpack(
            data, self.bits, self.pack_axis % len(data.shape), self.bit_axis, self.pack_type, self.name
        )

    def ref(self, data: np.ndarray) -> np.ndarray:
        at, width = self.pack_axis % data.ndim, self._width()
        shape = [*data.shape[:at], data.shape[at] // width, width, *data.shape[at + 1 :]]
        whole = np.moveaxis(data.astype(np.int64).reshape(shape), at + 1, -1)
        weights = 1 << np.arange(width - 1, -1, -1, dtype=np.uint64)
        planes = [((whole >> b & 1).astype(np.uint64) * weights).sum(-1) for b in range(self.bits)]
        return np.stack(planes, self.bit_axis).astype(self.pack_type)


def _bits(high: int, *shape: int) -> Draw:
    return lambda rng: rng.integers(0, 1 << high, shape).astype(np.int16)


class Bitserial(OpCard):
    """Base of products of small integers. unipolar: the bits of weights stand for 1 and -1."""

    fuse = OUT_ELEMWISE
    flat = True


def signs(weight: np.ndarray, bits: int, unipolar: bool) -> np.ndarray:
    """The numbers for the bits of weights."""
    return weight.astype(np.int32) * 2 - ((1 << bits) - 1) if unipolar else weight.astype(np.int32)


class bitserial_conv2d(Bitserial, key="nn.bitserial_conv2d"):
    """Convolution of data of `activation_bits` bits with weights of `weight_bits` bits. unipolar: the bits of weights stand for 1
    and -1."""

    strides: tuple[int, ...] = (1, 1)
    padding: tuple[int, ...] = (0, 0)
    channels: int | None = None
    kernel_size: tuple[int, ...] = (3, 3)
    activation_bits: int = 1
    weight_bits: int = 1
    data_layout: str = "NCHW"
    kernel_layout: str = "OIHW"
    pack_dtype: str = "uint32"
    out_dtype: str = "int16"
    unipolar: bool = True
    kinds: ClassVar[dict[str, str]] = {"NCHW": "OIHW", "NHWC": "HWIO"}
    samples = [
        ((_bits(2, 1, 3, 5, 5), _bits(1, 2, 3, 3, 3)), {"activation_bits": 2, "padding": (1, 1)}),
        (
            (_bits(2, 1, 5, 5, 3), _bits(2, 3, 3, 3, 2)),
            {"activation_bits": 2, "weight_bits": 2, "data_layout": "NHWC", "kernel_layout": "HWIO", "unipolar": False},
        ),
    ]

    def infer(self, data: TensorType, weight: TensorType) -> Type:
        need(
            self.kinds.get(self.data_layout) == self.kernel_layout,
            "the layouts must be NCHW with OIHW, or NHWC with HWIO",
            f"they are {self.data_layout} and {self.kernel_layout}",
        )
        each(self.kernel_size, 2, "kernel_size")
        names = ("strides", "padding", "data_layout", "kernel_layout", "out_dtype")
        return conv2d(**{n: getattr(self, n) for n in names}).infer(data, weight)

    def compute(self, data: te.Tensor, weight: te.Tensor) -> te.Tensor:
        form = topi.nn.bitserial_conv2d_nchw if self.data_layout == "NCHW" else topi.nn.bitserial_conv2d_nhwc
        return form(
            data, weight, list(self.strides), list(self.padding), self.activation_bits, self.weight_bits,
            self.pack_dtype, self.out_dtype, self.unipolar,
        )  # fmt: skip

    def ref(self, data: np.ndarray, weight: np.ndarray) -> np.ndarray:
        x = relayout(data, self.data_layout, "NCHW").astype(np.int32)
        w = relayout(signs(weight, self.weight_bits, self.unipolar), self.kernel_layout, "OIHW")
        out = np_conv(x, w, each(self.strides, 2, "strides"), pads(self.padding), (1, 1), 1)
        return np.ascontiguousarray(relayout(out, "NCHW", self.data_layout)).astype(self.out_dtype)


class bitserial_dense(Bitserial, key="nn.bitserial_dense"):
    """data (batch, in) of `data_bits` bits times weights (units, in) of `weight_bits` bits. unipolar: the bits of weights stand for
    1 and -1."""

    units: int | None = None
    data_bits: int = 1
    weight_bits: int = 1
    pack_dtype: str = "uint32"
    out_dtype: str = "int16"
    unipolar: bool = True
    samples = [
        ((_bits(2, 2, 9), _bits(1, 3, 9)), {"data_bits": 2}),
        ((_bits(1, 2, 4), _bits(1, 3, 4)), {"unipolar": False}),
    ]

    def infer(self, data: TensorType, weight: TensorType) -> Type:
        d, w = tensor(data, 0, 2), tensor(weight, 1, 2)
        need(
            may_equal(dims(d)[1], dims(w)[1]),
            "both must have as many columns",
            f"they have {dims(d)[1]} and {dims(w)[1]}",
            1,
        )
        need(
            self.units is None or may_equal(self.units, dims(w)[0]),
            "units must agree with the weights",
            f"it is {self.units}",
            1,
        )
        return tensor_type((dims(d)[0], dims(w)[0]), self.out_dtype)

    def compute(self, data: te.Tensor, weight: te.Tensor) -> te.Tensor:
        return topi.nn.bitserial_dense(
            data, weight, self.data_bits, self.weight_bits, self.pack_dtype, self.out_dtype, self.unipolar
        )

    def ref(self, data: np.ndarray, weight: np.ndarray) -> np.ndarray:
        return np.asarray(data.astype(np.int32) @ signs(weight, self.weight_bits, self.unipolar).T, self.out_dtype)
