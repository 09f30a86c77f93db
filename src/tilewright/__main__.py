"""The start of the command lines (`tilewright`, `python -m tilewright`, `tvmc`), which handles interrupts before it loads anything else."""

from __future__ import annotations

import os
import signal
import sys
from importlib import import_module
from types import FrameType


def main() -> None:
    """Runs `tilewright`."""
    start("tilewright.cli")


def tvmc() -> None:
    """Runs `tvmc`."""
    start("tilewright.driver.tvmc.main")


def start(module: str) -> None:
    """Runs the main function of a module."""
    # Where a shell has interrupts ignored (a command in the background), they stay so.
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, interrupted)
    try:
        import_module(module).main()
    except KeyboardInterrupt:
        sys.stderr.write("interrupted\n")
        sys.exit(130)


def interrupted(number: int, frame: FrameType | None) -> None:
    """Raises KeyboardInterrupt, so that what is half written is removed; while modules are loaded, when nothing is, ends the process: some
    packages make tracebacks and errors of their own of an exception then."""
    while frame is not None:
        if frame.f_code.co_filename.startswith("<frozen importlib"):
            os.write(2, b"interrupted\n")
            os._exit(130)
        frame = frame.f_back
    raise KeyboardInterrupt


if __name__ == "__main__":
    main()
