"""Static memory plan: the offsets of the intermediate tensors in one arena."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tilewright.tir.buffer import DATA_ALIGNMENT

EXACT_LIMIT = 2000
"""The most tensors that are placed by size, each in any gap that holds it. More are placed in the order of time."""

RETRY_LIMIT = 600
"""The most tensors for which several orders are tried."""
RETRIES = 6
"""The number of placements that are tried for each order."""


class Storage:
    """A part of the arena that holds one tensor (or several in succession, or the parts of one) from step `begin` to step `end`."""

    __slots__ = ("begin", "end", "offset", "size")

    def __init__(self, size: int, begin: int, end: int) -> None:
        self.size, self.begin, self.end, self.offset = align(size), begin, end, -1

    def __repr__(self) -> str:
        return f"Storage({self.size} bytes at {self.offset}, steps {self.begin}..{self.end})"


def align(size: int) -> int:
    """A size rounded up to the alignment; 0 for empty tensors."""
    return -(-size // DATA_ALIGNMENT) * DATA_ALIGNMENT


ORDERS: tuple[Callable[[Storage], tuple[int, ...]], ...] = (
    lambda s: (-s.size, s.begin),
    lambda s: (-s.size, -s.begin),
    lambda s: (-s.size, s.begin - s.end, s.begin),
    lambda s: (-s.size * (s.end - s.begin + 1), s.begin),
    lambda s: (s.begin - s.end, -s.size),
    lambda s: (s.begin, -s.size),
)
"""The keys by which tensors are sorted before they are placed."""


def plan(storages: Sequence[Storage]) -> int:
    """Sets the offset of every storage, so that no two overlap that are live at the same step. Returns the size of the arena in bytes.

    Placing the largest first is usually the best order. If it leaves gaps at the peak, other orders are tried, and the best is kept."""
    if len(storages) > EXACT_LIMIT:
        return _placed(sorted(storages, key=lambda s: s.begin), in_time=True)
    least = peak(storages)
    best, offsets = -1, [0] * len(storages)
    for key in ORDERS[: None if len(storages) <= RETRY_LIMIT else 1]:
        order = sorted(storages, key=key)
        for _ in range(RETRIES):
            total = _placed(order)
            if best < 0 or total < best:
                best, offsets = total, [s.offset for s in storages]
            # Storages that are above the peak are placed first the next time.
            above = [s for s in order if s.offset + s.size > least]
            if not above or len(storages) > RETRY_LIMIT:
                break
            order = [*above, *[s for s in order if s.offset + s.size <= least]]
        if best == least:
            break
    for s, offset in zip(storages, offsets, strict=True):
        s.offset = offset
    return max(best, 0)


def peak(storages: Sequence[Storage]) -> int:
    """The most bytes that are live at one step, a lower bound of the size of the arena."""
    changes: dict[int, int] = {}
    for s in storages:
        changes[s.begin] = changes.get(s.begin, 0) + s.size
        changes[s.end + 1] = changes.get(s.end + 1, 0) - s.size
    now = most = 0
    for step in sorted(changes):
        now += changes[step]
        most = max(most, now)
    return most


def _placed(order: Sequence[Storage], in_time: bool = False) -> int:
    """Places storages in the given order, each in the smallest gap that holds it. Returns the size of the arena."""
    placed: list[Storage] = []
    total = 0
    for s in order:
        neighbours = sorted(
            [p for p in placed if p.begin <= s.end and s.begin <= p.end and p.size], key=lambda p: p.offset
        )
        s.offset = best_gap(neighbours, s.size)
        total = max(total, s.offset + s.size)
        placed.append(s)
        if in_time:
            placed = [p for p in placed if p.end >= s.begin]
    return total


def best_gap(neighbours: Sequence[Storage], size: int) -> int:
    """The offset of the smallest gap between `neighbours` (sorted by offset) that holds `size` bytes, or else the end of them all."""
    best, best_size, end = -1, 0, 0
    for p in neighbours:
        gap = p.offset - end
        if gap >= size and (best < 0 or gap < best_size):
            best, best_size = end, gap
        end = max(end, p.offset + p.size)
    return best if best >= 0 else end
