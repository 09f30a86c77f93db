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
from tilewright.target.kinds import KINDS, TargetKind, register_kind, remove_kind
from tilewright.target.target import Target, list_tags, register_tag
from tilewright.target.virtual_device import CompilationConfig, VirtualDevice, make_compilation_config

create = Target


def llvm(*, options: str = "") -> Target:
    """An LLVM target; `options` as on the command line, for example "-mcpu=znver5"."""
    return Target(f"llvm {options}".strip())


def cuda(*, arch: str | None = None, options: str = "") -> Target:
    """A CUDA target; `arch` such as "sm_90"."""
    return Target(" ".join(part for part in ("cuda", f"-arch={arch}" if arch else "", options) if part))


def arm_cpu(*, options: str = "") -> Target:
    """An LLVM target with the ARM schedules preferred."""
    return Target(f"llvm -keys=arm_cpu,cpu {options}".strip())


# Types of the user's own are lowered by a layer above.
__getattr__, __dir__ = lazy.late(__name__)

__all__ = [
    "KINDS",
    "CompilationConfig",
    "CpuFacts",
    "GenericFunc",
    "Target",
    "TargetKind",
    "VirtualDevice",
    "arm_cpu",
    "create",
    "cuda",
    "generic_func",
    "get_native_generic_func",
    "host_cpu",
    "list_tags",
    "llvm",
    "make_compilation_config",
    "override_native_generic_func",
    "register_kind",
    "register_tag",
    "remove_kind",
]
