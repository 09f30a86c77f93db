"""A copy from DRAM: requests ahead of their data, a buffer of beats, and elements, with padding, one in a cycle at most."""

from __future__ import annotations

from typing import Any

from amaranth.hdl import Cat, Const, Module, Mux, Signal

from tilewright.vta.configuration import Configuration
from tilewright.vta.hardware.buffer import Buffer
from tilewright.vta.hardware.rows import ADDRESS, COUNT, Rows, least, to_next

PADS = ("top", "bottom", "left", "right")


class Reader:
    """begin: starts a matrix (base, rows, columns, stride, pads). busy: whether it works in this cycle. request, address, size: what it
    asks for, `granted` in the same cycle. beat, data: a word of DRAM comes. write, element, is_padding: an element is done, if `may_write`.
    done: all are."""

    def __init__(self, config: Configuration, element_bytes: int) -> None:
        self.word, self.burst, self.size_of = config.dram_bytes, config.dram_burst, element_bytes
        window = config.dram_requests * config.dram_burst
        self.aligned = element_bytes % self.word == 0 and min(element_bytes & -element_bytes, 64) >= self.word
        self.begin = Signal()
        self.busy = Signal()
        self.base = Signal(ADDRESS)
        self.rows = Signal(COUNT)
        self.columns = Signal(COUNT)
        self.stride = Signal(COUNT)
        self.pads = {side: Signal(4, name=f"pad_{side}") for side in PADS}
        self.request = Signal()
        self.granted = Signal()
        self.address = Signal(ADDRESS)
        self.size = Signal(range(self.burst + 1))
        self.beat = Signal()
        self.data = Signal(8 * self.word)
        self.write = Signal()
        self.may_write = Signal()
        self.is_padding = Signal()
        self.element = Signal(8 * element_bytes)
        self.done = Signal()
        self.module = m = Module()
        asks, comes = Rows(element_bytes), Rows(element_bytes)
        m.submodules.asks, m.submodules.comes = asks.module, comes.module
        for walk in (asks, comes):
            m.d.comb += [
                walk.begin.eq(self.begin), walk.base.eq(self.base), walk.rows.eq(self.rows),
                walk.row_bytes.eq(self.columns * element_bytes), walk.stride_bytes.eq(self.stride * element_bytes),
            ]  # fmt: skip
        taken = Signal(range(self.word + 1))
        self._ask(m, asks, window, taken)
        head, count, pop = self._buffer(m, comes, window)
        self._assemble(m, head, count, pop, taken)

    def _ask(self, m: Any, asks: Rows, window: int, taken: Any) -> None:
        requested = Signal(range(window + 1))
        m.d.comb += [
            self.address.eq(asks.address), self.size.eq(least(asks.left, to_next(asks.address, self.burst))),
            self.request.eq(self.busy & asks.more & (requested + self.size <= window)),
            asks.advance.eq(self.request & self.granted), asks.step.eq(self.size),
        ]  # fmt: skip
        m.d.sync += requested.eq(Mux(self.begin, 0, requested + Mux(asks.advance, self.size, 0) - taken))

    def _buffer(self, m: Any, comes: Rows, window: int) -> tuple[Any, Any, Any]:
        """The buffer: the bytes of its first beat, how many there are (0: it is empty), and what takes it off."""
        word = self.word
        each = 2 if self.size_of < word else -(-(self.size_of - 1) // word) + 1
        depth = window // word if self.aligned else window // self.size_of * each + each
        valid = Signal(range(word + 1))
        shifted = Signal(8 * word)
        if self.aligned:
            m.d.comb += [valid.eq(word), shifted.eq(self.data)]
        else:
            skip = comes.address[: (word - 1).bit_length()] if word > 1 else Const(0, 1)
            m.d.comb += [
                valid.eq(least(comes.left, to_next(comes.address, word))),
                shifted.eq((self.data >> (skip << 3)) & ((1 << (valid << 3)) - 1)),
            ]
        m.d.comb += [comes.advance.eq(self.beat), comes.step.eq(valid)]
        parts = {"beat": 8 * word} if self.aligned else {"beat": 8 * word, "count": len(valid)}
        beats = Buffer(parts, depth)
        m.submodules.beats = beats.module
        m.d.comb += [beats.put.eq(self.beat), beats.into["beat"].eq(shifted)]
        count = Signal(range(word + 1))
        if self.aligned:
            m.d.comb += count.eq(Mux(beats.there, word, 0))
        else:
            m.d.comb += [beats.into["count"].eq(valid), count.eq(Mux(beats.there, beats.first["count"], 0))]
        return Mux(beats.there, beats.first["beat"], 0), count, beats.take

    def _assemble(self, m: Any, head: Any, count: Any, pop: Any, taken: Any) -> None:
        size, word = self.size_of, self.word
        column = Signal(COUNT + 1)
        row = Signal(COUNT + 1)
        width = Signal(COUNT + 1)
        height = Signal(COUNT + 1)
        pads = {side: Signal(4) for side in PADS}
        rows = Signal(COUNT)
        columns = Signal(COUNT)
        with m.If(self.begin):
            m.d.sync += [pads[side].eq(self.pads[side]) for side in PADS]
            m.d.sync += [
                rows.eq(self.rows), columns.eq(self.columns), column.eq(0), row.eq(0),
                width.eq(self.pads["left"] + self.columns + self.pads["right"]),
                height.eq(self.pads["top"] + self.rows + self.pads["bottom"]),
            ]  # fmt: skip
        outside_row = (row < pads["top"]) | (row >= pads["top"] + rows)
        m.d.comb += [
            self.done.eq((row == height) | (width == 0)),
            self.is_padding.eq(outside_row | (column < pads["left"]) | (column >= pads["left"] + columns)),
        ]
        works = Signal()
        ends = Signal()
        moves = Signal()
        partial = Signal(range(size + 1))
        built = Signal(8 * size)
        m.d.comb += [works.eq(self.busy & ~self.done), moves.eq(works & ~self.is_padding & (taken != 0))]
        take = Signal(range(word + 1))
        grown = Signal(8 * size)
        if self.aligned:
            m.d.comb += [take.eq(count), ends.eq(partial == size - word), pop.eq(moves)]
            m.d.comb += grown.eq(Cat(built, head)[8 * word :])
        else:
            held = Signal(range(2 * word))
            bytes_held = Signal(8 * (2 * word - 1))
            view = Signal(8 * (2 * word))
            there = Signal(range(3 * word))
            wants = Signal()
            m.d.comb += [
                wants.eq(held < word), there.eq(held + Mux(wants, count, 0)), view.eq(bytes_held | Mux(wants, head << (held << 3), 0)),
                take.eq(least(least(there, word), size - partial)), ends.eq(take == size - partial), pop.eq(moves & wants & (count != 0)),
                grown.eq(Cat(built, view[: 8 * word]) >> (take << 3)),
            ]  # fmt: skip
            with m.If(moves):
                m.d.sync += [held.eq(there - take), bytes_held.eq(view >> (take << 3))]
        m.d.comb += [
            taken.eq(Mux(works & ~self.is_padding & (~ends | self.may_write), take, 0)),
            self.write.eq((moves & ends) | (works & self.is_padding & self.may_write)), self.element.eq(grown),
        ]  # fmt: skip
        with m.If(moves):
            m.d.sync += [partial.eq(Mux(ends, 0, partial + take)), built.eq(grown)]
        with m.If(self.write):
            with m.If(column + 1 == width):
                m.d.sync += [column.eq(0), row.eq(row + 1)]
            with m.Else():
                m.d.sync += column.eq(column + 1)


__all__ = ["PADS", "Reader"]
