"""Serial ports of this machine (POSIX)."""

from __future__ import annotations

import os
import termios

from tilewright.micro.project_api.server import (
    TransportClosedError,
    TransportTimeouts,
    read_with_timeout,
    write_with_timeout,
)
from tilewright.micro.transport.base import Transport

TIMEOUTS = TransportTimeouts(1.0, 10.0, 60.0)


class SerialTransport(Transport):
    """A serial port: 8 bits, no parity, one stop bit, no flow control.

    port: the path of its device. speed: bits a second. Raises TransportClosedError where there is none, or not with this speed.
    """

    def __init__(
        self, port: str | os.PathLike[str], speed: int = 115200, timeouts: TransportTimeouts = TIMEOUTS
    ) -> None:
        self.port, self.speed, self._timeouts = os.fspath(port), speed, timeouts
        self._file: int | None = None

    def timeouts(self) -> TransportTimeouts:
        return self._timeouts

    def open(self) -> None:
        rate = getattr(termios, f"B{self.speed}", None)
        if rate is None:
            raise TransportClosedError(f"{self.port}: this machine has no serial ports with {self.speed} bits a second")
        try:
            file = os.open(self.port, os.O_RDWR | os.O_NOCTTY | os.O_NONBLOCK)
        except OSError as error:
            raise TransportClosedError(f"{self.port} cannot be opened: {error.strerror or error}") from error
        try:
            settings = termios.tcgetattr(file)
            control = settings[2] & ~(termios.CSIZE | termios.PARENB | termios.CSTOPB | termios.CRTSCTS)
            settings[0:4] = [0, 0, control | termios.CS8 | termios.CREAD | termios.CLOCAL, 0]
            settings[4:6] = [rate, rate]
            termios.tcsetattr(file, termios.TCSANOW, settings)
            termios.tcflush(file, termios.TCIOFLUSH)
        except termios.error as error:
            os.close(file)
            raise TransportClosedError(f"{self.port} is no serial port: {error.args[-1]}") from error
        self._file = file

    def close(self) -> None:
        file, self._file = self._file, None
        if file is not None:
            os.close(file)

    def _open(self) -> int:
        if self._file is None:
            raise TransportClosedError(f"{self.port} is closed")
        return self._file

    def read(self, n: int, timeout_sec: float | None) -> bytes:
        return read_with_timeout(self._open(), n, timeout_sec)

    def write(self, data: bytes, timeout_sec: float | None) -> None:
        write_with_timeout(self._open(), data, timeout_sec)


__all__ = ["TIMEOUTS", "SerialTransport"]
