"""Boards without Python: the server of `tilewright runtime build --rpc` for each processor, run by QEMU where it is not this machine's.

`make test-boards` builds the servers (build/boards) and sets up QEMU with the C libraries of the processors (build/qemu).
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from tilewright import rpc

ROOT = Path(__file__).resolve().parents[2]
QEMU = ROOT / "build" / "qemu" / "usr"
PATIENCE = 120


@dataclass(frozen=True)
class Board:
    """name: as `tilewright runtime build` takes it. target: for what models are compiled. lacking: features that its CPU does not have,
    as -mattr takes them, and those that errors name. emulator: "" where this machine runs its programs."""

    name: str
    target: str
    lacking: tuple[str, str]
    emulator: str = ""
    libraries: str = ""
    cpu: str = ""
    environment: tuple[tuple[str, str], ...] = ()

    @property
    def server(self) -> Path:
        """The program."""
        return ROOT / "build" / "boards" / self.name / "tilewright_rpc"

    def command(self, *arguments: str) -> list[str]:
        """The command line of the server."""
        if not self.emulator:
            return [str(self.server), *arguments]
        emulator = [str(QEMU / "bin" / f"qemu-{self.emulator}-static"), "-L", str(QEMU / self.libraries)]
        return [*emulator, "-cpu", self.cpu, str(self.server), *arguments]


X86 = Board(
    "x86_64-linux-gnu",
    "llvm -mtriple=x86_64-linux-gnu -mcpu=x86-64-v2",
    ("+avx512f", "avx512f"),
    environment=(("TILEWRIGHT_CPU_WITHOUT", "avx512f"),),
)
AARCH64 = Board(
    "aarch64-linux-gnu", "raspberry-pi/4b-aarch64", ("+sve", "sve"), "aarch64", "aarch64-linux-gnu", "cortex-a72"
)
ARM = Board(
    "armv7-linux-gnueabihf",
    "llvm -mtriple=armv7-linux-gnueabihf -mcpu=cortex-a9",
    ("+vfp4", "vfp4"),
    "arm",
    "arm-linux-gnueabihf",
    "cortex-a9",
)
RISCV = Board(
    "riscv64-linux-gnu", "llvm -mtriple=riscv64-linux-gnu", ("+v", "v"), "riscv64", "riscv64-linux-gnu", "rv64"
)
I686 = Board(
    "i686-linux-gnu",
    "llvm -mtriple=i686-linux-gnu -mcpu=pentium4",
    ("+avx2", "avx2"),
    "i386",
    "i686-linux-gnu",
    "qemu32",
)
BOARDS = {b.name: b for b in (X86, AARCH64, ARM, RISCV, I686)}


@contextlib.contextmanager
def serving(board: Board, *options: str) -> Iterator[tuple[subprocess.Popen[str], int]]:
    """A server of a board, and its port; it ends by Ctrl-C, with status 0."""
    command = board.command("server", "--port=0", *options)
    environment = {**os.environ, "TVM_NUM_THREADS": "2", **dict(board.environment)}
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment) as process:
        assert process.stdout is not None
        try:
            line = process.stdout.readline()
            assert line.startswith("serving on "), line
            yield process, int(line.rsplit(":", 1)[1])
            process.send_signal(signal.SIGINT)
            assert process.wait(PATIENCE) == 0
        finally:
            process.kill()


def session(port: int, key: str = "", **options: object) -> rpc.RPCSession:
    """A session with a server of this machine."""
    return rpc.connect("127.0.0.1", port, key, session_timeout=PATIENCE, **options)  # type: ignore[arg-type]


def tilewright(*arguments: str | Path, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    """The command line."""
    command: Sequence[str] = [str(ROOT / ".venv" / "bin" / "tilewright"), *map(str, arguments)]
    return subprocess.run(command, cwd=cwd, capture_output=True, text=True, check=False)
