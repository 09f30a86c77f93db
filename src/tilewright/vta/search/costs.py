"""The time of single instructions, from the rules of docs/vta_timing.md.

A copy has three parts: a head until its first beat can move, beats that share the bus with others, and a tail. Times count from the cycle
in which an instruction starts to that in which the next one of its unit can."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from tilewright.vta.compiler.transfers import Transfer
from tilewright.vta.configuration import Configuration
from tilewright.vta.search import requests


class Cost(NamedTuple):
    """Cycles of head and tail; beats of the bus, and the most beats in a cycle. gap: of several copies, cycles between them in which none
    is on the bus, for each beat. window, later: of a copy that asks for more than it may at once, beats that it asks for at once (0: these
    are not told apart), and cycles for each beat behind them in which all requests wait for answers."""

    head: float
    beats: float = 0.0
    rate: float = 1.0
    tail: float = 0.0
    gap: float = 0.0
    window: float = 0.0
    later: float = 0.0

    @property
    def alone(self) -> float:
        """Cycles without others on the bus."""
        gaps = self.beats * self.gap + (self.beats - self.window) * self.later
        return self.head + self.beats / self.rate + gaps + self.tail


def _beats(t: Transfer, size: int, config: Configuration) -> tuple[int, int]:
    """Beats and requests of a matrix of elements of `size` bytes: words of DRAM and bursts that its rows touch."""
    word, burst, length = config.dram_bytes, config.dram_burst, t.columns * size
    if length % burst == 0 and t.dram % burst == 0 and t.stride * size % burst == 0:
        return t.rows * length // word, t.rows * length // burst
    beats = sent = 0
    for row in range(t.rows):
        first = t.dram + row * t.stride * size
        last = first + length - 1
        beats += last // word - first // word + 1
        sent += last // burst - first // burst + 1
    return beats, sent


def read(t: Transfer, memory: str, config: Configuration) -> Cost:
    """A load. Padding before the first data is written while these are on their way."""
    size, word, burst = config.element_bytes(memory), config.dram_bytes, config.dram_burst
    count, latency = t.rows * t.columns, config.dram_latency
    if not count:
        return Cost(t.elements + 2)
    top, bottom, left, right = t.padding
    width = left + t.columns + right
    before, behind = top * width + left, bottom * width + right
    beats, sent = _beats(t, size, config)
    written = count * -(-size // word) + t.elements - count - behind - min(before, latency + 1)
    at_once, most = max(beats, written, sent), config.dram_requests * burst / word
    cycles = at_once
    if count * size > (config.dram_requests - 1) * burst and most < latency + 2 + 2 * burst / word:
        cycles = max(cycles, requests.read(_placed(t, burst), size, sent, requests.memory_of(config)))
    if cycles == at_once or beats <= most:
        return Cost(latency + 1, beats, beats / cycles, 2 + behind)
    rate = beats / at_once
    return Cost(latency + 1, beats, rate, 2 + behind, 0.0, most, (cycles - at_once) / (beats - most))


def write(t: Transfer, config: Configuration) -> Cost:
    """A store, which ends with the answer to its last write."""
    size, burst = config.element_bytes("out"), config.dram_burst
    beats, sent = _beats(t, size, config)
    first = min(burst - t.dram % burst, t.columns * size)
    cycles = requests.write(_placed(t, burst), size, sent, requests.memory_of(config))
    at_once = min(max(beats, t.rows * t.columns, sent), cycles)
    return Cost(
        -(-first // size) + 1, beats, beats / at_once, config.dram_latency + 1, later=(cycles - at_once) / beats
    )


def _placed(t: Transfer, burst: int) -> Transfer:
    """A copy with what its requests depend on."""
    return t._replace(sram=0, dram=t.dram % burst)


def steps(count: int, instructions: int, latency: int, visited: int, each: int = 1) -> Cost:
    """A product or an operation of the ALU. visited: accumulators that it goes through before it comes back to one; each: cycles of a
    step."""
    if not count:
        return Cost(2.0 * instructions)
    waits = (-(-count // visited) - 1) * max(latency - visited * each, 0)
    return Cost(count * each + waits + instructions * (latency + 1))


def together(costs: Iterable[Cost]) -> Cost:
    """Instructions behind each other as one: the first head, the last tail, and what is between them as gaps."""
    parts = list(costs)
    if not parts:
        return Cost(0.0)
    first, last = parts[0], parts[-1]
    beats = sum([c.beats for c in parts])
    if not beats:
        return Cost(sum([c.alone for c in parts]))
    if len(parts) == 1:
        return first
    moving = sum([c.alone - c.head - c.tail for c in parts])
    between = sum([c.alone for c in parts]) - first.head - last.tail
    return Cost(first.head, beats, beats / moving, last.tail, (between - moving) / beats)


__all__ = ["Cost", "read", "steps", "together", "write"]
