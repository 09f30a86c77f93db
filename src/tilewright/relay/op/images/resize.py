"""Resizing over one, two or three spatial axes, and upsampling."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np

from tilewright import te, topi
from tilewright.ir import TensorType, Type
from tilewright.relay.cards.card import INJECTIVE, LayoutChoice, OpCard, need
from tilewright.relay.cards.relations import Dim, dims, is_any, tensor, tensor_type
from tilewright.relay.op.layers.pool import keep_blocks
from tilewright.tir import Any as AnyDim
from tilewright.topi.transform import layout_axes, spatial_axes


def np_source(extent: int, target: int, mode: str, start: float = 0.0, end: float = 1.0) -> np.ndarray:
    """The input coordinate of each output element, in float32 as in the compiled code."""
    x = np.arange(target, dtype=np.float32)
    if mode == "tf_crop_and_resize":
        whole = np.float32(extent - 1)
        if target == 1:
            return np.full(1, whole * np.float32((start + end) / 2), np.float32)
        return whole * np.float32(start) + x * np.float32(whole * np.float32(end - start) / np.float32(target - 1))
    if mode == "align_corners":
        return x * np.float32((extent - 1) / (target - 1) if target > 1 else 0.0)
    scale = np.float32(extent / target)
    if mode == "asymmetric":
        return x * scale
    if mode == "pytorch_half_pixel" and target == 1:
        return x * np.float32(0)
    half = np.float32(0.5)
    return (x + half) * scale - (half if mode in ("half_pixel", "pytorch_half_pixel") else np.float32(0))


def np_resize_axis(
    data: np.ndarray,
    axis: int,
    target: int,
    method: str,
    mode: str,
    rounding: str,
    alpha: float,
    exclude: bool,
    start: float = 0.0,
    end: float = 1.0,
) -> np.ndarray:
    """Resizes one axis."""
    extent = data.shape[axis]
    x = np_source(extent, target, mode, start, end)
    shape = [1] * data.ndim
    shape[axis] = -1
    if method == "nearest_neighbor" and mode == "tf_crop_and_resize":
        return np.take(data, np.clip(np.floor(x + np.float32(0.5)).astype(np.int64), 0, extent - 1), axis)
    if method == "nearest_neighbor":
        from tilewright.topi.image.resize import nearest_ratio

        rounding = rounding or ("round" if mode == "align_corners" else "floor")
        m, b, d, up = nearest_ratio(extent, target, mode, rounding)
        index = (np.arange(target) * m + (b + d - 1 if up else b)) // d
        return np.take(data, np.clip(index, 0, extent - 1), axis)
    base = np.floor(x)
    t = x - base
    first = base.astype(np.int64)
    if method == "linear":
        neighbours = [(first, 1 - t), (first + 1, t)]
    else:

        def near(d: np.ndarray) -> np.ndarray:
            return np.asarray(((alpha + 2) * d - (alpha + 3)) * d * d + 1)

        def far(d: np.ndarray) -> np.ndarray:
            return np.asarray(((alpha * d - 5 * alpha) * d + 8 * alpha) * d - 4 * alpha)

        neighbours = [(first - 1, far(t + 1)), (first, near(t)), (first + 1, near(1 - t)), (first + 2, far(2 - t))]
        if exclude:
            neighbours = [(i, np.where((i >= 0) & (i < extent), w, 0)) for i, w in neighbours]
            total = sum(w for _, w in neighbours)
            neighbours = [(i, w / total) for i, w in neighbours]
    return np.asarray(
        sum(np.take(data, np.clip(i, 0, extent - 1), axis) * w.reshape(shape).astype(np.float32) for i, w in neighbours)
    )


METHODS = ("nearest_neighbor", "linear", "cubic")


class Resize(OpCard):
    """Base of operators that resize the spatial axes to `size`. method: nearest_neighbor, linear or cubic. For
    coordinate_transformation_mode "tf_crop_and_resize", `roi` (starts, then ends, as fractions of the extents) is the part to
    resize, and extrapolation_value the value outside of the data."""

    size: tuple[int, ...]
    roi: tuple[float, ...] | None = None
    layout: str = ""
    method: str = "linear"
    coordinate_transformation_mode: str = "half_pixel"
    rounding_method: str = ""
    cubic_alpha: float = -0.5
    cubic_exclude: int = 0
    extrapolation_value: float = 0.0
    out_dtype: str | None = None
    letters: ClassVar[str] = "HW"
    fuse = INJECTIVE
    tolerance = 1e-4

    def infer(self, data: TensorType) -> Type:
        t = tensor(data, 0, len(layout_axes(self.layout)))
        shape: list[Dim] = list(dims(t))
        n = len(self.letters)
        known = [s for s in self.size if isinstance(s, int)]
        need(
            len(self.size) == n and min(known, default=1) > 0,
            f"size must be {n} positive numbers",
            f"it is {self.size}",
        )
        need(self.method in METHODS, f"method must be one of {', '.join(METHODS)}", f"it is {self.method!r}")
        need(not self.roi or len(self.roi) == 2 * n, f"roi must have {n} starts and {n} ends", f"it is {self.roi}")
        for a, s in zip(spatial_axes(self.layout, self.letters), self.size, strict=True):
            shape[a] = s
        return tensor_type(tuple(shape), self.out_dtype or t.dtype)

    def compute(self, data: te.Tensor) -> te.Tensor:
        resize = {1: topi.image.resize1d, 2: topi.image.resize2d, 3: topi.image.resize3d}[len(self.letters)]
        return resize(
            data, self.roi, self.size, self.layout, self.method, self.coordinate_transformation_mode, self.rounding_method,
            self.cubic_alpha, self.cubic_exclude, self.extrapolation_value, self.out_dtype,
        )  # fmt: skip

    def ref(self, data: np.ndarray) -> np.ndarray:
        out = data
        n, mode = len(self.letters), self.coordinate_transformation_mode
        roi = self.roi or (0.0,) * n + (1.0,) * n
        outside = np.zeros((), bool)
        for j, (a, s) in enumerate(zip(spatial_axes(self.layout, self.letters), self.size, strict=True)):
            extent = data.shape[a]
            out = np_resize_axis(
                out, a, s, self.method, mode, self.rounding_method, self.cubic_alpha, bool(self.cubic_exclude), roi[j], roi[n + j]
            )  # fmt: skip
            if mode == "tf_crop_and_resize":
                x = np_source(extent, s, mode, roi[j], roi[n + j])
                shape = [1] * data.ndim
                shape[a] = -1
                outside = outside | ((x < 0) | (x > extent - 1)).reshape(shape)
        return np.where(outside, self.extrapolation_value, out).astype(self.out_dtype or data.dtype)

    def layout_rule(self, args: Sequence[str | None], types: Sequence[Type]) -> LayoutChoice | None:
        """Runs on channel blocks like on single channels."""
        return keep_blocks(self, args)


class resize1d(Resize, key="image.resize1d"):
    """data with W resized to `size`. method: nearest_neighbor, linear or cubic, with the coordinate transformation modes of classic
    TVM."""

    layout: str = "NCW"
    letters = "W"
    samples = [
        (((1, 2, 5),), {"size": (8,)}),
        (((1, 2, 5),), {"size": (3,), "method": "cubic", "coordinate_transformation_mode": "align_corners"}),
    ]


class resize2d(Resize, key="image.resize2d"):
    """data with H and W resized to `size`. method: nearest_neighbor, linear or cubic, with the coordinate transformation modes of
    classic TVM."""

    layout: str = "NCHW"
    samples = [
        (
            ((1, 2, 3, 4),),
            {"size": (6, 8), "method": "nearest_neighbor", "coordinate_transformation_mode": "asymmetric"},
        ),
        (((1, 2, 5, 4),), {"size": (3, 7), "method": "nearest_neighbor", "rounding_method": "round_prefer_floor"}),
        (((1, 2, 3, 4),), {"size": (5, 9)}),
        (((1, 2, 3, 4),), {"size": (5, 2), "coordinate_transformation_mode": "align_corners"}),
        (((1, 2, 3, 4),), {"size": (5, 7), "method": "cubic", "cubic_alpha": -0.75, "cubic_exclude": 1}),
        (
            ((1, 2, 3, 4, 4),),
            {"size": (6, 8), "layout": "NCHW4c", "coordinate_transformation_mode": "pytorch_half_pixel"},
        ),
        (
            ((1, 2, 5, 4),),
            {
                "size": (3, 4),
                "roi": (0.1, -0.2, 0.8, 1.1),
                "coordinate_transformation_mode": "tf_crop_and_resize",
                "extrapolation_value": -1.5,
            },
        ),
    ]


class resize3d(Resize, key="image.resize3d"):
    """data with D, H and W resized to `size`. method: nearest_neighbor, linear or cubic, with the coordinate transformation modes
    of classic TVM."""

    layout: str = "NCDHW"
    letters = "DHW"
    samples = [
        (((1, 2, 2, 3, 2),), {"size": (3, 4, 5)}),
        (((1, 1, 2, 3, 2),), {"size": (3, 2, 4), "method": "nearest_neighbor"}),
    ]


WORDS = {"bilinear": "linear", "trilinear": "linear", "bicubic": "cubic"}


class Upsampling(OpCard):
    """Base of operators that scale the spatial axes. The new extents are rounded to integers."""

    fuse = INJECTIVE
    tolerance = 1e-4
    letters: ClassVar[str] = "HW"

    def form(self) -> tuple[str, str]:
        """The layout, and the method."""
        raise NotImplementedError

    def scales(self) -> tuple[float, ...]:
        """The scale of each spatial axis."""
        raise NotImplementedError

    def mode(self) -> str:
        """The coordinate transformation mode."""
        raise NotImplementedError

    def resized(self, shape: Sequence[Dim]) -> Resize:
        """The equivalent resize for data of this shape."""
        layout, method = self.form()
        size: list[Dim] = []
        for a, scale in zip(spatial_axes(layout, self.letters), self.scales(), strict=True):
            d = shape[a]
            if isinstance(d, int):
                size.append(int(np.floor(d * scale + 0.5)))
            elif is_any(d):
                size.append(AnyDim())
            else:
                from fractions import Fraction

                part = Fraction(scale).limit_denominator(1 << 12)
                size.append((d * (2 * part.numerator) + part.denominator) // (2 * part.denominator))
        card = resize3d if len(self.letters) == 3 else resize2d
        attrs: dict[str, Any] = {"size": tuple(size), "layout": layout, "method": WORDS.get(method, method)}
        return card(**attrs, coordinate_transformation_mode=self.mode())

    def infer(self, data: TensorType) -> Type:
        t = tensor(data, 0, len(layout_axes(self.form()[0])))
        return self.resized(dims(t)).infer(t)

    def compute(self, data: te.Tensor) -> te.Tensor:
        return self.resized(topi.utils.shape_of(data)).compute(data)

    def ref(self, data: np.ndarray) -> np.ndarray:
        return self.resized(data.shape).ref(data)

    def layout_rule(self, args: Sequence[str | None], types: Sequence[Type]) -> LayoutChoice | None:
        """Runs on channel blocks like on single channels."""
        return keep_blocks(self, args)


class upsampling(Upsampling, key="nn.upsampling"):
    """data with H and W scaled. method: nearest_neighbor, bilinear or bicubic."""

    scale_h: float = 1
    scale_w: float = 1
    layout: str = "NCHW"
    method: str = "nearest_neighbor"
    align_corners: bool = False
    samples = [
        (((1, 2, 3, 4),), {"scale_h": 2, "scale_w": 2}),
        (((1, 2, 3, 4),), {"scale_h": 2, "scale_w": 1.5, "method": "bilinear", "align_corners": True}),
    ]

    def form(self) -> tuple[str, str]:
        return self.layout, self.method

    def scales(self) -> tuple[float, ...]:
        return (self.scale_h, self.scale_w)

    def mode(self) -> str:
        return "align_corners" if self.align_corners else "asymmetric"


class upsampling3d(Upsampling, key="nn.upsampling3d"):
    """data with D, H and W scaled. method: nearest_neighbor or trilinear."""

    scale_d: float = 1
    scale_h: float = 1
    scale_w: float = 1
    layout: str = "NCDHW"
    method: str = "nearest_neighbor"
    coordinate_transformation_mode: str = "half_pixel"
    letters = "DHW"
    samples = [
        (((1, 1, 2, 3, 2),), {"scale_d": 2, "scale_h": 2, "scale_w": 1}),
        (((1, 1, 2, 3, 2),), {"scale_d": 2, "scale_h": 2, "scale_w": 3, "method": "trilinear"}),
    ]

    def form(self) -> tuple[str, str]:
        return self.layout, self.method

    def scales(self) -> tuple[float, ...]:
        return (self.scale_d, self.scale_h, self.scale_w)

    def mode(self) -> str:
        return self.coordinate_transformation_mode
