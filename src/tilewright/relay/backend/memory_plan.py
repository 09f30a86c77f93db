"""Static memory plan: which bytes of the one workspace arena every intermediate tensor gets."""

from __future__ import annotations

from collections.abc import Sequence

ALIGNMENT = 64
EXACT_LIMIT = 2000
"""Up to this many tensors the largest are placed first, anywhere they fit; more are placed in the order of time."""


class Storage:
    """A piece of the arena that holds one tensor (or several, one after the other) from step `begin` to step `end`."""

    __slots__ = ("begin", "end", "offset", "size")

    def __init__(self, size: int, begin: int, end: int) -> None:
        self.size, self.begin, self.end, self.offset = align(size), begin, end, -1

    def __repr__(self) -> str:
        return f"Storage({self.size} bytes at {self.offset}, steps {self.begin}..{self.end})"


def align(size: int) -> int:
    """Rounded up to the alignment; empty tensors take no bytes."""
    return -(-size // ALIGNMENT) * ALIGNMENT


def plan(storages: Sequence[Storage]) -> int:
    """Give every storage its offset so that no two that live at the same step overlap; returns the arena's size in bytes."""
    if len(storages) <= EXACT_LIMIT:
        order = sorted(storages, key=lambda s: (-s.size, s.begin))
    else:
        order = sorted(storages, key=lambda s: s.begin)
    placed: list[Storage] = []
    total = 0
    for s in order:
        neighbours = sorted(
            [p for p in placed if p.begin <= s.end and s.begin <= p.end and p.size], key=lambda p: p.offset
        )
        s.offset = best_gap(neighbours, s.size)
        total = max(total, s.offset + s.size)
        placed.append(s)
        if len(storages) > EXACT_LIMIT:
            placed = [p for p in placed if p.end >= s.begin]
    return total


def best_gap(neighbours: Sequence[Storage], size: int) -> int:
    """Offset of the smallest gap between `neighbours` (sorted by offset) that holds `size` bytes, else past them all."""
    best, best_size, end = -1, 0, 0
    for p in neighbours:
        gap = p.offset - end
        if gap >= size and (best < 0 or gap < best_size):
            best, best_size = end, gap
        end = max(end, p.offset + p.size)
    return best if best >= 0 else end
