"""Matrix products."""

from __future__ import annotations

from typing import Any

from tilewright import te, tir
from tilewright.topi.broadcast import broadcast_index, broadcast_shape
from tilewright.topi.utils import as_int, shape_of


def _to(v: Any, dtype: str) -> Any:
    return v if v.dtype == dtype else tir.Cast(dtype, v)


def matmul(
    tensor_a: te.Tensor,
    tensor_b: te.Tensor,
    bias: te.Tensor | None = None,
    out_dtype: str | None = None,
    transpose_a: bool = False,
    transpose_b: bool = False,
) -> te.Tensor:
    """A @ B (+ bias[n]) with B of two dimensions; A may have leading dimensions, which the result keeps.

    (.., M, K) by (K, N), or by (N, K) when `transpose_b`; (.., K, M) when `transpose_a`. Result (.., M, N).
    """
    dtype = out_dtype or tensor_a.dtype
    a, b = shape_of(tensor_a), shape_of(tensor_b)
    inner = a[-2] if transpose_a else a[-1]
    rows = a[-1:] if transpose_a else a[-2:-1]
    columns = b[0] if transpose_b else b[1]
    k = te.reduce_axis((0, inner), name="k")

    def element(*i: Any) -> Any:
        lead, n = i[:-1], i[-1]
        left = tensor_a(*lead[:-1], k.var, lead[-1]) if transpose_a else tensor_a(*lead, k.var)
        right = tensor_b(n, k.var) if transpose_b else tensor_b(k.var, n)
        return te.sum(_to(left, dtype) * _to(right, dtype), axis=[k])

    name = "T_matmul_" + ("T" if transpose_a else "N") + ("T" if transpose_b else "N")
    out = te.compute([*a[: max(len(a) - 2, 0)], *rows, columns], element, name=name, tag="matmul")
    if bias is None:
        return out
    return te.compute(out.shape, lambda *i: out(*i) + _to(bias(i[-1]), dtype), name="T_add", tag="broadcast")


def dense(data: te.Tensor, weight: te.Tensor, bias: te.Tensor | None = None, out_dtype: str | None = None) -> te.Tensor:
    """data (.., K) by weight (N, K) transposed, plus bias (N): (.., N)."""
    return matmul(data, weight, bias, out_dtype, transpose_b=True)


def dense_pack(data: te.Tensor, weight: te.Tensor, bias: te.Tensor | None = None, out_dtype: str | None = None) -> te.Tensor:
    """data (.., K) by packed weight (N // nr, K, nr): (.., N). Panels of nr columns lie contiguous, as the micro-kernel reads them."""
    dtype = out_dtype or data.dtype
    shape = shape_of(data)
    panels, inner, nr = shape_of(weight)
    k = te.reduce_axis((0, inner), name="k")
    out = te.compute(
        [*shape[:-1], as_int(panels * nr)],
        lambda *i: te.sum(
            _to(data(*i[:-1], k.var), dtype) * _to(weight(tir.floordiv(i[-1], nr), k.var, tir.floormod(i[-1], nr)), dtype), axis=[k]
        ),
        name="T_dense_pack",
        tag="dense_pack",
    )
    if bias is None:
        return out
    return te.compute(out.shape, lambda *i: out(*i) + _to(bias(i[-1]), dtype), name="T_add", tag="broadcast")


def batch_matmul(
    tensor_a: te.Tensor,
    tensor_b: te.Tensor,
    oshape: Any = None,
    out_dtype: str | None = None,
    transpose_a: bool = False,
    transpose_b: bool = True,
) -> te.Tensor:
    """A matrix product for each leading index; leading dimensions are broadcast. Classic default: B comes transposed, (.., N, K)."""
    dtype = out_dtype or tensor_a.dtype
    a, b = shape_of(tensor_a), shape_of(tensor_b)
    lead = broadcast_shape(a[:-2], b[:-2])
    m, inner = (a[-1], a[-2]) if transpose_a else (a[-2], a[-1])
    n = b[-2] if transpose_b else b[-1]
    k = te.reduce_axis((0, inner), name="k")

    def element(*i: Any) -> Any:
        row, column = i[-2], i[-1]
        ia = broadcast_index(a[:-2], lead, i[:-2])
        ib = broadcast_index(b[:-2], lead, i[:-2])
        left = tensor_a(*ia, k.var, row) if transpose_a else tensor_a(*ia, row, k.var)
        right = tensor_b(*ib, column, k.var) if transpose_b else tensor_b(*ib, k.var, column)
        return te.sum(_to(left, dtype) * _to(right, dtype), axis=[k])

    name = "T_batch_matmul_" + ("T" if transpose_a else "N") + ("T" if transpose_b else "N")
    return te.compute([*lead, m, n], element, name=name, tag="batch_matmul")
