"""What tests of operators share: schedules by target, and comparison with NumPy."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from tilewright import te
from tilewright.driver import build
from tilewright.runtime import ndarray
from tilewright.target import Target
from tilewright.topi import arm_cpu, cuda, generic, nn, x86

Schedule = Callable[..., Any]

INJECTIVE: Mapping[str, Schedule] = {
    "generic": generic.schedule_injective,
    "cpu": x86.schedule_injective,
    "arm_cpu": arm_cpu.schedule_injective,
    "gpu": cuda.schedule_injective,
}
REDUCE: Mapping[str, Schedule] = {
    "generic": generic.schedule_reduce,
    "cpu": x86.schedule_reduce,
    "gpu": cuda.schedule_reduce,
}
CONV2D_NCHW: Mapping[str, tuple[Schedule, Schedule]] = {
    "generic": (nn.conv2d_nchw, generic.schedule_conv2d_nchw),
    "cpu": (x86.conv2d_nchw, x86.schedule_conv2d_nchw),
    "arm_cpu": (arm_cpu.conv2d_nchw_spatial_pack, arm_cpu.schedule_conv2d_nchw_spatial_pack),
    "gpu": (cuda.conv2d_nchw, cuda.schedule_conv2d_nchw),
}


def dispatch(target: str | Target, dispatch_map: Mapping[str, Any]) -> Any:
    """The entry of the first key that a target has; that of "generic" if it has none."""
    known = Target(target) if isinstance(target, str) else target
    return next((dispatch_map[key] for key in known.keys if key in dispatch_map), dispatch_map["generic"])


def get_injective_schedule(target: str | Target) -> Schedule:
    """The schedule of computes without reductions for a target."""
    found: Schedule = dispatch(target, INJECTIVE)
    return found


get_broadcast_schedule = get_elemwise_schedule = get_injective_schedule


def get_reduce_schedule(target: str | Target) -> Schedule:
    """The schedule of reductions for a target."""
    found: Schedule = dispatch(target, REDUCE)
    return found


def get_conv2d_nchw_implement(target: str | Target) -> tuple[Schedule, Schedule]:
    """(compute, schedule) of convolutions of images (N, C, H, W) for a target."""
    found: tuple[Schedule, Schedule] = dispatch(target, CONV2D_NCHW)
    return found


def compare_numpy_tvm(
    inputs: Sequence[np.ndarray[Any, Any]],
    output: np.ndarray[Any, Any],
    target: str | Target,
    device: Any,
    compute: Callable[..., te.Tensor],
    schedule: Schedule,
) -> None:
    """Checks that compute(*tensors), scheduled by schedule(target)([result]) for a target, makes `output` of the inputs on a device. Raises
    AssertionError otherwise."""
    tensors = [te.placeholder(i.shape, str(i.dtype), f"p{k}") for k, i in enumerate(inputs)]
    with Target(target) if isinstance(target, str) else target:
        result = compute(*tensors)
        made = schedule(target)([result])
    function = build(made, [*tensors, result], target=target)
    found = ndarray.array(np.zeros(output.shape, str(result.dtype)), device)
    function(*[ndarray.array(i, device) for i in inputs], found)
    np.testing.assert_allclose(found.numpy(), output, rtol=1e-5, atol=1e-5)


__all__ = [
    "compare_numpy_tvm",
    "dispatch",
    "get_broadcast_schedule",
    "get_conv2d_nchw_implement",
    "get_elemwise_schedule",
    "get_injective_schedule",
    "get_reduce_schedule",
]
