"""A server as a process of its own: it ends with the process that started it, and when it is told to."""

from __future__ import annotations

import contextlib
import ctypes
import os
import select
import signal
import sys
import time
import traceback
from collections.abc import Callable
from typing import Never

from tilewright.support.errors import RPCError

READY = b"\0"
TERMINATED_IN = 3.0
"""Seconds that a process has to end by itself."""


class Child:
    """A process that runs a function."""

    def __init__(self, body: Callable[[], None]) -> None:
        self._ended = False
        sys.stdout.flush()
        sys.stderr.flush()
        parent = os.getpid()
        self.pid = os.fork()
        if self.pid == 0:
            _Parent.pid = parent
            _run(body)

    def is_alive(self) -> bool:
        """Whether it runs."""
        if not self._ended:
            with contextlib.suppress(ChildProcessError):
                self._ended = os.waitpid(self.pid, os.WNOHANG)[0] != 0
        return not self._ended

    def wait(self, seconds: float) -> bool:
        """Whether it has ended within so many seconds."""
        end = time.monotonic() + seconds
        pause = 0.001
        while self.is_alive():
            if time.monotonic() > end:
                return False
            time.sleep(pause)
            pause = min(2 * pause, 0.05)
        return True

    def terminate(self) -> None:
        """End it: asked to first, killed with all its children if it does not."""
        if not self.is_alive():
            return
        self._signal(signal.SIGTERM)
        if not self.wait(TERMINATED_IN):
            self.kill()

    def kill(self) -> None:
        """Kill it with all its children."""
        if self.is_alive():
            self._signal(signal.SIGKILL)
            self.wait(TERMINATED_IN)

    def _signal(self, number: signal.Signals) -> None:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self.pid, number)
        with contextlib.suppress(ProcessLookupError):
            os.kill(self.pid, number)


def started(prepare: Callable[[], object], body: Callable[[], None]) -> Child:
    """A process that prepares itself, then runs `body`. Raises RPCError with the words of an error in the preparation."""
    reader, writer = os.pipe()

    def prepared() -> None:
        try:
            prepare()
        except BaseException as error:
            os.write(writer, f"{type(error).__name__}: {error}".encode()[:4000])
            return
        os.write(writer, READY)
        os.close(writer)
        body()

    child = Child(prepared)
    os.close(
        writer
    )  # other processes, which were forked meanwhile, may have it too: its end does not tell the end of the child
    with open(reader, "rb", buffering=0) as answer:
        while not select.select([answer], [], [], 0.05)[0] and child.is_alive():
            pass
        text = answer.read(4000) if select.select([answer], [], [], 0)[0] else b""
    if text != READY:
        child.wait(TERMINATED_IN)
        raise RPCError(f"the server cannot start: {text.decode(errors='replace') or 'its process has ended'}")
    return child


class _Parent:
    """Who started this process, if it is a `Child`."""

    pid = 0


def is_orphan() -> bool:
    """Whether the process that started this one is gone."""
    return os.getppid() != _Parent.pid


class Served:
    """A server or a tracker: listens at `host` and `port` in a process of its own, which ends with this object."""

    host: str
    port: int
    _process: Child | None = None

    @property
    def proc(self) -> Child | None:
        """The process; None once it is terminated."""
        return self._process

    def terminate(self) -> None:
        """End the process, and the session that runs in it."""
        if self._process is not None:
            self._process.terminate()
            self._process = None

    def __del__(self) -> None:
        with contextlib.suppress(Exception):
            self.terminate()


def end_with_parent() -> None:
    """Let the system kill this process when the one that started it ends. Only Linux can."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG


def _run(body: Callable[[], None]) -> Never:
    """The child's life. It never returns into the program that it was forked from."""
    code = 1
    try:
        os.setsid()
        signal.set_wakeup_fd(-1)
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGCHLD):
            signal.signal(number, signal.SIG_DFL)
        body()
        code = 0
    except KeyboardInterrupt:
        pass
    except BaseException:
        traceback.print_exc()
    finally:
        with contextlib.suppress(OSError, ValueError):
            sys.stdout.flush()
            sys.stderr.flush()
        os._exit(code)
