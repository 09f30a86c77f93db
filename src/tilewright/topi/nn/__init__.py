"""Neural-network computes."""

from __future__ import annotations

from tilewright.topi.arrange import batch_to_space_nd, space_to_batch_nd
from tilewright.topi.nn.added_windows import add_windows
from tilewright.topi.nn.attention import attention
from tilewright.topi.nn.bits import bitpack, bitserial_conv2d_nchw, bitserial_conv2d_nhwc, bitserial_dense
from tilewright.topi.nn.blocked_conv import (
    conv2d_NCHWc,
    conv2d_plain_NCHWc,
    conv2d_rows_NCHWc,
    depthwise_conv2d_NCHWc,
    reads_only_padding,
)
from tilewright.topi.nn.conv_nd import (
    conv,
    conv1d,
    conv1d_ncw,
    conv1d_nwc,
    conv1d_transpose_ncw,
    conv2d,
    conv2d_nchw,
    conv2d_nhwc,
    conv2d_transpose_nchw,
    conv3d_ncdhw,
    conv3d_ndhwc,
    conv3d_transpose_ncdhw,
    conv_transpose,
    depthwise_conv2d_nchw,
    group_conv2d_nchw,
)
from tilewright.topi.nn.dense import batch_matmul, dense, dense_pack, matmul
from tilewright.topi.nn.elemwise import bias_add, leaky_relu, prelu, relu
from tilewright.topi.nn.gemm_conv import conv2d_gemm_weight_transform, conv2d_gemm_without_weight_transform
from tilewright.topi.nn.norm import batch_norm, group_norm, instance_norm, l2_normalize, layer_norm, lrn
from tilewright.topi.nn.pad import dilate, edge_pad, mirror_pad, pad
from tilewright.topi.nn.phases import interleave_phases
from tilewright.topi.nn.pooling import (
    adaptive_pool,
    adaptive_pool1d,
    adaptive_pool3d,
    global_pool,
    pool1d,
    pool2d,
    pool3d,
    pool_grad,
)
from tilewright.topi.nn.sampled import conv2d_backward_weight_nchw, correlation_nchw, deformable_conv2d_nchw
from tilewright.topi.nn.softmax import log_softmax, softmax
from tilewright.topi.nn.strassen import conv2d_strassen_NCHWc, dense_strassen
from tilewright.topi.nn.winograd import conv2d_winograd_nchw_without_weight_transform, winograd_weight_transform
from tilewright.topi.nn.winograd3d import (
    conv3d_winograd_ncdhw_without_weight_transform,
    conv3d_winograd_weight_transform,
)
from tilewright.topi.nn.winograd_blocked import conv2d_winograd_NCHWc
from tilewright.topi.sparse import sparse_add, sparse_dense, sparse_transpose

__all__ = [
    "bitpack",
    "bitserial_conv2d_nchw",
    "bitserial_conv2d_nhwc",
    "bitserial_dense",
    "conv2d_backward_weight_nchw",
    "conv2d_gemm_weight_transform",
    "conv2d_gemm_without_weight_transform",
    "conv2d_winograd_NCHWc",
    "conv2d_winograd_nchw_without_weight_transform",
    "conv3d_winograd_ncdhw_without_weight_transform",
    "conv3d_winograd_weight_transform",
    "correlation_nchw",
    "deformable_conv2d_nchw",
    "sparse_add",
    "sparse_dense",
    "sparse_transpose",
    "winograd_weight_transform",
    "batch_to_space_nd",
    "space_to_batch_nd",
    "adaptive_pool",
    "add_windows",
    "adaptive_pool1d",
    "adaptive_pool3d",
    "pool_grad",
    "attention",
    "batch_matmul",
    "batch_norm",
    "bias_add",
    "conv",
    "conv1d",
    "conv1d_ncw",
    "conv1d_nwc",
    "conv1d_transpose_ncw",
    "conv3d_ncdhw",
    "conv3d_ndhwc",
    "conv3d_transpose_ncdhw",
    "conv_transpose",
    "conv2d",
    "conv2d_NCHWc",
    "conv2d_plain_NCHWc",
    "conv2d_rows_NCHWc",
    "conv2d_nchw",
    "conv2d_nhwc",
    "conv2d_transpose_nchw",
    "dense",
    "dense_pack",
    "conv2d_strassen_NCHWc",
    "dense_strassen",
    "depthwise_conv2d_NCHWc",
    "depthwise_conv2d_nchw",
    "dilate",
    "edge_pad",
    "global_pool",
    "group_conv2d_nchw",
    "group_norm",
    "instance_norm",
    "l2_normalize",
    "layer_norm",
    "leaky_relu",
    "log_softmax",
    "lrn",
    "matmul",
    "mirror_pad",
    "pad",
    "pool1d",
    "pool2d",
    "pool3d",
    "prelu",
    "reads_only_padding",
    "relu",
    "softmax",
    "interleave_phases",
]
