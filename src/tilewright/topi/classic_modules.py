"""Modules of topi's packages by which classic programs import names, where the packages here are cut otherwise."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping
from typing import Any

from tilewright.support import lazy

MODULES: Mapping[str, Mapping[str, str]] = {
    "topi": {
        "argwhere": "argwhere hybrid_argwhere_1d hybrid_argwhere_2d hybrid_argwhere_3d hybrid_argwhere_4d hybrid_argwhere_5d",
        "scatter_elements": "scatter_elements",
        "searchsorted": "binary_search searchsorted",
        "sparse_fill_empty_rows": "sparse_fill_empty_rows",
        "sparse_reshape": "sparse_reshape",
        "tensor": "elemwise_sum full full_like",
        "transform": (
            "adv_index gather gather_nd invert_permutation matmul matrix_set_diag meshgrid one_hot reverse_sequence sliding_window "
            "sparse_to_dense strided_set take tensordot trilu unravel_index where"
        ),
        "unique": "unique",
    },
    "nn": {
        "batch_matmul": "batch_matmul batch_matmul_legalize logger",
        "batch_norm": "batch_norm",
        "batch_to_space_nd": "batch_to_space_nd",
        "bitserial_conv2d": "bitserial_conv2d_legalize bitserial_conv2d_nchw bitserial_conv2d_nhwc",
        "bitserial_dense": "bitserial_dense",
        "bitserial_util": "bitpack",
        "bnn": "binarize_pack binary_dense",
        "conv1d": "conv1d conv1d_ncw conv1d_nwc group_conv1d_ncw group_conv1d_nwc",
        "conv1d_transpose": "conv1d_transpose_ncw group_conv1d_transpose_ncw",
        "conv2d": (
            "Workload conv conv2d conv2d_NCHWc conv2d_NCHWc_int8 conv2d_alter_layout conv2d_gemm_weight_transform conv2d_hwcn "
            "conv2d_infer_layout conv2d_legalize conv2d_nchw conv2d_nhwc conv2d_transpose_alter_layout conv2d_winograd_nchw "
            "conv2d_winograd_nchw_without_weight_transform conv2d_winograd_nhwc conv2d_winograd_nhwc_without_weight_transform "
            "conv2d_winograd_nnpack_weight_transform conv2d_winograd_weight_transform group_conv2d_nchw group_conv2d_nhwc "
            "unpack_NCHWc_to_nchw"
        ),
        "conv2d_transpose": (
            "conv2d_transpose_legalize conv2d_transpose_nchw conv2d_transpose_nchw_preprocess declaration_conv2d_transpose_impl "
            "group_conv2d_transpose_nchw layout_transform"
        ),
        "conv3d": "conv3d_alter_layout conv3d_ncdhw conv3d_ndhwc conv3d_winograd_weight_transform",
        "conv3d_transpose": (
            "conv3d_transpose_legalize conv3d_transpose_ncdhw conv3d_transpose_ncdhw_preprocess declaration_conv3d_transpose_impl "
            "group_conv3d_transpose_ncdhw"
        ),
        "correlation": "correlation_nchw",
        "deformable_conv2d": "deformable_conv2d_nchw deformable_conv2d_nhwc",
        "dense": "batch_matmul_legalize dense_alter_layout dense_legalize matmul_legalize",
        "depth_to_space": "depth_to_space",
        "depthwise_conv2d": (
            "Workload depthwise_conv2d_NCHWc depthwise_conv2d_backward_input_nhwc depthwise_conv2d_backward_weight_nhwc "
            "depthwise_conv2d_infer_layout depthwise_conv2d_nchw depthwise_conv2d_nhwc"
        ),
        "dilate": "dilate",
        "fifo_buffer": "fifo_buffer",
        "flatten": "flatten",
        "group_norm": "group_norm",
        "instance_norm": "instance_norm",
        "layer_norm": "layer_norm",
        "local_response_norm": "lrn",
        "mapping": "scale_shift_nchw scale_shift_nchwc scale_shift_nhwc",
        "qnn": "add_alter_layout bias_add_legalize qnn_conv2d_alter_layout qnn_dense_alter_layout qnn_requantize_alter_layout",
        "rms_norm": "rms_norm",
        "space_to_batch_nd": "space_to_batch_nd",
        "space_to_depth": "space_to_depth",
        "sparse": (
            "sparse_add sparse_conv2d sparse_dense sparse_dense_alter_layout sparse_dense_sp_lhs sparse_dense_sp_rhs "
            "sparse_transpose"
        ),
    },
    "image": {
        "dilation2d": "dilation2d_nchw dilation2d_nhwc",
        "grid_sample": "affine_grid grid_sample",
        "resize": "crop_and_resize",
    },
    "vision": {
        "rcnn": "generate_anchor proposal reg_bbox reg_iou roi_align_nchw roi_align_nhwc roi_pool_nchw",
        "rcnn.proposal": "generate_anchor proposal reg_bbox reg_iou",
        "rcnn.roi_align": "roi_align_nchw roi_align_nhwc",
        "rcnn.roi_pool": "roi_pool_nchw",
        "reorg": "reorg",
        "ssd": "multibox_detection multibox_prior multibox_transform_loc",
        "ssd.multibox": "multibox_detection multibox_prior multibox_transform_loc",
    },
    "random": {
        "kernel": "multinomial normal threefry_generate threefry_split threefry_test_wrapping uniform",
    },
    "testing": {
        "adaptive_pool_python": "adaptive_pool",
        "attention_python": "attention_python",
        "batch_matmul": "batch_matmul",
        "batch_norm": "batch_norm",
        "batch_to_space_nd": "batch_to_space_nd_python",
        "conv1d_ncw_python": "conv1d_ncw_python group_conv1d_ncw_python",
        "conv1d_transpose_ncw_python": "conv1d_transpose_ncw_python group_conv1d_transpose_ncw_python",
        "conv2d_backcward_weight_python": "conv2d_backward_weight_python",
        "conv2d_hwcn_python": "conv2d_hwcn_python",
        "conv2d_nchw_python": "conv2d_nchw_python",
        "conv2d_nhwc_python": "conv2d_nhwc_python",
        "conv2d_transpose_python": "conv2d_transpose_nchw_python conv2d_transpose_nhwc_python",
        "conv3d_ncdhw_python": "conv3d_ncdhw_python",
        "conv3d_ndhwc_python": "conv3d_ndhwc_python",
        "conv3d_transpose_ncdhw_python": "conv3d_transpose_ncdhw_python",
        "correlation_nchw_python": "correlation_nchw_python",
        "crop_and_resize_python": "crop_and_resize_python",
        "deformable_conv2d_python": "deformable_conv2d_nchw_python deformable_conv2d_nhwc_python",
        "dense": "dense",
        "depth_to_space": "depth_to_space_python",
        "depthwise_conv2d_python": "depthwise_conv2d_python_nchw depthwise_conv2d_python_nchwc depthwise_conv2d_python_nhwc",
        "dilate_python": "dilate_python",
        "gather_nd_python": "gather_nd_python",
        "gather_python": "gather_python",
        "grid_sample_python": "affine_grid_python grid_sample_python",
        "group_norm_python": "group_norm_python",
        "instance_norm_python": "instance_norm_python",
        "l2_normalize_python": "l2_normalize_python",
        "layer_norm_python": "layer_norm_python",
        "lrn_python": "lrn_python",
        "lstm_python": "lstm_python",
        "matrix_set_diag": "matrix_set_diag",
        "nll_loss": "nll_loss",
        "one_hot": "one_hot",
        "pool_grad_python": "pool_grad_nchw",
        "poolnd_python": "poolnd_python",
        "reorg_python": "reorg_python",
        "resize_python": "resize1d_python resize2d_python resize3d_python",
        "rms_norm_python": "rms_norm_python",
        "roi_align_python": "roi_align_nchw_python roi_align_nhwc_python",
        "roi_pool_python": "roi_pool_nchw_python",
        "searchsorted": "searchsorted_ref",
        "sequence_mask_python": "sequence_mask",
        "slice_axis_python": "slice_axis_python",
        "softmax_python": "log_softmax_python softmax_python",
        "space_to_batch_nd": "space_to_batch_nd_python",
        "space_to_depth": "space_to_depth_python",
        "strided_slice_python": "strided_set_python strided_slice_python",
    },
    "x86": {
        "batch_matmul": (
            "batch_matmul_amx_schedule batch_matmul_blas_common batch_matmul_cblas batch_matmul_int8_compute "
            "batch_matmul_int8_schedule batch_matmul_mkl schedule_batch_matmul_cblas schedule_batch_matmul_int8 "
            "schedule_batch_matmul_mkl"
        ),
        "binarize_pack": "schedule_binarize_pack",
        "binary_dense": "schedule_binary_dense",
        "bitserial_conv2d": "bitserial_conv2d_nchw bitserial_conv2d_nhwc schedule_bitserial_conv2d_nchw schedule_bitserial_conv2d_nhwc",
        "bitserial_dense": "bitserial_dense schedule_bitserial_dense",
        "concat": "concatenate",
        "conv1d": "schedule_conv1d_ncw schedule_conv1d_nwc schedule_group_conv1d_ncw schedule_group_conv1d_nwc",
        "conv2d": "conv2d_nchw_dnnl conv2d_nhwc_dnnl logger schedule_conv2d_nchw_dnnl schedule_conv2d_nhwc schedule_conv2d_nhwc_dnnl",
        "conv2d_alter_op": "logger",
        "conv2d_int8": (
            "conv2d_NCHWc_int8 conv2d_nchw_int8 is_int8_hw_support schedule_conv2d_NCHWc_int8 schedule_conv2d_nchw_int8 "
            "schedule_conv2d_nhwc_pack_int8"
        ),
        "conv2d_transpose": "conv2d_transpose_nchw schedule_conv2d_transpose_nchw",
        "conv3d": "Workload3D conv3d_ncdhw conv3d_ndhwc schedule_conv3d_ncdhw schedule_conv3d_ndhwc",
        "conv3d_transpose": "conv3d_transpose_ncdhw schedule_conv3d_transpose_ncdhw",
        "dense": (
            "dense_amx_int8_schedule dense_cblas dense_dnnl dense_dynamic dense_int8 dense_int8_compute dense_int8_schedule "
            "dense_mkl matmul_blas_common matmul_cblas matmul_dnnl matmul_mkl schedule_dense_cblas schedule_dense_dnnl "
            "schedule_dense_dynamic schedule_dense_int8 schedule_dense_mkl schedule_matmul_cblas schedule_matmul_dnnl "
            "schedule_matmul_mkl"
        ),
        "dense_alter_op": "check_int8_applicable int8_int8_legalize",
        "group_conv2d": "group_conv2d_nchw group_conv2d_nchw_spatial_pack schedule_group_conv2d_nchw schedule_group_conv2d_nchwc",
        "injective": (
            "schedule_broadcast schedule_concatenate schedule_concatenate_cpu schedule_elemwise schedule_injective "
            "schedule_injective_from_existing"
        ),
        "math_alter_op": "logger",
        "nn": "schedule_batch_norm schedule_softmax",
        "pooling": "schedule_adaptive_pool schedule_pool",
        "reduction": "schedule_reduce",
        "roi_align": "roi_align_nchw",
        "sparse": "schedule_sparse_dense schedule_spconv2d_3x3_nchw schedule_spconv2d_3x3_nhwc spconv2d_3x3_nchw spconv2d_3x3_nhwc",
    },
    "arm_cpu": {
        "bitserial_conv2d": "bitserial_conv2d_nhwc schedule_bitserial_conv2d_nhwc",
        "bitserial_dense": "bitserial_dense schedule_bitserial_dense",
        "conv1d": "conv1d_nwc_dsp schedule_conv1d_nwc_dsp",
        "conv2d": (
            "compute_conv2d_NHWC compute_conv2d_NHWC_SME_transposed_B compute_conv2d_NHWC_hybrid compute_conv2d_NHWC_hybrid_SME "
            "compute_conv2d_NHWC_hybrid_SVE compute_conv2d_NHWC_hybrid_without_transform compute_conv2d_NHWC_without_transform "
            "conv2d_nchw_winograd_nnpack conv2d_nchw_winograd_nnpack_without_weight_transform conv2d_nhwc_dsp "
            "conv2d_nhwc_spatial_pack schedule_conv2d_NHWC schedule_conv2d_NHWC_hybrid schedule_conv2d_NHWC_hybrid_SVE "
            "schedule_conv2d_NHWC_hybrid_without_transform schedule_conv2d_nchw_winograd_nnpack "
            "schedule_conv2d_nchw_winograd_nnpack_without_weight_transform schedule_conv2d_nhwc_dsp "
            "schedule_conv2d_nhwc_spatial_pack"
        ),
        "conv2d_int8": (
            "compute_conv2d_NHWC_quantized_interleaved compute_conv2d_NHWC_quantized_interleaved_without_transform "
            "compute_conv2d_NHWC_quantized_native compute_conv2d_NHWC_quantized_native_without_transform conv2d_NCHWc_int8 "
            "conv2d_nchw_int8 is_int8_hw_support schedule_conv2d_NCHWc_int8 schedule_conv2d_NHWC_quantized_interleaved "
            "schedule_conv2d_NHWC_quantized_interleaved_without_transform schedule_conv2d_NHWC_quantized_native "
            "schedule_conv2d_NHWC_quantized_native_without_transform schedule_conv2d_nchw_int8"
        ),
        "conv2d_transpose": "conv2d_transpose_nchw schedule_conv2d_transpose_nchw",
        "dense": "dense_dsp schedule_dense_dsp",
        "depthwise_conv2d": (
            "compute_depthwise_conv2d_nhwc depthwise_conv2d_nchw_spatial_pack depthwise_conv2d_nhwc_dsp "
            "schedule_depthwise_conv2d_nchw_spatial_pack schedule_depthwise_conv2d_nhwc schedule_depthwise_conv2d_nhwc_dsp"
        ),
        "group_conv2d": "group_conv2d_nchw group_conv2d_nchw_spatial_pack schedule_group_conv2d_nchw schedule_group_conv2d_nchwc",
        "injective": "schedule_concatenate schedule_injective schedule_injective_from_existing",
        "matmul": "compute_matmul_sme",
        "pooling": "schedule_pool",
    },
    "cuda": {
        "argwhere": "argwhere argwhere_1d argwhere_2d argwhere_3d argwhere_4d argwhere_5d fdiv fmod logger schedule_argwhere",
        "batch_matmul": (
            "batch_matmul batch_matmul_cublas batch_matmul_int8 schedule_batch_matmul schedule_batch_matmul_cublas "
            "schedule_batch_matmul_int8"
        ),
        "batch_matmul_tensorcore": "batch_matmul_tensorcore batch_matmul_tensorcore_cuda schedule_batch_matmul_tensorcore",
        "conv1d": (
            "conv1d_ncw conv1d_nwc group_conv1d_ncw group_conv1d_nwc schedule_conv1d_ncw schedule_conv1d_nwc "
            "schedule_group_conv1d_ncw schedule_group_conv1d_nwc"
        ),
        "conv1d_transpose_ncw": "conv1d_transpose_ncw schedule_conv1d_transpose_ncw",
        "conv2d": "conv2d_backward_weight_cudnn conv2d_cudnn conv2d_nchw schedule_conv2d_cudnn schedule_conv2d_nchw",
        "conv2d_alter_op": "logger",
        "conv2d_hwcn": "conv2d_hwcn schedule_conv2d_hwcn",
        "conv2d_hwnc_tensorcore": (
            "hwnc_tensorcore_cuda schedule_hwnc_tensorcore_cuda conv2d_hwnc_tensorcore schedule_conv2d_hwnc_tensorcore "
            "unpack_HWNCnc_to_hwnc"
        ),
        "conv2d_int8": "conv2d_NCHWc_int8 conv2d_nchw_int8 schedule_conv2d_NCHWc_int8 schedule_conv2d_nchw_int8",
        "conv2d_nhwc_tensorcore": (
            "nhwc_tensorcore_cuda schedule_nhwc_tensorcore_cuda conv2d_nhwc_tensorcore schedule_conv2d_nhwc_tensorcore"
        ),
        "conv2d_nhwc_winograd": (
            "nhwc_winograd_cuda schedule_nhwc_winograd_cuda "
            "conv2d_nhwc_winograd_direct conv2d_nhwc_winograd_direct_without_weight_transform conv2d_nhwc_winograd_tensorcore "
            "conv2d_nhwc_winograd_tensorcore_without_weight_transform schedule_conv2d_nhwc_winograd_direct "
            "schedule_conv2d_nhwc_winograd_direct_without_weight_transform schedule_conv2d_nhwc_winograd_tensorcore "
            "schedule_conv2d_nhwc_winograd_tensorcore_without_weight_transform"
        ),
        "conv2d_transpose": "conv2d_transpose_cudnn conv2d_transpose_nchw schedule_conv2d_transpose_nchw",
        "conv2d_winograd": (
            "winograd_cuda schedule_winograd_cuda "
            "conv2d_nchw_winograd conv2d_nchw_winograd_without_weight_transform conv2d_winograd_nchw_cuda conv2d_winograd_nhwc_cuda "
            "logger schedule_conv2d_nchw_winograd schedule_conv2d_nchw_winograd_without_weight_transform"
        ),
        "conv3d": "conv3d_cudnn conv3d_ncdhw conv3d_ndhwc schedule_conv3d_cudnn schedule_conv3d_ncdhw schedule_conv3d_ndhwc",
        "conv3d_alter_op": "logger",
        "conv3d_ndhwc_tensorcore": (
            "ndhwc_tensorcore_cuda schedule_ndhwc_tensorcore_cuda conv3d_ndhwc_tensorcore schedule_conv3d_ndhwc_tensorcore"
        ),
        "conv3d_transpose_ncdhw": "conv3d_transpose_ncdhw schedule_conv3d_transpose_ncdhw",
        "conv3d_winograd": (
            "winograd_cuda winograd_without_depth_cuda schedule_winograd_cuda schedule_winograd_no_depth_cuda "
            "conv3d_ncdhw_winograd conv3d_ncdhw_winograd_without_weight_transform logger schedule_conv3d_ncdhw_winograd "
            "schedule_conv3d_ncdhw_winograd_without_weight_transform"
        ),
        "correlation": "correlation_nchw schedule_correlation_nchw",
        "deformable_conv2d": "deformable_conv2d_nchw schedule_deformable_conv2d_nchw",
        "dense": "dense_cublas dense_int8 logger matmul_cublas schedule_dense_cublas schedule_dense_int8 schedule_matmul_cublas",
        "dense_tensorcore": "dense_tensorcore dense_tensorcore_cuda schedule_dense_tensorcore",
        "depthwise_conv2d": (
            "depthwise_conv2d_nchw schedule_depthwise_conv2d_backward_input_nhwc schedule_depthwise_conv2d_backward_weight_nhwc "
            "schedule_depthwise_conv2d_nchw schedule_depthwise_conv2d_nhwc"
        ),
        "group_conv2d_nchw": (
            "group_conv2d_NCHWc_int8 group_conv2d_nchw group_conv2d_nchw_int8 schedule_group_conv2d_NCHWc_int8 "
            "schedule_group_conv2d_nchw schedule_group_conv2d_nchw_int8"
        ),
        "injective": "schedule_broadcast schedule_elemwise schedule_injective schedule_injective_from_existing",
        "nms": "all_class_non_max_suppression get_valid_counts non_max_suppression",
        "nn": "schedule_lrn",
        "pooling": "schedule_adaptive_pool schedule_pool schedule_pool_grad",
        "rcnn": "proposal",
        "rcnn.proposal": "proposal",
        "reduction": "schedule_reduce",
        "scan": "cumprod cumsum exclusive_scan get_reduction_from_exclusive_scan inclusive_scan scan_thrust scanop schedule_scan",
        "scatter": "scatter_nd scatter_via_sort schedule_scatter_via_sort",
        "scatter_elements": "scatter_elements",
        "searchsorted": "searchsorted",
        "signal": "dft stft",
        "softmax": "log_softmax_cudnn schedule_log_softmax_cudnn schedule_softmax schedule_softmax_cudnn softmax_cudnn",
        "sort": (
            "argsort argsort_thrust schedule_argsort schedule_sort schedule_topk sort sort_by_key sort_thrust stable_sort_by_key_thrust "
            "topk topk_thrust"
        ),
        "sparse": (
            "is_valid_for_sparse_dense_padded pad_sparse_matrix schedule_sparse_dense schedule_sparse_dense_padded sparse_dense "
            "sparse_dense_padded sparse_dense_tir"
        ),
        "sparse_reshape": "sparse_reshape",
        "ssd": "multibox_detection multibox_prior multibox_transform_loc",
        "ssd.multibox": "multibox_detection multibox_prior multibox_transform_loc",
        "tensorcore_alter_op": "logger",
        "transform": "invert_permutation schedule_transpose schedule_transpose_from_existing",
        "unique": "unique",
        "vision": (
            "schedule_get_valid_counts schedule_multibox_detection schedule_multibox_prior schedule_multibox_transform_loc "
            "schedule_nms schedule_proposal schedule_reorg schedule_roi_align schedule_roi_pool"
        ),
    },
    "gpu": {
        "conv2d": "conv2d_nhwc schedule_conv2d_nhwc",
        "dense": (
            "dense_large_batch dense_small_batch logger matmul_default schedule_dense_large_batch schedule_dense_small_batch "
            "schedule_matmul_default"
        ),
    },
    "generic": {
        "conv2d": "schedule_depthwise_conv2d_nhwc",
        "default": "default_schedule",
        "extern": "schedule_extern",
        "image": "schedule_dilation2d_nchw schedule_dilation2d_nhwc",
        "injective": "schedule_broadcast schedule_elemwise schedule_injective schedule_injective_from_existing",
        "math": "schedule_einsum",
        "nn": (
            "schedule_adaptive_pool schedule_batch_matmul schedule_batch_norm schedule_binarize_pack schedule_binary_dense "
            "schedule_bitpack schedule_bitserial_conv2d_nchw schedule_bitserial_conv2d_nhwc schedule_bitserial_dense "
            "schedule_conv1d_ncw schedule_conv1d_nwc schedule_conv1d_transpose_ncw schedule_conv2d_NCHWc schedule_conv2d_NCHWc_int8 "
            "schedule_conv2d_gemm_weight_transform schedule_conv2d_hwcn schedule_conv2d_nchw schedule_conv2d_nhwc "
            "schedule_conv2d_nhwc_pack schedule_conv2d_transpose_nchw schedule_conv2d_winograd_nnpack_weight_transform "
            "schedule_conv2d_winograd_weight_transform schedule_conv2d_winograd_without_weight_transform schedule_conv3d_ncdhw "
            "schedule_conv3d_ndhwc schedule_conv3d_transpose_ncdhw schedule_conv3d_winograd_weight_transform "
            "schedule_correlation_nchw schedule_deformable_conv2d_nchw schedule_deformable_conv2d_nhwc schedule_dense "
            "schedule_depthwise_conv2d_NCHWc schedule_depthwise_conv2d_nchw schedule_depthwise_conv2d_nhwc schedule_fast_softmax "
            "schedule_group_conv1d_ncw schedule_group_conv1d_nwc schedule_group_conv1d_transpose_ncw schedule_group_conv2d_nchw "
            "schedule_group_conv2d_nhwc schedule_group_conv2d_transpose_nchw schedule_group_conv3d_transpose_ncdhw schedule_lrn "
            "schedule_lstm schedule_matmul schedule_pool schedule_pool_grad schedule_reduce schedule_softmax schedule_sparse_conv2d "
            "schedule_sparse_dense schedule_sparse_transpose"
        ),
        "search": "schedule_argwhere schedule_sparse_fill_empty_rows schedule_unique",
        "sort": "schedule_argsort schedule_sort schedule_topk",
        "vision": (
            "schedule_get_valid_counts schedule_multibox_detection schedule_multibox_prior schedule_multibox_transform_loc "
            "schedule_nms schedule_proposal schedule_reorg schedule_roi_align schedule_roi_pool"
        ),
    },
}
"""By package: the names of each module that stand in the package."""


def declare_modules(package: str, key: str) -> None:
    """Declares the modules of a package that are no files: they hold names of the package."""
    folder = sys.modules[package].__path__[0]
    for module, words in MODULES[key].items():
        if not os.path.exists(os.path.join(folder, f"{module}.py")):
            lazy.faces(package, {module: words.split()})


def elsewhere(path: str) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """`__getattr__` and `__dir__` of a module that is a file, and by which programs import other names of its package, too."""
    package, _, module = path.rpartition(".")
    words = MODULES[package.rpartition(".")[2]][module]
    lazy.declare(path, {name: f"{package}:{name}" for name in words.split()})
    return lazy.late(path)
