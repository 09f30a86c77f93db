"""Converters of matrix factorisations, linear systems and special functions (`runtime/host_functions` computes them)."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from tilewright.relay.frontend.common.host_calls import host_call_like, linear_algebra, special
from tilewright.relay.frontend.common.value import Value
from tilewright.relay.frontend.tensorflow.value import Complex, NodeCall, tf_op
from tilewright.runtime.host_functions import linalg
from tilewright.runtime.host_functions.registry import Config
from tilewright.runtime.host_functions.strings import string_host

SPECIAL = {
    "Lgamma": "lgamma", "Digamma": "digamma", "Zeta": "zeta", "Polygamma": "polygamma", "Igamma": "igamma", "Igammac": "igammac",
    "Betainc": "betainc", "Ndtri": "ndtri", "Erfinv": "erfinv", "Expint": "expint", "Dawsn": "dawsn", "FresnelSin": "fresnel_sin",
    "FresnelCos": "fresnel_cos", "Spence": "spence", "BesselJ0": "bessel_j0", "BesselJ1": "bessel_j1", "BesselY0": "bessel_y0",
    "BesselY1": "bessel_y1", "BesselI0": "bessel_i0", "BesselI1": "bessel_i1", "BesselI0e": "bessel_i0e", "BesselI1e": "bessel_i1e",
    "BesselK0": "bessel_k0", "BesselK1": "bessel_k1", "BesselK0e": "bessel_k0e", "BesselK1e": "bessel_k1e",
}  # fmt: skip


def _special(name: str) -> Callable[..., Value]:
    return lambda c, *xs: special(c, name, *xs)


for _name, _key in SPECIAL.items():
    tf_op(_name)(_special(_key))


def _turned(c: NodeCall, a: Value, flag: str = "adjoint") -> Value:
    """Matrices, transposed if the node's attribute is set."""
    return c.transpose(a, [*range(a.ndim - 2), a.ndim - 1, a.ndim - 2]) if c.attr(flag, False) else a


@tf_op("Cholesky", "BatchCholesky")
def _cholesky(c: NodeCall, a: Value) -> Value:
    return linear_algebra(c, linalg.cholesky, [a], [a.shape[-2:]], upper=False)[0]


@tf_op("MatrixInverse", "BatchMatrixInverse")
def _inverse(c: NodeCall, a: Value) -> Value:
    return linear_algebra(c, linalg.inverse, [_turned(c, a)], [a.shape[-2:]])[0]


@tf_op("MatrixDeterminant", "BatchMatrixDeterminant")
def _determinant(c: NodeCall, a: Value) -> Value:
    return linear_algebra(c, linalg.determinant, [a], [[], [], []])[0]


@tf_op("LogMatrixDeterminant")
def _log_determinant(c: NodeCall, a: Value) -> list[Value]:
    return linear_algebra(c, linalg.determinant, [a], [[], [], []])[1:]


@tf_op("MatrixSolve", "BatchMatrixSolve")
def _solve(c: NodeCall, a: Value, b: Value) -> Value:
    return linear_algebra(c, linalg.solve, [_turned(c, a), b], [b.shape[-2:]], left=True)[0]


@tf_op("MatrixTriangularSolve", "BatchMatrixTriangularSolve")
def _triangular(c: NodeCall, a: Value, b: Value) -> Value:
    upper = bool(c.attr("lower", True)) == bool(c.attr("adjoint", False))
    made = linear_algebra(
        c, linalg.solve_triangular, [_turned(c, a), b], [b.shape[-2:]], upper=upper, left=True, unit=0
    )
    return made[0]


@tf_op("MatrixSolveLs", "BatchMatrixSolveLs")
def _least_squares(c: NodeCall, a: Value, b: Value, weight: Value) -> Value:
    shape = [a.shape[-1], b.shape[-1]]
    return linear_algebra(c, linalg.ridge, [a, b], [shape], weight=float(c.number_of(weight, "l2_regularizer")))[0]


@tf_op("Qr")
def _qr(c: NodeCall, a: Value) -> list[Value]:
    m, n = c.static(a.shape[-2:], "the extents of its matrix")
    k = m if c.attr("full_matrices", False) else min(m, n)
    return linear_algebra(c, linalg.qr, [a], [[m, k], [k, n]], mode="complete" if k != min(m, n) else "reduced")


@tf_op("Svd", "BatchSvd")
def _svd(c: NodeCall, a: Value) -> list[Value]:
    m, n = c.static(a.shape[-2:], "the extents of its matrix")
    k, full = min(m, n), bool(c.attr("full_matrices", False))
    u, s, vh = linear_algebra(c, linalg.svd, [a], [[m, m if full else k], [k], [n if full else k, n]], full=full)
    if not c.attr("compute_uv", True):
        return [s, c.full([0], 0, a.dtype), c.full([0], 0, a.dtype)]
    return [s, u, c.transpose(vh, [*range(vh.ndim - 2), vh.ndim - 1, vh.ndim - 2])]


@tf_op("SelfAdjointEigV2", "BatchSelfAdjointEigV2")
def _self_adjoint(c: NodeCall, a: Value) -> list[Value]:
    values, vectors = linear_algebra(c, linalg.eigh, [a], [[a.shape[-1]], a.shape[-2:]], half="L")
    return [values, vectors if c.attr("compute_v", True) else c.full([0], 0, a.dtype)]


@tf_op("SelfAdjointEig", "BatchSelfAdjointEig")
def _self_adjoint_old(c: NodeCall, a: Value) -> Value:
    values, vectors = linear_algebra(c, linalg.eigh, [a], [[1, a.shape[-1]], a.shape[-2:]], half="L")
    return c.concatenate([values, vectors], a.ndim - 2)


@tf_op("Eig")
def _eig(c: NodeCall, a: Value) -> list[Complex]:
    n = a.shape[-1]
    parts = linear_algebra(c, linalg.eig, [a], [[n], [n], [n, n], [n, n]])
    return [Complex(parts[0], parts[1]), Complex(parts[2], parts[3])]


@tf_op("Lu")
def _lu(c: NodeCall, a: Value) -> list[Value]:
    made, order = linear_algebra(c, linalg.lu_order, [a], [a.shape[-2:], [a.shape[-1]]])
    return [made, c.cast(order, c.attr("output_idx_type", "int32"))]


@tf_op("MatrixExponential")
def _exponential(c: NodeCall, a: Value) -> Value:
    return linear_algebra(c, linalg.matrix_exp, [a], [a.shape[-2:]])[0]


@tf_op("MatrixSquareRoot")
def _root(c: NodeCall, a: Value) -> Value:
    return linear_algebra(c, linalg.matrix_sqrt, [a], [a.shape[-2:]])[0]


@tf_op("TridiagonalSolve")
def _tridiagonal(c: NodeCall, diagonals: Value, b: Value) -> Value:
    return host_call_like(c, "tf.TridiagonalSolve", [diagonals, b], b, b.dtype)


@string_host("tf.TridiagonalSolve")
def _run_tridiagonal(config: Config, diagonals: np.ndarray, b: np.ndarray) -> np.ndarray:
    upper, middle, lower = [diagonals[..., k, :].astype(np.float64) for k in range(3)]
    whole = np.zeros((*middle.shape, middle.shape[-1]))
    n = np.arange(middle.shape[-1])
    whole[..., n, n] = middle
    whole[..., n[:-1], n[1:]] = upper[..., :-1]
    whole[..., n[1:], n[:-1]] = lower[..., 1:]
    return np.linalg.solve(whole, b.astype(np.float64))


@tf_op("TridiagonalMatMul")
def _tridiagonal_product(c: NodeCall, upper: Value, middle: Value, lower: Value, b: Value) -> Value:
    def scaled(d: Value, x: Value) -> Value:
        turned = c.transpose(d, [*range(d.ndim - 2), d.ndim - 1, d.ndim - 2])
        return c.call("multiply", turned, x)

    (n,) = c.static([b.shape[-2]], "the number of its rows")
    axis = b.ndim - 2
    below, above = [[(0, 0)] * b.ndim for _ in range(2)]
    below[axis], above[axis] = (0, 1), (1, 0)
    after = c.pad(c.cut(b, axis, 1, n), below)
    before = c.pad(c.cut(b, axis, 0, n - 1), above)
    return c.call("add", c.call("add", scaled(upper, after), scaled(middle, b)), scaled(lower, before))


@tf_op("BandedTriangularSolve")
def _banded(c: NodeCall, bands: Value, b: Value) -> Value:
    config = {"lower": bool(c.attr("lower", True)), "adjoint": bool(c.attr("adjoint", False))}
    return host_call_like(c, "tf.BandedTriangularSolve", [bands, b], b, b.dtype, **config)


@string_host("tf.BandedTriangularSolve")
def _run_banded(config: Config, bands: np.ndarray, b: np.ndarray) -> np.ndarray:
    k, n = bands.shape[-2:]
    whole = np.zeros((*bands.shape[:-2], n, n))
    for row in range(k):
        # Bands below the diagonal have padding at their start, bands above it at their end.
        apart = row if config["lower"] else k - 1 - row
        at = np.arange(apart, n) if config["lower"] else np.arange(n - apart)
        whole[..., at, at - apart if config["lower"] else at + apart] = bands[..., row, at]
    return np.linalg.solve(whole.swapaxes(-1, -2) if config["adjoint"] else whole, b.astype(np.float64))
