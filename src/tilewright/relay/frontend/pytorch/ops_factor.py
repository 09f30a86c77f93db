"""Converters of factorisations of matrices and of equations: no kernels, but functions of NumPy that compiled code calls."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tilewright.relay.frontend.common.value import Value
from tilewright.relay.frontend.pytorch.ops_tensor import cut
from tilewright.relay.frontend.pytorch.value import Complex, TorchCall, aten
from tilewright.relay.op.host import config_text, host_function
from tilewright.support.errors import TVMError

Arrays = Sequence[np.ndarray]


def hosted(f: Callable[..., Arrays]) -> Callable[..., Arrays]:
    """Register f(config, *matrices) -> results; the host function answers them as one array, side by side for each matrix of a batch."""
    name = f.__name__.strip("_")

    def packed(config: Any, *arrays: np.ndarray) -> np.ndarray:
        lead = np.broadcast_shapes(*[a.shape[:-2] for a in arrays])
        try:
            results = f(config, *[np.asarray(a, np.complex128 if a.dtype.kind == "c" else np.float64) for a in arrays])
        except np.linalg.LinAlgError as error:
            raise TVMError(f"linalg.{name}: {error}. The input has shape {arrays[0].shape}") from None
        return np.concatenate(
            [np.broadcast_to(r, (*lead, *r.shape[len(lead) :])).reshape(*lead, -1) for r in results], -1
        )

    host_function(f"linalg.{name}")(packed)
    return f


def answers(
    c: TorchCall, f: Callable[..., Arrays], matrices: Sequence[Value], shapes: Sequence[Sequence[Any]], **config: Any
) -> list[Value]:
    """The results of a hosted function, of these shapes for one matrix; axes before the last two are a batch."""
    lead = max([m.shape[:-2] for m in matrices], key=len)
    dtype = matrices[0].dtype
    counts = [int(np.prod(c.static(s, "the extents of its matrix"))) for s in shapes]
    whole = c.call(
        "host.call", list(matrices), function=f"linalg.{f.__name__.strip('_')}", shape=(*lead, sum(counts)), dtype=dtype,
        config=config_text(config),
    )  # fmt: skip
    results, begin = [], 0
    for s, count in zip(shapes, counts, strict=True):
        results.append(c.reshape(cut(c, whole, len(lead), begin, begin + count), [*lead, *s]))
        begin += count
    return results


def _no_errors(c: TorchCall, x: Value) -> Value:
    """The codes of errors: all went well, or the program ends with an error."""
    return c.full(x.shape[:-2], 0, "int32")


@hosted
def _svd(config: Any, a: np.ndarray) -> Arrays:
    return np.linalg.svd(a, full_matrices=config["full"])


@aten("_linalg_svd")
def _linalg_svd(c: TorchCall, a: Value, full: bool = False, vectors: bool = True, driver: str | None = None) -> Any:
    m, n = c.static(a.shape[-2:], "the extents of its matrix")
    k = min(m, n)
    shapes = [[m, m if full else k], [k], [n if full else k, n]]
    u, s, vh = answers(c, _svd, [a], shapes, full=full)
    return [u, s, vh] if vectors else [c.full([0], 0, a.dtype), s, c.full([0], 0, a.dtype)]


@hosted
def _eigh(config: Any, a: np.ndarray) -> Arrays:
    return np.linalg.eigh(a, config["half"])


@aten("_linalg_eigh")
def _linalg_eigh(c: TorchCall, a: Value, half: str = "L", vectors: bool = True) -> Any:
    n = a.shape[-1]
    values, found = answers(c, _eigh, [a], [[n], [n, n]], half=half)
    return [values, found if vectors else c.full([0], 0, a.dtype)]


@hosted
def _eig(config: Any, a: np.ndarray) -> Arrays:
    values, vectors = np.linalg.eig(a)
    return values.real, values.imag, vectors.real, vectors.imag


@aten("linalg_eig", "linalg_eigvals", "_linalg_eigvals")
def _linalg_eig(c: TorchCall, a: Value) -> Any:
    n = a.shape[-1]
    parts = answers(c, _eig, [a], [[n], [n], [n, n], [n, n]])
    values = Complex(parts[0], parts[1])
    return values if "eigvals" in c.target else [values, Complex(parts[2], parts[3])]


@hosted
def _qr(config: Any, a: np.ndarray) -> Arrays:
    return np.linalg.qr(a, config["mode"])


@aten("linalg_qr")
def _linalg_qr(c: TorchCall, a: Value, mode: str = "reduced") -> Any:
    m, n = c.static(a.shape[-2:], "the extents of its matrix")
    k = m if mode == "complete" else min(m, n)
    q, r = answers(c, _qr, [a], [[m, k], [k, n]], mode="reduced" if mode == "r" else mode)
    return [c.full([0], 0, a.dtype) if mode == "r" else q, r]


@hosted
def _inverse(config: Any, a: np.ndarray) -> Arrays:
    return [np.linalg.inv(a)]


@aten("linalg_inv_ex", "inverse", "linalg_inv")
def _linalg_inv(c: TorchCall, a: Value, check_errors: bool = False) -> Any:
    (made,) = answers(c, _inverse, [a], [a.shape[-2:]])
    return [made, _no_errors(c, a)] if "inv_ex" in c.target else made


@hosted
def _det(config: Any, a: np.ndarray) -> Arrays:
    sign, log = np.linalg.slogdet(a)
    return np.linalg.det(a), sign, log


@aten("_linalg_det", "linalg_det", "det")
def _linalg_det(c: TorchCall, a: Value) -> Any:
    found = answers(c, _det, [a], [[], [], []])[0]
    return [found, None, None] if "::_linalg" in c.target else found


@aten("_linalg_slogdet", "linalg_slogdet", "slogdet")
def _linalg_slogdet(c: TorchCall, a: Value) -> Any:
    _, sign, log = answers(c, _det, [a], [[], [], []])
    return [sign, log, None, None] if "::_linalg" in c.target else [sign, log]


def lu(a: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(both triangles in one matrix, the row that each row changed places with, from 1) of one matrix, by the largest pivots."""
    made, rows = a.copy(), np.arange(1, min(a.shape) + 1)
    for k in range(min(a.shape)):
        pivot = k + int(np.abs(made[k:, k]).argmax())
        rows[k] = pivot + 1
        made[[k, pivot]] = made[[pivot, k]]
        if made[k, k]:
            made[k + 1 :, k] /= made[k, k]
            made[k + 1 :, k + 1 :] -= np.outer(made[k + 1 :, k], made[k, k + 1 :])
    return made, rows


def _each(f: Callable[..., Arrays], *arrays: np.ndarray) -> list[np.ndarray]:
    """f of each matrix of a batch."""
    lead = arrays[0].shape[:-2]
    found = [f(*[a[place] for a in arrays]) for place in np.ndindex(*lead)]
    return [np.stack(parts).reshape(*lead, *parts[0].shape) for parts in zip(*found, strict=True)]


@hosted
def _lu_factor(config: Any, a: np.ndarray) -> Arrays:
    return _each(lu, a)


@aten("linalg_lu_factor_ex", "linalg_lu_factor")
def _linalg_lu_factor(c: TorchCall, a: Value, pivot: bool = True, check_errors: bool = False) -> Any:
    if not pivot:
        raise c.refuse("pivot", pivot, "True")
    m, n = c.static(a.shape[-2:], "the extents of its matrix")
    made, rows = answers(c, _lu_factor, [a], [[m, n], [min(m, n)]])
    return [made, c.cast(rows, "int32"), _no_errors(c, a)]


@hosted
def _lu(config: Any, a: np.ndarray) -> Arrays:
    def factors(a: np.ndarray) -> Arrays:
        (m, n), k = a.shape, min(a.shape)
        made, swaps = lu(a)
        order = np.eye(m)
        for row, other in enumerate(swaps - 1):
            order[[row, other]] = order[[other, row]]
        return order.T, np.tril(made, -1)[:, :k] + np.eye(m, k), np.triu(made)[:k, :n]

    return _each(factors, a)


@aten("linalg_lu")
def _linalg_lu(c: TorchCall, a: Value, pivot: bool = True) -> Any:
    if not pivot:
        raise c.refuse("pivot", pivot, "True")
    m, n = c.static(a.shape[-2:], "the extents of its matrix")
    k = min(m, n)
    return answers(c, _lu, [a], [[m, m], [m, k], [k, n]])


@hosted
def _lu_solve(config: Any, a: np.ndarray, swaps: np.ndarray, b: np.ndarray) -> Arrays:
    def solved(made: np.ndarray, swaps: np.ndarray, b: np.ndarray) -> Arrays:
        n = len(made)
        order = np.arange(n)
        for row, other in enumerate(swaps[0].astype(np.int64) - 1):
            order[[row, other]] = order[[other, row]]
        lower, upper = np.tril(made, -1) + np.eye(n), np.triu(made)
        matrix = (lower @ upper)[np.argsort(order)]
        return [np.linalg.solve(matrix.T if config["adjoint"] else matrix, b)]

    return _each(solved, a, swaps, b)


@aten("linalg_lu_solve")
def _linalg_lu_solve(
    c: TorchCall, made: Value, swaps: Value, b: Value, left: bool = True, adjoint: bool = False
) -> Any:
    if not left:
        raise c.refuse("left", left, "True")
    rows = c.call("expand_dims", c.cast(swaps, made.dtype), axis=swaps.ndim - 1)
    return answers(c, _lu_solve, [made, rows, b], [b.shape[-2:]], adjoint=adjoint)[0]


@hosted
def _solve(config: Any, a: np.ndarray, b: np.ndarray) -> Arrays:
    if config["left"]:
        return [np.linalg.solve(a, b)]
    return [np.linalg.solve(a.swapaxes(-1, -2), b.swapaxes(-1, -2)).swapaxes(-1, -2)]


@aten("_linalg_solve_ex", "linalg_solve_ex", "linalg_solve")
def _linalg_solve(c: TorchCall, a: Value, b: Value, left: bool = True, check_errors: bool = False) -> Any:
    # A vector for each matrix.
    vector = b.ndim == 1 or b.ndim == a.ndim - 1 and b.shape == a.shape[:-1]
    (made,) = answers(
        c, _solve, [a, c.call("expand_dims", b, axis=b.ndim) if vector else b],
        [[*b.shape[-1:], 1] if vector else b.shape[-2:]], left=left,
    )  # fmt: skip
    made = c.call("squeeze", made, axis=(made.ndim - 1,)) if vector else made
    if "_ex" not in c.target:
        return made
    return [made, _no_errors(c, a)] if "::linalg" in c.target else [made, None, None, _no_errors(c, a)]


@hosted
def _solve_triangular(config: Any, a: np.ndarray, b: np.ndarray) -> Arrays:
    half = np.triu(a, config["unit"]) if config["upper"] else np.tril(a, -config["unit"])
    half = half + np.eye(a.shape[-1]) if config["unit"] else half
    return _solve(config, half, b)


@aten("linalg_solve_triangular")
def _linalg_solve_triangular(
    c: TorchCall, a: Value, b: Value, upper: bool, left: bool = True, unitriangular: bool = False
) -> Any:
    return answers(c, _solve_triangular, [a, b], [b.shape[-2:]], upper=upper, left=left, unit=int(unitriangular))[0]


@hosted
def _cholesky(config: Any, a: np.ndarray) -> Arrays:
    lower = np.linalg.cholesky(a.swapaxes(-1, -2) if config["upper"] else a)
    return [lower.swapaxes(-1, -2) if config["upper"] else lower]


@aten("linalg_cholesky_ex", "linalg_cholesky", "cholesky")
def _linalg_cholesky(c: TorchCall, a: Value, upper: bool = False, check_errors: bool = False) -> Any:
    (made,) = answers(c, _cholesky, [a], [a.shape[-2:]], upper=upper)
    return [made, _no_errors(c, a)] if "_ex" in c.target else made


@hosted
def _cholesky_solve(config: Any, b: np.ndarray, factor: np.ndarray) -> Arrays:
    half = np.triu(factor).swapaxes(-1, -2) if config["upper"] else np.tril(factor)
    return [np.linalg.solve(half @ half.swapaxes(-1, -2), b)]


@aten("cholesky_solve")
def _solve_by_cholesky(c: TorchCall, b: Value, factor: Value, upper: bool = False) -> Any:
    return answers(c, _cholesky_solve, [b, factor], [b.shape[-2:]], upper=upper)[0]


@aten("cholesky_inverse")
def _inverse_by_cholesky(c: TorchCall, factor: Value, upper: bool = False) -> Any:
    (n,) = c.static(factor.shape[-1:], "the extent of its matrix")
    eye = c.broadcast(Value(array=np.eye(n, dtype=factor.dtype)), factor.shape)
    return _solve_by_cholesky(c, eye, factor, upper)


@hosted
def _pinv(config: Any, a: np.ndarray) -> Arrays:
    s = np.linalg.svd(a, compute_uv=False)
    least = np.maximum(config["atol"], config["rtol"] * s.max(-1, initial=0.0, keepdims=True)[..., 0])
    u, s, vh = np.linalg.svd(a, full_matrices=False)
    turned = np.where(s > least[..., None], 1.0 / np.where(s == 0, 1.0, s), 0.0)
    return [vh.swapaxes(-1, -2) @ (turned[..., None] * u.swapaxes(-1, -2))]


@aten("linalg_pinv", "linalg_pinv.rcond_tensor", "linalg_pinv.atol_rtol_tensor")
def _linalg_pinv(
    c: TorchCall, a: Value, rcond: Any = None, hermitian: bool = False, atol: Any = None, rtol: Any = None
) -> Any:
    m, n = c.static(a.shape[-2:], "the extents of its matrix")
    rtol = rcond if rtol is None else rtol
    bounds = [None if v is None else float(c.known(v, "tolerance")) for v in (atol, rtol)]
    if bounds[1] is None:
        bounds[1] = 0.0 if bounds[0] else max(m, n) * float(np.finfo(a.dtype).eps)
    return answers(c, _pinv, [a], [[n, m]], atol=bounds[0] or 0.0, rtol=bounds[1])[0]


@hosted
def _lstsq(config: Any, a: np.ndarray, b: np.ndarray) -> Arrays:
    return [np.linalg.pinv(a, config["rcond"]) @ b]


@aten("linalg_lstsq")
def _linalg_lstsq(c: TorchCall, a: Value, b: Value, rcond: float | None = None, driver: str | None = None) -> Any:
    m, n = c.static(a.shape[-2:], "the extents of its matrix")
    least = max(m, n) * float(np.finfo(a.dtype).eps) if rcond is None else rcond
    if any([c.wants(k) for k in (1, 2, 3)]):
        raise c.refuse("results", "residuals, rank or singular values", "the solution")
    return [answers(c, _lstsq, [a, b], [[n, b.shape[-1]]], rcond=least)[0], None, None, None]


@hosted
def _matrix_exp(config: Any, a: np.ndarray) -> Arrays:
    # Scaled until 18 terms of the series are exact, then squared as often.
    norm = float(np.abs(a).sum(-1).max(initial=0.0))
    halvings = max(0, int(np.ceil(np.log2(max(norm, 1e-300)))) + 1)
    small = a / 2.0**halvings
    term = made = np.broadcast_to(np.eye(a.shape[-1]), a.shape)
    for k in range(1, 19):
        term = term @ small / k
        made = made + term
    for _ in range(halvings):
        made = made @ made
    return [made]


@aten("linalg_matrix_exp", "matrix_exp")
def _linalg_matrix_exp(c: TorchCall, a: Value) -> Any:
    return answers(c, _matrix_exp, [a], [a.shape[-2:]])[0]


@hosted
def _householder(config: Any, a: np.ndarray, scales: np.ndarray) -> Arrays:
    def product(a: np.ndarray, scales: np.ndarray) -> Arrays:
        (m, n), made = a.shape, np.eye(len(a))
        for k, scale in enumerate(scales[0]):
            v = np.where(np.arange(m) < k, 0.0, a[:, k])
            v[k] = 1.0
            made = made - scale * np.outer(made @ v, v)
        return [made[:, :n]]

    return _each(product, a, scales)


@aten("linalg_householder_product", "orgqr")
def _linalg_householder(c: TorchCall, a: Value, scales: Value) -> Any:
    rows = c.call("expand_dims", scales, axis=scales.ndim - 1)
    return answers(c, _householder, [a, rows], [a.shape[-2:]])[0]
