"""Sizes that only the data say, through exported programs and TorchScript, in the virtual machine."""

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


class Function(nn.Module):
    def __init__(self, f: Callable[..., Any]) -> None:
        super().__init__()
        self.f = f

    def forward(self, *xs: Tensor) -> Any:
        return self.f(*xs)


def compiled(f: Callable[..., Any], *xs: Tensor, dynamic: Any = None) -> Callable[..., list[np.ndarray]]:
    program = torch.export.export(Function(f), xs, dynamic_shapes=dynamic and {"xs": dynamic}, strict=False)
    mod, params = relay.frontend.from_pytorch(program)
    run = relay.create_executor("vm", mod, tvm.cpu(), "llvm").evaluate()

    def call(*xs: Tensor) -> list[np.ndarray]:
        result = run(*[x.numpy() for x in xs], **params)
        return [r.numpy() for r in ([result] if hasattr(result, "numpy") else result)]

    return call


def agree(f: Callable[..., Any], *cases: tuple[Tensor, ...], dynamic: Any = None) -> None:
    run = compiled(f, *cases[0], dynamic=dynamic)
    for xs in cases:
        wanted = f(*xs)
        wanted = list(wanted) if isinstance(wanted, (tuple, list)) else [wanted]
        for mine, theirs in zip(run(*xs), wanted, strict=True):
            assert (mine.shape, str(mine.dtype)) == (tuple(theirs.shape), str(theirs.dtype).removeprefix("torch."))
            np.testing.assert_allclose(mine, theirs.numpy(), rtol=1e-5, atol=1e-6)


x = torch.tensor([[1.0, -2.0, 0.0, 3.0], [0.0, 0.5, -1.0, 2.0], [3.0, 3.0, 1.0, -2.0]])
CASES = [(x,), (-x.abs(),), (x.abs() + 1,)]


def places(x: Tensor) -> tuple[Tensor, ...]:
    found = (x > 0).nonzero()
    rows, columns = torch.where(x > 1)
    return found, found * 2 + 1, rows + columns, torch.argwhere(x).sum(), x[found[:, 0], found[:, 1]]


def masks(x: Tensor) -> tuple[Tensor, ...]:
    kept = x[x > 0]
    some = x[x.sum(1) > 0]
    return (
        kept.exp(),
        some @ x.mT,
        torch.masked_select(x, x < 0),
        kept.sum() / kept.shape[0].__add__(1),
        some.reshape(-1, 2),
    )


def written(x: Tensor) -> Tensor:
    y = x.clone()
    y[x > 0] = x[x > 0] * 10
    return y


def lengths(x: Tensor) -> tuple[Tensor, ...]:
    kept = x[x > 0]
    n = kept.shape[0]
    return (
        torch.arange(n) * 2,
        torch.zeros(n, 3) + kept[:, None],
        torch.cat([kept, kept, x[0]]),
        kept.unsqueeze(0).expand(2, n),
    )


@pytest.mark.parametrize("f", [places, masks, written, lengths], ids=lambda f: f.__name__)
def test_places_that_hold(f: Callable[..., Any]) -> None:
    agree(f, *CASES)


def different(x: Tensor) -> tuple[Tensor, ...]:
    return *torch.unique(x, return_inverse=True, return_counts=True), torch.unique(x > 0)


def runs(x: Tensor) -> tuple[Tensor, ...]:
    return *torch.unique_consecutive(x, return_inverse=True, return_counts=True), torch.unique_consecutive(x[:, 0])


def rows(x: Tensor) -> tuple[Tensor, ...]:
    twice = torch.cat([x, x[1:]])
    found = torch.unique(twice, dim=0, return_inverse=True, return_counts=True)
    return *found, *torch.unique_consecutive(twice.mT, dim=1, return_inverse=True)


@pytest.mark.parametrize("f", [different, runs, rows], ids=lambda f: f.__name__)
def test_different_elements(f: Callable[..., Any]) -> None:
    agree(f, (x,), (torch.ones(3, 4),), (x.round(),))


def counts(n: Tensor) -> tuple[Tensor, ...]:
    return torch.bincount(n), torch.bincount(n, minlength=5) * 2, torch.bincount(n, weights=n * 0.5)


def repeated(n: Tensor) -> tuple[Tensor, ...]:
    return torch.repeat_interleave(n), torch.repeat_interleave(n * 0.5, n), torch.repeat_interleave(x, n[:3], dim=0)


def parts(n: Tensor) -> tuple[Tensor, ...]:
    return torch.tensor_split(torch.arange(6.0).reshape(6, 1), n[:2].cumsum(0))


@pytest.mark.parametrize("f", [counts, repeated, parts], ids=lambda f: f.__name__)
def test_numbers_of_elements(f: Callable[..., Any]) -> None:
    agree(f, (torch.tensor([2, 0, 1, 2]),), (torch.tensor([0, 0, 1, 0]),), (torch.tensor([3, 7, 0, 1]),))


def number(x: Tensor, n: Tensor) -> tuple[Tensor, ...]:
    k = n.item()
    torch._check(k >= 0)
    torch._check(k <= 3)
    return x.narrow(0, 0, k), torch.ones(k, 2) * k, x[:, k:], torch.arange(k), x * (n * 0.5).item()


def test_number_out_of_a_tensor() -> None:
    agree(number, *[(x, torch.tensor(n)) for n in (2, 0, 3)])


def test_number_out_of_a_tensor_outside_of_its_range() -> None:
    run = compiled(number, x, torch.tensor(2))
    for n in (-1, 4):
        with pytest.raises(ValueError, match=f"the number that item reads must be from 0 to 3, but it is {n}$"):
            run(x, torch.tensor(n))


def boxes(scores: Tensor, corners: Tensor) -> tuple[Tensor, Tensor]:
    """As detectors end: those of a score that is high enough, from the highest down."""
    kept = scores > 0.5
    s, b = scores[kept], corners[kept]
    order = torch.argsort(s, descending=True)
    return s[order], b[order].clamp(0, 1)


def test_with_dynamic_dimensions() -> None:
    def case(n: int) -> tuple[Tensor, Tensor]:
        g = torch.Generator().manual_seed(n)
        return torch.rand(n, generator=g), torch.rand(n, 4, generator=g) * 2 - 0.5

    rows = torch.export.Dim("rows")
    agree(boxes, case(6), case(3), case(40), dynamic=({0: rows}, {0: rows}))


def test_traced() -> None:
    traced = torch.jit.trace(lambda x: x[x > 0] * 2, (x,))
    mod, params = relay.frontend.from_pytorch(traced, [("x", (3, 4))])
    run = relay.create_executor("vm", mod, tvm.cpu(), "llvm").evaluate()
    for (given,) in CASES:
        np.testing.assert_allclose(run(given.numpy(), **params).numpy(), given[given > 0] * 2)


def test_graph_of_fixed_sizes_says_what_to_use() -> None:
    program = torch.export.export(Function(lambda x: x[x > 0]), (x,), strict=False)
    mod, params = relay.frontend.from_pytorch(program)
    with pytest.raises(TVMError, match="compile for the virtual machine"):
        relay.build(mod, "llvm", params=params)
