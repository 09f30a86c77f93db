"""The process of a worker, as its parent has it (`workers`); `worker_process` is what runs inside."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from tilewright.support.errors import TVMError
from tilewright.support.files import filling, remove_left_folders, temporary_directory
from tilewright.support.worker_process import HEADER

LAST_WORDS = 1500
"""Bytes of the errors that a process wrote, in messages about its end."""
FOLDERS = "tilewright-worker-"
"""How the names of workers' folders begin; the number of their parent follows."""
_COMMAND = "import sys; sys.path[:] = sys.argv[3:]; from tilewright.support.worker_process import main; main(*map(int, sys.argv[1:3]))"


class Job(NamedTuple):
    """A function, which can be imported by its module and its name, and its arguments. timeout: its seconds."""

    function: Callable[..., Any]
    args: tuple[Any, ...] = ()
    kwargs: Mapping[str, Any] | None = None
    timeout: float | None = None


class Options(NamedTuple):
    """Of workers' processes. memory: bytes that one may take beside what it has before its first job. preload: modules that it imports
    before. initializer: a job before the first one. environment: variables beside this process's own. uses: jobs until it is replaced.
    stdout, stderr: files, or numbers of files, as subprocess takes them; None for both: a file of the worker's own, of which messages about
    its end quote the last lines."""

    memory: int | None = None
    preload: Sequence[str] = ()
    initializer: Job | None = None
    environment: Mapping[str, str] | None = None
    uses: int | None = None
    stdout: Any = None
    stderr: Any = None


class JobProcess:
    """A process, the socket to it, the pipe that ends it with this process, and the folder of its temporary files."""

    def __init__(self, options: Options) -> None:
        _remove_left()
        place = temporary_directory()
        with filling(Path(place)):
            self.folder = Path(tempfile.mkdtemp(prefix=f"{FOLDERS}{os.getpid()}-", dir=place))
        self.words = self.folder / "stderr"
        self.channel, theirs = socket.socketpair()
        lifeline, self.lifeline = os.pipe()
        self._lock = threading.Lock()
        environment = {**os.environ, "TMPDIR": os.fspath(self.folder), **(options.environment or {})}
        numbers = (theirs.fileno(), lifeline)
        try:
            with open(self.words, "ab") as words:
                silent = options.stdout is None and options.stderr is None
                self.popen = subprocess.Popen(
                    [sys.executable, "-c", _COMMAND, *map(str, numbers), *sys.path],
                    stdin=subprocess.DEVNULL,
                    stdout=words if silent else options.stdout,
                    stderr=words if silent else options.stderr,
                    pass_fds=numbers,
                    env=environment,
                    start_new_session=True,
                )
        except OSError as error:
            self._close()
            raise TVMError(f"a worker process cannot be started: {error.strerror or error}") from error
        finally:
            theirs.close()
            os.close(lifeline)

    def has_taken(self, ends: float) -> bool:
        """Whether it begins with the job that it was sent; false if it has died before. Raises TimeoutError."""
        try:
            self.received(ends)
        except TimeoutError:
            raise
        except (EOFError, OSError):
            return False
        return True

    def received(self, ends: float) -> bytes:
        """The next message. Raises TimeoutError; EOFError when there is none any more."""
        left = HEADER.unpack(self._exactly(HEADER.size, ends))[0]
        return self._exactly(left, ends)

    def _exactly(self, count: int, ends: float) -> bytes:
        found = bytearray()
        while len(found) < count:
            self.channel.settimeout(seconds_left(ends))
            data = self.channel.recv(min(count - len(found), 1 << 20))
            if not data:
                raise EOFError
            found += data
        return bytes(found)

    def death(self) -> str:
        """How it ended, with the last lines that it wrote."""
        # What has closed its socket ends now; what only did that is ended.
        try:
            code = self.popen.wait(1)
        except subprocess.TimeoutExpired:
            return "its process closed the connection"
        said = f"its process ended with status {code}"
        if code < 0:
            name = signal.Signals(-code).name if -code in set(signal.Signals) else "?"
            why = ", perhaps by the system, which had no memory left" if -code == signal.SIGKILL else ""
            said = f"its process was killed by signal {-code} ({name}){why}"
        words = b""
        with contextlib.suppress(OSError):
            words = self.words.read_bytes()
        last = "\n".join(words[-LAST_WORDS:].decode(errors="replace").strip().splitlines()[-8:])
        return f"{said}; its last words were:\n{last}" if last else said

    def forget_words(self) -> None:
        """Empties the file of what the last job wrote."""
        with contextlib.suppress(OSError):
            if self.words.stat().st_size:
                os.truncate(self.words, 0)

    def end(self) -> None:
        """Kills it with all that it started, and removes what it has."""
        if self.popen.poll() is None:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self.popen.pid, signal.SIGKILL)
            self.popen.wait()
        self._close()

    def _close(self) -> None:
        with self._lock:
            self.channel.close()
            if self.lifeline >= 0:
                os.close(self.lifeline)
                self.lifeline = -1
        shutil.rmtree(self.folder, ignore_errors=True)

    def forget(self) -> None:
        """In a process that was forked: it is the parent's."""
        self._lock = threading.Lock()
        self.channel.close()
        os.close(self.lifeline)
        self.lifeline = -1
        self.popen.returncode = 0


def seconds_left(ends: float) -> float | None:
    """Seconds until then, as sockets take them."""
    return None if ends == float("inf") else max(ends - time.monotonic(), 1e-3)


_removed = False


def _remove_left() -> None:
    """Removes, once, what workers left whose parent was killed."""
    global _removed
    if not _removed:
        _removed = True
        remove_left_folders(FOLDERS)
