"""The devices that a library was compiled for, by its metadata."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

CPU = 1
"""The number of its kind."""


def devices_of(facts: Mapping[str, Any]) -> list[Any]:
    """The devices; the CPU where the metadata names none."""
    import tilewright as tvm

    return [tvm.device(kind, number) for kind, number in facts.get("devices") or [(CPU, 0)]]


def runs_on_cpu(facts: Mapping[str, Any]) -> bool:
    """Whether all of them are CPUs."""
    return all([kind == CPU for kind, _ in facts.get("devices", ())])


def completed(run: Callable[..., Any], facts: Mapping[str, Any]) -> Callable[..., None]:
    """A function that runs something and waits until its devices are done. The CPU is when the function returns."""
    devices = [d for d in devices_of(facts) if d.device_type != CPU]

    def complete(*args: Any) -> None:
        run(*args)
        for device in devices:
            device.sync()

    return complete if devices else run
