"""Projects of templates: their servers, firmware that is a process of this machine, sessions with it, executors; what goes wrong."""

from __future__ import annotations

import importlib
import io
import json
import logging
import os
import pty
import subprocess
import tarfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tilewright as tvm
from tests.micro.boards import exp_plus_and_asks, network, quantised_network
from tests.micro.projects import host_project
from tilewright import micro, relay
from tilewright.contrib.micro.meta_schedule.rpc_runner_micro import RPCRunnerMicro, get_rpc_runner_micro
from tilewright.micro import testing
from tilewright.micro.errors import MicroError
from tilewright.micro.faults import told_fault
from tilewright.micro.linking.elf import Symbol
from tilewright.micro.offers import CREATE_SESSION
from tilewright.micro.package_format import package_metadata
from tilewright.micro.project import NotATemplateProjectError, TemplateProjectError, add_unspecified_options
from tilewright.micro.project_api import client, server
from tilewright.micro.project_api.server import ProjectOption
from tilewright.micro.standalone import MicroTVMTemplateProjectNotFoundError
from tilewright.micro.templates.program import read_program
from tilewright.micro.transport import SerialTransport, TransportLogger, TransportTimeouts, debug_transport_timeouts
from tilewright.micro.transport_session import compile_and_create_micro_session
from tilewright.rpc import connect_tracker
from tilewright.runtime.linking.c_source import compiler_command
from tilewright.support.errors import RPCError, TVMError

X = np.random.default_rng(1).standard_normal((1, 8, 8, 3)).astype("float32")


def expected() -> np.ndarray[Any, Any]:
    mod, weights = network()
    found: np.ndarray[Any, Any] = (
        relay.create_executor("graph", mod, tvm.cpu(), "llvm").evaluate()(X, **weights).numpy()
    )
    return found


@pytest.fixture(scope="module")
def functions(tmp_path_factory: pytest.TempPathFactory) -> Any:
    project = host_project("functions", tmp_path_factory.mktemp("functions") / "project")
    yield project
    project.close()


def test_functions(functions: micro.GeneratedProject) -> None:
    a, b = np.arange(8, dtype="float32") / 8, np.ones(8, "float32")
    with micro.Session(functions.transport()) as session:
        library = session.get_system_lib()
        x, y, z = (tvm.nd.array(v, session.device) for v in (a, b, np.zeros(8, "float32")))
        library["exp_plus"](x, y, z)
        np.testing.assert_allclose(z.numpy(), 2 * np.exp(a) + b, rtol=2e-6)
        with pytest.raises(RPCError, match="TypeError: exp_plus: the number of arguments must be 3, but is 2"):
            library["exp_plus"](x, y)
        with pytest.raises(RPCError, match=r"ValueError: exp_plus: argument 2 \(c\): dimension 0 must be 8, but is 4"):
            library["exp_plus"](x, y, tvm.nd.empty((4,), "float32", session.device))
        with pytest.raises(RPCError, match="AttributeError: the device has no function tests.nobody"):
            library["asks"](x, z)
        with pytest.raises(AttributeError, match="no function `minus`"):
            library["minus"]
        results = library.time_evaluator("exp_plus", session.device, number=3, repeat=5)(x, y, z).results
        assert len(results) == 5 and all([0 < r < 1 for r in results])
        with pytest.raises(RPCError, match="ValueError: number and repeat .* so few that its results fit"):
            library.time_evaluator("exp_plus", session.device, number=1, repeat=(1 << 29) + 1)(x, y, z)
        with pytest.raises(RPCError, match="there is no function of this name to measure"):
            library.time_evaluator("minus", session.device)
        large = np.random.default_rng(2).integers(-100, 100, 300_000).astype("int8")
        np.testing.assert_array_equal(tvm.nd.array(large, session.device).numpy(), large)
    with pytest.raises(MicroError, match="the session is closed, or was never opened"):
        session.get_system_lib()


@pytest.mark.parametrize("kind", ["aot", "graph"])
def test_models(kind: str, tmp_path: Path) -> None:
    project = host_project(kind, tmp_path / "project")
    info = project.info()
    assert not info.is_template and info.platform_name == "host"
    metadata = package_metadata(str(info.model_library_format_path))
    assert metadata is not None and [*metadata["modules"]] == ["net"]
    with micro.Session(project.transport()) as session:
        if kind == "aot":
            model: Any = micro.create_local_aot_executor(session)
            model.set_input("x", X)
            model.run()
            assert model.get_input_info() == ({"x": (1, 8, 8, 3)}, {"x": "float32"})
            assert model.benchmark(session.device, number=2, repeat=2).mean > 0
            with pytest.raises(RPCError, match="no input or output of this name or number"):
                model.get_output(1)
            there = tvm.nd.array(-X, session.device)
            model.set_input_zero_copy = None  # of this process only
            model.module["set_input_zero_copy"]("x", there)
            model.run()
            np.testing.assert_allclose(model.get_output(0).numpy().sum(), 1, rtol=1e-5)
            del there, model
        else:
            mod, weights = network()
            lib = relay.build(mod, tvm.target.micro("host"), params=weights, mod_name="net")
            model = micro.create_local_graph_executor(lib.get_graph_json(), session.get_system_lib(), session.device)
            model.load_params(tvm.runtime.save_param_dict(lib.get_params()))
            model.run(x=X)
            debug = micro.create_local_debug_executor(
                lib.get_graph_json(), session.get_system_lib(), session.device, str(tmp_path / "dump")
            )
            debug.set_input(**lib.get_params())
            debug.run(x=X)
            np.testing.assert_allclose(debug.get_output(0).numpy(), expected(), rtol=1e-5)
            assert [*debug.times] == ["fused_nn_conv2d_nn_relu", "fused_nn_dense", "fused_nn_softmax"]
            dumped = np.load(tmp_path / "dump" / "fused_nn_softmax____0.npy")
            np.testing.assert_array_equal(dumped, debug.debug_get_output("fused_nn_softmax").numpy())
            with pytest.raises(ValueError, match="the graph has no input 'y'; it has x, p0, p1"):
                model.set_input("y", X)
            np.testing.assert_allclose(model.get_output(0).numpy(), expected(), rtol=1e-5)
            del model
    if kind == "aot":
        with micro.Session(project.transport()) as session:
            # The array that the session before gave to the model lay where this one has its own.
            mine = tvm.nd.array(np.full_like(X, 7), session.device)
            model = micro.create_local_aot_executor(session)
            model.set_input("x", X)
            model.run()
            np.testing.assert_allclose(model.get_output(0).numpy(), expected(), rtol=1e-5)
            assert (mine.numpy() == 7).all()
            del mine, model
    project.close()


def quantised_result(x: np.ndarray[Any, Any]) -> int:
    mod, weights = quantised_network()
    found = relay.create_executor("graph", mod, tvm.cpu(), "llvm").evaluate()(x, **weights).numpy()
    return int(found.reshape(-1).argmax())


def archive(path: Path, name: str, values: np.ndarray[Any, Any], folder: str = "include/tvm") -> Path:
    with tarfile.open(path, "w:gz") as tar:
        testing.utils.create_header_file(name, values, folder, tar)
    return path


def infer(project: micro.GeneratedProject) -> str:
    with project.transport() as transport:
        testing.utils.aot_transport_init_wait(transport)
        transport.write(b" infer \n%", timeout_sec=5)
        return testing.utils.aot_transport_find_message(transport, "result", timeout_sec=60)


@pytest.mark.parametrize("kind", ["float", "int8"])
@pytest.mark.parametrize("how", ["bare", "packed"])
def test_firmware_without_a_client(kind: str, how: str, tmp_path: Path) -> None:
    """The project type aot_standalone: the model and its input are in the firmware, which runs it at a command in words."""
    mod, weights = network() if kind == "float" else quantised_network()
    x = X if kind == "float" else np.random.default_rng(5).integers(-128, 128, (1, 8, 8, 8)).astype("int8")
    wanted = int(expected().argmax()) if kind == "float" else quantised_result(x)
    options = {"unpacked-api": True, "interface-api": "c"} if how == "bare" else {}
    executor = relay.backend.Executor("aot", options)
    lib = relay.build(
        mod, tvm.target.micro("host"), params=weights, executor=executor, runtime=relay.backend.Runtime("crt")
    )
    template = micro.get_microtvm_template_projects("crt")
    given = {"project_type": "aot_standalone", "extra_files_tar": str(archive(tmp_path / "x.tar.gz", "input_data", x))}
    project = micro.generate_project(
        template, lib, tmp_path / "project", {**given, "compile_definitions": ["-DA=1", "-DB=2"]}
    )
    assert "-DA=1 -DB=2" in (tmp_path / "project" / "Makefile").read_text()
    project.build()
    try:
        name, place, milliseconds = infer(project).strip().split(":")
        assert (name, int(place)) == ("result", wanted) and 0 <= int(milliseconds) < 10_000
        with project.transport() as transport:
            transport.write(b"explode%init%", timeout_sec=5)
            line = testing.utils.aot_transport_find_message(transport, "\n", timeout_sec=60)
            assert line == "there is no command explode\n"
            testing.utils.aot_transport_find_message(transport, "wakeup", timeout_sec=60)
            with pytest.raises(server.IoTimeoutError):
                testing.utils.aot_transport_find_message(transport, "wakeup", timeout_sec=0.01)
    finally:
        project.close()


def test_what_is_no_firmware_without_a_client(tmp_path: Path) -> None:
    template, target = micro.get_microtvm_template_projects("crt"), tvm.target.micro("host")
    standalone = {"project_type": "aot_standalone"}
    with pytest.raises(
        server.ServerError, match="runs a model that was compiled ahead of time, and the package has none"
    ):
        micro.generate_project(template, exp_plus_and_asks(target), tmp_path / "functions", standalone)
    mod, weights = network()
    lib = relay.build(mod, target, params=weights, executor=relay.backend.Executor("aot"))
    x = relay.var("x", shape=(4,), dtype="float32")
    bytes_of = relay.Function([x], relay.cast(x, "e4m3_float8"))
    byte = relay.build(tvm.IRModule.from_expr(bytes_of), target, executor=relay.backend.Executor("aot"))
    with pytest.raises(server.ServerError, match="largest element of the first output, which is of type .*cast it to"):
        micro.generate_project(template, byte, tmp_path / "byte", standalone)
    with pytest.raises(
        server.ServerError, match="'project_type' is one of host_driven, aot_standalone, but was given 'demo'"
    ):
        micro.generate_project(template, lib, tmp_path / "demo", {"project_type": "demo"})
    with pytest.raises(server.ServerError, match="extra_files_tar: .*none.tar cannot be read: .*No such file"):
        micro.generate_project(
            template, lib, tmp_path / "one", {**standalone, "extra_files_tar": str(tmp_path / "none.tar")}
        )
    tar = archive(tmp_path / "outside.tar", "x", np.zeros(1, "int8"), "../..")
    with pytest.raises(server.ServerError, match=r"outside.tar has ../../x.h, which is outside of the project"):
        micro.generate_project(template, lib, tmp_path / "two", {**standalone, "extra_files_tar": str(tar)})
    tar = archive(tmp_path / "both.tar", "micro", np.zeros(1, "int8"), "runtime/include/tilewright")
    with pytest.raises(
        server.ServerError, match=r"has runtime/include/tilewright/micro.h, which is a file of the project"
    ):
        micro.generate_project(template, lib, tmp_path / "three", {**standalone, "extra_files_tar": str(tar)})
    tar = archive(tmp_path / "short.tar", "input_data", np.zeros(3, "int8"))
    project = micro.generate_project(template, lib, tmp_path / "four", {**standalone, "extra_files_tar": str(tar)})
    with pytest.raises(server.ServerError, match="input_data_has_the_bytes_of_the_input"):
        project.build()
    project.close()


def test_a_log_of_a_transport(functions: micro.GeneratedProject, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO), micro.Session(TransportLogger("wire", functions.transport())) as session:
        assert session.device.exist
    said = [r.getMessage() for r in caplog.records]
    assert said[0] == "wire: opening" and said[-1] == "wire: closing"
    assert any([s.startswith("wire: write 11 bytes in ") and "\n  000000 00 ff fd 04 00" in s for s in said])
    assert debug_transport_timeouts(3) == TransportTimeouts(3, 0, 0)


def test_templates() -> None:
    for name in ("crt", "qemu", "zephyr", "arduino"):
        template = micro.TemplateProject.from_directory(micro.get_microtvm_template_projects(name))
        info = template.info()
        assert info.is_template and info.model_library_format_path is None
        assert all([o.required or o.optional for o in info.project_options])
        template.close()
    with pytest.raises(
        MicroTVMTemplateProjectNotFoundError, match="no template 'zefyr'; nearest: zephyr; there are crt"
    ):
        micro.get_microtvm_template_projects("zefyr")
    assert (Path(micro.get_standalone_crt_dir()) / "src" / "wire.c").is_file()


def test_wrong_uses(functions: micro.GeneratedProject, tmp_path: Path) -> None:
    folder = Path(str(functions.info().model_library_format_path)).parent
    package = folder / "model.tar"
    crt, qemu = (micro.get_microtvm_template_projects(k) for k in ("crt", "qemu"))
    with pytest.raises(TemplateProjectError, match="this is a template"):
        micro.GeneratedProject.from_directory(crt)
    with pytest.raises(NotATemplateProjectError, match="this is a project"):
        micro.TemplateProject.from_directory(folder)
    with pytest.raises(client.ProjectAPIServerNotFoundError, match="is no project, and no template: it has neither"):
        micro.GeneratedProject.from_directory(tmp_path)
    with pytest.raises(MicroError, match="the template has no option 'bord'; it has verbose"):
        micro.generate_project_from_mlf(qemu, tmp_path / "p", package, {"bord": "microbit"})
    with pytest.raises(MicroError, match="the template needs the option 'board': The board. It is one of hifive1"):
        micro.generate_project_from_mlf(qemu, tmp_path / "p", package)
    runtime = Path(micro.get_standalone_crt_dir())
    for template, options, where, said in [
        (qemu, {"board": "pico"}, "p", "the option 'board' is one of .* but was given 'pico'"),
        (
            crt,
            {"memory_size_bytes": "much"},
            "p",
            "the option 'memory_size_bytes' is of the type int, but was given 'much'",
        ),
        (crt, {"colour": "red"}, "p", "the project has no option 'colour'; it has verbose"),
        (crt, {}, "", "is there already; a project is made in a new folder"),
    ]:
        handler = importlib.import_module(
            f"tilewright.micro.templates.{Path(template).name}.microtvm_api_server"
        ).Handler
        with pytest.raises(server.ServerError, match=said):
            handler(Path(template) / "microtvm_api_server.py").generate_project(
                package, runtime, tmp_path / where, options
            )
    with pytest.raises(TVMError, match="Makefile is no archive; give a package in the model library format"):
        read_program(folder / "Makefile")
    with pytest.raises(TVMError, match="nothing.tar is not there; give a package in the model library format"):
        read_program(folder / "nothing.tar")
    fresh = micro.generate_project_from_mlf(crt, tmp_path / "fresh", package)
    with pytest.raises(server.ServerError, match="build/main is not there; build the project first"):
        fresh.transport().open()
    (tmp_path / "fresh" / "host.c").write_text("int main(void) { return undeclared; }\n")
    with pytest.raises(server.ServerError, match="make .* ended with status 2 in .*\n(.*\n)*.*undeclared"):
        fresh.build()
    fresh.options = {"speed": 3}
    with pytest.raises(MicroError, match="the project has no option 'speed'"):
        fresh.build()
    fresh.options = {}
    fresh.close()
    with pytest.raises(client.ConnectionShutdownError, match="the server of the project was shut down"):
        fresh.transport().open()


class Handler(server.ProjectAPIHandler):
    """A handler that answers what a test wants."""

    def server_info_query(self, tvm_version: str) -> server.ServerInfo:
        server.check_version(tvm_version)
        options = [ProjectOption("speed", choices=("1", "2"), optional=["build"], help="How fast.")]
        return server.ServerInfo("tests", True, None, options)

    def generate_project(
        self, model_library_format_path: Any, standalone_crt_dir: Any, project_dir: Any, options: Any
    ) -> None:
        raise FileExistsError(project_dir)

    def build(self, options: Any) -> None:
        assert options == {"speed": "1"}

    def flash(self, options: Any) -> None:
        raise server.ServerError("no board is there")

    def open_transport(self, options: Any) -> TransportTimeouts:
        return TransportTimeouts(1, 2.5, 0)

    def close_transport(self) -> None: ...

    def read_transport(self, n: int, timeout_sec: float | None) -> bytes:
        if timeout_sec is None:
            raise server.TransportClosedError("it is closed")
        return bytes(range(256))[-n:]

    def write_transport(self, data: bytes, timeout_sec: float | None) -> None:
        raise server.IoTimeoutError(f"{len(data)} bytes are left")


def answered(request: Any) -> Any:
    """What a server answers to a line."""
    line = request if isinstance(request, bytes) else json.dumps(request).encode() + b"\n"
    out = io.BytesIO()
    assert server.ProjectAPIServer(io.BytesIO(line), out, Handler()).serve_one_request()
    return json.loads(out.getvalue())


def test_requests() -> None:
    def ask(method: Any, params: Any, **more: Any) -> Any:
        return answered({"jsonrpc": "2.0", "method": method, "params": params, "id": 7, **more})

    assert ask("open_transport", {"options": {}}) == {
        "jsonrpc": "2.0",
        "id": 7,
        "result": {
            "session_start_retry_timeout_sec": 1,
            "session_start_timeout_sec": 2.5,
            "session_established_timeout_sec": 0,
        },
    }
    assert ask("build", {"options": {"speed": "1"}})["result"] is None
    wrong = [
        (b"{\n", -32700, "no JSON"),
        (b'{"jsonrpc": "1.0", "method": "build", "params": {}}\n', -32600, "a request has"),
        (b"[1]\n", -32600, "a request has"),
    ]
    for line, code, said in wrong:
        error = answered(line)["error"]
        assert error["code"] == code and said in error["message"]
    assert ask("explode", {})["error"]["code"] == -32601
    for params in ({}, {"options": {}, "more": 1}, {"options": 3}):
        assert ask("build", params)["error"]["code"] == -32602
    assert ask("read_transport", {"n": True, "timeout_sec": 1})["error"]["code"] == -32602
    assert ask("write_transport", {"data": "?", "timeout_sec": 1})["error"]["code"] == -32602
    error = ask("flash", {"options": {}})["error"]
    assert (
        error["code"] == -32000 and error["message"] == "no board is there" and error["data"]["kind"] == "ServerError"
    )
    error = ask(
        "generate_project",
        dict.fromkeys(("model_library_format_path", "standalone_crt_dir", "project_dir"), "/x") | {"options": {}},
    )
    assert error["error"]["message"] == "FileExistsError: /x" and error["error"]["data"]["traceback"]
    assert ask("server_info_query", {"tvm_version": "0.1"})["error"]["data"]["kind"] == "UnsupportedTVMVersionError"


class Pipe(io.BytesIO):
    """Lines to a server, which answers at once."""

    def __init__(self, answers: io.BytesIO, change: Any) -> None:
        super().__init__()
        self.answers, self.change = answers, change

    def write(self, data: Any) -> int:
        out = io.BytesIO()
        server.ProjectAPIServer(io.BytesIO(data), out, Handler()).serve_one_request()
        at = self.answers.tell()
        self.answers.write(self.change(out.getvalue()))
        self.answers.seek(at)
        return len(data)


def asking(change: Any = lambda line: line) -> client.ProjectAPIClient:
    answers = io.BytesIO()
    return client.ProjectAPIClient(answers, Pipe(answers, change))


def test_a_client() -> None:
    info = asking().server_info_query()
    assert info.platform_name == "tests" and info.project_options[0].choices == ("1", "2")
    assert asking().open_transport() == TransportTimeouts(1, 2.5, 0)
    assert asking().read_transport(3, 1) == b"\xfd\xfe\xff"
    with pytest.raises(server.TransportClosedError, match="read_transport: it is closed"):
        asking().read_transport(3, None)
    with pytest.raises(server.IoTimeoutError, match="write_transport: 2 bytes are left"):
        asking().write_transport(b"ab", 1)
    with pytest.raises(server.UnsupportedTVMVersionError, match="but was asked by 0.1"):
        asking().server_info_query("0.1")
    for change, kind in [
        (lambda line: b"nonsense\n", client.MalformedReplyError),
        (lambda line: b"{}\n", client.MalformedReplyError),
        (lambda line: line.replace(b'"2.0"', b'"3.0"'), client.UnsupportedProtocolVersionError),
        (lambda line: line.replace(b'"id": 1', b'"id": 5'), client.MismatchedIdError),
        (lambda line: line.replace(b"platform_name", b"platform"), client.MalformedReplyError),
        (lambda line: b"", client.ConnectionShutdownError),
    ]:
        with pytest.raises(kind):
            asking(change).server_info_query()


def test_a_client_that_is_gone() -> None:
    """The server closes what was open, such as an emulator, and ends."""
    closed = []

    class Open(Handler):
        def close_transport(self) -> None:
            closed.append(True)

    (its_read, our_write), (our_read, its_write) = os.pipe(), os.pipe()
    os.write(our_write, b"{\n")
    os.close(our_write)
    server.main(Open(), ["--read-fd", str(its_read), "--write-fd", str(its_write)])
    assert closed == [True] and b"no JSON" in os.read(our_read, 1000)
    os.close(our_read)


def test_options() -> None:
    option = ProjectOption("speed", default=3, type="int", optional=["build"], help="How fast.")
    assert option.replace({"default": 4}).default == 4
    assert add_unspecified_options({"a": 1}, [option]) == {"a": 1, "speed": 3}
    for wrong in ({"name": "x"}, {"name": "x", "optional": ["burn"]}, {"name": " x", "optional": ["build"]}):
        with pytest.raises(ValueError, match="option"):
            ProjectOption(**wrong)
    known = server.default_project_options(verbose={"default": True})
    assert known[0].default is True
    with pytest.raises(ValueError, match="there is no option 'loud'"):
        server.default_project_options(loud={})


def test_a_server_that_ends(tmp_path: Path) -> None:
    (tmp_path / "microtvm_api_server.py").write_text("import sys; sys.exit(3)\n")
    with pytest.raises(client.ConnectionShutdownError, match="ended during server_info_query.*status 3"):
        micro.GeneratedProject.from_directory(tmp_path)


NUMBERED = """
from tests.micro.test_projects import Handler, ProjectOption, server

class Numbered(Handler):
    def server_info_query(self, tvm_version):
        option = ProjectOption("serial_number", required=["generate_project"], help="The board.")
        return server.ServerInfo("tests", True, None, [option])

    def generate_project(self, model_library_format_path, standalone_crt_dir, project_dir, options):
        raise server.ServerError(f"this is board {options['serial_number']}")

if __name__ == "__main__":
    server.main(Numbered())
"""


def test_each_server_has_its_board(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "microtvm_api_server.py").write_text(NUMBERED)
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).resolve().parents[2]))
    found = set()
    with get_rpc_runner_micro(str(tmp_path), {"serial_number": "none"}, serial_numbers=["one", "two"]) as runner:
        place = runner.rpc_config
        for _ in range(20):
            with pytest.raises(RPCError, match="this is board (one|two)") as error:
                connect_tracker(str(place.tracker_host), int(place.tracker_port or 0)).request(
                    str(place.tracker_key),
                    max_retry=1,
                    session_constructor_args=[
                        CREATE_SESSION,
                        b"",
                        str(tmp_path),
                        '{"serial_number": "none"}',
                        "",
                        False,
                    ],
                )
            found.add(str(error.value).split("this is board ")[1].split()[0])
            if len(found) == 2:
                break
    assert found == {"one", "two"}
    with (
        pytest.raises(ValueError, match="serial_numbers names a board twice: a, a"),
        get_rpc_runner_micro("crt", serial_numbers=["a", "a"]),
    ):
        pass
    with pytest.raises(ValueError, match="rpc_configs is empty; give one place of boards, or None"):
        RPCRunnerMicro("crt", rpc_configs=[])


def test_a_project_that_fails_leaves_no_server(functions: micro.GeneratedProject, tmp_path: Path) -> None:
    """Nor does one whose firmware cannot be built in a session of a server."""
    package = Path(str(functions.info().model_library_format_path)).read_bytes()
    closed: list[bool] = []

    def close(project: micro.GeneratedProject) -> None:
        closed.append(True)
        project._client.shutdown()

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(micro.GeneratedProject, "close", close)
        patch.setattr(micro.GeneratedProject, "flash", lambda self: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            compile_and_create_micro_session(package, micro.get_microtvm_template_projects("crt"), "{}", str(tmp_path))
        assert closed == [True]
        options: dict[str, Any] = {"build_dir": tmp_path / "other"}
        with (
            pytest.raises(ZeroDivisionError),
            testing.create_aot_session("crt", None, testing.get_target("crt"), *network(), **options),
        ):
            pass
    assert closed == [True, True]


def test_packages_of_autotvm(tmp_path: Path) -> None:
    module = exp_plus_and_asks(tvm.target.micro("host"))
    metadata = package_metadata(micro.autotvm_build_func(module, tmp_path / "model.tar"))
    assert metadata is not None and len(metadata["modules"]) == 1


def test_packages_of_several_models(tmp_path: Path) -> None:
    mod, weights = network()
    both = [
        relay.build(mod, tvm.target.micro("host"), params=weights, mod_name=n, executor=relay.backend.Executor("aot"))
        for n in ("one", "two")
    ]
    package = micro.export_model_library_format(both, tmp_path / "both.tar")
    with pytest.raises(
        MicroError, match="a project serves one model that was compiled ahead of time, but the package has several"
    ):
        read_program(package)


def test_what_firmware_tells_of_faults() -> None:
    functions = [Symbol("conv2d", 1, 0x1001, 0x40, True, False, True), Symbol("relu", 1, 0x1041, 8, True, False, True)]
    bus = "fault pc=0x0000103e cfsr=0x00008200 hfsr=0x40000000 address=0x50000000"
    assert told_fault(bus, functions) == "the bus refused an access of address 0x50000000, at pc=0x0000103e in conv2d"
    division = told_fault("fault pc=0x00001040 cfsr=0x02000000 hfsr=0x0 address=0x0", functions)
    assert division == "a division by zero, at pc=0x00001040 in relu"
    placed = told_fault(bus, functions, lambda address: f"model/net.c:7: at {address:#x}")
    assert placed.endswith("in conv2d, model/net.c:7: at 0x103e")
    trap = told_fault("fault pc=0x80000010 mcause=0x00000002 address=0x00000000", [])
    assert trap == "an undefined instruction, at pc=0x80000010"
    assert told_fault("fault pc=0x00000008", []).startswith("a fault; the processor does not say what it was, at")
    assert told_fault("the program gave up", functions) == "the program gave up"


ZEPHYR = {
    "device.h": "struct device { int nothing; };\nstatic inline int device_is_ready(const struct device* d) { return d != 0; }\n",
    "drivers/uart.h": "int uart_poll_in(const struct device* d, unsigned char* c);\n"
    "void uart_poll_out(const struct device* d, unsigned char c);\n",
    "kernel.h": "#include <stdint.h>\nextern struct device console;\n#define DT_CHOSEN(x) x\n#define DEVICE_DT_GET(x) (&console)\n"
    "#define CONFIG_SYS_CLOCK_TICKS_PER_SEC 10000\nstruct arch_esf;\n"
    "int64_t k_uptime_ticks(void);\nuint32_t k_ticks_to_cyc_floor32(uint32_t);\n"
    "void k_sys_fatal_error_handler(unsigned int, const struct arch_esf*);\n",
    "sys/reboot.h": "#define SYS_REBOOT_COLD 0\nvoid sys_reboot(int kind);\n",
}
"""Declarations of what Zephyr's application calls (its documentation: uart_poll_in, uart_poll_out, k_uptime_ticks, sys_reboot)."""
ARDUINO = """
#include <stddef.h>
#include <stdint.h>
static struct {
  void begin(long) {}
  int read() { return -1; }
  size_t write(const uint8_t*, size_t n) { return n; }
  operator bool() { return true; }
} Serial;
static void yield() {}
static unsigned long micros() { return 0; }
"""


def compiled(command: list[str], folder: Path) -> None:
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_an_application_of_zephyr(functions: micro.GeneratedProject, tmp_path: Path) -> None:
    package = str(functions.info().model_library_format_path)
    options = {"board": "nrf52840dk/nrf52840", "memory_size_bytes": 5000, "serial_port": str(tmp_path / "none")}
    folder = tmp_path / "application"
    project = micro.generate_project_from_mlf(micro.get_microtvm_template_projects("zephyr"), folder, package, options)
    cmake = (folder / "CMakeLists.txt").read_text()
    assert "find_package(Zephyr REQUIRED" in cmake and "TW_MEMORY=5000u" in cmake and "runtime/src/wire.c" in cmake
    assert "CONFIG_CONSOLE=n" in (folder / "prj.conf").read_text()
    for name, text in ZEPHYR.items():
        (tmp_path / "stubs" / "zephyr" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "stubs" / "zephyr" / name).write_text(text)
    include = ["-Iruntime/include", "-Imodel/include", f"-I{tmp_path / 'stubs'}"]
    for source in ("src/main.c", "src/program.c"):
        compiled(
            [*compiler_command("c"), "-std=c11", "-Wall", "-Wextra", "-Werror", "-fsyntax-only", *include, source],
            folder,
        )
    with pytest.raises(
        server.ServerError, match="west cannot be run: .*install it .pip install west, and Zephyr's SDK"
    ):
        project.build()
    with pytest.raises(server.TransportClosedError, match="none cannot be opened: No such file"):
        project.transport().open()
    project.close()


def test_a_sketch(functions: micro.GeneratedProject, tmp_path: Path) -> None:
    package = str(functions.info().model_library_format_path)
    template, options = (
        micro.get_microtvm_template_projects("arduino"),
        {"board": "arduino:mbed_nano:nano33ble", "serial_speed": 57600},
    )
    with pytest.raises(server.ServerError, match="has the name of its folder, which begins with a letter"):
        micro.generate_project_from_mlf(template, tmp_path / "1st", package, options)
    folder = tmp_path / "sketch"
    project = micro.generate_project_from_mlf(template, folder, package, options)
    sketch = (folder / "sketch.ino").read_text()
    assert "Serial.begin(57600);" in sketch
    (folder / "sketch.cc").write_text(ARDUINO + sketch + "int main() { setup(); loop(); }\n")
    compiled([*compiler_command("c++"), "-Wall", "-Werror", "-fsyntax-only", "sketch.cc"], folder)
    for source in sorted((folder / "src").glob("*.c")):
        compiled([*compiler_command("c"), "-std=c99", "-fsyntax-only", str(source)], folder)
    with pytest.raises(server.ServerError, match="open_transport needs the option 'serial_port'"):
        project.transport().open()
    project.close()


@pytest.mark.parametrize("platform", ["zephyr", "arduino"])
def test_projects_of_others_without_a_client(platform: str, tmp_path: Path) -> None:
    """The sources of firmware for Zephyr, and of a sketch, that runs its model at a command."""
    mod, weights = quantised_network()
    lib = relay.build(
        mod, tvm.target.micro("host"), params=weights, mod_name="net", executor=relay.backend.Executor("aot")
    )
    tar = archive(tmp_path / "x.tar", "input_data", np.zeros((1, 8, 8, 8), "int8"))
    options = {"board": "nrf52840dk/nrf52840", "project_type": "aot_standalone", "extra_files_tar": str(tar)}
    folder = tmp_path / "application"
    micro.generate_project(micro.get_microtvm_template_projects(platform), lib, folder, options).close()
    for name, text in ZEPHYR.items():
        (tmp_path / "stubs" / "zephyr" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "stubs" / "zephyr" / name).write_text(text)
    include = ["-Iruntime/include", "-Imodel/include", f"-I{tmp_path / 'stubs'}"]
    sources = (
        ["src/main.c", "src/program.c"] if platform == "zephyr" else sorted(map(str, (folder / "src").glob("*.c")))
    )
    for source in sources:
        compiled([*compiler_command("c"), "-std=c11", "-Wall", "-Werror", "-fsyntax-only", *include, source], folder)
    text = (folder / "CMakeLists.txt").read_text() if platform == "zephyr" else " ".join(sources)
    assert "standalone.c" in text and "wire.c" not in text


def test_a_serial_port() -> None:
    ours, theirs = pty.openpty()
    with SerialTransport(os.ttyname(theirs)) as transport:
        os.write(ours, b"\x00\xff\r\n\x03")
        found = b""
        while len(found) < 5:
            found += transport.read(10, 1)
        assert found == b"\x00\xff\r\n\x03"
        transport.write(b"\n\xfd\x11", 1)
        assert os.read(ours, 10) == b"\n\xfd\x11"
        with pytest.raises(server.IoTimeoutError, match="nothing could be read"):
            transport.read(1, 0.01)
    with pytest.raises(server.TransportClosedError, match="is closed"):
        transport.read(1, 0.01)
    with pytest.raises(server.TransportClosedError, match="no serial ports with 12 bits"):
        SerialTransport(os.ttyname(theirs), 12).open()
    with pytest.raises(server.TransportClosedError, match="/dev/null is no serial port"):
        SerialTransport("/dev/null").open()
    os.close(ours)
    os.close(theirs)
