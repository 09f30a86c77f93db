"""What the units have in common: a queue of instructions, tokens, and the states of an instruction."""

from __future__ import annotations

from typing import Any

from amaranth.hdl import Module, Mux, Signal
from amaranth.lib.fifo import SyncFIFOBuffered

from tilewright.vta.configuration import Configuration
from tilewright.vta.hardware.words import Fields, counter

SIDES = ("prev", "next")


class Tokens:
    """A dependency queue: how many tokens it holds."""

    def __init__(self, config: Configuration, name: str) -> None:
        self.give = Signal(name=f"{name}_give")
        self.take = Signal(name=f"{name}_take")
        self.there = Signal(name=f"{name}_there")
        self.room = Signal(name=f"{name}_room")
        self.module = m = Module()
        count = counter(config.token_queue, "count")
        m.d.comb += [self.there.eq(count != 0), self.room.eq(count != config.token_queue)]
        m.d.sync += count.eq(count + self.give - self.take)


class Control:
    """A unit takes an instruction from its queue when its tokens are there (`begin`, with the instruction as `head`), works on it
    (`working`, `word`) until it is `done`, and gives tokens; it waits while there is no room for one. neighbours: by side, the queues (to
    it, from it)."""

    def __init__(self, config: Configuration, neighbours: dict[str, tuple[Tokens, Tokens]]) -> None:
        self.begin = Signal()
        self.working = Signal()
        self.done = Signal()
        self.idle = Signal()
        self.ended = Signal()
        self.word = Signal(config.ins_width)
        self.module = m = Module()
        m.submodules.queue = self.queue = SyncFIFOBuffered(width=config.ins_width, depth=config.command_queue)
        self.head = self.queue.r_data
        head, word = Fields(self.head, config, "finish"), Fields(self.word, config, "finish")
        ready, left = self.queue.r_rdy, []
        giving = Signal()
        works = Signal()
        m.d.comb += [self.idle.eq(~works & ~giving), self.working.eq(works)]
        ending = Signal()
        m.d.comb += ending.eq((works & self.done) | giving)
        blocked: Any = 0
        for side in SIDES:
            if side not in neighbours:
                continue
            to, out = neighbours[side]
            pop, push, owes = getattr(head, f"pop_{side}"), getattr(word, f"push_{side}"), Signal(name=f"owes_{side}")
            blocked = blocked | (pop & ~to.there)
            m.d.comb += to.take.eq(self.begin & pop)
            wanted = Mux(giving, owes, push)
            m.d.comb += out.give.eq(ending & wanted & out.room)
            m.d.sync += owes.eq(wanted & ~out.room)
            left.append(wanted & ~out.room)
        rest: Any = 0
        for one in left:
            rest = rest | one
        m.d.comb += [
            self.begin.eq(self.idle & ready & ~blocked),
            self.queue.r_en.eq(self.begin),
            self.ended.eq(ending & ~rest),
        ]
        with m.If(self.begin):
            m.d.sync += [self.word.eq(self.head), works.eq(1)]
        with m.If(ending):
            m.d.sync += [works.eq(0), giving.eq(rest)]


__all__ = ["SIDES", "Control", "Tokens"]
