"""Templates of dense layers on ARM: data (M, K) by weights (N, K)."""

from __future__ import annotations

from typing import Any

from tilewright import te, tir
from tilewright.autotvm.env import GLOBAL_SCOPE
from tilewright.autotvm.task.topi_integration import register_topi_compute, register_topi_schedule
from tilewright.topi.classic_modules import elsewhere
from tilewright.topi.template_stages import TemplateStages, axes_of, inner, reduced, shared
from tilewright.topi.utils import get_const_int, shape_of

__getattr__, __dir__ = elsewhere(__name__)


OWN = ("dense", "packed_data", "packed_weight")


@register_topi_compute("dense_gemm.arm_cpu")
def dense_gemm(
    cfg: Any,
    data: te.Tensor,
    weight: te.Tensor,
    bias: te.Tensor | None = None,
    out_dtype: str | None = None,
    transpose_a: bool = False,
    transpose_b: bool = True,
) -> te.Tensor:
    """A product of interleaved operands: rows of the data in blocks (M // a, K, a), columns of the weights in panels (N // b, K, b), where
    a and b are the inner extents of tile_y and tile_x, so that a tile reads both from start to end. Weights are packed in the kernel;
    while a tuner measures, and in builds whose weights are constants, they come packed.

    transpose_a: the data is (K, M). transpose_b: the weights are (N, K), else (K, N). Knobs: tile_y, the rows that threads, then tiles
    have; tile_x, the columns; tile_k, whose inner extent is unrolled.
    """
    shape = [get_const_int(d) for d in shape_of(data)]
    k, m = shape if transpose_a else shape[::-1]
    n = get_const_int(weight.shape[0 if transpose_b or len(weight.shape) == 3 else 1])
    n *= get_const_int(weight.shape[2]) if len(weight.shape) == 3 else 1
    cfg.define_split("tile_y", m, num_outputs=3, filter=lambda e: e.size[-1] <= 12)
    cfg.define_split("tile_x", n, num_outputs=3, filter=lambda e: e.size[-1] <= 32)
    cfg.define_split("tile_k", k, num_outputs=2, filter=lambda e: e.size[-1] <= 8)
    if cfg.is_fallback:
        cfg.fallback_split("tile_y", [-1, 4, 4])
        cfg.fallback_split("tile_x", [-1, 4, 16])
        cfg.fallback_split("tile_k", [-1, 4])
    rows, panel, dtype = inner(cfg["tile_y"]), inner(cfg["tile_x"]), out_dtype or data.dtype
    blocks = te.compute(
        (m // rows, k, rows),
        lambda b, q, y: data[q, b * rows + y] if transpose_a else data[b * rows + y, q],
        name="packed_data",
    )
    if len(weight.shape) == 3:
        packed = weight
    elif GLOBAL_SCOPE.in_tuning:
        packed = te.placeholder((n // panel, k, panel), weight.dtype, "packed_weight")
    else:
        packed = te.compute(
            (n // panel, k, panel),
            lambda p, q, x: weight[p * panel + x, q] if transpose_b else weight[q, p * panel + x],
            name="packed_weight",
        )
    along = te.reduce_axis((0, k), "k")
    made = te.compute(
        (m, n),
        lambda y, x: te.sum(
            blocks[tir.floordiv(y, rows), along, tir.floormod(y, rows)].astype(dtype)
            * packed[tir.floordiv(x, panel), along, tir.floormod(x, panel)].astype(dtype),
            axis=along,
        ),
        name="dense",
        tag="dense_gemm",
    )
    return (
        made if bias is None else te.compute((m, n), lambda y, x: made[y, x] + bias[x].astype(dtype), tag="broadcast")
    )


@register_topi_schedule("dense_gemm.arm_cpu")
def schedule_dense_gemm(cfg: Any, outs: Any) -> te.Schedule:
    """Tiles of the result in registers, along blocks of rows and panels of columns."""
    stages = TemplateStages(outs, OWN, "dense")
    s, last, made = stages.schedule, stages.last, stages.anchor
    stages.moved("packed_data", "packed_weight")
    tile = s.cache_write(made, "global") if made is last else made
    y, x = axes_of(s, last)
    yt, yo, yi = cfg["tile_y"].apply(s, last, y)
    xt, xo, xi = cfg["tile_x"].apply(s, last, x)
    s[last].reorder(yt, xt, yo, xo, yi, xi)
    shared(s, last, [yt, xt])
    s[last].unroll(yi)
    s[last].vectorize(xi)
    s[tile].compute_at(s[last], xo)
    y, x = axes_of(s, tile)
    ko, ki = cfg["tile_k"].apply(s, tile, reduced(s, tile)[0])
    s[tile].reorder(ko, ki, y, x)
    s[tile].vectorize(x)
    s[tile].unroll(y)
    s[tile].unroll(ki)
    return s
