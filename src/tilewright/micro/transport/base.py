"""The interface of transports, and what tells what goes over one."""

from __future__ import annotations

import abc
import logging
import time
from contextlib import AbstractContextManager
from typing import Any

from tilewright.micro.project_api.server import IoTimeoutError, TransportClosedError, TransportTimeouts

SHOWN = 16
"""Bytes of a line of a log."""


def debug_transport_timeouts(session_start_retry_timeout_sec: float = 0) -> TransportTimeouts:
    """Times for a device that a person stops in a debugger: no limits."""
    return TransportTimeouts(session_start_retry_timeout_sec, 0, 0)


class Transport(abc.ABC):
    """A line of bytes to a device: `with transport as t` opens and closes it."""

    def __enter__(self) -> Transport:
        self.open()
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @abc.abstractmethod
    def timeouts(self) -> TransportTimeouts:
        """How long a session over it waits."""

    @abc.abstractmethod
    def open(self) -> None:
        """Opens the line. Raises TransportClosedError where that fails."""

    @abc.abstractmethod
    def close(self) -> None:
        """Closes it."""

    @abc.abstractmethod
    def read(self, n: int, timeout_sec: float | None) -> bytes:
        """Bytes that have come: one at least, n at most. timeout_sec: None: no limit. Raises IoTimeoutError, TransportClosedError."""

    def explain(self, text: str) -> str:
        """What a device says when it stops, in the words of one who knows its program."""
        return text

    @abc.abstractmethod
    def write(self, data: bytes, timeout_sec: float | None) -> None:
        """Writes all bytes. Raises IoTimeoutError, TransportClosedError."""


TransportContextManager = AbstractContextManager[Transport]
"""What opens a transport: a transport itself, or a program that does more before."""


class TransportLogger(Transport):
    """Tells what goes over a transport, with times and bytes.

    name: of the transport. child: the transport. logger: where; default: that of this module. level: of what it tells.
    """

    def __init__(
        self, name: str, child: TransportContextManager, logger: logging.Logger | None = None, level: int = logging.INFO
    ) -> None:
        self.name, self.child, self.level = name, child, level
        self.logger = logger or logging.getLogger(__name__)
        self._inner: Any = child

    def timeouts(self) -> TransportTimeouts:
        found: TransportTimeouts = self._inner.timeouts()
        return found

    def open(self) -> None:
        self.logger.log(self.level, "%s: opening", self.name)
        self._inner = self.child.__enter__()
        self.logger.log(self.level, "%s: open, %s", self.name, self._inner.timeouts())

    def close(self) -> None:
        self.logger.log(self.level, "%s: closing", self.name)
        self.child.__exit__(None, None, None)

    def read(self, n: int, timeout_sec: float | None) -> bytes:
        begun = time.monotonic()
        try:
            data: bytes = self._inner.read(n, timeout_sec)
        except (IoTimeoutError, TransportClosedError) as error:
            self._told("read", begun, f"{type(error).__name__}: {error}")
            raise
        self._told("read", begun, f"{len(data)} bytes of {n}", data)
        return data

    def write(self, data: bytes, timeout_sec: float | None) -> None:
        begun = time.monotonic()
        try:
            self._inner.write(data, timeout_sec)
        except (IoTimeoutError, TransportClosedError) as error:
            self._told("write", begun, f"{type(error).__name__}: {error}", data)
            raise
        self._told("write", begun, f"{len(data)} bytes", data)

    def explain(self, text: str) -> str:
        found: str = self._inner.explain(text)
        return found

    def _told(self, what: str, begun: float, result: str, data: bytes = b"") -> None:
        spent = time.monotonic() - begun
        lines = [f"{k:06x} {data[k : k + SHOWN].hex(' ')}" for k in range(0, len(data), SHOWN)]
        self.logger.log(self.level, "%s", "\n  ".join([f"{self.name}: {what} {result} in {spent:.4f} s", *lines]))


__all__ = ["Transport", "TransportContextManager", "TransportLogger", "debug_transport_timeouts"]
