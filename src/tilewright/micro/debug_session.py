"""Sessions with microcontrollers over a debug connection: the device's runtime, its memory, and calls on it."""

from __future__ import annotations

import contextlib
import logging
import threading
import time
from collections.abc import Sequence
from functools import partial
from typing import Any, ClassVar

from tilewright.micro import tasks
from tilewright.micro.debug import servers
from tilewright.micro.debug.remote import Remote, words
from tilewright.micro.device import configuration
from tilewright.micro.device_api import attach, detach
from tilewright.micro.device_runtime import SESSION, helpers, runtime_objects
from tilewright.micro.errors import ConnectionLost, DeviceTimeout, LinkError, MicroError
from tilewright.micro.layout import PageAllocator, session_layout
from tilewright.micro.linking.elf import ElfObject
from tilewright.micro.linking.link import Image, link
from tilewright.micro.recovery import THUMB, Recovery
from tilewright.runtime.linking.symbols import CONTEXT

BEGINS_IN = 10.0
"""Seconds that the device's runtime has to begin."""
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


class DebugSession:
    """A session with a board: `with micro.Session(config) as session`.

    device_config: what `device.generate_config` makes, or the name of a board, or the path of a description. The session opens the
    debug connection (and starts the emulator or the server behind it), builds the device's runtime, and loads it. `device` is the board as
    a device of the runtime. Raises MicroError where the board cannot be reached, is too small, or does not begin.

    Calls are eager: each runs at once. With deferred=True they are tasks that wait, and run together when memory of the device is read,
    when their list is full, or at `synchronize`.
    """

    _open: ClassVar[list[DebugSession]] = []

    def __init__(self, device_config: Any) -> None:
        self.config = configuration(device_config)
        self.board = self.config["board"]
        self.deferred: bool = self.config["deferred"]
        self.timeout: float = self.config["timeout"]
        self.lock = threading.RLock()
        self.remote: Remote | None = None
        self._server: servers.Server | None = None
        self.images: list[Image] = []
        self._logged, self._value = 0, bytes(16)
        self._recovery = Recovery(self)
        self.ticks = 0
        """Ticks of the device's clock that the tasks of the last run took."""

    def __enter__(self) -> DebugSession:
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
            self.begin()
        except BaseException:
            self._disconnect()
            raise
        self.device = attach(self)
        DebugSession._open.append(self)
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
            DebugSession._open.remove(self)

    @staticmethod
    def current(config: Any = None) -> DebugSession:
        """The session that was opened last, of those with the board of `config`. Raises MicroError where there is none."""
        wanted = configuration(config)["board"].name if config is not None else None
        found = [s for s in DebugSession._open if wanted in (None, s.board.name)]
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

    def connection(self) -> Remote:
        """The debug connection. Raises MicroError where the session is closed."""
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
        self.stop_address, self.fault_address = (self.runtime.symbols[n] & ~1 for n in ("tw_session_stop", "tw_fault"))

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
            image = link(objects, roots, place, self.symbols, partial(helpers, self.board))
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
        """The line of C or TensorIR that an address belongs to, with its number; "" where that is not known."""
        address &= ~1
        for image in self.images:
            function, line = image.function_at(address), image.line_at(address)
            if function is not None and line is not None:
                text = image.sources.get(function.name, "").splitlines()
                said = f": {text[line - 1].strip()}" if 0 < line <= len(text) else ""
                return f"line {line} of the C source{said}"
            if function is not None and image.lined is not None:
                return image.compiled_line(address, self.symbols)
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
                return self.connection().read(address, size)

    def write_memory(self, address: int, data: bytes) -> None:
        """Writes memory of the device, when all tasks are done."""
        with self.lock:
            self.synchronize()
            with self._watched():
                self.connection().write(address, data)

    # --- runs

    def _entry(self, name: str) -> list[bytes]:
        """What sets the processor up to run a function of its runtime."""
        remote, at = self.connection(), self.runtime.symbols[name]
        values = {"sp": self.symbols["tw_stack_top"], "pc": at & ~1}
        if self.board.architecture == "cortex_m":
            values["xpsr"] = THUMB
        return [remote.setting(register, value) for register, value in values.items()]

    def begin(self) -> None:
        """Lets the runtime begin: the unit for floats, vectors, clock, temporaries."""
        remote = self.connection()
        for address in (self.stop_address, self.fault_address):
            remote.set_breakpoint(address)
        with self._watched():
            remote.run(self._entry("tw_session_begin"), BEGINS_IN)
        at = remote.register("pc")
        if at != self.stop_address:
            raise MicroError(
                f"the runtime of {self.board.name} does not begin: it stopped at {at:#x} {self.function_at(at)}"
            )

    def submit(self, name: str, function: int, kind: int, args: Sequence[Any], held: Any = None) -> None:
        """Adds a task. held: what must live until it is done. Raises what a task that has run raises."""
        with self.lock:
            self.connection()
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
            self.synchronize()
            return tasks.value_of(self._value) if kind == tasks.PACKED else None

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
        remote, batch = self.connection(), self.batch
        requests = [p for address, data in batch.writes() for p in remote.writing(address, data)]
        begun = time.monotonic()
        try:
            remote.run([*requests, *self._entry("tw_session_run")], self.timeout)
        except DeviceTimeout:
            raise self._recovery.late(time.monotonic() - begun) from None
        # One exchange: what became of the tasks, how much was logged, the value of the last task.
        said, logged, self._value = remote.read_all([
            (self.layout["args"].start, batch.read_size), (self.runtime.symbols["tw_session_log"], 4), (batch.results[-1], 16),
        ])  # fmt: skip
        self._log(words(logged)[0])
        done, running = tasks.progress(said)
        if done == tasks.UNDONE:
            raise self._recovery.stopped(batch.names[min(running, len(batch.names) - 1)])
        outcomes = [tasks.outcome(said, k) for k in range(min(done + 1, len(batch.names)))]
        self.ticks = sum([ticks for _, ticks in outcomes])
        if done < len(batch.names):
            raise self._recovery.failed(batch.names[done], outcomes[done][0])

    def _log(self, written: int) -> None:
        """Passes on what the device has logged since the last run, a ring of bytes of which the last are left. written: bytes so far."""
        fresh = (written - self._logged) & 0xFFFFFFFF
        if not fresh:
            return
        self._logged = written
        ring = self.connection().read(self.runtime.symbols["tw_session_log"] + 4, LOG)
        text = bytes([ring[k % LOG] for k in range(written - min(fresh, LOG), written)]).decode(errors="replace")
        lost = f"({fresh - LOG} bytes were lost) " if fresh > LOG else ""
        logger.info("%s: %s%s", self.board.name, lost, text.rstrip("\n"))


__all__ = ["DebugSession"]
