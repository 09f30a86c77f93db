"""The registers that the host sees: an AXI4-Lite port of 32 bits.

| address | register | |
|---|---|---|
| 0x00 | control | write 1: run the program; read: bit 0 is set while it runs |
| 0x04 | address | of the program in DRAM, in 32 bits |
| 0x08 | count | of its instructions, in 16 bits |
| 0x0c, 0x10 | cycles | of the last program: low 32 bits and high 16 |
"""

from __future__ import annotations

from typing import Any

from amaranth.hdl import Module, Signal

CONTROL, ADDRESS, COUNT, CYCLES_LOW, CYCLES_HIGH = range(0, 20, 4)
COUNT_BITS = 16
"""Bits of the number of instructions of a program."""


class Registers:
    """Signals of the port under their names in AXI4-Lite, with `s_` before them; start, address and count for the core, busy and cycles
    from it."""

    def __init__(self) -> None:
        self.start = Signal()
        self.address = Signal(32)
        self.count = Signal(COUNT_BITS)
        self.busy = Signal()
        self.cycles = Signal(48)
        self.s_awvalid = Signal()
        self.s_awready = Signal()
        self.s_awaddr = Signal(8)
        self.s_wvalid = Signal()
        self.s_wready = Signal()
        self.s_wdata = Signal(32)
        self.s_bvalid = Signal()
        self.s_bready = Signal()
        self.s_arvalid = Signal()
        self.s_arready = Signal()
        self.s_araddr = Signal(8)
        self.s_rvalid = Signal()
        self.s_rready = Signal()
        self.s_rdata = Signal(32)
        self.module = m = Module()
        write = Signal()
        m.d.comb += [
            write.eq(self.s_awvalid & self.s_wvalid & (~self.s_bvalid | self.s_bready)), self.s_awready.eq(write), self.s_wready.eq(write),
            self.s_arready.eq(~self.s_rvalid | self.s_rready), self.start.eq(write & (self.s_awaddr == CONTROL) & self.s_wdata[0]),
        ]  # fmt: skip
        with m.If(self.s_bready):
            m.d.sync += self.s_bvalid.eq(0)
        with m.If(write):
            m.d.sync += self.s_bvalid.eq(1)
            with m.If(self.s_awaddr == ADDRESS):
                m.d.sync += self.address.eq(self.s_wdata)
            with m.If(self.s_awaddr == COUNT):
                m.d.sync += self.count.eq(self.s_wdata)
        with m.If(self.s_rready):
            m.d.sync += self.s_rvalid.eq(0)
        with m.If(self.s_arvalid & self.s_arready):
            m.d.sync += self.s_rvalid.eq(1)
            with m.Switch(self.s_araddr):
                for at, value in (
                    (CONTROL, self.busy),
                    (ADDRESS, self.address),
                    (COUNT, self.count),
                    (CYCLES_LOW, self.cycles[:32]),
                    (CYCLES_HIGH, self.cycles[32:]),
                ):
                    with m.Case(at):
                        m.d.sync += self.s_rdata.eq(value)
                with m.Default():
                    m.d.sync += self.s_rdata.eq(0)

    def signals(self) -> list[Any]:
        return [value for name, value in vars(self).items() if name.startswith("s_")]


__all__ = ["ADDRESS", "CONTROL", "COUNT", "COUNT_BITS", "CYCLES_HIGH", "CYCLES_LOW", "Registers"]
