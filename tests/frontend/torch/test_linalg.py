"""Factorisations through exported programs, compiled: what PyTorch takes apart into them, and those of which only products are unique."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import tilewright as tvm
from tilewright import relay
from tilewright.support.errors import TVMError

L = torch.linalg


class Function(nn.Module):
    def __init__(self, f: Callable[..., Any]) -> None:
        super().__init__()
        self.f = f

    def forward(self, x: Tensor) -> Any:
        return self.f(x)


def compiled(f: Callable[..., Any], x: Tensor, kind: str = "graph", **options: Any) -> Callable[[Tensor], Any]:
    mod, params = relay.frontend.from_pytorch(torch.export.export(Function(f), (x,), strict=False, **options))
    run = relay.create_executor(kind, mod, tvm.cpu(), "llvm").evaluate()
    return lambda x: run(x.numpy(), **params)


def matrices(n: int = 2) -> Tensor:
    return torch.randn(n, 3, 3, generator=torch.Generator().manual_seed(n)) + 3 * torch.eye(3)


def again(x: Tensor) -> Tensor:
    u, s, vh = L.svd(x[:, :2], full_matrices=False)
    return u @ torch.diag_embed(s) @ vh


def by_values(x: Tensor) -> Tensor:
    values, vectors = L.eigh(x + x.mT)
    return vectors @ torch.diag_embed(values) @ vectors.mT


def by_reflections(x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    q, r = L.qr(x, mode="complete")
    return q @ r, q @ q.mT, r.abs()


def whitened(x: Tensor) -> Tensor:
    """A layer that takes correlations out (decorrelated batch normalisation)."""
    c = x.mT @ x + 0.1 * torch.eye(3)
    return L.solve_triangular(L.cholesky(c), x.mT, upper=False)


def numbers(x: Tensor) -> tuple[Tensor, ...]:
    return (
        L.svdvals(x),
        L.eigvalsh(x + x.mT),
        torch.logdet(x @ x.mT),
        L.matrix_power(x, 3),
        L.inv(x),
        L.cond(x),
        torch.pinverse(x),
    )


def roots(x: Tensor) -> tuple[Tensor, Tensor]:
    values, vectors = L.eig(x)
    back = (vectors @ torch.diag_embed(values)) - x.to(torch.complex64) @ vectors
    return torch.view_as_real(back), values.abs().sort(-1).values


@pytest.mark.parametrize("f", [again, by_values, by_reflections, whitened, numbers, roots], ids=lambda f: f.__name__)
def test_factorisations(f: Callable[..., Any]) -> None:
    x = matrices()
    result, wanted = compiled(f, x)(x), f(x)
    wanted = wanted if isinstance(wanted, tuple) else (wanted,)
    found = [result] if hasattr(result, "numpy") else list(result)
    for mine, theirs in zip(found, wanted, strict=True):
        np.testing.assert_allclose(mine.numpy(), theirs.numpy(), rtol=1e-4, atol=1e-5)


def test_dynamic_batch() -> None:
    run = compiled(L.inv, matrices(), "vm", dynamic_shapes=({0: torch.export.Dim("n")},))
    for n in (2, 1, 5):
        np.testing.assert_allclose(run(matrices(n)).numpy(), L.inv(matrices(n)), rtol=1e-4, atol=1e-5)


def test_matrix_without_an_inverse() -> None:
    run = compiled(L.inv, matrices())
    with pytest.raises(TVMError, match=r"linalg.inverse: Singular matrix. The input has shape \(2, 3, 3\)"):
        run(torch.zeros(2, 3, 3))
