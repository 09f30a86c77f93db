"""What a worker's process does (`workers`): it receives jobs, runs them, and answers, until its parent is gone."""

from __future__ import annotations

import contextlib
import fcntl
import importlib
import io
import os
import pickle
import resource
import runpy
import signal
import socket
import struct
import sys
import traceback
import types
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

HEADER = struct.Struct("<Q")
"""Before each message: its number of bytes."""

DONE, RAISED, MEMORY = "done", "raised", "memory"


class Setup(NamedTuple):
    """What a worker is told first. main: the file of its program, of which jobs may be functions.
    preload: modules that are imported before the first job. memory: bytes that the process may take beside what it has then. initializer:
    a function and its arguments, pickled; called before the first job."""

    main: str | None
    preload: tuple[str, ...]
    memory: int | None
    initializer: bytes


def send(sock: socket.socket, message: object) -> None:
    """Sends a message. Raises what pickling it raises."""
    send_bytes(sock, pickle.dumps(message, pickle.HIGHEST_PROTOCOL))


def send_bytes(sock: socket.socket, data: bytes) -> None:
    """Sends a message that is pickled already."""
    sock.sendall(HEADER.pack(len(data)) + data)


def main(channel: int, lifeline: int) -> None:
    """The process's life. channel: a socket to the parent. lifeline: a pipe whose other end closes when the parent ends."""
    for number in (channel, lifeline):
        os.set_inheritable(number, False)
    _die_with(lifeline)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    with socket.socket(fileno=channel) as sock:
        setup = Setup(*pickle.loads(_received(sock)))
        _Unpickler.main = setup.main
        begun = _answer(partial(_prepare, setup))
        send_bytes(sock, begun)
        while data := _received(sock):
            send_bytes(sock, b"")  # the job is taken: what ends this process now is the job's fault
            send_bytes(sock, _answer(partial(_run, data)))


def _die_with(lifeline: int) -> None:
    """Let the system kill this process and those that it started when the other end of a pipe closes, whatever runs here by then."""
    if hasattr(fcntl, "F_SETSIG"):
        fcntl.fcntl(lifeline, fcntl.F_SETSIG, signal.SIGKILL)
    else:  # pragma: no cover
        signal.signal(signal.SIGIO, signal.SIG_DFL)
    fcntl.fcntl(lifeline, fcntl.F_SETOWN, -os.getpgrp())
    fcntl.fcntl(lifeline, fcntl.F_SETFL, fcntl.fcntl(lifeline, fcntl.F_GETFL) | os.O_ASYNC | os.O_NONBLOCK)
    # It may have closed before the system was asked to watch it.
    with contextlib.suppress(BlockingIOError):
        if not os.read(lifeline, 1):
            os._exit(1)


def _received(sock: socket.socket) -> bytes:
    """The next message; nothing when the parent has closed the connection."""
    with contextlib.suppress(ConnectionError):
        parts, left = [], HEADER.unpack(_exactly(sock, HEADER.size))[0]
        while left:
            parts.append(_exactly(sock, min(left, 1 << 24)))
            left -= len(parts[-1])
        return b"".join(parts)
    return b""


def _exactly(sock: socket.socket, count: int) -> bytes:
    data = sock.recv(count, socket.MSG_WAITALL)
    if len(data) < count:
        raise ConnectionResetError
    return data


def _prepare(setup: Setup) -> None:
    for name in setup.preload:
        importlib.import_module(name)
    if setup.initializer:
        _run(setup.initializer)
    if setup.memory is not None:
        _limit(setup.memory)


def _limit(memory: int) -> None:
    """Lets this process take so many bytes of address space beside those that it has. Only where the system tells how many these are."""
    with contextlib.suppress(FileNotFoundError):
        pages = int(Path("/proc/self/statm").read_text().split()[0])
        most = pages * resource.getpagesize() + memory
        _, hard = resource.getrlimit(resource.RLIMIT_AS)
        resource.setrlimit(resource.RLIMIT_AS, (most if hard == resource.RLIM_INFINITY else min(most, hard), hard))


def _run(data: bytes) -> Any:
    function, args, kwargs = _Unpickler(io.BytesIO(data)).load()
    return function(*args, **kwargs)


def _answer(job: Any) -> bytes:
    """(ending, value, message, error) of a job, pickled."""
    try:
        try:
            return pickle.dumps((DONE, job(), "", None), pickle.HIGHEST_PROTOCOL)
        finally:
            for stream in (sys.stdout, sys.stderr):
                with contextlib.suppress(OSError, ValueError):
                    stream.flush()
    except MemoryError:
        # What the job held is let go before anything is made to tell of it.
        return pickle.dumps((MEMORY, None, "", None))
    except SystemExit:
        raise
    except BaseException as error:
        message = f"{type(error).__name__}: {error}"
        with contextlib.suppress(Exception):
            error.add_note("".join(["in a worker process:\n", *traceback.format_exception(error)]))
        with contextlib.suppress(Exception):
            data = pickle.dumps((RAISED, None, message, error))
            pickle.loads(data)  # there are errors that can be written and not read
            return data
        return pickle.dumps((RAISED, None, message, None))


class _Unpickler(pickle.Unpickler):
    """Finds functions of the parent's own program as well, which is run for its definitions when the first of them is asked for."""

    main: str | None = None
    _program: types.ModuleType | None = None

    def find_class(self, module: str, name: str) -> Any:
        if module == "__main__":
            self._run_main()
        return super().find_class(module, name)

    @classmethod
    def _run_main(cls) -> None:
        if cls._program is None and cls.main is not None:
            program = types.ModuleType("__mp_main__")
            program.__dict__.update(runpy.run_path(cls.main, run_name="__mp_main__"))
            cls._program = sys.modules["__main__"] = sys.modules["__mp_main__"] = program
