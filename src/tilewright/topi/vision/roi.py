"""Pooling over regions of interest."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from tilewright import te
from tilewright.topi.indexing import data_index
from tilewright.topi.lang import compute, tir
from tilewright.topi.loops import local, loop_kind, program
from tilewright.topi.utils import pair, shape_of, to

if TYPE_CHECKING:
    from tilewright.ir import PrimExpr
    from tilewright.tir.expr import Var
    from tilewright.tir.ir_builder import BufferVar, IRBuilder


CORNERS = 4
"""Elements that a sample between them is computed of."""
FAR = float(1 << 22)
"""The greatest distance of a corner from the first element; corners are clipped to it. Up to there float32 distinguishes samples."""


def _image(number: PrimExpr, data: te.Tensor, layout: str = "NCHW") -> PrimExpr:
    """The number of a region's image, clipped to the images of `data`."""
    return data_index(to(number, "int32"), shape_of(data)[layout.index("N")], "clip")


def _sample(
    load: Any, y: PrimExpr, x: PrimExpr, height: Any, width: Any, dtype: str, largest: bool = False
) -> PrimExpr:
    """The bilinear interpolation at a position, or the `largest` of its four terms; zero more than one element outside of the image."""

    def c(v: float) -> Any:
        return tir.const(v, dtype)

    last_y, last_x = to(height, dtype) - c(1), to(width, dtype) - c(1)
    outside = tir.any(y < c(-1), x < c(-1), y > last_y + c(1), x > last_x + c(1))
    y, x = tir.min(tir.max(y, c(0)), last_y), tir.min(tir.max(x, c(0)), last_x)
    low_y, low_x = to(tir.floor(y), "int32"), to(tir.floor(x), "int32")
    high_y, high_x = tir.min(low_y + 1, to(height, "int32") - 1), tir.min(low_x + 1, to(width, "int32") - 1)
    ty, tx = y - to(low_y, dtype), x - to(low_x, dtype)
    terms = [
        load(low_y, low_x) * (c(1) - ty) * (c(1) - tx),
        load(low_y, high_x) * (c(1) - ty) * tx,
        load(high_y, low_x) * ty * (c(1) - tx),
        load(high_y, high_x) * ty * tx,
    ]
    value = terms[0]
    for t in terms[1:]:
        value = tir.max(value, t) if largest else value + t
    return tir.Select(outside, c(0), value)


class _Align(NamedTuple):
    """The arguments of roi_align, with derived values."""

    data: te.Tensor
    rois: te.Tensor
    pooled: tuple[int, int]
    spatial_scale: float
    mode: str
    sample_ratio: int
    layout: str
    aligned: bool

    @property
    def shape(self) -> dict[str, Any]:
        """The extents of the data by axis."""
        return dict(zip(self.layout, shape_of(self.data), strict=True))

    @property
    def out(self) -> list[Any]:
        """The extents of the result."""
        height, width = self.pooled
        found = {"N": shape_of(self.rois)[0], "C": self.shape["C"], "H": height, "W": width}
        return [found[a] for a in self.layout]

    def region(self, r: Var, load: Any) -> tuple[PrimExpr, PrimExpr, PrimExpr, PrimExpr]:
        """(begin y, begin x, height and width of a bin) of region r."""
        dtype = self.data.dtype
        scale = tir.const(self.spatial_scale, dtype)
        highest: Any = tir.max_value(dtype)
        far = tir.const(min(FAR, highest.value), dtype)
        x0, y0, x1, y1 = [tir.min(tir.max(to(load(r, k), dtype) * scale, -far), far) for k in range(1, 5)]
        height, width = y1 - y0, x1 - x0
        if self.aligned:
            half = tir.const(0.5, dtype)
            x0, y0 = x0 - half, y0 - half
        else:
            one = tir.const(1, dtype)
            height, width = tir.max(height, one), tir.max(width, one)
        return y0, x0, height / tir.const(self.pooled[0], dtype), width / tir.const(self.pooled[1], dtype)

    def inside(self, begin: PrimExpr, bin: Var, n: Var, o: Var, size: Any) -> tuple[PrimExpr, PrimExpr]:
        """(first, end) of the samples of bin o that may be in the image, if the bin's length decides their number.

        The bounds allow for the rounding of positions, by some units in the last place of the region's far end.
        """
        if self.sample_ratio > 0:
            return tir.const(0, "int32"), n
        dtype = self.data.dtype
        first, length = begin + to(o, dtype) * bin, tir.max(bin, tir.const(1, dtype))
        unit = 2.0**-20 if dtype in ("float32", "float64") else 2.0**-5
        slack = tir.const(2, dtype) + (tir.abs(first) + length) * tir.const(unit, dtype)
        ends = [
            tir.min(tir.max(v, tir.const(0, dtype)), to(n, dtype))
            for v in [
                (tir.const(-1, dtype) - first) / length * to(n, dtype) - slack,
                (to(size, dtype) - first) / length * to(n, dtype) + slack,
            ]
        ]
        # A bin of one sample may be shorter than an element, or have a negative length.
        return tir.Select(n > 1, to(ends[0], "int32"), 0), tir.Select(n > 1, to(ends[1], "int32"), n)


def _roi_align(
    data: te.Tensor,
    rois: te.Tensor,
    pooled_size: Any,
    spatial_scale: float,
    mode: str,
    sample_ratio: int,
    layout: str,
    aligned: bool,
) -> te.Tensor:
    mode = mode.decode() if isinstance(mode, bytes) else mode
    if mode not in ("avg", "max", "max_term"):
        raise ValueError(f'roi_align: mode must be "avg", "max" or "max_term", but is {mode!r}')
    p = _Align(data, rois, pair(pooled_size), spatial_scale, mode, sample_ratio, layout, aligned)
    return _mean_of_samples(p) if sample_ratio > 0 and mode == "avg" else _by_program(p)


def _mean_of_samples(p: _Align) -> te.Tensor:
    """The mean of a fixed number of samples in each bin."""
    data, layout, shape, sample_ratio, dtype = p.data, p.layout, p.shape, p.sample_ratio, p.data.dtype
    ry, rx = te.reduce_axis((0, sample_ratio), name="ry"), te.reduce_axis((0, sample_ratio), name="rx")

    def element(*i: Var) -> Any:
        at = dict(zip(layout, i, strict=True))
        y0, x0, bh, bw = p.region(at["N"], p.rois)
        image = _image(p.rois(at["N"], 0), data, layout)

        def load(y: PrimExpr, x: PrimExpr) -> PrimExpr:
            index = {"N": image, "C": at["C"], "H": y, "W": x}
            return data(*[index[a] for a in layout])

        share, half = tir.const(1.0 / sample_ratio, dtype), tir.const(0.5, dtype)
        y = y0 + (to(at["H"], dtype) + (to(ry.var, dtype) + half) * share) * bh
        x = x0 + (to(at["W"], dtype) + (to(rx.var, dtype) + half) * share) * bw
        value = _sample(load, y, x, shape["H"], shape["W"], dtype)
        return te.sum(value * tir.const(1.0 / sample_ratio**2, dtype), axis=[ry, rx])

    return compute(p.out, element, name="roi_align", tag="roi_align")


def _by_program(p: _Align) -> te.Tensor:
    """The mean, or the largest, of samples whose number may depend on the length of the bin. Samples outside of the image are skipped."""
    data, layout, shape, sample_ratio, dtype = p.data, p.layout, p.shape, p.sample_ratio, p.data.dtype
    average = p.mode == "avg"

    def body(ib: IRBuilder, x: BufferVar, roi: BufferVar, result: BufferVar) -> None:
        with ib.for_range(
            0, shape_of(p.rois)[0], "r", kind=loop_kind(*p.out, CORNERS * max(sample_ratio, 1) ** 2)
        ) as r:
            y0, x0, bh, bw = [
                ib.let(n, v) for n, v in zip(("y0", "x0", "bh", "bw"), p.region(r, lambda a, k: roi[a, k]), strict=True)
            ]
            image = ib.let("image", _image(roi[r, 0], data, layout))
            # One sample for each element of a bin.
            ny, nx = [
                ib.let(
                    n, tir.const(sample_ratio, "int32") if sample_ratio > 0 else tir.max(to(tir.ceil(b), "int32"), 1)
                )
                for n, b in (("ny", bh), ("nx", bw))
            ]
            with (
                ib.for_range(0, shape["C"], "c") as c,
                ib.for_range(0, p.pooled[0], "oy") as oy,
                ib.for_range(0, p.pooled[1], "ox") as ox,
            ):
                (y_first, y_end), (x_first, x_end) = [
                    [ib.let(f"{a}_{k}", v) for k, v in zip(("first", "end"), p.inside(*of), strict=True)]
                    for a, of in (("y", (y0, bh, ny, oy, shape["H"])), ("x", (x0, bw, nx, ox, shape["W"])))
                ]
                every = tir.all(y_first.equal(0), x_first.equal(0), y_end.equal(ny), x_end.equal(nx))
                # Skipped samples count as zeros.
                least = tir.Select(every, tir.min_value(dtype), tir.const(0, dtype))
                total = local(ib, dtype, 0 if average else least, "total")

                def load(y: PrimExpr, z: PrimExpr) -> PrimExpr:
                    index = {"N": image, "C": c, "H": y, "W": z}
                    return x[tuple([index[a] for a in layout])]

                with ib.for_range(y_first, y_end, "sy") as sy, ib.for_range(x_first, x_end, "sx") as sx:
                    half = tir.const(0.5, dtype)
                    y = y0 + (to(oy, dtype) + (to(sy, dtype) + half) / to(ny, dtype)) * bh
                    z = x0 + (to(ox, dtype) + (to(sx, dtype) + half) / to(nx, dtype)) * bw
                    value = _sample(load, y, z, shape["H"], shape["W"], dtype, p.mode == "max_term")
                    total[0] = total[0] + value if average else tir.max(total[0], value)
                place = {"N": r, "C": c, "H": oy, "W": ox}
                result[tuple([place[a] for a in layout])] = (
                    total[0] / (to(ny, dtype) * to(nx, dtype)) if average else total[0]
                )

    return program([p.out], [dtype], [data, p.rois], body, "roi_align")[0]


def roi_align_nchw(
    data: te.Tensor,
    rois: te.Tensor,
    pooled_size: Any,
    spatial_scale: float,
    mode: str,
    sample_ratio: int = -1,
    aligned: bool = False,
) -> te.Tensor:
    """The mean ("avg") or maximum ("max") of bilinear samples in each bin of each region, or the largest of the four terms of a
    bilinear sample ("max_term").

    data: (N, C, H, W). rois: (regions, 5), the image number, then x, y of two corners, which are multiplied by `spatial_scale`.
    sample_ratio: samples along each axis of a bin; -1: one for each element. aligned: elements are centred at half-integer
    coordinates, and regions may be smaller than an element.
    """
    return _roi_align(data, rois, pooled_size, spatial_scale, mode, sample_ratio, "NCHW", aligned)


def roi_align_nhwc(
    data: te.Tensor,
    rois: te.Tensor,
    pooled_size: Any,
    spatial_scale: float,
    mode: str,
    sample_ratio: int = -1,
    aligned: bool = False,
) -> te.Tensor:
    """Like roi_align_nchw, for data (N, H, W, C)."""
    return _roi_align(data, rois, pooled_size, spatial_scale, mode, sample_ratio, "NHWC", aligned)


def roi_pool_nchw(data: te.Tensor, rois: te.Tensor, pooled_size: Any, spatial_scale: float) -> te.Tensor:
    """The maximum in each bin of each region, whose corners are rounded to elements. Empty bins are zero."""
    _, channels, height, width = shape_of(data)
    count = shape_of(rois)[0]
    ph, pw = pair(pooled_size)
    dtype = data.dtype

    def body(ib: IRBuilder, x: BufferVar, roi: BufferVar, out: BufferVar) -> None:
        def rounded(v: PrimExpr) -> Any:
            return to(tir.round(to(v, dtype) * tir.const(spatial_scale, dtype)), "int32")

        def bins(o: Var, size: Var, n: int, begin: Var, extent: Any) -> tuple[PrimExpr, PrimExpr]:
            each = to(size, dtype) / tir.const(n, dtype)
            low = to(tir.floor(to(o, dtype) * each), "int32") + begin
            high = to(tir.ceil(to(o + 1, dtype) * each), "int32") + begin
            most = to(extent, "int32")
            return tir.min(tir.max(low, 0), most), tir.min(tir.max(high, 0), most)

        with ib.for_range(0, count, "r", kind=loop_kind(count, channels, height, width)) as r:
            image = ib.let("image", _image(roi[r, 0], data))
            x0, y0, x1, y1 = [ib.let(f"p{k}", rounded(roi[r, k])) for k in range(1, 5)]
            rows, columns = ib.let("rows", tir.max(y1 - y0 + 1, 1)), ib.let("columns", tir.max(x1 - x0 + 1, 1))
            with ib.for_range(0, channels, "c") as c, ib.for_range(0, ph, "oy") as oy, ib.for_range(0, pw, "ox") as ox:
                low_y, high_y = bins(oy, rows, ph, y0, height)
                low_x, high_x = bins(ox, columns, pw, x0, width)
                empty = tir.Or(high_y <= low_y, high_x <= low_x)
                best = local(ib, dtype, tir.Select(empty, tir.const(0, dtype), tir.min_value(dtype)), "best")
                with (
                    ib.for_range(low_y, tir.max(low_y, high_y), "y") as y,
                    ib.for_range(low_x, tir.max(low_x, high_x), "x") as z,
                ):
                    best[0] = tir.max(best[0], x[image, c, y, z])
                out[r, c, oy, ox] = best[0]

    return program([[count, channels, ph, pw]], [dtype], [data, rois], body, "roi_pool")[0]
