"""Sessions: values, functions, modules and arrays of another process, and of this one over the same messages."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tilewright as tvm
from tests.runtime.simulator import simulator
from tilewright import relay, rpc, te
from tilewright.contrib import graph_executor
from tilewright.support.errors import RPCError


def functions() -> None:
    """What the servers of these tests offer."""
    offered: dict[str, Any] = {
        "add": lambda x, y: x + y,
        "echo": lambda x: x,
        "apply": lambda f, *x: f(*x),
        "twice": lambda f: lambda x: f(f(x)),
        "fail": lambda x: (_ for _ in ()).throw(ValueError(f"no {x} here")),
        "array": lambda n: tvm.nd.array(np.arange(n, dtype="float32")),
        "total": lambda a: float(a.numpy().sum()),
        "process": os.getpid,
    }
    for name, function in offered.items():
        tvm.register_func(f"tests.rpc.{name}", function, override=True)


@pytest.fixture(params=["local", "server"])
def remote(request: pytest.FixtureRequest) -> Iterator[rpc.RPCSession]:
    functions()
    if request.param == "local":
        yield rpc.LocalSession()
        return
    server = rpc.Server("127.0.0.1", 0, key="tests", silent=True)
    yield rpc.connect("127.0.0.1", server.port, "tests", session_timeout=60)
    server.terminate()


def test_values(remote: rpc.RPCSession) -> None:
    echo = remote.get_function("tests.rpc.echo")
    for value in (
        None,
        True,
        False,
        0,
        -(1 << 62),
        2.5,
        "",
        "short",
        "long enough to be an object",
        b"",
        b"\0\1",
        b"b" * 100,
        [1, [2.5, "x", [None]]],
    ):
        found = echo(value)
        assert found == value and type(found) is type(value)
    assert np.isnan(echo(float("nan")))
    assert remote.get_function("tests.rpc.add")("a", "b") == "ab"
    with pytest.raises(TypeError, match="an object of Python .* cannot be sent"):
        echo({"a": 1})


def test_functions_of_both_sides(remote: rpc.RPCSession) -> None:
    """Callbacks run here while a call waits; functions of the server come back as what they are."""
    assert remote.get_function("tests.rpc.apply")(lambda x, y: x * y, 6, 7) == 42
    assert remote.get_function("tests.rpc.twice")(lambda x: x + 10)(1) == 21
    echo = remote.get_function("tests.rpc.echo")
    assert remote.get_function("tests.rpc.apply")(echo, "here and back") == "here and back"
    depth = remote.get_function("tests.rpc.apply")
    assert depth(lambda: depth(lambda: depth(lambda: "deep"))) == "deep"


def test_errors(remote: rpc.RPCSession) -> None:
    with pytest.raises(RPCError, match="Error caught from RPC call:\nValueError: no such luck here"):
        remote.get_function("tests.rpc.fail")("such luck")
    with pytest.raises(AttributeError, match="the server has no function `no.such`"):
        remote.get_function("no.such")

    def fails() -> None:
        raise KeyError("of the client")

    with pytest.raises(RPCError, match="KeyError.*of the client"):
        remote.get_function("tests.rpc.apply")(fails)
    assert remote.get_function("tests.rpc.add")(1, 2) == 3  # the session goes on


def test_arrays(remote: rpc.RPCSession) -> None:
    device, x = remote.cpu(0), np.arange(12, dtype="float32").reshape(3, 4)
    assert device.exist and not remote.hexagon(0).exist and str(device).endswith(":cpu(0)")
    a = tvm.nd.array(x, device)
    np.testing.assert_array_equal(a.numpy(), x)
    assert remote.get_function("tests.rpc.total")(a) == x.sum()
    b = tvm.nd.empty((3, 4), "float32", device)
    a.copyto(b)
    np.testing.assert_array_equal(b.numpy(), x)
    made = remote.get_function("tests.rpc.array")(5)
    assert made.device == device or str(made.device) == str(device)
    np.testing.assert_array_equal(made.numpy(), np.arange(5))
    assert remote.get_function("tests.rpc.total")(made) == 10
    empty = tvm.nd.array(np.zeros((0, 3), "int8"), device)
    assert empty.numpy().shape == (0, 3)
    with pytest.raises(ValueError, match=r"a tensor on cpu\(0\), on this machine"):
        remote.get_function("tests.rpc.total")(tvm.nd.array(x))
    with pytest.raises(RPCError, match="the server has no device hexagon\\(0\\); it has cpu"):
        tvm.nd.empty((2,), "float32", remote.hexagon(0))


def test_arrays_on_devices_that_are_no_cpu() -> None:
    """The memory is in the server's process alone, whose simulator the CPU cannot touch."""
    simulator()
    server = rpc.Server("127.0.0.1", 0, silent=True)
    remote = rpc.connect("127.0.0.1", server.port, session_timeout=60)
    device, x = remote.device("vpi", 0), np.arange(12, dtype="float32").reshape(3, 4)
    assert device.exist and str(device).endswith(":vpi(0)")
    a, b = tvm.nd.array(x, device), tvm.nd.empty((3, 4), "float32", remote.cpu(0))
    np.testing.assert_array_equal(a.copyto(b).numpy(), x)
    c = b.copyto(tvm.nd.empty((3, 4), "float32", device))
    device.sync()
    np.testing.assert_array_equal(c.numpy(), x)
    assert simulator().is_free()  # that of this process
    server.terminate()


def test_types_of_devices_that_nobody_knows_are_not_remote(remote: rpc.RPCSession) -> None:
    assert tvm.nd.empty((1,), device=remote.cpu(0)).shape == (1,)
    with pytest.raises(ValueError, match="device type 77 has no runtime in this process"):
        tvm.nd.empty((1,), device=tvm.Device(77, 0))


def test_large_arrays(remote: rpc.RPCSession) -> None:
    x = np.random.default_rng(0).integers(0, 255, 40_000_001, np.uint8)
    a = tvm.nd.array(x, remote.cpu(0))
    assert (a.numpy() == x).all()


def test_files(remote: rpc.RPCSession, tmp_path: Path) -> None:
    (tmp_path / "x.bin").write_bytes(b"content")
    remote.upload(str(tmp_path / "x.bin"))
    remote.upload(bytearray(b"more"), "folder/y.bin")
    assert remote.download("x.bin") == b"content" and remote.download("folder/y.bin") == b"more"
    assert remote.listdir(".") == ["folder", "x.bin"]
    remote.remove("folder")
    remote.remove("x.bin")
    assert remote.listdir(".") == []
    with pytest.raises(RPCError, match="there is no 'gone' in the session's folder"):
        remote.download("gone")
    for path in ("../x", "/etc/passwd", "a/../../x"):
        with pytest.raises(RPCError, match="leads out of the session's folder"):
            remote.upload(b"x", path)
    with pytest.raises(ValueError, match="bytes are uploaded to a path"):
        remote.upload(b"x")


def test_large_files_go_in_pieces(remote: rpc.RPCSession, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tilewright.rpc.client.PIECE", 1000)
    data = np.random.default_rng(0).bytes(12_345)
    remote.upload(data, "x")
    assert remote.download("x") == data


def add_one(tmp_path: Path, size: int = 8) -> str:
    a = te.placeholder((size,), name="a")
    b = te.compute((size,), lambda i: a[i] + 1.0, name="b")
    path = str(tmp_path / "add_one.so")
    tvm.build(te.create_schedule(b.op), [a, b], "llvm", name="add_one").export_library(path)
    return path


def test_modules(remote: rpc.RPCSession, tmp_path: Path) -> None:
    remote.upload(add_one(tmp_path))
    module = remote.load_module("add_one.so")
    assert module.type_key == "rpc"
    device = remote.cpu(0)
    a, b = tvm.nd.array(np.arange(8, dtype="float32"), device), tvm.nd.empty((8,), "float32", device)
    module["add_one"](a, b)
    np.testing.assert_array_equal(b.numpy(), np.arange(8) + 1)
    with pytest.raises(AttributeError, match="no function `add_two`"):
        module["add_two"]
    with pytest.raises(RPCError, match="there is no 'add_two.so' in the session's folder; uploaded are: add_one.so"):
        remote.load_module("add_two.so")


def test_measurements_are_of_the_server(remote: rpc.RPCSession, tmp_path: Path) -> None:
    """The time of a call does not hold the way to the server and back."""
    remote.upload(add_one(tmp_path))
    module, device = remote.load_module("add_one.so"), remote.cpu(0)
    a, b = tvm.nd.array(np.arange(8, dtype="float32"), device), tvm.nd.empty((8,), "float32", device)
    found = module.time_evaluator("add_one", device, number=100, repeat=5)(a, b)
    assert len(found.results) == 5 and 0 < found.median < 5e-6
    start = time.perf_counter()
    module.time_evaluator("add_one", device, number=1, repeat=2, min_repeat_ms=50)(a, b)
    assert time.perf_counter() - start > 0.1
    with pytest.raises(RPCError, match="no function `missing`"):
        module.time_evaluator("missing", device)(a, b)


def test_the_classic_first_example(tmp_path: Path) -> None:
    """A model, built here, runs there."""
    x = relay.var("x", shape=(1, 4))
    weight = np.arange(12, dtype="float32").reshape(3, 4)
    module = tvm.IRModule.from_expr(relay.Function([x], relay.nn.relu(relay.nn.dense(x, relay.const(weight)))))
    path = tmp_path / "model.so"
    relay.build(module, "llvm").export_library(str(path))
    remote = rpc.LocalSession()
    remote.upload(str(path))
    device = remote.cpu(0)
    model = graph_executor.GraphModule(remote.load_module("model.so")["default"](device))
    data = np.array([[1, -2, 3, -4]], "float32")
    model.set_input("x", tvm.nd.array(data, device))
    model.run()
    np.testing.assert_allclose(model.get_output(0).numpy(), np.maximum(data @ weight.T, 0))
    model.set_input("x", data)
    model.run()
    np.testing.assert_allclose(model.get_output(0).numpy(), np.maximum(data @ weight.T, 0))
    out = tvm.nd.empty((1, 3), "float32", device)
    assert model.get_output(0, out) is out
    np.testing.assert_allclose(out.numpy(), np.maximum(data @ weight.T, 0))
    assert model.module.time_evaluator("run", device, number=2)().mean > 0
