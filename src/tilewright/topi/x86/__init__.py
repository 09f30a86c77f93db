"""Templates of AutoTVM for processors with vectors, under their classic names.

Builds use them only for workloads that have a record (`autotvm.apply_history_best`); the rules of the target schedule everything else.
"""

from tilewright.topi.x86.batch_matmul import batch_matmul, schedule_batch_matmul
from tilewright.topi.x86.conv2d import conv2d_nchw, conv2d_NCHWc, schedule_conv2d_nchw, schedule_conv2d_NCHWc
from tilewright.topi.x86.dense import dense_nopack, dense_pack, schedule_dense_nopack, schedule_dense_pack
from tilewright.topi.x86.depthwise_conv2d import (
    depthwise_conv2d_nchw,
    depthwise_conv2d_NCHWc,
    schedule_depthwise_conv2d_nchw,
    schedule_depthwise_conv2d_NCHWc,
)

__all__ = [
    "batch_matmul",
    "conv2d_NCHWc",
    "conv2d_nchw",
    "dense_nopack",
    "dense_pack",
    "depthwise_conv2d_NCHWc",
    "depthwise_conv2d_nchw",
    "schedule_batch_matmul",
    "schedule_conv2d_NCHWc",
    "schedule_conv2d_nchw",
    "schedule_dense_nopack",
    "schedule_dense_pack",
    "schedule_depthwise_conv2d_NCHWc",
    "schedule_depthwise_conv2d_nchw",
]
