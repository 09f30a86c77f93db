"""A copy to DRAM: elements are read, one in a cycle at most, and go out as beats; requests follow when their data are there."""

from __future__ import annotations

from typing import Any

from amaranth.hdl import Const, Module, Mux, Signal

from tilewright.vta.configuration import Configuration
from tilewright.vta.hardware.buffer import Buffer
from tilewright.vta.hardware.rows import ADDRESS, COUNT, Rows, least, to_next
from tilewright.vta.isa.tables import index_bits


class Writer:
    """begin: starts a matrix (first, base, rows, columns, stride). read, element: which one of the memory is read, if `may_read`; `data`
    comes in the next cycle. request, address, size: a request, `granted` in the same cycle. beat, word, strobe, last: data that go, when
    `accepted`. answer: a request is done."""

    def __init__(self, config: Configuration) -> None:
        size, word, burst = config.element_bytes("out"), config.dram_bytes, config.dram_burst
        self.begin = Signal()
        self.busy = Signal()
        self.done = Signal()
        self.first = Signal(index_bits(config.depth("out")))
        self.base = Signal(ADDRESS)
        self.rows = Signal(COUNT)
        self.columns = Signal(COUNT)
        self.stride = Signal(COUNT)
        self.read = Signal()
        self.may_read = Signal()
        self.element = Signal(len(self.first))
        self.data = Signal(8 * size)
        self.request = Signal()
        self.granted = Signal()
        self.address = Signal(ADDRESS)
        self.size = Signal(range(burst + 1))
        self.beat = Signal()
        self.accepted = Signal()
        self.word = Signal(8 * word)
        self.strobe = Signal(word)
        self.last = Signal()
        self.answer = Signal()
        self.module = m = Module()
        asks, goes = Rows(size), Rows(size)
        m.submodules.asks, m.submodules.goes = asks.module, goes.module
        for walk in (asks, goes):
            m.d.comb += [
                walk.begin.eq(self.begin), walk.base.eq(self.base), walk.rows.eq(self.rows), walk.row_bytes.eq(self.columns * size),
                walk.stride_bytes.eq(self.stride * size),
            ]  # fmt: skip
        column = Signal(COUNT)
        left = Signal(COUNT)
        width = Signal(COUNT)
        at = Signal(len(self.first))
        held = Signal(range(burst + 2 * size + 1))
        waiting = Signal(range(config.dram_requests + 1))
        pending = Signal(range((config.dram_requests + 1) * burst + 1))
        kept = Signal(range(burst + 2 * size + 1))
        sent = Signal(range(word + 1))
        m.d.comb += [
            self.address.eq(asks.address), self.size.eq(least(asks.left, to_next(asks.address, burst))),
            self.request.eq(self.busy & asks.more & (held >= self.size) & (waiting != config.dram_requests)),
            asks.advance.eq(self.request & self.granted), asks.step.eq(self.size), kept.eq(held - Mux(asks.advance, self.size, 0)),
            self.read.eq(self.busy & (left != 0) & (kept < burst + size) & self.may_read), self.element.eq(at),
            self.done.eq((left == 0) & ~asks.more & (waiting == 0)),
        ]  # fmt: skip
        m.d.sync += [
            held.eq(kept + Mux(self.read, size, 0)), waiting.eq(waiting + asks.advance - self.answer),
            pending.eq(pending + Mux(asks.advance, self.size, 0) - sent),
        ]  # fmt: skip
        with m.If(self.begin):
            m.d.sync += [
                at.eq(self.first),
                width.eq(self.columns),
                column.eq(0),
                left.eq(Mux(self.columns == 0, 0, self.rows)),
            ]
        with m.Elif(self.read):
            m.d.sync += at.eq(at + 1)
            with m.If(column + 1 == width):
                m.d.sync += [column.eq(0), left.eq(left - 1)]
            with m.Else():
                m.d.sync += column.eq(column + 1)
        self._beats(m, config, goes, pending, sent)

    def _beats(self, m: Any, config: Configuration, goes: Rows, pending: Any, sent: Any) -> None:
        """The bytes of elements that lie in a word of DRAM are a beat. Elements of a word or more wait as they are, as each gives a beat in
        every cycle; of smaller ones the beats wait, since it takes several cycles until one is there."""
        size, word, burst = config.element_bytes("out"), config.dram_bytes, config.dram_burst
        depth = ((config.dram_requests + 1) * burst) // size + 4
        comes = Signal()
        held = Signal(range(word + size))
        kept = Signal(8 * (word + size))
        there = Signal(range(2 * word + size))
        view = Signal(8 * (word + size))
        count = Signal(range(word + 1))
        ready = Signal()
        skip = goes.address[: (word - 1).bit_length()] if word > 1 else Const(0, 1)
        last = (count == goes.left) | (count == to_next(goes.address, burst))
        whole = view << (skip << 3)
        m.d.sync += comes.eq(self.read)
        m.d.comb += [
            count.eq(least(goes.left, to_next(goes.address, word))), ready.eq(goes.more & (there >= count)), goes.step.eq(count)
        ]  # fmt: skip
        taken = Mux(goes.advance, count, 0)
        m.d.sync += [held.eq(there - taken), kept.eq(view >> (taken << 3))]
        strobe = ((1 << count) - 1) << skip
        if size < word:
            parts = {"count": len(count), "last": 1, "word": 8 * word, "strobe": word}
            beats = Buffer(parts, depth)
            m.submodules.beats = beats.module
            m.d.comb += [
                there.eq(held + Mux(comes, size, 0)), view.eq(kept | Mux(comes, self.data << (held << 3), 0)), goes.advance.eq(ready),
                beats.put.eq(ready), beats.into["count"].eq(count), beats.into["last"].eq(last), beats.into["word"].eq(whole),
                beats.into["strobe"].eq(strobe), self.beat.eq(beats.there & (pending >= beats.first["count"])),
                beats.take.eq(self.beat & self.accepted), sent.eq(Mux(beats.take, beats.first["count"], 0)),
                self.word.eq(beats.first["word"]), self.strobe.eq(beats.first["strobe"]), self.last.eq(beats.first["last"]),
            ]  # fmt: skip
            return
        elements = Buffer({"element": 8 * size}, depth)
        m.submodules.elements = elements.module
        m.d.comb += [
            elements.put.eq(comes), elements.into["element"].eq(self.data), elements.take.eq((held < word) & elements.there),
            there.eq(held + Mux(elements.take, size, 0)), view.eq(kept | Mux(elements.take, elements.first["element"] << (held << 3), 0)),
            self.beat.eq(ready & (pending >= count)), goes.advance.eq(self.beat & self.accepted), sent.eq(taken), self.word.eq(whole),
            self.strobe.eq(strobe), self.last.eq(last),
        ]  # fmt: skip


__all__ = ["Writer"]
