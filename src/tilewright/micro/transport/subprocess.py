"""Programs of this machine as devices: the line is their standard input and output."""

from __future__ import annotations

import os
import subprocess
import tempfile
from collections.abc import Callable, Mapping, Sequence
from typing import IO, TypeVar

from tilewright.micro.project_api.server import (
    TransportClosedError,
    TransportTimeouts,
    read_with_timeout,
    write_with_timeout,
)
from tilewright.micro.transport.base import Transport

ENDS_IN = (0.1, 2.0, None)
"""Seconds that a program has to end: once its input has ended, once it was asked to, and once it was killed."""
T = TypeVar("T")
TIMEOUTS = TransportTimeouts(0.5, 5.0, 60.0)


class SubprocessTransport(Transport):
    """A program, which is started when the transport is opened, and ended when it is closed.

    args: its command line. environment: more variables. timeouts: of sessions over it.
    """

    def __init__(
        self,
        args: Sequence[str | os.PathLike[str]],
        max_startup_latency_sec: float = TIMEOUTS.session_start_timeout_sec,
        max_latency_sec: float = TIMEOUTS.session_established_timeout_sec,
        environment: Mapping[str, str] | None = None,
    ) -> None:
        self.command = [os.fspath(a) for a in args]
        self.environment = dict(environment or {})
        self._timeouts = TransportTimeouts(
            TIMEOUTS.session_start_retry_timeout_sec, max_startup_latency_sec, max_latency_sec
        )
        self.process: subprocess.Popen[bytes] | None = None
        self._said: IO[bytes] | None = None

    def timeouts(self) -> TransportTimeouts:
        return self._timeouts

    def open(self) -> None:
        if self.process is not None:
            raise TransportClosedError("the transport is open already")
        self._said = tempfile.TemporaryFile()  # noqa: SIM115 (it lives as long as the program)
        # It stays in the group of this process: a server that kills a session kills it too.
        try:
            self.process = subprocess.Popen(
                self.command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self._said, bufsize=0,
                env={**os.environ, **self.environment},
            )  # fmt: skip
        except OSError as error:
            self._said.close()
            raise TransportClosedError(f"{self.command[0]} cannot be run: {error.strerror or error}") from error
        for fd in self._files(self.process):
            os.set_blocking(fd, False)

    @staticmethod
    def _files(process: subprocess.Popen[bytes]) -> tuple[int, int]:
        assert process.stdin is not None and process.stdout is not None
        return process.stdin.fileno(), process.stdout.fileno()

    def close(self) -> None:
        process, self.process = self.process, None
        if process is None:
            return
        assert process.stdin is not None and process.stdout is not None
        process.stdin.close()
        process.stdout.close()
        for seconds, end in zip(ENDS_IN, (process.terminate, process.kill, process.kill), strict=True):
            try:
                process.wait(seconds)
                break
            except subprocess.TimeoutExpired:
                end()
        if self._said is not None:
            self._said.close()

    def read(self, n: int, timeout_sec: float | None) -> bytes:
        return self._watched(lambda files: read_with_timeout(files[1], n, timeout_sec))

    def write(self, data: bytes, timeout_sec: float | None) -> None:
        self._watched(lambda files: write_with_timeout(files[0], data, timeout_sec))

    def _watched(self, use: Callable[[tuple[int, int]], T]) -> T:
        """What a use of the files gives. An error tells of a program that has ended."""
        process = self.process
        if process is None:
            raise TransportClosedError("the transport is closed")
        try:
            return use(self._files(process))
        except TransportClosedError as error:
            raise TransportClosedError(f"{error}; {self.state()}") from error

    def state(self) -> str:
        """What became of the program, with its last words."""
        process = self.process
        if process is None:
            return "the program has ended"
        try:
            status = f"ended with status {process.wait(0.5)}"
        except subprocess.TimeoutExpired:
            status = "runs"
        words = ""
        if self._said is not None:
            self._said.seek(0)
            words = self._said.read()[-2000:].decode(errors="replace").strip()
        return f"{self.command[0]} {status}{f': {words}' if words else ''}"


__all__ = ["TIMEOUTS", "SubprocessTransport"]
