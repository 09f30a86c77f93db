"""WideSums: products of bfloat16 use the instruction that sums in float32, and round once."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tilewright import relay
from tilewright.ir import IRModule
from tilewright.ir.transform import PassContext
from tilewright.relay.analysis import list_op_freqs
from tilewright.target import Target

BF16 = "llvm -mtriple=x86_64-unknown-linux-gnu -mcpu=znver4"
TILES = "llvm -mtriple=x86_64-unknown-linux-gnu -mcpu=sapphirerapids"
PLAIN = "llvm -mtriple=x86_64-unknown-linux-gnu -mcpu=haswell"


def constant(*shape: int, dtype: str = "bfloat16") -> relay.Expr:
    return relay.cast(relay.const(np.random.default_rng(0).standard_normal(shape).astype("float32")), dtype)


def convolution(dtype: str = "bfloat16", weight: relay.Expr | None = None) -> relay.Expr:
    x = relay.var("x", shape=(1, 46, 12, 12), dtype=dtype)
    return relay.nn.conv2d(x, constant(121, 46, 3, 3, dtype=dtype) if weight is None else weight, padding=(1, 1))


def operators(body: relay.Expr, target: str) -> dict[str, int]:
    with Target(target), PassContext(opt_level=3):
        return list_op_freqs(relay.optimize(IRModule.from_expr(body), target)[0])


def widened(body: relay.Expr, target: str) -> str:
    """The program after the pass alone."""
    mod = relay.transform.FoldConstant()(relay.transform.InferType()(IRModule.from_expr(body)))
    with Target(target):
        return relay.transform.WideSums()(mod).astext(False)


def test_a_convolution_gets_the_layout_of_the_instruction() -> None:
    assert "nn.contrib_conv2d_NCHWc" in operators(convolution(), BF16)


def test_tiles_are_filled_up() -> None:
    """46 channels are two blocks of 32, and 121 filters eight tiles of 16."""
    with Target(TILES), PassContext(opt_level=3):
        text = relay.optimize(IRModule.from_expr(convolution()), TILES)[0].astext(False)
    assert "NCHW32c" in text and "OIHW16i" in text and "(1, 2, 12, 12, 32)" in text


def test_a_single_line_is_not_in_tiles() -> None:
    """The schedule of tiles does not find it, and would leave scalars."""
    x = relay.var("x", shape=(1, 64, 1, 53), dtype="bfloat16")
    body = relay.nn.conv2d(x, constant(32, 64, 1, 3), padding=(0, 1))
    with Target(TILES), PassContext(opt_level=3):
        text = relay.optimize(IRModule.from_expr(body), TILES)[0].astext(False)
    assert "o2i" not in text


def test_few_pairs_are_not_in_tiles() -> None:
    x = relay.var("x", shape=(53, 2), dtype="bfloat16")
    with Target(TILES), PassContext(opt_level=3):
        text = relay.optimize(IRModule.from_expr(relay.nn.dense(x, constant(418, 2))), TILES)[0].astext(False)
    assert "dense_pack" not in text


def test_a_dense_layer_sums_in_float32_and_rounds() -> None:
    x = relay.var("x", shape=(8, 32), dtype="bfloat16")
    text = widened(relay.nn.dense(x, constant(24, 32)), BF16)
    assert 'out_dtype="float32"' in text and "cast(" in text.split("nn.dense")[1]


@pytest.mark.parametrize(
    ("body", "target"),
    [
        (convolution(), PLAIN),  # no instruction
        (convolution("float32"), BF16),
        (convolution(weight=relay.var("w", shape=(121, 46, 3, 3), dtype="bfloat16")), BF16),
        (relay.nn.dense(relay.var("x", shape=(8, 32), dtype="bfloat16"), constant(24, 32), out_dtype="float32"), BF16),
    ],
)
def test_leaves_other_products(body: Any, target: str) -> None:
    with Target(target):
        before = relay.transform.FoldConstant()(relay.transform.InferType()(IRModule.from_expr(body))).astext(False)
    assert widened(body, target) == before
