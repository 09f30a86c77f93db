"""Templates of AutoTVM and schedules for processors of ARM, under their classic names.

Builds use templates only for workloads that have a record (`autotvm.apply_history_best`); the rules of the target schedule everything
else. Templates with forms of their own are in the modules of this package; those that the tables declare have the loops of
`topi.stage_schedules.cpu`, those for scalable vectors and for SME too: their instructions are not used. Those for microcontrollers (`_dsp`)
are in `scheduling.cpu.planned_templates`: their knobs are decisions of the rules."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tilewright import te
from tilewright.support import lazy
from tilewright.target import Target
from tilewright.topi import nn
from tilewright.topi.arm_cpu.conv2d import (
    conv2d_nchw_spatial_pack,
    conv2d_nchw_winograd,
    schedule_conv2d_nchw_spatial_pack,
    schedule_conv2d_nchw_winograd,
)
from tilewright.topi.arm_cpu.dense import dense_gemm, schedule_dense_gemm
from tilewright.topi.arm_cpu.depthwise_conv2d import depthwise_conv2d_nchw, schedule_depthwise_conv2d_nchw
from tilewright.topi.broadcast import add
from tilewright.topi.classic_modules import declare_modules
from tilewright.topi.declared import plain_schedules, template_compute, template_schedule
from tilewright.topi.signatures import named
from tilewright.topi.stage_schedules.cpu import schedule_cpu, spread, template_cpu
from tilewright.topi.transform import expand_dims, transpose
from tilewright.topi.x86.forms import conv2d_NCHWc_int8, has_feature

CONV = "data kernel strides padding dilation out_dtype=None"
GROUPS = "data kernel strides padding dilation groups out_dtype=None"
TILES = "kernel_size output_channels"
BITS = "data kernel stride padding activation_bits weight_bits pack_dtype='uint32' out_dtype='int16' unipolar=True"


def _nhwc(
    data: te.Tensor, kernel: te.Tensor, strides: Any, padding: Any, dilation: Any, out_dtype: str | None = None, *_: Any
) -> te.Tensor:
    """Convolution of data (N, H, W, I) with weights (KH, KW, I, O)."""
    return nn.conv2d_nhwc(data, kernel, strides, padding, dilation, out_dtype)


def _of_tiles(
    data: te.Tensor,
    tiles: te.Tensor,
    strides: Any,
    padding: Any,
    dilation: Any,
    out_dtype: str | None,
    kernel_size: Any,
    output_channels: int,
    *_: Any,
) -> te.Tensor:
    """Convolution of data (N, H, W, I) with weights from `topi.nn.conv2d_gemm_weight_transform`."""
    return nn.conv2d_gemm_without_weight_transform(
        data, tiles, strides, padding, dilation, kernel_size, output_channels, out_dtype
    )


def _nwc_of_woi(
    data: te.Tensor, kernel: te.Tensor, strides: Any, padding: Any, dilation: Any, out_dtype: str | None = None
) -> te.Tensor:
    """Convolution of data (N, W, I) with weights (K, O, I)."""
    return nn.conv(data, kernel, strides, padding, dilation, 1, "NWC", "WOI", out_dtype)


def _depthwise_nhwc(
    data: te.Tensor, kernel: te.Tensor, strides: Any, padding: Any, dilation: Any, out_dtype: str | None = None
) -> te.Tensor:
    """Depthwise convolution of data (N, H, W, C) with weights (KH, KW, C, M)."""
    return nn.depthwise_conv2d_nhwc(data, kernel, strides, padding, dilation, "HWOI", out_dtype)


def _of_transformed(
    data: te.Tensor,
    transformed_kernel: te.Tensor,
    bias: te.Tensor | None,
    strides: Any,
    padding: Any,
    dilation: Any,
    out_dtype: str | None = None,
) -> te.Tensor:
    """Convolution with weights (O, I, 8, 8) from `topi.nn.conv2d_winograd_nnpack_weight_transform`, plus bias (O,)."""
    weights = transpose(transformed_kernel, (2, 3, 1, 0))
    made = nn.conv2d_winograd_nchw_without_weight_transform(
        data, weights, strides, padding, dilation, out_dtype, tile_size=6
    )
    return made if bias is None else add(made, expand_dims(bias, 1, 2))


def _matmul(
    data_a: te.Tensor, data_b: te.Tensor, _: Any, out_dtype: str, transpose_a: bool = False, transpose_b: bool = False
) -> te.Tensor:
    """A product of matrices."""
    return nn.matmul(data_a, data_b, None, out_dtype, transpose_a, transpose_b)


NHWC = f"{CONV} interleave_A=False use_scalable_vectors=False use_sme=False"
WITHOUT = "data kernel strides padding dilation out_dtype=None kernel_size=None output_channels=None"
TEMPLATES: dict[str, tuple[str, str, Callable[..., Any]]] = {
    "bitserial_conv2d_nhwc": ("bitserial_conv2d_nhwc", BITS, nn.bitserial_conv2d_nhwc),
    "bitserial_dense": (
        "bitserial_dense", "data weight data_bits weight_bits pack_dtype='uint32' out_dtype='int16' unipolar=True", nn.bitserial_dense,
    ),
    "compute_conv2d_NHWC_hybrid": ("conv2d_NHWC_hybrid", CONV, _nhwc),
    "compute_conv2d_NHWC_hybrid_SME": ("conv2d_NHWC_hybrid_SME", CONV, _nhwc),
    "compute_conv2d_NHWC_hybrid_SVE": ("conv2d_NHWC_hybrid_SVE", CONV, _nhwc),
    "compute_conv2d_NHWC_hybrid_without_transform": ("conv2d_NHWC_hybrid_without_transform", WITHOUT, _of_tiles),
    "compute_conv2d_NHWC_SME_transposed_B": ("conv2d_NHWC_SME_transposed_B", WITHOUT, _of_tiles),
    "compute_conv2d_NHWC_quantized_interleaved": ("conv2d_NHWC_quantized_interleaved", CONV, _nhwc),
    "compute_conv2d_NHWC_quantized_interleaved_without_transform": (
        "conv2d_NHWC_quantized_interleaved_without_transform", WITHOUT, _of_tiles,
    ),
    "compute_conv2d_NHWC_quantized_native": ("conv2d_NHWC_quantized_native", CONV, _nhwc),
    "compute_conv2d_NHWC_quantized_native_without_transform": (
        "conv2d_NHWC_quantized_native_without_transform", WITHOUT, _of_tiles,
    ),
    "compute_depthwise_conv2d_nhwc": ("depthwise_conv2d_nhwc", CONV, _depthwise_nhwc),
    "compute_matmul_sme": ("matmul", "data_a data_b _ out_dtype transpose_a=False transpose_b=False", _matmul),
    "conv1d_nwc_dsp": ("conv1d_nwc_dsp", CONV, _nwc_of_woi),
    "conv2d_NCHWc_int8": (
        "conv2d_NCHWc_int8", "data kernel strides padding dilation layout='NCHW' out_layout='NCHW' out_dtype='int32'", conv2d_NCHWc_int8,
    ),
    "conv2d_nchw_winograd_nnpack": ("conv2d_nchw_winograd_nnpack", CONV, nn.conv2d_winograd_nchw),
    "conv2d_nchw_winograd_nnpack_without_weight_transform": (
        "conv2d_nchw_winograd_nnpack_without_weight_transform",
        "data transformed_kernel bias strides padding dilation out_dtype=None",
        _of_transformed,
    ),
    "conv2d_nhwc_spatial_pack": ("conv2d_nhwc_spatial_pack", CONV, nn.conv2d_nhwc),
    "conv2d_transpose_nchw": (
        "conv2d_transpose_nchw", "Input Filter strides padding out_dtype output_padding", nn.conv2d_transpose_nchw,
    ),
    "depthwise_conv2d_nchw_spatial_pack": ("depthwise_conv2d_nchw_spatial_pack", CONV, nn.depthwise_conv2d_nchw),
    "group_conv2d_nchw_spatial_pack": ("group_conv2d_nchw_spatial_pack", GROUPS, nn.group_conv2d_nchw),
}  # fmt: skip
"""Templates, by the names of their computes: the name of the task, parameters after cfg, and what they compute."""

WITHOUT_CFG = ("compute_depthwise_conv2d_nhwc",)

PARTS: dict[str, tuple[str, Callable[..., Any]]] = {
    "compute_conv2d_NHWC": (f"cfg {NHWC}", lambda cfg, *args: _nhwc(*args)),
    "compute_conv2d_NHWC_without_transform": (
        "cfg data B strides padding dilation out_dtype kernel_size=None output_channels=None interleave_A=False",
        lambda cfg, *args: _of_tiles(*args),
    ),
    "conv2d_nchw_int8": (CONV, nn.conv2d_nchw),
    "group_conv2d_nchw": (GROUPS, nn.group_conv2d_nchw),
}
"""Computes that are no templates."""


def is_int8_hw_support(data_dtype: str, kernel_dtype: str) -> bool:
    """Whether the current target has instructions for sums of products of these types: bytes of one sign."""
    target = Target.current(True)
    alike = data_dtype == kernel_dtype and data_dtype in ("int8", "uint8")
    return alike and target is not None and has_feature(target, ("dotprod", "neon", "i8mm"))


def schedule_injective_from_existing(sch: te.Schedule, out: te.Tensor) -> te.Schedule:
    """Shares the outer loops of an output in a schedule among threads, and vectorises the innermost."""
    spread(sch, out)
    return sch


def schedule_conv2d_NHWC(cfg: Any, outs: Any, interleave_A: bool = False) -> te.Schedule:
    """Tiles of convolutions with channels last, in registers."""
    del interleave_A
    return template_cpu(outs, cfg)


_TASKS = sorted(
    {task for task, _, _ in TEMPLATES.values()} - {"matmul", "conv2d_NHWC_hybrid_SME", "conv2d_NHWC_SME_transposed_B"}
)
_DECLARED: dict[str, Any] = {
    **{
        name: template_compute(name, f"{task}.arm_cpu", words, form, "_" if name in WITHOUT_CFG else "cfg")
        for name, (task, words, form) in TEMPLATES.items()
    },
    **{
        name: named(form, name, words, (form.__doc__ or f"`{name}` for processors of ARM.").strip())
        for name, (words, form) in PARTS.items()
    },
    **{
        f"schedule_{task}": template_schedule(f"schedule_{task}", f"{task}.arm_cpu", template_cpu)
        for task in [*_TASKS, "group_conv2d_nchwc"]
    },
    **plain_schedules("concatenate conv2d_nchw_int8 group_conv2d_nchw injective", schedule_cpu),
    **plain_schedules("pool", schedule_cpu, "outs layout"),
}
globals().update(_DECLARED)

lazy.declare(
    __name__,
    {
        name: f"tilewright.scheduling.cpu.planned_templates:{name}"
        for task in ("conv2d_nhwc_dsp", "dense_dsp", "depthwise_conv2d_nhwc_dsp")
        for name in (task, f"schedule_{task}")
    },
)
declare_modules(__name__, "arm_cpu")
__getattr__, __dir__ = lazy.late(__name__)

__all__ = [
    "conv2d_nchw_spatial_pack", "conv2d_nchw_winograd", "dense_gemm", "depthwise_conv2d_nchw",
    "schedule_conv2d_nchw_spatial_pack", "schedule_conv2d_nchw_winograd", "schedule_dense_gemm", "schedule_depthwise_conv2d_nchw",
    "is_int8_hw_support", "schedule_conv2d_NHWC", "schedule_injective_from_existing", *_DECLARED,
]  # fmt: skip
