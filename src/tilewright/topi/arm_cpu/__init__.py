"""Templates of AutoTVM for processors of ARM, under their classic names.

Builds use them only for workloads that have a record (`autotvm.apply_history_best`); the rules of the target schedule everything else.
"""

from tilewright.topi.arm_cpu.conv2d import (
    conv2d_nchw_spatial_pack,
    conv2d_nchw_winograd,
    schedule_conv2d_nchw_spatial_pack,
    schedule_conv2d_nchw_winograd,
)
from tilewright.topi.arm_cpu.dense import dense_gemm, schedule_dense_gemm
from tilewright.topi.arm_cpu.depthwise_conv2d import depthwise_conv2d_nchw, schedule_depthwise_conv2d_nchw

__all__ = [
    "conv2d_nchw_spatial_pack", "conv2d_nchw_winograd", "dense_gemm", "depthwise_conv2d_nchw",
    "schedule_conv2d_nchw_spatial_pack", "schedule_conv2d_nchw_winograd", "schedule_dense_gemm", "schedule_depthwise_conv2d_nchw",
]  # fmt: skip
