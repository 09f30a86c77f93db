"""Columns of a tile whose rows are vectors in registers: one lane of each of them.

All columns of a square tile come from one network of shuffles of two vectors: first within parts of 128 bits, at one instruction
each, then of whole parts. A column requests only the shuffles that it needs, and equal instructions are written once. So all n columns
together take n * log2(n) instructions.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache

PART = 128
"""Number of bits within which processors shuffle by one cheap instruction."""
Shuffle = Callable[[str, str, str], str]
"""shuffle(a, b, mask): elements of two vectors, selected by a mask in LLVM's notation."""


def column(rows: Sequence[str], lane: int, bits: int, shuffle: Shuffle) -> str:
    """Lane `lane` of each row. The number of rows is that of their lanes, and a power of two. bits: the bits of an element."""
    n = len(rows)
    part = min(n, PART // bits)
    which, within = divmod(lane, part)
    found = [_in_part(rows[i : i + part], within, n, part, shuffle) for i in range(0, n, part)]
    while len(found) > 1:
        mask = _parts(n, part, which & 1)
        which >>= 1
        found = [shuffle(a, b, mask) for a, b in zip(found[::2], found[1::2], strict=True)]
    return found[0]


def _in_part(rows: Sequence[str], lane: int, n: int, part: int, shuffle: Shuffle) -> str:
    """For each part of 128 bits: the elements of these rows in one column, followed by those in the neighbouring columns."""
    if len(rows) == 1:
        return rows[0]
    half = len(rows) // 2
    a = _in_part(rows[:half], lane >> 1, n, part, shuffle)
    b = _in_part(rows[half:], lane >> 1, n, part, shuffle)
    return shuffle(a, b, _interleaved(n, part, half, lane & 1))


@cache
def _interleaved(n: int, part: int, group: int, high: int) -> str:
    """Mask that interleaves groups of elements of two vectors, from the lower or the upper (`high`) half of each part."""
    start = high * part // 2
    return _text(
        [
            vector + at + j
            for begin in range(0, n, part)
            for at in range(begin + start, begin + start + part // 2, group)
            for vector in (0, n)
            for j in range(group)
        ]
    )


@cache
def _parts(n: int, part: int, odd: int) -> str:
    """Mask of every second part of one vector, then of another."""
    return _text([at + j for at in range(odd * part, 2 * n, 2 * part) for j in range(part)])


def _text(mask: list[int]) -> str:
    return f"<{len(mask)} x i32> <{', '.join([f'i32 {k}' for k in mask])}>"
