"""Projects on emulated boards (make test-micro): sessions over serial ports, faults and resets on the way, and AutoTVM by projects on
several boards behind a tracker."""

from __future__ import annotations

import contextlib
import tarfile
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tilewright as tvm
from tests.micro.boards import exp_plus, network, quantised_network, use_qemu
from tests.micro.tuned_on_boards import PATIENCE
from tilewright import autotvm, micro, relay, rpc, te
from tilewright import meta_schedule as ms
from tilewright.autotvm.measure import MeasureErrorNo
from tilewright.contrib.micro.meta_schedule.local_builder_micro import get_local_builder_micro
from tilewright.contrib.micro.meta_schedule.rpc_runner_micro import RPCRunnerMicro, get_rpc_runner_micro
from tilewright.micro import testing
from tilewright.micro.board import board, known_boards
from tilewright.micro.faults import told_fault
from tilewright.micro.linking.elf import linked_functions, linked_lines
from tilewright.micro.linking.lines import source_place
from tilewright.micro.offers import offer_sessions
from tilewright.micro.project_api.server import TransportTimeouts
from tilewright.script import tir as T
from tilewright.support.errors import RPCError

BOARDS = [name for name in known_boards() if (b := board(name)).qemu is not None and b.serial is not None]
GRAPH = relay.backend.Executor("graph")
QEMU = micro.get_microtvm_template_projects("qemu")
NOWHERE = {"riscv32_virt": "0x1f000000", "mps3_an547": "0x50000000"}
"""By board, an address where nothing is, other than 0x70000000."""
WRECKS = """
int32_t wreck(void** args);
static int32_t endless(void** args) { volatile uint32_t on = 1; (void)args; while (on != 0u) {} return 0; }
static int32_t says(void** args) { (void)args; tw_platform_log("it runs\\n", 8); return 0; }
"""


@pytest.fixture(scope="module", autouse=True)
def _qemu() -> None:
    use_qemu()


WRECK = """#include <stdint.h>
int32_t wreck(void** args);
int32_t wreck(void** args) {
  (void)args;
  *(volatile uint32_t*)(uintptr_t)NOWHERE = 1u;
  return 0;
}
"""
"""A source beside those of the model."""


def project_of(module: Any, name: str, folder: Path, wrecks: bool = False) -> micro.GeneratedProject:
    """A project for a board, built. wrecks: with functions that go wrong."""
    project = micro.generate_project(QEMU, module, folder, {"board": name})
    if wrecks:
        text = (folder / "main.c").read_text()
        head = "static const struct tw_rpc_function functions[] = {"
        rows = "".join([f'\n  {{"{n}", 0, {n}}},' for n in ("wreck", "endless", "says")])
        count = text.count('{"')
        (folder / "model" / "wreck.c").write_text(WRECK.replace("NOWHERE", NOWHERE.get(name, "0x70000000") + "u"))
        text = text.replace(head, f"{WRECKS}\n{head}{rows}").replace(f"size, {count}u}}", f"size, {count + 3}u}}")
        (folder / "main.c").write_text(text)
    project.build()
    project.flash()
    return project


@pytest.mark.parametrize("name", BOARDS)
def test_functions(name: str, tmp_path: Path) -> None:
    a, b = np.arange(8, dtype="float32") / 8, np.ones(8, "float32")
    kind = "llvm" if name in ("mps2_an386", "riscv32_virt") else "c"
    project = project_of(exp_plus(board(name).target(kind)), name, tmp_path / "project")
    with micro.Session(project.transport()) as session:
        library = session.get_system_lib()
        x, y, z = (tvm.nd.array(v, session.device) for v in (a, b, np.zeros(8, "float32")))
        library["exp_plus"](x, y, z)
        np.testing.assert_allclose(z.numpy(), 2 * np.exp(a) + b, rtol=2e-6)
        with pytest.raises(RPCError, match="TypeError: exp_plus: the number of arguments must be 3, but is 2"):
            library["exp_plus"](x, y)
        with pytest.raises(RPCError, match="MemoryError: the memory for arrays of this device has no room for it"):
            tvm.nd.empty((1 << 30,), "int8", session.device)
    project.close()


@pytest.mark.parametrize("kind", ["c", "llvm"])
def test_a_model(kind: str, tmp_path: Path) -> None:
    name = "mps2_an500"
    mod, weights = quantised_network()
    x = np.random.default_rng(2).integers(-128, 128, (1, 8, 8, 8)).astype("int8")
    expected = relay.create_executor("graph", mod, tvm.cpu(), "llvm").evaluate()(x, **weights).numpy()
    lib = relay.build(
        mod, board(name).target(kind), params=weights, mod_name="net", executor=relay.backend.Executor("aot")
    )
    project = project_of(lib, name, tmp_path / "project")
    project.options = {"instruction_shift": 6}
    measured = set()
    for _ in range(2):
        with micro.Session(project.transport()) as session:
            model = micro.create_local_aot_executor(session)
            model.set_input("x", x)
            model.run()
            np.testing.assert_array_equal(model.get_output(0).numpy(), expected)
            # A measurement differs by a tick of the clock, depending on where between two it begins.
            measured.add(round(model.benchmark(session.device, number=1, repeat=1).mean * board(name).clock_hz))
            del model
    assert max(measured) - min(measured) <= 4 and min(measured) > 1000
    project.close()


@pytest.mark.parametrize("name", ["microbit", "mps2_an500", "mps3_an547", "riscv32_virt"])
def test_firmware_without_a_client(name: str, tmp_path: Path) -> None:
    """The project type aot_standalone; and a fault, which is told as a line before the board begins anew."""
    mod, weights = quantised_network()
    x = np.random.default_rng(7).integers(-128, 128, (1, 8, 8, 8)).astype("int8")
    x.flat[0] = 0
    expected = relay.create_executor("graph", mod, tvm.cpu(), "llvm").evaluate()(x, **weights).numpy().reshape(-1)
    how = {
        "executor": relay.backend.Executor("aot", {"unpacked-api": True, "interface-api": "c"}),
        "runtime": relay.backend.Runtime("crt"),
    }
    lib = relay.build(mod, board(name).target("c"), params=weights, mod_name="net", **how)
    with tarfile.open(tmp_path / "x.tar", "w") as tar:
        testing.utils.create_header_file("input_data", x, "include", tar)
    options = {"board": name, "project_type": "aot_standalone", "extra_files_tar": str(tmp_path / "x.tar")}
    project = micro.generate_project(QEMU, lib, tmp_path / "project", options)
    main = tmp_path / "project" / "main.c"
    wreck = f"if (input_data[0] == 77) *(volatile uint32_t*)(uintptr_t){NOWHERE.get(name, '0x70000000')}u = 1u;"
    main.write_text(
        main.read_text().replace("static int32_t run(void** at) {", f"static int32_t run(void** at) {{ {wreck}")
    )
    project.build()
    with project.transport() as transport:
        testing.utils.aot_transport_init_wait(transport)
        transport.write(b"infer%", timeout_sec=5)
        line = testing.utils.aot_transport_find_message(transport, "result", timeout_sec=60)
    assert int(line.split(":")[1]) == int(expected.argmax())
    x.flat[0] = 77
    with tarfile.open(tmp_path / "other.tar", "w") as tar:
        testing.utils.create_header_file("input_data", x, "include", tar)
    with tarfile.open(tmp_path / "other.tar") as tar:
        tar.extractall(tmp_path / "project", filter="data")
    main.touch()
    project.build()
    with project.transport() as transport:
        testing.utils.aot_transport_init_wait(transport)
        transport.write(b"infer%", timeout_sec=5)
        line = testing.utils.aot_transport_find_message(transport, "fault pc=0x", timeout_sec=60)
        testing.utils.aot_transport_init_wait(transport)
    functions = linked_functions((tmp_path / "project" / "firmware.elf").read_bytes())
    assert told_fault(line.strip(), functions).endswith("in run")
    project.close()


def test_kernels_of_a_graph(tmp_path: Path) -> None:
    mod, weights = network()
    x = np.random.default_rng(1).standard_normal((1, 8, 8, 3)).astype("float32")
    expected = relay.create_executor("graph", mod, tvm.cpu(), "llvm").evaluate()(x, **weights).numpy()
    lib = relay.build(mod, board("mps2_an385").target("c"), params=weights, mod_name="net", executor=GRAPH)
    project = project_of(lib, "mps2_an385", tmp_path / "project")
    with micro.Session(project.transport()) as session:
        model = micro.create_local_graph_executor(lib.get_graph_json(), session.get_system_lib(), session.device)
        model.set_input(**lib.get_params())
        model.run(x=x)
        np.testing.assert_allclose(model.get_output(0).numpy(), expected, rtol=1e-4)
    project.close()


@pytest.mark.parametrize(
    "name, said",
    [
        ("mps2_an500", "the bus refused an access of address 0x70000000, at pc=0x[0-9a-f]+ in wreck"),
        ("mps3_an547", "of address 0x50000000, at pc=0x[0-9a-f]+ in wreck"),
        ("microbit", "a fault; the processor does not say what it was, at pc=0x[0-9a-f]+ in wreck"),
        ("riscv32_virt", "a store was refused of address 0x1f000000, at pc=0x[0-9a-f]+ in wreck"),
    ],
)
def test_faults(name: str, said: str, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """A fault ends the session, and says what it was. The board begins anew: it knows nothing of the session, and serves the next."""
    project = project_of(exp_plus(board(name).target("c")), name, tmp_path / "project", wrecks=True)
    transport = project.transport()
    with transport:
        held = Held(transport)
        with micro.Session(held) as session, caplog.at_level("INFO", "tilewright.micro"):
            library = session.get_system_lib()
            library["says"](tvm.nd.array(np.zeros(4, "int8"), session.device))
            assert "it runs" in caplog.text
            line = r", model/wreck.c:5: \*\(volatile uint32_t"
            with pytest.raises(
                RPCError, match=f"SessionTerminatedError: micro-rpc: the device stopped: .*{said}{line}"
            ):
                library["wreck"](tvm.nd.array(np.zeros(4, "int8"), session.device))
        with micro.Session(held) as session:
            assert tvm.nd.array(np.arange(4, dtype="int8"), session.device).numpy().sum() == 6
    project.close()


@pytest.mark.parametrize("name", ["microbit", "mps2_an500", "mps3_an547", "riscv32_virt"])
def test_faults_in_objects_name_the_line(name: str, tmp_path: Path) -> None:
    """Objects of LLVM have the lines of TensorIR, which lies beside them in the folder; a project that is opened anew tells them, too."""
    code = tvm.build(strided, target=board(name).target("llvm"), name="strided")
    project_of(code, name, tmp_path / "project").close()
    project = micro.GeneratedProject.from_directory(tmp_path / "project", {})
    with micro.Session(project.transport()) as session:
        function = session.get_system_lib()["strided"]
        a, c = (tvm.nd.array(v, session.device) for v in (np.arange(8, dtype="int32"), np.zeros(8, "int32")))
        function(a, 1, c)
        np.testing.assert_array_equal(c.numpy(), np.arange(8) + 7)
        with pytest.raises(
            RPCError, match=r"in __tvm_ffi_strided\S*, model/\w+_lib0.tir:\d+: c\w*\[i\] = a\w*\["
        ) as error:
            function(a, 1 << 26, c)
        assert "the device stopped" in str(error.value)
    project.close()
    lib = relay.build(network()[0], board(name).target("llvm"), params=network()[1], mod_name="net")
    folder = tmp_path / "model"
    project_of(lib, name, folder).close()
    data = (folder / "firmware.elf").read_bytes()
    lines, told = linked_lines(data), []
    for function in linked_functions(data):
        if function.name.startswith("fused_") or "kernel" in function.name:
            path, line = source_place(lines, (function.value & ~1) + function.size // 2)
            told.append((folder / "model" / path).read_text().splitlines()[line - 1])
    assert len(told) >= 3 and all(told)


@T.prim_func
def strided(a: T.Buffer((8,), "int32"), n: T.int32, c: T.Buffer((8,), "int32")) -> None:
    for i in range(8):
        c[i] = a[i * n] + 7


class Held:
    """A transport that stays open when a session ends, as the power of a board does."""

    def __init__(self, transport: Any) -> None:
        self.transport = transport

    def __enter__(self) -> Any:
        return self.transport

    def __exit__(self, *_: object) -> None:
        pass


def test_a_function_that_does_not_end(tmp_path: Path) -> None:
    project = project_of(exp_plus(board("mps2_an500").target("c")), "mps2_an500", tmp_path / "project", wrecks=True)
    with micro.Session(project.transport(), "slow", TransportTimeouts(0.5, 10, 2)) as session:
        array = tvm.nd.array(np.zeros(4, "int8"), session.device)
        with pytest.raises(
            RPCError,
            match="SessionTerminatedError: slow: the device does not answer for 2 s.*longer session_established",
        ):
            session.get_system_lib()["endless"](array)
    project.close()


@autotvm.template("tests/micro/projects/product")
def product(size: int) -> Any:
    a, b = te.placeholder((size, size), "int32", "a"), te.placeholder((size, size), "int32", "b")
    k = te.reduce_axis((0, size), "k")
    c = te.compute((size, size), lambda i, j: te.sum(a[i, k] * b[k, j], axis=k), name="c")
    s = te.create_schedule(c.op)
    cfg = autotvm.get_config()
    y, x = s[c].op.axis
    cfg.define_split("tile_x", x, num_outputs=2)
    xo, xi = cfg["tile_x"].apply(s, c, x)
    s[c].reorder(y, xo, s[c].op.reduce_axis[0], xi)
    return s, [a, b, c]


@pytest.fixture
def farm(monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[str, int]]:
    """A tracker with four servers of boards."""
    offer_sessions()
    tracker = rpc.Tracker("127.0.0.1", 0, silent=True)
    place = ("127.0.0.1", tracker.port)
    monkeypatch.setenv("TESTS_FARM", str(tracker.port))
    servers = [rpc.Server("127.0.0.1", 0, key="board", tracker_addr=place, silent=True) for _ in range(4)]
    yield place
    for server in servers:
        server.terminate()
    tracker.terminate()
    until = time.monotonic() + 10
    while (left := emulators(tracker.port)) and time.monotonic() < until:
        time.sleep(0.1)
    assert not left, "emulators outlive the sessions that they were started for"


def emulators(port: int) -> list[int]:
    """The emulators that servers of a tracker have started: they have its port in their environment."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if (
                b"qemu-system" in (folder / "cmdline").read_bytes()
                and f"TESTS_FARM={port}\0".encode() in (folder / "environ").read_bytes()
            ):
                found.append(int(folder.name))
    return found


def product_task() -> Any:
    return autotvm.task.create("tests/micro/projects/product", args=(16,), target=board("mps2_an500").target("c"))


def model_task(name: str, kind: str) -> Any:
    """The depthwise convolution of a network of bytes."""
    mod, weights = quantised_network()
    return autotvm.task.extract_from_program(mod["main"], params=weights, target=board(name).target(kind))[0]


@pytest.mark.parametrize(
    "name, made, count",
    [
        ("mps2_an500", product_task, 5),
        ("microbit", partial(model_task, "microbit", "c"), 2),
        ("riscv32_virt", partial(model_task, "riscv32_virt", "llvm"), 4),
    ],
)
def test_tuning_on_four_boards(name: str, made: Any, count: int, farm: tuple[str, int]) -> None:
    task = made()
    loader = micro.AutoTvmModuleLoader(QEMU, {"board": name})
    builder = autotvm.LocalBuilder(timeout=PATIENCE, n_parallel=4, build_func=micro.autotvm_build_func)
    runner = autotvm.RPCRunner("board", *farm, n_parallel=4, number=1, repeat=1, timeout=PATIENCE, module_loader=loader)
    found: list[Any] = []
    autotvm.tuner.GridSearchTuner(task).tune(
        n_trial=count,
        measure_option=autotvm.measure_option(builder, runner),
        callbacks=[lambda _, __, results: found.extend(results)],
    )
    assert len(found) == len(task.config_space) == count, found
    assert all([r.error_no == MeasureErrorNo.NO_ERROR and 0 < r.costs[0] < 1 for r in found]), found


def test_a_board_of_a_farm_that_cannot_build(farm: tuple[str, int], tmp_path: Path) -> None:
    """A configuration that does not fit is a result with the linker's words."""
    large = te.create_prim_func([a := te.placeholder((8,), name="a"), te.compute((8,), lambda i: a[i] + 1, name="b")])
    module = tvm.build(large, target=board("microbit").target("c"), name="add")
    package = micro.export_model_library_format(module, tmp_path / "model.tar")
    loader = micro.AutoTvmModuleLoader(QEMU, {"board": "microbit", "workspace_size_bytes": 1 << 20})
    built = autotvm.measure.measure_methods.BuildResult(package, (((8,), "float32"),) * 2, None, 0.0)
    remote = {"device_key": "board", "host": farm[0], "port": farm[1], "timeout": PATIENCE}
    with (
        pytest.raises(RPCError, match="ServerError: build: make .*\n(.*\n)*.*(variables and a stack|region|overflow)"),
        loader(remote, built),
    ):
        pass


def test_meta_schedule_on_two_boards(tmp_path: Path) -> None:
    a, b = te.placeholder((16, 16), name="a"), te.placeholder((16, 16), name="b")
    k = te.reduce_axis((0, 16), "k")
    c = te.compute((16, 16), lambda i, j: te.sum(a[i, k] * b[k, j], axis=k), name="c")
    target = tvm.target.Target(f"{board('mps2_an500').target('c')} -num-cores=1")
    builder = get_local_builder_micro()
    with get_rpc_runner_micro("qemu", {"board": "mps2_an500"}, serial_numbers=["one", "two"]) as runner:
        database = ms.tir_integration.tune_tir(
            mod=te.create_prim_func([a, b, c]), target=target, work_dir=str(tmp_path), max_trials_global=3, num_trials_per_iter=3,
            builder=builder, runner=runner,
        )  # fmt: skip
    builder.close()
    records = database.get_all_tuning_records()
    assert len(records) == 3 and all([r.run_secs and 0 < float(r.run_secs[0]) < 1 for r in records])
    with pytest.raises(ValueError, match="behind one tracker, with one key"):
        RPCRunnerMicro("crt", rpc_configs=[ms.runner.RPCConfig("a", 1, "k"), ms.runner.RPCConfig("b", 1, "k")])


def test_tuning_a_model(tmp_path: Path) -> None:
    """A model is tuned by projects of a process of this machine, and compiled with the records."""
    mod, weights = network()
    target = testing.get_target("crt")
    records = testing.tune_model("crt", None, target, mod, weights, 2)
    (tmp_path / "log").write_text(records.getvalue())
    testing.utils.check_tune_log(tmp_path / "log")
    assert len(records.getvalue().splitlines()) >= 2
    with testing.create_aot_session("crt", None, target, mod, weights, tune_logs=records) as session:
        model = micro.create_local_aot_executor(session)
        (found,) = testing.predict_labels_aot(session, model, [np.ones((1, 8, 8, 3), "float32")])
        assert 0 <= found[0] < 10
        del model
