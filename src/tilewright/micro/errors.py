"""What goes wrong with boards, and on them."""

from __future__ import annotations

from tilewright.support.errors import TVMError


class MicroError(TVMError):
    """Something about a board, its connection or its code."""


class BoardError(MicroError, ValueError):
    """A description of a board that is wrong, or a board that nobody knows."""


class LinkError(MicroError):
    """Objects that cannot be placed: a symbol that nobody defines, a relocation that does not reach, a memory that is too small."""


class NoRoom(LinkError):
    """A section of a device's memory that is too small for something. missing: bytes."""

    def __init__(self, message: str, missing: int) -> None:
        super().__init__(message)
        self.missing = missing


class ConnectionLost(MicroError, ConnectionError):
    """The debug connection was refused, broke, or speaks another language."""


class DeviceTimeout(MicroError, TimeoutError):
    """The device did not answer, or did not finish, in time."""


class SessionTerminatedError(MicroError, ConnectionError):
    """A session over a transport has ended: the device does not answer, was reset, or stopped."""


class DeviceFault(MicroError):
    """The processor stopped at a fault.

    reason: what fault it was. function: the name of the function it stopped in; "" where none is known. pc: its address. address: the
    memory that was accessed; None where that is not known. registers: all registers by name. line: the line of C, with its number; "" for
    code of LLVM.
    """

    def __init__(
        self,
        message: str,
        reason: str,
        function: str,
        pc: int,
        address: int | None,
        registers: dict[str, int],
        line: str = "",
    ) -> None:
        super().__init__(message)
        self.reason, self.function, self.pc, self.address = reason, function, pc, address
        self.registers, self.line = registers, line


__all__ = [
    "BoardError",
    "ConnectionLost",
    "DeviceFault",
    "DeviceTimeout",
    "LinkError",
    "MicroError",
    "NoRoom",
    "SessionTerminatedError",
]
