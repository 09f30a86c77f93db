"""Questions about LLVM and about the features of targets (classic `tvm.target.codegen`)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from llvmlite import binding

from tilewright.target.cpu import host_cpu
from tilewright.target.llvm_names import CPUS
from tilewright.target.target import Target
from tilewright.target.triples import architecture

__all__ = [
    "llvm_cpu_has_features",
    "llvm_get_cpu_archlist",
    "llvm_get_cpu_features",
    "llvm_get_system_cpu",
    "llvm_get_system_triple",
    "llvm_get_system_x86_vendor",
    "llvm_version_major",
    "target_has_features",
]


def llvm_version_major(allow_none: bool = False) -> int:
    """The first number of LLVM's version. It is always there."""
    return int(binding.llvm_version_info[0])


def llvm_get_system_triple() -> str:
    """The triple of this machine."""
    return str(host_cpu().triple)


def llvm_get_system_cpu() -> str:
    """The name of this machine's processor."""
    return str(host_cpu().name)


def llvm_get_system_x86_vendor() -> str:
    """The vendor as the processor tells it ("amd", "intel"); "" where the system does not tell it."""
    try:
        with open("/proc/cpuinfo") as file:
            lines = [line.partition(":")[2].strip() for line in file if line.startswith("vendor_id")]
    except OSError:
        return ""
    return {"AuthenticAMD": "amd", "GenuineIntel": "intel"}.get(lines[0], lines[0].lower()) if lines else ""


def _target(target: Any) -> Target:
    return Target.current() or Target("llvm") if target is None else Target(target)


def llvm_get_cpu_archlist(target: Any = None) -> list[str]:
    """The names of processors of the target's architecture."""
    arch = architecture(str(_target(target).triple))
    return sorted(CPUS.get({"x86_64": "x86", "i386": "x86"}.get(arch, arch), ()))


def llvm_get_cpu_features(target: Any = None) -> dict[str, str]:
    """The features of the target's processor, each with an empty text."""
    return dict.fromkeys(sorted(_target(target).features), "")


def target_has_features(cpu_features: str | Sequence[str], target: Any = None) -> bool:
    """Whether a target, the current one by default, has all of these features."""
    wanted = [cpu_features] if isinstance(cpu_features, str) else cpu_features
    return set(wanted) <= set(llvm_get_cpu_features(target))


def llvm_cpu_has_features(cpu_features: str | Sequence[str], target: Any = None) -> bool:
    """The same."""
    return target_has_features(cpu_features, target)
