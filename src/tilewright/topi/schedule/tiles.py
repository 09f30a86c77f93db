"""The analytic model that picks register tiles: loads against multiply-adds, accumulators against registers."""

from __future__ import annotations

from functools import cache
from typing import Any, NamedTuple

from tilewright import tir

MAX_ROWS = 30

MATERIALIZE = "tilewright.materialize"
"""Block annotation: a stage that is to be computed once into memory (a packed operand), not inlined into its readers."""

WOVEN = "tilewright.woven"
"""Block annotation: vectors of several places, from which its reader takes the elements of each in turn."""


@cache
def divisors(n: int, most: int) -> tuple[int, ...]:
    """Divisors of n up to `most`."""
    return tuple([d for d in range(1, min(n, most) + 1) if n % d == 0])


def tile_cost(
    rows: int, columns: int, registers: int, vectors_of_rows: bool = False, pointers: int = 0
) -> float | None:
    """Cycles per multiply-add of a tile of rows x columns vectors; None when it does not fit the registers.

    Each step of the reduction loads `columns` vectors and broadcasts `rows` scalars (two loads a cycle), the vectors
    coming from the second cache level (one every two cycles), and issues rows * columns multiply-adds (two a cycle,
    four cycles until the next may use the same accumulator). With `vectors_of_rows` rows are such vectors too, not scalars.
    `pointers`: places in memory that are no constant distance apart; those that find no register are loaded as well.
    """
    if rows * columns + columns + 1 > registers:
        return None
    work = rows * columns
    streamed = (2 * rows + 2 * columns) / work if vectors_of_rows else 2 / rows
    return max(0.5, (rows + columns + max(0, pointers - POINTERS)) / 2 / work, 4 / work, streamed)


POINTERS = 9
"""Addresses that find registers in the loop of a reduction."""


@cache
def register_tile(rows: int, columns: int, registers: int, most: int = MAX_ROWS) -> tuple[int, int]:
    """The tile (rows, vectors of columns), divisors of the extents, of the least cost; among equals, of the least traffic.

    registers: vector registers of the target; most: rows of a tile.
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
    """The tile (lines, rows of each, vectors of columns) over an image of `height` lines of `width` rows: part of a line, or where
    a whole line is short, of several lines."""
    rows, c = register_tile(width, columns, registers)
    best = (round(tile_cost(rows, c, registers) or 2.0, 3), 4 / rows + 1 / c), (1, rows, c)
    for lines in divisors(height, MAX_ROWS // width)[1:] if rows == width else ():
        for c in divisors(columns, 8):
            cost = tile_cost(lines * width, c, registers)
            if cost is not None:
                best = min(best, ((round(cost, 3), 4 / (lines * width) + 1 / c), (lines, width, c)))
    return best[1]


LONG_BODY, SHORT_BODY = 128, 64
"""Multiply-adds in the body of a reduction loop: of the only one, and of the innermost of several. Convolutions of more than
64 ran 10 to 15 % slower (ResNet-50, AVX-512), matrix products of fewer than 100 up to 2 %."""


def unroll_factor(extent: int, work: int, most: int = LONG_BODY) -> int:
    """How often to unroll a reduction loop whose body holds `work` multiply-adds: a divisor that keeps the body small."""
    return max([d for d in divisors(extent, 16) if d * work <= max(most, work)])


@cache
def padded_rows(rows: int, columns: int, registers: int, apart: bool = False) -> int:
    """How many rows to compute so that tiles fill: `rows`, or the next multiple of a tile height that costs less in all. `apart`: rows
    that are computed in vain read those that there are, so that every row has an address of its own."""
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
    """Whole tiles over rows and vectors of columns: the tile, how many rows and vectors are computed, the cycles of one step of the
    reduction."""

    tile_rows: int
    tile_columns: int
    rows: int
    columns: int
    cycles: float


@cache
def tiling(rows: int, columns: int, registers: int, vectors_of_rows: bool = False) -> Tiling:
    """The tiles that cost least, what is computed in vain included. Rows that are computed in vain read those that there are, so that
    every row has an address of its own; so have columns that are `vectors_of_rows` of another matrix."""
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
"""What starting and ending a tile costs, in multiply-adds of each step of its reduction: it makes larger tiles the better ones."""


TILE_ROWS, TILE_COLUMNS = "tilewright.tile_rows", "tilewright.tile_columns"
"""Block annotations: the register tile that its computed rows and columns were made for."""

NEAR = 4
"""Strides up to which lanes are taken out of whole vectors (`codegen.llvm.interleave.MOST_STEP`)."""

LANE_SUMS = "tilewright.lane_sums"
"""Block annotation: vectors run along the reduction; the lanes of each sum are added by the blocks that follow."""

IN_TILES = "tilewright.in_tiles"
"""Block annotation: rows are computed in whole tiles of which only those that exist are read, so that tiles may be higher."""

OWN_DATA = "tilewright.own_data"
"""Block annotation: what is computed for each index of the axis that all operands share (the group) reads data of its own."""

OPEN_ROWS = 4
"""Height of tiles over rows whose number is not known: high enough to keep the multipliers busy, and low enough that the last one
computes little in vain. Where tiles of twice the height compute hardly more, they are taken."""


def whole_tiles(size: Any, tile: int) -> Any:
    """A size of which nothing is known, rounded up to whole tiles."""
    return tir.floordiv(size + (tile - 1), tile) * tile
