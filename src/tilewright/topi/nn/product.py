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
from tilewright.target import Target
from tilewright.topi.lang import compute, tir
from tilewright.topi.schedule.tiles import LANE_SUMS, MATERIALIZE, padded_tile, tile_cost, tiles_of
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
FOLD = 4.0
"""Cycles to add the lanes of one sum."""
OWN_PANELS = 48
"""Rows from which on it pays to copy an operand whose rows are far apart, so that tiles read it in one stream."""


class _Costs:
    """Cycles of each form, by the model of register tiles."""

    def __init__(self, p: Matrices, lanes: int, registers: int) -> None:
        vectors = ceil_div(p.n, lanes)
        rows, computed = padded_tile(p.m, vectors, registers)
        tiled = rows * computed * p.k * (tile_cost(*tiles_of(p.m, vectors, registers), registers) or 2.0)
        copied = p.n * p.k
        self.columns = float("inf") if p.right_along_k else tiled
        self.panels = tiled + copied * (GATHER if p.right_along_k else COPY)
        if p.m >= OWN_PANELS and p.k * p.n * 4 > 1 << 17 and p.n * 4 >= 1 << 11:
            self.columns *= 1.3
        height, width = padded_tile(p.m, p.n, registers)
        steps = ceil_div(p.k, lanes)
        self.dots = height * width * (steps * (tile_cost(*tiles_of(p.m, p.n, registers), registers) or 2.0) + FOLD)
        self.dots += 0 if p.left_along_k else p.m * p.k * GATHER
        self.dots += 0 if p.right_along_k else p.n * p.k * GATHER


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
    costs = _Costs(p, lanes, registers)
    if costs.dots < min(costs.columns, costs.panels):
        return dots(p, lanes, registers, name, tag)
    if costs.panels < costs.columns:
        return _panels(p, lanes, registers, name, tag)
    return _columns(p, lanes, registers, name, tag)


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


def _columns(p: Matrices, lanes: int, registers: int, name: str, tag: str) -> te.Tensor:
    rows, vectors = padded_tile(p.m, ceil_div(p.n, lanes), registers)
    columns = vectors * lanes
    k = te.reduce_axis((0, p.k), name="k")

    def element(*i: Any) -> Any:
        *lead, row, column = i
        value = p.right(lead, k.var, column)
        if columns != p.n:
            value = _masked(column < p.n, value, p.dtype)
        return te.sum(p.left(lead, _clamped(row, p.m, rows), k.var) * value, axis=[k])

    return _cut(compute([*p.lead, rows, columns], element, name=name, tag=tag), p, rows, columns)


def _panels(p: Matrices, lanes: int, registers: int, name: str, tag: str) -> te.Tensor:
    whole, computed = p.n // lanes, ceil_div(p.n, lanes)
    rows, panels = padded_tile(p.m, computed, registers)

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

    made = compute([*p.lead, rows, panels * lanes], element, name=name, tag=tag)
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
    rows, columns = padded_tile(p.m, p.n, registers)
    k = te.reduce_axis((0, ceil_div(p.k, lanes)), name="k")

    def element(*i: Any) -> Any:
        *lead, row, column, lane = i
        at = k.var * lanes + lane
        a = p.left(lead, _clamped(row, p.m, rows), at)
        b = p.right(lead, at, _clamped(column, p.n, columns))
        if p.k % lanes:
            a, b = _masked(at < p.k, a, p.dtype), _masked(at < p.k, b, p.dtype)
        return te.sum(a * b, axis=[k])

    part = compute([*p.lead, rows, columns, lanes], element, name=name, tag=tag, attrs={LANE_SUMS: 1})
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
