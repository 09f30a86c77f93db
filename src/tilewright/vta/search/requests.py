"""When the requests of a copy are sent, and how long it takes for that, request by request, without others on the bus."""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from typing import NamedTuple

from tilewright.vta.compiler.transfers import Transfer
from tilewright.vta.configuration import Configuration

MOST, MOST_BURSTS = 1024, 160
"""Requests of a copy that are looked at, and where all are bursts without padding between; of a longer copy the second half of these comes
several times."""


class Memory(NamedTuple):
    """Bytes of a beat and of a burst, requests at once, cycles until the first beat of a read or the answer to a write."""

    word: int
    burst: int
    requests: int
    latency: int


def memory_of(config: Configuration) -> Memory:
    """The DRAM of an accelerator."""
    return Memory(config.dram_bytes, config.dram_burst, config.dram_requests, config.dram_latency)


def _requests(t: Transfer, size: int, burst: int) -> Iterator[tuple[int, int, int]]:
    """Row, address and bytes of each request of a copy."""
    for row in range(t.rows):
        at = t.dram + row * t.stride * size
        end = at + t.columns * size
        while at < end:
            length = min(end - at, burst - at % burst)
            yield row, at, length
            at += length


def _looked_at(t: Transfer, size: int, sent: int, m: Memory) -> tuple[int, int, int]:
    """How many of the requests are looked at, and how many of the last of these come how many times more."""
    even = t.padding[2] + t.padding[3] == 0 and not any(
        [n % m.burst for n in (t.dram, t.columns * size, t.stride * size)]
    )
    most = MOST_BURSTS if even else MOST
    again = max(most // 2 // m.requests, 1) * m.requests
    times = max(-(-(sent - most) // again), 0)
    return sent - times * again, again, times


@lru_cache(maxsize=1 << 14)
def read(t: Transfer, size: int, requests: int, m: Memory) -> int:
    """Cycles from the first beat of a load to the last of its data. A request is sent when the buffer has room for its data beside all
    that are requested and not yet written."""
    word, burst, latency, buffer = m.word, m.burst, m.latency, m.requests * m.burst
    per_element = -(-size // word)
    most, again, times = _looked_at(t, size, requests, m)
    top, _, left, right = t.padding
    # Cycles in which the last request was sent, its last beat moved, and the last of its data were written; bytes until then.
    sent, moved, written, done = 0, latency, top * (left + t.columns + right) + left, 0
    ends: list[tuple[int, int]] = []
    oldest = last_row = 0
    for row, at, length in _requests(t, size, burst):
        sent, done, padding = sent + 1, done + length, (row - last_row) * (left + right)
        if done > buffer:
            while ends[oldest][0] < done - buffer:
                oldest += 1
            there, when = ends[oldest]
            sent = max(sent, when - (there - done + buffer) // min(word, size) + 1)
        begins = max(sent + latency, moved + 1)
        moved = begins + (at + length - 1) // word - at // word
        written = max(moved + 1, max(written + padding, begins) - (-length * per_element // size))
        ends.append((done, written))
        last_row = row
        if len(ends) == most and times:
            written += times * (written - ends[-1 - again][1])
            break
    return written - latency - 1


@lru_cache(maxsize=1 << 14)
def write(t: Transfer, size: int, requests: int, m: Memory) -> int:
    """Cycles from the first beat of a store to the last. Elements are read while the buffer holds less than a burst and one of them; a
    request is sent when its data are there, and few enough are not answered."""
    most, again, times = _looked_at(t, size, requests, m)
    # Elements for which the buffer has room when so many requests were sent, and when the last of them is read; from when the next go on.
    rooms = [(-(-m.burst // size) + 1, 0)]
    read_until, part = rooms[0][0], 0
    sent = moved = done = first = 0
    ends: list[int] = []
    for _, at, length in _requests(t, size, m.burst):
        done += length
        needs = -(-done // size)
        while rooms[part][0] < needs:
            part += 1
        elements, begins = rooms[part]
        before = rooms[part - 1][0] if part else 0
        sent = max(sent + 1, begins + needs - before + 1)
        if len(ends) >= m.requests:
            sent = max(sent, ends[-m.requests] + m.latency + 1)
        room = -(-(m.burst + done) // size) + 1
        begins = max(read_until, sent - 1)
        read_until = begins + room - rooms[-1][0]
        rooms.append((room, begins))
        moved = max(sent, moved + 1) + (at + length - 1) // m.word - at // m.word
        first = first or sent
        ends.append(moved)
        if len(ends) == most and times:
            moved += times * (moved - ends[-1 - again])
            break
    return moved - first + 1


__all__ = ["Memory", "memory_of", "read", "write"]
