"""Products of matrices in the form that costs least, whichever way the operands lie in memory.

columns   B's rows lie along the columns of the result: vectors of them are read where they lie, the last one masked
panels    B is first copied into panels of one vector's columns, each contiguous over the reduction
dots      both operands lie along the reduction: vectors run along it, and the lanes of each sum are added at the end
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from tilewright import te
from tilewright.ir import DataType
from tilewright.scheduling.cpu.tiles import LANE_SUMS, MATERIALIZE, TILE_COLUMNS, TILE_ROWS, Tiling, tiling
from tilewright.target import Target
from tilewright.target.cpu import CpuFacts
from tilewright.topi.lang import compute, tir
from tilewright.topi.utils import ceil_div

Left = Callable[[Sequence[Any], Any, Any], Any]
"""left(leading indices, row, k): an element of the first matrix."""
Right = Callable[[Sequence[Any], Any, Any], Any]
"""right(leading indices, k, column): an element of the second one."""


class Matrices(NamedTuple):
    """Two matrices to be multiplied: for all leading indices `lead`, m x k by k x n. `left_along_k` and `right_along_k` say that
    neighbours along the reduction are neighbours in memory (else those along the other axis are)."""

    left: Left
    right: Right
    lead: Sequence[Any]
    m: int
    n: int
    k: int
    left_along_k: bool
    right_along_k: bool
    dtype: str

    def swapped(self) -> Matrices:
        """The transposed product: n x k by k x m."""
        left, right = self.left, self.right
        return Matrices(
            lambda i, row, k: right(i, k, row),
            lambda i, k, column: left(i, column, k),
            self.lead,
            self.n,
            self.m,
            self.k,
            self.right_along_k,
            self.left_along_k,
            self.dtype,
        )


COPY, GATHER = 0.15, 0.6
"""Cycles for an element of an operand that is copied: with vectors, and where neighbours of the copy are no neighbours."""
FOLD = 3.0
"""Cycles to add the lanes of one sum."""
OWN_PANELS, FAR_BYTES, FAR_ROW = 48, 1 << 17, 1 << 11
"""Rows of the first matrix from which on it pays to copy a second one of so many bytes whose rows are so far apart, so that tiles
read it in one stream."""


FAR = 1.3
"""What it costs to read such a matrix where it lies."""


class Costs(NamedTuple):
    """Cycles of each form."""

    columns: float
    panels: float
    dots: float

    @staticmethod
    def of(m: int, n: int, k: int, left_along_k: bool, right_along_k: bool, cpu: CpuFacts, lanes: int) -> Costs:
        """By the model of register tiles, what has to be copied included."""
        tiles = tiling(m, ceil_div(n, lanes), cpu.vector_registers)
        passes = ceil_div(tiles.columns, tiles.tile_columns)
        size = m * k * 4
        # Scalars of the first matrix come one by one: what is not in the first cache is waited for.
        tiled = k * tiles.cycles + passes * size / 64 * (12 if size > cpu.l2_bytes else 3 if size > cpu.l1_bytes else 0)
        far = m >= OWN_PANELS and k * n * 4 > FAR_BYTES and n * 4 >= FAR_ROW
        summed = ceil_div(k, lanes) * tiling(m, n, cpu.vector_registers, True).cycles + m * n * FOLD
        return Costs(
            float("inf") if right_along_k else tiled * (FAR if far else 1),
            tiled + n * k * (GATHER if right_along_k else COPY),
            summed + (0 if left_along_k else m * k * GATHER) + (0 if right_along_k else n * k * GATHER),
        )


def product(p: Matrices, name: str, tag: str) -> te.Tensor | None:
    """The product (.., m, n), or None where no target is known that it could be made for."""
    target = Target.current(True)
    if target is None or not DataType(p.dtype).is_float or min(p.m, p.n, p.k) < 1:
        return None
    lanes, registers = target.cpu.lanes(DataType(p.dtype).bits), target.cpu.vector_registers
    if lanes < 4:
        return None
    if p.n == 1 and p.m > 1:
        # One column is one row of the transposed product, and lies in memory as that does.
        column = product(p.swapped(), name, tag)
        if column is None:
            return None
        return compute([*p.lead, p.m, 1], lambda *i: column(*i[:-2], 0, i[-2]), name="T_column", tag="injective")
    if p.k == 1:
        # A single row lies either way.
        p = p._replace(right_along_k=False)
    costs = Costs.of(p.m, p.n, p.k, p.left_along_k, p.right_along_k, target.cpu, lanes)
    if costs.dots < min(costs.columns, costs.panels):
        return dots(p, lanes, registers, name, tag)
    if costs.panels < costs.columns:
        return in_panels(p, lanes, registers, name, tag)
    return _columns(p, lanes, target.cpu, name, tag)


def tile_attrs(tiles: Tiling) -> dict[str, int]:
    """What tells the schedule of the tile."""
    return {TILE_ROWS: tiles.tile_rows, TILE_COLUMNS: tiles.tile_columns}


def _clamped(index: Any, size: int, computed: int) -> Any:
    """An index of rows that may be computed in vain: the last one again."""
    return index if size == computed else tir.min(index, size - 1)


def _masked(condition: Any, value: Any, dtype: str) -> Any:
    return tir.if_then_else(condition, value, tir.const(0, dtype))


def _cut(made: te.Tensor, p: Matrices, rows: int, columns: int) -> te.Tensor:
    """The rows and columns that are wanted."""
    if (rows, columns) == (p.m, p.n):
        return made
    return compute([*p.lead, p.m, p.n], lambda *i: made(*i), name="T_valid", tag="injective")


def _long_tiles(vectors: int, cpu: CpuFacts) -> Tiling:
    """Tiles of a single row over a matrix that memory holds: as many neighbouring vectors as there are registers for their sums, since each
    of the matrix's rows lies on pages of its own, from which pieces of a few lines come slowly. Each thread gets one."""
    most = cpu.vector_registers * 3 // 4
    columns = ceil_div(vectors, max(ceil_div(vectors, most), min(vectors, cpu.threads)))
    computed = ceil_div(vectors, columns) * columns
    return Tiling(1, columns, 1, computed, computed / 2)


def _columns(p: Matrices, lanes: int, cpu: CpuFacts, name: str, tag: str) -> te.Tensor:
    vectors = ceil_div(p.n, lanes)
    far = p.m == 1 and p.k * p.n * DataType(p.dtype).bytes > cpu.l2_bytes
    tiles = _long_tiles(vectors, cpu) if far else tiling(p.m, vectors, cpu.vector_registers)
    rows, columns = tiles.rows, tiles.columns * lanes
    k = te.reduce_axis((0, p.k), name="k")

    def element(*i: Any) -> Any:
        *lead, row, column = i
        value = p.right(lead, k.var, column)
        if columns != p.n:
            value = _masked(column < p.n, value, p.dtype)
        return te.sum(p.left(lead, _clamped(row, p.m, rows), k.var) * value, axis=[k])

    return _cut(
        compute([*p.lead, rows, columns], element, name=name, tag=tag, attrs=tile_attrs(tiles)), p, rows, columns
    )


def in_panels(p: Matrices, lanes: int, registers: int, name: str, tag: str) -> te.Tensor:
    """The product by a copy of the second matrix in panels of one vector's columns."""
    whole, computed = p.n // lanes, ceil_div(p.n, lanes)
    tiles = tiling(p.m, computed, registers)
    rows, panels = tiles.rows, tiles.columns

    def packed(*i: Any) -> Any:
        *lead, panel, k, lane = i
        column = panel * lanes + lane
        value = p.right(lead, k, column)
        if panels * lanes == p.n:
            return value
        # Whole panels are copied without masks.
        part = _masked(column < p.n, value, p.dtype)
        return tir.if_then_else(panel < whole, value, part) if whole else part

    b = compute([*p.lead, panels, p.k, lanes], packed, name="T_panels", tag="injective", attrs={MATERIALIZE: 1})
    k = te.reduce_axis((0, p.k), name="k")

    def element(*i: Any) -> Any:
        *lead, row, column = i
        value = b(*lead, tir.floordiv(column, lanes), k.var, tir.floormod(column, lanes))
        return te.sum(p.left(lead, _clamped(row, p.m, rows), k.var) * value, axis=[k])

    made = compute([*p.lead, rows, panels * lanes], element, name=name, tag=tag, attrs=tile_attrs(tiles))
    return _cut(made, p, rows, panels * lanes)


def _along_k(p: Matrices) -> Matrices:
    """The matrices with those copied that do not lie along the reduction."""
    left, right = p.left, p.right
    if not p.left_along_k:
        a = compute(
            [*p.lead, p.m, p.k], lambda *i: left(i[:-2], i[-2], i[-1]), name="T_rows", tag="injective",
            attrs={MATERIALIZE: 1},
        )  # fmt: skip
        p = p._replace(left=lambda i, row, k: a(*i, row, k), left_along_k=True)
    if not p.right_along_k:
        b = compute(
            [*p.lead, p.n, p.k], lambda *i: right(i[:-2], i[-1], i[-2]), name="T_panels", tag="injective",
            attrs={MATERIALIZE: 1},
        )  # fmt: skip
        p = p._replace(right=lambda i, k, column: b(*i, column, k), right_along_k=True)
    return p


def dots(given: Matrices, lanes: int, registers: int, name: str, tag: str) -> te.Tensor:
    """The product as sums along vectors of the reduction."""
    p = _along_k(given)
    tiles = tiling(p.m, p.n, registers, True)
    rows, columns = tiles.rows, tiles.columns
    k = te.reduce_axis((0, ceil_div(p.k, lanes)), name="k")

    def element(*i: Any) -> Any:
        *lead, row, column, lane = i
        at = k.var * lanes + lane
        a = p.left(lead, _clamped(row, p.m, rows), at)
        b = p.right(lead, at, _clamped(column, p.n, columns))
        if p.k % lanes:
            a, b = _masked(at < p.k, a, p.dtype), _masked(at < p.k, b, p.dtype)
        return te.sum(a * b, axis=[k])

    part = compute(
        [*p.lead, rows, columns, lanes], element, name=name, tag=tag, attrs={LANE_SUMS: 1, **tile_attrs(tiles)}
    )
    width = lanes
    while width > 4:
        width //= 2
        part = compute(
            [*p.lead, rows, columns, width],
            lambda *i, part=part, width=width: part(*i) + part(*i[:-1], i[-1] + width),
            name=f"T_lanes{width}", tag="injective", attrs={MATERIALIZE: 1},
        )  # fmt: skip

    def folded(*i: Any) -> Any:
        return (part(*i, 0) + part(*i, 2)) + (part(*i, 1) + part(*i, 3))

    return compute([*p.lead, p.m, p.n], folded, name="T_fold", tag="injective")
