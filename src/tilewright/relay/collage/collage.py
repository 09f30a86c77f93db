"""Estimates the cost of a candidate partition in seconds: by measuring, by made-up costs for tests, or by a function of the program."""

from __future__ import annotations

import logging
import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from tilewright.ir import IRModule, Op, TensorType
from tilewright.relay.expr import Call, Function
from tilewright.relay.functor import post_order
from tilewright.runtime import Device, NDArray, array, device, get_global_func, register_func
from tilewright.support.errors import InternalError, TVMError
from tilewright.target import Target

MEASURE_NUMBER = 20
"""Runs that one measurement is the mean of."""
MEASURE_REPEAT = 5
"""Measurements whose mean is the latency."""
WARMUP_MIN_REPEAT_MS = 250
"""How long, at least, a module runs before it is measured."""

FUSION_BENEFIT = 0.9
"""Cost of each further operator in a function for MockCostEstimator, relative to the one before it."""


class CostEstimator:
    """Measures: compiles the module for the virtual machine and runs its main on random arguments."""

    def estimate(self, mod: IRModule, target: Target) -> float:
        """The seconds that main takes; infinity if the target cannot compile it."""
        return float(estimate_seconds(mod, target))


class MockCostEstimator(CostEstimator):
    """Costs by table, for tests: the first call of an operator in a function costs what `target_costs` says of the kind of target,
    each further one FUSION_BENEFIT of the one before. TVMError for more than `max_estimates` estimates (0: no limit)."""

    def __init__(self, target_costs: Mapping[str, float], max_estimates: int = 0) -> None:
        self.target_costs, self.max_estimates = dict(target_costs), max_estimates
        self.num_estimates = 0

    def estimate(self, mod: IRModule, target: Target) -> float:
        if self.max_estimates and self.num_estimates >= self.max_estimates:
            raise TVMError(f"MockCostEstimator: more than {self.max_estimates} estimates were asked for")
        self.num_estimates += 1
        if target.kind.name not in self.target_costs:
            raise TVMError(
                f"MockCostEstimator: target_costs has no cost for {target.kind.name}, only for {', '.join(self.target_costs)}"
            )
        price, total = float(self.target_costs[target.kind.name]), 0.0
        for f in mod.functions.values():
            if isinstance(f, Function):
                calls = [e for e in post_order(f.body) if type(e) is Call and type(e.op) is Op]
                total += sum([price * FUSION_BENEFIT**i for i in range(len(calls))])
        return total


class CustomCostEstimator(CostEstimator):
    """Calls a global function of a module and a target, which returns seconds."""

    def __init__(self, py_fn_estimator: str = "tvm.relay.collage.estimate_seconds_custom") -> None:
        self.py_fn_estimator = py_fn_estimator

    def estimate(self, mod: IRModule, target: Target) -> float:
        found = get_global_func(self.py_fn_estimator, allow_missing=True)
        if found is None:
            raise TVMError(
                f"CustomCostEstimator: there is no global function {self.py_fn_estimator}; register a function of a module and a"
                f' target that returns seconds: @tvm.register_func("{self.py_fn_estimator}")'
            )
        return float(found(mod, target))


def arg_for(arg_type: Any, device: Device) -> NDArray:
    """A random argument of a type. TVMError for what is not a tensor of known shape."""
    if not isinstance(arg_type, TensorType) or not all([hasattr(d, "value") for d in arg_type.shape]):
        raise TVMError(
            f"collage measures functions of tensors whose shapes are known, but an argument is of type {arg_type}"
        )
    shape = arg_type.concrete_shape
    values = np.random.default_rng(0).uniform(-1.0, 1.0, shape)
    return array(values.astype(arg_type.dtype), device)


def vm_estimate_seconds(device: Device, vm: Any, args: Mapping[str, Any]) -> Any:
    """A benchmark of main in a virtual machine, after warming up: `mean`, `median`, ... in seconds. args: arguments by name."""
    vm.benchmark(device, repeat=1, number=5, min_repeat_ms=WARMUP_MIN_REPEAT_MS, **args)
    return vm.benchmark(device, repeat=MEASURE_REPEAT, number=MEASURE_NUMBER, min_repeat_ms=0, **args)


@register_func("tvm.relay.collage.estimate_seconds", override=True)  # type: ignore[untyped-decorator]
def estimate_seconds(mod: IRModule, target: Target) -> float:
    """The mean seconds that main of a module takes on a target, on random arguments; infinity where that cannot compile it."""
    from tilewright.relay.backend.byoc.external import missing_generator
    from tilewright.relay.backend.vm import compile
    from tilewright.runtime.vm import VirtualMachine

    dev = device(target.get_target_device_type(), 0)
    arguments = {v.name_hint: arg_for(v.checked_type, dev) for v in mod["main"].params}
    for f in mod.functions.values():
        compiler = str(f.attrs.get("Compiler", "")) if isinstance(f, Function) else ""
        if compiler and get_global_func(f"relay.ext.{compiler}", allow_missing=True) is None:
            raise TVMError(missing_generator(compiler, "a candidate"))
    try:
        executable = compile(mod, target)
    except InternalError:
        raise
    except TVMError as error:
        logging.getLogger(__name__).info("%s cannot compile a candidate: %s", target.kind.name, error)
        return math.inf
    return float(vm_estimate_seconds(dev, VirtualMachine(executable, dev), arguments).mean)
