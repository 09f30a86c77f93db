"""Samples of PyTorch's operators: (operator, arguments, keyword arguments), a file per family."""

from __future__ import annotations

from typing import Any

import torch

Sample = tuple[Any, ...]


def f(
    *shape: int, low: float = -2.0, high: float = 2.0, dtype: torch.dtype = torch.float32, seed: int = 0
) -> torch.Tensor:
    """Floating-point numbers."""
    g = torch.Generator().manual_seed(seed + sum(shape))
    return (torch.rand(shape, generator=g) * (high - low) + low).to(dtype)


def i(*shape: int, low: int = -5, high: int = 6, dtype: torch.dtype = torch.int64, seed: int = 0) -> torch.Tensor:
    """Integers."""
    g = torch.Generator().manual_seed(seed + sum(shape))
    return torch.randint(low, high, shape, generator=g).to(dtype)


def b(*shape: int, seed: int = 0) -> torch.Tensor:
    """Truth values."""
    return i(*shape, low=0, high=2, seed=seed).bool()
