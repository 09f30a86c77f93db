"""Simplifications as the documentation of the passes shows them: scales into weights, filled tensors, roots in denominators."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.relay.random_graphs import assert_same, evaluate
from tilewright import relay
from tilewright.ir import IRModule
from tilewright.node import assert_structural_equal
from tilewright.relay import transform
from tilewright.relay.analysis import list_op_freqs


def values(*shape: int) -> np.ndarray:
    return np.random.default_rng(sum(shape)).uniform(0.5, 2, shape).astype("float32")


def constant(*shape: int) -> relay.Constant:
    return relay.const(values(*shape))


def folded(made: Any, body: relay.Expr, products: int, **shapes: tuple[int, ...]) -> relay.Expr:
    """The body after a pass, whose values stay, and in which as many products are left."""
    mod = transform.InferType()(IRModule.from_expr(relay.Function(relay.analysis.free_vars(body), body)))
    after = made(mod)
    inputs = [values(*[int(d) for d in p.checked_type.shape]) for p in mod["main"].params]
    assert_same(evaluate(after, inputs), evaluate(mod, inputs))
    assert list_op_freqs(after).get("multiply", 0) == products
    return after["main"].body


@pytest.mark.parametrize("layouts", [("NCHW", "OIHW"), ("NHWC", "HWIO")])
def test_scale_before_a_convolution(layouts: tuple[str, str]) -> None:
    last = layouts[0] == "NHWC"
    x = relay.var("x", shape=(2, 8, 8, 4) if last else (2, 4, 8, 8))
    s, b = constant(*((4,) if last else (4, 1, 1))), constant(*((4,) if last else (4, 1, 1)))
    shape = (3, 3, 4, 5) if last else (5, 4, 3, 3)

    def conv(data: relay.Expr, weight: relay.Expr) -> relay.Expr:
        return relay.nn.conv2d(data, weight, padding=(1, 1), data_layout=layouts[0], kernel_layout=layouts[1])

    scaled = relay.multiply(x, s)
    for data in (scaled, relay.nn.relu(scaled), relay.add(scaled, b), relay.nn.relu(relay.add(scaled, b))):
        folded(transform.ForwardFoldScaleAxis(), conv(data, constant(*shape)), 0)
    body = folded(transform.ForwardFoldScaleAxis(), conv(scaled, relay.var("w", shape=shape)), 1)
    assert body.args[1].op.name == "multiply" and body.args[0].name_hint == "x"


@pytest.mark.parametrize("layouts", [("NCHW", "OIHW"), ("NHWC", "HWIO")])
def test_scale_after_a_convolution(layouts: tuple[str, str]) -> None:
    last = layouts[0] == "NHWC"
    x = relay.var("x", shape=(2, 8, 8, 4) if last else (2, 4, 8, 8))
    s, b = constant(*((5,) if last else (5, 1, 1))), constant(*((5,) if last else (5, 1, 1)))
    shape = (3, 3, 4, 5) if last else (5, 4, 3, 3)

    def conv(weight: relay.Expr) -> relay.Expr:
        return relay.nn.conv2d(x, weight, data_layout=layouts[0], kernel_layout=layouts[1])

    made = conv(constant(*shape))
    for y in (
        made,
        relay.nn.relu(made),
        relay.add(made, b),
        relay.nn.relu(relay.nn.bias_add(made, constant(5), -1 if last else 1)),
    ):
        folded(transform.BackwardFoldScaleAxis(), relay.multiply(y, s), 0)
    body = folded(
        transform.BackwardFoldScaleAxis(), relay.multiply(relay.nn.relu(conv(relay.var("w", shape=shape))), s), 1
    )
    assert body.op.name == "nn.relu" and body.args[0].args[1].op.name == "multiply"
    of_an_input = relay.multiply(conv(relay.var("w", shape=shape)), relay.var("s", shape=s.data.shape))
    assert folded(transform.BackwardFoldScaleAxis(), of_an_input, 1).op.name == "nn.conv2d"


def test_depthwise_and_grouped_convolutions() -> None:
    x, s = relay.var("x", shape=(1, 4, 6, 6)), constant(4, 1, 1)
    depthwise = relay.nn.conv2d(relay.multiply(x, s), constant(4, 1, 3, 3), groups=4)
    folded(transform.ForwardFoldScaleAxis(), depthwise, 0)
    grouped = relay.nn.conv2d(relay.multiply(x, s), constant(4, 2, 3, 3), groups=2)
    folded(transform.ForwardFoldScaleAxis(), grouped, 1)
    folded(transform.BackwardFoldScaleAxis(), relay.multiply(relay.nn.conv2d(x, constant(4, 2, 3, 3), groups=2), s), 0)


def test_scales_that_stay() -> None:
    x, w = relay.var("x", shape=(1, 4, 6, 6)), constant(5, 4, 3, 3)
    negative = relay.const(-values(5, 1, 1))
    folded(transform.BackwardFoldScaleAxis(), relay.multiply(relay.nn.relu(relay.nn.conv2d(x, w)), negative), 1)
    folded(transform.BackwardFoldScaleAxis(), relay.multiply(relay.nn.conv2d(x, w), constant(1, 5, 4, 4)), 1)
    read_twice = relay.multiply(x, constant(4, 1, 1))
    folded(transform.ForwardFoldScaleAxis(), relay.Tuple([relay.nn.conv2d(read_twice, w), read_twice]), 1)
    # A build scales what is smaller.
    large = relay.nn.dense(relay.multiply(relay.var("x", shape=(1, 8)), constant(8)), relay.var("w", shape=(64, 8)))
    assert folded(transform.FoldScaleAxis(), large, 1).args[1].name_hint == "w"


def simplified(body: relay.Expr) -> relay.Expr:
    return transform.SimplifyExpr()(transform.InferType()(IRModule.from_expr(body)))["main"].body


def test_filled_tensors() -> None:
    x = relay.var("x", shape=(2, 3))
    for same in (
        relay.add(x, relay.zeros((2, 3), "float32")),
        relay.multiply(relay.ones_like(x), x),
        relay.divide(x, relay.ones((3,), "float32")),
        relay.subtract(x, relay.zeros_like(x)),
    ):
        assert simplified(same) is x
    two = relay.full(relay.const(2.0), (2, 3), "float32")
    assert_structural_equal(simplified(relay.maximum(two, x)), relay.maximum(relay.const(2.0), x))
    wider = relay.add(x, relay.ones((4, 2, 3), "float32"))
    assert_structural_equal(simplified(wider), wider)


def test_roots_in_denominators() -> None:
    x = relay.var("x", shape=(2, 3))
    assert_structural_equal(simplified(relay.divide(relay.const(1.0), relay.sqrt(x))), relay.rsqrt(x))
    assert_structural_equal(
        simplified(relay.const(3.0) / relay.sqrt(x)), relay.multiply(relay.const(3.0), relay.rsqrt(x))
    )


def test_order_of_dequantised_numbers() -> None:
    x = relay.var("x", shape=(2, 3), dtype="int8")
    real = relay.qnn.op.dequantize(x, relay.const(0.5), relay.const(3))
    assert_structural_equal(simplified(relay.argmax(real, axis=1)), relay.argmax(x, axis=1))
    falling = relay.argmax(relay.qnn.op.dequantize(x, relay.const(-0.5), relay.const(3)), axis=1)
    assert_structural_equal(simplified(falling), falling)


def test_moves_of_axes_and_of_layouts() -> None:
    x = relay.var("x", shape=(2, 3, 4, 5))
    last = relay.layout_transform(x, "NCHW", "NHWC")
    assert simplified(relay.transpose(last, (0, 3, 1, 2))) is x
    assert simplified(relay.layout_transform(relay.transpose(x, (0, 2, 3, 1)), "NHWC", "NCHW")) is x
    assert_structural_equal(
        simplified(relay.layout_transform(last, "NHWC", "CHWN")), relay.transpose(x, axes=(1, 2, 3, 0))
    )
    assert_structural_equal(simplified(last), last)
    blocks = relay.layout_transform(relay.layout_transform(x, "NCHW", "NCHW3c"), "NCHW3c", "NHWC")
    assert_structural_equal(simplified(blocks), blocks)


def test_shapes_that_are_known() -> None:
    x = relay.var("x", shape=(2, 3), dtype="int32")
    assert_structural_equal(simplified(relay.zeros_like(x)), relay.zeros((2, 3), "int32"))
    assert_structural_equal(simplified(relay.ones_like(x)), relay.ones((2, 3), "int32"))
    assert_structural_equal(simplified(relay.full_like(x, relay.const(7))), relay.full(relay.const(7), (2, 3), "int32"))
    open_shape = relay.zeros_like(relay.var("y", shape=(relay.Any(), 3)))
    assert_structural_equal(simplified(open_shape), open_shape)
