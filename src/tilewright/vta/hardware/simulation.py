"""The hardware in Amaranth's simulator, with a DRAM beside it that keeps the rules of docs/vta_timing.md."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import Any

from amaranth.sim import Simulator

from tilewright.vta.configuration import Configuration
from tilewright.vta.hardware.core import Core
from tilewright.vta.hardware.registers import COUNT_BITS
from tilewright.vta.isa.layout import layout_of
from tilewright.vta.isa.program import Insn, encode

MOST_CYCLES = 1_000_000


class Dram:
    """Blocks of bytes at addresses, and one beat in a cycle: reads in their order, writes in theirs, in turns where both could move."""

    def __init__(self, config: Configuration) -> None:
        self.blocks: dict[int, bytearray] = {}
        self.word, self.latency = config.dram_bytes, config.dram_latency
        self.reads: deque[list[int]] = deque()  # owner, address, beats, ready
        self.writes: deque[list[int]] = deque()  # address, beats
        self.answers: deque[int] = deque()
        self.read_was_last = False

    def _find(self, address: int) -> tuple[bytearray, int] | None:
        for base, block in self.blocks.items():
            if base <= address < base + len(block):
                return block, address - base
        return None

    def read_word(self, address: int) -> int:
        """The word around an address; bytes that are not there are 0."""
        base, word = address - address % self.word, 0
        for n in range(self.word):
            found = self._find(base + n)
            word |= (found[0][found[1]] if found else 0) << (8 * n)
        return word

    def write_word(self, address: int, word: int, strobe: int) -> None:
        base = address - address % self.word
        for n in range(self.word):
            if strobe >> n & 1:
                found = self._find(base + n)
                if found is None:
                    raise IndexError(f"the hardware writes to {base + n:#x}, which is not allocated")
                found[0][found[1]] = word >> (8 * n) & 255


class Hardware:
    """An accelerator of a configuration as logic, and its memory. `run` runs a program from a clean state; `cycles` is what it took."""

    def __init__(self, config: Configuration) -> None:
        self.config, self.dram, self.cycles = config, Dram(config), 0
        self.core = Core(config)

    def run(self, instructions: Sequence[Insn], most: int = MOST_CYCLES) -> None:
        """ValueError for more instructions than the register of their count holds; RuntimeError where the program does not end within so
        many cycles."""
        if len(instructions) >= 1 << COUNT_BITS:
            raise ValueError(
                f"the program has {len(instructions)} instructions; the hardware runs at most {(1 << COUNT_BITS) - 1}"
            )
        code = encode(layout_of(self.config), instructions)
        address = (max([a + len(b) for a, b in self.dram.blocks.items()], default=0) + 0x1FFF) & ~0xFFF
        self.dram.blocks[address] = bytearray(code)
        simulator = Simulator(self.core.module)
        simulator.add_clock(1e-6)

        async def drive(ctx: Any) -> None:
            await self._drive(ctx, address, len(instructions), most)

        simulator.add_testbench(drive)
        try:
            simulator.run()
        finally:
            del self.dram.blocks[address]

    async def _drive(self, ctx: Any, address: int, count: int, most: int) -> None:
        core, port, dram = self.core, self.core.port, self.dram
        ctx.set(core.address, address)
        ctx.set(core.count, count)
        ctx.set(core.start, 1)
        ctx.set(port.arready, 1)
        ctx.set(port.awready, 1)
        await ctx.tick()
        ctx.set(core.start, 0)
        for now in range(most):
            if not ctx.get(core.busy):
                self.cycles = ctx.get(core.cycles)
                return
            self._cycle(ctx, port, dram, now)
            await ctx.tick()
        raise RuntimeError(f"the program has not ended after {most} cycles")

    def _cycle(self, ctx: Any, port: Any, dram: Dram, now: int) -> None:
        ctx.set(port.bvalid, bool(dram.answers and dram.answers[0] <= now))
        if dram.answers and dram.answers[0] <= now:
            dram.answers.popleft()
        if ctx.get(port.awvalid):
            dram.writes.append([ctx.get(port.awaddr), ctx.get(port.awlen) + 1])
        can_read = bool(dram.reads and dram.reads[0][3] <= now)
        can_write = bool(ctx.get(port.wvalid)) and bool(dram.writes)
        reads = can_read and not (can_write and dram.read_was_last)
        if can_read or can_write:
            dram.read_was_last = reads
        ctx.set(port.rvalid, reads)
        ctx.set(port.wready, can_write and not reads)
        if reads:
            owner, address, beats, _ = dram.reads[0]
            ctx.set(port.rid, owner)
            ctx.set(port.rdata, dram.read_word(address))
            ctx.set(port.rlast, beats == 1)
            dram.reads[0][1:3] = [address - address % dram.word + dram.word, beats - 1]
            if beats == 1:
                dram.reads.popleft()
        elif can_write:
            address, beats = dram.writes[0]
            dram.write_word(address, ctx.get(port.wdata), ctx.get(port.wstrb))
            dram.writes[0] = [address - address % dram.word + dram.word, beats - 1]
            if beats == 1:
                dram.answers.append(now + dram.latency)
                dram.writes.popleft()
        if ctx.get(port.arvalid):
            dram.reads.append([ctx.get(port.arid), ctx.get(port.araddr), ctx.get(port.arlen) + 1, now + dram.latency])


__all__ = ["MOST_CYCLES", "Dram", "Hardware"]
