"""Products of two computed matrices of narrow types, with instructions that add up a few products.

B is copied into panels one vector wide (two registers for tiles), with the groups along the reduction that the instruction reads
(see scheduling/cpu/dot_products.py). A is read in place if its rows are whole groups; otherwise it is copied and padded with zeros.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tilewright import te
from tilewright.topi.lang import compute, tir
from tilewright.topi.nn.product import tile_attrs
from tilewright.topi.planner import planner
from tilewright.topi.problems import Matrices
from tilewright.topi.stages import MATERIALIZE
from tilewright.topi.utils import to

if TYPE_CHECKING:
    from tilewright.ir import PrimExpr


def grouped_product(p: Matrices, types: tuple[str, str], name: str, tag: str) -> te.Tensor | None:
    """The product of two matrices of the stored `types`, accumulated in `p.dtype`. None if the planner has no instruction for these
    types, or if it would not be faster."""
    form = planner().grouped(p, types, name)
    if form is None:
        return None
    group, lanes, steps, rows, panels, tiles, fills = form
    attrs, filled = tile_attrs(tiles) if tiles is not None else {}, rows if fills else p.m
    b = _panels(p, types[1], (panels, steps, lanes, group))
    a = _rows(p, types[0], filled, steps * group)
    k, inside = te.reduce_axis((0, steps), name="k"), te.reduce_axis((0, group), name="g")

    def element(*i: PrimExpr) -> Any:
        *lead, row, column = i
        row = row if rows == filled else tir.min(row, p.m - 1)
        left = a(lead, row, k.var * group + inside.var)
        right = b(*lead, tir.floordiv(column, lanes), k.var, tir.floormod(column, lanes), inside.var)
        return te.sum(to(left, p.dtype) * to(right, p.dtype), axis=[k, inside])

    made = compute([*p.lead, rows, panels * lanes], element, name=name, tag=tag, attrs=attrs)
    if (rows, panels * lanes) == (p.m, p.n):
        return made
    return compute([*p.lead, p.m, p.n], lambda *i: made(*i), name="T_valid", tag="injective")


def _panels(p: Matrices, dtype: str, shape: tuple[int, int, int, int]) -> te.Tensor:
    """B as (panels, steps, lanes, group), padded with zeros."""
    panels, steps, lanes, group = shape
    whole = p.n // lanes

    def element(*i: PrimExpr) -> Any:
        *lead, panel, step, lane, place = i
        column, at = panel * lanes + lane, step * group + place
        value = p.right(lead, at, column)
        if steps * group != p.k:
            last = tir.if_then_else(at < p.k, value, tir.const(0, dtype))
            value = tir.if_then_else(step < p.k // group, value, last)
        if panels * lanes == p.n:
            return value
        # Copies of whole panels need no masks.
        part = tir.if_then_else(column < p.n, value, tir.const(0, dtype))
        return tir.if_then_else(panel < whole, value, part) if whole else part

    return compute([*p.lead, *shape], element, name="T_panels", tag="injective", attrs={MATERIALIZE: 1})


def _rows(p: Matrices, dtype: str, rows: int, length: int) -> Any:
    """A function a(leading indices, row, k), whose elements are contiguous along k. Rows and k are padded with zeros."""
    if p.left_along_k and (rows, length) == (p.m, p.k):
        return p.left

    def element(*i: PrimExpr) -> Any:
        value = p.left(i[:-2], i[-2], i[-1])
        for at, size, computed in ((i[-1], p.k, length), (i[-2], p.m, rows)):
            value = value if computed == size else tir.if_then_else(at < size, value, tir.const(0, dtype))
        return value

    copied = compute([*p.lead, rows, length], element, name="T_rows", tag="injective", attrs={MATERIALIZE: 1})
    return lambda lead, row, at: copied(*lead, row, at)


__all__ = ["grouped_product"]
