"""Templates of AutoTVM and schedules for processors with vectors, under their classic names.

Builds use templates only for workloads that have a record (`autotvm.apply_history_best`); the rules of the target schedule everything
else. Templates with forms of their own are in the modules of this package; those that the tables declare have the loops of
`topi.stage_schedules.cpu`. Names of libraries (BLAS, MKL, DNNL) compute the same without the library.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from functools import partial
from typing import Any

from tilewright import te
from tilewright.support import lazy
from tilewright.topi import nn, vision
from tilewright.topi.classic_modules import declare_modules
from tilewright.topi.declared import plain_schedules, template_compute, template_schedule
from tilewright.topi.signatures import named
from tilewright.topi.stage_schedules.cpu import schedule_cpu, schedule_product, spread, template_cpu
from tilewright.topi.transform import concatenate
from tilewright.topi.x86 import forms, tensor_intrin
from tilewright.topi.x86.batch_matmul import batch_matmul, schedule_batch_matmul
from tilewright.topi.x86.conv2d import conv2d_nchw, conv2d_NCHWc, schedule_conv2d_nchw, schedule_conv2d_NCHWc
from tilewright.topi.x86.dense import dense_nopack, dense_pack, schedule_dense_nopack, schedule_dense_pack
from tilewright.topi.x86.depthwise_conv2d import (
    depthwise_conv2d_nchw,
    depthwise_conv2d_NCHWc,
    schedule_depthwise_conv2d_nchw,
    schedule_depthwise_conv2d_NCHWc,
)
from tilewright.topi.x86.forms import Workload3D, check_int8_applicable, is_int8_hw_support

logger = logging.getLogger("topi")

CONV = "data kernel strides padding dilation out_dtype=None"
GROUPS = "data kernel strides padding dilation groups out_dtype=None"
LAYER = "data weight bias=None out_dtype=None"
MATMUL = "tensor_a tensor_b bias=None out_dtype=None transpose_a=False transpose_b=False"
BATCH = "tensor_a tensor_b out_shape=None out_dtype=None transpose_a=False transpose_b=True"
BITS = "data kernel stride padding in_bits weight_bits pack_dtype='uint32' out_dtype='int16' unipolar=True"

TEMPLATES: dict[str, tuple[str, Callable[..., Any]]] = {
    "batch_matmul_cblas": (BATCH, nn.batch_matmul),
    "batch_matmul_mkl": (BATCH, nn.batch_matmul),
    "bitserial_conv2d_nchw": (BITS, nn.bitserial_conv2d_nchw),
    "bitserial_conv2d_nhwc": (BITS, nn.bitserial_conv2d_nhwc),
    "bitserial_dense": (
        "data weight data_bits weight_bits pack_dtype='uint32' out_dtype='int16' unipolar=True", nn.bitserial_dense,
    ),
    "conv2d_NCHWc_int8": (
        "data kernel strides padding dilation layout='NCHW' out_layout='NCHW' out_dtype='int32'", forms.conv2d_NCHWc_int8,
    ),
    "conv2d_nchw_dnnl": (CONV, nn.conv2d_nchw),
    "conv2d_nhwc_dnnl": (CONV, nn.conv2d_nhwc),
    "conv3d_ncdhw": (GROUPS, nn.conv3d_ncdhw),
    "conv3d_ndhwc": (GROUPS, nn.conv3d_ndhwc),
    "dense_cblas": (LAYER, nn.dense),
    "dense_dnnl": (LAYER, nn.dense),
    "dense_int8": (LAYER, nn.dense),
    "dense_mkl": (LAYER, nn.dense),
    "group_conv2d_nchw_spatial_pack": (GROUPS, nn.group_conv2d_nchw),
    "matmul_cblas": (MATMUL, nn.matmul),
    "matmul_dnnl": (MATMUL, nn.matmul),
    "matmul_mkl": (MATMUL, nn.matmul),
    "spconv2d_3x3_nchw": ("data wdat wind wptr layout='NCHW'", lambda *t: forms.spconv2d_3x3("NCHW", *t[:4])),
    "spconv2d_3x3_nhwc": ("data wdat wind wptr layout='NHWC'", lambda *t: forms.spconv2d_3x3("NHWC", *t[:4])),
}  # fmt: skip
"""Templates, by the names of their computes: parameters after cfg, and what they compute."""

COMPUTES: dict[str, tuple[str, Callable[..., Any]]] = {
    "concatenate": ("data axis", concatenate),
    "conv2d_nchw_int8": (CONV, nn.conv2d_nchw),
    "conv2d_transpose_nchw": (
        "data kernel strides padding out_dtype output_padding=(0,0)", nn.declaration_conv2d_transpose_impl,
    ),
    "conv3d_transpose_ncdhw": (
        "data kernel strides padding out_dtype output_padding=(0,0,0)", nn.declaration_conv3d_transpose_impl,
    ),
    "dense_dynamic": ("A B bias dtype", nn.dense),
    "group_conv2d_nchw": (GROUPS, nn.group_conv2d_nchw),
    "roi_align_nchw": ("data rois pooled_size spatial_scale mode sample_ratio=-1", vision.roi_align_nchw),
}  # fmt: skip
"""Computes that are no templates."""
WITH_CFG: dict[str, tuple[str, Callable[..., Any]]] = {
    "batch_matmul_blas_common": (
        "cfg tensor_a tensor_b out_shape trans_a trans_b lib", lambda cfg, *args: forms.batch_matmul_by_library(*args),
    ),
    "dense_int8_compute": ("cfg X packed_w bias=None", lambda cfg, *args: forms.dense_int8_compute(*args)),
    "matmul_blas_common": (
        "cfg tensor_a tensor_b bias out_dtype transpose_a transpose_b lib", lambda cfg, *args: forms.matmul_by_library(*args),
    ),
}  # fmt: skip
"""Parts of templates, which take their configuration."""
LIBRARIES = ("_cblas", "_mkl", "_dnnl")
"""Ends of names of templates whose schedules do not read their configuration."""

SCHEDULES = """batch_norm binarize_pack binary_dense broadcast concatenate concatenate_cpu conv1d_ncw conv1d_nwc conv2d_nchw_int8
conv2d_nhwc conv2d_transpose_nchw conv3d_transpose_ncdhw dense_dynamic elemwise group_conv1d_ncw group_conv1d_nwc group_conv2d_nchw
injective reduce softmax sparse_dense"""
ON_EXISTING = {
    "dense_int8_schedule": "do_parallel=True",
    "dense_amx_int8_schedule": "do_parallel=True",
    "batch_matmul_int8_schedule": "layout_trans",
    "batch_matmul_amx_schedule": "layout_trans",
}
"""Parts of schedules: of the product C in a schedule s, whose results O takes."""


def batch_matmul_int8_compute(cfg: Any, x: te.Tensor, y: te.Tensor, *_: Any) -> te.Tensor:
    """Bytes x (B, M, K) times the transpose of y (B, N, K): (B, M, N) in int32."""
    del cfg
    return forms.batch_matmul_int8_compute(x, y)


def schedule_injective_from_existing(sch: te.Schedule, out: te.Tensor) -> te.Schedule:
    """Shares the outer loops of an output in a schedule among threads, and vectorises the innermost."""
    spread(sch, out)
    return sch


def _on_existing(cfg: Any, s: te.Schedule, made: te.Tensor, last: te.Tensor, *_: Any) -> te.Schedule:
    del cfg
    schedule_product(s, made, last)
    return s


def _template(outs: Any, cfg: Any) -> te.Schedule:
    """Loops of a template, with the instruction for bytes that the target has."""
    return template_cpu(outs, cfg, tensor_intrin.known_dot())


_DECLARED: dict[str, Any] = {
    **{name: template_compute(name, f"{name}.x86", words, form) for name, (words, form) in TEMPLATES.items()},
    **{
        name: named(form, name, words, (form.__doc__ or f"`{name}` for processors.").strip())
        for name, (words, form) in {**COMPUTES, **WITH_CFG}.items()
    },
    **{
        f"schedule_{n}": template_schedule(
            f"schedule_{n}", f"{n}.x86", _template, "_ outs" if n.endswith(LIBRARIES) else "cfg outs"
        )
        for n in TEMPLATES
    },
    **{
        f"schedule_{n}": template_schedule(f"schedule_{n}", f"{n}.x86", _template)
        for n in ("batch_matmul_int8", "conv2d_nhwc_pack_int8", "group_conv2d_nchwc")
    },
    **plain_schedules(SCHEDULES, schedule_cpu),
    **plain_schedules("pool", schedule_cpu, "outs layout"),
    **plain_schedules("adaptive_pool", schedule_cpu),
    **{
        name: named(
            partial(_on_existing),
            name,
            f"cfg s C O {words}",
            "Loops of a product in a schedule, in tiles of registers.",
        )
        for name, words in ON_EXISTING.items()
    },
}
globals().update(_DECLARED)

declare_modules(__name__, "x86")
__getattr__, __dir__ = lazy.late(__name__)

__all__ = [
    "Workload3D",
    "batch_matmul_int8_compute",
    "check_int8_applicable",
    "is_int8_hw_support",
    "logger",
    "schedule_injective_from_existing",
    *_DECLARED,
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
