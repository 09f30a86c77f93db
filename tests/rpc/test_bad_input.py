"""What a user can do wrong with a session: the whole messages, which say what, where, and what to do."""

from __future__ import annotations

import re
import struct
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

import tilewright as tvm
from tests.rpc.test_messages import INIT, call, served
from tests.rpc.test_sessions import add_one, functions
from tilewright import rpc, te
from tilewright.support.errors import RPCError


@pytest.fixture
def remote() -> Iterator[rpc.RPCSession]:
    functions()
    server = rpc.Server("127.0.0.1", 0, key="board", silent=True)
    yield rpc.connect("127.0.0.1", server.port, "board", session_timeout=60)
    server.terminate()


def library(target: str, path: Path) -> str:
    a = te.placeholder((8,), name="a")
    b = te.compute((8,), lambda i: a[i] + 1.0, name="b")
    tvm.build(te.create_schedule(b.op), [a, b], target, name="add_one").export_library(str(path))
    return path.name


@pytest.mark.parametrize(
    ("target", "name", "message"),
    [
        (
            "llvm -mtriple=aarch64-unknown-linux-gnu",
            "x.so",
            r"was made for aarch64, but this machine is x86_64; compile it again",
        ),
        (
            "llvm -mtriple=arm64-apple-macos",
            "x.dylib",
            r"was made for macOS, but this machine is Linux; compile it again",
        ),
        (
            "llvm -mcpu=sapphirerapids -mattr=+fma4",  # no CPU has both
            "x.so",
            r"was compiled for CPU `sapphirerapids`, but this machine lacks the features: .*fma4",
        ),
    ],
)
def test_libraries_for_other_machines(
    remote: rpc.RPCSession, tmp_path: Path, target: str, name: str, message: str
) -> None:
    library(target, tmp_path / name)
    remote.upload(str(tmp_path / name))
    with pytest.raises(RPCError, match=message):
        remote.load_module(name)


def test_libraries_for_windows(remote: rpc.RPCSession) -> None:
    remote.upload(
        b"MZ" + bytes(58) + struct.pack("<I", 64) + b"PE\0\0" + struct.pack("<H", 0x8664) + bytes(200), "x.dll"
    )
    with pytest.raises(RPCError, match="x.dll was made for Windows, but this machine is Linux"):
        remote.load_module("x.dll")


def test_functions_that_are_not_there(remote: rpc.RPCSession, tmp_path: Path) -> None:
    with pytest.raises(AttributeError) as error:
        remote.get_function("tests.rpc.ecko")
    assert str(error.value).startswith("the server has no function `tests.rpc.ecko`; did you mean `tests.rpc.echo`")
    with pytest.raises(AttributeError, match="^the server has no function `quite.another`$"):
        remote.get_function("quite.another")
    remote.upload(add_one(tmp_path))
    for module in (remote.load_module("add_one.so"), tvm.runtime.load_module(str(tmp_path / "add_one.so"))):
        with pytest.raises(AttributeError) as error:
            module["add_ona"]
        assert str(error.value) == "the module has no function `add_ona`; did you mean `add_one`?"


def test_devices_that_the_board_lacks(remote: rpc.RPCSession) -> None:
    with pytest.raises(RPCError, match=re.escape("the server has no device hexagon(0); it has cpu(0)")):
        tvm.nd.empty((2,), "float32", remote.hexagon(0))
    assert not remote.hexagon(0).exist


def test_arrays_that_are_elsewhere(remote: rpc.RPCSession, tmp_path: Path) -> None:
    remote.upload(add_one(tmp_path))
    function = remote.load_module("add_one.so")["add_one"]
    with pytest.raises(
        ValueError,
        match=r"a tensor on cpu\(0\), on this machine, .*; copy it there first: tvm.nd.array\(x, remote.cpu\(0\)\)",
    ):
        function(tvm.nd.array(np.zeros(8, "float32")), tvm.nd.array(np.zeros(8, "float32")))
    wrong = tvm.nd.empty((4,), "float32", remote.cpu(0))
    with pytest.raises(RPCError, match="dimension 0 must be 8, but is 4"):
        function(wrong, wrong)


def test_another_version_of_the_protocol() -> None:
    with served(1 << 20, 60, 0) as sock:
        answer = call(sock, INIT.replace(b"0.8.0", b"0.9.9"))
        assert answer.endswith(
            b"RPCError: the client speaks version 0.9.9 of the protocol, and this side version 0.8.0"
        )


def test_addresses_that_are_none() -> None:
    for start in (
        lambda: rpc.Server("127.0.0.1", 65536),
        lambda: rpc.Tracker("127.0.0.1", -1),
        lambda: rpc.connect("127.0.0.1", 1 << 20),
        lambda: rpc.connect_tracker("127.0.0.1", 1 << 20),
    ):
        with pytest.raises(RPCError, match="a port is a number from 0 to 65535, but .* was given"):
            start()
    with pytest.raises(RPCError, match="cannot listen on no.such.host.invalid:9090: "):
        rpc.Server("no.such.host.invalid", 9090)
    with pytest.raises(RPCError, match="cannot connect to the server no.such.host.invalid:9090: "):
        rpc.connect("no.such.host.invalid", 9090)
