"""Sessions that a server opens with a third side, and those with programs."""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

import tilewright as tvm
from tests.rpc.test_servers import is_process, until
from tests.rpc.test_sessions import functions
from tilewright import rpc, te
from tilewright.contrib import cc
from tilewright.support.errors import RPCError

LOOPBACK = "127.0.0.1"
PROGRAM = f"""#!{sys.executable}
import os, sys
import tilewright as tvm
from tilewright.runtime.packed_func import global_func
tvm.register_func("tests.rpc.add", lambda x, y: x + y)
tvm.register_func("tests.rpc.process", os.getpid)
global_func("rpc.Serve")(os.dup(0), "the client")
"""


@pytest.fixture
def servers() -> Iterator[list[rpc.Server]]:
    functions()
    found = [rpc.Server(LOOPBACK, 0, key=f"x{n}", silent=True) for n in range(3)]
    yield found
    for server in found:
        server.terminate()


def test_a_session_through_other_servers(servers: list[rpc.Server]) -> None:
    """The client, and two servers on the way to the third."""
    last = ["rpc.Connect", LOOPBACK, servers[2].port, "x2", False]
    through = ["rpc.Connect", LOOPBACK, servers[1].port, "x1", False, *last]
    remote = rpc.connect(LOOPBACK, servers[0].port, "x0", session_timeout=60, session_constructor_args=through)
    assert remote.get_function("tests.rpc.apply")(lambda x: x + 1, 2) == 3
    data = np.random.default_rng(0).integers(0, 255, 2_000_000, np.uint8)
    there = tvm.nd.array(data, remote.cpu(0))
    assert (there.numpy() == data).all()
    remote.upload(b"content", "x")
    assert remote.download("x") == b"content"
    pid = remote.get_function("tests.rpc.process")()
    with pytest.raises(RPCError, match="ValueError: no such luck here"):
        remote.get_function("tests.rpc.fail")("such luck")
    del remote, there
    until(lambda: not is_process(pid))
    for n, server in enumerate(servers):  # all are free again
        assert rpc.connect(LOOPBACK, server.port, f"x{n}").get_function("tests.rpc.add")(1, 2) == 3


def test_a_third_side_that_is_lost(servers: list[rpc.Server]) -> None:
    through = ["rpc.Connect", LOOPBACK, servers[1].port, "x1", False]
    remote = rpc.connect(LOOPBACK, servers[0].port, "x0", session_constructor_args=through)
    os.kill(remote.get_function("tests.rpc.process")(), 9)
    with pytest.raises(RPCError, match="closed the connection|is lost"):
        remote.get_function("tests.rpc.echo")
    assert rpc.connect(LOOPBACK, servers[0].port, "x0").get_function("tests.rpc.add")(1, 2) == 3


def test_third_sides_that_are_none(servers: list[rpc.Server]) -> None:
    def connect(*args: object) -> None:
        rpc.connect(LOOPBACK, servers[0].port, "x0", session_constructor_args=args)

    with pytest.raises(RPCError, match="has another key than 'wrong'"):
        connect("rpc.Connect", LOOPBACK, servers[1].port, "wrong", False)
    with pytest.raises(RPCError, match="this side has no function `rpc.Fly` to open a session with"):
        connect("rpc.Fly")
    with pytest.raises(RPCError, match="expected a session|expected a module"):
        connect("tests.rpc.add", 1, 2)
    with pytest.raises(RPCError, match="the program of the session, '.*server', cannot be run: Exec format error"):
        connect("rpc.PopenSession", b"\x7fELF no program")
    assert rpc.connect(LOOPBACK, servers[0].port, "x0").get_function("tests.rpc.add")(1, 2) == 3


def test_a_program_behind_a_server(servers: list[rpc.Server]) -> None:
    """The client sends the program that is to serve it."""
    args = ["rpc.PopenSession", PROGRAM.encode()]
    remote = rpc.connect(LOOPBACK, servers[0].port, "x0", session_constructor_args=args)
    assert remote.get_function("tests.rpc.add")(1, 2) == 3
    pid = remote.get_function("tests.rpc.process")()
    del remote
    until(lambda: not is_process(pid))


@pytest.mark.parametrize("as_bytes", [False, True])
def test_a_session_with_a_program(as_bytes: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = tmp_path / "program"
    program.write_text(PROGRAM)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    remote = rpc.PopenSession(PROGRAM.encode() if as_bytes else [sys.executable, program])
    add, process = remote.get_function("tests.rpc.add"), remote.get_function("tests.rpc.process")
    del remote
    assert add(1, 2) == 3
    pid = process()
    del add, process
    until(lambda: not is_process(pid))
    assert not list(Path(tempfile.gettempdir()).glob("tilewright-popen-*"))


def test_programs_that_are_none(tmp_path: Path) -> None:
    with pytest.raises(RPCError, match="'/none', cannot be run: No such file"):
        rpc.PopenSession(["/none"])
    with pytest.raises(
        RPCError,
        match="the program /bin/false has closed the connection|the connection to the program /bin/false is lost",
    ):
        rpc.PopenSession(["/bin/false"])


def test_a_program_of_a_model(tmp_path: Path, servers: list[rpc.Server]) -> None:
    """The model's objects and a server, linked; run here, and sent to a server that runs it."""
    program = tmp_path / "program"
    a = te.placeholder((8,), name="a")
    b = te.compute((8,), lambda i: a[i] + 1.0, name="b")
    module = tvm.build(te.create_schedule(b.op), [a, b], "llvm -system-lib", name="add_one")
    module.export_library(str(program), fcompile=rpc.with_minrpc(cc.create_executable))
    args = ["rpc.PopenSession", program.read_bytes()]
    for remote in (
        rpc.PopenSession([program]),
        rpc.connect(LOOPBACK, servers[0].port, "x0", session_timeout=60, session_constructor_args=args),
    ):
        x = tvm.nd.array(np.arange(8, dtype="float32"), remote.cpu(0))
        y = tvm.nd.empty((8,), "float32", remote.cpu(0))
        library = remote.system_lib()
        library["add_one"](x, y)
        np.testing.assert_array_equal(y.numpy(), np.arange(8) + 1)
        assert library.time_evaluator("add_one", remote.cpu(0), number=3)(x, y).mean > 0
        del remote, x, y, library
    with pytest.raises(RuntimeError, match="there is no server 'other': .*/other.cc does not exist"):
        rpc.with_minrpc(cc.create_executable, "other")
    with pytest.raises(RuntimeError, match="there is no libnone.so in"):
        rpc.with_minrpc(cc.create_executable, runtime="libnone")


def test_a_library_that_the_server_links(servers: list[rpc.Server], tmp_path: Path) -> None:
    a = te.placeholder((8,), name="a")
    b = te.compute((8,), lambda i: a[i] + 1.0, name="b")
    module = tvm.build(te.create_schedule(b.op), [a, b], "llvm", name="add_one")
    remote = rpc.connect(LOOPBACK, servers[0].port, "x0", session_timeout=60)
    for name in ("lib.tar", "lib.o"):
        module.export_library(str(tmp_path / name))
        remote.upload(str(tmp_path / name))
        (tmp_path / "lib.so").write_bytes(remote.download_linked_module(name))
        assert tvm.runtime.load_module(str(tmp_path / "lib.so"))["add_one"] is not None
