"""Resizing over one, two or three spatial axes, whose extents may be dynamic."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from tilewright import te
from tilewright.ir import FloatImm
from tilewright.topi import tag
from tilewright.topi.classic_modules import elsewhere
from tilewright.topi.lang import compute, tir
from tilewright.topi.stages import MATERIALIZE
from tilewright.topi.transform import spatial_axes
from tilewright.topi.utils import Dim, as_int, prod, shape_of, to

if TYPE_CHECKING:
    from tilewright.ir import PrimExpr
    from tilewright.tir.expr import Var

__getattr__, __dir__ = elsewhere(__name__)


COORDINATES = (
    "half_pixel",
    "align_corners",
    "asymmetric",
    "pytorch_half_pixel",
    "tf_half_pixel_for_nn",
    "tf_crop_and_resize",
)


def _ratio(a: Dim, b: Dim) -> Any:
    """a / b as float32."""
    if isinstance(a, int) and isinstance(b, int):
        return tir.const(a / b, "float32")
    return to(a, "float32") / to(b, "float32")


def _only(target: Dim, one: PrimExpr, other: PrimExpr) -> PrimExpr:
    """`one` if the target extent is 1, else `other`."""
    if isinstance(target, int):
        return one if target == 1 else other
    return tir.Select(tir.EQ(target, tir.const(1, target.dtype)), one, other)


def source_place(o: PrimExpr, extent: Dim, target: Dim, mode: str, start: float = 0.0, end: float = 1.0) -> Any:
    """The position in the input (float32) of output position o. start, end: the part for tf_crop_and_resize."""
    x = to(o, "float32")
    half = tir.const(0.5, "float32")
    if mode == "align_corners":
        last = max(target - 1, 1) if isinstance(target, int) else tir.max(target - 1, tir.const(1, target.dtype))
        return _only(target, tir.const(0.0, "float32"), x * _ratio(extent - 1, last))
    if mode == "tf_crop_and_resize":
        whole = to(extent - 1, "float32")
        last = max(target - 1, 1) if isinstance(target, int) else tir.max(target - 1, tir.const(1, target.dtype))
        first = whole * tir.const(start, "float32")
        step = whole * tir.const(end - start, "float32") / to(last, "float32")
        return _only(target, whole * tir.const((start + end) / 2, "float32"), first + x * step)
    scale = _ratio(extent, target)
    if mode == "asymmetric":
        return x * scale
    if mode == "tf_half_pixel_for_nn":
        return (x + half) * scale
    if mode == "half_pixel":
        return (x + half) * scale - half
    if mode == "pytorch_half_pixel":
        return _only(target, tir.const(0.0, "float32"), (x + half) * scale - half)
    raise ValueError(f"coordinate_transformation_mode must be one of {', '.join(COORDINATES)}, but is {mode!r}")


def _bound(index: PrimExpr, extent: Dim) -> PrimExpr:
    return tir.max(tir.min(index, extent - 1), 0)


def nearest_ratio(extent: int, target: int, mode: str, rounding: str) -> tuple[int, int, int, bool]:
    """(m, b, d, up): output position o reads input position (o * m + b) / d, rounded down or up.

    Integer arithmetic makes ties exact on every processor.
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
        raise ValueError(f"coordinate_transformation_mode must be one of {', '.join(COORDINATES)}, but is {mode!r}")
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


def _nearest(o: PrimExpr, extent: Dim, target: Dim, mode: str, rounding: str) -> PrimExpr:
    if not isinstance(extent, int) or not isinstance(target, int):
        return _bound(_nearest_of_sizes(o, extent, target, mode, rounding), extent)
    m, b, d, up = nearest_ratio(extent, target, mode, rounding)
    # Rounding up is rounding down after adding d - 1.
    number = o * m + (b + d - 1 if up else b)
    index = number if d == 1 else tir.floordiv(number, d)

    def place(i: int) -> int:
        return (i * m + (b + d - 1 if up else b)) // d

    return index if place(0) >= 0 and place(target - 1) < extent else _bound(index, extent)


def _nearest_of_sizes(o: Any, extent: Dim, target: Dim, mode: str, rounding: str) -> Any:
    """The input position that output position o reads, for dynamic sizes."""
    nearest_ratio(1, 1, mode, rounding)  # refuses unknown modes
    extent, target = to(extent, "int64"), to(target, "int64")
    m, b, d = 2 * extent, tir.const(0, "int64"), 2 * target
    if mode == "align_corners":
        m, d = 2 * (extent - 1), 2 * tir.max(target - 1, tir.const(1, target.dtype))
    elif mode == "tf_half_pixel_for_nn":
        b = extent
    elif mode in ("half_pixel", "pytorch_half_pixel"):
        b = extent - target
        if mode == "pytorch_half_pixel":
            m, b = _only(target, b * 0, m), _only(target, b * 0, b)
    half = tir.floordiv(d, 2)
    shift = {"floor": 0, "ceil": d - 1, "round_prefer_ceil": half}.get(rounding, d - 1 - half)
    return tir.floordiv(to(o, "int64") * m + b + shift, d)


def _cubic(t: PrimExpr, a: float) -> list[PrimExpr]:
    """Weights of the four neighbours at distance 1 + t, t, 1 - t, 2 - t."""

    def c(v: float) -> Any:
        return tir.const(v, "float32")

    def near(d: PrimExpr) -> Any:
        return ((c(a + 2) * d - c(a + 3)) * d) * d + c(1)

    def far(d: PrimExpr) -> Any:
        return ((c(a) * d - c(5 * a)) * d + c(8 * a)) * d - c(4 * a)

    return [far(t + c(1)), near(t), near(c(1) - t), far(c(2) - t)]


class _Place(NamedTuple):
    """A position in the input: the element before it, the distance from there, and the range of that element, where it is known."""

    element: PrimExpr
    distance: PrimExpr
    within: tuple[int, int] | None = None

    def neighbour(self, k: int, extent: Dim) -> PrimExpr:
        """The element k further, or the nearest one of the data."""
        element = self.element + k
        if self.within is not None and isinstance(extent, int):
            first, last = self.within
            if first + k >= 0 and last + k < extent:
                return element
        return _bound(element, extent)


def _whole_steps(o: PrimExpr, extent: Dim, target: Dim, mode: str) -> _Place | None:
    """The position in the input of output position o, where neighbouring ones are whole elements apart: the distance is the same
    everywhere. None where they are not. float32 gives the same positions exactly."""
    if not isinstance(extent, int) or not isinstance(target, int) or mode == "tf_crop_and_resize":
        return None
    m, b, d, _ = nearest_ratio(extent, target, mode, "floor")
    if m % d:
        return None
    step, (first, rest) = m // d, divmod(b, d)
    return _Place(o * step + first, tir.const(rest / d, "float32"), (first, (target - 1) * step + first))


def _neighbours(x: _Place, extent: Dim, method: str, alpha: float, exclude: bool) -> list[tuple[PrimExpr, PrimExpr]]:
    """(index, weight) of the neighbours of a position, the input elements that are read for it."""
    first, t = x.element, x.distance
    if method == "linear":
        near = (x.neighbour(0, extent), tir.const(1.0, "float32") - t)
        return [near] if isinstance(t, FloatImm) and t.value == 0 else [near, (x.neighbour(1, extent), t)]
    weights = _cubic(t, alpha)
    if exclude:
        zero = tir.const(0.0, "float32")
        weights = [
            tir.Select(tir.all(first + k - 1 >= 0, first + k - 1 < extent), w, zero) for k, w in enumerate(weights)
        ]
        total = weights[0] + weights[1] + weights[2] + weights[3]
        weights = [w / total for w in weights]
    return [(x.neighbour(k - 1, extent), w) for k, w in enumerate(weights)]


def _stages(shape: Sequence[Dim], target: Sequence[Dim], axes: Sequence[int]) -> tuple[list[int], list[int]]:
    """(the axes to blend first, the axes to blend after that). Blending along the last dimension picks single elements, along others whole
    rows, so they are separate stages; the one that leaves fewer elements comes first."""
    every = list(range(len(axes)))
    *rest, last = sorted(every, key=lambda j: axes[j])
    if not rest or axes[last] != len(shape) - 1:
        return [], every
    sizes = [(shape[axes[j]], target[j]) for j in rest]
    if not all([isinstance(d, int) for pair in sizes for d in pair]):
        return [], every
    shrinks = prod([a for a, _ in sizes]) > prod([b for _, b in sizes])
    return (rest, [last]) if shrinks else ([last], rest)


def resize_nd(
    data: te.Tensor,
    roi: Sequence[float] | None,
    size: Sequence[Dim],
    axes: Sequence[int],
    method: str,
    mode: str,
    rounding_method: str,
    alpha: float,
    exclude: bool,
    extrapolation_value: float,
    out_dtype: str | None,
) -> te.Tensor:
    """Resizes `axes` to `size`. `roi` is (starts..., ends...) as fractions of the extents, for tf_crop_and_resize."""
    shape = shape_of(data)
    target = [as_int(s) for s in size]
    n = len(axes)
    out: list[Dim] = list(shape)
    for a, s in zip(axes, target, strict=True):
        out[a] = s
    dtype = out_dtype or data.dtype
    crop = mode == "tf_crop_and_resize"
    bounds = list(roi) if roi else [0.0] * n + [1.0] * n
    rounding = rounding_method or ("round" if mode == "align_corners" else "floor")
    if method not in ("nearest_neighbor", "linear", "cubic"):
        raise ValueError(f'method must be "nearest_neighbor", "linear" or "cubic", but is {method!r}')

    def source(i: Sequence[PrimExpr], j: int) -> Any:
        return source_place(i[axes[j]], shape[axes[j]], target[j], mode, bounds[j], bounds[n + j])

    def place(i: Sequence[PrimExpr], j: int) -> _Place:
        if whole := _whole_steps(i[axes[j]], shape[axes[j]], target[j], mode):
            return whole
        x = source(i, j)
        base = tir.floor(x)
        return _Place(to(base, "int32"), x - base)

    def inside(i: Sequence[PrimExpr], value: PrimExpr) -> PrimExpr:
        """`value`, or the extrapolation value for positions outside of the data."""
        if not crop:
            return value
        places = [source(i, j) for j in range(n)]
        tests = [t for x, a in zip(places, axes, strict=True) for t in (x >= 0, x <= to(shape[a] - 1, "float32"))]
        return tir.Select(tir.all(*tests), value, tir.const(extrapolation_value, dtype))

    def pick(*i: PrimExpr) -> PrimExpr:
        index = list(i)
        for j, a in enumerate(axes):
            if crop:
                place = to(tir.floor(source(i, j) + tir.const(0.5, "float32")), "int32")
                index[a] = _bound(place, shape[a])
            else:
                index[a] = _nearest(i[a], shape[a], target[j], mode, rounding)
        return inside(i, to(data(*index), dtype))

    def blended(source_of: te.Tensor, among: Sequence[int], i: Sequence[Var]) -> Any:
        """The interpolation of a tensor's elements along the axes `among`."""
        ways = {j: _neighbours(place(i, j), shape[axes[j]], method, alpha, exclude) for j in among}

        def along(left: Sequence[int], index: list[PrimExpr]) -> Any:
            if not left:
                return to(source_of(*index), "float32")
            total: Any = None
            for element, weight in ways[left[0]]:
                index[axes[left[0]]] = element
                part = along(left[1:], index) * weight
                total = part if total is None else total + part
            return total

        return along(among, list(i))

    def blend(*i: Var) -> PrimExpr:
        first, second = _stages(shape, target, axes)
        made = data
        if first:
            between = [out[a] if a in [axes[j] for j in first] else d for a, d in enumerate(shape)]
            made = compute(
                between,
                lambda *i: blended(data, first, i),
                name="resize_part",
                tag=tag.INJECTIVE,
                attrs={MATERIALIZE: 1},
            )
        return inside(i, to(blended(made, second, i), dtype))

    return compute(out, pick if method == "nearest_neighbor" else blend, name="resize", tag=tag.INJECTIVE)


def _resizer(letters: str, extents: str) -> Callable[..., te.Tensor]:
    """The resize operator over the spatial axes `letters` of a layout. extents: their names for the docstring."""

    def resize(
        data: te.Tensor,
        roi: Sequence[float] | None,
        size: Sequence[Dim],
        layout: str = f"NC{letters}",
        method: str = "linear",
        coordinate_transformation_mode: str = "half_pixel",
        rounding_method: str = "",
        bicubic_alpha: float = -0.5,
        bicubic_exclude: int = 0,
        extrapolation_value: float = 0.0,
        out_dtype: str | None = None,
        output_shape: Any = None,
    ) -> te.Tensor:
        return resize_nd(
            data, roi, size, spatial_axes(layout, letters), method, coordinate_transformation_mode, rounding_method,
            bicubic_alpha, bool(bicubic_exclude), extrapolation_value, out_dtype,
        )  # fmt: skip

    resize.__name__ = resize.__qualname__ = f"resize{len(letters)}d"
    resize.__doc__ = f"data resized to `size` ({extents}): nearest_neighbor, linear or cubic."
    return resize


resize1d = _resizer("W", "width")
resize2d = _resizer("HW", "height, width")
resize3d = _resizer("DHW", "depth, height, width")
