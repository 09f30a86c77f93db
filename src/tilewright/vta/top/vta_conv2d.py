"""Convolutions of packed data: (N / BATCH, C / BLOCK_IN, H, W, BATCH, BLOCK_IN) by
(O / BLOCK_OUT, C / BLOCK_IN, KH, KW, BLOCK_OUT, BLOCK_IN)."""

from __future__ import annotations

from typing import Any

from tilewright import te, topi
from tilewright.autotvm.task.space import OtherOptionEntity
from tilewright.autotvm.task.topi_integration import register_topi_compute, register_topi_schedule
from tilewright.support.errors import TVMError
from tilewright.topi.nn.utils import get_pad_tuple
from tilewright.topi.template_stages import axes_of, reduced
from tilewright.topi.utils import get_const_int, shape_of
from tilewright.vta.environment import get_env
from tilewright.vta.top.packed import PackedStages
from tilewright.vta.top.tiles import Problem, choose
from tilewright.vta.top.utils import is_packed_layout

TAG = "conv2d_dense"


def _pair(value: Any) -> tuple[int, int]:
    a, b = value if isinstance(value, (tuple, list)) else (value, value)
    return get_const_int(a), get_const_int(b)


def _sampled(data: te.Tensor, size: tuple[int, int], strides: tuple[int, int], first: tuple[int, int]) -> te.Tensor:
    """Each stride-th row and column of padded data. first: rows and columns of padding before."""
    shape = shape_of(data)

    def value(b: Any, k: Any, y: Any, x: Any, r: Any, c: Any) -> Any:
        at, along = y * strides[0] - first[0], x * strides[1] - first[1]
        found = data[b, k, at, along, r, c]
        if first == (0, 0) and (size[0] - 1) * strides[0] < shape[2] and (size[1] - 1) * strides[1] < shape[3]:
            return found
        inside = te.all(at >= 0, at < shape[2], along >= 0, along < shape[3])
        return te.if_then_else(inside, found, te.const(0, data.dtype))

    sampled: te.Tensor = te.compute((*shape[:2], *size, *shape[4:]), value, name="pad_data")
    return sampled


@register_topi_compute("conv2d_packed.vta")
def conv2d_packed(
    cfg: Any, data: te.Tensor, kernel: te.Tensor, strides: Any, padding: Any, dilation: Any, layout: str, out_dtype: str
) -> te.Tensor:
    """A convolution whose sums are accumulators, (N / BATCH, O / BLOCK_OUT, OH, OW, BATCH, BLOCK_OUT) of out_dtype. padding: numbers, or
    (top, left, bottom, right). TVMError for other layouts, and for dilated kernels."""
    env = get_env()
    if not is_packed_layout(layout):
        raise TVMError(f"conv2d_packed takes packed layouts, such as NCHW{env.BATCH}n{env.BLOCK_IN}c, not {layout}")
    if _pair(dilation) != (1, 1):
        raise TVMError(f"conv2d_packed takes kernels without dilation, not with {_pair(dilation)}")
    shape, filters = shape_of(data), shape_of(kernel)
    top, left, bottom, right = get_pad_tuple(padding, (filters[2], filters[3]))
    (sy, sx), (kh, kw) = _pair(strides), (get_const_int(filters[2]), get_const_int(filters[3]))
    rows, columns = (
        (n + before + behind - k) // step + 1
        for n, before, behind, k, step in ((shape[2], top, bottom, kh, sy), (shape[3], left, right, kw, sx))
    )
    if (kh, kw) == (1, 1) and (sy, sx) != (1, 1):
        # Only what is read is copied to the chip.
        padded, sy, sx = _sampled(data, (rows, columns), (sy, sx), (top, left)), 1, 1
    elif top or left or bottom or right:
        padded = topi.nn.pad(data, [0, 0, top, left, 0, 0], [0, 0, bottom, right, 0, 0], name="pad_data")
    else:
        padded = data
    ko, ki = te.reduce_axis((0, shape[1]), "ko"), te.reduce_axis((0, shape[5]), "ki")
    dy, dx = te.reduce_axis((0, kh), "dy"), te.reduce_axis((0, kw), "dx")
    made = te.compute(
        (shape[0], filters[0], rows, columns, shape[4], filters[4]),
        lambda b, o, y, x, r, c: te.sum(
            padded[b, ko, y * sy + dy, x * sx + dx, r, ki].astype(out_dtype)
            * kernel[o, ko, dy, dx, c, ki].astype(out_dtype),
            axis=[ko, dy, dx, ki],
        ),
        name="res",
        tag=TAG,
    )
    cfg.add_flop(2 * shape[0] * shape[4] * rows * columns * kh * kw * filters[0] * filters[4] * shape[1] * shape[5])
    return made


@register_topi_schedule("conv2d_packed.vta")
def schedule_conv2d_packed(cfg: Any, outs: Any) -> te.Schedule:
    """Tiles of rows and channels, whose loads run beside the products of another virtual thread.

    Knobs: tile_h, tile_ci, tile_co, the rows, input blocks and output blocks of a tile; oc_nthread, h_nthread, virtual threads over output
    blocks and rows. Without a record, the ones of the least estimated time (`tiles`)."""
    env = get_env()
    stages = PackedStages(outs, TAG, env)
    s, last, anchor = stages.schedule, stages.last, stages.anchor
    data, kernel = anchor.op.input_tensors
    b, o, y, x, r, c = axes_of(s, last)
    ko, dy, dx, ki = reduced(s, anchor)
    cfg.define_split("tile_h", y, num_outputs=2)
    cfg.define_split("tile_ci", ko, num_outputs=2)
    cfg.define_split("tile_co", o, num_outputs=2)
    cfg.define_knob("oc_nthread", [1, 2])
    cfg.define_knob("h_nthread", [1, 2])
    if cfg.is_fallback:
        result, width, kernels = shape_of(anchor), shape_of(data)[3], shape_of(kernel)
        stride = max((shape_of(data)[2] - kernels[2]) // max(result[2] - 1, 1), 1)
        problem = Problem(
            result[0], result[1], shape_of(data)[1], result[2], result[3], (kernels[2], kernels[3]), (stride, stride), width,
            len(stages.copied),
        )  # fmt: skip
        chosen = choose(problem, env.configuration)
        for name, extent in (("tile_h", chosen.rows), ("tile_ci", chosen.in_blocks), ("tile_co", chosen.out_blocks)):
            cfg.fallback_split(name, [-1, extent])
        cfg["oc_nthread"] = OtherOptionEntity(chosen.out_threads)
        cfg["h_nthread"] = OtherOptionEntity(chosen.row_threads)
    inp, wgt = stages.on_chip(data, env.inp_scope), stages.on_chip(kernel, env.wgt_scope)
    o_out, o_in = cfg["tile_co"].apply(s, last, o)
    y_out, y_in = cfg["tile_h"].apply(s, last, y)
    s[last].reorder(b, o_out, y_out, o_in, y_in, x, r, c)
    if cfg["oc_nthread"].val > 1:
        thread, o_out = s[last].split(o_out, nparts=cfg["oc_nthread"].val)
        s[last].reorder(thread, b, o_out, y_out)
        s[last].bind(thread, te.thread_axis("cthread"))
    if cfg["h_nthread"].val > 1:
        thread, y_out = s[last].split(y_out, nparts=cfg["h_nthread"].val)
        s[last].reorder(thread, b, o_out, y_out)
        s[last].bind(thread, te.thread_axis("vthread"))
    for stage in stages.inside:
        s[stage].compute_at(s[last], y_out)
    b, o, y, x, r, c = axes_of(s, anchor)
    k_out, k_in = cfg["tile_ci"].apply(s, anchor, ko)
    s[anchor].reorder(b, k_out, k_in, dy, dx, o, y, x, r, c, ki)
    for copy in (inp, wgt):
        s[copy].compute_at(s[anchor], k_out)
    s[anchor].tensorize(r, env.gemm)
    return s


__all__ = ["conv2d_packed", "schedule_conv2d_packed"]
