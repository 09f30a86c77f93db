"""The cost model that chooses register tiles: loads against multiply-adds, accumulators against registers."""

from __future__ import annotations

from functools import cache
from typing import Any, NamedTuple

from tilewright import tir

MAX_ROWS = 30

MATERIALIZE = "tilewright.materialize"
"""Block annotation: a stage that is computed once into memory (a packed operand), not inlined into its readers."""

WOVEN = "tilewright.woven"
"""Block annotation: vectors of several places, whose elements the reader interleaves."""


@cache
def divisors(n: int, most: int) -> tuple[int, ...]:
    """Divisors of n up to `most`."""
    return tuple([d for d in range(1, min(n, most) + 1) if n % d == 0])


def tile_cost(
    rows: int, columns: int, registers: int, vectors_of_rows: bool = False, pointers: int = 0
) -> float | None:
    """Cycles per multiply-add of a tile of rows x columns vectors; None if it does not fit the registers.

    Each step of the reduction loads `columns` vectors and broadcasts `rows` scalars (two loads per cycle). The vectors
    come from the second cache level (one every two cycles). It issues rows * columns multiply-adds (two per cycle, four
    cycles until the next one can use the same accumulator). With `vectors_of_rows`, rows are vectors, too, not scalars.
    `pointers`: addresses without a constant distance; those that do not fit into registers are loaded as well.
    """
    if rows * columns + columns + 1 > registers:
        return None
    work = rows * columns
    streamed = (2 * rows + 2 * columns) / work if vectors_of_rows else 2 / rows
    return max(0.5, (rows + columns + max(0, pointers - POINTERS)) / 2 / work, 4 / work, streamed)


POINTERS = 9
"""The number of addresses that fit into registers in the loop of a reduction."""


@cache
def register_tile(rows: int, columns: int, registers: int, most: int = MAX_ROWS) -> tuple[int, int]:
    """The tile (rows, vectors of columns) with the least cost, from divisors of the extents. Among equals: the one with
    the least traffic.

    registers: vector registers of the target. most: the largest number of rows.
    """
    best, choice = (float("inf"), 0.0), (1, 1)
    for r in divisors(rows, most):
        for c in divisors(columns, 8):
            cost = tile_cost(r, c, registers)
            if cost is None:
                continue
            # Column vectors stream from the second cache level, row scalars stay in the first: rows save more.
            rank = (round(cost, 3), 4 / r + 1 / c)
            if rank < best:
                best, choice = rank, (r, c)
    return choice


@cache
def image_tile(height: int, width: int, columns: int, registers: int) -> tuple[int, int, int]:
    """The tile (lines, rows of each, vectors of columns) over an image of `height` lines of `width` rows: part of a
    line, or several short lines.
    """
    rows, c = register_tile(width, columns, registers)
    best = (round(tile_cost(rows, c, registers) or 2.0, 3), 4 / rows + 1 / c), (1, rows, c)
    for lines in divisors(height, MAX_ROWS // width)[1:] if rows == width else ():
        for c in divisors(columns, 8):
            cost = tile_cost(lines * width, c, registers)
            if cost is not None:
                best = min(best, ((round(cost, 3), 4 / (lines * width) + 1 / c), (lines, width, c)))
    return best[1]


LONG_BODY, SHORT_BODY = 128, 64
"""The multiply-adds in the body of a reduction loop: of the only one, and of the innermost of several. Convolutions of
more than 64 ran 10 to 15 % slower (ResNet-50, AVX-512), matrix products of fewer than 100 up to 2 %.
"""


def unroll_factor(extent: int, work: int, most: int = LONG_BODY) -> int:
    """The factor by which to unroll a reduction loop whose body has `work` multiply-adds: a divisor that keeps the body
    small.
    """
    return max([d for d in divisors(extent, 16) if d * work <= max(most, work)])


@cache
def padded_rows(rows: int, columns: int, registers: int, apart: bool = False) -> int:
    """The number of rows to compute in whole tiles: `rows`, or the next multiple of a tile height that costs less.

    `apart`: padded rows read existing rows, so every row needs its own address.
    """
    exact = tile_cost(*register_tile(rows, columns, registers), registers) or 2.0
    best, choice = exact * rows * 0.95, rows
    for height in range(6, 17):
        total = -(-rows // height) * height
        r, c = register_tile(total, columns, registers)
        cost = tile_cost(r, c, registers, pointers=r if apart and total != rows else 0) or 2.0
        if cost * total < best:
            best, choice = cost * total, total
    return choice


class Tiling(NamedTuple):
    """Whole tiles over rows and vectors of columns: the tile, the numbers of rows and vectors to compute, the cycles of
    one reduction step.
    """

    tile_rows: int
    tile_columns: int
    rows: int
    columns: int
    cycles: float


@cache
def tiling(rows: int, columns: int, registers: int, vectors_of_rows: bool = False) -> Tiling:
    """The tiles with the least cost, including padded work.

    Padded rows read existing rows, so every row needs its own address; so do columns that are `vectors_of_rows` of
    another matrix.
    """
    best, choice = (float("inf"), 0), Tiling(1, 1, rows, columns, 2.0 * rows * columns)
    for r in range(1, min(rows, MAX_ROWS) + 1):
        for c in range(1, min(columns, 8) + 1):
            pointers = (r if rows % r else 0) + (c if vectors_of_rows and columns % c else 0)
            cost = tile_cost(r, c, registers, vectors_of_rows, pointers)
            if cost is None:
                break
            whole = -(-rows // r) * r, -(-columns // c) * c
            computed = whole[0] * whole[1]
            rank = (round(cost * computed * (1 + TILE_OVERHEAD / (r * c)), 3), computed)
            if rank < best:
                best, choice = rank, Tiling(r, c, *whole, cost * computed)
    return choice


TILE_OVERHEAD = 0.5
"""The cost of starting and ending a tile, in multiply-adds of each step of its reduction. It favours larger tiles."""


TILE_ROWS, TILE_COLUMNS = "tilewright.tile_rows", "tilewright.tile_columns"
"""Block annotations: the register tile for which the computed rows and columns were chosen."""

NEAR = 4
"""The largest stride at which lanes are taken from whole vectors (`codegen.llvm.interleave.MOST_STEP`)."""

LANE_SUMS = "tilewright.lane_sums"
"""Block annotation: vectors run along the reduction; the following blocks add up the lanes of each sum."""

IN_TILES = "tilewright.in_tiles"
"""Block annotation: rows are computed in whole tiles, of which only existing rows are read, so tiles can be higher."""

OWN_DATA = "tilewright.own_data"
"""Block annotation: each index of the axis that all operands share (the group) has data of its own."""

DYNAMIC_ROWS = 4
"""The height of tiles over a dynamic number of rows: high enough to keep the multipliers busy, low enough for little
padded work in the last tile. Tiles of twice the height are used where they compute hardly more rows.
"""


def whole_tiles(size: Any, tile: int) -> Any:
    """A dynamic size, rounded up to whole tiles."""
    return tir.floordiv(size + (tile - 1), tile) * tile
