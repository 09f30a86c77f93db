"""Connections and processes that are lost in the middle of something: the other side gets an error that says so, and goes on."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

import tilewright as tvm
from tests.fuzz import rpc_cuts
from tests.rpc.test_servers import is_process, session, until
from tests.rpc.test_sessions import add_one, functions
from tilewright import rpc
from tilewright.support.errors import RPCError

LOOPBACK = "127.0.0.1"
LOST = "closed the connection|is lost|has ended"


@pytest.fixture
def server() -> Iterator[rpc.Server]:
    functions()
    tvm.register_func("tests.rpc.sleep", time.sleep, override=True)
    found = rpc.Server(LOOPBACK, 0, key="tests", silent=True)
    yield found
    found.terminate()


def test_a_connection_that_ends_anywhere(tmp_path: Path) -> None:
    """At some of the places that `python -m tests.fuzz.rpc_cuts` takes all of."""
    count, longest, found = rpc_cuts.run(1, add_one(tmp_path), most=10)
    assert found == [] and count >= 20 and longest < rpc_cuts.FREE_IN


@pytest.mark.slow
def test_a_connection_that_ends_everywhere(tmp_path: Path) -> None:
    count, longest, found = rpc_cuts.run(8, add_one(tmp_path))
    assert found == [] and count > 500 and longest < rpc_cuts.FREE_IN


def test_a_copy_that_is_lost(server: rpc.Server) -> None:
    """In the middle, in both directions."""
    for direction in (rpc_cuts.TO_SERVER, rpc_cuts.TO_CLIENT):
        wire = rpc_cuts.Wire(server.port)
        wire.cut = (direction, 3_000_000)
        remote = rpc.connect(LOOPBACK, wire.port, "tests", session_timeout=60)
        there = tvm.nd.empty((8_000_000,), "uint8", remote.cpu(0))
        with pytest.raises(RPCError, match=f"127.0.0.1:{wire.port}.*({LOST})|({LOST}).*127.0.0.1:{wire.port}"):
            there.copyfrom(np.zeros(8_000_000, np.uint8))
            there.numpy()
        wire.close()


def test_a_measurement_that_is_lost(server: rpc.Server, tmp_path: Path) -> None:
    """The session's process is killed while it measures."""
    remote = session(server)
    remote.upload(add_one(tmp_path))
    module, device = remote.load_module("add_one.so"), remote.cpu(0)
    a, b = tvm.nd.empty((8,), "float32", device), tvm.nd.empty((8,), "float32", device)
    pid = remote.get_function("tests.rpc.process")()
    threading.Timer(0.5, os.kill, (pid, signal.SIGKILL)).start()
    start = time.monotonic()
    with pytest.raises(RPCError, match=f"({LOST}).* the process of the session ended there .* open another session"):
        module.time_evaluator("add_one", device, number=10, repeat=10, min_repeat_ms=5000)(a, b)
    assert time.monotonic() - start < 5
    assert session(server).get_function("tests.rpc.add")(1, 2) == 3


def test_a_server_that_hangs(monkeypatch: pytest.MonkeyPatch) -> None:
    """Stopped, with all of its processes: it still has its connections, and answers nothing. The session's time ends the wait."""
    monkeypatch.setattr("tilewright.rpc.client.ENDS_IN", 1)
    functions()
    server = rpc.Server(LOOPBACK, 0, key="tests", silent=True)
    remote = session(server, 1)
    echo, pid = remote.get_function("tests.rpc.echo"), remote.get_function("tests.rpc.process")()
    assert server.proc is not None
    stopped = (server.proc.pid, pid)
    for each in stopped:
        os.kill(each, signal.SIGSTOP)
    try:
        start = time.monotonic()
        with pytest.raises(RPCError, match="the time of the session is over, and 127.0.0.1:.* does not answer"):
            echo(1)
        assert time.monotonic() - start < 5
        monkeypatch.setattr("tilewright.rpc.client.ANSWERS_IN", 0.5)
        with pytest.raises(RPCError, match="does not answer the handshake for 0.5 s: it hangs, or is no RPC server"):
            session(server)
    finally:
        for each in stopped:
            os.kill(each, signal.SIGCONT)
        server.terminate()


def test_a_server_that_is_killed_under_load(server: rpc.Server) -> None:
    """Clients that wait, and the one that works, get their errors; a new server takes the port."""
    worker = session(server)
    errors: list[str] = []

    def client(work: bool) -> None:
        try:
            remote = worker if work else rpc.connect(LOOPBACK, server.port, "tests")
            data = np.zeros(1_000_000, np.uint8)
            while True:
                tvm.nd.array(data, remote.cpu(0)).numpy()
        except RPCError as error:
            errors.append(str(error))

    threads = [threading.Thread(target=client, args=(n == 0,), daemon=True) for n in range(8)]
    for thread in threads:
        thread.start()
    pid = worker.get_function("tests.rpc.process")()
    time.sleep(0.5)
    assert server.proc is not None
    os.kill(server.proc.pid, signal.SIGKILL)
    for thread in threads:
        thread.join(10)
    assert len(errors) == 8 and not any(t.is_alive() for t in threads)
    until(lambda: not is_process(pid))
    again = rpc.Server(LOOPBACK, server.port, key="tests", silent=True)
    assert again.port == server.port and session(again).get_function("tests.rpc.add")(1, 2) == 3
    again.terminate()


def test_a_tracker_gives_the_board_of_a_killed_client_to_the_next() -> None:
    """Killed while it waits for a board, when it has just got one, and in the middle of a call."""
    functions()
    tvm.register_func("tests.rpc.sleep", time.sleep, override=True)
    tracker = rpc.Tracker(LOOPBACK, 0, silent=True)
    server = rpc.Server(LOOPBACK, 0, key="board", tracker_addr=(LOOPBACK, tracker.port), silent=True)
    program = f"""
from tilewright import rpc
client = rpc.connect_tracker("{LOOPBACK}", {tracker.port})
STEP
print(flush=True)
input()
"""
    steps = [
        "import threading; threading.Thread(target=client.request, args=['board'], daemon=True).start()",
        "client._ask(4, 'board', '', 1)",
        "remote = client.request('board')",
        "f = client.request('board').get_function('tests.rpc.sleep'); import threading;"
        " threading.Thread(target=f, args=[100.0], daemon=True).start()",
    ]
    for step in steps:
        with subprocess.Popen(
            [sys.executable, "-c", program.replace("STEP", step)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
        ) as client:
            assert client.stdout is not None
            client.stdout.readline()
            time.sleep(0.2)
            client.kill()
            start = time.monotonic()
        farm = rpc.connect_tracker(LOOPBACK, tracker.port)
        assert farm.request("board", session_timeout=30).get_function("tests.rpc.add")(1, 2) == 3
        assert time.monotonic() - start < 5, step
    server.terminate()
    tracker.terminate()


def test_a_tracker_that_is_killed_and_back_in_the_middle_of_sessions(tmp_path: Path) -> None:
    functions()
    tracker = rpc.Tracker(LOOPBACK, 0, silent=True)
    place = (LOOPBACK, tracker.port)
    server = rpc.Server(LOOPBACK, 0, key="board", tracker_addr=place, silent=True)
    client = rpc.connect_tracker(*place)
    remote = client.request("board", session_timeout=60)
    assert tracker.proc is not None
    tracker.proc.kill()
    assert remote.get_function("tests.rpc.add")(1, 2) == 3
    with pytest.raises(RPCError, match=f"the connection to the tracker {place[0]}:{place[1]} is lost"):
        client.summary()
    again = rpc.Tracker(*place, silent=True)
    del remote
    assert client.request("board", session_timeout=60).get_function("tests.rpc.add")(1, 2) == 3
    for each in (server, again):
        each.terminate()


def test_a_tracker_that_does_not_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its late answer is not taken for the next one."""
    tracker = rpc.Tracker(LOOPBACK, 0, silent=True)
    asked = rpc.connect_tracker(LOOPBACK, tracker.port)
    monkeypatch.setattr("tilewright.rpc.client.ANSWERS_IN", 0.2)
    os.kill(tracker._process.pid, signal.SIGSTOP)
    try:
        with pytest.raises(RPCError, match=rf"the tracker 127.0.0.1:{tracker.port} does not answer for 0.2 s"):
            asked.summary()
    finally:
        os.kill(tracker._process.pid, signal.SIGCONT)
    with pytest.raises(RPCError, match="the connection to the tracker is closed"):
        asked.summary()
    monkeypatch.undo()
    assert rpc.connect_tracker(LOOPBACK, tracker.port).summary()["server_info"] == []
    tracker.terminate()


def test_a_client_that_waits_while_its_tracker_is_killed_and_back() -> None:
    """It asks again."""
    functions()
    tracker = rpc.Tracker(LOOPBACK, 0, silent=True)
    place = (LOOPBACK, tracker.port)
    found: list[int] = []

    def wait() -> None:
        remote = rpc.connect_tracker(*place).request("board", session_timeout=60)
        found.append(remote.get_function("tests.rpc.add")(1, 2))

    client = threading.Thread(target=wait, daemon=True)
    client.start()
    watch = rpc.connect_tracker(*place)
    until(lambda: watch.summary()["queue_info"].get("board") == {"free": 0, "pending": 1})
    assert tracker.proc is not None
    tracker.proc.kill()
    again = rpc.Tracker(*place, silent=True)
    server = rpc.Server(LOOPBACK, 0, key="board", tracker_addr=place, silent=True)
    client.join(20)
    assert found == [3]
    for each in (server, again):
        each.terminate()


def test_half_a_handshake_with_a_server_that_is_none() -> None:
    """It accepts, and says nothing more, or not enough."""
    for said in (b"", b"\x71\xf2\x0f\0\x05"):
        with socket.create_server((LOOPBACK, 0)) as listener:
            port = listener.getsockname()[1]

            def speak(listener: socket.socket = listener, said: bytes = said) -> None:
                with listener.accept()[0] as sock:
                    sock.sendall(said)
                    time.sleep(0.1)

            threading.Thread(target=speak, daemon=True).start()
            with pytest.raises(RPCError, match=f"the server 127.0.0.1:{port} does not answer the handshake"):
                rpc.connect(LOOPBACK, port)
