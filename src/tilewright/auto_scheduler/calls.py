"""Calls of functions in threads and processes, and of boards, under the classic names of `utils`."""

from __future__ import annotations

import contextlib
import os
import signal
import threading
import traceback
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from tilewright.rpc import RPCSession, connect_tracker
from tilewright.support.errors import TVMError

MAX_TRACEBACK_INFO_LEN = 512
"""Letters of what `make_traceback_info` gives."""


class PropagatingThread(threading.Thread):
    """A thread whose `join` gives the result of its function, or raises what that raised."""

    def run(self) -> None:
        self.exc: BaseException | None = None
        self.ret: Any = None
        try:
            self.ret = self._target(*self._args, **self._kwargs)  # type: ignore[attr-defined]
        except BaseException as error:
            self.exc = error

    def join(self, timeout: float | None = None) -> Any:
        super().join(timeout)
        if self.is_alive():
            return None
        if self.exc is not None:
            raise self.exc
        return self.ret


def call_func_with_thread(func: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
    """The result of a call in another thread. That thread does not see what belongs to the caller's thread, such as contexts."""
    thread = PropagatingThread(target=func, args=tuple(args), kwargs=dict(kwargs))
    thread.start()
    return thread.join()


def call_func_with_timeout(
    worker: Any,
    timeout: float,
    func: Callable[..., Any],
    args: Sequence[Any] = (),
    kwargs: Mapping[str, Any] | None = None,
) -> Any:
    """The result of a call in a worker (`contrib.popen_pool.PopenWorker`); the exception, such as TimeoutError after so many seconds, where
    there is none."""
    worker.send(func, args, kwargs or {}, timeout)
    try:
        return worker.recv()
    except Exception as error:
        return error


def kill_child_processes(parent_pid: int, sig: int = signal.SIGTERM) -> None:
    """Sends a signal to the processes that a process started, and to those that they started. Only where /proc tells them (Linux)."""
    children: dict[int, list[int]] = {}
    for entry in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            parent = int(entry.read_text().rpartition(")")[2].split()[1])
            children.setdefault(parent, []).append(int(entry.parent.name))
    found = list(children.get(parent_pid, []))
    for child in found:
        found += children.get(child, [])
    for child in found:
        with contextlib.suppress(ProcessLookupError):
            os.kill(child, sig)


def make_traceback_info() -> str:
    """The traceback of the exception that is handled, shortened in its middle to MAX_TRACEBACK_INFO_LEN letters."""
    found, half = traceback.format_exc(), MAX_TRACEBACK_INFO_LEN // 2
    return found if len(found) <= MAX_TRACEBACK_INFO_LEN else f"{found[:half]}\n...\n{found[-half:]}"


def request_remote(device_key: str, host: str, port: int, priority: int = 1, timeout: int = 60) -> RPCSession:
    """A session with a board of a tracker. timeout: seconds that it is waited for, and after which it ends."""
    return connect_tracker(host, port, up_in=timeout).request(device_key, priority=priority, session_timeout=timeout)


def check_remote(device_key: str, host: str, port: int, priority: int = 100, timeout: int = 10) -> bool:
    """Whether a tracker hands out a board within so many seconds."""
    try:
        request_remote(device_key, host, port, priority, timeout)
    except (TVMError, OSError):
        return False
    return True
