"""Resizing of images over H and W."""

from __future__ import annotations

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


def _nearest(o: Any, extent: int, target: int, mode: str, rounding: str) -> Any:
    # Whole factors need no floating point at all: integer indices vectorise and cannot round wrongly.
    if target % extent == 0 and mode == "asymmetric" and rounding == "floor":
        factor = target // extent
        return o if factor == 1 else tir.floordiv(o, factor)
    if extent == target and mode != "tf_half_pixel_for_nn":
        return o
    x = _source(o, extent, target, mode)
    half = tir.const(0.5, "float32")
    if rounding == "floor":
        x = tir.floor(x)
    elif rounding == "ceil":
        x = tir.ceil(x)
    elif rounding == "round_prefer_ceil":
        x = tir.floor(x + half)
    elif rounding in ("round", "round_prefer_floor"):
        x = tir.ceil(x - half)
    else:
        raise ValueError(
            f"rounding_method must be floor, ceil, round, round_prefer_floor or round_prefer_ceil, but is {rounding!r}"
        )
    return _bound(to(x, "int32"), extent)


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
