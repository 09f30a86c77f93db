"""GDB at the terminal of a program that talks to a microcontroller: it runs the firmware, or attaches to a server of GDB's remote protocol.

`launch_debugger` has one debugger at a time. `RpcDebugger` starts it in another process, the one whose terminal a person sits at: a server
of remote procedure calls that has imported this module.
"""

from __future__ import annotations

import abc
import atexit
import contextlib
import os
import shlex
import signal
import subprocess
import sys
import termios
import threading
from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import Any, ClassVar

from tilewright.micro.class_factory import ClassFactory
from tilewright.micro.errors import MicroError
from tilewright.micro.project_api.server import (
    TransportClosedError,
    TransportTimeouts,
    read_with_timeout,
    write_with_timeout,
)
from tilewright.micro.transport.base import Transport, debug_transport_timeouts
from tilewright.runtime.packed_func import register_func

ENDS_IN = 5.0
"""Seconds that a debugger has to end when it is asked to."""
LAUNCH, STOP = "tvm.micro.debugger.launch_debugger", "tvm.micro.debugger.stop_debugger"
"""The global functions by which another process starts and stops a debugger in this one."""


class Debugger(abc.ABC):
    """A debugger: started, it runs beside this program."""

    @abc.abstractmethod
    def start(self) -> None:
        """Starts it, and does not wait for it."""

    @abc.abstractmethod
    def stop(self) -> None:
        """Ends it."""


class GdbDebugger(Debugger):
    """GDB as a process with this program's terminal. What a person interrupts (Ctrl-C) is then GDB, not this program.

    Where a person sits at the terminal, `stop` waits until they leave GDB; else it ends GDB.
    """

    _running: ClassVar[set[GdbDebugger]] = set()

    def __init__(self) -> None:
        self.popen: subprocess.Popen[bytes] | None = None
        self._lock = threading.RLock()
        self._terminal: list[Any] | None = None
        self._interrupt: Any = None

    @abc.abstractmethod
    def popen_kwargs(self) -> dict[str, Any]:
        """The arguments of subprocess.Popen that start GDB."""

    def start(self) -> None:
        """Raises MicroError where it runs already, or cannot be run."""
        with self._lock:
            if self.popen is not None:
                raise MicroError("the debugger runs already; stop it first")
            given = {"start_new_session": True, **self.popen_kwargs()}
            if _at_a_terminal():
                self._terminal = termios.tcgetattr(sys.stdin.fileno())
            try:
                self.popen = subprocess.Popen(**given)
            except OSError as error:
                raise MicroError(
                    f"{given['args'][0]} cannot be run: {error.strerror or error}; install it (Debian: gdb, gdb-multiarch)"
                ) from error
            GdbDebugger._running.add(self)
            if threading.current_thread() is threading.main_thread():
                self._interrupt = signal.signal(signal.SIGINT, self._pass_on)

    def _pass_on(self, number: int, _frame: Any) -> None:
        popen = self.popen
        if popen is None or popen.poll() is not None:
            raise KeyboardInterrupt
        with contextlib.suppress(ProcessLookupError):
            os.killpg(popen.pid, number)

    def stop(self) -> None:
        with self._lock:
            popen = self.popen
            if popen is None:
                return
            if self._terminal is not None:
                popen.wait()
            self._end(popen)

    def _end(self, popen: subprocess.Popen[bytes]) -> None:
        """Ends the process with all that it started, and gives the terminal back."""
        for number in (signal.SIGTERM, signal.SIGKILL):
            with contextlib.suppress(ProcessLookupError):
                os.killpg(popen.pid, number)
            with contextlib.suppress(subprocess.TimeoutExpired):
                popen.wait(ENDS_IN)
                break
        self.popen = None
        GdbDebugger._running.discard(self)
        if self._interrupt is not None:
            signal.signal(signal.SIGINT, self._interrupt)
            self._interrupt = None
        if self._terminal is not None:
            termios.tcsetattr(sys.stdin.fileno(), termios.TCSAFLUSH, self._terminal)
            self._terminal = None


def _at_a_terminal() -> bool:
    try:
        return os.isatty(sys.stdin.fileno())
    except (AttributeError, OSError, ValueError):
        return False  # standard input is closed, or no file


@atexit.register
def _end_all() -> None:
    for debugger in [*GdbDebugger._running]:
        if debugger.popen is not None:
            debugger._end(debugger.popen)


class _Pipes(Transport):
    """The line to a program whose standard input and output are pipes; what made them closes them."""

    def __init__(self, read: int, write: int) -> None:
        self._read, self._write = read, write

    def timeouts(self) -> TransportTimeouts:
        return debug_transport_timeouts()

    def open(self) -> None:
        pass

    def close(self) -> None:
        pass

    def read(self, n: int, timeout_sec: float | None) -> bytes:
        return read_with_timeout(self._read, n, timeout_sec)

    def write(self, data: bytes, timeout_sec: float | None) -> None:
        write_with_timeout(self._write, data, timeout_sec)


class GdbTransportDebugger(GdbDebugger):
    """GDB with firmware that is a process of this machine: `transport` is the line to that process, which `run` in GDB starts.

    args: the command line of the firmware. popen_kw: of subprocess.Popen.
    """

    def __init__(self, args: Sequence[str], **popen_kw: Any) -> None:
        super().__init__()
        self.args, self.popen_kw = [os.fspath(a) for a in args], popen_kw
        self._pipes: list[int] = []

    def popen_kwargs(self) -> dict[str, Any]:
        (its_read, our_write), (our_read, its_write) = os.pipe(), os.pipe()
        self._pipes = [our_read, our_write, its_read, its_write]
        for fd in (our_read, our_write):
            os.set_blocking(fd, False)
        program, *rest = self.args
        line = f"{shlex.join(rest)} < /dev/fd/{its_read} > /dev/fd/{its_write}".strip()
        command = ["gdb", "-ex", f"file {program}", "-ex", f"set args {line}"]
        # GDB passes files on to what it debugs.
        return {"args": command, "pass_fds": [its_read, its_write], **self.popen_kw}

    def transport(self) -> Transport:
        """The line to the firmware. Raises TransportClosedError where the debugger does not run."""
        if self.popen is None:
            raise TransportClosedError("the debugger does not run; start it first")
        return _Pipes(self._pipes[0], self._pipes[1])

    def _end(self, popen: subprocess.Popen[bytes]) -> None:
        super()._end(popen)
        pipes, self._pipes = self._pipes, []
        for fd in pipes:
            os.close(fd)


class GdbRemoteDebugger(GdbDebugger):
    """GDB at a server of its remote protocol, such as QEMU's or OpenOCD's.

    gdb_binary: gdb-multiarch, or that of a toolchain. remote_hostport: "127.0.0.1:3333". debug_binary: the firmware with its symbols.
    wrapping_context_manager: is entered before GDB starts, and left after it has ended.
    """

    def __init__(
        self,
        gdb_binary: str,
        remote_hostport: str,
        debug_binary: str,
        wrapping_context_manager: AbstractContextManager[Any] | None = None,
        **popen_kw: Any,
    ) -> None:
        super().__init__()
        self.gdb_binary, self.remote_hostport, self.debug_binary = gdb_binary, remote_hostport, debug_binary
        self.popen_kw = popen_kw
        self._around = _Around(wrapping_context_manager)

    def popen_kwargs(self) -> dict[str, Any]:
        command = [
            self.gdb_binary,
            "-iex",
            f"file {self.debug_binary}",
            "-iex",
            f"target remote {self.remote_hostport}",
        ]
        return {"args": command, **self.popen_kw}

    def start(self) -> None:
        with self._around.entered():
            super().start()

    def stop(self) -> None:
        try:
            super().stop()
        finally:
            self._around.leave()


class _Around:
    """A context that is entered when a debugger starts, and left when it has ended."""

    def __init__(self, context: AbstractContextManager[Any] | None) -> None:
        self._context, self._is_in = context, False

    @contextlib.contextmanager
    def entered(self) -> Any:
        """Enters; leaves again where what follows fails."""
        if self._context is not None:
            self._context.__enter__()
            self._is_in = True
        try:
            yield
        except BaseException:
            self.leave()
            raise

    def leave(self) -> None:
        if self._context is not None and self._is_in:
            self._is_in = False
            self._context.__exit__(None, None, None)


class DebuggerFactory(ClassFactory):
    """A call that makes a debugger, as JSON for another process."""

    SUPERCLASS = Debugger


GLOBAL_DEBUGGER: Debugger | None = None
"""The debugger that `launch_debugger` started."""


def launch_debugger(debugger_factory: ClassFactory, *args: Any, **kw: Any) -> None:
    """Starts a debugger, and ends the one before. args, kw: more arguments of it."""
    global GLOBAL_DEBUGGER
    stop_debugger()
    made = type(debugger_factory)(
        debugger_factory.cls, [*debugger_factory.init_args, *args], {**debugger_factory.init_kw, **kw}
    )
    debugger: Debugger = made.instantiate()
    debugger.start()
    GLOBAL_DEBUGGER = debugger


def stop_debugger() -> None:
    """Ends the debugger that `launch_debugger` started, if there is one."""
    global GLOBAL_DEBUGGER
    debugger, GLOBAL_DEBUGGER = GLOBAL_DEBUGGER, None
    if debugger is not None:
        debugger.stop()


def _launch(factory: str) -> None:
    launch_debugger(DebuggerFactory.from_json(factory))


register_func(LAUNCH, _launch, override=True)
register_func(STOP, stop_debugger, override=True)


class RpcDebugger(Debugger):
    """A debugger in the process of a server of remote procedure calls, which a person sits at.

    rpc_session: with the server. factory: of the debugger there. wrapping_context_manager: as of `GdbRemoteDebugger`, here. `start` returns
    when somebody here presses Enter.
    """

    def __init__(
        self,
        rpc_session: Any,
        factory: DebuggerFactory,
        wrapping_context_manager: AbstractContextManager[Any] | None = None,
    ) -> None:
        """Raises AttributeError where the server offers no debugger: its process imports tilewright.micro.debugger."""
        self._factory = factory
        self._launch, self._stop = rpc_session.get_function(LAUNCH), rpc_session.get_function(STOP)
        self._around = _Around(wrapping_context_manager)

    def start(self) -> None:
        with self._around.entered():
            self._launch(self._factory.to_json)
            try:
                input("Press [Enter] when the debugger is set up ")
            except BaseException:
                self._stop()
                raise

    def stop(self) -> None:
        try:
            self._stop()
        finally:
            self._around.leave()


__all__ = [
    "GLOBAL_DEBUGGER", "Debugger", "DebuggerFactory", "GdbDebugger", "GdbRemoteDebugger", "GdbTransportDebugger", "RpcDebugger",
    "launch_debugger", "stop_debugger",
]  # fmt: skip
