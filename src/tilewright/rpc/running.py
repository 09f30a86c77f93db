"""Servers and trackers as programs: they run until they are told to stop, and say where they listen."""

from __future__ import annotations

import logging
import signal
import time

from tilewright.rpc import base
from tilewright.rpc.process import Served


def address(text: str) -> tuple[str, int]:
    """(host, port) of "host:port". Raises ValueError for other text."""
    host, _, port = text.rpartition(":")
    if not host or not port.isdecimal() or int(port) > 65535:
        raise ValueError(f"an address is host:port, such as 127.0.0.1:9190, but {text!r} was given")
    return host.strip("[]"), int(port)


def show_log() -> None:
    """Messages of servers on standard error, with the time."""
    handler = logging.StreamHandler()
    handler.setFormatter(logging.Formatter("%(asctime)s %(message)s", "%H:%M:%S"))
    base.logger.addHandler(handler)
    base.logger.setLevel(logging.INFO)


def run_until_stopped(served: Served) -> int:
    """Wait for Ctrl-C or SIGTERM, then end it; the exit status: 1 if it ended by itself."""

    def stop(*_: object) -> None:
        raise KeyboardInterrupt

    for number in (signal.SIGTERM, signal.SIGINT):  # a shell may have started it with SIGINT ignored
        signal.signal(number, stop)
    try:
        while served.proc is not None and served.proc.is_alive():
            time.sleep(0.2)
        return 1
    except KeyboardInterrupt:
        return 0
    finally:
        served.terminate()
