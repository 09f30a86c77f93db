"""The cost of each way to put a line in order, or to find its first elements (topi/sort.py), in cycles."""

from __future__ import annotations

from math import log

from tilewright.target.core import Core
from tilewright.target.cpu import CpuFacts
from tilewright.topi.side_by_side import LANES as GROUP

LONGEST = 1024
"""Elements up to which forms whose time grows with the square of a number are among the choices."""


SIDE_BY_SIDE = 24
"""The most elements that are held of each line where lines run side by side: code grows with the square of that."""


def order_forms(n: int, number: int, lines: int, wide: bool) -> list[str]:
    """The forms that find the first `number` elements of each of so many lines of n. wide: keys of 64 bits, which no form packs with their
    places."""
    forms = [
        ("inserted", n <= LONGEST),
        ("radix", n > 1),
        ("best", 0 < number <= LONGEST),
        ("ranked", not wide and number > 0 and n <= LONGEST),
        ("side by side", not wide and 0 < number <= SIDE_BY_SIDE and lines > 1),
        ("halved", not wide and 0 < number < n and number <= LONGEST),
    ]
    return [form for form, fits in forms if fits]


def cheapest_order(n: int, number: int, lines: int, wide: bool, cpu: CpuFacts) -> str:
    """The form that takes the fewest cycles, of those whose limits hold."""
    core = cpu.core
    whole = "inserted" if n <= core.inserted_line else "radix"
    cycles: dict[str, float] = {}
    if 0 < number <= core.ranked_elements and not wide:
        cycles["ranked" if n <= core.ranked_line or number == n else "halved"] = _counted(n, number, core)
    if 0 < number <= core.best_elements and n >= 2 * number:
        cycles["best"] = _in_order(n, number, core)
    if 0 < number <= SIDE_BY_SIDE and not wide and lines > 1:
        cycles["side by side"] = _side_by_side(n, number, lines, cpu)
    return min(cycles, key=cycles.__getitem__, default=whole)


def _counted(n: int, number: int, core: Core) -> float:
    """Of a line that is ranked: to find the range of the keys that are wanted, to compare these in vectors, and to write."""
    halves = n > core.ranked_line
    chosen = number if halves else n
    found = core.halved + core.halved_element * n if halves else 0
    return found + core.ranked_pair * chosen * chosen + core.placed * number


def _in_order(n: int, number: int, core: Core) -> float:
    """Of a line whose best elements so far are kept in order: each moves half of the others, by branches that nothing foresees."""
    moved = core.passed * number / 2 + core.mispredicted
    return core.passed * n + number * (1 + log(n / number)) * moved


def _side_by_side(n: int, number: int, lines: int, cpu: CpuFacts) -> float:
    """Of one of several lines in the lanes of vectors: each element is compared with those that are held. Lanes left over are padded
    work."""
    core, pairs = cpu.core, n * number - number * number // 2
    in_lane = core.lane_read * n + core.lane_written * number + core.exchanged / cpu.lanes(32) * pairs
    return in_lane * -(-lines // GROUP) * GROUP / lines


__all__ = ["cheapest_order", "order_forms"]
