"""The template of products of matrices in batches."""

from __future__ import annotations

from typing import Any

from tilewright import te, tir
from tilewright.autotvm.task.topi_integration import register_topi_compute, register_topi_schedule
from tilewright.topi.classic_modules import elsewhere
from tilewright.topi.template_stages import TemplateStages, axes_of, reduced, shared
from tilewright.topi.utils import get_const_int, shape_of

__getattr__, __dir__ = elsewhere(__name__)


@register_topi_compute("batch_matmul.x86")
def batch_matmul(
    cfg: Any,
    tensor_a: te.Tensor,
    tensor_b: te.Tensor,
    out_shape: Any = None,
    out_dtype: str | None = None,
    transpose_a: bool = False,
    transpose_b: bool = True,
) -> te.Tensor:
    """A (B, M, K) by B (B, K, N), either of them transposed; a batch of one goes with all of the other. out_shape: not needed.

    Knobs: tile_y and tile_x, the rows and columns of a tile; tile_k, whose inner extent is unrolled. A tile of a transposed B is
    copied, so that its columns are neighbours.
    """
    del out_shape
    left, right = ([get_const_int(d) for d in shape_of(t)] for t in (tensor_a, tensor_b))
    m, k = left[:0:-1] if transpose_a else left[1:]
    n = right[1] if transpose_b else right[2]
    batch = max(left[0], right[0])
    cfg.define_split("tile_y", m, num_outputs=2, filter=lambda e: e.size[-1] <= 16)
    cfg.define_split("tile_x", n, num_outputs=2, filter=lambda e: e.size[-1] <= 64)
    cfg.define_split("tile_k", k, num_outputs=2, filter=lambda e: e.size[-1] <= 16)
    if cfg.is_fallback:
        for name, most in (("tile_y", 4), ("tile_x", 16), ("tile_k", 4)):
            cfg.fallback_split(name, [-1, most])
    dtype, along = out_dtype or tensor_a.dtype, te.reduce_axis((0, k), "k")
    turned = tensor_b
    if transpose_b:
        turned = te.compute((right[0], k, n), lambda b, q, x: tensor_b[b, x, q], name="turned")

    def of(tensor: te.Tensor, size: int, b: Any, row: Any, column: Any) -> Any:
        return tensor[tir.const(0, "int32") if size == 1 else b, row, column].astype(dtype)

    return te.compute(
        (batch, m, n),
        lambda b, y, x: te.sum(
            of(tensor_a, left[0], b, *((along, y) if transpose_a else (y, along))) * of(turned, right[0], b, along, x),
            axis=along,
        ),
        name="batch_matmul",
        tag="batch_matmul",
    )


@register_topi_schedule("batch_matmul.x86")
def schedule_batch_matmul(cfg: Any, outs: Any) -> te.Schedule:
    """Tiles of the result in registers."""
    stages = TemplateStages(outs, ("batch_matmul", "turned"), "batch_matmul")
    s, last, made = stages.schedule, stages.last, stages.anchor
    tile = s.cache_write(made, "global") if made is last else made
    b, y, x = axes_of(s, last)
    yo, yi = cfg["tile_y"].apply(s, last, y)
    xo, xi = cfg["tile_x"].apply(s, last, x)
    s[last].reorder(b, xo, yo, yi, xi)
    panel = shared(s, last, [b, xo])
    s[last].vectorize(xi)
    s[last].unroll(yi)
    s[tile].compute_at(s[last], yo)
    if "turned" in stages.found:
        turned = stages.found["turned"]
        s[turned].compute_at(s[last], panel)
        s[turned].vectorize(axes_of(s, turned)[2])
    _, y, x = axes_of(s, tile)
    ko, ki = cfg["tile_k"].apply(s, tile, reduced(s, tile)[0])
    s[tile].reorder(ko, ki, y, x)
    s[tile].vectorize(x)
    s[tile].unroll(y)
    s[tile].unroll(ki)
    return s
