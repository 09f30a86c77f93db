"""Schedules that any processor can run: what is cheap is inlined, and loops are as they were computed.

The target of a build schedules such kernels by its rules. Packages of targets (`topi.x86`, `topi.arm_cpu`, `topi.cuda`) have schedules of
their own.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tilewright import te
from tilewright.support import lazy
from tilewright.target import Target
from tilewright.te.schedule import AutoInlineInjective
from tilewright.topi.classic_modules import declare_modules
from tilewright.topi.declared import plain_schedules
from tilewright.topi.stage_schedules import listed

PLAIN = """argsort argwhere batch_matmul batch_norm binarize_pack binary_dense bitpack bitserial_conv2d_nchw bitserial_conv2d_nhwc
bitserial_dense conv1d_ncw conv1d_nwc conv1d_transpose_ncw conv2d_NCHWc conv2d_NCHWc_int8 conv2d_gemm_weight_transform conv2d_hwcn
conv2d_nchw conv2d_nhwc conv2d_nhwc_pack conv2d_transpose_nchw conv2d_winograd_nnpack_weight_transform conv2d_winograd_weight_transform
conv2d_winograd_without_weight_transform conv3d_ncdhw conv3d_ndhwc conv3d_transpose_ncdhw conv3d_winograd_weight_transform
correlation_nchw deformable_conv2d_nchw deformable_conv2d_nhwc dense depthwise_conv2d_NCHWc depthwise_conv2d_nchw depthwise_conv2d_nhwc
dilation2d_nchw dilation2d_nhwc einsum extern fast_softmax get_valid_counts group_conv1d_ncw group_conv1d_nwc group_conv1d_transpose_ncw
group_conv2d_nchw group_conv2d_nhwc group_conv2d_transpose_nchw group_conv3d_transpose_ncdhw lstm matmul multibox_detection
multibox_prior multibox_transform_loc nms pool_grad proposal reorg roi_align roi_pool softmax sort sparse_conv2d sparse_dense
sparse_fill_empty_rows sparse_transpose topk unique"""
"""Operators whose schedules inline nothing."""
INLINED = "adaptive_pool lrn reduce"
"""Operators whose schedules inline what is cheap, and fuse the loops of the first output."""


def default_schedule(outs: Any, auto_inline: bool) -> te.Schedule:
    """A schedule of outputs without changes; with `auto_inline`, stages without reduction are inlined, and the axes of the first output
    are fused. Raises RuntimeError for targets whose loops must be bound to threads."""
    target = Target.current(True)
    if target is not None and "gpu" in target.keys:
        raise RuntimeError(
            f"topi.generic has schedules for processors, but the target is {target.kind.name}: use those of topi.cuda, which bind loops"
            " to threads"
        )
    outputs = listed(outs)
    s = te.create_schedule([t.op for t in outputs])
    if auto_inline:
        AutoInlineInjective(s)
        schedule_injective_from_existing(s, outputs[0])
    return s


def schedule_injective_from_existing(sch: te.Schedule, out: te.Tensor) -> te.Schedule:
    """Fuses the axes of an output in a schedule."""
    op: Any = sch[out].op
    if len(op.axis) > 1:
        sch[out].fuse(*op.axis)
    return sch


def schedule_injective(outs: Any) -> te.Schedule:
    """A schedule of outputs without reductions: what they need is inlined, and their axes are fused."""
    return default_schedule(outs, True)


schedule_elemwise = schedule_broadcast = schedule_injective


def schedule_pool(outs: Any, layout: str) -> te.Schedule:
    """A schedule of outputs of a pooling. layout: that of the data; any."""
    del layout
    return default_schedule(outs, False)


_DECLARED: dict[str, Callable[..., Any]] = {
    **plain_schedules(PLAIN, lambda outs: default_schedule(outs, False)),
    **plain_schedules(INLINED, lambda outs: default_schedule(outs, True)),
}
globals().update(_DECLARED)

declare_modules(__name__, "generic")
__getattr__, __dir__ = lazy.late(__name__)

__all__ = [
    "default_schedule",
    "schedule_broadcast",
    "schedule_elemwise",
    "schedule_injective",
    "schedule_injective_from_existing",
    "schedule_pool",
    *_DECLARED,
]
