"""The programs that speak GDB's remote protocol for boards: QEMU, OpenOCD, pyOCD."""

from __future__ import annotations

import contextlib
import os
import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Sequence
from typing import IO

from tilewright.micro.board import Board
from tilewright.micro.debug.remote import Remote
from tilewright.micro.errors import ConnectionLost, MicroError

STARTS_IN = 20.0
"""Seconds that a server has to listen."""
PROGRAMS = {"qemu": "TILEWRIGHT_QEMU_SYSTEM", "openocd": "TILEWRIGHT_OPENOCD", "pyocd": "TILEWRIGHT_PYOCD"}
"""By server, the environment variable that names its program (QEMU: the folder of its programs), where it is not on PATH."""


class Server:
    """A program that serves a board, which this process started. It ends with `close`."""

    def __init__(self, command: Sequence[str], port: int, package: str) -> None:
        self.command, self.port = list(command), port
        self.said: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115 (it lives as long as the program)
        try:
            self.process = subprocess.Popen(
                self.command, stdin=subprocess.DEVNULL, stdout=self.said, stderr=self.said, start_new_session=True
            )
        except OSError as error:
            self.said.close()
            raise MicroError(
                f"{self.command[0]} cannot be run: {error.strerror or error}; install it ({package})"
            ) from error

    def connect(self) -> Remote:
        """A connection to the program. Raises ConnectionLost, with its last words, where it ends or does not listen."""
        until = time.monotonic() + STARTS_IN
        while True:
            try:
                return Remote.connect(("127.0.0.1", self.port), 0.05)
            except ConnectionLost as error:
                if self.process.poll() is not None:
                    raise ConnectionLost(
                        f"{self.command[0]} ended with status {self.process.returncode}: {self.words()}"
                    ) from error
                if time.monotonic() > until:
                    raise ConnectionLost(
                        f"{self.command[0]} does not listen after {STARTS_IN:g} s: {self.words()}"
                    ) from error

    def words(self) -> str:
        """The last of what the program wrote."""
        self.said.seek(0)
        return self.said.read()[-2000:].decode(errors="replace").strip() or "it said nothing"

    def close(self) -> None:
        """Ends the program."""
        if self.process.poll() is None:
            self.process.terminate()
            try:
                self.process.wait(2)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()
        with contextlib.suppress(OSError):
            self.said.close()


def free_port() -> int:
    """A port on which nobody listens now."""
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return int(s.getsockname()[1])


def qemu_program(system: str) -> str:
    """The path of QEMU's program for a processor. Raises MicroError where there is none."""
    name, folder = f"qemu-system-{system}", os.environ.get(PROGRAMS["qemu"])
    found = shutil.which(name, path=folder) if folder else shutil.which(name)
    if found is None:
        package = "qemu-system-arm" if system == "arm" else "qemu-system-misc"
        where = f"in {folder}, which {PROGRAMS['qemu']} names" if folder else "on PATH"
        raise MicroError(
            f"there is no {name} {where}; install it (Debian: {package}), or set {PROGRAMS['qemu']} to the folder that has it"
        )
    return found


def start(
    board: Board, how: str, instruction_shift: int | None = None, program: str | os.PathLike[str] | None = None
) -> Server:
    """Starts the server of a board. how: "qemu", "openocd" or "pyocd". instruction_shift: QEMU's clock advances 2**shift ns an
    instruction, so that its counters are the same in every run. program: firmware (ELF) that QEMU loads.

    Raises MicroError where the board cannot be reached so, or where the program is missing.
    """
    port = free_port()
    if how == "qemu" and board.qemu is not None:
        machine = board.qemu
        clock = [] if instruction_shift is None else ["-icount", f"shift={instruction_shift}"]
        loaded = [] if program is None else ["-kernel", os.fspath(program)]
        command = [
            qemu_program(machine.system), "-M", machine.machine, *machine.options, "-nodefaults", "-display", "none", "-serial", "none",
            "-monitor", "none", *clock, *loaded, "-S", "-gdb", f"tcp:127.0.0.1:{port}",
        ]  # fmt: skip
        return Server(command, port, "qemu-system-arm")
    if how == "openocd" and board.openocd is not None:
        program = os.environ.get(PROGRAMS["openocd"], "openocd")
        files = [word for file in board.openocd.config for word in ("-f", file)]
        ports = ["-c", f"gdb_port {port}; tcl_port disabled; telnet_port disabled", "-c", "init; reset halt"]
        return Server([program, *files, *ports], port, "openocd")
    if how == "pyocd" and board.pyocd is not None:
        program = os.environ.get(PROGRAMS["pyocd"], "pyocd")
        target = board.pyocd.target
        return Server(
            [program, "gdbserver", "--target", target, "--port", str(port), "--no-wait"], port, "pip install pyocd"
        )
    ways = [name for name in PROGRAMS if getattr(board, name) is not None]
    raise MicroError(
        f"the board {board.name} is not reached by {how!r}, but by {', '.join(ways) or 'a debugger at an address'}"
    )


__all__ = ["PROGRAMS", "Server", "free_port", "qemu_program", "start"]
