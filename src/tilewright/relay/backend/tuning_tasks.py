"""The kernels of a model as tasks of the tuning engine."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from functools import partial

from tilewright.codegen.backend import IS_SCHEDULED
from tilewright.ir import IRModule
from tilewright.node import deep_recursion
from tilewright.relay.backend.compilation import optimize
from tilewright.relay.backend.kernels.devices import DeviceCompilers
from tilewright.relay.backend.planning.plan import KernelCall, make_plan
from tilewright.relay.backend.targets import config_of
from tilewright.relay.backend.te_compiler import composed
from tilewright.relay.expr import Function
from tilewright.relay.parameters import Params
from tilewright.scheduling.plan_space import PlanSpace
from tilewright.target import Target
from tilewright.target.virtual_device import Targets
from tilewright.tuning.task import Task


@dataclass(frozen=True)
class KernelTask(Task):
    """A kernel of a model as a task. products: element types of two factors and of their sum, if it has products. least_flops: operations
    that no schedule avoids. shapes: of its inputs and outputs, as text: "1x64x56x56, 64x64x3x3 -> 1x64x56x56"."""

    products: tuple[str, ...] = ()
    least_flops: float = 0.0
    shapes: str = ""


def tuning_tasks(mod: IRModule | Function, target: Targets = None, params: Params | None = None) -> list[KernelTask]:
    """The kernels of a model that records can make faster, by the option `relay.plans`: each once, with the number of its calls in one run
    as weight.

    Left out are kernels that a user's own compute, strategy or schedule defines, those of dynamic shapes, and those of back ends without
    schedules. Options of the current PassContext count, as in a build.
    """
    config = config_of(target)
    with config.targets[0], deep_recursion():
        optimized, _ = optimize(mod, config, params)
        plan = make_plan(optimized, DeviceCompilers(optimized, config))
        calls = Counter([call.kernel.name for call in plan.calls])
        first = {call.kernel.name: call for call in reversed(plan.calls)}
        return [
            _task(first[name], plan.kernel_targets[name], count)
            for name, count in calls.items()
            if (kernel := first[name].kernel).plan is not None
            and kernel.told
            and not kernel.func.attrs.get(IS_SCHEDULED)
        ]


def _task(call: KernelCall, target: Target, calls: int) -> KernelTask:
    kernel = call.kernel
    assert kernel.program is not None
    space = PlanSpace(partial(composed, kernel.program, kernel.name, kernel.shared, target), target)
    work = (kernel.flops, kernel.moved_bytes, kernel.products, kernel.multiply_adds or kernel.flops)
    return KernelTask(kernel.name, kernel.digest.hex(), target, space, calls, *work, _shapes(call))


def _shapes(call: KernelCall) -> str:
    """The shapes that a call reads and writes."""
    shown = ["x".join(map(str, place.type.concrete_shape)) or "scalar" for place in call.args]
    count = len(shown) - call.outputs
    return f"{', '.join(shown[:count])} -> {', '.join(shown[count:])}"
