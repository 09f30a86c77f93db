"""Matrix products in the cheapest form, for operands in any memory order.

columns   the rows of B are along the columns of the result: vectors are read from B in place, the last one masked
panels    B is first copied into panels one vector wide, each contiguous along the reduction
dots      both operands are contiguous along the reduction: vectors run along it, and the lanes of each sum are added at the end
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tilewright import te
from tilewright.ir import DataType, PrimExpr
from tilewright.topi.lang import compute, tir
from tilewright.topi.planner import Form, Tiling, planner
from tilewright.topi.problems import Matrices
from tilewright.topi.stages import LANE_SUMS, MATERIALIZE, TILE_COLUMNS, TILE_ROWS
from tilewright.topi.utils import ceil_div

if TYPE_CHECKING:
    from tilewright.tir.expr import Var


def product(p: Matrices, name: str, tag: str) -> te.Tensor | None:
    """The product (.., m, n); None if the planner has no form for it."""
    if not DataType(p.dtype).is_float or min(p.m, p.n, p.k) < 1:
        return None
    if p.n == 1 and p.m > 1:
        # One column is one row of the transposed product, with the same memory layout.
        column = product(p.swapped(), name, tag)
        if column is None:
            return None
        return compute([*p.lead, p.m, 1], lambda *i: column(*i[:-2], 0, i[-2]), name="T_column", tag="injective")
    if p.k == 1:
        # A single row is contiguous along both axes.
        p = p._replace(right_along_k=False)
    form = planner().product(p, name)
    return None if form is None else _FORMS[form.kind](p, form, name, tag)


def tile_attrs(tiles: Tiling) -> dict[str, int]:
    """Attributes that pass the tile to the schedule."""
    return {TILE_ROWS: tiles.tile_rows, TILE_COLUMNS: tiles.tile_columns}


def _clamped(index: PrimExpr, size: int, computed: int) -> PrimExpr:
    """A row index, clamped if some rows are padded work, which reads the last row again."""
    return index if size == computed else tir.min(index, size - 1)


def _masked(condition: PrimExpr, value: PrimExpr, dtype: str) -> PrimExpr:
    return tir.if_then_else(condition, value, tir.const(0, dtype))


def _cut(made: te.Tensor, p: Matrices, rows: int, columns: int) -> te.Tensor:
    """The product without rows and columns that are padded work."""
    if (rows, columns) == (p.m, p.n):
        return made
    return compute([*p.lead, p.m, p.n], lambda *i: made(*i), name="T_valid", tag="injective")


def _columns(p: Matrices, form: Form, name: str, tag: str) -> te.Tensor:
    tiles = form.tiles
    rows, columns = tiles.rows, tiles.columns * form.lanes
    k = te.reduce_axis((0, p.k), name="k")

    def element(*i: PrimExpr) -> Any:
        *lead, row, column = i
        value = p.right(lead, k.var, column)
        if columns != p.n:
            value = _masked(column < p.n, value, p.dtype)
        return te.sum(p.left(lead, _clamped(row, p.m, rows), k.var) * value, axis=[k])

    return _cut(
        compute([*p.lead, rows, columns], element, name=name, tag=tag, attrs=tile_attrs(tiles)), p, rows, columns
    )


def in_panels(p: Matrices, form: Form, name: str, tag: str) -> te.Tensor:
    """The product with a copy of the second matrix in panels, each one vector wide."""
    tiles, lanes = form.tiles, form.lanes
    whole, rows, panels = p.n // lanes, tiles.rows, tiles.columns

    def packed(*i: Var) -> Any:
        *lead, panel, k, lane = i
        column = panel * lanes + lane
        value = p.right(lead, k, column)
        if panels * lanes == p.n:
            return value
        # Copies of whole panels need no masks.
        part = _masked(column < p.n, value, p.dtype)
        return tir.if_then_else(panel < whole, value, part) if whole else part

    b = compute([*p.lead, panels, p.k, lanes], packed, name="T_panels", tag="injective", attrs={MATERIALIZE: 1})
    k = te.reduce_axis((0, p.k), name="k")

    def element(*i: Var) -> Any:
        *lead, row, column = i
        value = b(*lead, tir.floordiv(column, lanes), k.var, tir.floormod(column, lanes))
        return te.sum(p.left(lead, _clamped(row, p.m, rows), k.var) * value, axis=[k])

    made = compute([*p.lead, rows, panels * lanes], element, name=name, tag=tag, attrs=tile_attrs(tiles))
    return _cut(made, p, rows, panels * lanes)


def _along_k(p: Matrices) -> Matrices:
    """The matrices, with copies of those that are not contiguous along the reduction."""
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


def dots(given: Matrices, form: Form, name: str, tag: str) -> te.Tensor:
    """The product with vectors along the reduction."""
    p, lanes, tiles = _along_k(given), form.lanes, form.tiles
    rows, columns = tiles.rows, tiles.columns
    k = te.reduce_axis((0, ceil_div(p.k, lanes)), name="k")

    def element(*i: PrimExpr) -> Any:
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

    def folded(*i: PrimExpr) -> PrimExpr:
        return (part(*i, 0) + part(*i, 2)) + (part(*i, 1) + part(*i, 3))

    return compute([*p.lead, p.m, p.n], folded, name="T_fold", tag="injective")


_FORMS = {"columns": _columns, "panels": in_panels, "dots": dots}
