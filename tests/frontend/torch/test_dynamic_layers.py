"""Layers whose extents are dynamic: one build is right at other sizes than those it was exported with."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import tilewright as tvm
from tilewright import relay


def agree(module: nn.Module, axes: tuple[int, ...], shapes: list[tuple[int, ...]], traced: bool = False) -> None:
    module.eval()
    dims = dict.fromkeys(axes, torch.export.Dim.DYNAMIC)
    if traced:
        infos = [("x", tuple([f"n{k}" if k in axes else d for k, d in enumerate(shapes[0])]))]
        mod, params = relay.frontend.from_pytorch(torch.jit.trace(module, torch.randn(shapes[0])), infos)
    else:
        program = torch.export.export(module, (torch.randn(shapes[0]),), dynamic_shapes=(dims,), strict=False)
        mod, params = relay.frontend.from_pytorch(program)
    run = relay.create_executor("vm", mod, tvm.cpu(), "llvm").evaluate()
    for shape in shapes:
        x = torch.randn(shape)
        with torch.no_grad():
            wanted = module(x)
        wanted = wanted if isinstance(wanted, tuple) else (wanted,)
        result = run(x.numpy(), **params)
        for mine, theirs in zip([result] if hasattr(result, "numpy") else result, wanted, strict=True):
            assert mine.shape == tuple(theirs.shape)
            np.testing.assert_allclose(mine.numpy(), theirs.numpy(), rtol=1e-4, atol=1e-5)


class Recurrent(nn.Module):
    """All that a recurrent layer answers."""

    def __init__(self, kind: Any, **options: Any) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.layer = kind(3, 4, **options)

    def forward(self, x: Tensor) -> Any:
        out, last = self.layer(x)
        return (out, *last) if isinstance(last, tuple) else (out, last)


@pytest.mark.parametrize(
    ("kind", "options"),
    [
        (nn.LSTM, {"num_layers": 2, "bidirectional": True, "batch_first": True}),
        (nn.GRU, {"bidirectional": True}),
        (nn.RNN, {"bias": False}),
    ],
    ids=["lstm", "gru", "rnn"],
)
def test_steps(kind: Any, options: Any) -> None:
    """torch.export itself fixes the number of steps of an input."""
    agree(Recurrent(kind, **options), (0, 1), [(2, 5, 3), (3, 4, 3), (4, 2, 3)], traced=True)


class Spectrum(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        both = torch.fft.fftn(x, dim=(0, 1), norm="ortho").real
        half = torch.fft.rfft(x, dim=1)
        return both[:, : half.shape[1]] + half.imag


def test_transforms() -> None:
    agree(Spectrum(), (0, 1), [(4, 6), (3, 5), (5, 32)])


class Patches(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return nn.functional.unfold(x, (3, 2), dilation=(1, 2), padding=(1, 0), stride=(2, 1)).mean(1)


def test_patches() -> None:
    agree(Patches(), (0, 2, 3), [(2, 3, 6, 7), (1, 3, 5, 5), (3, 3, 8, 4)])


class CutBorder(nn.Module):
    """As positions of speech encoders are embedded: the last of a padded convolution's steps is cut off."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.halved, self.around = nn.Conv1d(4, 4, 3, stride=2), nn.Conv1d(4, 4, 4, padding=2)

    def forward(self, x: Tensor) -> Tensor:
        x = self.halved(x)
        x = (x + self.around(x)[:, :, :-1]).transpose(1, 2)
        return x.view(x.shape[0], x.shape[1], -1, 2).sum(2)


def test_cut_borders() -> None:
    agree(CutBorder(), (0, 2), [(2, 4, 40), (1, 4, 9), (3, 4, 12)])
