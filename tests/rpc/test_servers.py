"""Servers and trackers as processes: who gets in, what a session's end leaves, what a lost client or server does to the other side."""

from __future__ import annotations

import gc
import os
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest

import tilewright as tvm
from tests.rpc.test_sessions import add_one, functions
from tilewright import rpc, te
from tilewright.exec import query_rpc_tracker, rpc_proxy, rpc_server, rpc_tracker
from tilewright.rpc import base
from tilewright.rpc.serving import FOLDERS
from tilewright.support.errors import RPCError


def until(condition: Callable[[], bool], seconds: float = 15) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "it did not happen in time"
        time.sleep(0.02)


def is_process(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return "Z" not in Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0]


@pytest.fixture
def server() -> Iterator[rpc.Server]:
    functions()
    found = rpc.Server("127.0.0.1", 0, key="tests", silent=True)
    yield found
    found.terminate()


@pytest.fixture
def tracker() -> Iterator[rpc.Tracker]:
    found = rpc.Tracker("127.0.0.1", 0, silent=True)
    yield found
    found.terminate()


def session(server: rpc.Server, seconds: int = 60) -> rpc.RPCSession:
    return rpc.connect("127.0.0.1", server.port, "tests", session_timeout=seconds)


def test_sessions_are_processes_of_their_own(server: rpc.Server) -> None:
    """One after the other; each with a new folder, which is gone with it."""
    pids, folders = [], []
    for _ in range(3):
        remote = session(server)
        pids.append(remote.get_function("tests.rpc.process")())
        folders.append(Path(remote.get_function("tvm.rpc.server.workpath")(".")))
        remote.upload(b"x", "x")
        assert (folders[-1] / "x").exists()
        del remote
    assert len({os.getpid(), *pids}) == 4 and len(set(folders)) == 3
    until(lambda: not any([is_process(p) for p in pids]) and not any([f.exists() for f in folders]))


def test_temporary_files_of_a_session_go_with_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Those of a library that the server linked from an archive."""
    a = te.placeholder((4,), name="a")
    add = te.create_prim_func([a, te.compute((4,), lambda i: a[i] + 1.0, name="b")])
    archive, place = tmp_path / "add.tar", tmp_path / "temporary"
    tvm.build(add, target="llvm", name="add").export_library(archive)
    place.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(place))
    server = rpc.Server("127.0.0.1", 0, key="tests", silent=True)
    remote = rpc.connect("127.0.0.1", server.port, key="tests")
    remote.upload(str(archive))
    loaded = remote.load_module("add.tar")
    assert loaded.implements_function("add") and list(place.iterdir())
    del loaded, remote
    until(lambda: not list(place.iterdir()))
    server.terminate()


def test_a_crash_ends_its_session_alone(server: rpc.Server) -> None:
    remote = session(server)
    pid = remote.get_function("tests.rpc.process")()
    os.kill(pid, signal.SIGKILL)
    with pytest.raises(RPCError, match="closed the connection|is lost"):
        remote.get_function("tests.rpc.echo")
    with pytest.raises(RPCError, match="has ended|closed the connection"):
        remote.get_function("tests.rpc.echo")
    assert session(server).get_function("tests.rpc.add")(1, 2) == 3


def test_threads_share_a_session(server: rpc.Server) -> None:
    """Each call is whole, whoever else calls, frees or is called back meanwhile."""
    remote, wrong = session(server), []

    def work(n: int) -> None:
        for i in range(60):
            add, apply = remote.get_function("tests.rpc.add"), remote.get_function("tests.rpc.apply")
            a = tvm.nd.array(np.full(1000, n, "float32"), remote.cpu(0))
            if add(n, i) != n + i or apply(lambda x: x * n, i) != i * n or a.numpy().sum() != 1000 * n:
                wrong.append((n, i))

    threads = [threading.Thread(target=work, args=(n,)) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert not wrong and not any([thread.is_alive() for thread in threads])


def test_a_forked_child_does_not_end_its_parents_session(server: rpc.Server) -> None:
    remote = session(server)
    reader, writer = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            remote.get_function("tests.rpc.echo")
        except RPCError as error:
            os.write(writer, str(error).encode())
        del remote
        gc.collect()
        os._exit(0)
    os.waitpid(pid, 0)
    assert b"belongs to the process that opened it" in os.read(reader, 1000)
    assert remote.get_function("tests.rpc.add")(1, 2) == 3
    os.close(reader)
    os.close(writer)


def test_a_session_has_its_time(server: rpc.Server) -> None:
    remote = session(server, 1)
    wait = remote.get_function("tests.rpc.apply")
    start = time.monotonic()
    with pytest.raises(RPCError, match="closed the connection|is lost"):
        while True:
            wait(lambda: time.sleep(0.05))
    assert 0.8 < time.monotonic() - start < 10


def test_keys(server: rpc.Server) -> None:
    with pytest.raises(RPCError, match="has another key than 'other'"):
        rpc.connect("127.0.0.1", server.port, "other")
    assert session(server).get_function("tests.rpc.add")(1, 2) == 3


def test_key_files(tmp_path: Path) -> None:
    """All three sides know the secret, or are refused."""
    functions()
    right, wrong, short = tmp_path / "right", tmp_path / "wrong", tmp_path / "short"
    right.write_text("a secret of this farm\n")
    wrong.write_text("a secret of another farm")
    short.write_text("short")
    tracker = rpc.Tracker("127.0.0.1", 0, silent=True, key_file=right)
    place = ("127.0.0.1", tracker.port)
    server = rpc.Server("127.0.0.1", 0, key="board", tracker_addr=place, silent=True, key_file=right)
    client = rpc.connect_tracker(*place, key_file=right)
    assert client.request("board").get_function("tests.rpc.add")(1, 2) == 3
    for given, message in ((None, "demands a key file"), (wrong, "has another key file")):
        with pytest.raises(RPCError, match=message):
            rpc.connect_tracker(*place, key_file=given)
        with pytest.raises(RPCError, match=message):
            rpc.connect("127.0.0.1", server.port, key_file=given)
    with pytest.raises(RPCError, match="holds 5 bytes, where at least 16 are needed"):
        rpc.Server("127.0.0.1", 0, silent=True, key_file=short)
    with pytest.raises(RPCError, match="cannot be read: No such file"):
        rpc.connect("127.0.0.1", server.port, key_file=tmp_path / "none")
    open_server = rpc.Server("127.0.0.1", 0, silent=True)
    with pytest.raises(RPCError, match="demands no key file, so that it may be another server"):
        rpc.connect("127.0.0.1", open_server.port, key_file=right)
    for each in (open_server, server, tracker):
        each.terminate()


def test_what_is_no_server() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        threading.Thread(target=lambda: listener.accept()[0].sendall(b"HTTP/1.1 400\r\n"), daemon=True).start()
        with pytest.raises(RPCError, match="is no RPC server"):
            rpc.connect("127.0.0.1", port)
    with pytest.raises(RPCError, match=f"cannot connect to the server 127.0.0.1:{port}: Connection refused"):
        rpc.connect("127.0.0.1", port)
    with pytest.raises(RPCError, match="a server that registers with a tracker needs a key"):
        rpc.Server("127.0.0.1", 0, tracker_addr=("127.0.0.1", 1))


def test_half_open_and_strange_connections_do_not_stop_a_server(
    server: rpc.Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    address = ("127.0.0.1", server.port)
    for data in (
        b"",
        b"GET / HTTP/1.1\r\n\r\n",
        struct.pack("<i", base.RPC_MAGIC),
        struct.pack("<ii", base.RPC_MAGIC, -1),
        struct.pack("<ii", base.RPC_MAGIC, 1 << 30),
    ):
        with socket.create_connection(address) as sock:
            sock.sendall(data)
    assert session(server).get_function("tests.rpc.add")(1, 2) == 3


def test_a_client_that_is_killed_is_cleaned_up(server: rpc.Server) -> None:
    """In the middle of a call that would go on for minutes."""
    program = f"""
import sys
from tilewright import rpc, te
remote = rpc.connect("127.0.0.1", {server.port}, "tests")
print(remote.get_function("tests.rpc.process")(), flush=True)
remote.get_function("tests.rpc.sleep")(100.0)
"""
    server.terminate()
    tvm.register_func("tests.rpc.sleep", time.sleep, override=True)
    functions()
    again = rpc.Server("127.0.0.1", 0, key="tests", silent=True)
    program = program.replace(str(server.port), str(again.port))
    with subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True) as client:
        assert client.stdout is not None
        pid = int(client.stdout.readline())
        time.sleep(0.3)
        client.kill()
    start = time.monotonic()
    until(lambda: not is_process(pid))
    assert rpc.connect("127.0.0.1", again.port, "tests").get_function("tests.rpc.add")(1, 2) == 3
    assert time.monotonic() - start < 5
    again.terminate()


def test_a_server_that_is_killed_leaves_nothing() -> None:
    functions()
    server = rpc.Server("127.0.0.1", 0, key="tests", silent=True)
    remote = session(server)
    pid = remote.get_function("tests.rpc.process")()
    folder = Path(remote.get_function("tvm.rpc.server.workpath")("."))
    assert server.proc is not None
    os.kill(server.proc.pid, signal.SIGKILL)
    until(lambda: not is_process(pid))
    with pytest.raises(RPCError):
        remote.get_function("tests.rpc.echo")
    assert folder.exists() and folder.name.startswith(FOLDERS)
    server.proc.wait(5)
    other = rpc.Server("127.0.0.1", 0, silent=True)  # removes what is left
    until(lambda: not folder.exists())
    other.terminate()


def test_a_server_ends_with_its_program() -> None:
    program = """
import time
from tilewright import rpc, te
server = rpc.Server("127.0.0.1", 0, silent=True)
tracker = rpc.Tracker("127.0.0.1", 0, silent=True)
print(server.proc.pid, tracker.proc.pid, flush=True)
time.sleep(100)
"""
    with subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True) as started:
        assert started.stdout is not None
        pids = [int(p) for p in started.stdout.readline().split()]
        assert all([is_process(p) for p in pids])
        started.kill()
    until(lambda: not any([is_process(p) for p in pids]))


def test_a_tracker_hands_servers_out(tracker: rpc.Tracker) -> None:
    functions()
    servers = [
        rpc.Server("127.0.0.1", 0, key="board", tracker_addr=("127.0.0.1", tracker.port), silent=True) for _ in range(2)
    ]
    client = rpc.connect_tracker("127.0.0.1", tracker.port)
    until(lambda: client.summary()["queue_info"].get("board", {}).get("free") == 2)
    assert sorted(s["key"] for s in client.summary()["server_info"]) == ["server:board"] * 2
    assert f"127.0.0.1:{servers[0].port}" in client.text_summary()
    one, two = client.request("board"), client.request("board")
    assert one.get_function("tests.rpc.process")() != two.get_function("tests.rpc.process")()
    assert client.summary()["queue_info"]["board"] == {"free": 0, "pending": 0}
    with pytest.raises(
        RPCError, match="'bord' became free within 1 s; the tracker has none with this key; did you mean `board`?"
    ):
        client.request("bord", session_timeout=1)
    with pytest.raises(RPCError, match="no server with the key 'board' became free within 1 s"):
        client.request("board", session_timeout=1)
    del one
    start = time.monotonic()
    assert client.request("board").get_function("tests.rpc.add")(1, 2) == 3
    assert time.monotonic() - start < 5
    for server in servers:
        server.terminate()
    until(lambda: client.summary()["server_info"] == [])


def test_who_asks_first_and_with_what_priority(tracker: rpc.Tracker) -> None:
    functions()
    order: list[str] = []

    def ask(name: str, priority: int) -> None:
        found = rpc.connect_tracker("127.0.0.1", tracker.port).request("board", priority)
        order.append(name)
        del found

    client = rpc.connect_tracker("127.0.0.1", tracker.port)
    threads = []
    for n, (name, priority) in enumerate([("first", 1), ("second", 1), ("urgent", 5)]):
        threads.append(threading.Thread(target=ask, args=(name, priority)))
        threads[-1].start()
        until(lambda: client.summary()["queue_info"].get("board", {}).get("pending") == n + 1)
    server = rpc.Server("127.0.0.1", 0, key="board", tracker_addr=("127.0.0.1", tracker.port), silent=True)
    for thread in threads:
        thread.join(20)
    assert order == ["urgent", "first", "second"]
    server.terminate()


def test_a_server_finds_its_tracker_again() -> None:
    functions()
    tracker = rpc.Tracker("127.0.0.1", 0, silent=True)
    server = rpc.Server("127.0.0.1", 0, key="board", tracker_addr=("127.0.0.1", tracker.port), silent=True)
    until(
        lambda: rpc.connect_tracker("127.0.0.1", tracker.port).summary()["queue_info"].get("board", {}).get("free") == 1
    )
    tracker.terminate()
    other = rpc.Tracker("127.0.0.1", tracker.port, tracker.port + 1, silent=True)
    client = rpc.connect_tracker("127.0.0.1", other.port)
    until(lambda: client.summary()["queue_info"].get("board", {}).get("free") == 1)
    assert client.request("board").get_function("tests.rpc.add")(1, 2) == 3
    server.terminate()
    other.terminate()


def test_a_key_that_was_handed_out_to_nobody(tracker: rpc.Tracker) -> None:
    """A client that took a server from the tracker and died is not waited for."""
    functions()
    server = rpc.Server("127.0.0.1", 0, key="board", tracker_addr=("127.0.0.1", tracker.port), silent=True)
    client = rpc.connect_tracker("127.0.0.1", tracker.port)
    until(lambda: client.summary()["queue_info"].get("board", {}).get("free") == 1)
    assert client._ask(base.TrackerCode.REQUEST, "board", "", 1)[1] == server.port
    assert client.request("board", session_timeout=30).get_function("tests.rpc.add")(1, 2) == 3
    server.terminate()


def test_strange_messages_to_a_tracker(tracker: rpc.Tracker) -> None:
    address = ("127.0.0.1", tracker.port)
    for data in (
        b"",
        b"GET / HTTP/1.1\r\n\r\n",
        struct.pack("<ii", base.RPC_TRACKER_MAGIC, -5),
        struct.pack("<ii", base.RPC_TRACKER_MAGIC, 1 << 30),
    ):
        with socket.create_connection(address) as sock:
            sock.sendall(data)
    client = rpc.connect_tracker(*address)
    for message in (
        [99],
        [],
        {},
        "x",
        None,
        [3],
        [3, "k", 5, None],
        [4, "k"],
        [4, "k", "", "high"],
        [5, 7],
        [2, "no key"],
    ):
        sock = client._sock
        assert sock is not None
        base.sendjson(sock, message)
        answer = base.recvjson(sock)
        assert answer == base.TrackerCode.FAIL or answer[0] == base.TrackerCode.FAIL, message
    assert client.summary()["server_info"] == []


def test_programs_of_the_command_line() -> None:
    """`tilewright rpc tracker`, `server` and `status` together; Ctrl-C ends them."""

    def start(*options: str) -> tuple[subprocess.Popen[str], str]:
        process = subprocess.Popen(
            [sys.executable, "-m", "tilewright", "rpc", *options],
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        assert process.stdout is not None
        return process, process.stdout.readline().strip().rpartition(" ")[2]

    tracker, place = start("tracker", "--port", "0")
    server, _ = start("server", "--port", "0", "--key", "board", "--tracker", place)
    port = place.rpartition(":")[2]
    client = rpc.connect_tracker("127.0.0.1", int(port))
    until(lambda: client.summary()["queue_info"].get("board", {}).get("free") == 1)
    status = subprocess.run(
        [sys.executable, "-m", "tilewright", "rpc", "status", "--port", port],
        capture_output=True,
        text=True,
        check=True,
    )
    assert "server:board" in status.stdout
    for process in (server, tracker):
        process.send_signal(signal.SIGINT)
        assert process.wait(10) == 0
    lost = subprocess.run(
        [sys.executable, "-m", "tilewright", "rpc", "server", "--tracker", "nowhere"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert (
        lost.returncode == 1
        and lost.stderr == "error: an address is host:port, such as 127.0.0.1:9190, but 'nowhere' was given\n"
    )


def test_programs_that_cannot_begin(capsys: pytest.CaptureFixture[str]) -> None:
    """The status of a tracker that is not there fails at once; who works with one waits for it to come up."""
    options = ["--host", "no.such.host.invalid", "--silent"]
    for program in (rpc_server, rpc_tracker, rpc_proxy):  # the classic programs were given what their parsers had read
        assert program.main(program.parser().parse_args(options)) == program.main(options) == 1
        assert capsys.readouterr().err.count("error: cannot listen on no.such.host.invalid") == 2
    port, start = socket.create_server(("127.0.0.1", 0)).getsockname()[1], time.monotonic()
    assert query_rpc_tracker.main(["--port", str(port)]) == 1
    found = capsys.readouterr()
    assert found.out == "" and f"cannot connect to 127.0.0.1:{port}: Connection refused: nothing listens" in found.err
    assert time.monotonic() - start < 10


def test_folders_of_other_programs_stay() -> None:
    folder = Path(tempfile.mkdtemp(prefix=f"{FOLDERS}notanumber-"))
    server = rpc.Server("127.0.0.1", 0, silent=True)
    rpc.connect("127.0.0.1", server.port)
    assert folder.exists()
    folder.rmdir()
    server.terminate()


def test_what_a_server_does_before_it_listens(tmp_path: Path) -> None:
    functions()
    loads = tmp_path / "library.so"
    loads.write_bytes(Path(add_one(tmp_path)).read_bytes())
    called = lambda: tvm.register_func("tests.rpc.called", lambda: "called")  # noqa: E731
    server = rpc.Server("127.0.0.1", 0, silent=True, load_library=f"{loads}", server_init_callback=called)
    assert rpc.connect("127.0.0.1", server.port).get_function("tests.rpc.called")() == "called"
    assert str(loads) in Path(f"/proc/{server.proc.pid if server.proc else 0}/maps").read_text()
    server.terminate()
    with pytest.raises(RPCError, match="the server cannot start: FileNotFoundError: .*/none.so"):
        rpc.Server("127.0.0.1", 0, silent=True, load_library=str(tmp_path / "none.so"))
    with pytest.raises(RPCError, match="the server cannot start: ZeroDivisionError: "):
        rpc.Server("127.0.0.1", 0, silent=True, server_init_callback=lambda: 1 // 0)


def test_a_function_runs_on_another_server_if_the_session_is_lost(tracker: rpc.Tracker) -> None:
    functions()
    place = ("127.0.0.1", tracker.port)
    server = rpc.Server("127.0.0.1", 0, key="board", tracker_addr=place, silent=True)
    client, tries = rpc.connect_tracker(*place), []

    def work(remote: rpc.RPCSession) -> int:
        pid = remote.get_function("tests.rpc.process")()
        tries.append(pid)
        if len(tries) % 3:
            os.kill(pid, signal.SIGKILL)
        found: int = remote.get_function("tests.rpc.add")(1, 2)
        return found

    with pytest.raises(
        RPCError, match="the function failed on 2 servers with the key 'board'; the last one: .*closed|lost"
    ):
        client.request_and_run("board", work, session_timeout=30)
    assert client.request_and_run("board", work, session_timeout=30) == 3 and len(set(tries)) == 3
    server.terminate()
