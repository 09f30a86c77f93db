"""The server without Python on this machine: who gets in, limits, trackers, pipes, and what lost and broken clients leave."""

from __future__ import annotations

import json
import os
import random
import socket
import struct
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import tilewright as tvm
from tests.boards.boards import PATIENCE, X86, serving, session
from tilewright import rpc, te
from tilewright.support.errors import RPCError

MAGIC = struct.pack("<i", 0xFF271)


def until(condition: Callable[[], bool], seconds: float = 20) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "it did not happen in time"
        time.sleep(0.02)


def children(pid: int) -> list[int]:
    return [int(n) for n in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    a = te.placeholder((64,), name="A")
    b = te.compute((64,), lambda i: a[i] * 2.0, name="B")
    double = tvm.build(te.create_prim_func([a, b]), target=X86.target, name="double")
    path = tmp_path_factory.mktemp("library") / "double.so"
    double.export_library(str(path))
    double.export_library(str(path.with_suffix(".tar")))
    return path


def check_double(remote: rpc.RPCSession, name: str) -> None:
    a = tvm.nd.array(np.arange(64, dtype="float32"), remote.cpu())
    b = tvm.nd.empty((64,), "float32", remote.cpu())
    remote.load_module(name)["double"](a, b)
    np.testing.assert_array_equal(b.numpy(), 2 * np.arange(64, dtype="float32"))


@pytest.fixture
def secret(tmp_path: Path) -> Path:
    (tmp_path / "key").write_text("0123456789abcdef0123\n")
    return tmp_path / "key"


def test_files_and_libraries(library: Path) -> None:
    with serving(X86, "--key=board") as (_, port):
        remote = session(port, "board")
        remote.upload(library)
        remote.upload(library.with_suffix(".tar"))
        assert remote.listdir(".") == ["double.so", "double.tar"]
        check_double(remote, "double.so")
        check_double(remote, "double.tar")  # linked by the compiler of this machine
        data = os.urandom(70 << 20)
        remote.upload(data, "folder/data")
        assert remote.download("folder/data") == data
        remote.remove("folder")
        with pytest.raises(tvm.TVMError, match="there is no 'folder/data' in the session's folder"):
            remote.download("folder/data")
        with pytest.raises(tvm.TVMError, match="there is no 'nothing.so'.*uploaded are: double.so, double.tar"):
            remote.load_module("nothing.so")
        for path in ("../out", "/etc/passwd", "folder/../../out"):
            with pytest.raises(tvm.TVMError, match="leads out of the session's folder"):
                remote.upload(b"data", path)
        place = Path(remote.get_function("tvm.rpc.server.workpath")("."))
        (place / "link").symlink_to("/etc")
        with pytest.raises(tvm.TVMError, match="leads out of the session's folder"):
            remote.download("link/passwd")
        del remote
        until(lambda: not place.exists())


def test_another_key(library: Path) -> None:
    with serving(X86, "--key=board") as (_, port), pytest.raises(RPCError, match="has another key than 'other'"):
        session(port, "other")


def test_key_files(secret: Path, tmp_path: Path, library: Path) -> None:
    (tmp_path / "other").write_text("x" * 20)
    with serving(X86, f"--key-file={secret}") as (_, port):
        with pytest.raises(RPCError, match="demands a key file"):
            session(port)
        with pytest.raises(RPCError, match="has another key file"):
            session(port, key_file=tmp_path / "other")
        remote = session(port, key_file=secret)
        remote.upload(library)
        check_double(remote, "double.so")
        del remote
    with serving(X86) as (_, port), pytest.raises(RPCError, match="demands no key file"):
        session(port, key_file=secret)


@pytest.mark.parametrize("guarded", [False, True])
def test_a_tracker(library: Path, secret: Path, guarded: bool) -> None:
    key = secret if guarded else None
    tracker = rpc.Tracker("127.0.0.1", 0, silent=True, key_file=key)
    options = [f"--tracker=127.0.0.1:{tracker.port}", "--key=board", "--custom-addr=127.0.0.1"]
    try:
        with serving(X86, *options, *([f"--key-file={secret}"] if guarded else [])) as (process, port):
            farm = rpc.connect_tracker("127.0.0.1", tracker.port, key_file=key)
            for _ in range(3):
                remote = farm.request("board", session_timeout=PATIENCE)
                remote.upload(library)
                check_double(remote, "double.so")
                assert len(children(process.pid)) == 1
                del remote
            first = farm.request("board", session_timeout=PATIENCE)
            summary = farm.summary()
            assert summary["queue_info"]["board"]["free"] == 0
            assert {s["addr"][1] for s in summary["server_info"]} == {port}
            start = time.monotonic()
            os.kill(children(process.pid)[0], 9)  # a session that crashes
            second = farm.request("board", session_timeout=PATIENCE)
            assert time.monotonic() - start < 5
            del first, second
    finally:
        tracker.terminate()


def test_the_time_of_a_session() -> None:
    with serving(X86, "--timeout=1") as (process, port):
        remote = session(port)
        until(lambda: not children(process.pid), 5)
        with pytest.raises(tvm.TVMError):
            remote.listdir(".")
        assert session(port).listdir(".") == []


def test_limits() -> None:
    with serving(X86, "--max-disk=1M", "--max-message=64M", "--idle=1", "--max-connections=3") as (process, port):
        remote = session(port)
        remote.upload(b"x" * 600_000, "first")
        with pytest.raises(
            tvm.TVMError, match=r"no room for 600000 bytes of 'second'.*1048576.*600000 are in use \(--max-disk\)"
        ):
            remote.upload(b"x" * 600_000, "second")
        remote.remove("first")
        remote.upload(b"x" * 600_000, "second")
        idle = [socket.create_connection(("127.0.0.1", port)) for _ in range(5)]
        refused = [s for s in idle if _ends(s, 3)]
        assert len(refused) >= 3
        until(lambda: not children(process.pid), 10)


def _ends(connection: socket.socket, seconds: float) -> bool:
    connection.settimeout(seconds)
    try:
        return connection.recv(1) == b""
    except TimeoutError:
        return False
    except ConnectionError:
        return True


def test_a_client_waits_for_its_turn() -> None:
    with serving(X86) as (process, port):
        first = session(port)
        waiting = socket.create_connection(("127.0.0.1", port))
        waiting.sendall(MAGIC + struct.pack("<i", 7) + b"client:")
        assert not _ends(waiting, 0.5) and len(children(process.pid)) == 1
        del first
        waiting.settimeout(5)
        assert waiting.recv(4) == MAGIC


def test_a_client_that_wants_to_know_is_told_that_it_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    with serving(X86) as (_, port):
        first = session(port)
        monkeypatch.setattr("tilewright.rpc.client.ANSWERS_IN", 2)
        with pytest.raises(
            RPCError, match=r"is busy: it serves other clients \(--max-sessions 1\), and .* no turn in 2 s"
        ):
            rpc.connect("127.0.0.1", port)
        del first
        assert rpc.connect("127.0.0.1", port).cpu(0).exist


def test_who_connects_and_sends_nothing() -> None:
    with serving(X86) as (_, port):
        silent = [socket.create_connection(("127.0.0.1", port)) for _ in range(20)]
        assert session(port).listdir(".") == []  # nobody waits for them
        assert all(_ends(s, 10) for s in silent)


def test_noise() -> None:
    rng = random.Random(0)
    with serving(X86) as (process, port):
        for round_ in range(1500):
            with socket.create_connection(("127.0.0.1", port)) as s:
                kind = round_ % 3
                data = rng.randbytes(rng.randrange(1, 200))
                if kind == 1:
                    data = MAGIC + data
                if kind == 2:
                    data = (
                        MAGIC
                        + struct.pack("<i", 7)
                        + b"client:"
                        + struct.pack("<Q", rng.randrange(0, 1 << rng.randrange(1, 64)))
                        + data
                    )
                s.sendall(data)
        until(lambda: not children(process.pid), 60)
        assert process.poll() is None and session(port).listdir(".") == []
        until(lambda: not children(process.pid))
        assert len(os.listdir(f"/proc/{process.pid}/fd")) < 12


def test_a_client_that_is_killed() -> None:
    code = (
        "from tilewright import rpc; s = rpc.connect('127.0.0.1', {}); s.upload(b'x', 'x'); print(flush=True); input()"
    )
    with serving(X86) as (process, port):
        with subprocess.Popen(
            [".venv/bin/python", "-c", code.format(port)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
        ) as client:
            assert client.stdout is not None
            client.stdout.readline()
            assert len(children(process.pid)) == 1
            client.kill()
        until(lambda: not children(process.pid), 5)


def test_folders_of_killed_servers_go(tmp_path: Path) -> None:
    (tmp_path / "tilewright-rpc-999999999-0").mkdir()
    (tmp_path / f"tilewright-rpc-{os.getpid()}-0").mkdir()
    with serving(X86, f"--work-dir={tmp_path}") as (_, port):
        remote = session(port)
        assert sorted(os.listdir(tmp_path))[-1].startswith("tilewright-rpc-") and len(os.listdir(tmp_path)) == 2
        del remote
    assert os.listdir(tmp_path) == [f"tilewright-rpc-{os.getpid()}-0"]


def test_on_a_pipe(library: Path) -> None:
    remote = rpc.PopenSession([str(X86.server), "pipe"])
    remote.upload(library)
    check_double(remote, "double.so")
    timed = remote.load_module("double.so").time_evaluator("double", remote.cpu(), number=10)
    a = tvm.nd.array(np.zeros(64, dtype="float32"), remote.cpu())
    assert timed(a, tvm.nd.empty((64,), "float32", remote.cpu())).mean > 0


def test_two_pipes(library: Path) -> None:
    """Messages as a program writes them, on a pair of pipes."""
    with subprocess.Popen([str(X86.server), "--pipe"], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdin is not None and process.stdout is not None
        version = b"0.8.0"
        body = struct.pack("<iQ", 2, len(version)) + version + struct.pack("<i", 0)
        process.stdin.write(struct.pack("<Q", len(body)) + body)
        process.stdin.flush()
        (size,) = struct.unpack("<Q", process.stdout.read(8))
        assert struct.unpack_from("<i", process.stdout.read(size))[0] == 4
        process.stdin.close()
        assert process.wait(10) == 0


@pytest.mark.parametrize(
    "words, says",
    [
        (["serve"], "there is no command `serve`: it is server or pipe"),
        (["server", "--prot=9090"], "there is no option --prot"),
        (["server", "--port=many"], "--port=many: a whole number from 0 to 65535 is needed"),
        (["server", "--port=99999"], "--port=99999: a whole number from 0 to 65535 is needed"),
        (["server", "--max-disk=3X"], "--max-disk=3X: a whole number"),
        (["server", "--tracker=farm:9190"], "needs a key: --key=NAME"),
        (["server", "--tracker=farm", "--key=a"], "an address is host:port"),
        (["server", "--key-file=/nothing"], "the key file /nothing cannot be read: No such file"),
        (["server", "--key"], "--key needs a value"),
        (["server", "--host=256.1.1.1.1"], "the address 256.1.1.1.1 cannot be used"),
        (["server", "--work-dir=/proc/nothing"], "the folder /proc/nothing cannot be made"),
        (["server", "--load-library=/nothing.so"], "cannot load library /nothing.so"),
    ],
)
def test_wrong_options(words: list[str], says: str) -> None:
    done = subprocess.run([str(X86.server), *words], capture_output=True, text=True, timeout=PATIENCE, check=False)
    assert done.returncode in (1, 2) and says in done.stderr


def test_a_port_in_use() -> None:
    with serving(X86) as (_, port):
        done = subprocess.run(
            [str(X86.server), "server", f"--port={port}", f"--port-end={port + 1}"],
            capture_output=True, text=True, timeout=PATIENCE, check=False,
        )  # fmt: skip
        assert done.returncode == 1 and f"ports {port} to {port} are all in use" in done.stderr


def test_messages_of_trackers_are_json(tmp_path: Path) -> None:
    """A key with characters that JSON escapes."""
    with socket.create_server(("127.0.0.1", 0)) as tracker:
        options = [f"--tracker=127.0.0.1:{tracker.getsockname()[1]}", '--key=a "b"\\c']
        with serving(X86, *options):
            connection, _ = tracker.accept()
            connection.recv(4)
            connection.sendall(struct.pack("<i", 0x2F271))
            (size,) = struct.unpack("<i", connection.recv(4))
            assert json.loads(connection.recv(size))[1]["key"] == 'server:a "b"\\c'
            connection.close()
