"""Configurations of sessions: which board, how it is reached, how its memory is divided."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from tilewright.micro.board import Board, board
from tilewright.micro.debug.servers import PROGRAMS
from tilewright.micro.errors import BoardError

METHODS = (*PROGRAMS, "gdb")
TIMEOUT = 10.0
"""Seconds that a batch of tasks may run."""
KEYS = (
    "board", "comms_method", "server_addr", "server_port", "section_constraints", "timeout", "deferred", "instruction_shift",
)  # fmt: skip
"""The entries of a configuration."""


def generate_config(
    which: str | os.PathLike[str] | Mapping[str, Any] | Board,
    server_addr: str | None = None,
    server_port: int | None = None,
    section_constraints: Mapping[str, int] | None = None,
    comms_method: str | None = None,
    timeout: float = TIMEOUT,
    deferred: bool = False,
    instruction_shift: int | None = None,
) -> dict[str, Any]:
    """The configuration of sessions with a board, for `Session`.

    which: as `board` takes it. comms_method: "qemu", "openocd" or "pyocd", which the session starts itself, or "gdb" for a server of GDB's
    remote protocol that runs at server_addr and server_port (default where these are given); else the first way that the description has.
    section_constraints: bytes of sections (`layout.SECTIONS`). timeout: seconds that a batch of tasks may run. deferred: whether calls
    wait until a result is read. instruction_shift: under QEMU, its clock advances 2**shift ns an instruction.

    Raises BoardError for boards that are not known, and for ways that they are not reached by.
    """
    found = board(which)
    if comms_method is None:
        ways = [m for m in PROGRAMS if getattr(found, m) is not None]
        comms_method = "gdb" if server_port is not None else ways[0] if ways else "gdb"
    if comms_method not in METHODS:
        raise BoardError(f"comms_method is {comms_method!r}, but must be one of {', '.join(METHODS)}")
    if comms_method == "gdb" and server_port is None:
        raise BoardError(
            f"the board {found.name} is reached by a debugger that runs already: give its server_addr and server_port"
        )
    if instruction_shift is not None and comms_method != "qemu":
        raise BoardError("instruction_shift is for QEMU's clock; boards have their own")
    if instruction_shift is not None and not 0 <= instruction_shift <= 10:
        raise BoardError(f"instruction_shift is {instruction_shift}, but QEMU takes 0 to 10")
    if timeout <= 0:
        raise BoardError(f"timeout is {timeout}, but must be more than 0 seconds")
    return {
        "board": found, "comms_method": comms_method, "server_addr": server_addr or "127.0.0.1", "server_port": server_port,
        "section_constraints": dict(section_constraints or {}), "timeout": float(timeout), "deferred": bool(deferred),
        "instruction_shift": instruction_shift,
    }  # fmt: skip


def configuration(given: Any) -> dict[str, Any]:
    """A configuration, from one, or from what names a board. Raises BoardError for entries that there are none of."""
    if isinstance(given, Mapping) and "board" in given:
        unknown = [key for key in given if key not in KEYS]
        if unknown:
            raise BoardError(f"a configuration has no entry {unknown[0]!r}; it has {', '.join(KEYS)}")
        rest = {key: value for key, value in given.items() if key != "board" and value is not None}
        return generate_config(given["board"], **rest)
    return generate_config(given)


__all__ = ["KEYS", "METHODS", "TIMEOUT", "configuration", "generate_config"]
