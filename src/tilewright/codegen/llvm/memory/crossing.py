"""Registers read across: one lane of each of many vectors, which is a column of the tile whose rows they are.

All columns of a square tile come from one network of shuffles of two vectors: first within parts of 128 bits, which costs one
instruction each, then of whole parts. A column asks only for what it needs, and equal instructions are written once, so that all of n
columns take n * log2(n) of them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache

PART = 128
"""Bits within which processors shuffle cheaply."""
Shuffle = Callable[[str, str, str], str]
"""shuffle(a, b, mask): the elements of two vectors that a mask names, as LLVM writes it."""


def column(rows: Sequence[str], lane: int, bits: int, shuffle: Shuffle) -> str:
    """Element `lane` of each of the rows, which are as many as they have elements: a power of two. bits: of an element."""
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
    """In each part: groups of the elements that neighbouring columns, from number `lane` of the part's groups on, have in the rows."""
    if len(rows) == 1:
        return rows[0]
    half = len(rows) // 2
    a = _in_part(rows[:half], lane >> 1, n, part, shuffle)
    b = _in_part(rows[half:], lane >> 1, n, part, shuffle)
    return shuffle(a, b, _interleaved(n, part, half, lane & 1))


@cache
def _interleaved(n: int, part: int, group: int, high: int) -> str:
    """Groups of elements of two vectors in turn: of the lower or the upper half of each part."""
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
    """Every second part of one vector, then of another."""
    return _text([at + j for at in range(odd * part, 2 * n, 2 * part) for j in range(part)])


def _text(mask: list[int]) -> str:
    return f"<{len(mask)} x i32> <{', '.join([f'i32 {k}' for k in mask])}>"
