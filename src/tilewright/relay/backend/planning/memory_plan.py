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
    """A part of the arena that holds one tensor (or several in succession, or the parts of one) from step `begin` to step `end`.

    over: storages that end at the step at which this one begins, whose memory the kernel of this step has read by the time that it writes
    there, if this storage begins so many bytes before them, or more."""

    __slots__ = ("begin", "end", "offset", "over", "size")

    def __init__(self, size: int, begin: int, end: int, alignment: int = DATA_ALIGNMENT) -> None:
        self.size, self.begin, self.end, self.offset = align(size, alignment), begin, end, -1
        self.over: dict[Storage, int] = {}

    def __repr__(self) -> str:
        return f"Storage({self.size} bytes at {self.offset}, steps {self.begin}..{self.end})"


def align(size: int, alignment: int = DATA_ALIGNMENT) -> int:
    """A size rounded up to the alignment; 0 for empty tensors."""
    return -(-size // alignment) * alignment


ORDERS: tuple[Callable[[Storage], tuple[int, ...]], ...] = (
    lambda s: (-s.size, s.begin),
    lambda s: (-s.size, -s.begin),
    lambda s: (-s.size, s.begin - s.end, s.begin),
    lambda s: (-s.size * (s.end - s.begin + 1), s.begin),
    lambda s: (s.begin - s.end, -s.size),
    lambda s: (s.begin, -s.size),
    lambda s: (-s.begin, -s.size),
)
"""The keys by which tensors are sorted before they are placed."""


def plan(storages: Sequence[Storage]) -> int:
    """Sets the offset of every storage, so that no two overlap that are live at the same step, but as `over` says. Returns the size of the
    arena in bytes.

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

    def change(begin: int, end: int, size: int) -> None:
        changes[begin] = changes.get(begin, 0) + size
        changes[end + 1] = changes.get(end + 1, 0) - size

    for s in storages:
        change(s.begin, s.end, s.size)
        for p, distance in s.over.items():
            change(s.begin, s.begin, -max(min(p.size, s.size - distance), 0))
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
        s.offset = best_gap([_refused(s, p) for p in placed if p.begin <= s.end and s.begin <= p.end and p.size])
        total = max(total, s.offset + s.size)
        placed.append(s)
        if in_time:
            placed = [p for p in placed if p.end >= s.begin]
    return total


def _refused(s: Storage, p: Storage) -> tuple[int, int]:
    """The offsets that `s` cannot have beside `p`: those between these two."""
    before = min(s.over.get(p, s.size), s.size)
    behind = min(p.over.get(s, p.size), p.size)
    return p.offset - before, p.offset + behind


def best_gap(refused: Sequence[tuple[int, int]]) -> int:
    """The offset from 0 on in the smallest gap between offsets that are refused, or else behind them all."""
    best, room, end = -1, 0, 0
    for first, last in sorted(refused):
        if first >= end and (best < 0 or first - end < room):
            best, room = end, first - end
        end = max(end, last)
    return best if best >= 0 else end
