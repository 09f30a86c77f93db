"""The template of depthwise convolutions of images (N, C, H, W)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tilewright import te, tir
from tilewright.autotvm.task.topi_integration import register_topi_compute, register_topi_schedule
from tilewright.topi.classic_modules import elsewhere
from tilewright.topi.nn.pad import pad
from tilewright.topi.template_stages import TemplateStages, axes_of, extent_of, inner, reduced, shared
from tilewright.topi.utils import get_const_int, get_pad_tuple, moved, pair, shape_of, window_extent

__getattr__, __dir__ = elsewhere(__name__)


OWN = ("data_pad", "depthwise_conv2d")


@register_topi_compute("depthwise_conv2d_nchw.arm_cpu")
def depthwise_conv2d_nchw(
    cfg: Any,
    data: te.Tensor,
    kernel: te.Tensor,
    strides: int | Sequence[int],
    padding: Any,
    dilation: int | Sequence[int],
    out_dtype: str | None = None,
) -> te.Tensor:
    """Convolution of data (N, C, H, W) with weights (C, M, KH, KW): each channel has M filters of its own.

    Knobs: tile_c, tile_h, tile_w, whose inner extents are a tile of channels, rows and columns; ann_reduce, the marks of the loops over
    the window; ann_spatial, those of the loops in a tile.
    """
    n, channels, height, width = (get_const_int(d) for d in shape_of(data))
    _, times, kh, kw = (get_const_int(d) for d in shape_of(kernel))
    (sh, sw), (dh, dw) = pair(strides), pair(dilation)
    before, after = get_pad_tuple(padding, [(kh - 1) * dh + 1, (kw - 1) * dw + 1])
    rows = get_const_int(window_extent(height, kh, before[0], after[0], sh, dh))
    columns = get_const_int(window_extent(width, kw, before[1], after[1], sw, dw))
    _, vc = cfg.define_split("tile_c", channels * times, num_outputs=2, filter=lambda e: e.size[-1] <= 16)
    _, vh = cfg.define_split("tile_h", rows, num_outputs=2, filter=lambda e: e.size[-1] <= 16)
    _, vw = cfg.define_split("tile_w", columns, num_outputs=2, filter=lambda e: e.size[-1] <= 32)
    cfg.define_annotate("ann_reduce", [cfg.reduce_axis(kh), cfg.reduce_axis(kw)], policy="try_unroll")
    cfg.define_annotate("ann_spatial", [vh, vw, vc], policy="try_unroll_vec")
    if cfg.is_fallback:
        for name, most in (("tile_c", 1), ("tile_h", 2), ("tile_w", 8)):
            cfg.fallback_split(name, [-1, most])
    dtype = out_dtype or data.dtype
    padded = pad(data, [0, 0, *before], [0, 0, *after], name="data_pad")
    ky, kx = te.reduce_axis((0, kh), "kh"), te.reduce_axis((0, kw), "kw")

    def element(b: Any, c: Any, y: Any, x: Any) -> Any:
        channel, which = (c, tir.const(0, "int32")) if times == 1 else (tir.floordiv(c, times), tir.floormod(c, times))
        value = padded[b, channel, moved(y, sh, ky.var, dh), moved(x, sw, kx.var, dw)]
        return te.sum(value.astype(dtype) * kernel[channel, which, ky, kx].astype(dtype), axis=[ky, kx])

    shape = (n, channels * times, rows, columns)
    made: te.Tensor = te.compute(shape, element, name="depthwise_conv2d", tag="depthwise_conv2d_nchw")
    return made


@register_topi_schedule("depthwise_conv2d_nchw.arm_cpu")
def schedule_depthwise_conv2d_nchw(cfg: Any, outs: Any) -> te.Schedule:
    """Tiles in registers; blocks of channels are shared among threads."""
    stages = TemplateStages(outs, OWN, "depthwise_conv2d")
    s, last, made = stages.schedule, stages.last, stages.anchor
    stages.moved("data_pad")
    tile = s.cache_write(made, "global") if made is last else made
    b, c, y, x = axes_of(s, last)
    co, vc = cfg["tile_c"].apply(s, last, c)
    oh, vh = cfg["tile_h"].apply(s, last, y)
    ow, vw = cfg["tile_w"].apply(s, last, x)
    s[last].reorder(b, co, oh, ow, vc, vh, vw)
    shared(s, last, [b, co])
    s[last].vectorize(vw)
    s[tile].compute_at(s[last], ow)
    b, c, y, x = axes_of(s, tile)
    ky, kx = reduced(s, tile)
    s[tile].reorder(ky, kx, y, x, c)
    cfg["ann_reduce"].apply(s, tile, [ky, kx], axis_lens=[extent_of(ky), extent_of(kx)], max_unroll=16, cfg=cfg)
    lengths = [inner(cfg[name]) for name in ("tile_h", "tile_w", "tile_c")]
    cfg["ann_spatial"].apply(s, tile, [y, x, c], axis_lens=lengths, max_unroll=16, cfg=cfg)
    return s
