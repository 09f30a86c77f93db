"""The cost model: cycles of register tiles, of forms of products and convolutions, of relayouts, by the description of a core."""

from __future__ import annotations

from functools import cache
from typing import Any

from tilewright import tir
from tilewright.target.core import Core
from tilewright.topi.planner import Tiling

MAX_ROWS, MAX_COLUMNS = 30, 8
"""The largest numbers of rows of a tile, and of vectors of columns: more registers no core has."""


@cache
def divisors(n: int, most: int) -> tuple[int, ...]:
    """Divisors of n up to `most`."""
    return tuple([d for d in range(1, min(n, most) + 1) if n % d == 0])


def tile_cost(rows: int, columns: int, core: Core, vectors_of_rows: bool = False, pointers: int = 0) -> float | None:
    """Cycles per multiply-add of a tile of rows x columns vectors; None if it does not fit the registers.

    Each step of the reduction loads `columns` vectors, which come from the second cache, and broadcasts `rows` scalars.
    It issues rows * columns multiply-adds, each to an accumulator of its own. With `vectors_of_rows`, rows are vectors,
    too, not scalars. `pointers`: addresses without a constant distance; those that do not fit into registers are loaded
    as well.
    """
    work = rows * columns
    if work + columns + 1 + core.held_rows * rows > core.registers:
        return None
    streamed = core.streamed * (rows + columns) / work if vectors_of_rows else core.streamed / rows
    loaded = (rows + columns + max(0, pointers - core.pointers)) / core.loads / work
    issued = (2 * work + rows + columns + core.step) / core.issued / work if core.issued else 0.0
    return max(1 / core.multiply_adds, loaded, core.latency / work, streamed, issued)


def cycles_of_add(rows: int, columns: int, core: Core, vectors_of_rows: bool = False, pointers: int = 0) -> float:
    """Cycles per multiply-add of a tile, whether or not it fits the registers."""
    return tile_cost(rows, columns, core, vectors_of_rows, pointers) or core.spilled


@cache
def register_tile(rows: int, columns: int, core: Core, most: int = MAX_ROWS) -> tuple[int, int]:
    """The tile (rows, vectors of columns) with the least cost, from divisors of the extents. Among equals: the one with
    the least traffic.

    most: the largest number of rows.
    """
    best, choice = (float("inf"), 0.0), (1, 1)
    for r in divisors(rows, most):
        for c in divisors(columns, MAX_COLUMNS):
            cost = tile_cost(r, c, core)
            if cost is None:
                continue
            # Column vectors stream from the second cache level, row scalars stay in the first: rows save more.
            rank = (round(cost, 3), 4 / r + 1 / c)
            if rank < best:
                best, choice = rank, (r, c)
    return choice


@cache
def image_tile(height: int, width: int, columns: int, core: Core) -> tuple[int, int, int]:
    """The tile (lines, rows of each, vectors of columns) over an image of `height` lines of `width` rows: part of a
    line, or several short lines.
    """
    rows, c = register_tile(width, columns, core)
    best = (round(cycles_of_add(rows, c, core), 3), 4 / rows + 1 / c), (1, rows, c)
    for lines in divisors(height, MAX_ROWS // width)[1:] if rows == width else ():
        for c in divisors(columns, MAX_COLUMNS):
            cost = tile_cost(lines * width, c, core)
            if cost is not None:
                best = min(best, ((round(cost, 3), 4 / (lines * width) + 1 / c), (lines, width, c)))
    return best[1]


def unroll_factor(extent: int, work: int, most: int) -> int:
    """The factor by which to unroll a reduction loop whose body has `work` multiply-adds: a divisor that keeps the body
    small, `most` multiply-adds. Convolutions of more than 64 ran 10 to 15 % slower, matrix products of fewer than 100 up
    to 2 % (ResNet-50, AVX-512): `Core.long_body`, `Core.short_body`.
    """
    return max([d for d in divisors(extent, 16) if d * work <= max(most, work)])


HEIGHTS = range(6, 17)
"""Rows of tiles of which whole ones are computed: lower ones leave multipliers idle, higher ones more padded work."""


@cache
def padded_rows(rows: int, columns: int, core: Core, apart: bool = False) -> int:
    """The number of rows to compute in whole tiles: `rows`, or the next multiple of a tile height that costs less.

    `apart`: padded rows read existing rows, so every row needs its own address.
    """
    exact = cycles_of_add(*register_tile(rows, columns, core), core)
    best, choice = exact * rows * core.padded_share, rows
    for height in HEIGHTS:
        total = -(-rows // height) * height
        r, c = register_tile(total, columns, core)
        cost = cycles_of_add(r, c, core, pointers=r if apart and total != rows else 0)
        if cost * total < best:
            best, choice = cost * total, total
    return choice


@cache
def tiling(rows: int, columns: int, core: Core, vectors_of_rows: bool = False) -> Tiling:
    """The tiles with the least cost, including padded work.

    Padded rows read existing rows, so every row needs its own address; so do columns that are `vectors_of_rows` of
    another matrix.
    """
    best, choice = (float("inf"), 0), Tiling(1, 1, rows, columns, core.spilled * rows * columns)
    for r in range(1, min(rows, MAX_ROWS) + 1):
        for c in range(1, min(columns, MAX_COLUMNS) + 1):
            pointers = (r if rows % r else 0) + (c if vectors_of_rows and columns % c else 0)
            cost = tile_cost(r, c, core, vectors_of_rows, pointers)
            if cost is None:
                break
            whole = -(-rows // r) * r, -(-columns // c) * c
            computed = whole[0] * whole[1]
            rank = (round(cost * computed * (1 + core.tile_start / (r * c)), 3), computed)
            if rank < best:
                best, choice = rank, Tiling(r, c, *whole, cost * computed)
    return choice


def whole_tiles(size: Any, tile: int) -> Any:
    """A dynamic size, rounded up to whole tiles."""
    return tir.floordiv(size + (tile - 1), tile) * tile
