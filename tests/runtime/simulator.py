"""A device whose memory nobody but itself can touch: its pages are open only while it works. What it is given, it does when somebody
waits for it, so that what reads too early reads what was there before."""

from __future__ import annotations

import ctypes
import mmap
import os
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from tilewright.runtime import Device, device_api
from tilewright.runtime.device_api import StreamedDeviceAPI, register_device_api

TYPE = 9  # vpi
_libc = ctypes.CDLL(None, use_errno=True)
_libc.mmap.restype = ctypes.c_void_p
_libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_long]
_libc.mprotect.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
_libc.munmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t]
CLOSED, OPEN = 0, mmap.PROT_READ | mmap.PROT_WRITE


class Simulator(StreamedDeviceAPI):
    """Two devices. `live`: bytes by address; `calls`: what they were asked to do; `refuse`: an error for the next call of a name."""

    def __init__(self) -> None:
        self.live: dict[int, int] = {}
        self.scopes: dict[int, str] = {}
        self.calls: list[str] = []
        self.refuse: dict[str, Exception] = {}
        self.queues: dict[int, list[Callable[[], None]]] = {0: []}
        self.current = threading.local()
        self.lock = threading.RLock()
        self.opened = 0

    def _enter(self, name: str) -> None:
        self.calls.append(name)
        error = self.refuse.pop(name, None)
        if error is not None:
            raise error

    def attribute(self, device: Device, kind: int) -> int | str | None:
        answers = {
            device_api.EXIST: int(device.device_id < 2),
            device_api.MAX_THREADS_PER_BLOCK: 256,
            device_api.WARP_SIZE: 4,
            device_api.MAX_SHARED_MEMORY_PER_BLOCK: 1 << 15,
            device_api.COMPUTE_VERSION: "1.5",
            device_api.DEVICE_NAME: f"simulator {device.device_id}",
            device_api.MAX_THREAD_DIMENSIONS: "[256, 16, 4]",
            device_api.TOTAL_GLOBAL_MEMORY: 1 << 40,
        }
        return answers.get(kind)

    def allocate(
        self, device: Device, size: int, alignment: int, shape: Sequence[int], dtype: str, mem_scope: str
    ) -> int:
        with self.lock:
            self._enter("allocate")
            if size > 1 << 40:
                raise MemoryError(f"{device} has no {size} bytes")
            if mem_scope not in ("", "global", "texture"):
                raise ValueError(f"{device} has no memory scope {mem_scope}")
            pages = -(-size // mmap.PAGESIZE) * mmap.PAGESIZE
            address: int = _libc.mmap(None, pages, CLOSED, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS, -1, 0)
            self.live[address], self.scopes[address] = pages, mem_scope
            if self.opened:
                self._protect(OPEN)
            return address

    def free(self, device: Device, address: int) -> None:
        with self.lock:
            self._enter("free")
            self._drain(0)
            _libc.munmap(address, self.live.pop(address))

    def copy(self, source: Device, address: int, target: Device, to: int, size: int, stream: int) -> None:
        with self.lock:
            self._enter("copy")
            for device, place in ((source, address), (target, to)):
                inside = [a for a, n in self.live.items() if a <= place and place + size <= a + n]
                assert bool(inside) == (device.device_type == TYPE), f"{place:#x} of {device}"
            self.queues[stream].append(lambda: ctypes.memmove(to, address, size) and None)

    def synchronize(self, device: Device, stream: int) -> None:
        with self.lock:
            self._enter("synchronize")
            self._drain(stream)

    def create_stream(self, device: Device) -> int:
        with self.lock:
            self._enter("create_stream")
            made = max(self.queues) + 1
            self.queues[made] = []
            return made

    def free_stream(self, device: Device, stream: int) -> None:
        with self.lock:
            self._enter("free_stream")
            self._drain(stream)
            del self.queues[stream]

    def set_stream(self, device: Device, stream: int) -> None:
        self._enter("set_stream")
        self.current.stream = stream

    def order_streams(self, device: Device, first: int, then: int) -> None:
        with self.lock:
            self._enter("order_streams")
            self.queues[then].append(lambda: self._drain(first))

    def launch(self, kernel: Callable[[], None]) -> None:
        """Runs something in the order of this thread's stream."""
        with self.lock:
            self._enter("launch")
            self.queues[getattr(self.current, "stream", 0)].append(kernel)

    def _drain(self, stream: int) -> None:
        for number in list(self.queues) if stream == 0 else [stream]:
            with self._open():
                while self.queues[number]:
                    self.queues[number].pop(0)()

    @contextmanager
    def _open(self) -> Iterator[None]:
        self.opened += 1
        self._protect(OPEN)
        try:
            yield
        finally:
            self.opened -= 1
            if not self.opened:
                self._protect(CLOSED)

    def _protect(self, how: int) -> None:
        for address, size in self.live.items():
            if _libc.mprotect(address, size, how):
                raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))


_made: list[Simulator] = []


def simulator() -> Simulator:
    """The simulator of this process, which is registered when it is first asked for."""
    if not _made:
        made = Simulator()
        register_device_api("vpi", made)
        _made.append(made)
    return _made[0]
