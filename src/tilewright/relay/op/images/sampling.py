"""Operators that sample images at computed positions: crops, grids; morphological dilation."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tilewright import te, topi
from tilewright.ir import TensorType, Type
from tilewright.ir.span import BaseSpan
from tilewright.relay.cards.card import INJECTIVE, OUT_ELEMWISE, Made, OpCard, Operand, need
from tilewright.relay.cards.relations import Dim, dims, each, known_extent, may_equal, need_count, tensor, tensor_type
from tilewright.relay.op.convolution.windows import pads, window
from tilewright.relay.op.movement.indexing import integers, need_elements
from tilewright.topi.transform import spatial_axes


class crop_and_resize(OpCard, key="image.crop_and_resize"):
    """Crops each box (y1, x1, y2, x2, as fractions of the extents) from image box_indices[b], and resizes it to `crop_size`.
    Positions outside the image get `extrapolation_value`. Image numbers out of bounds are clipped."""

    crop_size: tuple[int, ...]
    layout: str = "NCHW"
    method: str = "bilinear"
    extrapolation_value: float = 0.0
    out_dtype: str = ""
    fuse = INJECTIVE
    tolerance = 1e-4
    samples = [
        (
            (
                (2, 2, 5, 4),
                np.array([[0.05, 0.1, 0.93, 0.88], [0.2, -0.3, 0.7, 0.9]], np.float32),
                np.array([1, 0], np.int32),
            ),
            {"crop_size": (3, 4), "extrapolation_value": 2.5},
        ),
        (
            ((2, 5, 4, 2), np.array([[0.1, 0.2, 0.8, 0.6]], np.float32), np.array([1], np.int32)),
            {"crop_size": (1, 3), "layout": "NHWC", "method": "nearest_neighbor"},
        ),
    ]

    @classmethod
    def make(
        cls,
        data: Operand,
        boxes: Operand,
        box_indices: Operand,
        crop_size: Sequence[int],
        layout: str,
        method: str = "bilinear",
        extrapolation_value: float = 0,
        out_dtype: str | None = None,
        span: BaseSpan | None = None,
    ) -> Made:
        """crop_size: (height, width)."""
        attrs = {"crop_size": crop_size, "layout": layout, "method": method, "extrapolation_value": extrapolation_value}
        return cls.call([data, boxes, box_indices], {**attrs, "out_dtype": out_dtype or ""}, span)

    def infer(self, data: TensorType, boxes: TensorType, box_indices: TensorType) -> Type:
        t, b, i = tensor(data, 0, 4), tensor(boxes, 1, 2), integers(tensor(box_indices, 2, 1), 2)
        need(may_equal(dims(b)[1], 4), "a box has four numbers", f"it has {dims(b)[1]}", 1)
        need(
            may_equal(dims(b)[0], dims(i)[0]),
            "there must be an image index for each box",
            f"there are {dims(i)[0]} for {dims(b)[0]}",
            2,
        )
        methods = ("bilinear", "nearest_neighbor")
        need(self.method in methods, f"method must be one of {', '.join(methods)}", f"it is {self.method!r}")
        shape: list[Dim] = list(dims(t))
        shape[0] = dims(b)[0]
        need_count("crop_size", self.crop_size, [2])
        for a, s in zip(spatial_axes(self.layout), self.crop_size, strict=True):
            shape[a] = s
        need_elements(dims(t), shape)
        return tensor_type(tuple(shape), self.out_dtype or t.dtype)

    def compute(self, data: te.Tensor, boxes: te.Tensor, box_indices: te.Tensor) -> te.Tensor:
        return topi.image.crop_and_resize(
            data, boxes, box_indices, self.crop_size, self.layout, self.method, self.extrapolation_value, self.out_dtype
        )

    def ref(self, data: np.ndarray, boxes: np.ndarray, box_indices: np.ndarray) -> np.ndarray:
        y_axis, x_axis = spatial_axes(self.layout)
        real = np.float64 if data.dtype == np.float64 else np.float32
        out = []
        for box, image in zip(boxes.astype(real), np.clip(box_indices, 0, len(data) - 1), strict=True):
            part = data[image].astype(real)
            outside = np.zeros((), bool)
            for j, a in enumerate((y_axis - 1, x_axis - 1)):
                n, m = part.shape[a], self.crop_size[j]
                whole = real(data.shape[a + 1] - 1)
                low, high = box[j], box[2 + j]
                if m > 1:
                    x = low * whole + np.arange(m, dtype=real) * ((high - low) * whole / real(m - 1))
                else:
                    x = np.full(1, (low + high) * whole * real(0.5))
                shape = [1] * part.ndim
                shape[a] = -1
                outside = outside | ((x < 0) | (x > whole)).reshape(shape)
                if self.method == "nearest_neighbor":
                    part = np.take(part, np.clip(np.floor(x + 0.5).astype(int), 0, n - 1), a)
                else:
                    base = np.floor(x)
                    t, i = (x - base).reshape(shape), base.astype(int)
                    first, second = np.take(part, np.clip(i, 0, n - 1), a), np.take(part, np.clip(i + 1, 0, n - 1), a)
                    part = first * (1 - t) + second * t
            out.append(np.where(outside, real(self.extrapolation_value), part))
        return np.stack(out).astype(self.out_dtype or data.dtype)


class affine_grid(OpCard, key="image.affine_grid"):
    """The positions (x, y) or (x, y, z) to which each affine map (batch, dims, dims + 1) sends the regular grid of `target_shape`
    over [-1, 1]: (batch, dims, *target_shape)."""

    target_shape: tuple[int, ...]
    fuse = INJECTIVE
    samples = [
        (((2, 2, 3),), {"target_shape": (3, 4)}),
        (((1, 3, 4),), {"target_shape": (2, 3, 2)}),
    ]

    def infer(self, data: TensorType) -> Type:
        t = tensor(data, 0, 3)
        batch, d, more = dims(t)
        n = len(self.target_shape)
        need(
            isinstance(d, int) and d == n and may_equal(more, n + 1),
            "the maps must be known to be (dims, dims + 1), with a number of target_shape for each dimension",
            f"they are ({d}, {more}) for {self.target_shape}",
            0,
        )
        return tensor_type((batch, n, *self.target_shape), t.dtype)

    def compute(self, data: te.Tensor) -> te.Tensor:
        return topi.image.affine_grid(data, self.target_shape)

    def ref(self, data: np.ndarray) -> np.ndarray:
        axes = [np.linspace(-1, 1, s) if s > 1 else np.full(1, -1.0) for s in self.target_shape]
        grid = np.meshgrid(*axes, indexing="ij")[::-1]
        places = np.stack([*[g.reshape(-1) for g in grid], np.ones(int(np.prod(self.target_shape)))])
        moved = np.asarray(data @ places.astype(data.dtype))
        return moved.reshape(*data.shape[:2], *self.target_shape).astype(data.dtype)


class grid_sample(OpCard, key="image.grid_sample"):
    """Samples data at the positions `grid` (batch, dims, out...), whose channels are x, y (and z) over [-1, 1]. method: nearest,
    bilinear or bicubic. padding_mode: the value outside the data, one of zeros, border, reflection."""

    method: str = "bilinear"
    layout: str = "NCHW"
    padding_mode: str = "zeros"
    align_corners: bool = True
    fuse = INJECTIVE
    tolerance = 1e-4
    samples = [
        (((1, 2, 4, 5), (1, 2, 2, 3)), {}),
        (((1, 1, 4, 5), (1, 2, 2, 2)), {"align_corners": False, "padding_mode": "border"}),
        (((1, 2, 4, 3), (1, 2, 2, 3)), {"method": "bicubic", "padding_mode": "reflection"}),
        (((1, 2, 4, 3), (1, 2, 2, 3)), {"method": "nearest", "align_corners": False, "padding_mode": "reflection"}),
        (((1, 1, 3, 2, 3), (1, 3, 2, 1, 2)), {"layout": "NCDHW"}),
    ]

    def infer(self, data: TensorType, grid: TensorType) -> Type:
        need(self.layout in ("NCHW", "NCDHW"), "layout must be NCHW or NCDHW", f"it is {self.layout}")
        t, g = tensor(data, 0, len(self.layout)), tensor(grid, 1, len(self.layout))
        n = len(self.layout) - 2
        methods, paddings = ("nearest", "bilinear", "bicubic"), ("zeros", "border", "reflection")
        need(self.method in methods, f"method must be one of {', '.join(methods)}", f"it is {self.method!r}")
        need(
            self.padding_mode in paddings,
            f"padding_mode must be one of {', '.join(paddings)}",
            f"it is {self.padding_mode!r}",
        )
        (b, c, *_), (gb, gc, *out) = dims(t), dims(g)
        need(may_equal(gc, n), f"the grid must have {n} channels", f"it has {gc}", 1)
        need(may_equal(b, gb), "data and grid must have one batch", f"they are {b} and {gb}", 1)
        return tensor_type((b, c, *out), t.dtype)

    def compute(self, data: te.Tensor, grid: te.Tensor) -> te.Tensor:
        return topi.image.grid_sample(data, grid, self.method, self.layout, self.padding_mode, self.align_corners)

    def ref(self, data: np.ndarray, grid: np.ndarray) -> np.ndarray:
        batch, channels, *extents = data.shape
        n = len(extents)
        out = np.zeros((batch, channels, *grid.shape[2:]), np.float64)
        for b, *at in np.ndindex(batch, *grid.shape[2:]):
            neighbours = []
            for axis, size in enumerate(extents):
                g = float(grid[(b, n - 1 - axis, *at)])
                x = (g + 1) * (size - 1) / 2 if self.align_corners else ((g + 1) * size - 1) / 2
                neighbours.append(self._neighbours(x, size))
            for corner in np.ndindex(*[len(t) for t in neighbours]):
                places = [neighbours[a][k][0] for a, k in enumerate(corner)]
                weight = np.prod([neighbours[a][k][1] for a, k in enumerate(corner)])
                if all([0 <= p < e for p, e in zip(places, extents, strict=True)]):
                    out[(b, slice(None), *at)] += data[(b, slice(None), *places)] * weight
        return out.astype(data.dtype)

    def _padded(self, x: float, size: int) -> float:
        if self.padding_mode == "border":
            return min(max(x, 0.0), size - 1.0)
        if self.padding_mode == "zeros":
            return x
        low, span = (0.0, size - 1.0) if self.align_corners else (-0.5, float(size))
        turns, rest = divmod(abs(x - low), max(span, 1e-6))
        back = rest + low if turns % 2 == 0 else span - rest + low
        return min(max(back, 0.0), size - 1.0)

    def _neighbours(self, x: float, size: int) -> list[tuple[int, float]]:
        """(index, weight) of the elements along an axis from which position x is interpolated."""
        if self.method == "bicubic":
            base = int(np.floor(x))
            t, a = x - base, -0.75

            def near(d: float) -> float:
                return ((a + 2) * d - (a + 3)) * d * d + 1

            def far(d: float) -> float:
                return ((a * d - 5 * a) * d + 8 * a) * d - 4 * a

            weights = (far(t + 1), near(t), near(1 - t), far(2 - t))
            return [(int(self._padded(base - 1 + k, size)), w) for k, w in enumerate(weights)]
        x = self._padded(x, size)
        if self.method == "nearest":
            return [(int(np.rint(x)), 1.0)]
        base = int(np.floor(x))
        last = size - 1
        if self.padding_mode == "zeros":
            return [(base, base + 1 - x), (base + 1, x - base)]
        return [(min(base, last), base + 1 - x), (min(base + 1, last), x - base)]


class dilation2d(OpCard, key="image.dilation2d"):
    """Grey-scale dilation: the maximum of data + weight over each window. Weights are (C, KH, KW), or (KH, KW, C) for NHWC."""

    strides: tuple[int, ...] = (1, 1)
    padding: tuple[int, ...] = (0, 0)
    dilations: tuple[int, ...] = (1, 1)
    data_layout: str = "NCHW"
    kernel_layout: str = "IHW"
    out_dtype: str = ""
    fuse = OUT_ELEMWISE
    samples = [
        (((1, 2, 5, 5), (2, 3, 2)), {"padding": (1, 0), "strides": (2, 1)}),
        (((1, 5, 5, 2), (2, 2, 2)), {"dilations": (2, 1), "data_layout": "NHWC", "kernel_layout": "HWI"}),
    ]

    def infer(self, data: TensorType, weight: TensorType) -> Type:
        t, w = tensor(data, 0, 4), tensor(weight, 1, 3)
        pairs = {"NCHW": "IHW", "NHWC": "HWI"}
        need(
            pairs.get(self.data_layout) == self.kernel_layout,
            "the layouts must be NCHW with IHW, or NHWC with HWI",
            f"they are {self.data_layout} and {self.kernel_layout}",
        )
        k = dict(zip(self.kernel_layout, dims(w), strict=True))
        shape: list[Dim] = list(dims(t))
        channels = shape[self.data_layout.index("C")]
        need(may_equal(k["I"], channels), "weight must have data's channels", f"it has {k['I']} of {channels}", 1)
        need(all([isinstance(k[a], int) for a in "HW"]), "the weight's extents must be known", f"they are {w.shape}", 1)
        (sh, sw), (dh, dw) = each(self.strides, 2, "strides"), each(self.dilations, 2, "dilations")
        before, after = pads(self.padding)
        for j, (a, s, d) in enumerate(zip("HW", (sh, sw), (dh, dw), strict=True)):
            at = self.data_layout.index(a)
            shape[at] = window(shape[at], known_extent(k[a]), before[j], after[j], s, d)
        return tensor_type(tuple(shape), self.out_dtype or t.dtype)

    def compute(self, data: te.Tensor, weight: te.Tensor) -> te.Tensor:
        return topi.image.dilation2d(
            data, weight, self.strides, self.padding, self.dilations, self.data_layout, self.out_dtype or None
        )

    def ref(self, data: np.ndarray, weight: np.ndarray) -> np.ndarray:
        nhwc = self.data_layout == "NHWC"
        x, w = (data.transpose(0, 3, 1, 2), weight.transpose(2, 0, 1)) if nhwc else (data, weight)
        (sh, sw), (dh, dw) = each(self.strides, 2, "strides"), each(self.dilations, 2, "dilations")
        before, after = pads(self.padding)
        padded = np.pad(x, [(0, 0), (0, 0), *zip(before, after, strict=True)], constant_values=-np.inf)
        kh, kw = w.shape[1:]
        oh = (padded.shape[2] - (kh - 1) * dh - 1) // sh + 1
        ow = (padded.shape[3] - (kw - 1) * dw - 1) // sw + 1
        out = np.full((*x.shape[:2], oh, ow), -np.inf, data.dtype)
        for y, z in np.ndindex(kh, kw):
            part = padded[:, :, y * dh : y * dh + (oh - 1) * sh + 1 : sh, z * dw : z * dw + (ow - 1) * sw + 1 : sw]
            out = np.maximum(out, part + w[None, :, y, z, None, None])
        out = out.transpose(0, 2, 3, 1) if nhwc else out
        return np.ascontiguousarray(out.astype(self.out_dtype or data.dtype))
