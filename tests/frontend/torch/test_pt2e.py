"""The operators that PT2E and torchao write around plain ones: levels of known scales, and of scales that the model chooses."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
import torch.ao.quantization.fx._decomposed  # (registers the operators)
from torch import Tensor, nn

import tilewright as tvm
from tilewright import relay

Q = torch.ops.quantized_decomposed
BYTES = (-128, 127, torch.int8)


class Calls(nn.Module):
    """A function as a model; numbers that it makes are tensors."""

    def __init__(self, f: Callable[..., Any]) -> None:
        super().__init__()
        self.f = f

    def forward(self, *inputs: Tensor) -> Any:
        return self.f(*inputs)


def agree(f: Callable[..., Any], *inputs: Tensor, kind: str = "debug") -> Any:
    """Exports, imports and compares a function of tensors; the relay module."""
    module = Calls(f)
    wanted = torch.utils._pytree.tree_leaves(module(*inputs))
    mod, params = relay.frontend.from_pytorch(torch.export.export(module, inputs))
    run = relay.create_executor(kind, mod, tvm.cpu(), "llvm").evaluate()
    result = run(*[x.numpy() for x in inputs], **params)
    for mine, theirs in zip([result] if hasattr(result, "numpy") else result, wanted, strict=True):
        assert mine.dtype == str(theirs.dtype).removeprefix("torch.")
        np.testing.assert_allclose(mine.numpy(), theirs.numpy(), rtol=1e-6, atol=1e-7)
    return mod


x46 = torch.randn(4, 6, generator=torch.Generator().manual_seed(3))


def dynamic(x: Tensor, choose: Any = Q.choose_qparams.tensor, levels: tuple[Any, ...] = BYTES) -> Any:
    low, high, dtype = levels
    scale, zero = choose(x, low, high, 1e-5, dtype)
    q = Q.quantize_per_tensor.tensor(x, scale, zero, low, high, dtype)
    return scale, zero, q, Q.dequantize_per_tensor.tensor(q, scale, zero, low, high, dtype)


@pytest.mark.parametrize("kind", ["debug", "graph"])
@pytest.mark.parametrize("levels", [BYTES, (0, 255, torch.uint8), (-127, 127, torch.int8)], ids=str)
def test_scales_of_a_tensor(kind: str, levels: tuple[Any, ...]) -> None:
    for x in (x46, x46.abs() + 1, -x46.abs(), torch.zeros(3)):
        agree(lambda x: dynamic(x, levels=levels), x, kind=kind)
        agree(lambda x: dynamic(x, Q.choose_qparams_symmetric.tensor, levels), x, kind=kind)


@pytest.mark.parametrize("choose", [Q.choose_qparams_per_token, Q.choose_qparams_per_token_asymmetric], ids=str)
def test_scales_of_rows(choose: Any) -> None:
    def f(x: Tensor) -> Any:
        scales, zeros = choose(x, torch.int8)
        q = Q.quantize_per_token(x, scales, zeros, *BYTES)
        return q, Q.dequantize_per_token(q, scales, zeros, *BYTES, torch.float32)

    agree(f, x46)
    agree(f, x46.reshape(2, 2, 6))


def test_scales_of_groups() -> None:
    scales, zeros = torch.rand(4, 2) / 10 + 0.01, torch.randint(-9, 9, (4, 2))

    def f(x: Tensor) -> Any:
        q = Q.quantize_per_channel_group(x, scales, zeros, *BYTES, 3)
        return q, Q.dequantize_per_channel_group(q, scales, zeros, *BYTES, 3, torch.float32)

    agree(f, x46)
    agree(
        lambda q: Q.dequantize_per_channel_group(q, scales, None, *BYTES, 3, torch.float32), (x46 * 40).to(torch.int8)
    )


def test_scales_that_are_inputs() -> None:
    scale, zero = torch.tensor(0.05), torch.tensor(7)

    def f(x: Tensor, scale: Tensor, zero: Tensor) -> Any:
        q = Q.quantize_per_tensor.tensor(x, scale, zero, *BYTES)
        return q, Q.dequantize_per_tensor.tensor(q, scale, zero, *BYTES)

    agree(f, x46, scale, zero)
    limits = torch.tensor(-100), torch.tensor(100)
    agree(lambda x: Q.quantize_per_tensor.tensor2(x, scale, zero, *limits, torch.int8), x46)


def test_products_of_bytes() -> None:
    weight = (torch.rand(6, 5) * 200 - 100).to(torch.int8)
    mod = agree(lambda a: torch._int_mm(a, weight), (x46.repeat(5, 1) * 40).to(torch.int8))
    assert "qnn.dense" in mod.astext()
    agree(lambda x: Q.convert_element_type.no_fuse(x, torch.bfloat16).float(), x46)
