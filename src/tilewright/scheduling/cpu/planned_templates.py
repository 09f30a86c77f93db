"""Templates of AutoTVM for convolutions and dense layers on microcontrollers, under classic names. Their knobs are the decisions that the
cost model takes otherwise, so a record changes the kernel that builds make anyway.

Those of `_dsp` take weights packed, as builds give them (`topi.nn.paired_conv`): the arguments say their plain shape. Those of `.generic`
are for operators whose weights are not packed: on processors without products of bytes, and of floats.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from tilewright import te
from tilewright.autotvm.task.space.config import ConfigEntity, ConfigSpace
from tilewright.autotvm.task.topi_integration import register_topi_compute, register_topi_schedule
from tilewright.scheduling.kernel_plan import KernelPlan
from tilewright.scheduling.pairs import conv2d_packing, dense_packing, group_of
from tilewright.scheduling.whole_kernel import scheduled
from tilewright.support.errors import TVMError
from tilewright.target import Target
from tilewright.te.primfunc import post_order
from tilewright.tir import PrimFunc
from tilewright.topi import nn
from tilewright.topi.nn.paired_conv import GROUP, packed_shape
from tilewright.topi.utils import get_const_int, get_pad_tuple, pair, shape_of


def _given(cfg: ConfigSpace) -> dict[str, Any]:
    """The decisions of a configuration; none while knobs are collected, and of a fallback, where the cost model decides."""
    return cfg.get_other_option() if isinstance(cfg, ConfigEntity) else {}


def _offer(cfg: ConfigSpace, plan: KernelPlan) -> None:
    """Makes the decisions of a plan knobs."""
    for name, choices in plan.space().items():
        cfg.define_knob(name, choices)


def _computed(cfg: ConfigSpace, make: Callable[[], te.Tensor]) -> te.Tensor:
    """What a compute makes that asks a plan with the decisions of a configuration."""
    plan = KernelPlan(_target(), _given(cfg))
    with plan:
        made = make()
    if plan.refused:
        cfg.raise_error("; ".join(plan.refused.values()))
    _offer(cfg, plan)
    return made


def _target() -> Target:
    return Target.current(True) or Target("llvm")


def _sizes(tensor: te.Tensor) -> list[int]:
    return [get_const_int(d) for d in shape_of(tensor)]


def _planned(cfg: ConfigSpace, outs: Any) -> te.Schedule:
    """The schedule of outputs by the rules of the target, with the decisions of a configuration."""
    outputs: list[te.Tensor] = list(outs) if isinstance(outs, (list, tuple)) else [outs]
    schedule, target, given = te.create_schedule([t.op for t in outputs]), _target(), _given(cfg)

    def whole(func: PrimFunc) -> PrimFunc:
        plan = KernelPlan(target, given)
        (made,) = scheduled(func, target, plan).mod.functions.values()
        if plan.refused:
            raise TVMError("; ".join(plan.refused.values()))
        if not given:
            _offer(cfg, plan)
        assert isinstance(made, PrimFunc)
        return made

    schedule.whole = whole
    if not isinstance(cfg, ConfigEntity):
        inputs = [op.output(0) for op in post_order(schedule.outputs) if isinstance(op, te.PlaceholderOp)]
        schedule.to_prim_func([*inputs, *outputs])
    return schedule


@register_topi_compute("conv2d_nhwc_dsp.arm_cpu")
def conv2d_nhwc_dsp(
    cfg: Any,
    data: te.Tensor,
    kernel: te.Tensor,
    strides: Any,
    padding: Any,
    dilation: Any,
    out_dtype: str | None = None,
) -> te.Tensor:
    """Convolution of data (N, H, W, I) with weights of the plain shape (KH, KW, O, I)."""
    group, (kh, kw, filters, channels) = group_of(_target()), _sizes(kernel)
    if not group or str(data.dtype) != "int8" or pair(dilation) != (1, 1):
        return _computed(cfg, lambda: nn.conv(data, kernel, strides, padding, dilation, 1, "NHWC", "HWOI", out_dtype))
    (top, left), (bottom, right) = get_pad_tuple(padding, (kh, kw))
    places = (_sizes(data)[2] + left + right - kw) // pair(strides)[1] + 1
    together, runs = conv2d_packing(channels, kw, places, filters, group)
    packed = te.placeholder(packed_shape((kh, kw, channels, filters), together, runs, group), "int8", "packed")
    pads = (top, left, bottom, right)
    return _computed(cfg, lambda: nn.conv2d_pairs(data, packed, pair(strides), pads, 0, kw if runs else 0))


@register_topi_compute("depthwise_conv2d_nhwc_dsp.arm_cpu")
def depthwise_conv2d_nhwc_dsp(
    cfg: Any,
    data: te.Tensor,
    kernel: te.Tensor,
    strides: Any,
    padding: Any,
    dilation: Any,
    out_dtype: str | None = None,
) -> te.Tensor:
    """Depthwise convolution of data (N, H, W, C) with weights of the plain shape (KH, KW, C, M)."""
    kh, kw, channels, multiplier = _sizes(kernel)
    pairs = group_of(_target()) == GROUP and channels % GROUP == 0 and multiplier == 1 and str(data.dtype) == "int8"
    if not pairs or pair(dilation) != (1, 1):
        return _computed(
            cfg, lambda: nn.depthwise_conv2d_nhwc(data, kernel, strides, padding, dilation, "HWOI", out_dtype)
        )
    (top, left), (bottom, right) = get_pad_tuple(padding, (kh, kw))
    packed = te.placeholder((channels // GROUP, kh, kw, GROUP), "int8", "packed")
    return _computed(cfg, lambda: nn.depthwise_conv2d_pairs(data, packed, pair(strides), (top, left, bottom, right)))


@register_topi_compute("dense_dsp.arm_cpu")
def dense_dsp(
    cfg: Any, data: te.Tensor, weight: te.Tensor, bias: te.Tensor | None = None, out_dtype: str | None = None
) -> te.Tensor:
    """Data (M, K) by weights of the plain shape (N, K), and a bias."""
    group, (units, inner) = group_of(_target()), _sizes(weight)
    if not group or str(data.dtype) != "int8" or bias is not None:
        return _computed(cfg, lambda: nn.dense(data, weight, bias, out_dtype))
    together = dense_packing(_sizes(data)[0], inner, units, group)
    packed = te.placeholder((units // together, -(-inner // group), together, group), "int8", "packed")
    return _computed(cfg, lambda: nn.dense_pairs(data, packed))


@register_topi_compute("conv2d_nhwc.generic")
def conv2d_nhwc(
    cfg: Any,
    data: te.Tensor,
    kernel: te.Tensor,
    strides: Any,
    padding: Any,
    dilation: Any,
    out_dtype: str | None = None,
) -> te.Tensor:
    """Convolution of data (N, H, W, I) with weights (KH, KW, I, O)."""
    return _computed(cfg, lambda: nn.conv(data, kernel, strides, padding, dilation, 1, "NHWC", "HWIO", out_dtype))


@register_topi_compute("depthwise_conv2d_nhwc.generic")
def depthwise_conv2d_nhwc(
    cfg: Any,
    data: te.Tensor,
    kernel: te.Tensor,
    strides: Any,
    padding: Any,
    dilation: Any,
    kernel_layout: str = "HWOI",
    out_dtype: str | None = None,
) -> te.Tensor:
    """Depthwise convolution of data (N, H, W, C) with weights (KH, KW, C, 1), or (KH, KW, 1, C) in the layout HWIO."""
    channels = _sizes(data)[3]
    return _computed(
        cfg, lambda: nn.conv(data, kernel, strides, padding, dilation, channels, "NHWC", kernel_layout, out_dtype)
    )


@register_topi_compute("dense.generic")
def dense(
    cfg: Any, data: te.Tensor, weight: te.Tensor, bias: te.Tensor | None = None, out_dtype: str | None = None
) -> te.Tensor:
    """Data (M, K) by weights (N, K), and a bias."""
    return _computed(cfg, lambda: nn.dense(data, weight, bias, out_dtype))


def _schedule_of(task: str) -> Callable[..., te.Schedule]:
    def schedule(cfg: Any, outs: Sequence[te.Tensor] | te.Tensor) -> te.Schedule:
        return _planned(cfg, outs)

    schedule.__name__ = schedule.__qualname__ = f"schedule_{task.partition('.')[0]}"
    schedule.__doc__ = f"The schedule of the template {task}, and of what follows its compute."
    made: Callable[..., te.Schedule] = register_topi_schedule(task)(schedule)
    return made


schedule_conv2d_nhwc_dsp = _schedule_of("conv2d_nhwc_dsp.arm_cpu")
schedule_depthwise_conv2d_nhwc_dsp = _schedule_of("depthwise_conv2d_nhwc_dsp.arm_cpu")
schedule_dense_dsp = _schedule_of("dense_dsp.arm_cpu")
schedule_conv2d_nhwc = _schedule_of("conv2d_nhwc.generic")
schedule_depthwise_conv2d_nhwc = _schedule_of("depthwise_conv2d_nhwc.generic")
schedule_dense = _schedule_of("dense.generic")

__all__ = [
    "conv2d_nhwc", "conv2d_nhwc_dsp", "dense", "dense_dsp", "depthwise_conv2d_nhwc", "depthwise_conv2d_nhwc_dsp", "schedule_conv2d_nhwc",
    "schedule_conv2d_nhwc_dsp", "schedule_dense", "schedule_dense_dsp", "schedule_depthwise_conv2d_nhwc",
    "schedule_depthwise_conv2d_nhwc_dsp",
]  # fmt: skip
