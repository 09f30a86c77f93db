"""Tensors of PyTorch as arguments of compiled functions, and their results as tensors; memory is shared."""

from __future__ import annotations

from typing import Any

from tilewright.runtime import NDArray, ndarray


def as_argument(value: Any) -> Any:
    """A tensor as an array of the same memory (contiguous, without gradient); other values as they are."""
    import torch

    if not isinstance(value, torch.Tensor):
        return value
    held = value.detach().contiguous()
    return ndarray.from_dlpack(torch.utils.dlpack.to_dlpack(held))


def as_tensor(value: NDArray) -> Any:
    """An array as a tensor of the same memory."""
    import torch

    return torch.utils.dlpack.from_dlpack(value.to_dlpack())
