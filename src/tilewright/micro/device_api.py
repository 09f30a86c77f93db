"""Microcontrollers as devices of the runtime: `micro_dev(k)` is that of the k-th open session."""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Sequence
from typing import TYPE_CHECKING

from tilewright.micro.errors import MicroError
from tilewright.runtime import Device, micro_dev
from tilewright.runtime.device_api import (
    DEVICE_NAME,
    EXIST,
    MAX_CLOCK_RATE,
    TOTAL_GLOBAL_MEMORY,
    DeviceAPI,
    register_device_api,
)

if TYPE_CHECKING:
    from tilewright.micro.debug_session import DebugSession

CPU = 1


class _Devices(DeviceAPI):
    """What the devices of all sessions can do."""

    def __init__(self) -> None:
        self.sessions: dict[int, DebugSession] = {}
        self.left: dict[int, set[int]] = {}
        """By device whose session has ended, the arrays that are still held: until they are gone, no other session gets its number."""
        self.lock = threading.Lock()

    def session(self, device: Device) -> DebugSession:
        found = self.sessions.get(device.device_id)
        if found is None:
            raise MicroError(f"{device} has no session: it is closed, or was never open (tvm.micro.Session)")
        return found

    def attribute(self, device: Device, kind: int) -> int | str | None:
        session = self.sessions.get(device.device_id)
        if kind == EXIST:
            return session is not None
        if session is None:
            return None
        return {
            DEVICE_NAME: session.board.name,
            MAX_CLOCK_RATE: session.board.clock_hz // 1000,
            TOTAL_GLOBAL_MEMORY: session.layout["heap"].size,
        }.get(kind)

    def allocate(
        self, device: Device, size: int, alignment: int, shape: Sequence[int], dtype: str, mem_scope: str
    ) -> int:
        return self.session(device).allocate(size, alignment)

    def free(self, device: Device, address: int) -> None:
        with self.lock:
            left = self.left.get(device.device_id)
            if left is not None:
                left.discard(address)
                if not left:
                    del self.left[device.device_id]
                return
        self.session(device).free(address)

    def copy(self, source: Device, address: int, target: Device, to: int, size: int, stream: int) -> None:
        if source.device_type == CPU:
            self.session(target).write_memory(to, ctypes.string_at(address, size))
            return
        data = self.session(source).read_memory(address, size)
        if target.device_type == CPU:
            ctypes.memmove(to, data, size)
        else:
            self.session(target).write_memory(to, data)

    def synchronize(self, device: Device, stream: int) -> None:
        self.session(device).synchronize()


_devices: _Devices | None = None


def attach(session: DebugSession) -> Device:
    """The device of a session that has just begun."""
    global _devices
    if _devices is None:
        _devices = _Devices()
        register_device_api("micro_dev", _devices)
    with _devices.lock:
        used = _devices.sessions.keys() | _devices.left.keys()
        number = next(k for k in range(len(used) + 1) if k not in used)
        _devices.sessions[number] = session
    return micro_dev(number)


def detach(device: Device) -> None:
    """Takes the device of a session away that ends. Arrays on it cannot be used any more."""
    if _devices is not None:
        with _devices.lock:
            ended = _devices.sessions.pop(device.device_id, None)
            if ended is not None and ended.heap.taken:
                _devices.left[device.device_id] = set(ended.heap.taken)


__all__ = ["attach", "detach"]
