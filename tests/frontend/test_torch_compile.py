"""torch.compile(backend="tilewright"): whole graphs, parts of graphs, weights that change, gradients."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from tilewright.relay.frontend.pytorch.compile import Piece, backend


@pytest.fixture(autouse=True)
def fresh() -> Iterator[None]:
    torch._dynamo.reset()
    yield
    torch._dynamo.reset()


@pytest.fixture
def pieces(monkeypatch: pytest.MonkeyPatch) -> list[Piece]:
    """The pieces that were compiled."""
    built: list[Piece] = []
    plain = Piece.build

    def build(self: Piece, args: Any) -> None:
        plain(self, args)
        assert not self.failed
        built.append(self)

    monkeypatch.setattr(Piece, "build", build)
    return built


def net() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(
        nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(4, 5)
    ).eval()


def test_name_is_known_to_pytorch() -> None:
    assert "tilewright" in torch._dynamo.list_backends(exclude_tags=())


def test_whole_graph(pieces: list[Piece]) -> None:
    module = net()
    compiled = torch.compile(module, backend="tilewright")
    x = torch.randn(2, 3, 8, 8)
    with torch.no_grad():
        for _ in range(2):
            torch.testing.assert_close(compiled(x), module(x))
        assert len(pieces) == 1
        assert len(pieces[0].frozen) >= 4
        module[5].weight.mul_(2.0)
        torch.testing.assert_close(compiled(x), module(x))
        # A written weight has the piece built again; another batch makes a graph of open sizes, which takes all others.
        for n in (3, 4, 5):
            x = torch.randn(n, 3, 8, 8)
            torch.testing.assert_close(compiled(x), module(x))
    assert len(pieces) == 3


class Parts(nn.Module):
    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        y = torch.relu(x) * 2 + 1
        u = torch.special.airy_ai(y)
        return torch.tanh(u * 3) + y.sum(), y.mT @ y


def test_parts_of_a_graph(pieces: list[Piece]) -> None:
    x = torch.randn(4, 6)
    with torch.no_grad():
        torch.testing.assert_close(torch.compile(Parts(), backend=backend)(x), Parts()(x))
    assert len(pieces) >= 1
    assert not any("airy" in str(n.target) for p in pieces for n in p.graph.graph.nodes if n.op == "call_function")


def test_gradients(pieces: list[Piece]) -> None:
    module = net()
    x = torch.randn(2, 3, 8, 8)
    module(x).square().sum().backward()
    wanted = [p.grad.clone() for p in module.parameters() if p.grad is not None]
    module.zero_grad()
    torch.compile(module, backend=backend)(x).square().sum().backward()
    for p, grad in zip(module.parameters(), wanted, strict=True):
        torch.testing.assert_close(p.grad, grad, rtol=1e-4, atol=1e-5)
    assert len(pieces) >= 2
