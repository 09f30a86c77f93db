"""Sessions with apache-tvm's client, server and tracker, in both directions (`make test-rpc`).

APACHE_TVM names the Python of an environment with apache-tvm, whose programs run as processes of their own.
"""

from __future__ import annotations

import os
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
    with subprocess.Popen([THEIRS, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        yield [int(n) for n in process.stdout.readline().split()]
        process.kill()


@pytest.mark.parametrize("tracked", [False, True])
def test_our_client_and_their_server(tracked: bool, tmp_path: Path) -> None:
    (tmp_path / "server.py").write_text(SERVER)
    with running(f"import runpy; runpy.run_path({str(tmp_path / 'server.py')!r}, run_name='__main__')") as (
        tracker,
        port,
    ):
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


def test_their_client_and_our_server(tmp_path: Path) -> None:
    functions()
    tracker = rpc.Tracker("127.0.0.1", 0, silent=True)
    direct = rpc.Server("127.0.0.1", 0, key="tests", silent=True)
    tracked = rpc.Server("127.0.0.1", 0, key="board", tracker_addr=("127.0.0.1", tracker.port), silent=True)
    client = subprocess.run(
        [THEIRS, "-c", CLIENT, str(direct.port), str(tracker.port), add_one(tmp_path)],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert client.stdout.endswith("all right\n"), client.stdout + client.stderr
    for each in (tracked, direct, tracker):
        each.terminate()
