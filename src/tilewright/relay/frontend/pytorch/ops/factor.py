"""Converters of matrix factorisations and linear systems (`runtime/host_functions/linalg` computes them)."""

from __future__ import annotations

from typing import Any

import numpy as np

from tilewright.relay.frontend.common.host_calls import linear_algebra
from tilewright.relay.frontend.common.value import Value
from tilewright.relay.frontend.pytorch.ops.movement import cut
from tilewright.relay.frontend.pytorch.value import Complex, Results, TorchCall, aten
from tilewright.runtime.host_functions import linalg


def _no_errors(c: TorchCall, x: Value) -> Value:
    """Error codes of 0: a run that fails ends with an error instead."""
    return c.full(x.shape[:-2], 0, "int32")


def _turned(c: TorchCall, a: Value) -> Value:
    return c.transpose(a, [*range(a.ndim - 2), a.ndim - 1, a.ndim - 2])


@aten("_linalg_svd")
def _linalg_svd(
    c: TorchCall, a: Value, full: bool = False, vectors: bool = True, driver: str | None = None
) -> list[Value]:
    m, n = c.static(a.shape[-2:], "the extents of its matrix")
    k = min(m, n)
    shapes = [[m, m if full else k], [k], [n if full else k, n]]
    u, s, vh = linear_algebra(c, linalg.svd, [a], shapes, full=full)
    return [u, s, vh] if vectors else [c.full([0], 0, a.dtype), s, c.full([0], 0, a.dtype)]


@aten("_linalg_eigh")
def _linalg_eigh(c: TorchCall, a: Value, half: str = "L", vectors: bool = True) -> list[Value]:
    n = a.shape[-1]
    values, found = linear_algebra(c, linalg.eigh, [a], [[n], [n, n]], half=half)
    return [values, found if vectors else c.full([0], 0, a.dtype)]


@aten("linalg_eig", "linalg_eigvals", "_linalg_eigvals")
def _linalg_eig(c: TorchCall, a: Value) -> Complex | list[Complex]:
    n = a.shape[-1]
    parts = linear_algebra(c, linalg.eig, [a], [[n], [n], [n, n], [n, n]])
    values = Complex(parts[0], parts[1])
    return values if "eigvals" in c.target else [values, Complex(parts[2], parts[3])]


@aten("linalg_qr")
def _linalg_qr(c: TorchCall, a: Value, mode: str = "reduced") -> list[Value]:
    m, n = c.static(a.shape[-2:], "the extents of its matrix")
    k = m if mode == "complete" else min(m, n)
    q, r = linear_algebra(c, linalg.qr, [a], [[m, k], [k, n]], mode="reduced" if mode == "r" else mode)
    return [c.full([0], 0, a.dtype) if mode == "r" else q, r]


@aten("linalg_inv_ex", "inverse", "linalg_inv")
def _linalg_inv(c: TorchCall, a: Value, check_errors: bool = False) -> Value | Results:
    (made,) = linear_algebra(c, linalg.inverse, [a], [a.shape[-2:]])
    return [made, _no_errors(c, a)] if "inv_ex" in c.target else made


@aten("_linalg_det", "linalg_det", "det")
def _linalg_det(c: TorchCall, a: Value) -> Value | Results:
    found = linear_algebra(c, linalg.determinant, [a], [[], [], []])[0]
    return [found, None, None] if "::_linalg" in c.target else found


@aten("_linalg_slogdet", "linalg_slogdet", "slogdet")
def _linalg_slogdet(c: TorchCall, a: Value) -> Results:
    _, sign, log = linear_algebra(c, linalg.determinant, [a], [[], [], []])
    return [sign, log, None, None] if "::_linalg" in c.target else [sign, log]


@aten("linalg_lu_factor_ex", "linalg_lu_factor")
def _linalg_lu_factor(c: TorchCall, a: Value, pivot: bool = True, check_errors: bool = False) -> list[Value]:
    if not pivot:
        raise c.refuse("pivot", pivot, "True")
    m, n = c.static(a.shape[-2:], "the extents of its matrix")
    made, rows = linear_algebra(c, linalg.lu_factor, [a], [[m, n], [min(m, n)]])
    return [made, c.cast(rows, "int32"), _no_errors(c, a)]


@aten("linalg_lu")
def _linalg_lu(c: TorchCall, a: Value, pivot: bool = True) -> list[Value]:
    if not pivot:
        raise c.refuse("pivot", pivot, "True")
    m, n = c.static(a.shape[-2:], "the extents of its matrix")
    k = min(m, n)
    return linear_algebra(c, linalg.lu, [a], [[m, m], [m, k], [k, n]])


@aten("linalg_lu_solve")
def _linalg_lu_solve(
    c: TorchCall, made: Value, swaps: Value, b: Value, left: bool = True, adjoint: bool = False
) -> Value:
    if not left:
        # x a = b is the system of the transposed matrices.
        return _turned(c, _linalg_lu_solve(c, made, swaps, _turned(c, b), True, not adjoint))
    rows = c.call("expand_dims", c.cast(swaps, made.dtype), axis=swaps.ndim - 1)
    return linear_algebra(c, linalg.lu_solve, [made, rows, b], [b.shape[-2:]], adjoint=adjoint)[0]


@aten("_linalg_solve_ex", "linalg_solve_ex", "linalg_solve")
def _linalg_solve(c: TorchCall, a: Value, b: Value, left: bool = True, check_errors: bool = False) -> Value | Results:
    # The right side is one vector for each matrix.
    vector = b.ndim == 1 or b.ndim == a.ndim - 1 and b.shape == a.shape[:-1]
    (made,) = linear_algebra(
        c, linalg.solve, [a, c.call("expand_dims", b, axis=b.ndim) if vector else b],
        [[*b.shape[-1:], 1] if vector else b.shape[-2:]], left=left,
    )  # fmt: skip
    made = c.call("squeeze", made, axis=(made.ndim - 1,)) if vector else made
    if "_ex" not in c.target:
        return made
    return [made, _no_errors(c, a)] if "::linalg" in c.target else [made, None, None, _no_errors(c, a)]


@aten("linalg_solve_triangular")
def _linalg_solve_triangular(
    c: TorchCall, a: Value, b: Value, upper: bool, left: bool = True, unitriangular: bool = False
) -> Value:
    return linear_algebra(
        c, linalg.solve_triangular, [a, b], [b.shape[-2:]], upper=upper, left=left, unit=int(unitriangular)
    )[0]


@aten("triangular_solve")
def _triangular_solve(
    c: TorchCall, b: Value, a: Value, upper: bool = True, transpose: bool = False, unitriangular: bool = False
) -> list[Value]:
    turned = _turned(c, a) if transpose else a
    return [_linalg_solve_triangular(c, turned, b, upper != transpose, True, unitriangular), a]


@aten("linalg_cholesky_ex", "linalg_cholesky", "cholesky")
def _linalg_cholesky(c: TorchCall, a: Value, upper: bool = False, check_errors: bool = False) -> Value | Results:
    (made,) = linear_algebra(c, linalg.cholesky, [a], [a.shape[-2:]], upper=upper)
    return [made, _no_errors(c, a)] if "_ex" in c.target else made


@aten("cholesky_solve")
def _solve_by_cholesky(c: TorchCall, b: Value, half: Value, upper: bool = False) -> Value:
    return linear_algebra(c, linalg.cholesky_solve, [b, half], [b.shape[-2:]], upper=upper)[0]


@aten("cholesky_inverse")
def _inverse_by_cholesky(c: TorchCall, half: Value, upper: bool = False) -> Value:
    (n,) = c.static(half.shape[-1:], "the extent of its matrix")
    eye = c.broadcast(Value(array=np.eye(n, dtype=half.dtype)), half.shape)
    return _solve_by_cholesky(c, eye, half, upper)


@aten("linalg_pinv", "linalg_pinv.rcond_tensor", "linalg_pinv.atol_rtol_tensor")
def _linalg_pinv(
    c: TorchCall, a: Value, rcond: Any = None, hermitian: bool = False, atol: Any = None, rtol: Any = None
) -> Value:
    m, n = c.static(a.shape[-2:], "the extents of its matrix")
    least = max(m, n) * float(np.finfo(a.dtype).eps)
    rtol = rcond if rtol is None else rtol
    if hermitian:
        # The lower half determines the rest.
        half = c.call("where", Value(array=np.tri(n, dtype=bool)), a, c.number(0, a.dtype))
        below = c.call("where", Value(array=np.tri(n, k=-1, dtype=bool)), a, c.number(0, a.dtype))
        a = c.call("add", half, _turned(c, below))
    absolute = c.tensor(0.0 if atol is None else atol, a.dtype)
    if rtol is None:
        none = c.call("greater", absolute, 0)
        relative = c.call("where", none, c.number(0, a.dtype), c.number(least, a.dtype))
    else:
        relative = c.tensor(rtol, a.dtype)
    bounds = [c.reshape(v, [*v.shape, 1, 1]) for v in (absolute, relative)]
    return linear_algebra(c, linalg.pinv, [a, *bounds], [[n, m]])[0]


@aten("linalg_lstsq")
def _linalg_lstsq(
    c: TorchCall, a: Value, b: Value, rcond: float | None = None, driver: str | None = None
) -> list[Value | None]:
    m, n = c.static(a.shape[-2:], "the extents of its matrix")
    least = max(m, n) * float(np.finfo(a.dtype).eps) if rcond is None else rcond
    if any([c.wants(k) for k in (1, 2, 3)]):
        raise c.refuse("results", "residuals, rank or singular values", "the solution")
    return [linear_algebra(c, linalg.lstsq, [a, b], [[n, b.shape[-1]]], rcond=least)[0], None, None, None]


@aten("linalg_matrix_exp", "matrix_exp")
def _linalg_matrix_exp(c: TorchCall, a: Value) -> Value:
    return linear_algebra(c, linalg.matrix_exp, [a], [a.shape[-2:]])[0]


@aten("linalg_householder_product", "orgqr")
def _linalg_householder(c: TorchCall, a: Value, scales: Value) -> Value:
    rows = c.call("expand_dims", scales, axis=scales.ndim - 1)
    return linear_algebra(c, linalg.householder, [a, rows], [a.shape[-2:]])[0]


@aten("geqrf")
def _geqrf(c: TorchCall, a: Value) -> list[Value]:
    m, n = c.static(a.shape[-2:], "the extents of its matrix")
    return linear_algebra(c, linalg.reflectors, [a], [[m, n], [min(m, n)]])


@aten("ormqr")
def _ormqr(c: TorchCall, a: Value, scales: Value, b: Value, left: bool = True, transpose: bool = False) -> Value:
    rows = c.call("expand_dims", scales, axis=scales.ndim - 1)
    return linear_algebra(c, linalg.reflected, [a, rows, b], [b.shape[-2:]], left=left, transpose=transpose)[0]


@aten("lu_unpack")
def _lu_unpack(c: TorchCall, made: Value, swaps: Value, data: bool = True, pivots: bool = True) -> list[Value]:
    m, n = c.static(made.shape[-2:], "the extents of its matrix")
    k = min(m, n)
    nothing = c.full([0], 0, made.dtype)
    order = lower = upper = nothing
    if pivots:
        rows = c.call("expand_dims", c.cast(swaps, made.dtype), axis=swaps.ndim - 1)
        (order,) = linear_algebra(c, linalg.row_order, [rows], [[m, m]], rows=m)
    if data:
        eye = Value(array=np.eye(m, k, dtype=made.dtype))
        left = cut(c, made, made.ndim - 1, 0, k)
        below = Value(array=np.tri(m, k, -1, dtype=bool))
        lower = c.call("add", c.call("where", below, left, c.number(0, made.dtype)), eye)
        above = Value(array=~np.tri(k, n, -1, dtype=bool))
        upper = c.call("where", above, cut(c, made, made.ndim - 2, 0, k), c.number(0, made.dtype))
    return [order, lower, upper]


@aten("linalg_ldl_factor_ex", "linalg_ldl_factor")
def _ldl_factor(c: TorchCall, a: Value, hermitian: bool = False, check_errors: bool = False) -> list[Value]:
    n = a.shape[-1]
    made, rows = linear_algebra(c, linalg.ldl_factor, [a], [[n, n], [n]])
    return [made, c.cast(rows, "int32"), _no_errors(c, a)]


@aten("linalg_ldl_solve")
def _ldl_solve(c: TorchCall, made: Value, swaps: Value, b: Value, hermitian: bool = False) -> Value:
    rows = c.call("expand_dims", c.cast(swaps, made.dtype), axis=swaps.ndim - 1)
    return linear_algebra(c, linalg.ldl_solve, [made, rows, b], [b.shape[-2:]])[0]
