"""Operators on graphs in exported programs: choices, loops, scans, maps, attention with a function of its scores, autocast, torch.func."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch._higher_order_ops.associative_scan import associative_scan
from torch._higher_order_ops.map import map as each_row
from torch._higher_order_ops.scan import scan
from torch._higher_order_ops.while_loop import while_loop
from torch.nn.attention.flex_attention import create_block_mask, flex_attention

import tilewright as tvm
from tilewright import relay
from tilewright.relay.frontend.pytorch.dtypes import tensor_array
from tilewright.support.errors import ModelError

torch.manual_seed(0)
DYNAMIC = torch.export.Dim.DYNAMIC
x = torch.randn(3, 4)
layer = nn.Linear(4, 4)
q, kv = torch.randn(1, 2, 16, 8), torch.randn(1, 1, 16, 8)
bias = torch.randn(2, 31)


class Function(nn.Module):
    def __init__(self, f: Callable[..., Any]) -> None:
        super().__init__()
        self.f, self.layer = f, layer

    def forward(self, *xs: Tensor) -> Any:
        return self.f(*xs)


def agree(f: Callable[..., Any], *cases: tuple[Tensor, ...], dynamic: Any = None, plain: Any = None) -> str:
    """Compiled for the first case, right for all; the program's text."""
    with torch.no_grad():
        program = torch.export.export(Function(f), cases[0], dynamic_shapes=dynamic and {"xs": dynamic}, strict=False)
    mod, params = relay.frontend.from_pytorch(program)
    run = relay.create_executor("vm", mod, tvm.cpu(), "llvm").evaluate()
    for xs in cases:
        result = run(*[t.numpy() for t in xs], **params)
        found = [result] if hasattr(result, "numpy") else list(result)
        with torch.no_grad():
            wanted = torch.utils._pytree.tree_leaves((plain or f)(*xs))
        assert len(found) == len(wanted)
        for mine, theirs in zip(found, wanted, strict=True):
            want = tensor_array(torch.as_tensor(theirs))
            assert (mine.numpy().dtype, mine.shape) == (want.dtype, want.shape)
            loose = want.dtype.name == "bfloat16"
            np.testing.assert_allclose(
                mine.numpy().astype("float64"), want.astype("float64"), rtol=2e-2 if loose else 1e-4, atol=1e-5
            )
    return str(mod.astext())


def nested(x: Tensor) -> Any:
    return torch.cond(
        x.sum() > 0, lambda x: torch.cond(x[0, 0] > 0, lambda x: x + 1, lambda x: layer(x), (x,)), lambda x: x * 2, (x,)
    )


def by_size(x: Tensor) -> Any:
    n = x.shape[0]
    return torch.cond(n > 4, lambda x: (x * 2, x.sum()), lambda x: (x * 3, x.mean()), (x,))


def test_choices() -> None:
    agree(nested, (x,), (-x,), (x.abs(),), (-x.abs(),))
    agree(by_size, (x,), (torch.randn(6, 4),), dynamic=({0: DYNAMIC},))


def test_choice_that_is_known() -> None:
    assert "if (" not in agree(lambda x: torch.cond(torch.tensor(True), lambda x: x + 1, lambda x: x - 1, (x,)), (x,))


def test_loops() -> None:
    agree(lambda x: while_loop(lambda i, x: i < 4, lambda i, x: (i + 1, layer(x) + i), (0, x)), (x,))
    agree(
        lambda x: while_loop(
            lambda i, x: (i < x.shape[0]) & (x.sum() < 90), lambda i, x: (i + 1, x * 1.5), (torch.zeros((), dtype=torch.int64), x)
        ),
        (x.abs(),), (10 * torch.rand(6, 4),), dynamic=({0: DYNAMIC},),
    )  # fmt: skip


def accumulated(x: Tensor) -> Any:
    return scan(lambda c, x: (torch.tanh(layer(c) + x), c * 2), torch.zeros(4), x)


def test_steps_along_an_axis() -> None:
    agree(accumulated, (x,))
    agree(accumulated, (x,), (torch.randn(7, 4),), dynamic=({0: DYNAMIC},))
    agree(
        lambda x: scan(
            lambda c, x: ({"a": c["a"] + x["u"]}, x["u"] * 2), {"a": torch.zeros(4)}, {"u": x}, dim=0, reverse=True
        ),
        (x,),
    )
    agree(
        lambda x, y: associative_scan(
            lambda a, b: (a[0] * b[0], b[0] * a[1] + b[1]), (x, y), 0, combine_mode="generic"
        ),
        (x, x + 1),
    )


@pytest.mark.parametrize("dynamic", [None, ({0: DYNAMIC}, None)], ids=["known", "dynamic"])
def test_each_row(dynamic: Any) -> None:
    cases = [(x, torch.randn(4, 5))] + ([(torch.randn(7, 4), torch.randn(4, 5))] if dynamic else [])
    agree(
        lambda x, y: each_row(lambda r, y: r.sin() @ y, x, y), *cases, dynamic=dynamic, plain=lambda x, y: x.sin() @ y
    )


def causal(s: Tensor, b: Tensor, h: Tensor, i: Tensor, j: Tensor) -> Tensor:
    return torch.where(i >= j, s + bias[h, i - j + 15], -float("inf"))


def test_attention_with_a_function_of_its_scores() -> None:
    agree(lambda q: flex_attention(q, q, q, score_mod=causal), (q,))
    agree(lambda q, k: flex_attention(q, k, k, enable_gqa=True, score_mod=lambda s, b, h, i, j: s * (i - j)), (q, kv))
    mask = create_block_mask(lambda b, h, i, j: (i >= j) & (i < 12), None, None, 16, 16, device="cpu")
    agree(lambda q: flex_attention(q, q, q, block_mask=mask, scale=0.5), (q,))


def mixed(x: Tensor) -> Any:
    with torch.autocast("cpu", dtype=torch.bfloat16):
        y = layer(x)
        product = x @ y.mT
        with torch.autocast("cpu", enabled=False):
            whole = layer(x)
    return y, product, whole, y.float() + x


def test_autocast() -> None:
    agree(mixed, (x,))


def test_vmap() -> None:
    agree(lambda x: torch.vmap(lambda r: r.sum() * r)(x), (x,))


def test_derivatives_inside() -> None:
    with pytest.raises(ModelError, match=r"Derivatives inside of a model \(torch.func.grad\) are such: write them out"):
        agree(lambda x: torch.func.grad(lambda y: (y**2).sum())(x), (x,))


def test_checks_that_have_an_order() -> None:
    agree(lambda x: torch.linalg.tensorinv(x.reshape(4, 2, 2), 1), (torch.eye(4) + 0.1,))
