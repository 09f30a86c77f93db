"""Grouped convolutions of packed data, whose groups are whole blocks: weights (O / BLOCK_OUT, C / groups / BLOCK_IN, KH, KW, BLOCK_OUT,
BLOCK_IN)."""

from __future__ import annotations

from typing import Any

from tilewright import te
from tilewright.autotvm.task.topi_integration import register_topi_compute, register_topi_schedule
from tilewright.support.errors import TVMError
from tilewright.vta.top.vta_conv2d import pair, scheduled, summed


@register_topi_compute("group_conv2d_packed.vta")
def group_conv2d_packed(
    cfg: Any,
    data: te.Tensor,
    kernel: te.Tensor,
    strides: Any,
    padding: Any,
    dilation: Any,
    group: int,
    out_dtype: str,
) -> te.Tensor:
    """A convolution in groups whose sums are accumulators, (N / BATCH, O / BLOCK_OUT, OH, OW, BATCH, BLOCK_OUT) of out_dtype. padding:
    numbers, or (top, left, bottom, right). TVMError for dilated kernels, ValueError for groups that are no whole blocks."""
    if pair(dilation) != (1, 1):
        raise TVMError(f"group_conv2d_packed takes kernels without dilation, not with {pair(dilation)}")
    return summed(cfg, data, kernel, strides, padding, group, out_dtype)


@register_topi_schedule("group_conv2d_packed.vta")
def schedule_group_conv2d_packed(cfg: Any, outs: Any) -> te.Schedule:
    """Tiles and knobs of `schedule_conv2d_packed`."""
    return scheduled(cfg, outs)


__all__ = ["group_conv2d_packed", "schedule_group_conv2d_packed"]
