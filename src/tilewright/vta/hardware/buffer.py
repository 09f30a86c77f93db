"""A queue of words between a unit and DRAM, whose first word can be read in the cycle after it came."""

from __future__ import annotations

from typing import Any

from amaranth.hdl import Module, Mux, Signal
from amaranth.lib.memory import Memory


class Buffer:
    """put, into: a word comes, with parts of so many bits by name. take, first: the first one goes. there: whether there is one. Parts have
    memories of their own: some decide whether others are read. It must not be full when a word comes."""

    def __init__(self, parts: dict[str, int], depth: int) -> None:
        self.put = Signal()
        self.take = Signal()
        self.there = Signal()
        self.into = {name: Signal(bits, name=f"into_{name}") for name, bits in parts.items()}
        self.first: dict[str, Any] = {}
        self.module = m = Module()
        depth = max(depth, 2)
        begin = Signal(range(depth))
        end = Signal(range(depth))
        level = Signal(range(depth + 1))
        m.d.comb += self.there.eq(level != 0)
        m.d.sync += level.eq(level + self.put - self.take)
        with m.If(self.put):
            m.d.sync += end.eq(Mux(end == depth - 1, 0, end + 1))
        with m.If(self.take):
            m.d.sync += begin.eq(Mux(begin == depth - 1, 0, begin + 1))
        for name, value in self.into.items():
            m.submodules[name] = store = Memory(shape=len(value), depth=depth, init=[])
            to, out = store.write_port(), store.read_port(domain="comb")
            m.d.comb += [to.en.eq(self.put), to.addr.eq(end), to.data.eq(value), out.addr.eq(begin)]
            self.first[name] = out.data


__all__ = ["Buffer"]
