"""Neural-network computes."""

from __future__ import annotations

import logging

from tilewright.support import lazy
from tilewright.topi.arrange import batch_to_space_nd, space_to_batch_nd
from tilewright.topi.classic_modules import declare_modules
from tilewright.topi.nn.added_windows import add_windows
from tilewright.topi.nn.attention import attention
from tilewright.topi.nn.bits import (
    binarize_pack,
    binary_dense,
    bitpack,
    bitserial_conv2d_nchw,
    bitserial_conv2d_nhwc,
    bitserial_dense,
)
from tilewright.topi.nn.blocked_conv import (
    conv2d_NCHWc,
    conv2d_NCHWc_int8,
    conv2d_plain_NCHWc,
    conv2d_rows_NCHWc,
    depthwise_conv2d_NCHWc,
    reads_only_padding,
)
from tilewright.topi.nn.conv_forms import (
    Workload,
    conv1d,
    conv1d_ncw,
    conv1d_nwc,
    conv1d_transpose_ncw,
    conv2d,
    conv2d_hwcn,
    conv2d_infer_layout,
    conv2d_nchw,
    conv2d_nhwc,
    conv2d_transpose_nchw,
    conv2d_transpose_nchw_preprocess,
    conv3d_ncdhw,
    conv3d_ndhwc,
    conv3d_transpose_ncdhw,
    conv3d_transpose_ncdhw_preprocess,
    declaration_conv2d_transpose_impl,
    declaration_conv3d_transpose_impl,
    depthwise_conv2d_backward_input_nhwc,
    depthwise_conv2d_backward_weight_nhwc,
    depthwise_conv2d_infer_layout,
    depthwise_conv2d_nchw,
    depthwise_conv2d_nhwc,
    group_conv1d_ncw,
    group_conv1d_nwc,
    group_conv1d_transpose_ncw,
    group_conv2d_nchw,
    group_conv2d_nhwc,
    group_conv2d_transpose_nchw,
    group_conv3d_transpose_ncdhw,
    unpack_NCHWc_to_nchw,
)
from tilewright.topi.nn.conv_nd import conv, conv_transpose
from tilewright.topi.nn.dense import batch_matmul, dense, dense_pack, matmul
from tilewright.topi.nn.elemwise import (
    bias_add,
    leaky_relu,
    prelu,
    relu,
    scale_shift_nchw,
    scale_shift_nchwc,
    scale_shift_nhwc,
)
from tilewright.topi.nn.gemm_conv import conv2d_gemm_weight_transform, conv2d_gemm_without_weight_transform
from tilewright.topi.nn.loss import nll_loss
from tilewright.topi.nn.lstm import lstm
from tilewright.topi.nn.norm import batch_norm, group_norm, instance_norm, l2_normalize, layer_norm, lrn, rms_norm
from tilewright.topi.nn.pad import dilate, edge_pad, mirror_pad, pad
from tilewright.topi.nn.paired_conv import conv2d_pairs, dense_pairs, depthwise_conv2d_pairs
from tilewright.topi.nn.phases import interleave_phases
from tilewright.topi.nn.pooling import (
    POOL_TYPE_CODE,
    adaptive_pool,
    adaptive_pool1d,
    adaptive_pool3d,
    global_pool,
    pool1d,
    pool2d,
    pool3d,
    pool_grad,
)
from tilewright.topi.nn.qnn import (
    SQNN_CODE_TO_DTYPE,
    SQNN_DISABLE,
    SQNN_DTYPE_TO_CODE,
    SQNN_INT8,
    SQNN_INT32,
    SQNN_UINT8,
    simulated_dequantize,
    simulated_quantize,
)
from tilewright.topi.nn.sampled import (
    conv2d_backward_weight_nchw,
    correlation_nchw,
    deformable_conv2d_nchw,
    deformable_conv2d_nhwc,
)
from tilewright.topi.nn.softmax import fast_softmax, log_softmax, softmax, softmax_common
from tilewright.topi.nn.space import depth_to_space, fifo_buffer, flatten, space_to_depth
from tilewright.topi.nn.strassen import conv2d_strassen_NCHWc, dense_strassen
from tilewright.topi.nn.upsampling import upsampling, upsampling3d
from tilewright.topi.nn.winograd import (
    conv2d_winograd_nchw,
    conv2d_winograd_nchw_without_weight_transform,
    conv2d_winograd_nhwc,
    conv2d_winograd_nhwc_without_weight_transform,
    conv2d_winograd_nnpack_weight_transform,
    conv2d_winograd_weight_transform,
    winograd_weight_transform,
)
from tilewright.topi.nn.winograd3d import (
    conv3d_winograd_ncdhw_without_weight_transform,
    conv3d_winograd_weight_transform,
)
from tilewright.topi.nn.winograd_blocked import conv2d_winograd_NCHWc
from tilewright.topi.sparse import (
    sparse_add,
    sparse_conv2d,
    sparse_dense,
    sparse_dense_sp_lhs,
    sparse_dense_sp_rhs,
    sparse_transpose,
)

logger = logging.getLogger("topi")

declare_modules(__name__, "nn")
__getattr__, __dir__ = lazy.late(__name__)

__all__ = [
    "POOL_TYPE_CODE",
    "SQNN_CODE_TO_DTYPE",
    "SQNN_DISABLE",
    "SQNN_DTYPE_TO_CODE",
    "SQNN_INT32",
    "SQNN_INT8",
    "SQNN_UINT8",
    "Workload",
    "adaptive_pool",
    "adaptive_pool1d",
    "adaptive_pool3d",
    "add_windows",
    "attention",
    "batch_matmul",
    "batch_norm",
    "batch_to_space_nd",
    "bias_add",
    "binarize_pack",
    "binary_dense",
    "bitpack",
    "bitserial_conv2d_nchw",
    "bitserial_conv2d_nhwc",
    "bitserial_dense",
    "conv",
    "conv1d",
    "conv1d_ncw",
    "conv1d_nwc",
    "conv1d_transpose_ncw",
    "conv2d",
    "conv2d_NCHWc",
    "conv2d_NCHWc_int8",
    "conv2d_backward_weight_nchw",
    "conv2d_gemm_weight_transform",
    "conv2d_gemm_without_weight_transform",
    "conv2d_hwcn",
    "conv2d_infer_layout",
    "conv2d_nchw",
    "conv2d_nhwc",
    "conv2d_pairs",
    "conv2d_plain_NCHWc",
    "conv2d_rows_NCHWc",
    "conv2d_strassen_NCHWc",
    "conv2d_transpose_nchw",
    "conv2d_transpose_nchw_preprocess",
    "conv2d_winograd_NCHWc",
    "conv2d_winograd_nchw",
    "conv2d_winograd_nchw_without_weight_transform",
    "conv2d_winograd_nhwc",
    "conv2d_winograd_nhwc_without_weight_transform",
    "conv2d_winograd_nnpack_weight_transform",
    "conv2d_winograd_weight_transform",
    "conv3d_ncdhw",
    "conv3d_ndhwc",
    "conv3d_transpose_ncdhw",
    "conv3d_transpose_ncdhw_preprocess",
    "conv3d_winograd_ncdhw_without_weight_transform",
    "conv3d_winograd_weight_transform",
    "conv_transpose",
    "correlation_nchw",
    "declaration_conv2d_transpose_impl",
    "declaration_conv3d_transpose_impl",
    "deformable_conv2d_nchw",
    "deformable_conv2d_nhwc",
    "dense",
    "dense_pack",
    "dense_pairs",
    "dense_strassen",
    "depth_to_space",
    "depthwise_conv2d_NCHWc",
    "depthwise_conv2d_backward_input_nhwc",
    "depthwise_conv2d_backward_weight_nhwc",
    "depthwise_conv2d_infer_layout",
    "depthwise_conv2d_nchw",
    "depthwise_conv2d_nhwc",
    "depthwise_conv2d_pairs",
    "dilate",
    "edge_pad",
    "fast_softmax",
    "fifo_buffer",
    "flatten",
    "global_pool",
    "group_conv1d_ncw",
    "group_conv1d_nwc",
    "group_conv1d_transpose_ncw",
    "group_conv2d_nchw",
    "group_conv2d_nhwc",
    "group_conv2d_transpose_nchw",
    "group_conv3d_transpose_ncdhw",
    "group_norm",
    "instance_norm",
    "interleave_phases",
    "l2_normalize",
    "layer_norm",
    "leaky_relu",
    "log_softmax",
    "logger",
    "lrn",
    "lstm",
    "matmul",
    "mirror_pad",
    "nll_loss",
    "pad",
    "pool1d",
    "pool2d",
    "pool3d",
    "pool_grad",
    "prelu",
    "reads_only_padding",
    "relu",
    "rms_norm",
    "scale_shift_nchw",
    "scale_shift_nchwc",
    "scale_shift_nhwc",
    "simulated_dequantize",
    "simulated_quantize",
    "softmax",
    "softmax_common",
    "space_to_batch_nd",
    "space_to_depth",
    "sparse_add",
    "sparse_conv2d",
    "sparse_dense",
    "sparse_dense_sp_lhs",
    "sparse_dense_sp_rhs",
    "sparse_transpose",
    "unpack_NCHWc_to_nchw",
    "upsampling",
    "upsampling3d",
    "winograd_weight_transform",
]
