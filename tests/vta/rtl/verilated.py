"""Accelerators as programs that Verilator compiles from their Verilog: a few hundred times as fast as Amaranth's simulator."""

from __future__ import annotations

import hashlib
import os
import subprocess
from collections.abc import Sequence
from pathlib import Path

from tilewright.vta.configuration import Configuration
from tilewright.vta.hardware.synthesis import verilog
from tilewright.vta.image import Kernel, identity
from tilewright.vta.isa.layout import layout_of
from tilewright.vta.isa.program import Insn, encode, encode_uops

ROOT = Path(__file__).parents[3]
BUILD = ROOT / "build" / "verilated"
QUIET = ("WIDTH", "CASEOVERLAP", "DECLFILENAME", "UNUSED")
"""What Verilog from Yosys leaves implicit, or leaves over: widths of operands, cases in their order, names of files, unused wires."""


def verilator(*arguments: str) -> None:
    """Runs Verilator: that of VERILATOR, or the one which the Makefile unpacks. AssertionError with what it says where it fails."""
    home = ROOT / "build" / "verilator" / "usr"
    program = os.environ.get("VERILATOR") or str(home / "bin" / "verilator_bin")
    environment = {**os.environ}
    if "VERILATOR" not in os.environ:
        environment["VERILATOR_ROOT"] = str(home / "share" / "verilator")
    done = subprocess.run([program, *arguments], env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-4000:]


class Verilated:
    """An accelerator of a configuration; it is compiled once and kept in build/."""

    def __init__(self, config: Configuration) -> None:
        self.config = config
        text = verilog(config)
        harness = Path(__file__).with_name("harness.cc")
        self.folder = BUILD / hashlib.sha256((text + harness.read_text()).encode()).hexdigest()[:16]
        self.program = self.folder / "Vvta"
        if not self.program.exists():
            self.folder.mkdir(parents=True, exist_ok=True)
            (self.folder / "vta.v").write_text(text)
            quiet = [f"-Wno-{w}" for w in QUIET]
            options = [
                "-Wall",
                *quiet,
                "--cc",
                "--exe",
                "--build",
                "-O3",
                "--x-assign",
                "0",
                "--x-initial",
                "0",
                "--no-timing",
            ]
            # Only what runs in every cycle is optimised: what begins takes a line for each element of a memory.
            options += ["--top-module", "vta", "--Mdir", str(self.folder), "-MAKEFLAGS", "OPT_FAST=-O1"]
            verilator(*options, str(self.folder / "vta.v"), str(harness))

    def run(self, memory: bytearray, instructions: Sequence[Insn], most: int = 50_000_000) -> int:
        """Runs a program on a memory, whose first byte has address 0, and which it changes. Returns the cycles."""
        code = encode(layout_of(self.config), instructions)
        address = (len(memory) + 4095) & ~4095
        path = self.folder / f"memory-{os.getpid()}"
        path.write_bytes(bytes(memory) + bytes(address - len(memory)) + code + bytes(512))
        command = [str(self.program), str(path), hex(address), str(len(instructions))]
        command += [str(self.config.dram_latency), str(self.config.dram_bytes), str(most)]
        try:
            done = subprocess.run(command, capture_output=True, text=True, check=False)
            assert done.returncode == 0, done.stderr
            memory[:] = path.read_bytes()[: len(memory)]
        finally:
            path.unlink()
        return int(done.stdout)


def placed(config: Configuration, kernel: Kernel, arrays: Sequence[bytes]) -> tuple[bytearray, list[Insn], list[int]]:
    """A memory with the arguments of a kernel and its micro-ops, the instructions with their addresses, and those of the arguments."""
    layout, memory, addresses = layout_of(config), bytearray(4096), []
    square = config.block_in == config.block_out
    for data in [*arrays, identity(config) if square else b"", encode_uops(layout, kernel.uops)]:
        addresses.append(len(memory))
        memory += data + bytes(-len(data) % 4096 + 4096)
    program = list(kernel.instructions)
    for n, argument in kernel.relocations:
        base = addresses[argument]  # of micro-ops and of the identity, UOPS and IDENTITY, from behind
        values = {**program[n].values, "dram_base": program[n]["dram_base"] + base}
        program[n] = Insn(program[n].name, values)
    return memory, program, addresses[: len(arrays)]


__all__ = ["QUIET", "Verilated", "placed", "verilator"]
