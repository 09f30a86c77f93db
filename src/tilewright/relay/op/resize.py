"""Operators on images and the rearrangement of space and depth."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tilewright import te, topi
from tilewright.ir import TensorType, Type
from tilewright.relay.op.card import INJECTIVE, LayoutChoice, OpCard, need
from tilewright.relay.op.pool import keep_blocks
from tilewright.relay.op.relations import dims, is_any, tensor, tensor_type
from tilewright.tir import Any as AnyDim
from tilewright.topi.image.resize import nearest_ratio
from tilewright.topi.nn.pooling import spatial_axes
from tilewright.topi.transform import layout_axes


def np_source(extent: int, target: int, mode: str) -> np.ndarray:
    """Where each output place lies among the input places (float32, as the compiled code computes it)."""
    x = np.arange(target, dtype=np.float32)
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
    data: np.ndarray, axis: int, target: int, method: str, mode: str, rounding: str, alpha: float, exclude: bool
) -> np.ndarray:
    """One axis of resize."""
    extent = data.shape[axis]
    x = np_source(extent, target, mode)
    shape = [1] * data.ndim
    shape[axis] = -1
    if method == "nearest_neighbor":
        rounding = rounding or ("round" if mode == "align_corners" else "floor")
        m, b, d, up = nearest_ratio(extent, target, mode, rounding)
        index = (np.arange(target) * m + (b + d - 1 if up else b)) // d
        return np.take(data, np.clip(index, 0, extent - 1), axis)
    base = np.floor(x)
    t = x - base
    first = base.astype(np.int64)
    if method == "linear":
        taps = [(first, 1 - t), (first + 1, t)]
    else:

        def near(d: np.ndarray) -> np.ndarray:
            return np.asarray(((alpha + 2) * d - (alpha + 3)) * d * d + 1)

        def far(d: np.ndarray) -> np.ndarray:
            return np.asarray(((alpha * d - 5 * alpha) * d + 8 * alpha) * d - 4 * alpha)

        taps = [(first - 1, far(t + 1)), (first, near(t)), (first + 1, near(1 - t)), (first + 2, far(2 - t))]
        if exclude:
            taps = [(i, np.where((i >= 0) & (i < extent), w, 0)) for i, w in taps]
            total = sum(w for _, w in taps)
            taps = [(i, w / total) for i, w in taps]
    return np.asarray(
        sum(np.take(data, np.clip(i, 0, extent - 1), axis) * w.reshape(shape).astype(np.float32) for i, w in taps)
    )


class resize2d(OpCard, key="image.resize2d"):
    """data resized over H and W to `size`: nearest_neighbor, linear or cubic, in the classic coordinate modes."""

    size: tuple[int, ...]
    roi: tuple[float, ...] | None = None
    layout: str = "NCHW"
    method: str = "linear"
    coordinate_transformation_mode: str = "half_pixel"
    rounding_method: str = ""
    cubic_alpha: float = -0.5
    cubic_exclude: int = 0
    extrapolation_value: float = 0.0
    out_dtype: str | None = None
    fuse = INJECTIVE
    tolerance = 1e-4
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
    ]

    def infer(self, data: TensorType) -> Type:
        t = tensor(data, 0, len(layout_axes(self.layout)))
        shape: list[Any] = list(dims(t))
        need(len(self.size) == 2 and min(self.size) > 0, "size must be (height, width)", f"it is {self.size}")
        need(
            self.method in ("nearest_neighbor", "linear", "cubic"),
            'method must be "nearest_neighbor", "linear" or "cubic"',
            f"it is {self.method!r}",
        )
        for a, s in zip(spatial_axes(self.layout), self.size, strict=True):
            need(isinstance(shape[a], int), "the extents of H and W must be known", f"axis {a} is {shape[a]}", 0)
            shape[a] = s
        return tensor_type(tuple(shape), self.out_dtype or t.dtype)

    def compute(self, data: te.Tensor) -> te.Tensor:
        return topi.image.resize2d(
            data, self.roi, self.size, self.layout, self.method, self.coordinate_transformation_mode, self.rounding_method,
            self.cubic_alpha, self.cubic_exclude, self.extrapolation_value, self.out_dtype,
        )  # fmt: skip

    def ref(self, data: np.ndarray) -> np.ndarray:
        out = data
        for a, s in zip(spatial_axes(self.layout), self.size, strict=True):
            out = np_resize_axis(
                out,
                a,
                s,
                self.method,
                self.coordinate_transformation_mode,
                self.rounding_method,
                self.cubic_alpha,
                bool(self.cubic_exclude),
            )
        return out.astype(self.out_dtype or data.dtype)

    def layout_rule(self, args: Sequence[str | None], types: Sequence[Type]) -> LayoutChoice | None:
        """Blocks as single channels."""
        return keep_blocks(self, args)


class depth_to_space(OpCard, key="nn.depth_to_space"):
    """(N, C * b * b, H, W) to (N, C, H * b, W * b); mode DCR takes depth as (b, b, C), CRD as (C, b, b)."""

    block_size: int
    layout: str = "NCHW"
    mode: str = "DCR"
    fuse = INJECTIVE
    samples = [(((1, 8, 2, 3),), {"block_size": 2}), (((1, 8, 2, 3),), {"block_size": 2, "mode": "CRD"})]

    def infer(self, data: TensorType) -> Type:
        t = tensor(data, 0, 4)
        need(self.layout == "NCHW", "depth_to_space takes NCHW", f"it is {self.layout}")
        n, c, h, w = dims(t)
        b = self.block_size
        need(
            not isinstance(c, int) or c % (b * b) == 0, "block_size squared must divide the channels", f"{b} and {c}", 0
        )
        return tensor_type((n, AnyDim() if is_any(c) else c // (b * b), _times(h, b), _times(w, b)), t.dtype)

    def _steps(self, shape: Sequence[Any]) -> tuple[list[Any], list[int], list[Any]]:
        n, c, h, w = shape
        b = self.block_size
        depth = c // (b * b)
        if self.mode == "DCR":
            return [n, b, b, depth, h, w], [0, 3, 4, 1, 5, 2], [n, depth, h * b, w * b]
        return [n, depth, b, b, h, w], [0, 1, 4, 2, 5, 3], [n, depth, h * b, w * b]

    def compute(self, data: te.Tensor) -> te.Tensor:
        split, order, joined = self._steps(topi.utils.shape_of(data))
        return topi.reshape(topi.transpose(topi.reshape(data, split), order), joined)

    def ref(self, data: np.ndarray) -> np.ndarray:
        split, order, joined = self._steps(data.shape)
        return np.ascontiguousarray(data.reshape(split).transpose(order)).reshape(joined)


def _times(d: Any, b: int) -> Any:
    return AnyDim() if is_any(d) else d * b


class space_to_depth(OpCard, key="nn.space_to_depth"):
    """(N, C, H * b, W * b) to (N, b * b * C, H, W)."""

    block_size: int
    layout: str = "NCHW"
    fuse = INJECTIVE
    samples = [(((1, 2, 4, 6),), {"block_size": 2})]

    def infer(self, data: TensorType) -> Type:
        t = tensor(data, 0, 4)
        need(self.layout == "NCHW", "space_to_depth takes NCHW", f"it is {self.layout}")
        n, c, h, w = dims(t)
        b = self.block_size
        for d in (h, w):
            need(not isinstance(d, int) or d % b == 0, "block_size must divide H and W", f"{b} and {d}", 0)
        parts = [AnyDim() if is_any(d) else d // b for d in (h, w)]
        return tensor_type((n, _times(c, b * b), *parts), t.dtype)

    def _steps(self, shape: Sequence[Any]) -> tuple[list[Any], list[int], list[Any]]:
        n, c, h, w = shape
        b = self.block_size
        return [n, c, h // b, b, w // b, b], [0, 3, 5, 1, 2, 4], [n, c * b * b, h // b, w // b]

    def compute(self, data: te.Tensor) -> te.Tensor:
        split, order, joined = self._steps(topi.utils.shape_of(data))
        return topi.reshape(topi.transpose(topi.reshape(data, split), order), joined)

    def ref(self, data: np.ndarray) -> np.ndarray:
        split, order, joined = self._steps(data.shape)
        return np.ascontiguousarray(data.reshape(split).transpose(order)).reshape(joined)
