"""Servers and trackers as programs: they run until they are told to stop, and say where they listen."""

from __future__ import annotations

import argparse
import logging
import signal
import sys
import time
from collections.abc import Callable

from tilewright.rpc import base
from tilewright.rpc.process import Served
from tilewright.support.errors import TVMError


def address(text: str) -> tuple[str, int]:
    """(host, port) of "host:port". Raises ValueError for other text."""
    host, _, port = text.rpartition(":")
    if not host or not port.isdecimal() or int(port) > 65535:
        raise ValueError(f"an address is host:port, such as 127.0.0.1:9190, but {text!r} was given")
    return host.strip("[]"), int(port)


def add_place(parser: argparse.ArgumentParser, port: int, port_end: int) -> None:
    """Options for where it listens, and whether it says so."""
    parser.add_argument("--silent", action="store_true", help="write nothing but errors")
    parser.add_argument(
        "--host",
        default="127.0.0.1",
        help="address to listen on; 0.0.0.0 lets other machines connect (default: 127.0.0.1)",
    )
    parser.add_argument("--port", type=int, default=port, help=f"first port to try (default: {port})")
    parser.add_argument(
        "--port-end", type=int, default=port_end, help=f"port after the last one to try (default: {port_end})"
    )


def add_tracker(parser: argparse.ArgumentParser, what: str) -> None:
    """Options for the tracker that `what` is registered with."""
    parser.add_argument("--tracker", metavar="HOST:PORT", help=f"a tracker to register {what}with")
    parser.add_argument(
        "--custom-addr", metavar="HOST", help="the address that the tracker tells clients (default: the one it sees)"
    )


def tracker_of(options: argparse.Namespace) -> tuple[str, int] | None:
    """Where that tracker is; None where there is none. Raises ValueError as `address` does."""
    return address(options.tracker) if options.tracker else None


def add_guards(parser: argparse.ArgumentParser, who: str, others: str, reaches: str = "") -> None:
    """Options for protection. who: all that must know the secret; others: who connects; reaches: what it connects to itself."""
    group = parser.add_argument_group("protection")
    group.add_argument("--key-file", metavar="FILE", help=f"a file with a secret that {who} must know; none sends it")
    group.add_argument(
        "--tls-cert", metavar="FILE", help=f"the certificate that {others} are shown: they must speak TLS"
    )
    group.add_argument("--tls-key", metavar="FILE", help="its private key (default: in the same file)")
    if reaches:
        group.add_argument("--tls-ca", metavar="FILE", help=f"a file of certificates; {reaches} must have one of them")


def run(start: Callable[[], Served], doing: str, silent: bool) -> int:
    """Start it, and wait until it is stopped; the exit status."""
    if not silent:
        show_log()
    try:
        served = start()
    except (TVMError, ValueError, OSError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    if not silent:
        print(f"{doing} {served.host}:{served.port}", flush=True)
        if base.is_loopback(served.host) and not doing.endswith("proxy"):
            base.logger.info("only programs of this machine can connect; --host 0.0.0.0 lets others")
    return run_until_stopped(served)


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
