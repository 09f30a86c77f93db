"""Devices: `cpu(0)`, `device("cuda", 1)`, with the type codes of DLPack."""

from __future__ import annotations

import platform
from typing import ClassVar

from tilewright.runtime import _ffi
from tilewright.support.processors import usable_processors


class Device(_ffi.Device):
    """A device type and an index."""

    kDLCPU, kDLCUDA, kDLCUDAHost, kDLOpenCL, kDLVulkan, kDLMetal = 1, 2, 3, 4, 7, 8
    kDLVPI, kDLROCM, kDLROCMHost, kDLExtDev = 9, 10, 11, 12
    kDLCUDAManaged, kDLOneAPI, kDLWebGPU, kDLHexagon = 13, 14, 15, 16

    DEVICE_TYPE_TO_NAME: ClassVar[dict[int, str]] = {
        1: "cpu", 2: "cuda", 3: "cuda_host", 4: "opencl", 7: "vulkan", 8: "metal", 9: "vpi", 10: "rocm",
        11: "rocm_host", 12: "ext_dev", 13: "cuda_managed", 14: "oneapi", 15: "webgpu", 16: "hexagon",
    }  # fmt: skip
    DEVICE_NAME_TO_TYPE: ClassVar[dict[str, int]] = {
        "llvm": 1, "stackvm": 1, "cpu": 1, "c": 1, "test": 1, "hybrid": 1, "composite": 1, "cuda": 2, "nvptx": 2,
        "cl": 4, "opencl": 4, "sdaccel": 4, "vulkan": 7, "metal": 8, "vpi": 9, "rocm": 10, "ext_dev": 12,
        "webgpu": 15, "hexagon": 16,
    }  # fmt: skip

    @property
    def exist(self) -> bool:
        """Whether the runtime can use the device."""
        return self.device_type == self.kDLCPU and self.device_id == 0

    @property
    def max_clock_rate(self) -> int | None:
        """Clock in kHz, where the system tells."""
        try:
            with open("/sys/devices/system/cpu/cpu0/cpufreq/cpuinfo_max_freq") as file:
                return int(file.read())
        except (OSError, ValueError):
            return None

    @property
    def multi_processor_count(self) -> int:
        """Processors that this process may use."""
        return usable_processors()

    @property
    def device_name(self) -> str | None:
        """The name of the processor, where the system tells."""
        if not self.exist:
            return None
        try:
            with open("/proc/cpuinfo") as file:
                names = [line.partition(":")[2].strip() for line in file if line.startswith("model name")]
        except OSError:
            names = []
        return names[0] if names else platform.processor() or None

    @property
    def _unknown(self) -> None:
        """Limits and versions of GPUs: a CPU has none of them."""

    compute_version = api_version = driver_version = _unknown
    max_threads_per_block = max_thread_dimensions = max_shared_memory_per_block = warp_size = _unknown
    total_global_memory = available_global_memory = l2_cache_size_bytes = texture_spatial_limit = _unknown

    def sync(self, stream: object = None) -> None:
        """Waits for the device; calls on the CPU are done when they return."""

    def __repr__(self) -> str:
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


def webgpu(dev_id: int = 0) -> Device:
    """A WebGPU device."""
    return Device(15, dev_id)
