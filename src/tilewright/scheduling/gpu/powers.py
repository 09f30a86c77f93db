"""Powers of two, of which numbers of threads and sizes of tiles are."""

from __future__ import annotations


def power_below(n: int) -> int:
    """The greatest power of two that is no larger than n; 1 for less."""
    return 1 << (max(n, 1).bit_length() - 1)


def powers(least: int, most: int) -> list[int]:
    """Powers of two from one to the other."""
    return [1 << k for k in range(least.bit_length() - 1, most.bit_length())]


__all__ = ["power_below", "powers"]
