"""Dense layers of packed data: (N / BATCH, K / BLOCK_IN, BATCH, BLOCK_IN) by (M / BLOCK_OUT, K / BLOCK_IN, BLOCK_OUT, BLOCK_IN)."""

from __future__ import annotations

from typing import Any

from tilewright import te
from tilewright.autotvm.task.space import OtherOptionEntity
from tilewright.autotvm.task.topi_integration import register_topi_compute, register_topi_schedule
from tilewright.support.errors import TVMError
from tilewright.topi.template_stages import axes_of, reduced
from tilewright.topi.utils import shape_of
from tilewright.vta.environment import get_env
from tilewright.vta.top.packed import PackedStages
from tilewright.vta.top.tiles import Problem, choose
from tilewright.vta.top.utils import is_packed_layout

TAG = "dense_pack"


@register_topi_compute("dense_packed.vta")
def dense_packed(
    cfg: Any, data: te.Tensor, weight: te.Tensor, bias: Any = None, out_dtype: str | None = None
) -> te.Tensor:
    """A dense layer whose sums are accumulators, (N / BATCH, M / BLOCK_OUT, BATCH, BLOCK_OUT) of out_dtype. TVMError for data that are not
    packed, and for a bias, which is an addition of its own."""
    if len(data.shape) != 4 or len(weight.shape) != 4:
        raise TVMError(
            f"dense_packed takes packed data and weights, of four dimensions, not {len(data.shape)} and {len(weight.shape)}"
        )
    if bias is not None:
        raise TVMError("dense_packed has no bias; add it to the result")
    shape, weights, dtype = shape_of(data), shape_of(weight), out_dtype or get_env().acc_dtype
    ko, ki = te.reduce_axis((0, shape[1]), "ko"), te.reduce_axis((0, shape[3]), "ki")
    made = te.compute(
        (shape[0], weights[0], shape[2], weights[2]),
        lambda b, o, r, c: te.sum(data[b, ko, r, ki].astype(dtype) * weight[o, ko, c, ki].astype(dtype), axis=[ko, ki]),
        name="res",
        tag=TAG,
    )
    cfg.add_flop(2 * shape[0] * shape[2] * shape[1] * shape[3] * weights[0] * weights[2])
    return made


@register_topi_schedule("dense_packed.vta")
def schedule_dense_packed(cfg: Any, outs: Any) -> te.Schedule:
    """Tiles of rows and columns. Knobs: tile_b, tile_ci, tile_co, the row blocks, input blocks and output blocks of a tile; oc_nthread,
    virtual threads over output blocks. Without a record, the ones of the least estimated time (`tiles`)."""
    env = get_env()
    stages = PackedStages(outs, TAG, env)
    s, last, anchor = stages.schedule, stages.last, stages.anchor
    data, weight = anchor.op.input_tensors
    b, o, r, c = axes_of(s, last)
    ko, ki = reduced(s, anchor)
    cfg.define_split("tile_b", b, num_outputs=2)
    cfg.define_split("tile_ci", ko, num_outputs=2)
    cfg.define_split("tile_co", o, num_outputs=2)
    cfg.define_knob("oc_nthread", [1, 2])
    if cfg.is_fallback:
        result = shape_of(anchor)
        problem = Problem(
            1,
            result[1],
            shape_of(data)[1],
            result[0],
            1,
            (1, 1),
            (1, 1),
            1,
            stages.extra,
            stages.constants,
            stages.widened,
        )
        found = choose(problem, env.configuration)
        for name, extent in (("tile_b", found.rows), ("tile_ci", found.in_blocks), ("tile_co", found.out_blocks)):
            cfg.fallback_split(name, [-1, extent])
        cfg["oc_nthread"] = OtherOptionEntity(found.out_threads)
    inp, wgt = stages.on_chip(data, env.inp_scope, anchor), stages.on_chip(weight, env.wgt_scope, anchor)
    o_out, o_in = cfg["tile_co"].apply(s, last, o)
    b_out, b_in = cfg["tile_b"].apply(s, last, b)
    s[last].reorder(o_out, b_out, b_in, o_in, r, c)
    if cfg["oc_nthread"].val > 1:
        thread, o_out = s[last].split(o_out, nparts=cfg["oc_nthread"].val)
        s[last].bind(thread, te.thread_axis("cthread"))
    stages.compute_inside(b_out)
    b, o, r, c = axes_of(s, anchor)
    k_out, k_in = cfg["tile_ci"].apply(s, anchor, ko)
    s[anchor].reorder(k_out, k_in, o, b, r, c, ki)
    for copy in (inp, wgt):
        s[copy].compute_at(s[anchor], k_out)
    s[anchor].tensorize(r, env.gemm)
    return s


__all__ = ["dense_packed", "is_packed_layout", "schedule_dense_packed"]
