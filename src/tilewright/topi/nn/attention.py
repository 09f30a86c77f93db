"""Attention in blocks of queries: all stages run for one block at a time, so that its scores stay in cache or in registers.

The stages of a block: products of queries and packed keys, scale and mask, softmax of rows, products of its weights and the values.
The results, not the weights, are divided by the sums of the weights, which is less work. `scheduling.cpu.attention` and
`scheduling.gpu.attention` move the stages into the loop over blocks.
"""

from __future__ import annotations

from math import log, prod
from typing import TYPE_CHECKING, Any, NamedTuple

from tilewright import te
from tilewright.topi.broadcast import broadcast_index
from tilewright.topi.lang import compute, tir
from tilewright.topi.planner import planner
from tilewright.topi.stages import BLOCK_ROWS, CAUSAL, MATERIALIZE, TILE_COLUMNS, TILE_ROWS
from tilewright.topi.utils import ceil_div, shape_of

if TYPE_CHECKING:
    from tilewright.ir import PrimExpr
    from tilewright.tir.expr import Var

LOG2_E = 1 / log(2)
FOLDED = 64
"""The most queries of all heads that share keys and values, up to which they are computed as queries of one head."""


class _Heads(NamedTuple):
    """How heads of queries share those of keys and values. shape: the leading extents of the stages. group: heads of queries for each of
    keys. queries: of each head. folded: whether all queries of a group are rows of one matrix, which meets keys and values once."""

    shape: list[int]
    group: int
    queries: int
    folded: bool

    @property
    def rows(self) -> int:
        return self.queries * (self.group if self.folded else 1)

    def query(self, at: list[Any], row: Any) -> list[Any]:
        """Head and number of the query of a row."""
        if not self.folded:
            return [*at, row]
        return [*at[:-1], at[-1] * self.group + tir.floordiv(row, self.queries), self.number(row)]

    def number(self, row: Any) -> Any:
        return tir.floormod(row, self.queries) if self.folded else row

    def kept(self, at: list[Any]) -> list[Any]:
        """The head of keys and values."""
        return at if self.folded or self.group == 1 else [*at[:-1], tir.floordiv(at[-1], self.group)]

    def row(self, at: list[Any], number: Any) -> list[Any]:
        """The place of a query among rows."""
        if not self.folded:
            return [*at, number]
        head = at[-1]
        return [*at[:-1], tir.floordiv(head, self.group), tir.floormod(head, self.group) * self.queries + number]


def attention(
    query: te.Tensor,
    key: te.Tensor,
    value: te.Tensor,
    mask: te.Tensor | None = None,
    scale: float = 1.0,
    transpose_key: bool = True,
    zero_rows: bool = False,
    causal: bool = False,
    past: int = 0,
    out_dtype: str = "",
) -> te.Tensor:
    """softmax(query key^T * scale + mask) value: (.., N, D), (.., M, D), (.., M, E) -> (.., N, E).

    The last of the leading axes may be a multiple of that of keys and values: groups of heads of queries then share these. mask broadcasts
    to the scores (.., N, M). transpose_key: False if keys are already transposed, (.., D, M). zero_rows: rows whose weights are NaN, as
    where all scores are -inf, give 0. causal: query i sees the keys 0 .. past + i only. Scores and sums of 16-bit floats are in float32,
    and so may be the result (out_dtype).
    """
    *lead, n, d = shape_of(query)
    m, width = shape_of(value)[-2:]
    if lead and lead[-1] % shape_of(value)[-3]:
        raise ValueError(
            f"attention: {lead[-1]} heads of queries are no multiple of {shape_of(value)[-3]} heads of keys and values"
        )
    group = lead[-1] // shape_of(value)[-3] if lead else 1
    dtype = query.dtype
    sums_in = "float32" if dtype in ("float16", "bfloat16") else dtype
    folded = group > 1 and group * n <= FOLDED
    heads = _Heads([*lead[:-1], lead[-1] // group] if folded else lead, group, n, folded)
    blocks = planner().attention(prod(heads.shape), heads.rows, m, d, width, dtype)
    lanes, parts = blocks.lanes, blocks.parts
    rows, wide = _whole(heads.rows, blocks.rows), _whole(width, max(lanes, blocks.depth))
    deep = _whole(d, blocks.depth)
    panels = _whole(ceil_div(m, lanes), blocks.scores[1] * parts)
    columns = panels * lanes // parts
    power, factor = (tir.exp2, scale * LOG2_E) if blocks.binary else (tir.exp, scale)
    front = [prod(heads.shape) * parts] if blocks.staged else heads.shape

    def split(at: Any, column: Any) -> tuple[list[Any], Any]:
        """The head and the key of a column. Whole tiles have heads, and parts of their keys, on one axis."""
        if not blocks.staged:
            return [*at], column
        (index,) = at
        found, rest = [], tir.floordiv(index, parts)
        for extent in reversed(heads.shape):
            found.append(tir.floormod(rest, extent))
            rest = tir.floordiv(rest, extent)
        return found[::-1], tir.floormod(index, parts) * columns + column

    def existing(row: Any) -> Any:
        return row if rows == heads.rows else tir.min(row, heads.rows - 1)

    def narrow(x: Any) -> Any:
        return x if sums_in == dtype else x.astype(sums_in)

    def packed(*i: Var) -> Any:
        *at, panel, k, lane = i
        head, column = split(at, panel * lanes + lane)
        place = heads.kept(head)
        found = key(*place, column, k) if transpose_key else key(*place, k, column)
        return _within(column, m, panels * lanes, _within(k, d, deep, found))

    def padded_queries(*i: Var) -> Any:
        *at, row, k = i
        head, _ = split(at, 0)
        return _within(k, d, deep, query(*heads.query(head, existing(row)), k))

    def padded_values(*i: Var) -> Any:
        *at, j, column = i
        head, number = split(at, j)
        found = value(*heads.kept(head), number, column)
        return _within(number, m, panels * lanes, _within(column, width, wide, found))

    attrs = {MATERIALIZE: 1}
    keys = compute([*front, panels // parts, deep, lanes], packed, name="attention_keys", tag="injective", attrs=attrs)
    queries, values = query, value
    if blocks.staged:
        queries = compute([*front, rows, deep], padded_queries, name="attention_queries", tag="injective", attrs=attrs)
        values = compute([*front, columns, wide], padded_values, name="attention_values", tag="injective", attrs=attrs)
    k = te.reduce_axis((0, deep), name="k")

    def product(*i: Var) -> Any:
        *at, row, column = i
        left = queries(*at, row, k.var) if blocks.staged else queries(*heads.query(at, existing(row)), k.var)
        right = keys(*at, tir.floordiv(column, lanes), k.var, tir.floormod(column, lanes))
        return te.sum(narrow(left) * narrow(right), axis=[k])

    tile = {TILE_ROWS: blocks.scores[0], TILE_COLUMNS: blocks.scores[1]}
    products = compute([*front, rows, columns], product, name="attention_products", tag="batch_matmul", attrs=tile)

    def score(*i: Var) -> PrimExpr:
        *at, row, column = i
        place, number = split(at, column)
        found: Any = products(*i) if factor == 1.0 else products(*i) * tir.const(factor, sums_in)
        *head, seen = heads.query(place, existing(row))
        if mask is not None:
            added = mask(*broadcast_index(shape_of(mask), [*lead, n, m], [*head, seen, number])).astype(sums_in)
            found = found + (added * tir.const(LOG2_E, sums_in) if blocks.binary else added)
        if causal:
            found = tir.if_then_else(number <= seen + past, found, tir.const(float("-inf"), sums_in))
        return _within(number, m, panels * lanes, found, float("-inf"))

    marks = {CAUSAL: past + 1} if causal and parts == 1 and not folded else {}
    scores = compute(
        [*front, rows, columns], score, name="attention_scores", tag="injective", attrs={MATERIALIZE: 1, **marks}
    )
    c, s = te.reduce_axis((0, columns), name="c"), te.reduce_axis((0, columns), name="s")
    top = compute(
        [*front, rows], lambda *i: _largest(scores(*i, c.var), axis=[c]), name="attention_top", tag="comm_reduce"
    )
    weights = compute(
        [*front, rows, columns], lambda *i: power(scores(*i) - top(*i[:-1])), name="attention_weights", tag="injective",
        attrs={MATERIALIZE: 1},
    )  # fmt: skip
    total = compute(
        [*front, rows], lambda *i: te.sum(weights(*i, s.var), axis=[s]), name="attention_total", tag="comm_reduce"
    )
    shares = weights
    if sums_in != dtype:
        shares = compute(
            [*front, rows, columns], lambda *i: weights(*i).astype(dtype), name="attention_shares", tag="injective",
            attrs={MATERIALIZE: 1},
        )  # fmt: skip
    j = te.reduce_axis((0, columns if blocks.staged else m), name="j")

    def summed(*i: Var) -> PrimExpr:
        *at, row, column = i
        if blocks.staged:
            right: Any = values(*at, j.var, column)
        else:
            right = _within(column, width, wide, value(*heads.kept(at), j.var, column))
        return te.sum(narrow(shares(*at, row, j.var)) * narrow(right), axis=[j])

    tile = {TILE_ROWS: blocks.results[0], TILE_COLUMNS: blocks.results[1], BLOCK_ROWS: blocks.rows}
    sums = compute([*front, rows, wide], summed, name="attention_sums", tag="batch_matmul", attrs=tile)
    if parts > 1:
        total, sums = _combined(top, total, sums, parts, power)

    def mean(*i: Var) -> Any:
        found: Any = tir.const(1, sums_in) / total(*i[:-1]) * sums(*i)
        return tir.Select(total(*i[:-1]) > 0, found, tir.const(0, sums_in)) if zero_rows else found

    whole = [prod(heads.shape)] if blocks.staged else heads.shape
    means = compute([*whole, rows, wide], mean, name="attention_means", tag="injective", attrs={MATERIALIZE: 1})

    def result(*i: Var) -> PrimExpr:
        *at, number, column = i
        *place, row = heads.row(at, number)
        if blocks.staged:
            index: Any = tir.const(0, "int32")
            for extent, each in zip(heads.shape, place, strict=True):
                index = index * extent + each
            place = [index]
        return means(*place, row, column).astype(out_dtype or dtype)

    return compute([*lead, n, width], result, name="attention", tag="injective")


def _combined(top: te.Tensor, total: te.Tensor, sums: te.Tensor, parts: int, power: Any) -> tuple[te.Tensor, te.Tensor]:
    """Totals and sums of all keys, of those of parts of the keys, which are scaled by their own largest score."""
    every, rows, wide = shape_of(sums)
    heads = every // parts
    p, q, r = [te.reduce_axis((0, parts), name=name) for name in "pqr"]
    largest = compute(
        [heads, rows],
        lambda h, i: _largest(top(h * parts + p.var, i), axis=[p]),
        name="attention_largest",
        tag="comm_reduce",
    )

    def scaled(head: Any, row: Any, part: Any, what: PrimExpr) -> Any:
        return what * power(top(head * parts + part, row) - largest(head, row))

    all_totals = compute(
        [heads, rows],
        lambda h, i: te.sum(scaled(h, i, q.var, total(h * parts + q.var, i)), axis=[q]),
        name="attention_totals",
        tag="comm_reduce",
    )
    all_sums = compute(
        [heads, rows, wide],
        lambda h, i, j: te.sum(scaled(h, i, r.var, sums(h * parts + r.var, i, j)), axis=[r]),
        name="attention_combined",
        tag="comm_reduce",
    )
    return all_totals, all_sums


_largest = te.comm_reducer(lambda a, b: tir.max(a, b), lambda dtype: tir.min_value(dtype), name="largest")
"""The maximum of scores, at least the lowest finite number: scores of -inf minus it are -inf, not NaN."""


def _whole(size: Any, unit: int) -> Any:
    return ceil_div(size, unit) * unit


def _within(index: PrimExpr, size: int, computed: int, element: PrimExpr, other: float = 0.0) -> PrimExpr:
    """An element, or what stands beyond those that there are."""
    return element if size == computed else tir.if_then_else(index < size, element, tir.const(other, element.dtype))


__all__ = ["attention"]
