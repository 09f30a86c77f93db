"""The template of depthwise convolutions on blocks of channels."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tilewright import te, tir
from tilewright.autotvm.task.topi_integration import register_topi_compute, register_topi_schedule
from tilewright.topi.template_stages import TemplateStages, axes_of, inner, reduced
from tilewright.topi.x86.conv2d import OWN, BlockedShapes, tiles_of_rows


@register_topi_compute("depthwise_conv2d_NCHWc.x86")
def depthwise_conv2d_NCHWc(
    cfg: Any,
    data: te.Tensor,
    kernel: te.Tensor,
    strides: int | Sequence[int],
    padding: Any,
    dilation: int | Sequence[int],
    layout: str = "NCHW",
    out_layout: str = "NCHW",
    out_dtype: str | None = None,
) -> te.Tensor:
    """Depthwise convolution of data (N, C, H, W) with weights (C, 1, KH, KW), computed on blocks of channels; or of data and weights
    that come in blocks, (C / b, 1, KH, KW, 1, b).

    Knobs: tile_ic and tile_oc, whose inner extents, the same, are the block; tile_ow, whose inner extent is the columns of a tile in
    registers; unroll_kw.
    """
    del layout, out_layout
    shapes = BlockedShapes(data, kernel, strides, padding, dilation, depthwise=True)
    cfg.define_split("tile_ic", shapes.channels, num_outputs=2, filter=lambda e: e.size[-1] <= 64)
    cfg.define_split("tile_oc", shapes.filters, num_outputs=2, filter=lambda e: e.size[-1] <= 64)
    cfg.define_split("tile_ow", shapes.columns, num_outputs=2, filter=lambda e: e.size[-1] <= 64)
    cfg.define_knob("unroll_kw", [True, False])
    cfg.multi_filter(lambda e: e["tile_ic"].size[-1] == e["tile_oc"].size[-1])
    if cfg.is_fallback:
        for name, most in (("tile_ic", 16), ("tile_oc", 16), ("tile_ow", 8)):
            cfg.fallback_split(name, [-1, most])
    block, dtype = inner(cfg["tile_oc"]), out_dtype or data.dtype
    padded, weights = shapes.blocked(data, kernel, block, block)
    ky, kx = (te.reduce_axis((0, k), name) for k, name in zip(shapes.kernel, ("kh", "kw"), strict=True))
    zero = tir.const(0, "int32")

    def element(n: Any, c: Any, y: Any, x: Any, b: Any) -> Any:
        value = padded[n, c, *shapes.at(y, x, ky.var, kx.var), b]
        return te.sum(value.astype(dtype) * weights[c, zero, ky, kx, zero, b].astype(dtype), axis=[ky, kx])

    shape = (shapes.n, shapes.filters // block, shapes.rows, shapes.columns, block)
    made = te.compute(shape, element, name="conv2d_blocks", tag="depthwise_conv2d_NCHWc")
    return shapes.unpacked(made, block)


@register_topi_schedule("depthwise_conv2d_NCHWc.x86")
def schedule_depthwise_conv2d_NCHWc(cfg: Any, outs: Any) -> te.Schedule:
    """Tiles of one row in registers: columns by a block of channels."""
    stages = TemplateStages(outs, OWN, "conv2d_blocks")
    s = stages.schedule
    tile = tiles_of_rows(cfg, stages)
    _, _, y, x, b = axes_of(s, tile)
    ky, kx = reduced(s, tile)
    s[tile].reorder(ky, kx, y, x, b)
    if cfg["unroll_kw"].val:
        s[tile].unroll(kx)
    s[tile].vectorize(b)
    s[tile].unroll(x)
    return s


def depthwise_conv2d_nchw(
    data: te.Tensor,
    kernel: te.Tensor,
    strides: int | Sequence[int],
    padding: Any,
    dilation: int | Sequence[int],
    out_dtype: str | None = None,
) -> te.Tensor:
    """Depthwise convolution of data (N, C, H, W) with weights (C, 1, KH, KW) by the template `depthwise_conv2d_NCHWc.x86`."""
    made: te.Tensor = depthwise_conv2d_NCHWc(data, kernel, strides, padding, dilation, "NCHW", "NCHW", out_dtype)
    return made


def schedule_depthwise_conv2d_nchw(outs: Any) -> te.Schedule:
    """The schedule of `depthwise_conv2d_nchw`, with element-wise stages after it."""
    made: te.Schedule = schedule_depthwise_conv2d_NCHWc(outs)
    return made
