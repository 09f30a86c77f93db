"""The cost of each way to put a line in order, or to find its first elements (topi/sort.py), in cycles."""

from __future__ import annotations

from math import inf, log

from tilewright.target.core import Core

LONGEST = 1024
"""Elements up to which forms whose time grows with the square of a number are among the choices."""


def order_forms(n: int, number: int, wide: bool) -> list[str]:
    """The forms that find the first `number` elements of a line of n. wide: keys of 64 bits, which no form packs with their places."""
    forms = [
        ("inserted", n <= LONGEST),
        ("radix", n > 1),
        ("best", 0 < number <= LONGEST),
        ("ranked", not wide and number > 0 and n <= LONGEST),
        ("halved", not wide and 0 < number < n and number <= LONGEST),
    ]
    return [form for form, fits in forms if fits]


def cheapest_order(n: int, number: int, wide: bool, core: Core) -> str:
    """The form that takes the fewest cycles, of those whose limits hold."""
    whole = "inserted" if n <= core.inserted_line else "radix"
    if not 0 < number <= core.ranked_elements:
        return whole
    ranked = "ranked" if n <= core.ranked_line or number == n else "halved"
    in_order = _in_order(n, number, core) if n >= 2 * number and number <= core.best_elements else inf
    if not wide and (in_order == inf or _counted(n, number, core) < in_order):
        return ranked
    return whole if in_order == inf else "best"


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


__all__ = ["cheapest_order", "order_forms"]
