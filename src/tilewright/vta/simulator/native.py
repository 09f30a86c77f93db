"""The simulators of the native library, each a board of its own: memory, and an accelerator of a configuration."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from tilewright.runtime import Device, ext_dev, get_global_func
from tilewright.runtime.ndarray import empty
from tilewright.vta.configuration import Configuration
from tilewright.vta.image import UOPS, Kernel
from tilewright.vta.isa.layout import layout_of
from tilewright.vta.isa.program import Insn, encode, encode_uops
from tilewright.vta.simulator.description import describe


def device_function(name: str) -> Any:
    """The function `vta.device.<name>` of this process, whose library is opened at the first use of a device. Raises what the loader says
    where there is none."""
    found = get_global_func(f"vta.device.{name}", allow_missing=True)
    if found is None:
        empty((1,), "int8", ext_dev(0))
        found = get_global_func(f"vta.device.{name}")
    return found


class Simulator:
    """A board with an accelerator of this configuration: functional, or cycle by cycle where its target is "tsim". It goes with this
    object."""

    def __init__(self, config: Configuration) -> None:
        self.config = config
        self.layout = layout_of(config)
        self.id = int(device_function("add")())
        self._call("configure", describe(config))

    @property
    def device(self) -> Device:
        """The board as a device for arrays."""
        return ext_dev(self.id)

    def __del__(self) -> None:
        if hasattr(self, "id"):
            device_function("remove")(self.id)

    def _call(self, name: str, *args: Any) -> Any:
        return device_function(name)(self.id, *args)

    def allocate(self, size: int) -> int:
        """The address of memory of `size` bytes; it begins with zeros."""
        return int(self._call("allocate", size))

    def release(self, address: int) -> None:
        self._call("release", address)

    def write(self, address: int, data: bytes | bytearray | np.ndarray[Any, Any]) -> None:
        """Writes to memory, and makes the accelerator see it. IndexError outside of all allocations."""
        data = data.tobytes() if isinstance(data, np.ndarray) else bytes(data)
        self._call("write", address, data)
        self._call("flush", address, len(data))

    def read(self, address: int, size: int) -> bytes:
        """Bytes of memory as the accelerator left them. IndexError outside of all allocations."""
        self._call("invalidate", address, size)
        return bytes(self._call("read", address, size))

    def run(self, instructions: Sequence[Insn]) -> None:
        """Runs a program. IndexError, ValueError or RuntimeError name the instruction and what it must not do, or who waits for whom."""
        with self._placed(encode(self.layout, instructions)) as address:
            self._call("run", address, len(instructions))

    @contextmanager
    def _placed(self, data: bytes | bytearray) -> Iterator[int]:
        """The address of memory that holds data as long as the context lasts."""
        address = self.allocate(len(data))
        try:
            self.write(address, data)
            yield address
        finally:
            self.release(address)

    def cycles(self, kernel: Kernel, most: int = (1 << 62)) -> int | None:
        """The cycles of a kernel, by a timed simulator, without what it does to data, which takes less time than `run`. None where they are
        more than `most`. RuntimeError where the program waits forever; IndexError or ValueError name an instruction that does what no
        accelerator does, or goes beyond a memory of the chip."""
        with self._placed(encode_uops(self.layout, kernel.uops)) as own:
            instructions = list(kernel.instructions)
            for n in [n for n, argument in kernel.relocations if argument == UOPS]:
                i = instructions[n]
                instructions[n] = Insn(i.name, {**i.values, "dram_base": i["dram_base"] + own})
            with self._placed(encode(self.layout, instructions)) as address:
                found = int(self._call("cycles", address, len(instructions), most))
        return None if found < 0 else found

    def stats(self) -> dict[str, Any]:
        """What was done since the counters were cleared: bytes by memory, steps, instructions; of a timed one also cycles."""
        found: dict[str, Any] = json.loads(self._call("stats"))
        return found

    def start_trace(self) -> None:
        """Records what the units do from now on; of a timed one."""
        self._call("trace", 1)

    def trace(self) -> str:
        """What was recorded, as the JSON that Perfetto and Chrome open; a cycle is a microsecond there."""
        return str(self._call("trace_text"))

    def clear_stats(self) -> None:
        """Counters, times and the trace begin anew."""
        self._call("clear_stats")


__all__ = ["Simulator", "device_function"]
