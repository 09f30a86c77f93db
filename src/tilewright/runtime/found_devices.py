"""The devices that this process can use, and why it cannot use those of a type."""

from __future__ import annotations

from typing import NamedTuple

from tilewright.runtime.device import Device

TYPES = ("cpu", "cuda", "opencl")
"""Types of devices whose runtimes belong to the package."""


class Found(NamedTuple):
    """The devices of a type; `why` says why there is none."""

    devices: list[Device]
    why: str


def found_devices(device_type: str) -> Found:
    """The devices of a type by name, such as "opencl". ValueError for a name that is no type."""
    if device_type not in Device.DEVICE_NAME_TO_TYPE:
        raise ValueError(
            f"unknown device type `{device_type}`; known are: {', '.join(sorted(Device.DEVICE_NAME_TO_TYPE))}"
        )
    kind = Device.DEVICE_NAME_TO_TYPE[device_type]
    devices: list[Device] = []
    while Device(kind, len(devices)).exist:
        devices.append(Device(kind, len(devices)))
    return Found(devices, "" if devices else _why(Device(kind, 0)))


def _why(device: Device) -> str:
    try:
        device.sync()
    except Exception as error:
        return str(error)
    return f"there is no device {device}"


__all__ = ["TYPES", "Found", "found_devices"]
