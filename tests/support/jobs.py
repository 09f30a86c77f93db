"""Jobs for worker processes."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

STATE = {"told": 0}


def tell(value: int) -> None:
    STATE["told"] = value


def told() -> int:
    return STATE["told"]


def add(a: int, b: int = 1) -> int:
    return a + b


def number() -> int:
    return os.getpid()


def fail(text: str) -> None:
    raise ValueError(text)


def sleep(seconds: float) -> float:
    time.sleep(seconds)
    return seconds


def begin(path: Path) -> None:
    """Tells that it has begun, and sleeps."""
    path.touch()
    time.sleep(60)


def die(signal: int) -> None:
    print("a line before the end", file=sys.stderr, flush=True)
    os.kill(os.getpid(), signal)


def leave(status: int) -> None:
    os._exit(status)


def take(count: int) -> int:
    return len(bytearray(count))


def start_another() -> int:
    """Starts a process that outlives the job."""
    return subprocess.Popen(["sleep", "60"]).pid


def temporary() -> str:
    """A temporary file that stays."""
    import tempfile

    number, path = tempfile.mkstemp()
    os.close(number)
    return path
