"""Strategies of relay's operators on packed data, under their classic names. The back end schedules kernels of models itself
(`kernels.schedule_kernel`), so none of these is registered: a program that wants one registers it
(`relay.op.strategy.conv2d_strategy.register("vta")`)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from tilewright import te, topi
from tilewright.autotvm.task.topi_integration import register_topi_compute, register_topi_schedule
from tilewright.relay.op import strategy as relay_strategy
from tilewright.relay.op.op import OpStrategy
from tilewright.relay.op.strategy_computes import wrap_compute_conv2d, wrap_compute_conv2d_transpose, wrap_compute_dense
from tilewright.vta.environment import get_env
from tilewright.vta.top.kernels import schedule_kernel
from tilewright.vta.top.utils import is_packed_layout
from tilewright.vta.top.vta_conv2d import conv2d_packed, schedule_conv2d_packed
from tilewright.vta.top.vta_conv2d_transpose import conv2d_transpose_packed, schedule_conv2d_transpose_packed
from tilewright.vta.top.vta_dense import dense_packed, schedule_dense_packed
from tilewright.vta.top.vta_group_conv2d import group_conv2d_packed, schedule_group_conv2d_packed

ENV = get_env()
"""The environment of the configuration file."""


def compute_clip_vta(attrs: Any, inputs: Sequence[te.Tensor], output_type: Any) -> list[te.Tensor]:
    """A range as a minimum and a maximum, which are steps of the ALU."""
    del output_type
    x = inputs[0]
    low, high = (te.const(int(v), x.dtype) for v in (attrs.a_min, attrs.a_max))
    below = te.compute(x.shape, lambda *i: te.min(x(*i), high), "clipA", tag="elemwise")
    return [te.compute(x.shape, lambda *i: te.max(below(*i), low), "clipB", tag="elemwise")]


def clip_strategy_vta(attrs: Any, inputs: Any, out_type: Any, target: Any) -> OpStrategy:
    """`compute_clip_vta`, to be scheduled with what follows."""
    return _one(compute_clip_vta, relay_strategy.naive_schedule, "clip.vta")


@register_topi_compute("add.vta")
def add_packed(cfg: Any, lhs: te.Tensor, rhs: te.Tensor) -> te.Tensor:
    """A sum."""
    return topi.add(lhs, rhs)


@register_topi_compute("multiply.vta")
def multiply_packed(cfg: Any, lhs: te.Tensor, rhs: te.Tensor) -> te.Tensor:
    """A product of numbers."""
    return topi.multiply(lhs, rhs)


def schedule_alu_packed(cfg: Any, outs: Any) -> te.Schedule:
    """Arithmetic on the accelerator, where it ends with outputs in packed form; else a schedule that changes nothing."""
    del cfg
    results = list(outs) if isinstance(outs, (list, tuple)) else [outs]
    if len(results) == 1 and results[0].dtype == get_env().out_dtype and len(results[0].shape) == 6:
        return schedule_kernel(results)
    return te.create_schedule([t.op for t in results])


@register_topi_schedule("add.vta")
def schedule_add_packed(cfg: Any, outs: Any) -> te.Schedule:
    """`schedule_alu_packed`."""
    return schedule_alu_packed(cfg, outs)


@register_topi_schedule("multiply.vta")
def schedule_multiply_packed(cfg: Any, outs: Any) -> te.Schedule:
    """`schedule_alu_packed`."""
    return schedule_alu_packed(cfg, outs)


def add_strategy_vta(attrs: Any, inputs: Any, out_type: Any, target: Any) -> OpStrategy:
    """A sum as steps of the ALU."""
    return _one(lambda a, given, t: [add_packed(*given)], _scheduled(schedule_add_packed), "add.vta")


def multiply_strategy_vta(attrs: Any, inputs: Any, out_type: Any, target: Any) -> OpStrategy:
    """A product of numbers as steps of the ALU."""
    return _one(lambda a, given, t: [multiply_packed(*given)], _scheduled(schedule_multiply_packed), "multiply.vta")


def conv2d_strategy_vta(attrs: Any, inputs: Any, out_type: Any, target: Any) -> OpStrategy:
    """Convolutions of packed data on the accelerator, others on the CPU."""
    if not is_packed_layout(attrs.data_layout):
        return _on_cpu("conv2d_strategy", attrs, inputs, out_type)
    if attrs.groups == 1:
        compute = wrap_compute_conv2d(conv2d_packed, need_data_layout=True)
        return _one(compute, _scheduled(schedule_conv2d_packed), "conv2d_packed.vta")
    compute = wrap_compute_conv2d(group_conv2d_packed, has_groups=True)
    return _one(compute, _scheduled(schedule_group_conv2d_packed), "group_conv2d_packed.vta")


def conv2d_transpose_strategy_vta(attrs: Any, inputs: Any, out_type: Any, target: Any) -> OpStrategy:
    """Transposed convolutions of packed data on the accelerator, others on the CPU."""
    if not is_packed_layout(attrs.data_layout):
        return _on_cpu("conv2d_transpose_strategy", attrs, inputs, out_type)
    compute = wrap_compute_conv2d_transpose(conv2d_transpose_packed)
    return _one(compute, _scheduled(schedule_conv2d_transpose_packed), "conv2d_transpose_packed.vta")


def dense_strategy_vta(attrs: Any, inputs: Any, out_type: Any, target: Any) -> OpStrategy:
    """Dense layers of packed data, which have four dimensions, on the accelerator, others on the CPU."""
    if len(inputs[0].shape) != 4:
        return _on_cpu("dense_strategy", attrs, inputs, out_type)
    return _one(wrap_compute_dense(dense_packed), _scheduled(schedule_dense_packed), "dense_packed.vta")


def _scheduled(schedule: Callable[[Any], Any]) -> Callable[[Any, Any, Any], Any]:
    return relay_strategy.wrap_topi_schedule(schedule)


def _one(compute: Any, schedule: Any, name: str) -> OpStrategy:
    strategy = OpStrategy()
    strategy.add_implementation(compute, schedule, name)
    return strategy


def _on_cpu(name: str, attrs: Any, inputs: Any, out_type: Any) -> OpStrategy:
    made: OpStrategy = getattr(relay_strategy, name)(attrs, inputs, out_type, get_env().target_vta_cpu)
    return made


__all__ = [
    "ENV", "add_packed", "add_strategy_vta", "clip_strategy_vta", "compute_clip_vta", "conv2d_strategy_vta",
    "conv2d_transpose_strategy_vta", "dense_strategy_vta", "multiply_packed", "multiply_strategy_vta", "schedule_add_packed",
    "schedule_alu_packed", "schedule_multiply_packed",
]  # fmt: skip
