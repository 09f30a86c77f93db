"""The accelerator: fetch, the three units, their queues and memories, a port to DRAM (AXI4) and registers (AXI4-Lite).

Reads of all units share one channel of addresses, on which compute is before load and load before fetch; `ARID` says whose data come.
Data of reads come in the order of their requests."""

from __future__ import annotations

from typing import Any

from amaranth.hdl import Cat, Module, Mux, Signal
from amaranth.lib.memory import Memory

from tilewright.vta.configuration import Configuration
from tilewright.vta.hardware.control import Control, Tokens
from tilewright.vta.hardware.reader import Reader
from tilewright.vta.hardware.registers import COUNT_BITS, Registers
from tilewright.vta.hardware.units import ComputeUnit, LoadUnit, StoreUnit, route
from tilewright.vta.hardware.words import numbers


class Port:
    """The signals of the port to DRAM, those of AXI4 with fixed burst type INCR and full words. Addresses of reads and writes may begin
    within a word; lanes before it are left out."""

    def __init__(self, config: Configuration) -> None:
        word = config.dram_bytes
        self.arvalid = Signal()
        self.arready = Signal()
        self.araddr = Signal(32)
        self.arlen = Signal(8)
        self.arid = Signal(3)
        self.rvalid = Signal()
        self.rready = Signal()
        self.rdata = Signal(8 * word)
        self.rlast = Signal()
        self.rid = Signal(3)
        self.awvalid = Signal()
        self.awready = Signal()
        self.awaddr = Signal(32)
        self.awlen = Signal(8)
        self.wvalid = Signal()
        self.wready = Signal()
        self.wdata = Signal(8 * word)
        self.wstrb = Signal(word)
        self.wlast = Signal()
        self.bvalid = Signal()
        self.bready = Signal()

    def signals(self) -> list[Any]:
        return list(vars(self).values())


class Core:
    """start: runs the program of `count` instructions at `address`. busy: it does. cycles: how many it has taken. port: to DRAM; registers:
    the AXI4-Lite port that starts programs. ValueError where a request would have more beats than AXI4 has."""

    def __init__(self, config: Configuration) -> None:
        if config.dram_burst > 256 * config.dram_bytes:
            raise ValueError(
                "a request of AXI4 has at most 256 beats: DRAM_BURST must be at most 256 * DRAM_BYTES, but they are"
                f" {config.dram_burst} and {config.dram_bytes}"
            )
        self.config, self.port, self.registers = config, Port(config), Registers()
        self.start = Signal()
        self.address = Signal(32)
        self.count = Signal(COUNT_BITS)
        self.busy = Signal()
        self.cycles = Signal(48)
        self.module = m = Module()
        m.submodules.registers = self.registers.module
        go = Signal()
        m.d.comb += [
            go.eq((self.start | self.registers.start) & ~self.busy),
            self.registers.busy.eq(self.busy),
            self.registers.cycles.eq(self.cycles),
        ]
        queues = {
            n: Tokens(config, n) for n in ("load_to_compute", "compute_to_load", "compute_to_store", "store_to_compute")
        }
        for name, tokens in queues.items():
            m.submodules[name] = tokens.module
        pairs = {
            "load": {"next": (queues["compute_to_load"], queues["load_to_compute"])},
            "compute": {
                "prev": (queues["load_to_compute"], queues["compute_to_load"]),
                "next": (queues["store_to_compute"], queues["compute_to_store"]),
            },
            "store": {"prev": (queues["compute_to_store"], queues["store_to_compute"])},
        }  # fmt: skip
        self.controls = {unit: Control(config, neighbours) for unit, neighbours in pairs.items()}
        for unit, control in self.controls.items():
            m.submodules[f"{unit}_control"] = control.module
        self.load = LoadUnit(config, self.controls["load"])
        self.compute = ComputeUnit(config, self.controls["compute"])
        self.store = StoreUnit(config, self.controls["store"])
        for unit in ("load", "compute", "store"):
            m.submodules[unit] = getattr(self, unit).module
        fetch = self._fetch(m, go)
        self._memories(m)
        readers = [
            *[p.reader for p in self.compute.parts.values()],
            *[p.reader for p in self.load.parts.values()],
            fetch,
        ]
        self._reads(m, readers)
        self._writes(m)
        done = Signal()
        finished = Signal()
        m.d.comb += done.eq((finished | self.compute.finish) & self.controls["load"].idle & self.controls["store"].idle)
        with m.If(go):
            m.d.sync += [self.busy.eq(1), self.cycles.eq(0), finished.eq(0)]
        with m.Elif(self.busy):
            m.d.sync += self.cycles.eq(self.cycles + 1)
            with m.If(self.compute.finish):
                m.d.sync += finished.eq(1)
            with m.If(done):
                m.d.sync += self.busy.eq(0)

    def _fetch(self, m: Any, go: Any) -> Reader:
        """Reads the program as one row, and gives each instruction to the queue of its unit."""
        config = self.config
        fetch = Reader(config, config.ins_width // 8)
        m.submodules.fetch = fetch.module
        m.d.comb += [
            fetch.begin.eq(go), fetch.base.eq(Mux(self.start, self.address, self.registers.address)), fetch.rows.eq(1),
            fetch.columns.eq(Mux(self.start, self.count, self.registers.count)), fetch.stride.eq(0), fetch.busy.eq(self.busy),
        ]  # fmt: skip
        room: Any = 0
        for unit, wanted in zip(("load", "compute", "store"), route(fetch.element, config), strict=True):
            queue = self.controls[unit].queue
            m.d.comb += [queue.w_data.eq(fetch.element), queue.w_en.eq(fetch.write & wanted)]
            room = room | (wanted & queue.w_rdy)
        m.d.comb += fetch.may_write.eq(room)
        return fetch

    def _memories(self, m: Any) -> None:
        """The memories on the chip, with a port that reads and one that writes."""
        config, steps = self.config, self.compute.steps
        parts = {**self.load.parts, **self.compute.parts}
        for memory in ("inp", "wgt", "uop", "acc"):
            store = Memory(
                shape=config.element_bits(memory) if memory != "uop" else config.uop_width,
                depth=config.depth(memory),
                init=[],
            )
            m.submodules[f"{memory}_memory"] = store
            to = store.write_port()
            out = store.read_port()
            part = parts[memory]
            m.d.comb += [out.addr.eq(steps.addresses[memory]), out.en.eq(1), steps.data[memory].eq(out.data)]
            if memory == "acc":
                m.d.comb += [
                    to.en.eq(part.write | steps.write), to.addr.eq(Mux(steps.write, steps.to, part.to)),
                    to.data.eq(Mux(steps.write, steps.result, part.element)),
                ]  # fmt: skip
            else:
                m.d.comb += [to.en.eq(part.write), to.addr.eq(part.to), to.data.eq(part.element)]
        m.submodules.out_memory = store = Memory(shape=config.element_bits("out"), depth=config.depth("out"), init=[])
        to, out, writer = store.write_port(), store.read_port(), self.store.writer
        cut: Any = [n[: config.out_width] for n in numbers(steps.result, config.acc_width)]
        m.d.comb += [
            to.en.eq(steps.write), to.addr.eq(steps.to), to.data.eq(Cat(*cut)), out.en.eq(1), out.addr.eq(writer.element),
            writer.data.eq(out.data), self.load.taken.eq(steps.reads_operands), self.store.taken.eq(steps.write),
        ]  # fmt: skip

    def _reads(self, m: Any, readers: list[Reader]) -> None:
        """The first reader that asks is granted; each has a number, by which its data come back."""
        port, word = self.port, self.config.dram_bytes
        free: Any = 1
        m.d.comb += port.rready.eq(1)
        for n, reader in enumerate(readers):
            mine = reader.request & free
            with m.If(mine):
                last = reader.address + reader.size - 1
                beats = (last >> (word - 1).bit_length()) - (reader.address >> (word - 1).bit_length())
                m.d.comb += [port.arvalid.eq(1), port.araddr.eq(reader.address), port.arid.eq(n), port.arlen.eq(beats)]
            m.d.comb += [
                reader.granted.eq(mine & port.arready),
                reader.beat.eq(port.rvalid & (port.rid == n)),
                reader.data.eq(port.rdata),
            ]
            free = free & ~reader.request

    def _writes(self, m: Any) -> None:
        port, writer, word = self.port, self.store.writer, self.config.dram_bytes
        shift = (word - 1).bit_length()
        last = writer.address + writer.size - 1
        m.d.comb += [
            port.awvalid.eq(writer.request), port.awaddr.eq(writer.address), writer.granted.eq(port.awready),
            port.awlen.eq((last >> shift) - (writer.address >> shift)), port.wvalid.eq(writer.beat), writer.accepted.eq(port.wready),
            port.wdata.eq(writer.word), port.wstrb.eq(writer.strobe), port.wlast.eq(writer.last), port.bready.eq(1),
            writer.answer.eq(port.bvalid),
        ]  # fmt: skip

    def signals(self) -> list[Any]:
        """The signals of the two ports."""
        return [*self.port.signals(), *self.registers.signals()]


__all__ = ["Core", "Port"]
