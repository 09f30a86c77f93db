"""Sessions with microcontrollers over a debug connection: the device's runtime, its memory, and calls on it."""

from __future__ import annotations

import contextlib
import logging
import struct
import threading
import time
from collections.abc import Sequence
from typing import Any, ClassVar

from tilewright.micro import tasks
from tilewright.micro.debug import servers
from tilewright.micro.debug.remote import Remote, words
from tilewright.micro.device import configuration
from tilewright.micro.device_api import attach, detach
from tilewright.micro.device_runtime import SESSION, helpers, runtime_objects
from tilewright.micro.errors import ConnectionLost, DeviceTimeout, LinkError, MicroError
from tilewright.micro.faults import cortex_m_fault, fault_error, riscv_fault
from tilewright.micro.layout import PageAllocator, session_layout
from tilewright.micro.linking.elf import ElfObject
from tilewright.micro.linking.link import Image, link
from tilewright.runtime.errors import error_class
from tilewright.runtime.linking.symbols import CONTEXT

BEGINS_IN, RECOVERS_IN = 10.0, 1.0
"""Seconds that the device's runtime has to begin, and a handler of faults to return."""
_TRIES = 20
"""How often a device that is stopped in an interrupt goes on for a moment, to come out of it."""
logger = logging.getLogger("tilewright.micro")
"""What devices log (tw_platform_log) comes here, at the level INFO."""
LOG = 256
"""Bytes of the ring in which a device logs: TW_SESSION_LOG."""
_ROOTS = (
    "tw_session_begin",
    "tw_session_run",
    "tw_session_stop",
    "tw_fault",
    CONTEXT,
    "tw_error_kind",
    "tw_error_text",
    "tw_session_log",
    "tw_platform_log",
)
_RESETS = {"qemu": "system_reset", "openocd": "reset halt", "pyocd": "reset halt", "gdb": "reset halt"}
"""What debuggers call a reset that is followed by no run."""
_THUMB = 0x01000000
"""The status register of a Cortex-M that runs no exception."""


class Session:
    """A session with a board: `with micro.Session(config) as session`.

    device_config: what `device.generate_config` makes, or the name of a board, or the path of a description. The session opens the
    debug connection (and starts the emulator or the server behind it), builds the device's runtime, and loads it. `device` is the board as
    a device of the runtime. Raises MicroError where the board cannot be reached, is too small, or does not begin.

    Calls are eager: each runs at once. With deferred=True they are tasks that wait, and run together when memory of the device is read,
    when their list is full, or at `synchronize`.
    """

    _open: ClassVar[list[Session]] = []

    def __init__(self, device_config: Any) -> None:
        self.config = configuration(device_config)
        self.board = self.config["board"]
        self.deferred: bool = self.config["deferred"]
        self.timeout: float = self.config["timeout"]
        self.lock = threading.RLock()
        self.remote: Remote | None = None
        self._server: servers.Server | None = None
        self.images: list[Image] = []
        self._logged = 0
        self.ticks = 0
        """Ticks of the device's clock that the tasks of the last run took."""

    def __enter__(self) -> Session:
        if self.remote is not None:
            raise MicroError("the session is open already")
        qemu = self.config["comms_method"] == "qemu"
        self.layout = session_layout(self.board, self.config["section_constraints"], qemu)
        self._memory = {name: PageAllocator(s, 16) for name, s in self.layout.items() if name in ("code", "data")}
        self.heap = PageAllocator(self.layout["heap"])
        self.batch = tasks.Batch(self.layout["args"])
        self._held: list[Any] = []
        try:
            self._connect()
            self._load_runtime()
            self._begin()
        except BaseException:
            self._disconnect()
            raise
        self.device = attach(self)
        Session._open.append(self)
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Runs what waits, ends the session, and the emulator or server that it started."""
        if self.remote is None:
            return
        try:
            self.synchronize()
        finally:
            self._disconnect()
            detach(self.device)
            Session._open.remove(self)

    @staticmethod
    def current(config: Any = None) -> Session:
        """The session that was opened last, of those with the board of `config`. Raises MicroError where there is none."""
        wanted = configuration(config)["board"].name if config is not None else None
        found = [s for s in Session._open if wanted in (None, s.board.name)]
        if not found:
            raise MicroError(
                f"no session{f' with {wanted}' if wanted else ''} is open: `with tvm.micro.Session(config):` opens one"
            )
        return found[-1]

    # --- the connection

    def _connect(self) -> None:
        config = self.config
        if config["comms_method"] == "gdb":
            self.remote = Remote.connect((config["server_addr"], config["server_port"]))
        else:
            self._server = servers.start(self.board, config["comms_method"], config["instruction_shift"])
            self.remote = self._server.connect()

    def _disconnect(self) -> None:
        if self.remote is not None:
            self.remote.close()
            self.remote = None
        if self._server is not None:
            self._server.close()
            self._server = None

    def _need(self) -> Remote:
        if self.remote is None:
            raise MicroError(f"the session with {self.board.name} is closed")
        return self.remote

    @contextlib.contextmanager
    def _watched(self) -> Any:
        """Adds to a connection that ends what the server said last."""
        try:
            yield
        except ConnectionLost as error:
            if self._server is not None:
                with contextlib.suppress(Exception):
                    self._server.process.wait(0.5)
                words = self._server.words()
                waiting = f" while {self.batch.names[0]} ran" if self.batch.names else ""
                self.batch.clear()
                raise ConnectionLost(
                    f"{self.board.name} fell off{waiting}: {error}; {self._server.command[0]} says: {words}"
                ) from error
            raise

    # --- code

    def _load_runtime(self) -> None:
        layout = self.layout
        outside = {
            "tw_session_queue": layout["args"].start,
            "tw_session_workspace": layout["workspace"].start,
            "tw_session_workspace_end": layout["workspace"].end,
            "tw_stack_top": layout["stack"].end // 16 * 16,
        }
        self.symbols: dict[str, int] = dict(outside)
        roots = [*_ROOTS, *(["tw_vectors"] if self.board.architecture == "cortex_m" else [])]
        self.runtime = self.load(runtime_objects(self.board, SESSION), roots)
        self._stop, self._fault = (self.runtime.symbols[n] & ~1 for n in ("tw_session_stop", "tw_fault"))

    def load(self, objects: Sequence[ElfObject], roots: Sequence[str]) -> Image:
        """Links objects against what the device holds, allocates their sections, and sends them. Raises LinkError."""
        taken: list[tuple[PageAllocator, int]] = []

        def place(kind: str, size: int, alignment: int) -> int:
            memory = self._memory["code" if kind in ("vectors", "text", "rodata") else "data"]
            address = memory.allocate(size, max(alignment, 256 if kind == "vectors" else 1))
            taken.append((memory, address))
            if kind == "bss":
                self.write_memory(address, bytes(size))
            return address

        try:
            image = link(objects, roots, place, self.symbols, helpers(self.board))
            for address, data in image.segments.items():
                self.write_memory(address, data)
        except BaseException:
            for memory, address in taken:
                memory.free(address)
            raise
        image.owned = taken
        if not self.images:
            # What the runtime has is there for modules, the table of its functions among it.
            self.symbols = {**image.symbols, **self.symbols}
        self.images.append(image)
        return image

    def source_line(self, address: int) -> str:
        """The line of C that an address belongs to, with its number; "" where that is not known."""
        address &= ~1
        for image in self.images:
            function, line = image.function_at(address), image.line_at(address)
            if function is not None and line is not None:
                text = image.sources.get(function.name, "").splitlines()
                said = f": {text[line - 1].strip()}" if 0 < line <= len(text) else ""
                return f"line {line} of the C source{said}"
        return ""

    def unload(self, image: Image) -> None:
        """Gives the sections of code back."""
        for memory, address in image.owned:
            memory.free(address)
        self.images.remove(image)

    def function_at(self, address: int) -> str:
        """The name of the function of an address on the device; "" where there is none."""
        found = next((p for image in self.images if (p := image.function_at(address & ~1)) is not None), None)
        return found.name if found is not None else ""

    # --- memory

    def allocate(self, size: int, alignment: int) -> int:
        """Memory of the device's heap. Raises MemoryError, with what is free."""
        try:
            return self.heap.allocate(size, alignment)
        except LinkError as error:
            raise MemoryError(f"{self.board.name}: {error}") from None

    def free(self, address: int) -> None:
        """Gives memory of the heap back; tasks that wait may use it still, and run before."""
        if self.batch.names:
            self.synchronize()
        self.heap.free(address)

    def read_memory(self, address: int, size: int) -> bytes:
        """Memory of the device, when all tasks are done."""
        with self.lock:
            self.synchronize()
            with self._watched():
                return self._need().read(address, size)

    def write_memory(self, address: int, data: bytes) -> None:
        """Writes memory of the device, when all tasks are done."""
        with self.lock:
            self.synchronize()
            with self._watched():
                self._need().write(address, data)

    # --- runs

    def _entry(self, name: str) -> list[bytes]:
        """What sets the processor up to run a function of its runtime."""
        remote, at = self._need(), self.runtime.symbols[name]
        values = {"sp": self.symbols["tw_stack_top"], "pc": at & ~1}
        if self.board.architecture == "cortex_m":
            values["xpsr"] = _THUMB
        return [remote.setting(register, value) for register, value in values.items()]

    def _begin(self) -> None:
        """Lets the runtime begin: the unit for floats, vectors, clock, temporaries."""
        remote = self._need()
        for address in (self._stop, self._fault):
            remote.set_breakpoint(address)
        with self._watched():
            remote.run(self._entry("tw_session_begin"), BEGINS_IN)
        at = remote.register("pc")
        if at != self._stop:
            raise MicroError(
                f"the runtime of {self.board.name} does not begin: it stopped at {at:#x} {self.function_at(at)}"
            )

    def submit(self, name: str, function: int, kind: int, args: Sequence[Any], held: Any = None) -> None:
        """Adds a task. held: what must live until it is done. Raises what a task that has run raises."""
        with self.lock:
            self._need()
            if not self.batch.add(name, function, kind, args):
                self.synchronize()
                self.batch.add(name, function, kind, args)
            self._held.append(held)

    def call(self, name: str, function: int, kind: int, args: Sequence[Any], held: Any = None) -> Any:
        """Calls a function: now, or, deferred, with all that waits. Returns its value; None of deferred ones."""
        with self.lock:
            self.submit(name, function, kind, args, held)
            if self.deferred:
                return None
            result = self.batch.results[-1]
            self.synchronize()
            return tasks.value_of(self._need().read(result, 16)) if kind == tasks.PACKED else None

    def synchronize(self) -> None:
        """Runs the tasks that wait. Raises what the first that fails raises; those behind it do not run."""
        with self.lock:
            if self.remote is None or not self.batch.names:
                return
            try:
                with self._watched():
                    self._run()
            finally:
                self.batch.clear()
                self._held.clear()

    def _run(self) -> None:
        remote, batch = self._need(), self.batch
        requests = [p for address, data in batch.writes() for p in remote.writing(address, data)]
        begun = time.monotonic()
        try:
            remote.run([*requests, *self._entry("tw_session_run")], self.timeout)
        except DeviceTimeout:
            raise self._late(time.monotonic() - begun) from None
        said = remote.read(self.layout["args"].start, batch.read_size)
        self._log()
        done, running = tasks.progress(said)
        if done == tasks.UNDONE:
            raise self._stopped(batch.names[min(running, len(batch.names) - 1)])
        outcomes = [tasks.outcome(said, k) for k in range(min(done + 1, len(batch.names)))]
        self.ticks = sum([ticks for _, ticks in outcomes])
        if done < len(batch.names):
            raise self._failed(batch.names[done], outcomes[done][0])

    def _log(self) -> None:
        """Passes on what the device has logged since the last run, a ring of bytes of which the last are left."""
        remote, at = self._need(), self.runtime.symbols["tw_session_log"]
        (written,) = words(remote.read(at, 4))
        fresh = (written - self._logged) & 0xFFFFFFFF
        if not fresh:
            return
        self._logged = written
        ring = remote.read(at + 4, LOG)
        text = bytes([ring[k % LOG] for k in range(written - min(fresh, LOG), written)]).decode(errors="replace")
        lost = f"({fresh - LOG} bytes were lost) " if fresh > LOG else ""
        logger.info("%s: %s%s", self.board.name, lost, text.rstrip("\n"))

    def _late(self, seconds: float) -> MicroError:
        """The error of a run that does not end. The device is stopped, and begins anew."""
        remote = self._need()
        name = self.batch.names[0]
        try:
            remote.interrupt()
            at = self._outside_interrupts()
            _, running = tasks.progress(remote.read(self.layout["args"].start, 16))
            name = self.batch.names[min(running, len(self.batch.names) - 1)]
        except (MicroError, ValueError) as error:
            return DeviceTimeout(f"{self.board.name} stopped answering while {name} ran, {seconds:.1f} s ago: {error}")
        where = self.function_at(at)
        self._begin()
        return DeviceTimeout(
            f"{name} did not finish on {self.board.name} in {self.timeout:g} s: it was at {at:#010x}{f' in {where}' if where else ''};"
            " a longer timeout= may help"
        )

    def _outside_interrupts(self) -> int:
        """Where a device that was stopped is, once it has left interrupts: these stay active when the processor is set to another place."""
        remote = self._need()
        for _ in range(_TRIES if self.board.architecture == "cortex_m" else 0):
            if not remote.register("xpsr") & 0x1FF:
                break
            remote.send([b"c"])
            time.sleep(0.002)
            remote.interrupt()
        return remote.register("pc")

    def _failed(self, name: str, status: int) -> BaseException:
        """The error of a function that returned a code."""
        remote = self._need()
        kind, text = (
            remote.read(self.runtime.symbols[symbol], size).split(b"\0")[0].decode(errors="replace")
            for symbol, size in (("tw_error_kind", 24), ("tw_error_text", 168))
        )
        self._begin()  # gives temporaries back, and forgets the error
        if not kind:
            return MicroError(f"{name} failed on {self.board.name} with code {status}")
        return error_class(kind)(text if text.startswith(name) else f"{name}: {text}")

    def _stopped(self, name: str) -> Exception:
        """The error of a run that ended elsewhere than at its end."""
        remote = self._need()
        at = remote.register("pc")
        if at == self._stop:
            self._begin()
            return MicroError(f"{self.board.name} was reset, or gave up (tw_platform_abort), while {name} ran")
        if at != self._fault:
            where = self.function_at(at)
            self._begin()
            return MicroError(
                f"{name} stopped on {self.board.name} at {at:#010x}{f' in {where}' if where else ''}, for no reason that is known"
            )
        if self.board.architecture == "cortex_m":
            fault = cortex_m_fault(remote, not self.board.triple.startswith("thumbv6m"))
        else:
            fault = riscv_fault(remote)
        error = fault_error(
            name, self.board.name, fault, self.function_at(fault.pc), self.source_line(fault.pc), self.layout["stack"]
        )
        self._recover()
        return error

    def _recover(self) -> None:
        """Brings the processor out of the fault: the handler returns to where runs end, and the runtime begins anew. Where that fails, the
        debugger resets the processor."""
        remote = self._need()
        if self.board.architecture == "cortex_m":
            # The registers that the handler gives back, at a place of the stack that is sound: r0 to r3, r12, lr, pc, xpsr, and floats.
            frame = self.symbols["tw_stack_top"] - 128
            remote.write(frame, struct.pack("<8I", *[0] * 6, self._stop, _THUMB))
            remote.set_register("sp", frame)
            remote.clear_breakpoint(self._fault)
            try:
                remote.run([], RECOVERS_IN)
            except DeviceTimeout:
                remote.interrupt()
                remote.monitor(_RESETS[self.config["comms_method"]])
        self._begin()


__all__ = ["Session"]
