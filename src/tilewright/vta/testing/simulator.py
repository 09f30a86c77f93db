"""The simulated board of this process, device 0."""

from __future__ import annotations

import json
from typing import Any

from tilewright.vta.libinfo import find_libvta
from tilewright.vta.simulator.native import device_function

LIBS: list[str] = find_libvta(optional=True) or []
"""The paths of the libraries with simulators."""
DEBUG_SKIP_EXEC = 1
"""A flag of `debug_mode`: programs are checked and not run."""


def enabled() -> bool:
    """Whether this runtime has simulators."""
    return bool(LIBS)


def clear_stats() -> None:
    """Counters begin anew. RuntimeError where the board has no accelerator yet."""
    device_function("clear_stats")(0)


def stats() -> dict[str, Any]:
    """The counters since they were cleared: bytes by memory, steps of gemm and alu; of "tsim" also `cycle_count` and cycles by unit."""
    found: dict[str, Any] = json.loads(device_function("stats")(0))
    return found


def debug_mode(flag: int) -> None:
    """Sets flags: DEBUG_SKIP_EXEC, or 0."""
    device_function("skip")(0, flag & DEBUG_SKIP_EXEC)


__all__ = ["DEBUG_SKIP_EXEC", "LIBS", "clear_stats", "debug_mode", "enabled", "stats"]
