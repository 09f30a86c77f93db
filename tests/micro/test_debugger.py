"""Debuggers: GDB, for which a script stands that takes the same commands, its line to firmware, and calls of classes as JSON."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tilewright as tvm
from tests.micro.projects import host_project
from tilewright import micro, rpc
from tilewright.micro import debugger
from tilewright.micro.class_factory import ClassFactory, SerializedFactoryError
from tilewright.micro.errors import MicroError
from tilewright.micro.project_api.server import TransportClosedError

GDB = f"""#!{sys.executable}
import os, sys
commands = sys.argv[2::2]
found = dict(c.split(" ", 1) for c in commands if not c.startswith("set args"))
with open(os.environ["TESTS_GDB_SAYS"], "a") as out:
    print(commands, file=out)
for c in commands:
    if c.startswith("set args"):
        os.execvp("sh", ["sh", "-c", "exec " + found["file"] + " " + c.removeprefix("set args ")])
import time
time.sleep(600)
"""
"""GDB's commands `file`, `set args` and `target remote`; a program runs at once, which a person would let it do."""


@pytest.fixture
def gdb(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "bin"
    folder.mkdir()
    for name in ("gdb", "gdb-multiarch"):
        (folder / name).write_text(GDB)
        (folder / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")
    monkeypatch.setenv("TESTS_GDB_SAYS", str(tmp_path / "says"))
    return tmp_path / "says"


def said(path: Path) -> str:
    until = time.monotonic() + 30
    while not (path.is_file() and path.read_text()) and time.monotonic() < until:
        time.sleep(0.01)
    return path.read_text()


def test_a_session_with_firmware_in_gdb(gdb: Path, tmp_path: Path) -> None:
    """The line of a session is that of the program which GDB runs."""
    project = host_project("functions", tmp_path / "project", memory_size_bytes=1 << 20)
    project.close()
    debugged = debugger.GdbTransportDebugger([str(tmp_path / "project" / "build" / "main")])
    with pytest.raises(TransportClosedError, match="the debugger does not run; start it first"):
        debugged.transport()
    debugged.start()
    try:
        with pytest.raises(MicroError, match="the debugger runs already; stop it first"):
            debugged.start()
        a, b = np.arange(8, dtype="float32") / 8, np.ones(8, "float32")
        with micro.Session(debugged.transport()) as session:
            x, y, z = (tvm.nd.array(v, session.device) for v in (a, b, np.zeros(8, "float32")))
            session.get_system_lib()["exp_plus"](x, y, z)
            np.testing.assert_allclose(z.numpy(), 2 * np.exp(a) + b, rtol=2e-6)
    finally:
        debugged.stop()
    assert debugged.popen is None and "file " in said(gdb)
    debugged.stop()  # it has ended


@contextmanager
def noted(entered: list[str]) -> Iterator[None]:
    entered.append("in")
    yield
    entered.append("out")


def test_gdb_at_a_server(gdb: Path) -> None:
    """What a person interrupts is GDB; the context around it is left when it has ended."""
    entered: list[str] = []
    before = signal.getsignal(signal.SIGINT)
    remote = debugger.GdbRemoteDebugger("gdb-multiarch", "127.0.0.1:3333", "firmware.elf", noted(entered))
    remote.start()
    assert said(gdb) == "['file firmware.elf', 'target remote 127.0.0.1:3333']\n"
    assert entered == ["in"] and remote.popen is not None
    os.kill(os.getpid(), signal.SIGINT)
    assert remote.popen.wait(30) != 0
    with pytest.raises(KeyboardInterrupt):
        os.kill(os.getpid(), signal.SIGINT)
        time.sleep(30)
    remote.stop()
    assert entered == ["in", "out"] and signal.getsignal(signal.SIGINT) is before


def test_a_debugger_that_is_not_there() -> None:
    entered: list[str] = []
    remote = debugger.GdbRemoteDebugger("/nowhere/gdb", "127.0.0.1:3333", "firmware.elf", noted(entered))
    with pytest.raises(MicroError, match=r"/nowhere/gdb cannot be run: No such file or directory; install it \(Debian"):
        remote.start()
    assert entered == ["in", "out"]


class Counted(debugger.Debugger):
    """Tells in a file what becomes of it."""

    def __init__(self, path: str, name: str = "it") -> None:
        self.path, self.name = Path(path), name

    def _say(self, what: str) -> None:
        self.path.write_text(f"{self.path.read_text() if self.path.is_file() else ''}{self.name} {what}\n")

    def start(self) -> None:
        if self.name == "broken":
            raise MicroError("this one does not start")
        self._say("starts")

    def stop(self) -> None:
        self._say("stops")


def test_one_debugger_at_a_time(tmp_path: Path) -> None:
    path = tmp_path / "says"
    factory = debugger.DebuggerFactory(Counted, [str(path)], {})
    debugger.launch_debugger(factory)
    debugger.launch_debugger(factory, name="another")
    assert path.read_text() == "it starts\nit stops\nanother starts\n"
    with pytest.raises(MicroError, match="this one does not start"):
        debugger.launch_debugger(factory.override_kw(name="broken"))
    assert debugger.GLOBAL_DEBUGGER is None
    debugger.stop_debugger()
    assert path.read_text().endswith("another stops\n")


def test_a_debugger_of_a_server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path, entered = tmp_path / "says", list[str]()
    server = rpc.Server("127.0.0.1", 0, silent=True)
    try:
        session = rpc.connect("127.0.0.1", server.port)
        factory = debugger.DebuggerFactory(Counted, [str(path)], {"name": "remote"})
        monkeypatch.setattr("builtins.input", lambda prompt: "")
        there = debugger.RpcDebugger(session, factory, noted(entered))
        there.start()
        assert path.read_text() == "remote starts\n" and entered == ["in"]
        there.stop()
        assert path.read_text() == "remote starts\nremote stops\n" and entered == ["in", "out"]

        def refuse(prompt: str) -> str:
            raise EOFError

        monkeypatch.setattr("builtins.input", refuse)
        there = debugger.RpcDebugger(session, factory, noted(entered))
        with pytest.raises(EOFError):
            there.start()
        assert path.read_text().endswith("remote starts\nremote stops\n") and entered[2:] == ["in", "out"]
    finally:
        server.terminate()


def test_debuggers_end_with_the_program(gdb: Path) -> None:
    program = (
        "from tilewright.micro.debugger import GdbRemoteDebugger as D\n"
        "d = D('gdb', 'here:1', 'x.elf'); d.start(); print(d.popen.pid)\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    with pytest.raises(ProcessLookupError):
        os.kill(int(done.stdout), 0)


def test_calls_as_json() -> None:
    factory = ClassFactory(Counted, ["a", 3, None, True], {"b": 1.5})
    again = ClassFactory.from_json(factory.to_json)
    assert (again.cls, again.init_args, again.init_kw) == (Counted, ["a", 3, None, True], {"b": 1.5})
    assert factory.override_kw(b=2, c="x").init_kw == {"b": 2, "c": "x"} and factory.init_kw == {"b": 1.5}
    made: Any = debugger.DebuggerFactory.from_json(debugger.DebuggerFactory(Counted, ["p"], {}).to_json).instantiate()
    assert isinstance(made, Counted) and made.path == Path("p")


class Outer:
    class Inner:
        """Inside of another class."""


def test_a_class_inside_of_a_class() -> None:
    again = ClassFactory.from_json(ClassFactory(Outer.Inner, [], {}).to_json)
    assert again.cls is Outer.Inner

    class Local:
        """Inside of a function, where no other process finds it."""

    with pytest.raises(SerializedFactoryError, match="there is no class .*<locals>"):
        ClassFactory.from_json(ClassFactory(Local, [], {}).to_json)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "the text is no JSON"),
        ("[1]", r"a call is an object of JSON, but the text has \[1\]"),
        ('{"cls": "a.b"}', "the call lacks init_args, init_kw"),
        ('{"cls": "tests.nothing.C", "init_args": [], "init_kw": {}}', "there is no class tests.nothing.C: No module"),
        ('{"cls": "pathlib.Nobody", "init_args": [], "init_kw": {}}', "there is no class pathlib.Nobody: .*Nobody"),
        ('{"cls": 3, "init_args": [], "init_kw": {}}', "cls is the name of a class, but here it is 3"),
        ('{"cls": "os.sep", "init_args": [], "init_kw": {}}', "os.sep is no class, but '/'"),
        ('{"cls": "os.getcwd.x", "init_args": [], "init_kw": {}}', "there is no class os.getcwd.x: "),
        (
            '{"cls": "pathlib.Path", "init_args": null, "init_kw": {}}',
            "init_args is an array of JSON, but here it is None",
        ),
        (
            '{"cls": "pathlib.Path", "init_args": "ab", "init_kw": {}}',
            "init_args is an array of JSON, but here it is 'ab'",
        ),
        ('{"cls": "pathlib.Path", "init_args": [], "init_kw": 3}', "init_kw is an object of JSON, but here it is 3"),
        ('{"cls": "C", "init_args": [], "init_kw": {}}', "there is no class C: "),
        ('{"cls": "pathlib.Path", "init_args": [], "init_kw": {}}', "Path'> is no Debugger"),
    ],
)
def test_texts_that_describe_no_debugger(text: str, message: str) -> None:
    with pytest.raises(SerializedFactoryError, match=message):
        debugger.DebuggerFactory.from_json(text)


def test_arguments_that_json_has_no_form_for() -> None:
    with pytest.raises(SerializedFactoryError, match="the arguments of Counted are no JSON"):
        _ = ClassFactory(Counted, [b"bytes"], {}).to_json  # type: ignore[list-item]
