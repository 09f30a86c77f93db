"""Functions on tensors of other libraries, from functions on arrays."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tilewright.runtime import ndarray


def convert_func(
    tvm_func: Callable[..., Any], tensor_type: type, to_dlpack_func: Callable[[Any], Any]
) -> Callable[..., Any]:
    """A function that takes tensors of `tensor_type` where `tvm_func` takes arrays. Memory is shared, so results that are written into
    arguments are seen in the tensors. to_dlpack_func: makes a DLPack capsule of a tensor."""
    assert callable(tvm_func)

    def called(*args: Any) -> Any:
        return tvm_func(*[ndarray.from_dlpack(to_dlpack_func(a)) if isinstance(a, tensor_type) else a for a in args])

    return called


def to_pytorch_func(tvm_func: Callable[..., Any]) -> Callable[..., Any]:
    """A function that takes tensors of PyTorch where `tvm_func` takes arrays."""
    import torch
    from torch.utils.dlpack import to_dlpack

    return convert_func(tvm_func, torch.Tensor, to_dlpack)
