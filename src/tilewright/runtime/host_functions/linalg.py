"""Factorisations of matrices and solutions of equations for all importers: no kernels, but functions of NumPy that compiled code calls."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np

from tilewright.runtime.host_functions.registry import Config, host_function
from tilewright.support.errors import TVMError

Arrays = Sequence[np.ndarray]


def hosted(f: Callable[..., Arrays]) -> Callable[..., Arrays]:
    """Register f(config, *matrices) -> results; the host function returns them as one array, side by side for each matrix of a batch."""
    name = f.__name__

    def packed(config: Config, *arrays: np.ndarray) -> np.ndarray:
        lead = np.broadcast_shapes(*[a.shape[:-2] for a in arrays])
        try:
            results = f(config, *[np.asarray(a, np.complex128 if a.dtype.kind == "c" else np.float64) for a in arrays])
        except np.linalg.LinAlgError as error:
            raise TVMError(f"linalg.{name}: {error}. The input has shape {arrays[0].shape}") from None
        own = [r.shape[len(lead) :] for r in results]
        parts = [
            np.broadcast_to(r, (*lead, *s)).reshape(*lead, math.prod(s)) for r, s in zip(results, own, strict=True)
        ]
        return np.concatenate(parts, -1)

    host_function(f"linalg.{name}")(packed)
    return f


@hosted
def svd(config: Config, a: np.ndarray) -> Arrays:
    return np.linalg.svd(a, full_matrices=config["full"])


@hosted
def eigh(config: Config, a: np.ndarray) -> Arrays:
    return np.linalg.eigh(a, config["half"])


@hosted
def eig(config: Config, a: np.ndarray) -> Arrays:
    values, vectors = np.linalg.eig(a)
    return values.real, values.imag, vectors.real, vectors.imag


@hosted
def qr(config: Config, a: np.ndarray) -> Arrays:
    return np.linalg.qr(a, config["mode"])


@hosted
def inverse(config: Config, a: np.ndarray) -> Arrays:
    return [np.linalg.inv(a)]


@hosted
def determinant(config: Config, a: np.ndarray) -> Arrays:
    sign, log = np.linalg.slogdet(a)
    return np.linalg.det(a), sign, log


def triangles(a: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
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
    lead = np.broadcast_shapes(*[a.shape[:-2] for a in arrays])
    arrays = tuple([np.broadcast_to(a, (*lead, *a.shape[-2:])) for a in arrays])
    if not math.prod(lead):
        return [np.zeros((*lead, *part.shape)) for part in f(*[np.eye(*a.shape[-2:]) for a in arrays])]
    found = [f(*[a[place] for a in arrays]) for place in np.ndindex(*lead)]
    return [np.stack(parts).reshape(*lead, *parts[0].shape) for parts in zip(*found, strict=True)]


@hosted
def lu_factor(config: Config, a: np.ndarray) -> Arrays:
    return _each(triangles, a)


@hosted
def lu(config: Config, a: np.ndarray) -> Arrays:
    def factors(a: np.ndarray) -> Arrays:
        (m, n), k = a.shape, min(a.shape)
        made, swaps = triangles(a)
        order = np.eye(m)
        for row, other in enumerate(swaps - 1):
            order[[row, other]] = order[[other, row]]
        return order.T, np.tril(made, -1)[:, :k] + np.eye(m, k), np.triu(made)[:k, :n]

    return _each(factors, a)


@hosted
def lu_solve(config: Config, a: np.ndarray, swaps: np.ndarray, b: np.ndarray) -> Arrays:
    def solved(made: np.ndarray, swaps: np.ndarray, b: np.ndarray) -> Arrays:
        n = len(made)
        order = np.arange(n)
        for row, other in enumerate(swaps[0].astype(np.int64) - 1):
            order[[row, other]] = order[[other, row]]
        lower, upper = np.tril(made, -1) + np.eye(n), np.triu(made)
        matrix = (lower @ upper)[np.argsort(order)]
        return [np.linalg.solve(matrix.T if config["adjoint"] else matrix, b)]

    return _each(solved, a, swaps, b)


@hosted
def solve(config: Config, a: np.ndarray, b: np.ndarray) -> Arrays:
    if config["left"]:
        return [np.linalg.solve(a, b)]
    return [np.linalg.solve(a.swapaxes(-1, -2), b.swapaxes(-1, -2)).swapaxes(-1, -2)]


@hosted
def solve_triangular(config: Config, a: np.ndarray, b: np.ndarray) -> Arrays:
    half = np.triu(a, config["unit"]) if config["upper"] else np.tril(a, -config["unit"])
    half = half + np.eye(a.shape[-1]) if config["unit"] else half
    return solve(config, half, b)


@hosted
def cholesky(config: Config, a: np.ndarray) -> Arrays:
    lower = np.linalg.cholesky(a.swapaxes(-1, -2) if config["upper"] else a)
    return [lower.swapaxes(-1, -2) if config["upper"] else lower]


@hosted
def cholesky_solve(config: Config, b: np.ndarray, factor: np.ndarray) -> Arrays:
    half = np.triu(factor).swapaxes(-1, -2) if config["upper"] else np.tril(factor)
    return [np.linalg.solve(half @ half.swapaxes(-1, -2), b)]


@hosted
def pinv(config: Config, a: np.ndarray, atol: np.ndarray, rtol: np.ndarray) -> Arrays:
    """Singular values up to a bound, and up to their share of the greatest, count as zeros."""
    u, s, vh = np.linalg.svd(a, full_matrices=False)
    least = np.maximum(atol[..., 0, 0], rtol[..., 0, 0] * s.max(-1, initial=0.0))
    turned = np.where(s > least[..., None], 1.0 / np.where(s == 0, 1.0, s), 0.0)
    return [vh.swapaxes(-1, -2) @ (turned[..., None] * u.swapaxes(-1, -2))]


@hosted
def lstsq(config: Config, a: np.ndarray, b: np.ndarray) -> Arrays:
    return [np.linalg.pinv(a, config["rcond"]) @ b]


@hosted
def matrix_exp(config: Config, a: np.ndarray) -> Arrays:
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


@hosted
def householder(config: Config, a: np.ndarray, scales: np.ndarray) -> Arrays:
    def product(a: np.ndarray, scales: np.ndarray) -> Arrays:
        (m, n), made = a.shape, np.eye(len(a))
        for k, scale in enumerate(scales[0]):
            v = np.where(np.arange(m) < k, 0.0, a[:, k])
            v[k] = 1.0
            made = made - scale * np.outer(made @ v, v)
        return [made[:, :n]]

    return _each(product, a, scales)


@hosted
def lu_order(config: Config, a: np.ndarray) -> Arrays:
    """(both triangular factors in one matrix, the input row of each of its rows)."""

    def factors(a: np.ndarray) -> Arrays:
        made, swaps = triangles(a)
        order = np.arange(len(a))
        for row, other in enumerate(swaps - 1):
            order[[row, other]] = order[[other, row]]
        return made, order

    return _each(factors, a)


@hosted
def ridge(config: Config, a: np.ndarray, b: np.ndarray) -> Arrays:
    """The least of |a x - b| squared and `weight` times |x| squared."""
    if not config["weight"]:
        return [np.linalg.pinv(a) @ b]
    turned = a.swapaxes(-1, -2)
    return [np.linalg.solve(turned @ a + config["weight"] * np.eye(a.shape[-1]), turned @ b)]


@hosted
def matrix_sqrt(config: Config, a: np.ndarray) -> Arrays:
    """The principal square root, by its eigenvalues; where they do not span the space, by Newton's method (Denman and Beavers)."""
    values, vectors = np.linalg.eig(a)
    if np.linalg.cond(vectors).max(initial=1.0) < 1e8:
        roots = np.sqrt(values.astype(np.complex128))
        return [((vectors * roots[..., None, :]) @ np.linalg.inv(vectors)).real]
    y, z = a, np.broadcast_to(np.eye(a.shape[-1]), a.shape)
    for _ in range(60):
        y, z = (y + np.linalg.inv(z)) / 2, (z + np.linalg.inv(y)) / 2
    return [y]


@hosted
def row_order(config: Config, swaps: np.ndarray) -> Arrays:
    """The matrix that puts rows back which changed places one after the other: `swaps` from 1, (..., 1, count)."""

    def product(swaps: np.ndarray) -> Arrays:
        order = np.eye(config["rows"])
        for row, other in enumerate(swaps[0].astype(np.int64) - 1):
            order[[row, other]] = order[[other, row]]
        return [order.T]

    return _each(product, swaps)


@hosted
def reflectors(config: Config, a: np.ndarray) -> Arrays:
    """(R above the vectors of Householder's reflections, their scales)."""
    vectors, scales = np.linalg.qr(a, "raw")
    return vectors.swapaxes(-1, -2), scales


@hosted
def reflected(config: Config, a: np.ndarray, scales: np.ndarray, b: np.ndarray) -> Arrays:
    """The product of reflections with a matrix, on its left or on its right."""

    def product(a: np.ndarray, scales: np.ndarray, b: np.ndarray) -> Arrays:
        whole = np.eye(len(a))
        for k, scale in enumerate(scales[0]):
            v = np.where(np.arange(len(a)) < k, 0.0, a[:, k])
            v[k] = 1.0
            whole = whole - scale * np.outer(whole @ v, v)
        whole = whole.T if config["transpose"] else whole
        return [whole @ b if config["left"] else b @ whole]

    return _each(product, a, scales, b)


BALANCE = (1 + math.sqrt(17)) / 8
"""The share of the greatest element of a column that a pivot alone must have (Bunch and Kaufman, 1977)."""


def _symmetric_factors(a: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(L and D in one lower triangle, rows swapped): of a symmetric matrix by pivots of one row, or of two (negative numbers)."""
    a, n = np.tril(a), len(a)
    rows, k = np.zeros(n), 0
    while k < n:
        here, step, other = abs(a[k, k]), 1, k
        if k + 1 < n:
            most = k + 1 + int(np.argmax(np.abs(a[k + 1 :, k])))
            column = abs(a[most, k])
            if here < BALANCE * column:
                row = max(np.abs(a[most, k:most]).max(), np.abs(a[most + 1 :, most]).max(initial=0.0))
                alone = abs(a[most, most]) >= BALANCE * row
                if here * row < BALANCE * column * column:
                    other, step = most, 1 if alone else 2
        at = k + step - 1
        if other != at:
            whole = np.tril(a) + np.tril(a, -1).T
            order = np.arange(n)
            order[[at, other]] = order[[other, at]]
            turned = whole[order][:, order]
            # Rows of what is done already stay where they are.
            a[k:, k:] = np.tril(turned[k:, k:])
        rest = slice(k + step, n)
        block = a[k : k + step, k : k + step]
        block = np.tril(block) + np.tril(block, -1).T
        if k + step < n and np.any(block):
            shares = np.linalg.solve(block, a[rest, k : k + step].T).T
            a[rest, rest] -= np.tril(shares @ a[rest, k : k + step].T)
            a[rest, k : k + step] = shares
        rows[k : k + step] = other + 1 if step == 1 else -(other + 1)
        k += step
    return a, rows[None]


@hosted
def ldl_factor(config: Config, a: np.ndarray) -> Arrays:
    return _each(_symmetric_factors, a)


@hosted
def ldl_solve(config: Config, a: np.ndarray, swaps: np.ndarray, b: np.ndarray) -> Arrays:
    def solved(made: np.ndarray, swaps: np.ndarray, b: np.ndarray) -> Arrays:
        n, k = len(made), 0
        left, middle, rows = np.eye(n), np.zeros((n, n)), swaps[0].astype(np.int64)
        while k < n:
            step = 2 if rows[k] < 0 else 1
            part = slice(k, k + step)
            order = np.arange(n)
            order[[k + step - 1, abs(rows[k]) - 1]] = order[[abs(rows[k]) - 1, k + step - 1]]
            lower = np.eye(n)
            lower[k + step :, part] = made[k + step :, part]
            left = left[:, order] @ lower
            block = np.tril(made[part, part])
            middle[part, part] = block + np.tril(block, -1).T
            k += step
        return [np.linalg.solve(left @ middle @ left.T, b)]

    return _each(solved, a, swaps, b)
