"""Many clients at one tracker with few servers, for long: none starves, nothing is lost, nothing is left.

    python -m tests.rpc.soak --clients 200 --servers 20 --seconds 600

Each client asks for a board, works on it (uploads a file, copies an array, calls a function), and asks again. At the end every client must
have been served, no client many times less than others, every result right, and every board free again.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from multiprocessing import Pipe, get_context
from multiprocessing.connection import Connection
from pathlib import Path

import numpy as np

import tilewright as tvm
from tests.rpc.test_sessions import functions
from tilewright import rpc
from tilewright.rpc.serving import FOLDERS

LOOPBACK = "127.0.0.1"
THREADS = 50
"""Clients in a process of their own."""


@dataclass
class Told:
    """What a client has seen."""

    waits: list[float] = field(default_factory=list)
    served: list[int] = field(default_factory=list)  # sessions of each client
    errors: list[str] = field(default_factory=list)


def client(port: int, number: int, end: float, hold: float, told: Told, lock: threading.Lock) -> None:
    """Work until the time is over."""
    rng, served = np.random.default_rng(number), 0
    try:
        farm = rpc.connect_tracker(LOOPBACK, port)
        while time.monotonic() < end:
            start = time.monotonic()
            remote = farm.request("board", session_timeout=120)
            waited = time.monotonic() - start
            data = rng.integers(0, 255, 20_000, np.uint8)
            remote.upload(data.tobytes(), "data")
            right = (tvm.nd.array(data, remote.cpu(0)).numpy() == data).all()
            right &= remote.get_function("tests.rpc.add")(number, served) == number + served
            right &= remote.download("data") == data.tobytes()
            time.sleep(hold)
            del remote
            served += 1
            with lock:
                told.waits.append(waited)
                if not right:
                    told.errors.append(f"client {number}: a wrong result")
    except Exception as error:
        with lock:
            told.errors.append(f"client {number}: {type(error).__name__}: {error}")
    with lock:
        told.served.append(served)


def clients(port: int, first: int, count: int, seconds: float, hold: float, out: Connection) -> None:
    """So many clients in this process."""
    told, lock, end = Told(), threading.Lock(), time.monotonic() + seconds
    threads = [threading.Thread(target=client, args=(port, first + n, end, hold, told, lock)) for n in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    out.send(told)


def resources(pids: Sequence[int]) -> tuple[int, int]:
    """Open files, and kilobytes of memory, of these processes."""
    files = sum(len(os.listdir(f"/proc/{pid}/fd")) for pid in pids)
    pages = sum(int(Path(f"/proc/{pid}/statm").read_text().split()[1]) for pid in pids)
    return files, pages * os.sysconf("SC_PAGE_SIZE") // 1024


def run(count: int, boards: int, seconds: float, hold: float = 0.05) -> list[str]:
    """Prints the figures; what was wrong."""
    functions()
    tracker = rpc.Tracker(LOOPBACK, 0, silent=True)
    place = (LOOPBACK, tracker.port)
    servers = [rpc.Server(LOOPBACK, 0, key="board", tracker_addr=place, silent=True) for _ in range(boards)]
    farm = rpc.connect_tracker(*place)
    pids = [each.proc.pid for each in (tracker, *servers) if each.proc is not None]
    found: list[str] = []

    def settle(what: str) -> None:
        end = time.monotonic() + 20
        while farm.summary()["queue_info"].get("board") != {"free": boards, "pending": 0}:
            if time.monotonic() > end:
                found.append(f"{what}: the tracker has {farm.summary()['queue_info']}")
                return
            time.sleep(0.1)

    settle("before")
    for n in range(2 * boards):  # each server has had sessions when it is measured
        assert farm.request("board").get_function("tests.rpc.add")(1, n) == 1 + n
    settle("before")
    before = resources(pids)
    told = Told()
    context, groups = get_context("spawn"), []
    for first in range(0, count, THREADS):
        receives, sends = Pipe(False)
        arguments = (tracker.port, first, min(THREADS, count - first), seconds, hold, sends)
        groups.append((context.Process(target=clients, args=arguments, daemon=True), receives))
        groups[-1][0].start()
    for process, receives in groups:
        if receives.poll(seconds + 180):
            part = receives.recv()
            told.waits += part.waits
            told.served += part.served
            told.errors += part.errors
        else:
            found.append("a process of clients does not end")
            process.kill()
        process.join(10)
    settle("after")
    after = resources(pids)
    folders = [f for pid in pids for f in Path(tempfile.gettempdir()).glob(f"{FOLDERS}{pid}-*")]
    for each in (*servers, tracker):
        each.terminate()
    waits, served = np.sort(told.waits), np.array(told.served)
    if len(waits) == 0:
        return [*found, *told.errors, "nobody was served"]
    shown = ", ".join(f"{p}%: {np.percentile(waits, p):.2f} s" for p in (50, 90, 99, 100))
    print(f"{len(waits)} sessions of {len(served)} clients on {boards} boards, {len(waits) / seconds:.0f} a second")
    print(f"waits: {shown}; sessions of a client: {served.min()} to {served.max()}, mean {served.mean():.1f}")
    print(
        f"open files of tracker and servers: {before[0]}, then {after[0]}; memory: {before[1]} KB, then {after[1]} KB"
    )
    found += told.errors[:20]
    if len(served) != count or served.sum() != len(waits):
        found.append(
            f"{count} clients began, {len(served)} ended; {served.sum()} sessions, {len(waits)} of them waited"
        )
    if served.min() < served.mean() / 2:
        found.append(f"a client starved: it had {served.min()} sessions, where the mean is {served.mean():.1f}")
    if after[0] > before[0]:
        found.append(f"{after[0] - before[0]} files are left open")
    if after[1] > before[1] + 2000 * len(pids):
        found.append(f"memory grew by {after[1] - before[1]} KB")
    return found + [f"a folder is left: {folder}" for folder in folders]


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m tests.rpc.soak", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--clients", type=int, default=200)
    parser.add_argument("--servers", type=int, default=20)
    parser.add_argument("--seconds", type=float, default=600)
    parser.add_argument("--hold", type=float, default=0.05, help="seconds that a client keeps a board beside its work")
    options = parser.parse_args(argv)
    found = run(options.clients, options.servers, options.seconds, options.hold)
    print(*found or ["nothing was wrong"], sep="\n")
    return int(bool(found))


if __name__ == "__main__":
    sys.exit(main())
