"""The template of convolutions on blocks of channels."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tilewright import te, tir
from tilewright.autotvm.env import GLOBAL_SCOPE
from tilewright.autotvm.task.topi_integration import register_topi_compute, register_topi_schedule
from tilewright.topi.classic_modules import elsewhere
from tilewright.topi.nn.pad import pad
from tilewright.topi.template_stages import TemplateStages, axes_of, inner, reduced, shared
from tilewright.topi.utils import get_const_int, get_pad_tuple, moved, pair, shape_of, window_extent

__getattr__, __dir__ = elsewhere(__name__)


OWN = ("data_vec", "kernel_vec", "data_pad", "conv2d_blocks")


class BlockedShapes:
    """The extents of a convolution on blocks of channels, by plain or by blocked tensors.

    data (N, C, H, W) or (N, C / bi, H, W, bi); weights (O, I, KH, KW) or (O / bo, I / bi, KH, KW, bi, bo).
    """

    def __init__(
        self, data: te.Tensor, kernel: te.Tensor, strides: Any, padding: Any, dilation: Any, depthwise: bool = False
    ) -> None:
        shape, weights = ([get_const_int(d) for d in shape_of(t)] for t in (data, kernel))
        self.n, chunks, self.height, self.width, *block = shape
        self.channels = chunks * (block[0] if block else 1)
        self.filters = weights[0] * (weights[-1] if len(weights) == 6 else 1)
        self.kernel = weights[2], weights[3]
        self.strides, self.dilation = pair(strides), pair(dilation)
        reach = [(k - 1) * d + 1 for k, d in zip(self.kernel, self.dilation, strict=True)]
        self.before, self.after = get_pad_tuple(padding, reach)
        self.rows, self.columns = (
            get_const_int(window_extent(size, k, before, after, stride, dilation))
            for size, k, before, after, stride, dilation in zip(
                (self.height, self.width),
                self.kernel,
                self.before,
                self.after,
                self.strides,
                self.dilation,
                strict=True,
            )
        )
        self.plain = not block
        self.depthwise = depthwise

    def blocked(self, data: te.Tensor, kernel: te.Tensor, block_in: int, block_out: int) -> tuple[te.Tensor, te.Tensor]:
        """Data and weights in blocks: as they were given, or packed by stages of the kernel; while a tuner measures, as if they had
        been given so."""
        packed, weights = data, kernel
        if self.plain:
            shape = (self.n, self.channels // block_in, self.height, self.width, block_in)
            packed = (
                te.placeholder(shape, data.dtype, "data")
                if GLOBAL_SCOPE.in_tuning
                else te.compute(shape, lambda n, c, y, x, b: data[n, c * block_in + b, y, x], name="data_vec")
            )
        if len(kernel.shape) == 4:
            within = 1 if self.depthwise else block_in
            chunks = 1 if self.depthwise else self.channels // block_in
            form = (self.filters // block_out, chunks, *self.kernel, within, block_out)
            weights = (
                te.placeholder(form, kernel.dtype, "kernel")
                if GLOBAL_SCOPE.in_tuning
                else te.compute(
                    form,
                    lambda o, i, y, x, a, b: kernel[o * block_out + b, i * within + a, y, x],
                    name="kernel_vec",
                )
            )
        padded = pad(packed, [0, 0, *self.before, 0], [0, 0, *self.after, 0], name="data_pad")
        return padded, weights

    def at(self, y: Any, x: Any, ky: Any, kx: Any) -> tuple[Any, Any]:
        """The row and the column of the padded data that an offset of the window reads."""
        (sy, sx), (dy, dx) = self.strides, self.dilation
        return moved(y, sy, ky, dy), moved(x, sx, kx, dx)

    def unpacked(self, made: te.Tensor, block_out: int) -> te.Tensor:
        """The result (N, O, OH, OW), unless data came in blocks or a tuner measures."""
        if not self.plain or GLOBAL_SCOPE.in_tuning:
            return made
        return te.compute(
            (self.n, self.filters, self.rows, self.columns),
            lambda n, c, y, x: made[n, tir.floordiv(c, block_out), y, x, tir.floormod(c, block_out)],
            name="conv2d_plain",
            tag="injective",
        )


@register_topi_compute("conv2d_NCHWc.x86")
def conv2d_NCHWc(
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
    """Convolution of data (N, C, H, W) with weights (O, C, KH, KW), computed on blocks of channels; or of data and weights that come in
    blocks (`BlockedShapes`), whose result is in blocks, too.

    Knobs: tile_ic and tile_oc, whose inner extents are the blocks; tile_ow, whose inner extent is the columns of a tile in registers;
    unroll_kw.
    """
    del layout, out_layout
    shapes = BlockedShapes(data, kernel, strides, padding, dilation)
    cfg.define_split("tile_ic", shapes.channels, num_outputs=2)
    cfg.define_split("tile_oc", shapes.filters, num_outputs=2, filter=lambda e: e.size[-1] <= 64)
    cfg.define_split("tile_ow", shapes.columns, num_outputs=2, filter=lambda e: e.size[-1] <= 64)
    cfg.define_knob("unroll_kw", [True, False])
    if cfg.is_fallback:
        for name, most in (("tile_ic", 16), ("tile_oc", 16), ("tile_ow", 8)):
            cfg.fallback_split(name, [-1, most])
    block_in, block_out = inner(cfg["tile_ic"]), inner(cfg["tile_oc"])
    padded, weights = shapes.blocked(data, kernel, block_in, block_out)
    dtype = out_dtype or data.dtype
    ic, ky, kx = (
        te.reduce_axis((0, extent), name)
        for extent, name in zip((shapes.channels, *shapes.kernel), ("ic", "kh", "kw"), strict=True)
    )

    def element(n: Any, o: Any, y: Any, x: Any, b: Any) -> Any:
        chunk, place = tir.floordiv(ic.var, block_in), tir.floormod(ic.var, block_in)
        value = padded[n, chunk, *shapes.at(y, x, ky.var, kx.var), place]
        return te.sum(value.astype(dtype) * weights[o, chunk, ky, kx, place, b].astype(dtype), axis=[ic, ky, kx])

    shape = (shapes.n, shapes.filters // block_out, shapes.rows, shapes.columns, block_out)
    made = te.compute(shape, element, name="conv2d_blocks", tag="conv2d_NCHWc")
    return shapes.unpacked(made, block_out)


@register_topi_schedule("conv2d_NCHWc.x86")
def schedule_conv2d_NCHWc(cfg: Any, outs: Any) -> te.Schedule:
    """Tiles of one row in registers: columns by a block of filters."""
    stages = TemplateStages(outs, OWN, "conv2d_blocks")
    s = stages.schedule
    tile = tiles_of_rows(cfg, stages)
    _, _, y, x, b = axes_of(s, tile)
    ic, ky, kx = reduced(s, tile)
    chunk, place = s[tile].split(ic, inner(cfg["tile_ic"]))
    s[tile].reorder(chunk, ky, kx, place, y, x, b)
    if cfg["unroll_kw"].val:
        s[tile].reorder(chunk, ky, place, kx, y, x, b)
        s[tile].unroll(kx)
    s[tile].vectorize(b)
    s[tile].unroll(x)
    return s


def tiles_of_rows(cfg: Any, stages: TemplateStages) -> te.Tensor:
    """Tiles the result, whose rows are shared among threads. Returns the stage that computes a tile."""
    s, last, made = stages.schedule, stages.last, stages.anchor
    stages.moved("data_vec", "kernel_vec", "data_pad")
    tile: te.Tensor = s.cache_write(made, "global") if made is last else made
    n, o, y, x, b = axes_of(s, last)
    xo, xi = cfg["tile_ow"].apply(s, last, x)
    s[last].reorder(n, o, y, xo, xi, b)
    shared(s, last, [n, o, y])
    s[last].vectorize(b)
    s[last].unroll(xi)
    s[tile].compute_at(s[last], xo)
    return tile


def conv2d_nchw(
    data: te.Tensor,
    kernel: te.Tensor,
    strides: int | Sequence[int],
    padding: Any,
    dilation: int | Sequence[int],
    out_dtype: str | None = None,
) -> te.Tensor:
    """Convolution of data (N, C, H, W) with weights (O, C, KH, KW) by the template `conv2d_NCHWc.x86`: (N, O, OH, OW)."""
    made: te.Tensor = conv2d_NCHWc(data, kernel, strides, padding, dilation, "NCHW", "NCHW", out_dtype)
    return made


def schedule_conv2d_nchw(outs: Any) -> te.Schedule:
    """The schedule of `conv2d_nchw`, with element-wise stages after it."""
    made: te.Schedule = schedule_conv2d_NCHWc(outs)
    return made
