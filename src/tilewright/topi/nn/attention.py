"""Attention in blocks of queries: all stages run for one block at a time, so that its scores stay in cache.

The stages of a block: products of queries and packed keys, scale and mask, softmax of rows, products of its weights and the values.
The results, not the weights, are divided by the sums of the weights, which is less work. `scheduling.cpu.attention` moves
the stages into the loop over blocks.
"""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING, Any

from tilewright import te
from tilewright.topi.broadcast import broadcast_index
from tilewright.topi.lang import compute, tir
from tilewright.topi.planner import planner
from tilewright.topi.stages import BLOCK_ROWS, MATERIALIZE, TILE_COLUMNS, TILE_ROWS
from tilewright.topi.utils import ceil_div, shape_of

if TYPE_CHECKING:
    from tilewright.ir import PrimExpr
    from tilewright.tir.expr import Var


def attention(
    query: te.Tensor,
    key: te.Tensor,
    value: te.Tensor,
    mask: te.Tensor | None = None,
    scale: float = 1.0,
    transpose_key: bool = True,
    zero_rows: bool = False,
) -> te.Tensor:
    """softmax(query key^T * scale + mask) value: (.., N, D), (.., M, D), (.., M, E) -> (.., N, E).

    mask broadcasts to the scores (.., N, M). transpose_key: False if keys are already transposed, (.., D, M). zero_rows: rows whose
    scores are all -inf give 0 instead of NaN.
    """
    *lead, n, d = shape_of(query)
    m, width = shape_of(value)[-2:]
    dtype = query.dtype
    blocks = planner().attention(prod(lead), n, m, width, dtype)
    lanes = blocks.lanes
    rows, wide = ceil_div(n, blocks.rows) * blocks.rows, ceil_div(width, lanes) * lanes
    panels = ceil_div(ceil_div(m, lanes), blocks.scores[1]) * blocks.scores[1]
    columns = panels * lanes

    def within(index: PrimExpr, size: int, computed: int, element: PrimExpr, other: float = 0.0) -> PrimExpr:
        return element if size == computed else tir.if_then_else(index < size, element, tir.const(other, dtype))

    def packed(*i: Var) -> Any:
        *at, panel, k, lane = i
        column = panel * lanes + lane
        return within(column, m, columns, key(*at, column, k) if transpose_key else key(*at, k, column))

    keys = compute([*lead, panels, d, lanes], packed, name="attention_keys", tag="injective", attrs={MATERIALIZE: 1})
    k = te.reduce_axis((0, d), name="k")

    def product(*i: Var) -> Any:
        *at, row, column = i
        left = query(*at, row if rows == n else tir.min(row, n - 1), k.var)
        return te.sum(left * keys(*at, tir.floordiv(column, lanes), k.var, tir.floormod(column, lanes)), axis=[k])

    tile = {TILE_ROWS: blocks.scores[0], TILE_COLUMNS: blocks.scores[1]}
    products = compute([*lead, rows, columns], product, name="attention_products", tag="batch_matmul", attrs=tile)

    def score(*i: Var) -> PrimExpr:
        *at, row, column = i
        found = products(*i) if scale == 1.0 else products(*i) * tir.const(scale, dtype)
        if mask is not None:
            place = [*at, row if rows == n else tir.min(row, n - 1), column]
            found = found + mask(*broadcast_index(shape_of(mask), [*lead, n, m], place))
        return within(column, m, columns, found, float("-inf"))

    scores = compute([*lead, rows, columns], score, name="attention_scores", tag="injective", attrs={MATERIALIZE: 1})
    c, s = te.reduce_axis((0, columns), name="c"), te.reduce_axis((0, columns), name="s")
    top = compute(
        [*lead, rows], lambda *i: te.max(scores(*i, c.var), axis=[c]), name="attention_top", tag="comm_reduce"
    )
    weights = compute(
        [*lead, rows, columns], lambda *i: tir.exp(scores(*i) - top(*i[:-1])), name="attention_weights", tag="injective",
        attrs={MATERIALIZE: 1},
    )  # fmt: skip
    total = compute(
        [*lead, rows], lambda *i: te.sum(weights(*i, s.var), axis=[s]), name="attention_total", tag="comm_reduce"
    )
    j = te.reduce_axis((0, m), name="j")

    def summed(*i: Var) -> PrimExpr:
        *at, row, column = i
        return te.sum(weights(*at, row, j.var) * within(column, width, wide, value(*at, j.var, column)), axis=[j])

    tile = {TILE_ROWS: blocks.results[0], TILE_COLUMNS: blocks.results[1], BLOCK_ROWS: blocks.rows}
    sums = compute([*lead, rows, wide], summed, name="attention_sums", tag="batch_matmul", attrs=tile)

    def mean(*i: Var) -> PrimExpr:
        found = tir.const(1, dtype) / total(*i[:-1]) * sums(*i)
        return tir.Select(tir.isnan(total(*i[:-1])), tir.const(0, dtype), found) if zero_rows else found

    means = compute([*lead, rows, wide], mean, name="attention_means", tag="injective", attrs={MATERIALIZE: 1})
    return compute([*lead, n, width], lambda *i: means(*i), name="attention", tag="injective")
