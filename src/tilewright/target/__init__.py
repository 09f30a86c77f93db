"""Descriptions of hardware: target kinds, their options, CPU features and the facts that schedules need."""

from __future__ import annotations

from tilewright.support import lazy
from tilewright.target.cpu import CpuFacts, host_cpu
from tilewright.target.generic_func import (
    GenericFunc,
    generic_func,
    get_native_generic_func,
    override_native_generic_func,
)
from tilewright.target.gpu import GpuFacts, MatrixUnit, Occupancy
from tilewright.target.kinds import KINDS, TargetKind, register_kind, remove_kind
from tilewright.target.target import Target, list_tags, register_tag
from tilewright.target.virtual_device import CompilationConfig, VirtualDevice, make_compilation_config

create = Target

_MAKERS = (
    "adreno", "arm_cpu", "bifrost", "cuda", "hexagon", "intel_graphics", "llvm", "mali", "micro", "rasp", "riscv_cpu", "rocm", "stm32",
    "vta",
)  # fmt: skip
lazy.declare(__name__, {name: f"{__name__}.makers:{name}" for name in _MAKERS})
lazy.declare(
    f"{__name__}.target",
    {name: f"{__name__}.makers:{name}" for name in (*_MAKERS, "MICRO_SUPPORTED_MODELS", "STM32_SUPPORTED_SERIES")}
    | {"create": f"{__name__}:create"},
)
lazy.declare(f"{__name__}.tag", {name: f"{__name__}.target:{name}" for name in ("list_tags", "register_tag")})
lazy.declare(__name__, {"codegen": f"{__name__}.codegen"})
lazy.faces(__name__, {"compilation_config": ("make_compilation_config",)})
# Types of the user's own are lowered by a layer above.
__getattr__, __dir__ = lazy.late(__name__)

__all__ = [
    "KINDS",
    "CompilationConfig",
    "CpuFacts",
    "GenericFunc",
    "GpuFacts",
    "MatrixUnit",
    "Occupancy",
    "Target",
    "TargetKind",
    "VirtualDevice",
    "create",
    "generic_func",
    "get_native_generic_func",
    "host_cpu",
    "list_tags",
    "make_compilation_config",
    "override_native_generic_func",
    "register_kind",
    "register_tag",
    "remove_kind",
]
