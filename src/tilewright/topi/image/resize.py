"""Resizing of images over H and W."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from tilewright import te
from tilewright.topi import tag
from tilewright.topi.lang import compute, tir
from tilewright.topi.nn.pooling import spatial_axes
from tilewright.topi.utils import Dim, get_const_int, shape_of, to

COORDINATES = (
    "half_pixel",
    "align_corners",
    "asymmetric",
    "pytorch_half_pixel",
    "tf_half_pixel_for_nn",
    "tf_crop_and_resize",
)


def _source(o: Any, extent: int, target: int, mode: str) -> Any:
    """Where output place o lies among the input places, as float32."""
    x = to(o, "float32")
    if mode == "align_corners":
        return x * tir.const((extent - 1) / (target - 1) if target > 1 else 0.0, "float32")
    scale = tir.const(extent / target, "float32")
    if mode == "asymmetric":
        return x * scale
    if mode == "pytorch_half_pixel" and target == 1:
        return tir.const(0.0, "float32")
    if mode == "tf_half_pixel_for_nn":
        return (x + tir.const(0.5, "float32")) * scale
    if mode in ("half_pixel", "pytorch_half_pixel"):
        return (x + tir.const(0.5, "float32")) * scale - tir.const(0.5, "float32")
    raise ValueError(f"coordinate_transformation_mode must be one of {', '.join(COORDINATES[:-1])}, but is {mode!r}")


def _bound(index: Any, extent: int) -> Any:
    return tir.max(tir.min(index, extent - 1), 0)


def nearest_ratio(extent: int, target: int, mode: str, rounding: str) -> tuple[int, int, int, bool]:
    """(m, b, d, up): the nearest input place of output place o is (o * m + b) / d, rounded down or up.

    Whole numbers only: ties fall as the rounding says, whatever the processor does with fractions.
    """
    if mode == "align_corners":
        m, b, d = (2 * (extent - 1), 0, 2 * (target - 1)) if target > 1 else (0, 0, 2)
    elif mode == "asymmetric":
        m, b, d = 2 * extent, 0, 2 * target
    elif mode == "pytorch_half_pixel" and target == 1:
        m, b, d = 0, 0, 2
    elif mode == "tf_half_pixel_for_nn":
        m, b, d = 2 * extent, extent, 2 * target
    elif mode in ("half_pixel", "pytorch_half_pixel"):
        m, b, d = 2 * extent, extent - target, 2 * target
    else:
        raise ValueError(
            f"coordinate_transformation_mode must be one of {', '.join(COORDINATES[:-1])}, but is {mode!r}"
        )
    half = d // 2
    if rounding == "floor":
        shift, up = 0, False
    elif rounding == "ceil":
        shift, up = 0, True
    elif rounding == "round_prefer_ceil":
        shift, up = half, False
    elif rounding in ("round", "round_prefer_floor"):
        shift, up = -half, True
    else:
        raise ValueError(
            f"rounding_method must be floor, ceil, round, round_prefer_floor or round_prefer_ceil, but is {rounding!r}"
        )
    b += shift
    common = math.gcd(m, b, d)
    return m // common, b // common, d // common, up


def _nearest(o: Any, extent: int, target: int, mode: str, rounding: str) -> Any:
    m, b, d, up = nearest_ratio(extent, target, mode, rounding)
    # Rounding up is rounding down of what is d - 1 more.
    number = o * m + (b + d - 1 if up else b)
    index = number if d == 1 else tir.floordiv(number, d)

    def place(i: int) -> int:
        return (i * m + (b + d - 1 if up else b)) // d

    return index if place(0) >= 0 and place(target - 1) < extent else _bound(index, extent)


def _cubic(t: Any, a: float) -> list[Any]:
    """Weights of the four neighbours at distance 1 + t, t, 1 - t, 2 - t."""

    def c(v: float) -> Any:
        return tir.const(v, "float32")

    def near(d: Any) -> Any:
        return ((c(a + 2) * d - c(a + 3)) * d) * d + c(1)

    def far(d: Any) -> Any:
        return ((c(a) * d - c(5 * a)) * d + c(8 * a)) * d - c(4 * a)

    return [far(t + c(1)), near(t), near(c(1) - t), far(c(2) - t)]


def _taps(
    o: Any, extent: int, target: int, mode: str, method: str, alpha: float, exclude: bool
) -> list[tuple[Any, Any]]:
    """(index, weight) of the input places that output place o reads; no weight for the only one."""
    x = _source(o, extent, target, mode)
    base = tir.floor(x)
    t = x - base
    first = to(base, "int32")
    if method == "linear":
        return [(_bound(first, extent), tir.const(1.0, "float32") - t), (_bound(first + 1, extent), t)]
    weights = _cubic(t, alpha)
    if exclude:
        zero = tir.const(0.0, "float32")
        weights = [
            tir.Select(tir.all(first + k - 1 >= 0, first + k - 1 < extent), w, zero) for k, w in enumerate(weights)
        ]
        total = weights[0] + weights[1] + weights[2] + weights[3]
        weights = [w / total for w in weights]
    return [(_bound(first + k - 1, extent), w) for k, w in enumerate(weights)]


def resize2d(
    data: te.Tensor,
    roi: Sequence[float] | None,
    size: Sequence[int],
    layout: str = "NCHW",
    method: str = "linear",
    coordinate_transformation_mode: str = "half_pixel",
    rounding_method: str = "",
    bicubic_alpha: float = -0.5,
    bicubic_exclude: int = 0,
    extrapolation_value: float = 0.0,
    out_dtype: str | None = None,
    output_shape: Any = None,
) -> te.Tensor:
    """data resized to `size` (height, width): nearest_neighbor, linear or cubic. Input extents must be known."""
    axes = spatial_axes(layout)
    shape = shape_of(data)
    extents = [get_const_int(shape[a]) for a in axes]
    target = [get_const_int(s) for s in size]
    out: list[Dim] = list(shape)
    for a, s in zip(axes, target, strict=True):
        out[a] = s
    dtype = out_dtype or data.dtype
    mode = coordinate_transformation_mode
    if method == "nearest_neighbor":
        rounding = rounding_method or ("round" if mode == "align_corners" else "floor")

        def pick(*i: Any) -> Any:
            index = list(i)
            for j, a in enumerate(axes):
                index[a] = _nearest(i[a], extents[j], target[j], mode, rounding)
            v = data(*index)
            return v if v.dtype == dtype else to(v, dtype)

        return compute(out, pick, name="resize", tag=tag.INJECTIVE)
    if method not in ("linear", "cubic"):
        raise ValueError(f'method must be "nearest_neighbor", "linear" or "cubic", but is {method!r}')

    def blend(*i: Any) -> Any:
        ways = [
            _taps(i[a], extents[j], target[j], mode, method, bicubic_alpha, bool(bicubic_exclude))
            for j, a in enumerate(axes)
        ]
        total: Any = None
        for y, wy in ways[0]:
            row: Any = None
            for x, wx in ways[1]:
                index = list(i)
                index[axes[0]], index[axes[1]] = y, x
                v = data(*index)
                v = (v if v.dtype == "float32" else to(v, "float32")) * wx
                row = v if row is None else row + v
            total = row * wy if total is None else total + row * wy
        return total if dtype == "float32" else to(total, dtype)

    return compute(out, blend, name="resize", tag=tag.INJECTIVE)
