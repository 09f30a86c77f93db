"""The hardware in Amaranth's simulator (`make test-rtl`): random programs on random accelerators, single rules of timing, the registers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from amaranth.sim import Simulator as Simulation

from tests.examples.pages import blocks_of
from tests.vta.rtl.programs import near, one
from tilewright.vta.config_fields import of_fields
from tilewright.vta.hardware.core import Core
from tilewright.vta.hardware.registers import ADDRESS, CONTROL, COUNT, CYCLES_LOW
from tilewright.vta.hardware.simulation import Hardware
from tilewright.vta.isa.assembly import assemble
from tilewright.vta.isa.layout import layout_of
from tilewright.vta.isa.program import Uop, encode, encode_uops
from tilewright.vta.simulator.native import Simulator

SMALL: dict[str, Any] = {
    "TARGET": "tsim", "BATCH": 1, "BLOCK_IN": 4, "BLOCK_OUT": 4, "INP_BUFF_SIZE": 256, "WGT_BUFF_SIZE": 1024, "ACC_BUFF_SIZE": 1024,
    "UOP_BUFF_SIZE": 64, "COMMAND_QUEUE": 16, "TOKEN_QUEUE": 8,
}  # fmt: skip
LAYER = """
load.uop dram_base=0x1000 y_size=1 x_size=2
gemm uop_end=1 iter_out=1 iter_in=32 dst_factor_in=1 reset
load.inp dram_base=0x1100 y_size=2 x_size=8 x_stride=8 x_pad_left=1 y_pad_top=1
load.wgt dram_base=0x1400 y_size=1 x_size=32 push_next
gemm uop_end=1 iter_out=4 iter_in=16 dst_factor_in=1 src_factor_in=1 wgt_factor_out=2 wgt_factor_in=1 pop_prev
alu.shr uop_end=1 iter_out=1 iter_in=16 dst_factor_in=1 use_imm imm=3
alu.add uop_begin=1 uop_end=2 iter_out=1 iter_in=8 dst_factor_in=1 src_factor_in=1 push_next
store dram_base=0x1800 y_size=1 x_size=16 pop_prev push_prev
finish pop_next
"""


def cycles(text: str, **fields: Any) -> tuple[int, int]:
    """Cycles of a program in the hardware and in the cycle-level simulator, whose memory is the same afterwards. Its micro-ops are at
    0x1000."""
    config = of_fields({**SMALL, **fields})
    program = assemble(text).instructions
    data = bytearray(np.random.default_rng(0).bytes(0x1000))
    uops = encode_uops(layout_of(config), [Uop(), Uop(0, 9, 0)])
    data[: len(uops)] = uops
    simulator, hardware = Simulator(config), Hardware(config)
    assert simulator.allocate(len(data)) == 0x1000
    simulator.write(0x1000, data)
    hardware.dram.blocks[0x1000] = data
    simulator.run(program)
    hardware.run(program, 100_000)
    assert simulator.read(0x1000, len(data)) == bytes(data)
    return hardware.cycles, int(simulator.stats()["cycle_count"])


@pytest.mark.parametrize("seed", range(14))
def test_random_programs(seed: int) -> None:
    found = one(seed, 8)
    if found is not None:
        assert near(*found)


@pytest.mark.parametrize(
    "fields",
    [
        {},
        {"SRAM_PORTS": 1},
        {"GEMM_LATENCY": 1, "ALU_LATENCY": 1},
        {"GEMM_LATENCY": 7, "ALU_LATENCY": 5},
        {"DRAM_BYTES": 32},
        {"DRAM_REQUESTS": 1},
    ],
    ids=str,
)
def test_a_layer(fields: dict[str, int]) -> None:
    hardware, simulator = cycles(LAYER, **fields)
    assert hardware == pytest.approx(simulator, rel=0.03)


def test_a_step_takes_a_cycle() -> None:
    text = "load.uop dram_base=0x1000 y_size=1 x_size=2\ngemm uop_end=1 iter_out={} iter_in=8 dst_factor_in=1 reset\nfinish"
    for latency in (1, 4, 12):
        few, many = (cycles(text.format(n), GEMM_LATENCY=latency) for n in (5, 25))
        assert many[0] - few[0] == many[1] - few[1] == 20 * max(8, latency)


def test_registers() -> None:
    """The host starts a program, waits until it is done, and reads its cycles."""
    config = of_fields(SMALL)
    hardware, found = Hardware(config), {}
    code = encode(layout_of(config), assemble("gemm\nfinish").instructions)
    hardware.dram.blocks[0x1000] = bytearray(code)
    core: Core = hardware.core

    async def drive(ctx: Any) -> None:
        r, now = core.registers, 0
        ctx.set(core.port.arready, 1)

        async def tick() -> None:
            nonlocal now
            hardware._cycle(ctx, core.port, hardware.dram, now)
            await ctx.tick()
            now += 1

        async def write(address: int, value: int) -> None:
            for name, given in (
                ("s_awaddr", address),
                ("s_wdata", value),
                ("s_awvalid", 1),
                ("s_wvalid", 1),
                ("s_bready", 1),
            ):
                ctx.set(getattr(r, name), given)
            await tick()
            ctx.set(r.s_awvalid, 0)
            ctx.set(r.s_wvalid, 0)
            assert ctx.get(r.s_bvalid)
            await tick()

        async def read(address: int) -> int:
            for name, given in (("s_araddr", address), ("s_arvalid", 1), ("s_rready", 1)):
                ctx.set(getattr(r, name), given)
            await tick()
            ctx.set(r.s_arvalid, 0)
            value = int(ctx.get(r.s_rdata))
            await tick()
            return value

        await write(ADDRESS, 0x1000)
        await write(COUNT, 2)
        found["address"] = await read(ADDRESS)
        await write(CONTROL, 1)
        found["busy"] = await read(CONTROL)
        while await read(CONTROL):
            pass
        found["cycles"] = await read(CYCLES_LOW)

    simulation = Simulation(core.module)
    simulation.add_clock(1e-6)
    simulation.add_testbench(drive)
    simulation.run()
    assert found["address"] == 0x1000 and found["busy"] == 1
    simulator = Simulator(config)
    simulator.run(assemble("gemm\nfinish").instructions)
    assert found["cycles"] == pytest.approx(simulator.stats()["cycle_count"], abs=3)


def test_a_program_that_does_not_end() -> None:
    with pytest.raises(RuntimeError, match="the program has not ended after 300 cycles"):
        Hardware(of_fields(SMALL)).run(assemble("gemm pop_prev\nfinish").instructions, 300)


def test_limits_of_the_ports() -> None:
    with pytest.raises(
        ValueError, match=r"at most 256 beats: DRAM_BURST must be at most 256 \* DRAM_BYTES, but they are 512 and 1"
    ):
        Hardware(of_fields({**SMALL, "DRAM_BYTES": 1, "DRAM_BURST": 512}))
    program = assemble("finish").instructions * 65536
    with pytest.raises(ValueError, match="the program has 65536 instructions; the hardware runs at most 65535"):
        Hardware(of_fields(SMALL)).run(program)


def test_the_page(capsys: pytest.CaptureFixture[str]) -> None:
    """The program of docs/vta_hardware.md, which needs the extra."""
    page = (Path(__file__).parents[3] / "docs" / "vta_hardware.md").read_text()
    (program,) = [b for b in blocks_of(page) if b.language == "python no-run"]
    exec("\n".join(program.lines), {})
    shown = next(b for b in blocks_of(page) if b.language == "text")
    assert capsys.readouterr().out.split() == shown.lines
