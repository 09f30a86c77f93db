"""Sessions whose connection ends after so many bytes, in either direction: as a killed client or server, or a network leaves it.

    python -m tests.fuzz.rpc_cuts --step 1

The client gets an error and never hangs, the server is free for the next client within 5 s, and nothing is left: no process, no open file,
no folder, no memory.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import select
import socket
import struct
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

import tilewright as tvm
from tests.fuzz.progress import Progress
from tests.rpc.test_sessions import add_one, functions
from tilewright import rpc
from tilewright.rpc.serving import FOLDERS
from tilewright.support.errors import RPCError

LOOPBACK = "127.0.0.1"
TO_SERVER, TO_CLIENT = 0, 1
FREE_IN = 5.0


class Wire:
    """A listener that passes connections on to a server. `cut` is (direction, bytes) after which it ends a connection."""

    def __init__(self, port: int) -> None:
        self.server = (LOOPBACK, port)
        self.cut: tuple[int, int] | None = None
        self.passed = [bytearray(), bytearray()]
        self._listener = socket.create_server((LOOPBACK, 0))
        self.port: int = self._listener.getsockname()[1]
        threading.Thread(target=self._run, daemon=True).start()

    def _run(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                client = self._listener.accept()[0]
                self._pass_on(client, socket.create_connection(self.server))

    def _pass_on(self, client: socket.socket, server: socket.socket) -> None:
        self.passed = [bytearray(), bytearray()]
        ways = {client: (server, TO_SERVER), server: (client, TO_CLIENT)}
        way_cut, most = self.cut or (None, 0)
        with client, server, contextlib.suppress(OSError):
            for sock in ways:
                sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            while True:
                for source in select.select(list(ways), [], [])[0]:
                    target, way = ways[source]
                    data = source.recv(1 << 16)
                    if way == way_cut:
                        data = data[: most - len(self.passed[way])]
                    target.sendall(data)
                    self.passed[way] += data
                    if not data or (way == way_cut and len(self.passed[way]) >= most):
                        return

    def close(self) -> None:
        self._listener.close()


def session(port: int, library: str) -> None:
    """A client that uses all there is."""
    remote = rpc.connect(LOOPBACK, port, "tests", session_timeout=60)
    remote.get_function("tests.rpc.apply")(lambda x: x + 1, 1)
    remote.upload(library, "add_one.so")
    module, device = remote.load_module("add_one.so"), remote.cpu(0)
    a, b = tvm.nd.array(np.arange(8, dtype="float32"), device), tvm.nd.empty((8,), "float32", device)
    module.time_evaluator("add_one", device, number=3)(a, b)
    if b.numpy()[7] != 8:
        raise AssertionError("a wrong result")
    with contextlib.suppress(tvm.TVMError):
        remote.get_function("tests.rpc.fail")("such luck")
    remote.download("add_one.so")


def places(passed: bytearray, step: int) -> list[int]:
    """Where to cut: around the ends of messages and in the middle of them; of every part of a large one, one in so many bytes."""
    found, at = set[int](), 0
    with contextlib.suppress(struct.error):
        at = 8 + struct.unpack_from("<i", passed, 4)[0]  # the handshake
        found.update(range(0, at + 1, step))
        while True:
            size = 8 + struct.unpack_from("<Q", passed, at)[0]
            found.update({at, at + 1, at + 8, at + 11, at + size // 2, at + size - 1})
            found.update(range(at, min(at + size, at + 200), step))
            at += size
    return sorted(p for p in found if p < len(passed))


class Held:
    """What a server's process holds."""

    def __init__(self, server: rpc.Server) -> None:
        assert server.proc is not None
        self.pid = server.proc.pid
        here = Path(f"/proc/{self.pid}")
        self.files = len(list((here / "fd").iterdir()))
        self.processes = (here / f"task/{self.pid}/children").read_text().split()
        self.folders = list(Path(tempfile.gettempdir()).glob(f"{FOLDERS}{self.pid}-*"))
        self.kilobytes = int((here / "statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") // 1024

    def more_than(self, before: Held, kilobytes: int) -> list[str]:
        """What was not there before."""
        found = [f"{self.files - before.files} open files"] if self.files > before.files else []
        found += [f"processes {', '.join(self.processes)}"] if self.processes else []
        found += [f"folders {', '.join(map(str, self.folders))}"] if self.folders else []
        grown = self.kilobytes - before.kilobytes
        return found + ([f"{grown} KB of memory"] if grown > kilobytes else [])


def within(seconds: float, body: Callable[[], None]) -> str:
    """What goes wrong with `body`: it raises no RPCError, or does not end in time."""
    found: list[str] = []

    def run() -> None:
        try:
            body()
        except RPCError as error:
            found.append(f"RPCError: {error}")
        except Exception as error:
            found.append(f"{type(error).__name__}: {error}")
        else:
            found.append("")

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    thread.join(seconds)
    return found[0] if found else f"it does not end in {seconds:g} s"


def run(step: int, library: str, progress: bool = False, most: int | None = None) -> tuple[int, float, list[str]]:
    """Cut at all places (or `most` of each direction): how many, the longest time until the server was free, and what was wrong."""
    functions()
    server = rpc.Server(LOOPBACK, 0, key="tests", silent=True)
    wire = Wire(server.port)
    session(wire.port, library)
    time.sleep(0.3)
    cuts = []
    for way in (TO_SERVER, TO_CLIENT):
        at = places(wire.passed[way], step)
        cuts += [(way, place) for place in at[:: max(1, len(at) // most) if most else 1]]
    bar = Progress(len(cuts)) if progress else None
    longest, found = 0.0, []
    before = Held(server)
    for n, cut in enumerate(cuts):
        wire.cut = cut
        name = f"cut after {cut[1]} bytes to the {'client' if cut[0] == TO_CLIENT else 'server'}"
        wrong = within(15, lambda: session(wire.port, library))
        if wrong and not wrong.startswith("RPCError"):
            found.append(f"{name}: {wrong}")
        wire.cut = None
        start = time.monotonic()
        wrong = within(FREE_IN, lambda: rpc.connect(LOOPBACK, server.port, "tests").get_function("tests.rpc.add")(1, 2))
        longest = max(longest, time.monotonic() - start)
        if wrong:
            found.append(f"{name}, the next client: {wrong}")
        if bar is not None:
            bar.done, bar.failures = n + 1, len(found)
            bar.show()
    if bar is not None:
        bar.clear()
    end = time.monotonic() + FREE_IN
    while (left := Held(server).more_than(before, 4000)) and time.monotonic() < end:
        time.sleep(0.1)
    found += [f"left: {each}" for each in left]
    wire.close()
    server.terminate()
    return len(cuts), longest, found


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m tests.fuzz.rpc_cuts", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--step", type=int, default=1, help="bytes between two cuts in a message (default: 1)")
    options = parser.parse_args(argv)
    with tempfile.TemporaryDirectory() as folder:
        count, longest, found = run(options.step, add_one(Path(folder)), True)
    print(*found, sep="\n")
    print(f"{count} cuts: {len(found)} finds; the server was free again after {longest:.2f} s at most")
    return int(bool(found))


if __name__ == "__main__":
    sys.exit(main())
