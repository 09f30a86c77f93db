"""What the analysis wants to know of a function's machine code."""

from __future__ import annotations

from collections.abc import Sequence


class Code:
    """A function's machine code, as far as the stack is concerned.

    frame: bytes that it takes from the stack, at most: the sum of all that it ever takes. calls: addresses of the functions that it
    calls or goes on in. indirect: whether it calls through pointers. unknown: what the analysis could not follow, as words; "" where
    nothing."""

    def __init__(self) -> None:
        self.frame = 0
        self.calls: set[int] = set()
        self.indirect = False
        self.unknown = ""


def skips(gaps: Sequence[tuple[int, int]], at: int) -> int:
    """The end of the data in code that an address lies in; the address itself where it is code."""
    for start, end in gaps:
        if start <= at < end:
            return end
    return at


__all__ = ["Code", "skips"]
