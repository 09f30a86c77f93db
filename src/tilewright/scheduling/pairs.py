"""The cost of products of bytes whose sums are in general registers, in instructions, and their tiles: by pairs of 16-bit numbers (Arm's
DSP extension), or by vectors of 16 bytes (Helium)."""

from __future__ import annotations

from tilewright.target import Target
from tilewright.topi.nn.paired_conv import GROUP, is_widened_apart
from tilewright.topi.utils import ceil_div

REGISTERS = 14
"""General registers that code may use: 16 without the program counter and the stack pointer."""
OTHERS = 7
"""Registers of the innermost loop besides sums: two addresses, the end of the loop, two pairs of data and two of weights."""
LOOP = 3
"""Instructions of a loop besides its body: an addition, a comparison, a branch."""
SPILLED = 5
"""Instructions of a step of a depthwise convolution that move sums of a second place to memory and back: eight sums, two pairs each of data
and weights, and two addresses are just too many."""
UNROLLED = 3
"""Groups in the body of a loop, about."""


DOTS = 6
"""Sums of products of vectors, at most: they are in general registers with even numbers, of which one counts rounds."""


def group_of(target: Target | None) -> int:
    """The adjacent bytes that instructions of a target multiply for a sum in a general register: 4, as two pairs of 16-bit numbers, 16, as
    a vector, or 0."""
    if target is None:
        return 0
    return 16 if target.cpu.byte_dots else 4 if target.cpu.pairs else 0


def dot_costs(places: int, filters: int) -> dict[int, float]:
    """The instructions for 16 products of each of `places` sums of a row, by the places of a tile: a load for each vector of data and of
    weights."""
    most = max(DOTS // filters, 1)
    return {n: -(-places // n) * (n + filters + n * filters + LOOP / UNROLLED) for n in range(1, min(most, places) + 1)}


def group_cost(places: int, filters: int) -> float:
    """Instructions for a group of four products of each sum of a tile: data is loaded two pairs at once, weights are loaded and widened."""
    return places + 3 * filters + 2 * places * filters + LOOP / UNROLLED


def paired_costs(places: int, filters: int) -> dict[int, float]:
    """The instructions for four products of each of `places` sums of a row, by the places of a tile that fit into registers."""
    most = max((REGISTERS - OTHERS) // filters, 1)
    return {n: -(-places // n) * group_cost(n, filters) for n in range(1, min(most, places) + 1)}


def channel_costs(places: int) -> dict[int, float]:
    """The instructions for a product of each of four channels of `places` sums of a row, by the places of a tile."""
    return {n: -(-places // n) * (5.0 * n + 3 + SPILLED * (n - 1)) for n in range(1, min(2, places) + 1)}


def paired_filters(places: int, filters: int, group: int = 4) -> int:
    """The number of filters in a tile for rows of so many places: 1, or a divisor where that takes fewer instructions."""
    most, costs = (DOTS, dot_costs) if group == 16 else (REGISTERS - OTHERS, paired_costs)
    choices = [n for n in range(1, most + 1) if filters % n == 0]
    return min(choices, key=lambda n: min(costs(places, n).values()) / n)


def row_filters(filters: int) -> int:
    """The number of filters in a tile where the data of one row is widened for each tile: the largest divisor for which there are
    registers, one fewer than otherwise, since a word of data is widened beside one of weights."""
    return max([n for n in range(1, REGISTERS - OTHERS) if filters % n == 0])


def conv2d_packing(channels: int, kernel_width: int, places: int, filters: int, group: int) -> tuple[int, bool]:
    """(filters of a tile, whether groups run along rows) of the packed weights of a convolution. places: of a row of results."""
    # A few channels fill no group, but those of neighbours do.
    row = kernel_width * channels
    runs = group != GROUP or (channels % GROUP != 0 and row < GROUP * kernel_width * ceil_div(channels, GROUP))
    return paired_filters(places, filters, group), runs


def dense_packing(rows: int, inner: int, units: int, group: int) -> int:
    """The filters of a tile of the packed weights of a dense layer."""
    apart = group == GROUP and is_widened_apart(rows, inner)
    return row_filters(units) if apart else paired_filters(rows, units, group)


__all__ = [
    "channel_costs", "conv2d_packing", "dense_packing", "dot_costs", "group_of", "paired_costs", "paired_filters", "row_filters",
]  # fmt: skip
