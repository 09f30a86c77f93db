"""Builders and runners under their classic names."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any, NoReturn

from tilewright.autotvm.measure.building import BuildResult, LocalBuilder, program_of
from tilewright.autotvm.measure.measure import Builder, Runner
from tilewright.autotvm.measure.remote import (
    DefaultModuleLoader,
    ModuleLoader,
    check_remote,
    default_module_loader,
    request_remote,
    run_through_rpc,
)
from tilewright.autotvm.measure.running import LocalRunner, RPCRunner
from tilewright.autotvm.task.space.config import InstantiationError
from tilewright.ir.transform import Pass
from tilewright.tir import PrimFunc
from tilewright.tir.analysis import calculate_allocated_bytes, verify_gpu_code
from tilewright.tir.transform import prim_func_pass

__all__ = [
    "BuildResult",
    "DefaultModuleLoader",
    "LocalBuilder",
    "LocalRunner",
    "ModuleLoader",
    "RPCRunner",
    "check_remote",
    "default_module_loader",
    "gpu_verify_pass",
    "measure_option",
    "program_of",
    "request_remote",
    "run_through_rpc",
    "set_cuda_target_arch",
    "vtcm_verify_pass",
]

logger = logging.getLogger("autotvm")


def measure_option(builder: Builder | str, runner: Runner | str) -> dict[str, Any]:
    """How configurations are measured. builder, runner: objects, or "local".

    Raises ValueError for others.
    """
    chosen = LocalBuilder() if builder == "local" else builder
    running = LocalRunner() if runner == "local" else runner
    if not isinstance(chosen, Builder) or not isinstance(running, Runner):
        raise ValueError(
            f"a builder and a runner are needed, or 'local' for either, but were given {builder!r} and {runner!r}"
        )
    return {"builder": chosen, "runner": running}


def gpu_verify_pass(**kwargs: int) -> Pass:
    """A pass that raises InstantiationError for functions that are beyond limits of a GPU. kwargs: the limits, as
    `tir.analysis.verify_gpu_code` names them."""
    return _verifying(lambda func: verify_gpu_code(func, kwargs), "it is beyond the limits of the GPU")


def vtcm_verify_pass(**kwargs: int) -> Pass:
    """A pass that raises InstantiationError for functions that allocate more than vtcm_capacity bytes in the scope "global.vtcm"; 0: any
    number."""
    capacity = int(kwargs.get("vtcm_capacity", 0))

    def fits(func: PrimFunc) -> bool:
        used = sum([sizes.get("global.vtcm", 0) for sizes in calculate_allocated_bytes(func).values()])
        return capacity <= 0 or used <= capacity

    return _verifying(fits, f"it takes more than the {capacity} bytes of the VTCM")


def _verifying(fits: Callable[[PrimFunc], bool], why: str) -> Pass:
    def verify(func: PrimFunc, *_: Any) -> PrimFunc:
        if not fits(func):
            raise InstantiationError(f"the configuration is left out: {why}")
        return func

    made: Pass = prim_func_pass(verify, opt_level=0)
    return made


def set_cuda_target_arch(arch: Any) -> NoReturn:
    """Raises ValueError: a target says its architecture, as in "cuda -arch=sm_80"."""
    raise ValueError(f"the architecture is part of the target: tvm.target.Target('cuda -arch={arch}')")
