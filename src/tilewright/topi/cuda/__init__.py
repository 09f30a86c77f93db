"""Computes and schedules for GPUs under their classic names, whatever their language: CUDA, OpenCL, Metal, Vulkan.

Computes are those of the other packages; programs of loops among them (sorts, scans, suppression) have a thread for each line. Names of
libraries (cuDNN, cuBLAS, Thrust) compute the same without the library. Schedules bind loops to threads (`topi.stage_schedules.gpu`); with
a record of a template, by its knobs.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

from tilewright import te
from tilewright.support import lazy
from tilewright.topi import nn, vision
from tilewright.topi.arrange import invert_permutation
from tilewright.topi.classic_modules import declare_modules
from tilewright.topi.counted import argwhere, unique
from tilewright.topi.cuda import forms
from tilewright.topi.cuda.forms import is_valid_for_sparse_dense_padded, pad_sparse_matrix, unpack_HWNCnc_to_hwnc
from tilewright.topi.declared import plain_schedules, template_compute, template_schedule
from tilewright.topi.lang import tir
from tilewright.topi.scan import cumprod, cumsum
from tilewright.topi.scatter import scatter_elements, scatter_nd
from tilewright.topi.signal import dft, stft
from tilewright.topi.signatures import named
from tilewright.topi.sort import searchsorted, sort, topk
from tilewright.topi.sparse import sparse_reshape
from tilewright.topi.stage_schedules.gpu import schedule_gpu, spread_threads, template_gpu
from tilewright.topi.stage_schedules.programs import on_threads

logger = logging.getLogger("topi")
fdiv, fmod = tir.floordiv, tir.floormod

CONV = "data kernel strides padding dilation out_dtype=None"
GROUPS = "data kernel strides padding dilation groups out_dtype=None"
LAYER = "data weight bias=None out_dtype=None"
BATCH = "x y out_shape=None out_dtype=None transpose_a=False transpose_b=True"
STRIDE = "data kernel stride padding"
WINOGRAD_OF = f"{CONV.replace('kernel', 'weight')} pre_computed=False auto_scheduler_rewritten_layout='' meta_schedule_original_shape=None"
Form = Callable[..., Any]


def _without_workspace(form: Form) -> Form:
    """A compute whose last argument is a workspace, which only libraries need."""
    return lambda *args: form(*args[:-1])


TEMPLATES: dict[str, tuple[str, Form]] = {
    "batch_matmul": (BATCH, nn.batch_matmul),
    "batch_matmul_cublas": (BATCH, nn.batch_matmul),
    "batch_matmul_int8": (BATCH, nn.batch_matmul),
    "batch_matmul_tensorcore": (BATCH, nn.batch_matmul),
    "conv1d_ncw": (CONV, nn.conv1d_ncw),
    "conv1d_nwc": (CONV, nn.conv1d_nwc),
    "conv1d_transpose_ncw": (f"{STRIDE} out_dtype output_padding=0", nn.conv1d_transpose_ncw),
    "conv2d_NCHWc_int8": (
        f"{STRIDE} dilation layout out_dtype",
        lambda x, w, s, p, d, _, dtype: forms.conv2d_blocks_of_bytes(x, w, s, p, d, 1, dtype),
    ),
    "conv2d_hwcn": (CONV, nn.conv2d_hwcn),
    "conv2d_nchw": (CONV, nn.conv2d_nchw),
    "conv2d_nchw_winograd": (CONV, nn.conv2d_winograd_nchw),
    "conv2d_nchw_winograd_without_weight_transform": (CONV, nn.conv2d_winograd_nchw_without_weight_transform),
    "conv2d_nhwc_tensorcore": (CONV, nn.conv2d_nhwc),
    "conv2d_nhwc_winograd_direct": (CONV, nn.conv2d_winograd_nhwc),
    "conv2d_nhwc_winograd_direct_without_weight_transform": (CONV, forms.conv2d_nhwc_winograd_of_transformed),
    "conv2d_nhwc_winograd_tensorcore": (CONV, nn.conv2d_winograd_nhwc),
    "conv2d_nhwc_winograd_tensorcore_without_weight_transform": (CONV, forms.conv2d_nhwc_winograd_of_transformed),
    "conv2d_transpose_nchw": (f"{STRIDE} out_dtype output_padding groups=1", nn.group_conv2d_transpose_nchw),
    "conv3d_ncdhw": (GROUPS, nn.conv3d_ncdhw),
    "conv3d_ncdhw_winograd": (GROUPS, forms.conv3d_winograd),
    "conv3d_ncdhw_winograd_without_weight_transform": (GROUPS, forms.conv3d_winograd_of_transformed),
    "conv3d_ndhwc": (GROUPS, nn.conv3d_ndhwc),
    "conv3d_ndhwc_tensorcore": (GROUPS, nn.conv3d_ndhwc),
    "conv3d_transpose_ncdhw": (f"{STRIDE} out_dtype output_padding=0", nn.declaration_conv3d_transpose_impl),
    "correlation_nchw": (
        "data1 data2 kernel_size max_displacement stride1 stride2 padding is_multiply", nn.correlation_nchw,
    ),
    "deformable_conv2d_nchw": (
        "data offset kernel strides padding dilation deformable_groups groups out_dtype=None", nn.deformable_conv2d_nchw,
    ),
    "dense_cublas": (LAYER, nn.dense),
    "dense_int8": (LAYER, nn.dense),
    "dense_tensorcore": (LAYER, nn.dense),
    "depthwise_conv2d_nchw": (CONV, nn.depthwise_conv2d_nchw),
    "group_conv1d_ncw": (GROUPS, nn.group_conv1d_ncw),
    "group_conv1d_nwc": (GROUPS, nn.group_conv1d_nwc),
    "group_conv2d_NCHWc_int8": (f"{STRIDE} dilation groups out_dtype='int32'", forms.conv2d_blocks_of_bytes),
    "matmul_cublas": (
        "tensor_a tensor_b bias=None out_dtype=None transpose_a=False transpose_b=False", nn.matmul,
    ),
    "scatter_via_sort": ("data indices updates axis=0 reduction='add'", on_threads(scatter_elements)),
}  # fmt: skip
"""Templates of AutoTVM, by the names of their computes: parameters after cfg, and what they compute."""

COMPUTES: dict[str, tuple[str, Form]] = {
    "all_class_non_max_suppression": (
        "boxes scores max_output_boxes_per_class iou_threshold score_threshold output_format='onnx'",
        on_threads(vision.all_class_non_max_suppression),
    ),
    "argsort": ("data axis=-1 is_ascend=1 dtype='float32' ret_type='indices'", on_threads(forms.argsort)),
    "argsort_thrust": (
        "data axis=-1 is_ascend=1 dtype='float32' ret_type='indices' workspace=None",
        on_threads(_without_workspace(forms.argsort)),
    ),
    "argwhere": ("output_shape condition", on_threads(argwhere)),
    **{
        f"argwhere_{n}d": ("output_shape condition", on_threads(argwhere))
        for n in range(1, 6)
    },
    "batch_matmul_tensorcore_cuda": ("x y out_dtype=None", lambda x, y, dtype: nn.batch_matmul(x, y, None, dtype)),
    "conv2d_hwnc_tensorcore": ("data kernel strides padding dilation in_dtype out_dtype='int32'", forms.conv2d_hwnc),
    "conv2d_nchw_int8": (CONV, nn.conv2d_nchw),
    "conv2d_winograd_nchw_cuda": (
        WINOGRAD_OF,
        nn.conv2d_winograd_nchw,
    ),
    "conv2d_winograd_nhwc_cuda": (
        WINOGRAD_OF,
        nn.conv2d_winograd_nhwc,
    ),
    "cumprod": ("data axis=None dtype=None exclusive=None workspace=None", on_threads(_without_workspace(cumprod))),
    "cumsum": ("data axis=None dtype=None exclusive=None workspace=None", on_threads(_without_workspace(cumsum))),
    "dense_tensorcore_cuda": (LAYER, nn.dense),
    "dft": ("re_data im_data inverse", on_threads(dft)),
    "exclusive_scan": (
        "data axis=-1 return_reduction=False output_dtype=None binop=None identity_value=0 workspace=None",
        on_threads(_without_workspace(forms.exclusive_scan)),
    ),
    "get_reduction_from_exclusive_scan": (
        "data ex_scan_output binop=None",
        forms.get_reduction_from_exclusive_scan,
    ),
    "get_valid_counts": ("data score_threshold=0 id_index=0 score_index=1", on_threads(vision.get_valid_counts)),
    "group_conv2d_nchw_int8": (GROUPS, nn.group_conv2d_nchw),
    "inclusive_scan": (
        "data axis=-1 output_dtype=None binop=None identity_value=0 workspace=None",
        on_threads(lambda d, a, t, binop, start, _: forms.scan(d, a, t, binop, start, False)),
    ),
    "invert_permutation": ("data", on_threads(invert_permutation)),
    "log_softmax_cudnn": ("x axis=-1", nn.log_softmax),
    "multibox_detection": (
        "cls_prob loc_pred anchor clip=True threshold=0.01 nms_threshold=0.5 force_suppress=False variances=(0.1,0.1,0.2,0.2) nms_topk=-1",
        on_threads(vision.multibox_detection),
    ),
    "multibox_prior": ("data sizes=(1,) ratios=(1,) steps=(-1,-1) offsets=(0.5,0.5) clip=False", vision.multibox_prior),
    "multibox_transform_loc": (
        "cls_prob loc_pred anchor clip=True threshold=0.01 variances=(0.1,0.1,0.2,0.2) keep_background=False",
        on_threads(vision.multibox_transform_loc),
    ),
    "non_max_suppression": (
        "data valid_count indices max_output_size=-1 iou_threshold=0.5 force_suppress=False top_k=-1 coord_start=2 score_index=1 id_index=0"
        " return_indices=True invalid_to_bottom=False",
        on_threads(vision.non_max_suppression),
    ),
    "proposal": (
        "cls_prob bbox_pred im_info scales ratios feature_stride threshold rpn_pre_nms_top_n rpn_post_nms_top_n rpn_min_size iou_loss",
        on_threads(vision.proposal),
    ),
    "scanop": (
        "data binop identity_value axis=None dtype=None exclusive=None workspace=None",
        on_threads(lambda d, binop, start, a, t, exclusive, _: forms.scan(d, a, t, binop, start, exclusive)),
    ),
    "scan_thrust": (
        "data output_dtype exclusive=True return_reduction=False binop=None workspace=None",
        on_threads(
            lambda d, t, exclusive, both, binop, _: (
                forms.exclusive_scan(d, -1, both, t, binop, 0) if exclusive else forms.scan(d, -1, t, binop, 0, False)
            )
        ),
    ),
    "scatter_elements": ("data indices updates axis=0 reduction='update'", on_threads(scatter_elements)),
    "scatter_nd": ("data indices updates mode", on_threads(scatter_nd)),
    "searchsorted": ("sorted_sequence values right=False out_dtype='int64'", on_threads(searchsorted)),
    "softmax_cudnn": ("x axis=-1", nn.softmax),
    "sort": ("data axis=-1 is_ascend=1", on_threads(sort)),
    "sort_by_key": ("keys values axis=-1 is_ascend=1", on_threads(forms.sort_by_key)),
    "sort_thrust": ("data axis=-1 is_ascend=1 workspace=None", on_threads(_without_workspace(sort))),
    "sparse_dense": ("data weight_data weight_indices weight_indptr sparse_lhs=False", on_threads(nn.sparse_dense)),
    "sparse_dense_padded": (
        "data weight_data weight_indices weight_indptr sparse_lhs=False", on_threads(nn.sparse_dense),
    ),
    "sparse_dense_tir": ("data w_data w_indices w_indptr", on_threads(nn.sparse_dense)),
    "sparse_reshape": (
        "sparse_indices prev_shape new_shape new_sparse_indices_shape=None new_shape_shape=None", on_threads(sparse_reshape),
    ),
    "stable_sort_by_key_thrust": (
        "keys values for_scatter=False workspace=None", on_threads(_without_workspace(forms.stable_sort_by_key)),
    ),
    "stft": (
        "data n_fft hop_length win_length window normalized onesided output_shape=None", on_threads(stft),
    ),
    "topk": (
        "data k=1 axis=-1 ret_type='both' is_ascend=False dtype='int64'", on_threads(topk),
    ),
    "topk_thrust": (
        "data k=1 axis=-1 ret_type='both' is_ascend=False dtype='int64' workspace=None",
        on_threads(_without_workspace(topk)),
    ),
    "unique": ("data is_sorted=True return_counts=False", on_threads(unique)),
}  # fmt: skip
"""Computes that are no templates."""

SCHEDULES = """adaptive_pool argsort argwhere broadcast conv2d_nchw_int8 depthwise_conv2d_backward_input_nhwc
depthwise_conv2d_backward_weight_nhwc depthwise_conv2d_nhwc elemwise get_valid_counts group_conv2d_nchw_int8 injective
log_softmax_cudnn lrn multibox_detection multibox_prior multibox_transform_loc nms pool_grad proposal reduce reorg roi_align roi_pool scan
softmax softmax_cudnn sort sparse_dense sparse_dense_padded topk transpose"""
WITH_LAYOUT = "pool"
TASKS_ONLY = "conv2d_cudnn conv3d_cudnn conv2d_hwnc_tensorcore group_conv2d_nchw"


def schedule_injective_from_existing(sch: te.Schedule, out: te.Tensor) -> te.Schedule:
    """Binds the loops of an output in a schedule to threads."""
    spread_threads(sch, out)
    return sch


def schedule_transpose_from_existing(s: te.Schedule, out: te.Tensor) -> te.Schedule:
    """Binds the loops of a transposed output in a schedule to threads."""
    return schedule_injective_from_existing(s, out)


def conv2d_backward_weight_cudnn(
    dy: te.Tensor,
    x: te.Tensor,
    kernel_size: Any,
    padding: Any,
    stride: Any,
    dilation: Any,
    groups: int,
    layout: str,
    output_dtype: str,
) -> te.Tensor:
    """The adjoint of a convolution's weights (O, C / groups, KH, KW), from that of its result and from its data, in NCHW."""
    if layout != "NCHW":
        raise ValueError(f"conv2d_backward_weight_cudnn takes NCHW, but the layout is {layout}")
    return nn.conv2d_backward_weight_nchw(dy, x, kernel_size, stride, padding, dilation, groups, output_dtype)


def conv2d_transpose_cudnn(
    x: te.Tensor,
    w: te.Tensor,
    stride: Any,
    padding: Any,
    out_dtype: str,
    output_padding: Any = (0, 0),
    layout: str = "NCHW",
    groups: int = 1,
) -> te.Tensor:
    """The adjoint of a convolution of images in NCHW, with weights (I, O / groups, KH, KW)."""
    if layout != "NCHW":
        raise ValueError(f"conv2d_transpose_cudnn takes NCHW, but the layout is {layout}")
    return nn.group_conv2d_transpose_nchw(x, w, stride, padding, out_dtype, output_padding, groups)


def _conv_cudnn(
    data: te.Tensor,
    kernel: te.Tensor,
    strides: Any,
    padding: Any,
    dilation: Any,
    groups: int,
    layout: str,
    out_dtype: str,
) -> te.Tensor:
    """Convolution in the layout of the data, with weights that have the output channels first: OIHW, or OHWI with channels last."""
    weights = layout.replace("N", "O").replace("C", "I")
    return nn.conv(data, kernel, strides, padding, dilation, groups, layout, weights, out_dtype)


_CUDNN = "data kernel strides padding dilation groups layout='NCHW' out_dtype='float32'"

CONV_OF = "cfg Input Filter stride padding dilation out_dtype"
WINOGRAD = "cfg data kernel strides padding dilation out_dtype"
PARTS: dict[str, tuple[str, Form]] = {
    "hwnc_tensorcore_cuda": (CONV_OF, lambda x, w, s, p, d, dtype: forms.conv2d_hwnc(x, w, s, p, d, x.dtype, dtype)),
    "ndhwc_tensorcore_cuda": (CONV_OF, lambda x, w, s, p, d, dtype: nn.conv3d_ndhwc(x, w, s, p, d, 1, dtype)),
    "nhwc_tensorcore_cuda": (CONV_OF, nn.conv2d_nhwc),
    "nhwc_winograd_cuda": (
        f"{WINOGRAD} use_tensorcore=False pre_computed=False",
        lambda x, w, s, p, d, dtype, _, known: (
            forms.conv2d_nhwc_winograd_of_transformed if known else nn.conv2d_winograd_nhwc
        )(x, w, s, p, d, dtype),
    ),
    "winograd_cuda": (
        f"{WINOGRAD} pre_computed",
        lambda x, w, s, p, d, dtype, known: forms.winograd(x, w, s, p, d, dtype, known),
    ),
    "winograd_without_depth_cuda": (
        f"{WINOGRAD} pre_computed",
        lambda x, w, s, p, d, dtype, known: forms.winograd(x, w, s, p, d, dtype, known),
    ),
}
"""Parts of templates, which take their configuration."""
ON_EXISTING = {
    "schedule_hwnc_tensorcore_cuda": "Conv",
    "schedule_ndhwc_tensorcore_cuda": "Conv",
    "schedule_nhwc_tensorcore_cuda": "Conv",
    "schedule_nhwc_winograd_cuda": "output use_tensorcore=False pre_computed=False",
    "schedule_winograd_cuda": "output pre_computed",
    "schedule_winograd_no_depth_cuda": "output pre_computed",
}
"""Parts of schedules: of all stages of a schedule s that nothing was done to."""


def _parts_of_schedules(cfg: Any, s: te.Schedule, *_: Any) -> te.Schedule:
    return template_gpu(s, cfg)


def _without_cfg(form: Form) -> Form:
    return lambda cfg, *args: form(*args)


LIBRARIES = ("cublas", "conv3d_cudnn", "scatter_via_sort")
"""Ends of names of templates whose schedules do not read their configuration."""

_DECLARED: dict[str, Any] = {
    "group_conv2d_nchw": template_compute(
        "group_conv2d_nchw",
        "group_conv2d_nchw.cuda",
        f"{STRIDE} dilation groups out_dtype=None",
        nn.group_conv2d_nchw,
        "_",
    ),
    **{
        name: named(_without_cfg(form), name, words, f"The compute of templates {name}.")
        for name, (words, form) in PARTS.items()
    },
    **{
        name: named(_parts_of_schedules, name, f"cfg s {words}", "Loops of all stages of a schedule, bound to threads.")
        for name, words in ON_EXISTING.items()
    },
    **{
        name: template_compute(name, f"{name}.cuda", parameters, form) for name, (parameters, form) in TEMPLATES.items()
    },
    **{
        name: template_compute(name, f"{name}.cuda", _CUDNN.replace("NCHW", layout), _conv_cudnn)
        for name, layout in (("conv2d_cudnn", "NCHW"), ("conv3d_cudnn", "NCDHW"))
    },
    **{
        name: named(form, name, parameters, (form.__doc__ or f"`{name}` on a GPU.").strip())
        for name, (parameters, form) in COMPUTES.items()
    },
    **{
        f"schedule_{name}": template_schedule(
            f"schedule_{name}", f"{name}.cuda", template_gpu, "_ outs" if name.endswith(LIBRARIES) else "cfg outs"
        )
        for name in [*TEMPLATES, *TASKS_ONLY.split()]
    },
    **plain_schedules(SCHEDULES, schedule_gpu),
    **plain_schedules(WITH_LAYOUT, schedule_gpu, "outs layout"),
    **plain_schedules("adaptive_pool", schedule_gpu, "outs layout='NCHW'"),
}
globals().update(_DECLARED)

declare_modules(__name__, "cuda")
__getattr__, __dir__ = lazy.late(__name__)

__all__ = [
    "conv2d_backward_weight_cudnn", "conv2d_transpose_cudnn", "fdiv", "fmod", "is_valid_for_sparse_dense_padded", "logger",
    "pad_sparse_matrix", "schedule_injective_from_existing", "schedule_transpose_from_existing", "unpack_HWNCnc_to_hwnc", *_DECLARED,
]  # fmt: skip
