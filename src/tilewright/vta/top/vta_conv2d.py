"""Convolutions of packed data: (N / BATCH, C / BLOCK_IN, H, W, BATCH, BLOCK_IN) by
(O / BLOCK_OUT, C / BLOCK_IN, KH, KW, BLOCK_OUT, BLOCK_IN)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from tilewright import te
from tilewright.autotvm.task.topi_integration import register_topi_compute, register_topi_schedule
from tilewright.support.errors import TVMError
from tilewright.topi.nn import packed_conv
from tilewright.topi.template_stages import axes_of, reduced
from tilewright.topi.utils import get_const_int, shape_of
from tilewright.vta.environment import get_env
from tilewright.vta.top.packed import PackedStages
from tilewright.vta.top.tiles import Problem, Tiles, choose
from tilewright.vta.top.utils import is_packed_layout

TAG = packed_conv.TAG


def pair(value: Any) -> tuple[int, int]:
    a, b = value if isinstance(value, (tuple, list)) else (value, value)
    return get_const_int(a), get_const_int(b)


@register_topi_compute("conv2d_packed.vta")
def conv2d_packed(
    cfg: Any, data: te.Tensor, kernel: te.Tensor, strides: Any, padding: Any, dilation: Any, layout: str, out_dtype: str
) -> te.Tensor:
    """A convolution whose sums are accumulators, (N / BATCH, O / BLOCK_OUT, OH, OW, BATCH, BLOCK_OUT) of out_dtype. padding: numbers, or
    (top, left, bottom, right). TVMError for other layouts, and for dilated kernels."""
    env = get_env()
    if not is_packed_layout(layout):
        raise TVMError(f"conv2d_packed takes packed layouts, such as NCHW{env.BATCH}n{env.BLOCK_IN}c, not {layout}")
    if pair(dilation) != (1, 1):
        raise TVMError(f"conv2d_packed takes kernels without dilation, not with {pair(dilation)}")
    return summed(cfg, data, kernel, strides, padding, 1, out_dtype)


def summed(
    cfg: Any, data: te.Tensor, kernel: te.Tensor, strides: Any, padding: Any, groups: int, out_dtype: str
) -> te.Tensor:
    """The sums of a template's convolution, whose operations are counted."""
    made = packed_conv.conv2d_packed(data, kernel, pair(strides), padding, groups, out_dtype)
    filters, products = shape_of(kernel), shape_of(made)
    cfg.add_flop(2 * math.prod([*products, *filters[1:4], filters[5]]))
    return made


@register_topi_schedule("conv2d_packed.vta")
def schedule_conv2d_packed(cfg: Any, outs: Any) -> te.Schedule:
    """Tiles of rows and channels, whose loads run beside the products of another virtual thread.

    Knobs: tile_h, tile_ci, tile_co, the rows, input blocks and output blocks of a tile; oc_nthread, h_nthread, virtual threads over output
    blocks and rows; outer, whether the loop over output blocks ("co") or over rows ("h") is outside. Without a record, the ones of the
    least estimated time (`tiles`)."""
    return scheduled(cfg, outs)


def scheduled(cfg: Any, outs: Any) -> te.Schedule:
    """The schedule of a template's convolution by its knobs."""
    env = get_env()
    stages = PackedStages(outs, TAG, env)
    s, last, anchor = stages.schedule, stages.last, stages.anchor
    _, o, y, *_ = axes_of(s, last)
    ko, *_ = reduced(s, anchor)
    cfg.define_split("tile_h", y, num_outputs=2)
    cfg.define_split("tile_ci", ko, num_outputs=2)
    cfg.define_split("tile_co", o, num_outputs=2)
    cfg.define_knob("oc_nthread", [1, 2])
    cfg.define_knob("h_nthread", [1, 2])
    cfg.define_knob("outer", ["co", "h"])
    if cfg.is_fallback:
        tiles = choose(problem_of(stages, anchor), env.configuration)
    else:
        rows, outer, inner = (cfg[name].size[-1] for name in ("tile_h", "tile_co", "tile_ci"))
        threads = cfg["oc_nthread"].val, cfg["h_nthread"].val
        tiles = Tiles(rows, outer, inner, *threads, rows_outer=cfg["outer"].val == "h")
    return tiled_conv2d(stages, tiles, [tiles.in_blocks])


def problem_of(stages: PackedStages, anchor: te.Tensor) -> Problem:
    """A convolution of these stages."""
    data, kernel = anchor.op.input_tensors
    result, source, filters = shape_of(anchor), shape_of(data), shape_of(kernel)
    steps = [max((source[2 + n] - filters[2 + n]) // max(result[2 + n] - 1, 1), 1) for n in range(2)]
    there = _in_dram(data)
    step = max([-(-there[n] // source[2 + n]) for n in range(2)])
    before = [(source[2 + n] - there[n]) // 2 if step == 1 else 0 for n in range(2)]
    per_group = result[1] * filters[1] // source[1] if filters[1] < source[1] else 0
    window, moves, (rows, columns) = (1, 1), (1, 1), result[2:4]
    if stages.pool is not None:
        rows, columns = shape_of(stages.pool)[2:4]
        window = stages.window
        y, x = (max((result[2 + n] - window[n]) // max((rows, columns)[n] - 1, 1), 1) for n in range(2))
        moves = y, x
    return Problem(
        result[0], result[1], filters[1], rows, columns, (filters[2], filters[3]), (steps[0], steps[1]), source[3], stages.extra,
        stages.constants, stages.widened, (there[0], there[1]), (before[0], before[1]), step, per_group,
        window, moves, stages.passes, stages.copied,
    )  # fmt: skip


def _in_dram(data: te.Tensor) -> tuple[int, int]:
    """Rows and columns of the array that the input of a product is copied from: before padding, or before only some of them are taken."""
    inputs = data.op.input_tensors if isinstance(data.op, te.ComputeOp) else []
    shape = shape_of(inputs[0]) if len(inputs) == 1 and len(inputs[0].shape) == len(data.shape) else shape_of(data)
    return int(shape[2]), int(shape[3])


def tiled_conv2d(stages: PackedStages, tiles: Tiles, in_blocks: Sequence[int]) -> te.Schedule:
    """The schedule of convolutions in these tiles. in_blocks: the input blocks of a tile of each."""
    env, s = stages.env, stages.schedule
    copies = [
        [
            stages.on_chip(source, scope, anchor)
            for source, scope in zip(anchor.op.input_tensors, (env.inp_scope, env.wgt_scope), strict=True)
        ]
        for anchor in stages.anchors
    ]
    stages.compute_inside(tiled(stages, tiles))
    for anchor, on_chip, count in zip(stages.anchors, copies, in_blocks, strict=True):
        b, o, y, x, r, c = axes_of(s, anchor)
        ko, dy, dx, ki = reduced(s, anchor)
        k_out, k_in = s[anchor].split(ko, count)
        outer = [dy, dx, k_in] if tiles.by_offset else [k_in, dy, dx]
        s[anchor].reorder(b, k_out, *outer, o, y, x, r, c, ki)
        inp, wgt = on_chip
        s[inp].compute_at(s[anchor], k_out)
        s[wgt].compute_at(s[anchor], dx if tiles.by_offset else k_out)
        s[anchor].tensorize(r, env.gemm)
    return s


def tiled(stages: PackedStages, tiles: Tiles) -> Any:
    """Splits the loops of the stage that is stored, and binds virtual threads. Returns the loop at whose iterations a tile is computed."""
    s, last = stages.schedule, stages.last
    b, o, y, x, r, c = axes_of(s, last)
    o_out, o_in = s[last].split(o, tiles.out_blocks)
    y_out, y_in = s[last].split(y, tiles.rows)
    x_out, x_in = s[last].split(x, tiles.columns) if tiles.columns else (None, x)
    threads = []
    if tiles.out_threads > 1:
        thread, o_out = s[last].split(o_out, nparts=tiles.out_threads)
        s[last].bind(thread, te.thread_axis("cthread"))
        threads.append(thread)
    if tiles.row_threads > 1:
        thread, y_out = s[last].split(y_out, nparts=tiles.row_threads)
        s[last].bind(thread, te.thread_axis("vthread"))
        threads.insert(0, thread)
    across = [y_out] if x_out is None else [y_out, x_out]
    around = [*across, o_out] if tiles.rows_outer else [o_out, *across]
    s[last].reorder(*threads, b, *around, o_in, y_in, x_in, r, c)
    return around[-1]


__all__ = [
    "conv2d_packed", "pair", "problem_of", "schedule_conv2d_packed", "scheduled", "summed", "tiled", "tiled_conv2d",
]  # fmt: skip
