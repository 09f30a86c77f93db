"""The template of convolutions whose data and weights are packed in the order in which tiles of the result read them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tilewright import te, tir
from tilewright.autotvm.env import GLOBAL_SCOPE
from tilewright.autotvm.task.topi_integration import register_topi_compute, register_topi_schedule
from tilewright.topi.nn.pad import pad
from tilewright.topi.template_stages import TemplateStages, axes_of, extent_of, inner, reduced, shared
from tilewright.topi.utils import get_const_int, get_pad_tuple, moved, pair, shape_of, window_extent

OWN = ("data_pad", "data_vec", "kernel_vec", "conv", "conv2d_tiles")


@register_topi_compute("conv2d_nchw_spatial_pack.arm_cpu")
def conv2d_nchw_spatial_pack(
    cfg: Any,
    data: te.Tensor,
    kernel: te.Tensor,
    strides: int | Sequence[int],
    padding: Any,
    dilation: int | Sequence[int],
    out_dtype: str | None = None,
) -> te.Tensor:
    """Convolution of data (N, C, H, W) with weights (O, C, KH, KW), or with weights that come packed, (O / b, C, KH, KW, b).

    Knobs: tile_co, tile_oh, tile_ow, whose inner extents are a tile of filters, rows and columns; reorder_0, the order of the loops
    around a tile; ann_reduce, the marks of the loops over the window; ann_spatial, those of the loops in a tile.
    """
    n, channels, height, width = (get_const_int(d) for d in shape_of(data))
    filters, _, kh, kw, *block = (get_const_int(d) for d in shape_of(kernel))
    filters *= block[0] if block else 1
    (sh, sw), (dh, dw) = pair(strides), pair(dilation)
    before, after = get_pad_tuple(padding, [(kh - 1) * dh + 1, (kw - 1) * dw + 1])
    rows = get_const_int(window_extent(height, kh, before[0], after[0], sh, dh))
    columns = get_const_int(window_extent(width, kw, before[1], after[1], sw, dw))
    co, vc = cfg.define_split("tile_co", filters, num_outputs=2, filter=lambda e: e.size[-1] <= 16)
    oh, vh = cfg.define_split("tile_oh", rows, num_outputs=2, filter=lambda e: e.size[-1] <= 4)
    ow, vw = cfg.define_split("tile_ow", columns, num_outputs=2, filter=lambda e: e.size[-1] <= 16)
    batch, ci, ky, kx = cfg.axis(n), cfg.reduce_axis(channels), cfg.reduce_axis(kh), cfg.reduce_axis(kw)
    cfg.define_reorder(
        "reorder_0",
        [batch, co, oh, ow, ci, ky, kx, vh, vw, vc],
        policy="candidate",
        candidate=[[batch, co, oh, ow, ci, ky, kx, vh, vw, vc], [batch, co, oh, ow, ky, kx, ci, vh, vw, vc]],
    )
    cfg.define_annotate("ann_reduce", [ky, kx], policy="try_unroll")
    cfg.define_annotate("ann_spatial", [vh, vw, vc], policy="try_unroll_vec")
    if cfg.is_fallback:
        for name, most in (("tile_co", 8), ("tile_oh", 2), ("tile_ow", 8)):
            cfg.fallback_split(name, [-1, most])
    sizes = inner(cfg["tile_co"]), inner(cfg["tile_oh"]), inner(cfg["tile_ow"])
    packed = packed_weights(kernel, sizes[0])
    dtype = out_dtype or data.dtype
    padded = pad(data, [0, 0, *before], [0, 0, *after], name="data_pad")
    tiled = _tiles_of_data(padded, (n, channels), (rows, columns), (sh, sw), (dh, dw), (kh, kw), sizes[1:])
    ic, iy, ix = (te.reduce_axis((0, e), name) for e, name in ((channels, "ci"), (kh, "kh"), (kw, "kw")))

    def element(b: Any, o: Any, y: Any, x: Any, ty: Any, tx: Any, tc: Any) -> Any:
        place = (ty, tx, iy, ix) if dh > 1 or dw > 1 else (moved(ty, sh, iy.var, 1), moved(tx, sw, ix.var, 1))
        return te.sum(
            tiled[b, y, x, ic, *place].astype(dtype) * packed[o, ic, iy, ix, tc].astype(dtype), axis=[ic, iy, ix]
        )

    vc, vh, vw = sizes
    conv = te.compute((n, filters // vc, rows // vh, columns // vw, vh, vw, vc), element, name="conv")
    made: te.Tensor = te.compute(
        (n, filters, rows, columns),
        lambda b, c, y, x: conv[
            b,
            tir.floordiv(c, vc),
            tir.floordiv(y, vh),
            tir.floordiv(x, vw),
            tir.floormod(y, vh),
            tir.floormod(x, vw),
            tir.floormod(c, vc),
        ],
        name="conv2d_tiles",
        tag="spatial_conv2d_output",
    )
    return made


def packed_weights(kernel: te.Tensor, block: int) -> te.Tensor:
    """Weights (O / b, C, KH, KW, b): as they were given, or packed by a stage of the kernel; while a tuner measures, as if they had been
    given so."""
    if len(kernel.shape) == 5:
        return kernel
    filters, channels, kh, kw = (get_const_int(d) for d in shape_of(kernel))
    shape = (filters // block, channels, kh, kw, block)
    if GLOBAL_SCOPE.in_tuning:
        return te.placeholder(shape, kernel.dtype, "kernel_vec")
    return te.compute(shape, lambda o, i, y, x, b: kernel[o * block + b, i, y, x], name="kernel_vec")


def _tiles_of_data(
    padded: te.Tensor,
    outer: tuple[int, int],
    extents: tuple[int, int],
    strides: tuple[int, int],
    dilation: tuple[int, int],
    kernel: tuple[int, int],
    tile: tuple[int, ...],
) -> te.Tensor:
    """Data by tiles: (N, OH / vh, OW / vw, C, rows, columns) that a tile reads; with a dilation, (.., vh, vw, KH, KW)."""
    (n, channels), (rows, columns), (sh, sw), (dh, dw), (kh, kw), (vh, vw) = (
        outer, extents, strides, dilation, kernel, tile,
    )  # fmt: skip
    tiles = (n, rows // vh, columns // vw, channels)
    if dh > 1 or dw > 1:
        return te.compute(
            (*tiles, vh, vw, kh, kw),
            lambda b, y, x, c, ty, tx, ky, kx: padded[b, c, (y * vh + ty) * sh + ky * dh, (x * vw + tx) * sw + kx * dw],
            name="data_vec",
        )
    return te.compute(
        (*tiles, (vh - 1) * sh + kh, (vw - 1) * sw + kw),
        lambda b, y, x, c, r, q: padded[b, c, y * vh * sh + r, x * vw * sw + q],
        name="data_vec",
    )


@register_topi_schedule("conv2d_nchw_spatial_pack.arm_cpu")
def schedule_conv2d_nchw_spatial_pack(cfg: Any, outs: Any) -> te.Schedule:
    """Tiles in registers, over rows of packed data that are shared among threads."""
    stages = TemplateStages(outs, OWN, "conv2d_tiles")
    s, last, made, found = stages.schedule, stages.last, stages.anchor, stages.found
    stages.moved("data_pad", "kernel_vec")
    conv, data = found["conv"], found["data_vec"]
    b, c, y, x = axes_of(s, last)
    co, vc = cfg["tile_co"].apply(s, last, c)
    oh, vh = cfg["tile_oh"].apply(s, last, y)
    ow, vw = cfg["tile_ow"].apply(s, last, x)
    s[last].reorder(b, oh, co, ow, vh, vw, vc)
    rows = shared(s, last, [b, oh])
    for axis in (vh, vw, vc):
        s[last].unroll(axis)
    if made is not last:
        s[made].compute_inline()
    s[conv].compute_at(s[last], ow)
    s[data].compute_at(s[last], rows)
    s[data].vectorize(axes_of(s, data)[-1])
    b, co, oh, ow, vh, vw, vc = axes_of(s, conv)
    ci, ky, kx = reduced(s, conv)
    cfg["reorder_0"].apply(s, conv, [b, co, oh, ow, ci, ky, kx, vh, vw, vc])
    cfg["ann_reduce"].apply(s, conv, [ky, kx], axis_lens=[extent_of(ky), extent_of(kx)], max_unroll=None, cfg=cfg)
    lengths = [inner(cfg[name]) for name in ("tile_oh", "tile_ow", "tile_co")]
    cfg["ann_spatial"].apply(s, conv, [vh, vw, vc], axis_lens=lengths, max_unroll=16, cfg=cfg)
    return s
