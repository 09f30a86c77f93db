"""The kernels of a model as tasks of the tuning engine."""

from __future__ import annotations

from collections import Counter
from functools import partial

from tilewright.codegen.backend import IS_SCHEDULED
from tilewright.ir import IRModule
from tilewright.node import deep_recursion
from tilewright.relay.backend.compilation import optimize
from tilewright.relay.backend.kernels.devices import DeviceCompilers
from tilewright.relay.backend.kernels.kernel import Kernel
from tilewright.relay.backend.planning.plan import make_plan
from tilewright.relay.backend.targets import config_of
from tilewright.relay.backend.te_compiler import composed
from tilewright.relay.expr import Function
from tilewright.relay.parameters import Params
from tilewright.scheduling.plan_space import PlanSpace
from tilewright.target import Target
from tilewright.target.virtual_device import Targets
from tilewright.tuning.task import Task


def tuning_tasks(mod: IRModule | Function, target: Targets = None, params: Params | None = None) -> list[Task]:
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
        kernels = {call.kernel.name: call.kernel for call in plan.calls}
        return [
            _task(kernel, plan.kernel_targets[name], calls[name])
            for name, kernel in kernels.items()
            if kernel.plan is not None and kernel.told and not kernel.func.attrs.get(IS_SCHEDULED)
        ]


def _task(kernel: Kernel, target: Target, calls: int) -> Task:
    assert kernel.program is not None
    space = PlanSpace(partial(composed, kernel.program, kernel.name, kernel.in_place, target), target)
    return Task(kernel.name, kernel.digest.hex(), target, space, calls, kernel.flops, kernel.moved_bytes)
