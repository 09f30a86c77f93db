"""Channels that fill no whole number of vectors run in blocks that are filled up, and what fills them up is never seen."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from tests.relay.transform.layout.test_pack_winograd import run
from tilewright import relay
from tilewright.ir import IRModule
from tilewright.ir.transform import PassContext
from tilewright.relay.op.convolution.conv import filled_block
from tilewright.target.core import core

LEVEL0 = ("AlterOpLayout", "PackWinograd")
Net = Callable[[relay.Expr], relay.Expr]


def weights(*shape: int) -> relay.Constant:
    return relay.const((np.random.default_rng(sum(shape)).standard_normal(shape) * 0.2).astype("float32"))


def conv(x: relay.Expr, i: int, o: int, kernel: int = 1, **attributes: Any) -> relay.Expr:
    return relay.nn.conv2d(x, weights(o, i, kernel, kernel), padding=(kernel // 2,) * 2, **attributes)


def affine(y: relay.Expr, channels: int) -> relay.Expr:
    return relay.nn.relu(relay.nn.bias_add(y, weights(channels)))


def chain(x: relay.Expr) -> relay.Expr:
    return conv(affine(conv(x, 16, 24), 24), 24, 40, 3)


def depthwise(x: relay.Expr) -> relay.Expr:
    y = affine(conv(x, 16, 24), 24)
    return conv(affine(relay.nn.conv2d(y, weights(24, 1, 3, 3), padding=(1, 1), groups=24), 24), 24, 20)


def residual(x: relay.Expr) -> relay.Expr:
    y = affine(conv(x, 16, 28), 28)
    return conv(relay.nn.relu(conv(y, 28, 28, 3) + y), 28, 32)


def quotient(x: relay.Expr) -> relay.Expr:
    """What fills blocks up would become 0 / 0 and log(0)."""
    y = relay.sigmoid(conv(x, 16, 24))
    by = relay.const(np.linspace(1, 2, 24, dtype="float32").reshape(1, 24, 1, 1))
    return conv(relay.log(y / by) + relay.sqrt(y), 24, 16)


def pooled(x: relay.Expr) -> relay.Expr:
    y = relay.nn.max_pool2d(affine(conv(x, 16, 44), 44), (3, 3), (2, 2), padding=(1, 1))
    return relay.nn.batch_flatten(relay.nn.global_avg_pool2d(conv(y, 44, 100)))


def joined(x: relay.Expr) -> relay.Expr:
    y = affine(conv(x, 16, 24), 24)
    return conv(relay.concatenate(relay.Tuple([conv(y, 24, 24), conv(y, 24, 40, 3)]), axis=1), 64, 16)


def grouped(x: relay.Expr) -> relay.Expr:
    y = affine(conv(x, 16, 24), 24)
    return relay.nn.conv2d(y, weights(24, 12, 3, 3), padding=(1, 1), groups=2)


def squeezed(x: relay.Expr) -> relay.Expr:
    y = affine(conv(x, 16, 24), 24)
    gate = relay.sigmoid(conv(relay.nn.relu(conv(relay.nn.global_avg_pool2d(y), 24, 6)), 6, 24))
    return conv(y * gate, 24, 32)


def softmax(x: relay.Expr) -> relay.Expr:
    return relay.nn.softmax(conv(x, 16, 30), axis=1)


def images() -> list[np.ndarray]:
    return [np.random.default_rng(0).standard_normal((2, 16, 10, 9)).astype("float32")]


def module_of(net: Net) -> IRModule:
    return IRModule.from_expr(net(relay.var("x", shape=(2, 16, 10, 9))))


@functools.cache
def as_written(net: Net) -> np.ndarray:
    """The results of a network whose layouts stay; they are the same for all targets."""
    return run(module_of(net), images(), "llvm", LEVEL0)


@pytest.mark.parametrize("target", ["llvm", "llvm -mcpu=haswell", "llvm -mcpu=x86-64"])
@pytest.mark.parametrize(
    "net", [chain, depthwise, residual, quotient, pooled, joined, grouped, squeezed, softmax], ids=lambda f: f.__name__
)
def test_computes_the_same(net: Net, target: str) -> None:
    plain = as_written(net)
    assert np.isfinite(plain).all()
    np.testing.assert_allclose(run(module_of(net), images(), target), plain, rtol=0, atol=1e-5 * np.abs(plain).max())


def test_blocks_are_whole_vectors() -> None:
    with PassContext(opt_level=3):
        optimized, _ = relay.optimize(
            IRModule.from_expr(chain(relay.var("x", shape=(1, 16, 10, 9)))), "llvm -mcpu=skylake-avx512"
        )
    text = relay.astext(optimized)
    assert "NCHW8c" not in text and "NCHW16c" in text


@pytest.mark.parametrize(
    ("channels", "lanes", "block"),
    [
        (64, 16, 16),
        (24, 16, 16),
        (42, 16, 16),
        (10, 16, 16),
        (9, 16, 9),
        (1000, 16, 16),
        (8, 16, 8),
        (3, 16, 3),
        (12, 8, 8),
        (17, 16, 1),
    ],
)
def test_block(channels: int, lanes: int, block: int) -> None:
    assert filled_block(channels, lanes, core("avx512_intel", 32).filled_block) == block


def test_images_of_dynamic_size_are_cut_off() -> None:
    """What is plain again has the channels that there are, of any number of images of any size."""
    x = relay.var("x", shape=(relay.Any(), 16, relay.Any(), relay.Any()))
    mod = IRModule.from_expr(relay.Function([x], relay.transpose(conv(x, 16, 21), (0, 2, 3, 1))))
    with PassContext(opt_level=3):
        f = relay.create_executor("vm", mod, target="llvm").evaluate()
    plain = relay.create_executor("debug", mod).evaluate()
    for shape in ((1, 16, 5, 6), (3, 16, 4, 4)):
        given = np.random.default_rng(0).standard_normal(shape).astype("float32")
        np.testing.assert_allclose(f(given).numpy(), plain(given).numpy(), rtol=1e-4, atol=1e-5)


def test_a_block_of_a_lone_convolution_may_be_half_empty() -> None:
    """Vectors along an image of four places would be mostly padding."""
    x = relay.var("x", shape=(1, 96, 4, 4))
    y = relay.nn.conv2d(x, weights(9, 96, 5, 5), strides=(2, 2), padding=(2, 2))
    mod = IRModule.from_expr(relay.Function([x], relay.nn.relu(y)))
    optimized, _ = relay.optimize(mod, "llvm -mtriple=x86_64-unknown-linux-gnu -mcpu=skylake-avx512")
    assert "NCHW16c" in relay.astext(optimized)
    given = np.random.default_rng(0).standard_normal((1, 96, 4, 4)).astype("float32")
    with PassContext(opt_level=3):
        found = relay.create_executor("graph", mod, target="llvm").evaluate()(given).numpy()
    np.testing.assert_allclose(
        found, relay.create_executor("debug", mod).evaluate()(given).numpy(), rtol=1e-4, atol=1e-4
    )
