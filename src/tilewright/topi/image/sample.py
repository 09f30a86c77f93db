"""Computes that sample images at computed positions (crops, grids), and morphological dilation."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from typing import TYPE_CHECKING, Any

from tilewright import te
from tilewright.topi import tag
from tilewright.topi.indexing import data_index
from tilewright.topi.lang import compute, tir
from tilewright.topi.nn.pad import pad
from tilewright.topi.transform import spatial_axes
from tilewright.topi.utils import Dim, get_const_int, get_pad_tuple, pair, shape_of, to, window_extent

if TYPE_CHECKING:
    from tilewright.ir import PrimExpr
    from tilewright.tir.expr import Var


def crop_and_resize(
    data: te.Tensor,
    boxes: te.Tensor,
    box_indices: te.Tensor,
    crop_size: Sequence[int],
    layout: str = "NCHW",
    method: str = "bilinear",
    extrapolation_value: float | None = None,
    out_dtype: str | None = None,
) -> te.Tensor:
    """Crops each box (y1, x1, y2, x2, as fractions of the extents) from image box_indices[b], and resizes it to `crop_size`.
    Positions outside the image get `extrapolation_value`. Image numbers out of bounds are clipped."""
    if method not in ("bilinear", "nearest_neighbor"):
        raise ValueError(f'crop_and_resize: method must be "bilinear" or "nearest_neighbor", but is {method!r}')
    axes = spatial_axes(layout)
    shape = shape_of(data)
    dtype = out_dtype or data.dtype
    real = "float64" if data.dtype == "float64" else "float32"
    out = list(shape)
    out[0] = shape_of(boxes)[0]
    for a, s in zip(axes, crop_size, strict=True):
        out[a] = s

    def element(*i: PrimExpr) -> Any:
        box = i[0]
        image = data_index(box_indices(box), shape[0], "clip")
        ways, tests = [], []
        for j, a in enumerate(axes):
            low, high = to(boxes(box, j), real), to(boxes(box, 2 + j), real)
            whole = to(shape[a] - 1, real)
            if crop_size[j] > 1:
                place = low * whole + to(i[a], real) * ((high - low) * whole / tir.const(crop_size[j] - 1, real))
            else:
                place = (low + high) * whole * tir.const(0.5, real)
            tests += [place >= 0, place <= whole]
            if method == "nearest_neighbor":
                at = to(tir.floor(place + tir.const(0.5, real)), "int32")
                ways.append([(_clip(at, shape[a]), None)])
            else:
                base = tir.floor(place)
                at, t = to(base, "int32"), place - base
                ways.append([(_clip(at, shape[a]), 1.0 - t), (_clip(at + 1, shape[a]), t)])
        total: Any = None
        for (y, wy), (x, wx) in product(*ways):
            index = list(i)
            index[0], index[axes[0]], index[axes[1]] = image, y, x
            value = to(data(*index), real)
            value = value if wy is None else value * wy * wx
            total = value if total is None else total + value
        outside = tir.const(extrapolation_value or 0.0, dtype)
        return tir.Select(tir.all(*tests), to(total, dtype), outside)

    return compute(out, element, name="crop_and_resize", tag=tag.INJECTIVE)


def _clip(index: PrimExpr, extent: Dim) -> Any:
    return tir.max(tir.min(index, to(extent, index.dtype) - 1), 0)


def affine_grid(data: te.Tensor, target_shape: Sequence[int]) -> te.Tensor:
    """The positions (x, y) or (x, y, z) to which each affine map (batch, dims, dims + 1) sends the regular grid of `target_shape`
    over [-1, 1]: (batch, dims, *target_shape)."""
    batch, dims, _ = shape_of(data)
    n = get_const_int(dims)
    sizes = [get_const_int(s) for s in target_shape]

    def element(b: PrimExpr, d: PrimExpr, *i: Var) -> Any:
        total = data(b, d, n)
        for k in range(n):
            # The last axis is x.
            p, s = i[n - 1 - k], sizes[n - 1 - k]
            at = to(p, data.dtype) * tir.const(2.0 / (s - 1) if s > 1 else 0.0, data.dtype) - tir.const(1.0, data.dtype)
            total = total + data(b, d, k) * at
        return total

    return compute([batch, n, *sizes], element, name="affine_grid", tag=tag.INJECTIVE)


def grid_sample(
    data: te.Tensor,
    grid: te.Tensor,
    method: str = "bilinear",
    layout: str = "NCHW",
    padding_mode: str = "zeros",
    align_corners: bool = True,
) -> te.Tensor:
    """Samples data at the positions `grid` (batch, dims, out...), whose channels are x, y (and z) over [-1, 1]. method: nearest,
    bilinear or bicubic. padding_mode: the value outside the data, one of zeros, border, reflection."""
    if method not in ("nearest", "bilinear", "bicubic") or padding_mode not in ("zeros", "border", "reflection"):
        raise ValueError(
            f"grid_sample: method must be nearest, bilinear or bicubic and padding_mode zeros, border or reflection, but they are"
            f" {method!r} and {padding_mode!r}"
        )
    if layout not in ("NCHW", "NCDHW"):
        raise ValueError(f"grid_sample: layout must be NCHW or NCDHW, but is {layout}")
    batch, channels, *extents = shape_of(data)
    n = len(extents)
    out = shape_of(grid)[2:]

    def c(v: float) -> Any:
        return tir.const(v, data.dtype)

    def unnormalized(b: Var, axis: int, at: Sequence[Var]) -> Any:
        g = grid(b, n - 1 - axis, *at)
        size = to(extents[axis], data.dtype)
        if align_corners:
            return (g + c(1)) * (size - c(1)) / c(2)
        return ((g + c(1)) * size - c(1)) / c(2)

    def reflected(x: PrimExpr, axis: int) -> PrimExpr:
        size = to(extents[axis], data.dtype)
        # Reflection at the centres of the corner elements, or at their outer edges.
        low, span = (c(0), size - c(1)) if align_corners else (c(-0.5), size)
        span = tir.max(span, c(1e-6))
        away = tir.abs(x - low)
        turns = tir.floor(away / span)
        rest = away - turns * span
        even = tir.EQ(turns - c(2) * tir.floor(turns / c(2)), c(0))
        back = tir.Select(even, rest + low, span - rest + low)
        return tir.max(tir.min(back, size - c(1)), c(0))

    def padded_place(x: PrimExpr, axis: int) -> Any:
        size = to(extents[axis], data.dtype)
        if padding_mode == "border":
            return tir.max(tir.min(x, size - c(1)), c(0))
        return reflected(x, axis) if padding_mode == "reflection" else x

    def load(b: Var, ch: Var, places: Sequence[PrimExpr]) -> PrimExpr:
        safe = [_clip(p, e) for p, e in zip(places, extents, strict=True)]
        value = data(b, ch, *safe)
        if padding_mode != "zeros":
            return value
        inside = [t for p, e in zip(places, extents, strict=True) for t in (p >= 0, p < to(e, p.dtype))]
        return tir.Select(tir.all(*inside), value, c(0))

    def element(b: Var, ch: Var, *at: Var) -> Any:
        ways: list[list[tuple[Any, Any]]] = []
        for axis in range(n):
            x = unnormalized(b, axis, at)
            if method == "bicubic":
                base = tir.floor(x)
                t = x - base
                first = to(base, "int32")
                weights = _cubic_weights(t, c)
                neighbours = []
                for k, w in enumerate(weights):
                    place = first + (k - 1)
                    if padding_mode != "zeros":
                        place = to(padded_place(to(place, data.dtype), axis), "int32")
                    neighbours.append((place, w))
                ways.append(neighbours)
                continue
            x = padded_place(x, axis)
            if method == "nearest":
                ways.append([(to(tir.nearbyint(x), "int32"), None)])
            else:
                base = tir.floor(x)
                first = to(base, "int32")
                ways.append([(first, c(1) - (x - base)), (first + 1, x - base)])
        total: Any = None
        for combination in product(*ways):
            value = load(b, ch, [p for p, _ in combination])
            for _, w in combination:
                value = value if w is None else value * w
            total = value if total is None else total + value
        return total

    return compute([batch, channels, *out], element, name="grid_sample", tag=tag.INJECTIVE)


def _cubic_weights(t: PrimExpr, c: Any) -> list[PrimExpr]:
    """Weights of the neighbours at distance 1 + t, t, 1 - t, 2 - t, with alpha = -0.75 as in PyTorch."""
    a = -0.75

    def near(d: PrimExpr) -> Any:
        return ((c(a + 2) * d - c(a + 3)) * d) * d + c(1)

    def far(d: PrimExpr) -> Any:
        return ((c(a) * d - c(5 * a)) * d + c(8 * a)) * d - c(4 * a)

    return [far(t + c(1)), near(t), near(c(1) - t), far(c(2) - t)]


def dilation2d(
    input: te.Tensor,
    filter: te.Tensor,
    stride: Any,
    padding: Any,
    dilations: Any,
    data_layout: str = "NCHW",
    out_dtype: str | None = None,
) -> te.Tensor:
    """Grey-scale dilation: the maximum of input + filter over each window. Filters are (C, KH, KW), or (KH, KW, C) for NHWC."""
    axes = spatial_axes(data_layout)
    channel = data_layout.index("C")
    first = data_layout == "NCHW"
    shape = shape_of(input)
    kh, kw = [get_const_int(d) for d in (filter.shape[1:] if first else filter.shape[:2])]
    (sh, sw), (dh, dw) = pair(stride), pair(dilations)
    before, after = get_pad_tuple(padding, [(kh - 1) * dh + 1, (kw - 1) * dw + 1])
    widths_before, widths_after = [0] * 4, [0] * 4
    for j, a in enumerate(axes):
        widths_before[a], widths_after[a] = before[j], after[j]
    padded = pad(input, widths_before, widths_after, tir.min_value(input.dtype), name="pad_temp")
    out = list(shape)
    for j, (a, k, s, d) in enumerate(zip(axes, (kh, kw), (sh, sw), (dh, dw), strict=True)):
        out[a] = window_extent(shape[a], k, before[j], after[j], s, d)
    ry, rx = te.reduce_axis((0, kh), name="ry"), te.reduce_axis((0, kw), name="rx")
    dtype = out_dtype or input.dtype

    def element(*i: PrimExpr) -> Any:
        index = list(i)
        index[axes[0]], index[axes[1]] = i[axes[0]] * sh + ry.var * dh, i[axes[1]] * sw + rx.var * dw
        ch = i[channel]
        weight = filter(ch, ry.var, rx.var) if first else filter(ry.var, rx.var, ch)
        return te.max(to(padded(*index), dtype) + to(weight, dtype), axis=[ry, rx])

    return compute(out, element, name="dilation2d", tag="dilation2d")


def dilation2d_nchw(
    input: te.Tensor, filter: te.Tensor, stride: Any, padding: Any, dilations: Any, out_dtype: str | None = None
) -> te.Tensor:
    """`dilation2d` of images (N, C, H, W) by filters (C, KH, KW)."""
    return dilation2d(input, filter, stride, padding, dilations, "NCHW", out_dtype)


def dilation2d_nhwc(
    input: te.Tensor, filter: te.Tensor, stride: Any, padding: Any, dilations: Any, out_dtype: str | None = None
) -> te.Tensor:
    """`dilation2d` of images (N, H, W, C) by filters (KH, KW, C)."""
    return dilation2d(input, filter, stride, padding, dilations, "NHWC", out_dtype)
