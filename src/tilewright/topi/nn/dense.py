"""Matrix products."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from tilewright import te
from tilewright.topi.broadcast import broadcast_index, broadcast_shape
from tilewright.topi.classic_modules import elsewhere
from tilewright.topi.lang import compute, tir
from tilewright.topi.nn.grouped import grouped_product
from tilewright.topi.nn.product import product
from tilewright.topi.planner import planner
from tilewright.topi.problems import Matrices
from tilewright.topi.stages import IN_TILES, MATERIALIZE
from tilewright.topi.utils import as_int, in_own_layout, shape_of

if TYPE_CHECKING:
    from tilewright.ir import PrimExpr
    from tilewright.tir.expr import Var

__getattr__, __dir__ = elsewhere(__name__)


def _to(v: PrimExpr, dtype: str) -> PrimExpr:
    return v if v.dtype == dtype else tir.Cast(dtype, v)


def matmul(
    tensor_a: te.Tensor,
    tensor_b: te.Tensor,
    bias: te.Tensor | None = None,
    out_dtype: str | None = None,
    transpose_a: bool = False,
    transpose_b: bool = False,
    auto_scheduler_rewritten_layout: str = "",
    meta_schedule_original_shape: Any = None,
) -> te.Tensor:
    """A @ B (+ bias[n]). B has two dimensions; A may have leading dimensions, which the result keeps.

    A is (.., M, K), or (.., K, M) with `transpose_a`; B is (K, N), or (N, K) with `transpose_b`. The result is (.., M, N).
    """
    in_own_layout("matmul", auto_scheduler_rewritten_layout, meta_schedule_original_shape)
    dtype = out_dtype or tensor_a.dtype
    a, b = shape_of(tensor_a), shape_of(tensor_b)
    inner = a[-2] if transpose_a else a[-1]
    rows = a[-1:] if transpose_a else a[-2:-1]
    columns = b[0] if transpose_b else b[1]
    name = "T_matmul_" + ("T" if transpose_a else "N") + ("T" if transpose_b else "N")
    if len(a) > 1 and all([isinstance(d, int) for d in (*a, *b)]):

        def left(i: Sequence[Any], row: PrimExpr, inner: Var) -> Any:
            return _to(tensor_a(*i, inner, row) if transpose_a else tensor_a(*i, row, inner), dtype)

        def right(i: Sequence[Any], inner: Var, column: PrimExpr) -> Any:
            return _to(tensor_b(column, inner) if transpose_b else tensor_b(inner, column), dtype)

        found = product(
            Matrices(left, right, a[:-2], rows[0], columns, inner, not transpose_a, transpose_b, dtype), name, "matmul"
        )
        if found is not None:
            return found if bias is None else _add(found, bias, dtype)
    k = te.reduce_axis((0, inner), name="k")

    def element(*i: Var) -> Any:
        lead, n = i[:-1], i[-1]
        left = tensor_a(*lead[:-1], k.var, lead[-1]) if transpose_a else tensor_a(*lead, k.var)
        right = tensor_b(n, k.var) if transpose_b else tensor_b(k.var, n)
        return te.sum(_to(left, dtype) * _to(right, dtype), axis=[k])

    out = compute([*a[: max(len(a) - 2, 0)], *rows, columns], element, name=name, tag="matmul")
    return out if bias is None else _add(out, bias, dtype)


def _add(out: te.Tensor, bias: te.Tensor, dtype: str) -> te.Tensor:
    return compute(out.shape, lambda *i: out(*i) + _to(bias(i[-1]), dtype), name="T_add", tag="broadcast")


def dense(
    data: te.Tensor,
    weight: te.Tensor,
    bias: te.Tensor | None = None,
    out_dtype: str | None = None,
    auto_scheduler_rewritten_layout: str = "",
    meta_schedule_original_shape: Any = None,
) -> te.Tensor:
    """data (.., K) by weight (N, K) transposed, plus bias (N): (.., N)."""
    in_own_layout("dense", auto_scheduler_rewritten_layout, meta_schedule_original_shape)
    return matmul(data, weight, bias, out_dtype, transpose_b=True)


def dense_pack(
    data: te.Tensor,
    weight: te.Tensor,
    bias: te.Tensor | None = None,
    out_dtype: str | None = None,
    units: int | None = None,
) -> te.Tensor:
    """data (.., K) times packed weights: (.., N), or its first `units` columns. Weights are (N // nr, K, nr), or (N // nr, K // g,
    nr, g) for instructions that add up g products. Panels of nr columns are contiguous, in the order in which the micro-kernel
    reads them.

    If the rows do not fill whole register tiles, the last row is computed several times. This padded work is cut off when the
    result is written.
    """
    dtype = out_dtype or data.dtype
    shape = shape_of(data)
    panels, inner, nr, *group = shape_of(weight)
    k = te.reduce_axis((0, inner), name="k")
    axes = [k, *[te.reduce_axis((0, g), name="g") for g in group]]
    whole = _whole_rows(data, (data.dtype, weight.dtype, dtype), inner) if group else None
    rows = planner().packed_rows(shape[:-1], nr, dtype) if whole is None else whole[1]
    source = data if whole is None else whole[0]

    def element(*i: Var) -> Any:
        lead = i[:-1] if rows is None or whole is not None else (*i[:-2], tir.min(i[-2], shape[-2] - 1))
        places = [axis.var for axis in axes[1:]]
        value = source(*lead, k.var * group[0] + places[0] if group else k.var)
        weight_at = weight(tir.floordiv(i[-1], nr), k.var, tir.floormod(i[-1], nr), *places)
        return te.sum(_to(value, dtype) * _to(weight_at, dtype), axis=axes)

    columns = as_int(panels * nr)
    lead_shape = shape[:-1] if rows is None else [*shape[:-2], rows]
    attrs = {IN_TILES: 1} if not isinstance(rows, (int, type(None))) else {}
    out = compute([*lead_shape, columns], element, name="T_dense_pack", tag="dense_pack", attrs=attrs)
    if rows is not None or units not in (None, columns):
        padded = out
        wanted = columns if units is None else units
        out = compute([*shape[:-1], wanted], lambda *i: padded(*i), name="T_rows", tag="injective")
    return out if bias is None else _add(out, bias, dtype)


def _whole_rows(data: te.Tensor, types: tuple[str, str, str], groups: Any) -> tuple[te.Tensor, int | None] | None:
    """(data, rows to compute) for tile registers: the data itself and None, or a copy padded to whole tiles and its number of rows. None
    for dynamic shapes, and for types without tile registers."""
    shape = shape_of(data)
    if len(shape) < 2 or not all([isinstance(d, int) for d in shape]):
        return None
    *_, rows, inner = shape
    whole = planner().tiled_rows(rows, types, groups, "T_dense_pack.rows")
    if whole is None or whole == rows:
        return None if whole is None else (data, None)

    def element(*i: PrimExpr) -> Any:
        return tir.if_then_else(i[-2] < rows, data(*i), tir.const(0, data.dtype))

    return compute([*shape[:-2], whole, inner], element, "T_filled", "injective", attrs={MATERIALIZE: 1}), whole


def batch_matmul(
    tensor_a: te.Tensor,
    tensor_b: te.Tensor,
    oshape: Any = None,
    out_dtype: str | None = None,
    transpose_a: bool = False,
    transpose_b: bool = True,
    auto_scheduler_rewritten_layout: str = "",
    meta_schedule_original_shape: Any = None,
) -> te.Tensor:
    """A matrix product for each leading index; leading dimensions are broadcast. By default B is transposed, (.., N, K), as in
    classic TVM."""
    in_own_layout("batch_matmul", auto_scheduler_rewritten_layout, meta_schedule_original_shape)
    dtype = out_dtype or tensor_a.dtype
    a, b = shape_of(tensor_a), shape_of(tensor_b)
    lead = broadcast_shape(a[:-2], b[:-2])
    m, inner = (a[-1], a[-2]) if transpose_a else (a[-2], a[-1])
    n = b[-2] if transpose_b else b[-1]
    k = te.reduce_axis((0, inner), name="k")

    def stored_left(i: Sequence[PrimExpr], row: PrimExpr, inner_index: Var) -> Any:
        ia = broadcast_index(a[:-2], lead, i)
        return tensor_a(*ia, inner_index, row) if transpose_a else tensor_a(*ia, row, inner_index)

    def stored_right(i: Sequence[Var], inner_index: Var, column: Var) -> Any:
        ib = broadcast_index(b[:-2], lead, i)
        return tensor_b(*ib, column, inner_index) if transpose_b else tensor_b(*ib, inner_index, column)

    def left(i: Sequence[PrimExpr], row: PrimExpr, inner_index: Var) -> Any:
        return _to(stored_left(i, row, inner_index), dtype)

    def right(i: Sequence[Var], inner_index: Var, column: Var) -> Any:
        return _to(stored_right(i, inner_index, column), dtype)

    name = "T_batch_matmul_" + ("T" if transpose_a else "N") + ("T" if transpose_b else "N")
    if all([isinstance(d, int) for d in (*lead, m, n, inner)]):
        stored = Matrices(stored_left, stored_right, lead, m, n, inner, not transpose_a, transpose_b, dtype)
        made = grouped_product(stored, (tensor_a.dtype, tensor_b.dtype), name, "batch_matmul")
        if made is not None:
            return made
        made = product(
            Matrices(left, right, lead, m, n, inner, not transpose_a, transpose_b, dtype), name, "batch_matmul"
        )
        if made is not None:
            return made
    tiles = planner().dynamic_product(m, n, dtype)
    if tiles is None:
        return compute(
            [*lead, m, n],
            lambda *i: te.sum(left(i[:-2], i[-2], k.var) * right(i[:-2], k.var, i[-1]), axis=[k]),
            name=name,
            tag="batch_matmul",
        )

    rows, width = tiles
    panels = -(-n // width) if isinstance(n, int) else tir.floordiv(n + (width - 1), width)
    packed = compute(
        [*lead, panels, inner, width],
        lambda *i: _within(
            i[-3] * width + i[-1], n, panels * width, lambda column: right(i[:-3], i[-2], column), dtype
        ),
        name="T_panels",
        tag="injective",
        attrs={MATERIALIZE: 1},
    )

    def element(*i: PrimExpr) -> Any:
        row = i[-2] if isinstance(m, int) and rows == m else tir.min(i[-2], m - 1)
        panel = packed(*i[:-2], tir.floordiv(i[-1], width), k.var, tir.floormod(i[-1], width))
        return te.sum(left(i[:-2], row, k.var) * panel, axis=[k])

    attrs = {} if isinstance(rows, int) else {IN_TILES: 1}
    out = compute([*lead, rows, panels * width], element, name=name, tag="batch_matmul", attrs=attrs)
    if isinstance(m, int) and isinstance(n, int) and (rows, panels * width) == (m, n):
        return out
    return compute([*lead, m, n], lambda *i: out(*i), name="T_valid", tag="injective")


def _within(index: Any, size: Any, padded: Any, load: Any, dtype: str) -> Any:
    """load(index), or zero for indices beyond `size`."""
    return (
        load(index)
        if isinstance(size, int) and size == padded
        else tir.if_then_else(index < size, load(index), tir.const(0, dtype))
    )
