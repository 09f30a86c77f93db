"""A device whose memory nobody but itself can touch: its pages are open only while it works. What it is given, it does when somebody
waits for it, so that what reads too early reads what was there before. It runs code of two forms: Python, and machine code of the CPU."""

from __future__ import annotations

import ctypes
import gc
import itertools
import math
import mmap
import os
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from tilewright.codegen.backend import back_end_of
from tilewright.runtime import Device, device_api
from tilewright.runtime.device_api import LaunchingDeviceAPI, register_device_api
from tilewright.target import Target

TYPE = 9  # vpi
_libc = ctypes.CDLL(None, use_errno=True)
_libc.mmap.restype = ctypes.c_void_p
_libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_long]
_libc.mprotect.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
_libc.munmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t]
CLOSED, OPEN = 0, mmap.PROT_READ | mmap.PROT_WRITE


KernelBody = Callable[..., object]
NUMBERS = {"int32": ctypes.c_int32, "int64": ctypes.c_int64, "float32": ctypes.c_float, "float64": ctypes.c_double}


class Simulator(LaunchingDeviceAPI):
    """Two devices. `live`: bytes by address; `calls`: what they were asked to do; `refuse`: an error for the next call of a name;
    `launches`: (name, extents, bytes of shared memory) of each launch; `room`: bytes that they have. By their clock, a block of a kernel
    takes a second."""

    def __init__(self) -> None:
        self.live: dict[int, int] = {}
        self.scopes: dict[int, str] = {}
        self.calls: list[str] = []
        self.launches: list[tuple[str, tuple[int, ...], int]] = []
        self.code: dict[int, tuple[str, bytes]] = {}
        self.kernels: dict[int, tuple[str, KernelBody]] = {}
        self.events: dict[int, float] = {}
        self.clock, self.room = 0.0, 1 << 40
        self.numbers = itertools.count(1)
        self.refuse: dict[str, Exception] = {}
        self.queues: dict[int, list[Callable[[], None]]] = {0: []}
        self.current = threading.local()
        self.lock = threading.RLock()
        self.opened = 0

    def is_free(self, seconds: float = 10) -> bool:
        """Whether no memory is left allocated. Python calls a thread joined before the thread's workspaces go: they are waited for."""
        if self.live:
            gc.collect()
        until = time.monotonic() + seconds
        while self.live and time.monotonic() < until:
            time.sleep(0.001)
        return not self.live

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
            if size + sum(self.live.values()) > self.room:
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

    def load_code(self, device: Device, form: str, code: bytes) -> int:
        with self.lock:
            self._enter("load_code")
            if form not in ("python", "object"):
                raise ValueError(f"{device} loads code in the forms python and object, not {form}")
            made = next(self.numbers)
            self.code[made] = form, code
            return made

    def free_code(self, device: Device, code: int) -> None:
        with self.lock:
            self._enter("free_code")
            del self.code[code]

    def find_kernel(self, device: Device, code: int, name: str) -> int:
        with self.lock:
            self._enter("find_kernel")
            form, data = self.code[code]
            made = next(self.numbers)
            self.kernels[made] = name, python_kernel(data, name) if form == "python" else native_kernel(data, name)
            return made

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
        with self.lock:
            self._enter("launch")
            name, body = self.kernels[kernel]
            grid, block = list(extents)[:3], list(extents)[3:]
            if math.prod(block) > 256:
                raise ValueError(f"{device}: a block has 256 threads at most, but {name} asks for {math.prod(block)}")
            if shared > 1 << 15:
                raise ValueError(
                    f"{device}: a block has {1 << 15} bytes of shared memory, but {name} asks for {shared}"
                )
            for kind, value in zip(types, args, strict=True):
                inside = any(a <= value < a + n for a, n in self.live.items())
                if kind == "handle" and not inside:
                    raise ValueError(f"{device}: {name} was given an address that is none of its memory")
            self.launches.append((name, (*grid, *block), shared))
            given = list(zip(types, args, strict=True))

            def work() -> None:
                for z, y, x in itertools.product(*map(range, reversed(grid))):
                    for tz, ty, tx in itertools.product(*map(range, reversed(block))):
                        body(given, (x, y, z, tx, ty, tz))
                self.clock += math.prod(grid)

            self.queues[stream].append(work)

    def create_event(self, device: Device) -> int:
        self._enter("create_event")
        return next(self.numbers)

    def free_event(self, device: Device, event: int) -> None:
        self._enter("free_event")
        self.events.pop(event, None)

    def record_event(self, device: Device, event: int, stream: int) -> None:
        with self.lock:
            self._enter("record_event")

            def record() -> None:
                self.events[event] = self.clock

            self.queues[stream].append(record)

    def elapsed(self, device: Device, begin: int, end: int) -> float:
        with self.lock:
            self._enter("elapsed")
            self._drain(0)
            return self.events[end] - self.events[begin]

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


def python_kernel(source: bytes, name: str) -> KernelBody:
    """A function of (indices of block and thread, arguments...), addresses as pointers to float32."""
    names: dict[str, KernelBody] = {}
    exec(source.decode(), {}, names)
    function = names[name]

    def run(given: list[tuple[str, int | float]], at: tuple[int, ...]) -> None:
        pointer = ctypes.POINTER(ctypes.c_float)
        function(at, *[ctypes.cast(int(v), pointer) if kind == "handle" else v for kind, v in given])

    return run


def native_kernel(code: bytes, name: str) -> KernelBody:
    """A function of the convention of kernels, which takes the indices of block and thread behind its arguments."""
    loaded = back_end_of(Target("llvm")).load([code], [name])
    function = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.POINTER(ctypes.c_void_p))(loaded.symbols[name])

    def run(given: list[tuple[str, int | float]], at: tuple[int, ...]) -> None:
        held = [NUMBERS[kind](value) for kind, value in [*given, *[("int32", i) for i in at]] if kind != "handle"]  # type: ignore[arg-type]
        rest = iter(held)
        kinds = [*given, *[("int32", i) for i in at]]
        slots = [int(v) if kind == "handle" else ctypes.addressof(next(rest)) for kind, v in kinds]
        assert function((ctypes.c_void_p * len(slots))(*slots)) == 0, loaded

    return run


_made: list[Simulator] = []


def simulator() -> Simulator:
    """The simulator of this process, which is registered when it is first asked for."""
    if not _made:
        made = Simulator()
        register_device_api("vpi", made)
        _made.append(made)
    return _made[0]
