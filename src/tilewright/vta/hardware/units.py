"""The three units around their data paths."""

from __future__ import annotations

from typing import Any

from amaranth.hdl import Const, Module, Mux, Signal

from tilewright.vta.configuration import Configuration
from tilewright.vta.hardware.control import Control
from tilewright.vta.hardware.reader import PADS, Reader
from tilewright.vta.hardware.steps import Steps
from tilewright.vta.hardware.words import OPCODES, Fields, is_load_of, repeated
from tilewright.vta.hardware.writer import Writer
from tilewright.vta.isa.tables import index_bits


class Loading:
    """Loads of one memory within a unit: a reader, and writes to the memory (`write`, `to`, `element`)."""

    def __init__(self, config: Configuration, memory: str, control: Control) -> None:
        size, bits = config.element_bytes(memory), index_bits(config.depth(memory))
        self.reader = Reader(config, size)
        self.write = Signal()
        self.to = Signal(bits)
        self.element = Signal(8 * size)
        self.module = m = Module()
        reader = self.reader
        m.submodules.reader = reader.module
        head, word = Fields(control.head, config, "load"), Fields(control.word, config, "load")
        self.active = is_load_of(control.word, config, memory)
        pads = {side: getattr(head, f"{'y' if side in ('top', 'bottom') else 'x'}_pad_{side}") for side in PADS}
        m.d.comb += [
            reader.begin.eq(control.begin & is_load_of(control.head, config, memory)), reader.base.eq(head.dram_base),
            reader.rows.eq(head.y_size), reader.columns.eq(head.x_size), reader.stride.eq(head.x_stride),
            reader.busy.eq(control.working & self.active),
        ]  # fmt: skip
        m.d.comb += [reader.pads[side].eq(pads[side]) for side in PADS]
        with m.If(control.begin):
            m.d.sync += self.to.eq(head.sram_base)
        with m.Elif(reader.write):
            m.d.sync += self.to.eq(self.to + 1)
        padding: Any = Const(0, 8 * size)
        if memory != "uop":
            width = config.width(memory)
            padding = Mux(word.pad_min, repeated(-(1 << (width - 1)), width, 8 * size), 0)
        m.d.comb += [self.write.eq(reader.write), self.element.eq(Mux(reader.is_padding, padding, reader.element))]


class LoadUnit:
    """Loads of inp and wgt. taken: whether a product reads them in this cycle."""

    def __init__(self, config: Configuration, control: Control) -> None:
        self.taken = Signal()
        self.module = m = Module()
        self.parts = {memory: Loading(config, memory, control) for memory in ("inp", "wgt")}
        done: Any = 1
        for memory, part in self.parts.items():
            m.submodules[memory] = part.module
            m.d.comb += part.reader.may_write.eq(~self.taken if config.sram_ports == 1 else 1)
            done = Mux(part.active, part.reader.done, done)
        m.d.comb += control.done.eq(done)


class ComputeUnit:
    """Loads of uop and acc, products, the ALU, and the end of a program (`finish`, in the cycle in which it is done)."""

    def __init__(self, config: Configuration, control: Control) -> None:
        self.finish = Signal()
        self.module = m = Module()
        self.parts = {memory: Loading(config, memory, control) for memory in ("uop", "acc")}
        self.steps = steps = Steps(config, control.head, control.word)
        m.submodules.steps = steps.module
        word, head = Fields(control.word, config, "finish"), Fields(control.head, config, "finish")
        is_steps = (word.opcode == OPCODES["gemm"]) | (word.opcode == OPCODES["alu"])
        m.d.comb += [
            steps.begin.eq(control.begin & ((head.opcode == OPCODES["gemm"]) | (head.opcode == OPCODES["alu"]))),
            steps.working.eq(control.working & is_steps),
            self.finish.eq(control.ended & (word.opcode == OPCODES["finish"])),
        ]
        done: Any = Mux(is_steps, steps.finished, 1)
        for memory, part in self.parts.items():
            m.submodules[memory] = part.module
            m.d.comb += part.reader.may_write.eq(1)
            done = Mux(part.active, part.reader.done, done)
        m.d.comb += control.done.eq(done)


class StoreUnit:
    """Stores of out. taken: whether a result is written to out in this cycle."""

    def __init__(self, config: Configuration, control: Control) -> None:
        self.taken = Signal()
        self.module = m = Module()
        self.writer = writer = Writer(config)
        m.submodules.writer = writer.module
        head = Fields(control.head, config, "store")
        m.d.comb += [
            writer.begin.eq(control.begin), writer.base.eq(head.dram_base), writer.first.eq(head.sram_base), writer.rows.eq(head.y_size),
            writer.columns.eq(head.x_size), writer.stride.eq(head.x_stride), writer.busy.eq(control.working),
            writer.may_read.eq(~self.taken if config.sram_ports == 1 else 1), control.done.eq(writer.done),
        ]  # fmt: skip


def route(word: Any, config: Configuration) -> tuple[Any, Any, Any]:
    """The unit of an instruction: whether it is that of loads, of computation, of stores."""
    opcode = Fields(word, config, "load").opcode
    loads, stores = is_load_of(word, config, "inp", "wgt"), opcode == OPCODES["store"]
    return loads, ~(loads | stores), stores


__all__ = ["ComputeUnit", "LoadUnit", "Loading", "StoreUnit", "route"]
