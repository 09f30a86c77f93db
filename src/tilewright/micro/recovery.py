"""What a session does where a run does not end as it should: it tells why, and brings the device back."""

from __future__ import annotations

import struct
import time
from typing import TYPE_CHECKING

from tilewright.micro import tasks
from tilewright.micro.errors import DeviceTimeout, MicroError
from tilewright.micro.faults import cortex_m_fault, fault_error, riscv_fault
from tilewright.micro.tasks import PACKED_PREFIX
from tilewright.runtime.errors import error_class

if TYPE_CHECKING:
    from tilewright.micro.debug_session import DebugSession

RECOVERS_IN = 1.0
"""Seconds that a handler of faults has to return."""
TRIES = 20
"""How often a device that is stopped in an interrupt goes on for a moment, to come out of it."""
_RESETS = {"qemu": "system_reset", "openocd": "reset halt", "pyocd": "reset halt", "gdb": "reset halt"}
"""What debuggers call a reset that is followed by no run."""
THUMB = 0x01000000
"""The status register of a Cortex-M that runs no exception."""


class Recovery:
    """The errors of runs. Each method returns the error to raise; after it the device is ready for the next call."""

    def __init__(self, session: DebugSession) -> None:
        self.session = session

    def late(self, seconds: float) -> MicroError:
        """The error of a run that does not end. The device is stopped, and begins anew."""
        remote = self.session.connection()
        name = self.session.batch.names[0]
        try:
            remote.interrupt()
            at = self._outside_interrupts()
            _, running = tasks.progress(remote.read(self.session.layout["args"].start, 16))
            name = self.session.batch.names[min(running, len(self.session.batch.names) - 1)]
        except (MicroError, ValueError) as error:
            return DeviceTimeout(
                f"{self.session.board.name} stopped answering while {name} ran, {seconds:.1f} s ago: {error}"
            )
        where = self.session.function_at(at)
        self.session.begin()
        place = f" in {where}" if where else ""
        return DeviceTimeout(
            f"{name} did not finish on {self.session.board.name} in {self.session.timeout:g} s: it was at {at:#010x}{place}; a longer"
            " timeout= may help"
        )

    def _outside_interrupts(self) -> int:
        """Where a device that was stopped is, once it has left interrupts: these stay active when the processor is set to another place."""
        remote = self.session.connection()
        for _ in range(TRIES if self.session.board.architecture == "cortex_m" else 0):
            if not remote.register("xpsr") & 0x1FF:
                break
            remote.send([b"c"])
            time.sleep(0.002)
            remote.interrupt()
        return remote.register("pc")

    def failed(self, name: str, status: int) -> BaseException:
        """The error of a function that returned a code."""
        remote = self.session.connection()
        kind, text = (
            remote.read(self.session.runtime.symbols[symbol], size).split(b"\0")[0].decode(errors="replace")
            for symbol, size in (("tw_error_kind", 24), ("tw_error_text", 168))
        )
        self.session.begin()  # gives temporaries back, and forgets the error
        if not kind:
            return MicroError(f"{name} failed on {self.session.board.name} with code {status}")
        text = text.removeprefix(PACKED_PREFIX)
        return error_class(kind)(text if text.startswith(name) else f"{name}: {text}")

    def stopped(self, name: str) -> Exception:
        """The error of a run that ended elsewhere than at its end."""
        remote = self.session.connection()
        at = remote.register("pc")
        if at == self.session.stop_address:
            self.session.begin()
            return MicroError(f"{self.session.board.name} was reset, or gave up (tw_platform_abort), while {name} ran")
        if at != self.session.fault_address:
            where = self.session.function_at(at)
            self.session.begin()
            return MicroError(
                f"{name} stopped on {self.session.board.name} at {at:#010x}{f' in {where}' if where else ''}, for no reason that is known"
            )
        if self.session.board.architecture == "cortex_m":
            fault = cortex_m_fault(remote, not self.session.board.triple.startswith("thumbv6m"))
        else:
            fault = riscv_fault(remote)
        error = fault_error(
            name,
            self.session.board.name,
            fault,
            self.session.function_at(fault.pc),
            self.session.source_line(fault.pc),
            self.session.layout["stack"],
        )
        self._recover()
        return error

    def _recover(self) -> None:
        """Brings the processor out of the fault: the handler returns to where runs end, and the runtime begins anew. Where that fails, the
        debugger resets the processor."""
        remote = self.session.connection()
        if self.session.board.architecture == "cortex_m":
            # The registers that the handler gives back, at a place of the stack that is sound: r0 to r3, r12, lr, pc, xpsr, and floats.
            frame = self.session.symbols["tw_stack_top"] - 128
            remote.write(frame, struct.pack("<8I", *[0] * 6, self.session.stop_address, THUMB))
            remote.set_register("sp", frame)
            remote.clear_breakpoint(self.session.fault_address)
            try:
                remote.run([], RECOVERS_IN)
            except DeviceTimeout:
                remote.interrupt()
                remote.monitor(_RESETS[self.session.config["comms_method"]])
        self.session.begin()


__all__ = ["THUMB", "Recovery"]
