"""Sessions with apache-tvm's client, server, tracker and proxy, in both directions (`make test-rpc`).

APACHE_TVM names the Python of an environment with apache-tvm, whose programs run as processes of their own.
"""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest

import tilewright as tvm
from tests.rpc.test_sessions import add_one, functions
from tilewright import rpc
from tilewright.support.errors import RPCError

THEIRS = os.environ["APACHE_TVM"]
SERVER = """
import sys, time
from tvm import rpc
from tvm.rpc.tracker import Tracker
if __name__ == "__main__":
    tracker = Tracker(host="127.0.0.1", port=19190, port_end=19290, silent=True)
    address = ("127.0.0.1", tracker.port)
    direct = rpc.Server(host="127.0.0.1", port=19390, port_end=19490, silent=True)
    tracked = rpc.Server(host="127.0.0.1", port=19490, port_end=19590, key="board", tracker_addr=address, silent=True)
    print(tracker.port, direct.port, flush=True)
    sys.stdin.read()
"""
PROXY = """
import sys
from tvm.rpc.proxy import Proxy
if __name__ == "__main__":
    proxy = Proxy(host="127.0.0.1", port=19590, port_end=19690)
    print(proxy.port, flush=True)
    sys.stdin.read()
"""
BEHIND = """
import sys
from tvm import rpc
if __name__ == "__main__":
    server = rpc.Server(host="127.0.0.1", port=PORT, key="behind", is_proxy=True, silent=True)
    print(server.port, flush=True)
    sys.stdin.read()
"""
THROUGH = """
import sys
from tvm import rpc

way, port, last = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
args = ["rpc.Connect", "127.0.0.1", last, "last", False] if way == "server" else None
remote = rpc.connect("127.0.0.1", port, "behind", session_timeout=60, session_constructor_args=args)
assert remote.get_function("tests.rpc.add")("a", "b") == "ab"
del remote
print("all right")
"""
CLIENT = """
import sys
import numpy as np
import tvm
from tvm import rpc

port, tracker, library = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3]
for remote in (rpc.connect("127.0.0.1", port, "tests", session_timeout=60), rpc.connect_tracker("127.0.0.1", tracker).request("board")):
    echo = remote.get_function("tests.rpc.echo")
    for value in (True, None, 3, -(1 << 62), 2.5, "ab", "a long string, an object", b"bytes", b"more bytes " * 9):
        assert echo(value) == value, value
    assert remote.get_function("tests.rpc.add")("a", "b") == "ab"
    try:
        remote.get_function("tests.rpc.fail")("such luck")
    except tvm.error.RPCError as error:
        assert "ValueError: no such luck here" in str(error), error
    else:
        raise AssertionError("no error")
    device = remote.cpu(0)
    assert device.exist and not remote.cuda(0).exist
    data = np.arange(8, dtype="float32")
    a, b = tvm.runtime.tensor(data, device), tvm.runtime.empty((8,), "float32", device)
    assert remote.get_function("tests.rpc.total")(a) == data.sum()
    assert (remote.get_function("tests.rpc.array")(5).numpy() == np.arange(5)).all()
    remote.upload(library)
    remote.upload(bytearray(b"content"), "file")
    assert remote.download("file") == b"content"
    module = remote.load_module("add_one.so")
    module["add_one"](a, b)
    assert (b.numpy() == data + 1).all()
    assert len(module.time_evaluator("add_one", device, number=3, repeat=2)(a, b).results) == 2
    remote.system_lib()
    remote.remove("file")
    del echo, a, b, module, device, remote
print("all right")
"""


@contextmanager
def running(program: str) -> Iterator[list[int]]:
    """A program of theirs, and the numbers that it prints."""
    with subprocess.Popen(
        [THEIRS, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, start_new_session=True
    ) as process:
        assert process.stdout is not None
        try:
            yield [int(n) for n in process.stdout.readline().split()]
        finally:  # its servers are processes, which outlive it
            os.killpg(process.pid, signal.SIGKILL)


@pytest.mark.parametrize("tracked", [False, True])
def test_our_client_and_their_server(tracked: bool, tmp_path: Path) -> None:
    with running(as_program(SERVER, tmp_path / "server.py")) as (tracker, port):
        if tracked:
            remote = rpc.connect_tracker("127.0.0.1", tracker).request("board", session_timeout=60)
        else:
            remote = rpc.connect("127.0.0.1", port, session_timeout=60)
        echo = remote.get_function("testing.echo")
        for value in (True, None, 3, -(1 << 62), 2.5, "ab", "a long string, an object", b"bytes", b"more bytes " * 9):
            assert echo(value) == value
        assert remote.get_function("rpc.test.addone")(41) == 42
        with pytest.raises(RPCError, match="can only concatenate str"):
            remote.get_function("rpc.test.addone")("x")
        with pytest.raises(AttributeError, match="the server has no function `no.such`"):
            remote.get_function("no.such")
        device, data = remote.cpu(0), np.arange(8, dtype="float32")
        assert device.exist and not remote.cuda(0).exist
        a, b = tvm.nd.array(data, device), tvm.nd.empty((8,), "float32", device)
        a.copyto(b)
        np.testing.assert_array_equal(b.numpy(), data)
        made = remote.get_function("rpc.test.remote_return_nd")("get_arr")()
        np.testing.assert_array_equal(made.numpy(), np.zeros(10))
        remote.upload(add_one(tmp_path))
        remote.upload(b"content", "file")
        assert remote.download("file") == b"content"
        module = remote.load_module("add_one.so")
        module["add_one"](a, b)
        np.testing.assert_array_equal(b.numpy(), data + 1)
        assert len(module.time_evaluator("add_one", device, number=3, repeat=2)(a, b).results) == 2
        remote.remove("file")


def as_program(text: str, path: Path) -> str:
    """Their servers start again the file that runs, so it must be one."""
    path.write_text(text)
    return f"import runpy; runpy.run_path({str(path)!r}, run_name='__main__')"


def run_theirs(program: str, *arguments: object) -> None:
    client = subprocess.run(
        [THEIRS, "-c", program, *map(str, arguments)], capture_output=True, text=True, timeout=120, check=False
    )
    assert client.stdout.endswith("all right\n"), client.stdout + client.stderr


def test_our_sides_and_their_proxy(tmp_path: Path) -> None:
    functions()
    with running(as_program(PROXY, tmp_path / "proxy.py")) as (port,):
        server = rpc.Server("127.0.0.1", port, is_proxy=True, key="behind", silent=True)
        for n in range(2):
            remote = rpc.connect("127.0.0.1", port, "behind", session_timeout=60)
            assert remote.get_function("tests.rpc.add")(1, n) == 1 + n
            del remote
        run_theirs(THROUGH, "proxy", port, 0)
        server.terminate()


def test_their_sides_and_our_proxy(tmp_path: Path) -> None:
    functions()
    proxy = rpc.Proxy("127.0.0.1", 0, silent=True)
    with running(as_program(BEHIND.replace("PORT", str(proxy.port)), tmp_path / "server.py")):
        for _ in range(2):
            remote = rpc.connect("127.0.0.1", proxy.port, "behind", session_timeout=60)
            assert remote.get_function("rpc.test.addone")(41) == 42
            del remote
    server = rpc.Server("127.0.0.1", proxy.port, is_proxy=True, key="behind", silent=True)
    run_theirs(THROUGH, "proxy", proxy.port, 0)
    server.terminate()
    proxy.terminate()


def test_sessions_through_servers_of_both(tmp_path: Path) -> None:
    """Their client through our server to ours, and our client through their server to ours."""
    functions()
    first, last = (rpc.Server("127.0.0.1", 0, key=key, silent=True) for key in ("behind", "last"))
    run_theirs(THROUGH, "server", first.port, last.port)
    with running(as_program(SERVER, tmp_path / "server.py")) as (_, port):
        args = ["rpc.Connect", "127.0.0.1", last.port, "last", False]
        remote = rpc.connect("127.0.0.1", port, session_timeout=60, session_constructor_args=args)
        assert remote.get_function("tests.rpc.add")(1, 2) == 3
        device = remote.cpu(0)
        data = np.arange(8, dtype="float32")
        assert (tvm.nd.array(data, device).numpy() == data).all()
        del remote, device
    for server in (first, last):
        server.terminate()


def test_their_client_and_our_server(tmp_path: Path) -> None:
    functions()
    tracker = rpc.Tracker("127.0.0.1", 0, silent=True)
    direct = rpc.Server("127.0.0.1", 0, key="tests", silent=True)
    tracked = rpc.Server("127.0.0.1", 0, key="board", tracker_addr=("127.0.0.1", tracker.port), silent=True)
    run_theirs(CLIENT, direct.port, tracker.port, add_one(tmp_path))
    for each in (tracked, direct, tracker):
        each.terminate()
