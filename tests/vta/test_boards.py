"""Simulated boards as devices: kernels with arguments, configurations, sessions with servers, the classic helpers."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tilewright as tvm
from tilewright import nd, rpc, vta
from tilewright.runtime import remove_global_func
from tilewright.runtime.device_module import LaunchedKernel, device_module
from tilewright.support.errors import TVMError
from tilewright.vta.config_fields import of_fields
from tilewright.vta.environment import Environment
from tilewright.vta.image import UOPS, Kernel, image
from tilewright.vta.isa.assembly import assemble
from tilewright.vta.isa.layout import layout_of
from tilewright.vta.isa.program import Uop, encode
from tilewright.vta.rpc_client import remote_function
from tilewright.vta.testing import simulator

SMALL = {"LOG_BLOCK": 2, "LOG_UOP_BUFF_SIZE": 6, "LOG_INP_BUFF_SIZE": 6, "LOG_WGT_BUFF_SIZE": 7, "LOG_ACC_BUFF_SIZE": 8}
COUNT = 5
ADD = Kernel(
    "add",
    3,
    assemble(
        f"load.uop y_size=1 x_size=1\n"
        f"load.acc y_size=1 x_size={COUNT}\nload.acc sram_base={COUNT} y_size=1 x_size={COUNT}\n"
        f"alu.add uop_end=1 iter_out=1 iter_in={COUNT} dst_factor_in=1 src_factor_in=1 push_next\n"
        f"store y_size=1 x_size={COUNT} pop_prev push_prev\ngemm pop_next\nfinish\n"
    ).instructions,
    [Uop(0, COUNT, 0)],
    [(0, UOPS), (1, 0), (2, 1), (4, 2)],
)
"""c = a + b, of five elements of four numbers."""


@pytest.fixture(autouse=True)
def environment() -> Iterator[Environment]:
    with Environment({"TARGET": "sim", **SMALL}) as env:
        vta.reconfig_runtime(rpc.LocalSession())
        yield env


def module(**fields: Any) -> Any:
    code = image(of_fields({**SMALL, **fields}), [ADD])
    return device_module("ext_dev", "vta", [code], [LaunchedKernel("add", ("handle",) * 3, ())])


def data(device: Any) -> tuple[Any, Any, Any, Any]:
    a, b = (np.arange(COUNT * 4, dtype="int32").reshape(COUNT, 1, 4) * k for k in (1, 3))
    return nd.array(a, device), nd.array(b, device), nd.empty(a.shape, "int8", device), (a + b).astype("int8")


def test_a_kernel() -> None:
    a, b, c, expected = data(tvm.ext_dev(0))
    simulator.clear_stats()
    add = module()["add"]
    add(a, b, c)
    np.testing.assert_array_equal(c.numpy(), expected)
    add(c_like := nd.array(a.numpy() * 2, tvm.ext_dev(0)), b, c)
    np.testing.assert_array_equal(c.numpy(), (c_like.numpy() + b.numpy()).astype("int8"))
    assert simulator.enabled() and simulator.stats()["alu_counter"] == 2 * COUNT and simulator.stats()["programs"] == 2


def test_programs_that_are_checked_and_not_run() -> None:
    a, b, c, expected = data(tvm.ext_dev(0))
    simulator.clear_stats()
    simulator.debug_mode(simulator.DEBUG_SKIP_EXEC)
    try:
        module()["add"](a, b, c)
        assert simulator.stats()["instructions"] == 0
    finally:
        simulator.debug_mode(0)
    module()["add"](a, b, c)
    np.testing.assert_array_equal(c.numpy(), expected)


@pytest.mark.parametrize("coherent", [0, 1])
def test_memory_that_is_not_coherent(coherent: int) -> None:
    with Environment({**SMALL, "COHERENT": coherent}):
        vta.reconfig_runtime(rpc.LocalSession())
        a, b, c, expected = data(tvm.ext_dev(0))
        module(COHERENT=coherent)["add"](a, b, c)
        np.testing.assert_array_equal(c.numpy(), expected)


def test_code_for_another_configuration() -> None:
    a, b, c, _ = data(tvm.ext_dev(0))
    with pytest.raises(
        ValueError,
        match=r"^the code is for an accelerator of another configuration: 1x4x4 \(\w{16}\), but ext_dev\(0\) is 1x4x4",
    ):
        module(DRAM_LATENCY=50)["add"](a, b, c)
    add = module()["add"]
    add(a, b, c)
    with Environment({**SMALL, "DRAM_LATENCY": 50}):
        vta.reconfig_runtime(rpc.LocalSession())
        with pytest.raises(ValueError, match=r"or call vta.reconfig_runtime\(\)$"):
            add(a, b, c)


def test_the_clock_of_a_timed_board() -> None:
    with Environment({"TARGET": "tsim", **SMALL, "HW_FREQ": 200}):
        vta.reconfig_runtime(rpc.LocalSession())
        a, b, c, expected = data(tvm.ext_dev(0))
        timed = module(TARGET="tsim", HW_FREQ=200)
        timed["add"](a, b, c)
        cycles = simulator.stats()["cycle_count"]
        np.testing.assert_array_equal(c.numpy(), expected)
        mean = timed.time_evaluator("add", tvm.ext_dev(0), number=3)(a, b, c).mean
        assert mean == pytest.approx(cycles / 200e6) and cycles > 100


def test_a_board_without_an_accelerator() -> None:
    code = "import tilewright as tvm; tvm.nd.empty((1,), 'int8', tvm.ext_dev(0)); print(tvm.ext_dev(0).device_name);" \
        " tvm.get_global_func('vta.device.stats')(0)"  # fmt: skip
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.stdout == "VTA, not configured\n"
    assert "ext_dev(0) has no accelerator yet; give it one with vta.reconfig_runtime()" in done.stderr


def test_damaged_images() -> None:
    a, b, c, _ = data(tvm.ext_dev(0))
    whole = image(of_fields(SMALL), [ADD])
    for code, message in (
        (whole[:-1], "the code for the accelerator is damaged"),
        (whole + b"x", "the code for the accelerator is damaged"),
        (b"tilewright accelerator program 2\n", "this is no code for an accelerator, or of another version"),
        (whole.replace(b"relocation 4 2", b"relocation 9 2"), "the code for the accelerator is damaged"),
        (whole.replace(b"kernel add", b"kernel sub"), "the code for the accelerator has no kernel `add`"),
    ):
        broken = device_module("ext_dev", "vta", [code], [LaunchedKernel("add", ("handle",) * 3, ())])
        with pytest.raises(ValueError, match=message):
            broken["add"](a, b, c)
    with pytest.raises(ValueError, match="the kernel `add` has 3 arguments, but is given 2"):
        device_module("ext_dev", "vta", [whole], [LaunchedKernel("add", ("handle",) * 2, ())])["add"](a, b)


def test_a_session() -> None:
    """A simulated board is a server: its memory, its accelerator and its counters are there."""
    server = rpc.Server(host="127.0.0.1", port=0, silent=True)
    try:
        remote = rpc.connect("127.0.0.1", server.port)
        vta.program_fpga(remote)
        text = "load.acc dram_base={0} y_size=1 x_size=5\nfinish"
        address = remote_function(remote, "allocate")(0, 80)
        code = encode(layout_of(of_fields(SMALL)), assemble(text.format(address)).instructions)
        place = remote_function(remote, "allocate")(0, len(code))
        remote_function(remote, "write")(0, place, code)
        remote_function(remote, "run")(0, place, 2)
        assert '"acc_load_nbytes": 80' in remote_function(remote, "stats")(0)
        x = nd.array(np.arange(7, dtype="int32"), remote.ext_dev(0))
        assert list(x.numpy()) == list(range(7))
        with Environment({**SMALL, "DRAM_LATENCY": 7}):
            vta.reconfig_runtime(remote)
        assert "dram_latency 7\n" in remote_function(remote, "description")(0)
    finally:
        server.terminate()


def test_the_program_of_a_board(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    command = [sys.executable, "-m", "tilewright.vta.exec.rpc_server", "--host", "127.0.0.1", "--port", "0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as server:
        try:
            assert server.stdout is not None
            line = server.stdout.readline()
            monkeypatch.setenv("VTA_LOCAL_SIM_RPC", line.strip().rpartition(":")[2])
            name = vta.testing.run(lambda env, remote: (env.BLOCK_IN, remote.ext_dev(0).device_name))
        finally:
            server.terminate()
    assert name == (4, "VTA 1x4x4, functional")


def test_run_in_this_process(environment: Environment) -> None:
    def check(env: Environment, remote: Any) -> str:
        assert env is environment
        return str(remote.ext_dev(0).device_name)

    assert vta.testing.run(check) == "VTA 1x4x4, functional"


def test_files_that_make_a_board(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TILEWRIGHT_CACHE_DIR", str(tmp_path))
    path = vta.download_bitstream()
    assert path == vta.get_bitstream_path() and "1x4_i8w8a32_6_6_7_8" in path
    vta.program_fpga(rpc.LocalSession(), path)
    vta.program_bitstream.bitstream_program("sim", path)
    with (
        Environment({**SMALL, "LOG_BLOCK": 3, "LOG_WGT_BUFF_SIZE": 8}),
        pytest.raises(
            ValueError, match="is not for the accelerator of the current environment, sim_1x8_i8w8a32_6_6_8_8"
        ),
    ):
        vta.program_fpga(rpc.LocalSession(), path)
    (tmp_path / "other").write_text("hello")
    with pytest.raises(ValueError, match="this is no description of an accelerator, or one of another version"):
        vta.program_bitstream.bitstream_program("sim", str(tmp_path / "other"))
    with (
        Environment({"TARGET": "pynq", **SMALL}),
        pytest.raises(TVMError, match="there is no hardware description for 'pynq' here"),
    ):
        vta.reconfig_runtime(rpc.LocalSession())


def test_drivers_of_other_boards() -> None:
    """A board's driver registers what programs it."""
    said: list[tuple[Any, ...]] = []
    with pytest.raises(TVMError, match=r"but none has registered 'vta\.intelfocl\.program'"):
        vta.program_bitstream.bitstream_program("intelfocl", "file", 1024)
    with pytest.raises(TVMError, match="there are no boards of type 'other'; there are sim, tsim, pynq, "):
        vta.program_bitstream.bitstream_program("other", "file")
    tvm.register_func("vta.intelfocl.program", lambda *args: said.append(args))
    try:
        vta.program_bitstream.bitstream_program("intelfocl", "file", 1024)
        vta.program_bitstream.intelfocl_bitstream_program("file")
    finally:
        remove_global_func("vta.intelfocl.program")
    assert said == [("file", 1024), ("file", 4 << 30)]
