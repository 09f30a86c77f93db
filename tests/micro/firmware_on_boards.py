"""Firmware, built by `make` with zig, on emulated boards (make test-micro): its results, and what the report says of it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import tilewright as tvm
from tests.micro.boards import arm_gcc, built, network, use_qemu
from tilewright import micro, relay
from tilewright.micro.board import board
from tilewright.micro.debug.servers import start
from tilewright.runtime.linking.symbol_file import ElfFile

CASES = [
    ("mps2_an385", "c", "bare"), ("mps2_an386", "c", "graph"), ("mps2_an500", "c", "bare"), ("mps2_an500", "llvm", "aot"),
    ("mps2_an505", "c", "aot"), ("mps3_an547", "c", "bare"), ("mps3_an547", "llvm", "graph"), ("microbit", "c", "bare"),
    ("netduinoplus2", "llvm", "aot"), ("riscv32_virt", "c", "bare"), ("riscv32_virt", "llvm", "graph"), ("hifive1", "c", "bare"),
    ("riscv32_virt_v", "llvm", "aot"), ("riscv32_virt_v", "c", "bare"),
]  # fmt: skip
PATTERN = 0xA5


@pytest.fixture(scope="module", autouse=True)
def _qemu() -> None:
    use_qemu()


def make(folder: Path, compiler: str = "zig") -> ElfFile:
    """The program that `make` builds, by zig or by gcc."""
    command = [
        "make",
        "-C",
        str(folder),
        f"ZIG={sys.executable} -m ziglang",
        f"GCC={'none' if compiler == 'zig' else arm_gcc()}",
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0 and "warning" not in done.stderr, done.stdout[-2000:] + done.stderr[-4000:]
    return ElfFile((folder / "firmware.elf").read_bytes())


COMPILED = [(*case, "zig") for case in CASES]
if arm_gcc():
    COMPILED += [(*case, "gcc") for case in CASES if board(case[0]).architecture == "cortex_m"]


@pytest.mark.parametrize(("name", "kind", "executor", "compiler"), COMPILED)
def test_firmware(name: str, kind: str, executor: str, compiler: str, tmp_path: Path) -> None:
    found = board(name)
    report = micro.export_project(built(name, kind, executor), found, tmp_path)
    program = make(tmp_path, compiler)
    # The report is of what zig compiles.
    more = 0.04 if compiler == "zig" else 0.4
    flashed = (tmp_path / "firmware.bin").stat().st_size
    if found.code != found.data:
        assert abs(flashed - report.flash) <= more * flashed, f"flash: {report.flash} told, {flashed} taken"
    address = {n: value & ~1 for n, (_, value, _) in program.symbols.items()}
    x = np.random.default_rng(1).standard_normal((1, 8, 8, 3)).astype("float32")
    mod, weights = network()
    expected = relay.create_executor("graph", mod, tvm.cpu(), "llvm").evaluate()(x, **weights).numpy()
    server = start(found, "qemu", program=tmp_path / "firmware.elf")
    try:
        remote = server.connect()
        remote.set_breakpoint(address["main"])
        remote.set_breakpoint(address["tw_platform_abort"])
        remote.run([], 20)
        assert remote.register("pc") == address["main"]
        remote.write(address["input_x"], x.tobytes())
        top, at = found.data.end, remote.register("sp")
        size = 4 * report.stack
        remote.write(at - size, bytes([PATTERN]) * size)
        remote.clear_breakpoint(address["main"])
        remote.run([], 20)
        assert remote.register("pc") == address["tw_platform_abort"]
        assert remote.register("a0" if found.architecture == "riscv" else "r0") == 0
        output = np.frombuffer(remote.read(address["output_output"], 40), "float32")
        np.testing.assert_allclose(output, expected[0], rtol=1e-4, atol=1e-6)
        untouched = remote.read(at - size, size)
        used = top - at + size - (len(untouched) - len(untouched.lstrip(bytes([PATTERN]))))
        assert 0.3 * (report.stack - report.interrupts) <= used <= report.stack * (1 + more), (
            f"stack: {report.stack} told, {used} used"
        )
    finally:
        server.close()


def test_pools(tmp_path: Path) -> None:
    """The workspace in another memory than the other variables."""
    report = micro.export_project(
        built("mps2_an500", "c", "bare"), "mps2_an500", tmp_path, {"workspace": "psram", "constants": "psram"}
    )
    program = make(tmp_path)
    psram = board("mps2_an500").region("psram")
    for symbol in ("tvmgen_net_workspace", "tvmgen_net_constants"):
        assert psram.start <= program.symbols[symbol][1] < psram.end
    assert {u.region.name: u.parts.get("workspace", 0) for u in report.memories} == {
        "ssram": 0,
        "sram": 0,
        "psram": 1064,
    }


def test_the_linker_refuses_what_does_not_fit(tmp_path: Path) -> None:
    lib = built("microbit", "c", "bare")
    description = {
        "name": "tiny", "model": "nrf51822", "clock_hz": 1000000, "firmware": {"code": "flash", "data": "ram"},
        "memory": [
            {"name": "flash", "start": 0, "size": 0x40000, "kind": "flash"},
            {"name": "ram", "start": 0x20000000, "size": 2048, "kind": "ram"},
        ],
    }  # fmt: skip
    report = micro.export_project(lib, description, tmp_path, check=False)
    assert not report.fits and "It does not fit" in (tmp_path / "report.txt").read_text()
    done = subprocess.run(
        ["make", "-C", str(tmp_path), f"ZIG={sys.executable} -m ziglang", "GCC=none"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode != 0 and "tiny: variables and a stack of" in done.stderr
