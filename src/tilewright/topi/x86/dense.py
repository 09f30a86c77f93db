"""Templates of dense layers: data (M, K) by weights (N, K)."""

from __future__ import annotations

from typing import Any

from tilewright import te, tir
from tilewright.autotvm.env import GLOBAL_SCOPE
from tilewright.autotvm.task.topi_integration import register_topi_compute, register_topi_schedule
from tilewright.topi.classic_modules import elsewhere
from tilewright.topi.template_stages import TemplateStages, axes_of, inner, reduced, shared
from tilewright.topi.utils import get_const_int, shape_of

__getattr__, __dir__ = elsewhere(__name__)


OWN = ("dense_parts", "dense", "packed_weight")


@register_topi_compute("dense_nopack.x86")
def dense_nopack(
    cfg: Any, data: te.Tensor, weight: te.Tensor, bias: te.Tensor | None = None, out_dtype: str | None = None
) -> te.Tensor:
    """Weights as they are. Each result is the sum of as many partial sums as the vector along K has lanes.

    Knobs: tile_y and tile_x, the rows and columns of a tile; tile_k, whose inner extent is the number of partial sums.
    """
    m, k = (get_const_int(d) for d in shape_of(data))
    n = get_const_int(weight.shape[0])
    cfg.define_split("tile_y", m, num_outputs=2)
    cfg.define_split("tile_x", n, num_outputs=2)
    cfg.define_split("tile_k", k, num_outputs=2, filter=lambda e: e.size[-1] <= 64)
    if cfg.is_fallback:
        for name, most in (("tile_y", 4), ("tile_x", 4), ("tile_k", 16)):
            cfg.fallback_split(name, [-1, most])
    dtype, lanes = out_dtype or data.dtype, inner(cfg["tile_k"])
    steps, lane = te.reduce_axis((0, k // lanes), "k"), te.reduce_axis((0, lanes), "lane")
    first = steps.var * lanes
    parts = te.compute(
        (m, n, lanes),
        lambda y, x, z: te.sum(data[y, first + z].astype(dtype) * weight[x, first + z].astype(dtype), axis=steps),
        name="dense_parts",
    )
    made = te.compute((m, n), lambda y, x: te.sum(parts[y, x, lane], axis=lane), name="dense", tag="dense_nopack")
    return (
        made if bias is None else te.compute((m, n), lambda y, x: made[y, x] + bias[x].astype(dtype), tag="broadcast")
    )


@register_topi_schedule("dense_nopack.x86")
def schedule_dense_nopack(cfg: Any, outs: Any) -> te.Schedule:
    """Tiles of the result, whose partial sums are in registers."""
    stages = TemplateStages(outs, OWN, "dense")
    s, last, made, parts = stages.schedule, stages.last, stages.anchor, stages.found["dense_parts"]
    y, x = axes_of(s, last)
    yo, yi = cfg["tile_y"].apply(s, last, y)
    xo, xi = cfg["tile_x"].apply(s, last, x)
    s[last].reorder(yo, xo, yi, xi)
    place = shared(s, last, [yo, xo])
    if made is not last:
        s[made].compute_at(s[last], place)
    s[parts].compute_at(s[last], place)
    y, x, lane = axes_of(s, parts)
    s[parts].reorder(reduced(s, parts)[0], y, x, lane)
    s[parts].vectorize(lane)
    s[parts].unroll(y)
    s[parts].unroll(x)
    s[made].unroll(reduced(s, made)[0])
    return s


@register_topi_compute("dense_pack.x86")
def dense_pack(
    cfg: Any, data: te.Tensor, weight: te.Tensor, bias: te.Tensor | None = None, out_dtype: str | None = None
) -> te.Tensor:
    """Weights in panels of columns: (N // b, K, b), where b is the inner extent of tile_x. Weights (N, K) are packed in the kernel;
    while a tuner measures, and in builds whose weights are constants, they come packed.

    Knobs: tile_y, the rows that threads, then tiles have; tile_x, the columns; tile_k, whose inner extent is unrolled.
    """
    m, k = (get_const_int(d) for d in shape_of(data))
    n = get_const_int(weight.shape[0]) * (get_const_int(weight.shape[2]) if len(weight.shape) == 3 else 1)
    cfg.define_split("tile_y", m, num_outputs=3, filter=lambda e: e.size[-1] <= 16)
    cfg.define_split("tile_x", n, num_outputs=3, filter=lambda e: e.size[-1] <= 64)
    cfg.define_split("tile_k", k, num_outputs=2, filter=lambda e: e.size[-1] <= 16)
    if cfg.is_fallback:
        cfg.fallback_split("tile_y", [-1, 8, 4])
        cfg.fallback_split("tile_x", [-1, 4, 16])
        cfg.fallback_split("tile_k", [-1, 4])
    panel, dtype = inner(cfg["tile_x"]), out_dtype or data.dtype
    if len(weight.shape) == 3:
        packed = weight
    elif GLOBAL_SCOPE.in_tuning:
        packed = te.placeholder((n // panel, k, panel), weight.dtype, "packed_weight")
    else:
        packed = te.compute((n // panel, k, panel), lambda p, q, x: weight[p * panel + x, q], name="packed_weight")
    along = te.reduce_axis((0, k), "k")
    made = te.compute(
        (m, n),
        lambda y, x: te.sum(
            data[y, along].astype(dtype) * packed[tir.floordiv(x, panel), along, tir.floormod(x, panel)].astype(dtype),
            axis=along,
        ),
        name="dense",
        tag="dense_pack",
    )
    return (
        made if bias is None else te.compute((m, n), lambda y, x: made[y, x] + bias[x].astype(dtype), tag="broadcast")
    )


@register_topi_schedule("dense_pack.x86")
def schedule_dense_pack(cfg: Any, outs: Any) -> te.Schedule:
    """Tiles of the result in registers, along panels of weights."""
    stages = TemplateStages(outs, OWN, "dense")
    s, last, made = stages.schedule, stages.last, stages.anchor
    stages.moved("packed_weight")
    tile = s.cache_write(made, "global") if made is last else made
    y, x = axes_of(s, last)
    yt, yo, yi = cfg["tile_y"].apply(s, last, y)
    xt, xo, xi = cfg["tile_x"].apply(s, last, x)
    s[last].reorder(xt, yt, xo, yo, yi, xi)
    shared(s, last, [xt, yt])
    s[last].unroll(yi)
    s[last].vectorize(xi)
    s[tile].compute_at(s[last], yo)
    y, x = axes_of(s, tile)
    ko, ki = cfg["tile_k"].apply(s, tile, reduced(s, tile)[0])
    s[tile].reorder(ko, ki, y, x)
    s[tile].vectorize(x)
    s[tile].unroll(y)
    s[tile].unroll(ki)
    return s
