"""Whether Thrust sorts and scans on a GPU. It does where a program registers packed functions under its names."""

from __future__ import annotations

import warnings
from typing import Any

from tilewright.runtime import get_global_func


def _registered(func_name: str) -> bool:
    return get_global_func(func_name, allow_missing=True) is not None


def maybe_warn(target: Any, func_name: str) -> None:
    """Warns if a target asks for a library (`-libs=thrust`) whose function is not registered."""
    name = "thrust" if target.kind.name == "cuda" else "rocthrust"
    if name in target.libs and not _registered(func_name):
        warnings.warn(f"the target asks for {name}, but there is no packed function {func_name}", stacklevel=3)


def can_use_thrust(target: Any, func_name: str) -> bool:
    """Whether a target for CUDA asks for Thrust, and a function of it is registered."""
    maybe_warn(target, func_name)
    return target.kind.name == "cuda" and "thrust" in target.libs and _registered(func_name)


def can_use_rocthrust(target: Any, func_name: str) -> bool:
    """Whether a target for ROCm asks for rocThrust, and a function of it is registered."""
    maybe_warn(target, func_name)
    return target.kind.name == "rocm" and "thrust" in target.libs and _registered(func_name)
