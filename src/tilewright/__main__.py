"""The start of the command lines (`tilewright`, `python -m tilewright`, `tvmc`). It handles Ctrl-C and SIGTERM before it loads anything
else."""

from __future__ import annotations

import os
import signal
import sys
from contextlib import suppress
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
    for number, own in ((signal.SIGINT, signal.default_int_handler), (signal.SIGTERM, signal.SIG_DFL)):
        if signal.getsignal(number) is own:
            signal.signal(number, stopped)
    try:
        import_module(module).main()
    except KeyboardInterrupt:
        sys.stderr.write("interrupted\n")
        sys.exit(130)


def stopped(number: int, frame: FrameType | None) -> None:
    """Raises KeyboardInterrupt, or for SIGTERM SystemExit, so that what is half written and temporary folders are removed. While modules
    are loaded, removes these and ends the process: some packages make tracebacks and errors of their own of an exception."""
    interrupt, code = number == signal.SIGINT, 128 + number
    while frame is not None:
        if frame.f_code.co_filename.startswith("<frozen importlib"):
            if interrupt:
                os.write(2, b"interrupted\n")
            files = sys.modules.get("tilewright.support.files")
            with suppress(Exception):  # it may just be loaded itself
                files and files.remove_own_folders()
            os._exit(code)
        frame = frame.f_back
    raise KeyboardInterrupt if interrupt else SystemExit(code)


if __name__ == "__main__":
    main()
