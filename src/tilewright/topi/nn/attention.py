"""Attention whose scores are never in memory as a whole: blocks of queries go through all stages, their scores in the caches.

The stages of a block: products of queries by packed keys, their scale and mask, the softmax of rows, and products of its weights by
values; these are divided by the sums of weights, not the weights themselves. `schedule.attention` puts them into the loop over blocks.
"""

from __future__ import annotations

from math import prod
from typing import Any, NamedTuple

from tilewright import te
from tilewright.ir import DataType
from tilewright.scheduling.cpu.attention import BLOCK_ROWS, SUMS
from tilewright.scheduling.cpu.tiles import MATERIALIZE, TILE_COLUMNS, TILE_ROWS, register_tile, tiling
from tilewright.target import Target
from tilewright.target.cpu import CpuFacts
from tilewright.topi.broadcast import broadcast_index
from tilewright.topi.lang import compute, tir
from tilewright.topi.utils import ceil_div, shape_of

LEAST_ROWS = 32
"""Queries of a head from which on keys are read often enough to be packed for it."""


class Blocks(NamedTuple):
    """Register tiles (rows, vectors of columns) of scores and of results, and how many queries go through all stages together."""

    scores: tuple[int, int]
    results: tuple[int, int]
    rows: int

    @staticmethod
    def of(heads: int, queries: int, keys: int, width: int, bits: int, cpu: CpuFacts) -> Blocks:
        """For so many heads of queries, keys, and values of `width` elements of so many bits: tiles of least cost, as many as leave
        their scores, and what the softmax makes of them, in half of the second cache."""
        lanes, registers = cpu.lanes(bits), cpu.vector_registers
        tile = tiling(queries, ceil_div(keys, lanes), registers)
        tiles = ceil_div(queries, tile.tile_rows)
        most = max(1, cpu.l2_bytes // 2 // (2 * bits // 8 * tile.tile_rows * keys))
        blocks = max(ceil_div(tiles, most), min(tiles, ceil_div(cpu.threads, heads)))
        rows = tile.tile_rows * ceil_div(tiles, blocks)
        return Blocks((tile.tile_rows, tile.tile_columns), register_tile(rows, ceil_div(width, lanes), registers), rows)


def pays(heads: int, queries: int, keys: int, target: Target) -> bool:
    """Whether attention of float32 is better computed in blocks: where its scores fill the second cache twice."""
    cpu = target.cpu
    return (
        cpu.lanes(32) >= 4
        and queries >= LEAST_ROWS
        and keys >= LEAST_ROWS
        and 2 * heads * queries * keys > cpu.l2_bytes
    )


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

    mask broadcasts to the scores (.., N, M). transpose_key: False for keys that come transposed, (.., D, M). zero_rows: rows of which
    all scores are -inf give 0, not NaN.
    """
    *lead, n, d = shape_of(query)
    m, width = shape_of(value)[-2:]
    cpu = (Target.current(True) or Target("llvm")).cpu
    dtype = query.dtype
    bits = DataType(dtype).bits
    lanes = cpu.lanes(bits)
    blocks = Blocks.of(prod(lead), n, m, width, bits, cpu)
    rows, wide = ceil_div(n, blocks.rows) * blocks.rows, ceil_div(width, lanes) * lanes
    panels = ceil_div(ceil_div(m, lanes), blocks.scores[1]) * blocks.scores[1]
    columns = panels * lanes

    def within(index: Any, size: int, computed: int, element: Any, other: float = 0.0) -> Any:
        return element if size == computed else tir.if_then_else(index < size, element, tir.const(other, dtype))

    def packed(*i: Any) -> Any:
        *at, panel, k, lane = i
        column = panel * lanes + lane
        return within(column, m, columns, key(*at, column, k) if transpose_key else key(*at, k, column))

    keys = compute([*lead, panels, d, lanes], packed, name="attention_keys", tag="injective", attrs={MATERIALIZE: 1})
    k = te.reduce_axis((0, d), name="k")

    def product(*i: Any) -> Any:
        *at, row, column = i
        left = query(*at, row if rows == n else tir.min(row, n - 1), k.var)
        return te.sum(left * keys(*at, tir.floordiv(column, lanes), k.var, tir.floormod(column, lanes)), axis=[k])

    tile = {TILE_ROWS: blocks.scores[0], TILE_COLUMNS: blocks.scores[1]}
    products = compute([*lead, rows, columns], product, name="attention_products", tag="batch_matmul", attrs=tile)

    def score(*i: Any) -> Any:
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

    def summed(*i: Any) -> Any:
        *at, row, column = i
        return te.sum(weights(*at, row, j.var) * within(column, width, wide, value(*at, j.var, column)), axis=[j])

    tile = {TILE_ROWS: blocks.results[0], TILE_COLUMNS: blocks.results[1], BLOCK_ROWS: blocks.rows}
    sums = compute([*lead, rows, wide], summed, name=SUMS, tag="batch_matmul", attrs=tile)

    def mean(*i: Any) -> Any:
        found = tir.const(1, dtype) / total(*i[:-1]) * sums(*i)
        return tir.Select(tir.isnan(total(*i[:-1])), tir.const(0, dtype), found) if zero_rows else found

    means = compute([*lead, rows, wide], mean, name="attention_means", tag="injective", attrs={MATERIALIZE: 1})
    return compute([*lead, n, width], lambda *i: means(*i), name="attention", tag="injective")
