"""Sessions with emulated boards (make test-micro): programs on each processor, by LLVM and through C; faults, timeouts, lost boards."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import tilewright as tvm
from tests.micro.boards import EMULATED, KERNELS, exp_plus, network, quantised_network, use_qemu
from tilewright import micro, relay, te
from tilewright.micro import tasks
from tilewright.micro.board import board
from tilewright.micro.debug import servers
from tilewright.micro.debug_session import DebugSession
from tilewright.micro.device_runtime import SIZE, compile_files
from tilewright.micro.errors import ConnectionLost, DeviceFault, DeviceTimeout, LinkError, MicroError
from tilewright.micro.executor import MicroExecutor
from tilewright.micro.module import MicroModule

A, B = np.arange(8, dtype="float32") / 8, np.ones(8, "float32")
EXPECTED = 2 * np.exp(A) + B
FAULTING = ["mps2_an500", "mps2_an505", "mps3_an547", "microbit", "riscv32_virt"]
NOWHERE = {"mps2_an505": "0x70000000u", "microbit": "0x70000000u", "riscv32_virt": "0x00050000u"}


@pytest.fixture(scope="module", autouse=True)
def _qemu() -> None:
    use_qemu()


def arrays(session: DebugSession) -> list[tvm.nd.NDArray]:
    return [tvm.nd.array(v, session.device) for v in (A, B, np.zeros(8, "float32"))]


@pytest.mark.parametrize("kind", ["llvm", "c"])
@pytest.mark.parametrize("name", EMULATED)
def test_functions(name: str, kind: str) -> None:
    with micro.Session(name) as session:
        module = micro.create_micro_mod(exp_plus(board(name).target(kind)), name)
        a, b, c = arrays(session)
        assert module.names == ["exp_plus"] or set(module.names) == {"exp_plus", "main"}
        module["exp_plus"](a, b, c)
        np.testing.assert_allclose(c.numpy(), EXPECTED, rtol=2e-6)
        assert c.device == session.device == tvm.micro_dev(session.device.device_id) and c.device.device_name == name
        with pytest.raises(TypeError, match="exp_plus: the number of arguments must be 3, but is 2"):
            module["exp_plus"](a, b)
        long = tvm.nd.array(np.zeros(9, "float32"), session.device)
        with pytest.raises(ValueError, match=r"exp_plus: argument 2 \(c\): dimension 0 must be 8, but is 9"):
            module["exp_plus"](a, b, long)
        module["exp_plus"](c, b, a)
        np.testing.assert_allclose(a.numpy(), 2 * np.exp(EXPECTED) + 1, rtol=1e-5)


@pytest.mark.parametrize("executor", ["aot", "graph"])
@pytest.mark.parametrize("name", ["mps2_an385", "mps2_an500", "mps3_an547", "riscv32_virt"])
def test_models(name: str, executor: str) -> None:
    mod, weights = network()
    x = np.random.default_rng(1).standard_normal((1, 8, 8, 3)).astype("float32")
    expected = relay.create_executor("graph", mod, tvm.cpu(), "llvm").evaluate()(x, **weights).numpy()
    lib = relay.build(mod, board(name).target("llvm"), params=weights, executor=relay.backend.Executor(executor))
    with micro.Session(name) as session:
        model = MicroExecutor(micro.create_micro_mod(lib, session))
        assert (model.get_num_inputs(), model.get_num_outputs()) == (1, 1)
        np.testing.assert_allclose(model(x=x)[0], expected, rtol=1e-4, atol=1e-6)
        np.testing.assert_allclose(model(x=-x)[0].sum(), 1, rtol=1e-5)
        with pytest.raises(ValueError, match="the model has no input 'y'; it has x"):
            model.set_input("y", x)


@pytest.mark.parametrize("kind", ["llvm", "c"])
@pytest.mark.parametrize(
    "name", ["microbit", "mps2_an385", "mps2_an386", "mps2_an500", "mps2_an505", "mps3_an547", "riscv32_virt"]
)
def test_models_of_int8_to_the_bit(name: str, kind: str) -> None:
    mod, weights = quantised_network()
    x = np.random.default_rng(2).integers(-128, 128, (1, 8, 8, 8)).astype("int8")
    expected = relay.create_executor("graph", mod, tvm.cpu(), "llvm").evaluate()(x, **weights).numpy()
    assert len(np.unique(expected)) > 4
    lib = relay.build(mod, board(name).target(kind), params=weights, executor=relay.backend.Executor("aot"))
    with micro.Session(name) as session:
        model = MicroExecutor(micro.create_micro_mod(lib, session))
        np.testing.assert_array_equal(model(x=x)[0], expected)


@pytest.mark.parametrize("pipelined", [True, False])
def test_a_server_that_runs_already(pipelined: bool) -> None:
    """Packets all at once, or one after the other, as stubs with acknowledgements want them."""
    server = servers.start(board("mps2_an500"), "qemu")
    try:
        server.connect().close()
        config = micro.generate_config("mps2_an500", server_addr="127.0.0.1", server_port=server.port)
        with micro.Session(config) as session:
            assert session.remote is not None
            session.remote.pipelined = pipelined
            module = micro.create_micro_mod(exp_plus(board("mps2_an500").target("llvm")), session)
            a, b, c = arrays(session)
            module["exp_plus"](a, b, c)
            np.testing.assert_allclose(c.numpy(), EXPECTED, rtol=2e-6)
    finally:
        server.close()


def kernels(session: DebugSession) -> MicroModule:
    name = session.board.name
    source = KERNELS.replace(b"NOWHERE", NOWHERE.get(name, "0x50000000u").encode())
    names = ["write_nowhere", "undefined", "endless", "refuses", "deep", "adds", "says", "resets"]
    image = session.load(compile_files(session.board, [("kernels.c", source)], SIZE), names)
    return MicroModule(session, image, {n: (image.symbols[n], tasks.KERNEL) for n in names}, None)


def works(module: MicroModule) -> None:
    """The device is as good as new."""
    counter = tvm.nd.array(np.array([41], "int32"), module.session.device)
    module["adds"](counter)
    assert counter.numpy()[0] == 42


@pytest.mark.parametrize("name", FAULTING)
def test_faults(name: str) -> None:
    with micro.Session(micro.generate_config(name, timeout=0.5)) as session:
        module = kernels(session)
        with pytest.raises(DeviceFault, match=rf"undefined faulted on {name}: .*, at pc=0x\w+ in undefined") as error:
            module["undefined"]()
        assert error.value.function == "undefined" and error.value.pc == error.value.registers["pc"]
        works(module)
        with pytest.raises(
            DeviceTimeout, match=rf"endless did not finish on {name} in 0.5 s: it was at 0x\w+ in endless"
        ):
            module["endless"]()
        works(module)
        with pytest.raises(MicroError, match=rf"refuses failed on {name} with code 7"):
            module["refuses"]()
        works(module)


LINES = {"c": ("line \\d+ of the C source: ", "exp_f32"), "llvm": ("line \\d+ of the TensorIR: ", "T.exp(a_1[i])")}
"""By kind of target: how the line of a fault begins, and what stands in it."""


@pytest.mark.parametrize(
    "name, kind",
    [*[(n, "c") for n in ("mps2_an500", "mps2_an385", "mps3_an547")],
     *[(n, "llvm") for n in ("microbit", "mps2_an500", "mps3_an547", "riscv32_virt")]],
)  # fmt: skip
def test_faults_name_the_line(name: str, kind: str) -> None:
    """A function whose argument points nowhere. Objects of LLVM have no lines: the program is compiled again."""
    begin, content = LINES[kind]
    nowhere = int(NOWHERE.get(name, "0x50000000u")[:-1], 16)
    with micro.Session(name) as session:
        module = micro.create_micro_mod(exp_plus(board(name).target(kind)), session)
        a, b, c = arrays(session)
        broken = tvm.runtime._ffi.tensor_from_address(nowhere, (8,), None, (2, 32, 1), session.device, c)
        with pytest.raises(DeviceFault, match=rf"exp_plus faulted on {name}: .*, {begin}c(_1)?\[i0?\] = ") as error:
            module["exp_plus"](a, b, broken)
        assert content in error.value.line
        module["exp_plus"](a, b, c)
        mod, weights = network()
        lib = relay.build(mod, board(name).target(kind), params=weights, executor=relay.backend.Executor("graph"))
        model = MicroExecutor(micro.create_micro_mod(lib, session))
        model.calls = [(symbol, [*addresses[:-1], nowhere]) for symbol, addresses in model.calls]
        with pytest.raises(DeviceFault, match=rf"relu faulted .*, {begin}\S") as error:
            model.run()
        # Vectors of Helium are stored at the end of a loop, whose line is then told.
        assert "T_relu" in error.value.line or name == "mps3_an547" or kind == "llvm"


@pytest.mark.parametrize("name", ["mps2_an500", "mps3_an547"])
def test_fault_names_address(name: str) -> None:
    with micro.Session(name) as session:
        module = kernels(session)
        with pytest.raises(DeviceFault, match="BusFault: the bus refused an access of address 0x50000000") as error:
            module["write_nowhere"]()
        assert error.value.address == 0x50000000 and error.value.function == "write_nowhere"
        works(module)


def test_stack_that_overflows() -> None:
    with micro.Session("mps2_an500") as session:
        module = kernels(session)
        depth = tvm.nd.array(np.array([20], "int32"), session.device)
        module["deep"](depth)
        depth.copyfrom(np.array([100000], "int32"))
        with pytest.raises((MicroError, DeviceFault), match="stack|fell off"):
            module["deep"](depth)


def test_deferred_calls_run_when_a_result_is_read() -> None:
    with micro.Session(micro.generate_config("mps2_an500", deferred=True)) as session:
        module = kernels(session)
        counter = tvm.nd.array(np.array([0], "int32"), session.device)
        waited = session.remote.exchanges if session.remote else 0
        for _ in range(50):
            module["adds"](counter)
        assert session.remote is not None and session.remote.exchanges == waited
        assert counter.numpy()[0] == 50
        # More than a list holds.
        for _ in range(3 * session.batch.most):
            module["adds"](counter)
        assert counter.numpy()[0] == 50 + 3 * session.batch.most
        module["adds"](counter)
        module["refuses"]()
        module["adds"](counter)
        with pytest.raises(MicroError, match="refuses failed"):
            session.synchronize()
        assert counter.numpy()[0] == 51 + 3 * session.batch.most  # what comes behind an error does not run


def test_faults_of_deferred_calls_name_the_call() -> None:
    with micro.Session(micro.generate_config("mps2_an500", deferred=True, timeout=0.5)) as session:
        module = kernels(session)
        counter = tvm.nd.array(np.array([0], "int32"), session.device)
        for wrong, error in (("undefined", DeviceFault), ("endless", DeviceTimeout)):
            module["adds"](counter)
            module["adds"](counter)
            module[wrong]()
            module["adds"](counter)
            with pytest.raises(error, match=f"^{wrong} "):
                counter.numpy()
        assert counter.numpy()[0] == 4


def test_time_evaluator() -> None:
    with micro.Session(micro.generate_config("mps2_an500", instruction_shift=6)) as session:
        module = kernels(session)
        counter = tvm.nd.array(np.array([0], "int32"), session.device)
        module.time_evaluator("adds", session.device, number=7, repeat=3, f_preproc="adds")(counter)
        assert counter.numpy()[0] == 24
        counter.copyfrom(np.array([0], "int32"))
        result = module.time_evaluator("adds", session.device, number=1, min_repeat_ms=1)(counter)
        assert result.mean * int(counter.numpy()[0]) > 1e-3
        with pytest.raises(ValueError, match="number and repeat must be 1 at least, but are 0 and 1"):
            module.time_evaluator("adds", session.device, number=0)
        with pytest.raises(ValueError, match="cache_flush_bytes is for machines with caches"):
            module.time_evaluator("adds", session.device, cache_flush_bytes=1)
        with pytest.raises(AttributeError, match="has no function 'add'; nearest: adds"):
            module.time_evaluator("add", session.device)


def rate(session: DebugSession, module: MicroModule, count: int) -> float:
    counter = tvm.nd.array(np.array([0], "int32"), session.device)
    begun = time.perf_counter()
    for _ in range(count):
        module["adds"](counter)
    assert counter.numpy()[0] == count
    return count / (time.perf_counter() - begun)


def test_deferred_calls_are_five_times_as_many() -> None:
    with micro.Session("mps2_an500") as session:
        module = kernels(session)
        eager = rate(session, module, 200)
        session.deferred = True
        deferred = rate(session, module, 4000)
        print(f"calls a second: eager {eager:.0f}, deferred {deferred:.0f}")
        assert deferred > 5 * eager


def test_ticks_are_the_same_in_every_run() -> None:
    found = []
    for _ in range(2):
        with micro.Session(micro.generate_config("mps2_an500", instruction_shift=6)) as session:
            module = micro.create_micro_mod(exp_plus(session.board.target("llvm")), session)
            given = arrays(session)
            times = module.time_evaluator("exp_plus", session.device, number=20, repeat=2)(*given)
            module["exp_plus"](*given)
            found.append((times.results, session.ticks))
    # A call begins anywhere between two ticks.
    one, other = found
    np.testing.assert_allclose(one[0], other[0], rtol=2e-3)
    assert abs(one[1] - other[1]) <= 1 and one[1] > 0 and min(one[0]) > 0


@pytest.mark.parametrize("name", ["mps2_an500", "riscv32_virt"])
def test_log(name: str, caplog: pytest.LogCaptureFixture) -> None:
    with micro.Session(name) as session, caplog.at_level("INFO", "tilewright.micro"):
        module = kernels(session)
        text = np.frombuffer(b"hello, " + bytes(range(97, 123)) * 20, np.uint8)
        held = tvm.nd.array(text, session.device)
        for length, expected in (
            (5, "hello"),
            (33, text[:33].tobytes().decode()),
            (400, f"(144 bytes were lost) {text[144:400].tobytes().decode()}"),
        ):
            module["says"](held, tvm.nd.array(np.array([length], "uint32"), session.device))
            assert caplog.messages[-1] == f"{name}: {expected}"
        count = len(caplog.messages)
        works(module)
        assert len(caplog.messages) == count


def test_board_that_is_reset() -> None:
    with micro.Session("mps2_an500") as session:
        module = kernels(session)
        with pytest.raises(
            MicroError, match=r"mps2_an500 was reset, or gave up \(tw_platform_abort\), while resets ran"
        ):
            module["resets"]()
        works(module)


def test_heap() -> None:
    with micro.Session("microbit") as session:
        free = session.heap.free_bytes
        held = [tvm.nd.empty((16,), "float32", session.device) for _ in range(4)]
        assert session.heap.free_bytes == free - 4 * 64
        del held
        assert session.heap.free_bytes == free
        with pytest.raises(
            MemoryError, match=r"microbit: the section 'heap' has no 20000 bytes left: \d+ of \d+ are free"
        ):
            tvm.nd.empty((20000,), "uint8", session.device)


def test_arrays_outlive_their_session() -> None:
    with micro.Session("mps2_an500") as session:
        array = tvm.nd.array(A, session.device)
        device = session.device
    with pytest.raises(MicroError, match="is closed, or was never open"):
        array.numpy()
    with micro.Session("mps2_an500") as other:
        assert other.device != device
    del array


def test_modules_that_do_not_fit() -> None:
    with micro.Session("microbit") as session:
        with pytest.raises(MicroError, match="compile for llvm"):
            micro.create_micro_mod(exp_plus("llvm"), session)
        with pytest.raises(MicroError, match="code of another processor"):
            micro.create_micro_mod(exp_plus(board("riscv32_virt").target("llvm")), session)
        source = (
            b"extern int missing_one(void); int calls(void **a); int calls(void **a) { (void)a; return missing_one(); }"
        )
        with pytest.raises(LinkError, match=r"nothing defines 'missing_one' \(needed by calls.c.text.calls\)"):
            session.load(compile_files(session.board, [("calls.c", source)], SIZE), ["calls"])
        source = b"const char big[300000] = {1}; const char *table(void **a); const char *table(void **a) { (void)a; return big; }"
        with pytest.raises(LinkError, match="the section 'code' has no 300000 bytes left"):
            session.load(compile_files(session.board, [("table.c", source)], SIZE), ["table"])
    with pytest.raises(MicroError, match="no session with microbit is open"):
        micro.create_micro_mod(exp_plus("llvm"), "microbit")


def test_models_that_do_not_fit() -> None:
    """By how much, and which tensors are large."""
    mod, weights = network()
    lib = relay.build(mod, board("mps2_an500").target("llvm"), params=weights, executor=relay.backend.Executor("aot"))
    with micro.Session(micro.generate_config("mps2_an500", section_constraints={"code": 16384})) as session:
        wanted = (
            r"the model does not fit on mps2_an500: the section 'code' has no \d+ bytes left: \d+ of 16384 are free, \d+ of them in one"
            r" piece; \d+ bytes are missing; \d+ bytes are constants, of which the largest are p\d \(10240\), p\d \(432\)"
        )
        with pytest.raises(LinkError, match=wanted):
            micro.create_micro_mod(lib, session)
        works(kernels(session))
    with micro.Session(micro.generate_config("mps2_an500", section_constraints={"heap": 1536})) as session:
        module = micro.create_micro_mod(lib, session)
        wanted = (
            r"the arrays of the model do not fit on mps2_an500: they take \d+ bytes \(x \(768\), output_0 \(40\), and \d+ for what lies"
            r" between kernels, of which the largest are fused_nn_conv2d_nn_relu \(1024\).*\), but 1536 are free; \d+ are missing"
        )
        with pytest.raises(MemoryError, match=wanted):
            MicroExecutor(module)
        assert session.heap.free_bytes == 1536


@pytest.fixture
def lost() -> Iterator[Any]:
    session = micro.Session("mps2_an500")
    session.__enter__()
    yield session
    session.close()


def test_board_that_falls_off(lost: DebugSession) -> None:
    module = kernels(lost)
    assert lost._server is not None
    os.kill(lost._server.process.pid, signal.SIGKILL)
    counter = [np.array([0], "int32")]
    with pytest.raises(ConnectionLost, match="mps2_an500 fell off"):
        module["adds"](tvm.nd.array(counter[0], lost.device))


def test_board_that_stops_answering(lost: DebugSession) -> None:
    module = kernels(lost)
    lost.timeout = 0.3
    assert lost._server is not None
    counter = tvm.nd.array(np.array([0], "int32"), lost.device)
    os.kill(lost._server.process.pid, signal.SIGSTOP)
    try:
        with pytest.raises(DeviceTimeout, match="no answer|stopped answering"):
            module["adds"](counter)
    finally:
        os.kill(lost._server.process.pid, signal.SIGCONT)


@pytest.mark.parametrize("kind", ["llvm", "c"])
def test_functions_of_the_host_are_not_on_a_device(kind: str) -> None:
    a = te.placeholder((8,), name="a")
    b = te.extern((8,), [a], lambda ins, outs: tvm.tir.call_packed("host.function", ins[0], outs[0]), name="b")
    code = tvm.build(te.create_prim_func([a, b]), target=board("mps2_an500").target(kind), name="calls")
    with micro.Session("mps2_an500") as session:
        module = micro.create_micro_mod(code, session)
        x, y = (tvm.nd.array(A, session.device) for _ in range(2))
        with pytest.raises(AttributeError, match="calls: the device has no function host.function"):
            module["calls"](x, y)


def test_large_temporaries_come_from_the_workspace() -> None:
    """A kernel whose temporary is too large for the stack; where the workspace is too small, it says so."""
    a = te.placeholder((400, 256), name="a")
    rows = te.compute((400, 256), lambda i, j: a[i, j] * 2.0, name="rows")
    total = te.compute((400, 256), lambda i, j: rows[399 - i, 255 - j] + 1.0, name="total")
    code = tvm.build(te.create_prim_func([a, total]), target=board("mps2_an500").target("llvm"), name="turns")
    values = np.random.default_rng(3).standard_normal((400, 256)).astype("float32")
    for room, fits in ((1 << 20, True), (4096, False)):
        config = micro.generate_config("mps2_an500", section_constraints={"workspace": room})
        with micro.Session(config) as session:
            module = micro.create_micro_mod(code, session)
            x, y = tvm.nd.array(values, session.device), tvm.nd.empty((400, 256), "float32", session.device)
            if fits:
                module["turns"](x, y)
                np.testing.assert_allclose(y.numpy(), 2 * values[::-1, ::-1] + 1, rtol=1e-6)
            else:
                with pytest.raises(MemoryError, match="^turns.compute0: no memory for a temporary buffer"):
                    module["turns"](x, y)
