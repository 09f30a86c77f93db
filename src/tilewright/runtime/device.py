"""Devices: `cpu(0)`, `device("cuda", 1)`, with the type codes of DLPack."""

from __future__ import annotations

import json
from typing import ClassVar

from tilewright.runtime import _ffi

DEVICES_OF_A_SESSION = 128
"""Types of devices of session n begin at (n + 1) times this."""


class Device(_ffi.Device):
    """A device type and an index. session: that of a remote device, which lives as long as the device does."""

    session: object = None

    kDLCPU, kDLCUDA, kDLCUDAHost, kDLOpenCL, kDLVulkan, kDLMetal = 1, 2, 3, 4, 7, 8
    kDLVPI, kDLROCM, kDLROCMHost, kDLExtDev = 9, 10, 11, 12
    kDLCUDAManaged, kDLOneAPI, kDLWebGPU, kDLHexagon = 13, 14, 15, 16
    kDLMicroDev = 35

    DEVICE_TYPE_TO_NAME: ClassVar[dict[int, str]] = {
        1: "cpu", 2: "cuda", 3: "cuda_host", 4: "opencl", 7: "vulkan", 8: "metal", 9: "vpi", 10: "rocm",
        11: "rocm_host", 12: "ext_dev", 13: "cuda_managed", 14: "oneapi", 15: "webgpu", 16: "hexagon",
        35: "micro_dev",
    }  # fmt: skip
    DEVICE_NAME_TO_TYPE: ClassVar[dict[str, int]] = {
        "llvm": 1, "stackvm": 1, "cpu": 1, "c": 1, "test": 1, "hybrid": 1, "composite": 1, "cuda": 2, "nvptx": 2,
        "cl": 4, "opencl": 4, "sdaccel": 4, "vulkan": 7, "metal": 8, "vpi": 9, "rocm": 10, "ext_dev": 12,
        "webgpu": 15, "hexagon": 16, "micro_dev": 35,
    }  # fmt: skip

    def _number(self, kind: int) -> int | None:
        """The attribute as the device's runtime states it; None if it has no value, or the process has no runtime for the device."""
        found: int | None = _ffi.get_global("runtime.GetDeviceAttr")(self.device_type, self.device_id, kind)
        return found

    def _text(self, kind: int) -> str | None:
        """The same of what is a text."""
        found: str | None = _ffi.get_global("runtime.GetDeviceAttr")(self.device_type, self.device_id, kind)
        return found

    @property
    def exist(self) -> bool:
        """Whether the runtime can use the device."""
        return bool(self._number(0))

    @property
    def max_threads_per_block(self) -> int | None:
        """Threads of a block, at most."""
        return self._number(1)

    @property
    def warp_size(self) -> int | None:
        """Threads that run together."""
        return self._number(2)

    @property
    def max_shared_memory_per_block(self) -> int | None:
        """Bytes of memory that the threads of a block share, at most."""
        return self._number(3)

    @property
    def compute_version(self) -> str | None:
        """The compute capability of the device, such as "8.0" for CUDA."""
        return self._text(4)

    @property
    def device_name(self) -> str | None:
        """The name of the processor, where the system tells."""
        return self._text(5)

    @property
    def max_clock_rate(self) -> int | None:
        """Clock in kHz, where the system tells."""
        return self._number(6)

    @property
    def multi_processor_count(self) -> int | None:
        """Multiprocessors; of the CPU, processors that this process may use."""
        return self._number(7)

    @property
    def max_thread_dimensions(self) -> list[int] | None:
        """Threads of a block in each dimension, at most."""
        found: list[int] = json.loads(self._text(8) or "[]")
        return found or None

    @property
    def api_version(self) -> int | None:
        """Version of the driver's interface."""
        return self._number(11)

    @property
    def driver_version(self) -> str | None:
        """Version of the driver."""
        return self._text(12)

    @property
    def l2_cache_size_bytes(self) -> int | None:
        """Bytes of the last cache before memory."""
        return self._number(13)

    @property
    def total_global_memory(self) -> int | None:
        """Bytes of memory."""
        return self._number(14)

    @property
    def available_global_memory(self) -> int | None:
        """Bytes of free memory."""
        return self._number(15)

    @property
    def texture_spatial_limit(self) -> int | None:
        """Elements of a texture in a dimension, at most."""
        return self._number(17)

    def create_raw_stream(self) -> int:
        """A new stream, to be given back by `free_raw_stream`. ValueError where the device has only its own."""
        return _ffi.create_stream(self)

    def free_raw_stream(self, stream: int) -> None:
        """Gives a stream back; what this thread gives the device after that goes to the device's own stream."""
        _ffi.free_stream(self, stream)

    def set_raw_stream(self, stream: int | None) -> None:
        """Sets the stream for further work of this thread on the device; None is the device's own."""
        _ffi.set_stream(self, stream or 0)

    def sync_raw_streams(self, first: int, then: int) -> None:
        """Makes later work of the stream `then` wait for the work given to `first` so far."""
        _ffi.order_streams(self, first, then)

    def sync(self, stream: int | None = None) -> None:
        """Waits for a stream, or for all that the device was given; calls on the CPU are done when they return."""
        _ffi.synchronize(self, stream or 0)

    def __repr__(self) -> str:
        session, kind = divmod(self.device_type, DEVICES_OF_A_SESSION)
        if session:
            return f"remote[{session - 1}]:{Device(kind, self.device_id)}"
        return f"{self.DEVICE_TYPE_TO_NAME.get(self.device_type, f'device_type_{self.device_type}')}({self.device_id})"

    def __reduce__(self) -> tuple[type[Device], tuple[int, int]]:
        return (Device, (self.device_type, self.device_id))


def device(dev_type: int | str, dev_id: int = 0) -> Device:
    """The device of a type code or a name; ValueError lists the names."""
    if isinstance(dev_type, str):
        name = dev_type.split()[0] if dev_type else dev_type
        if ":" in name:
            name, _, index = name.partition(":")
            dev_id = int(index)
        if name not in Device.DEVICE_NAME_TO_TYPE:
            known = ", ".join(sorted(Device.DEVICE_NAME_TO_TYPE))
            raise ValueError(f"unknown device type `{name}`; known are: {known}")
        dev_type = Device.DEVICE_NAME_TO_TYPE[name]
    return Device(dev_type, dev_id)


def cpu(dev_id: int = 0) -> Device:
    """The CPU."""
    return Device(1, dev_id)


def cuda(dev_id: int = 0) -> Device:
    """A CUDA device."""
    return Device(2, dev_id)


gpu = cuda


def opencl(dev_id: int = 0) -> Device:
    """An OpenCL device."""
    return Device(4, dev_id)


cl = opencl


def vulkan(dev_id: int = 0) -> Device:
    """A Vulkan device."""
    return Device(7, dev_id)


def mtl(dev_id: int = 0) -> Device:
    """The Metal device of that number."""
    return Device(8, dev_id)


def metal(dev_id: int = 0) -> Device:
    """A Metal device."""
    return Device(8, dev_id)


def rocm(dev_id: int = 0) -> Device:
    """A ROCm device."""
    return Device(10, dev_id)


def vpi(dev_id: int = 0) -> Device:
    """A VPI simulated device."""
    return Device(9, dev_id)


def ext_dev(dev_id: int = 0) -> Device:
    """An extension device, such as an accelerator."""
    return Device(12, dev_id)


def hexagon(dev_id: int = 0) -> Device:
    """A Hexagon device."""
    return Device(16, dev_id)


def micro_dev(dev_id: int = 0) -> Device:
    """A microcontroller, while a session with it is open (tvm.micro.Session)."""
    return Device(35, dev_id)


def webgpu(dev_id: int = 0) -> Device:
    """A WebGPU device."""
    return Device(15, dev_id)
