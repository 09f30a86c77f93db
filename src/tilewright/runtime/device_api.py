"""Devices whose runtime is Python: simulators, and what stands for devices elsewhere."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence

from tilewright.runtime import _ffi
from tilewright.runtime.device import Device

EXIST, MAX_THREADS_PER_BLOCK, WARP_SIZE, MAX_SHARED_MEMORY_PER_BLOCK, COMPUTE_VERSION, DEVICE_NAME = range(6)
MAX_CLOCK_RATE, MULTI_PROCESSOR_COUNT, MAX_THREAD_DIMENSIONS, MAX_REGISTERS_PER_BLOCK, GCN_ARCH, API_VERSION = range(
    6, 12
)
DRIVER_VERSION, L2_CACHE_SIZE_BYTES, TOTAL_GLOBAL_MEMORY, AVAILABLE_GLOBAL_MEMORY = range(12, 16)
IMAGE_PITCH_ALIGNMENT, TEXTURE_SPATIAL_LIMIT = 16, 17
"""Attributes for `DeviceAPI.attribute`."""


class DeviceAPI(ABC):
    """The operations of devices of one type. Several threads may call it at the same time; exceptions reach the caller of the runtime.

    An address is an integer. Where `a` is that of memory of n bytes, a + i is that of its byte i: tensors lie side by side in memory
    that was allocated once."""

    @abstractmethod
    def attribute(self, device: Device, kind: int) -> int | str | None:
        """The device's value of EXIST, WARP_SIZE, ...; None if it has none."""

    @abstractmethod
    def allocate(
        self, device: Device, size: int, alignment: int, shape: Sequence[int], dtype: str, mem_scope: str
    ) -> int:
        """The address of memory of `size` bytes, for a tensor of that shape. mem_scope: "", or one of the device's memories."""

    @abstractmethod
    def free(self, device: Device, address: int) -> None:
        """Gives memory back. What it raises is lost where an array that nobody holds any more is freed."""

    @abstractmethod
    def copy(self, source: Device, address: int, target: Device, to: int, size: int, stream: int) -> None:
        """Copies `size` bytes from an address of a device to one of another; one of them may be the CPU. It need not wait."""

    @abstractmethod
    def synchronize(self, device: Device, stream: int) -> None:
        """Waits for a stream; 0: for all that the device was given."""


class StreamedDeviceAPI(DeviceAPI):
    """The operations of devices with streams besides the default one, 0."""

    @abstractmethod
    def create_stream(self, device: Device) -> int:
        """A new stream."""

    @abstractmethod
    def free_stream(self, device: Device, stream: int) -> None:
        """Gives a stream back."""

    @abstractmethod
    def set_stream(self, device: Device, stream: int) -> None:
        """Sets the stream for further work of this thread on the device."""

    @abstractmethod
    def order_streams(self, device: Device, first: int, then: int) -> None:
        """Makes later work of `then` wait for the work given to `first` so far."""


class LaunchingDeviceAPI(StreamedDeviceAPI):
    """What devices can do that run code they are given, and have a clock."""

    @abstractmethod
    def load_code(self, device: Device, form: str, code: bytes) -> int:
        """Code in a form that the device knows ("ptx"), as a number."""

    @abstractmethod
    def free_code(self, device: Device, code: int) -> None:
        """Gives code back, with its kernels."""

    @abstractmethod
    def find_kernel(self, device: Device, code: int, name: str) -> int:
        """A kernel of loaded code, as a number."""

    @abstractmethod
    def launch(
        self,
        device: Device,
        kernel: int,
        extents: Sequence[int],
        shared: int,
        types: Sequence[str],
        args: Sequence[int | float],
        stream: int,
    ) -> None:
        """Runs a kernel in the order of a stream; it need not wait. extents: blocks along x, y and z, and threads of a block along
        them. shared: bytes of memory that each block has beside what its code declares. args: of each type, an address where it is
        "handle", else a number."""

    @abstractmethod
    def create_event(self, device: Device) -> int:
        """What a moment can be recorded in."""

    @abstractmethod
    def free_event(self, device: Device, event: int) -> None:
        """Gives an event back."""

    @abstractmethod
    def record_event(self, device: Device, event: int, stream: int) -> None:
        """The moment when all is done that a stream was given before."""

    @abstractmethod
    def elapsed(self, device: Device, begin: int, end: int) -> float:
        """Waits for two events; the seconds between them, by the device's clock."""


def register_device_api(device_type: str, api: DeviceAPI) -> None:
    """Makes devices of a type ("vpi") usable in this process, until its end. ValueError where they have a runtime already."""
    functions: list[Callable[..., object]] = [api.attribute, api.allocate, api.free, api.copy, api.synchronize]
    if isinstance(api, StreamedDeviceAPI):
        functions += [api.create_stream, api.free_stream, api.set_stream, api.order_streams]
    if isinstance(api, LaunchingDeviceAPI):
        functions += [api.load_code, api.free_code, api.find_kernel, api.launch]
        functions += [api.create_event, api.free_event, api.record_event, api.elapsed]
    if device_type not in Device.DEVICE_TYPE_TO_NAME.values():
        known = ", ".join(Device.DEVICE_TYPE_TO_NAME.values())
        raise ValueError(f"unknown device type `{device_type}`; known are: {known}")
    _ffi.get_global("runtime.RegisterDeviceAPI")(device_type, *[_ffi.function_from_python(f) for f in functions])


__all__ = ["DeviceAPI", "LaunchingDeviceAPI", "StreamedDeviceAPI", "register_device_api"]
