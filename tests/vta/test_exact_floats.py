"""Requantisation in float32 by powers of two on the accelerator: equal to the bit to the CPU, and refused where it might round."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.vta.networks import compared
from tests.vta.test_networks import SMALL
from tilewright import relay
from tilewright.ir import IRModule
from tilewright.vta.environment import Environment
from tilewright.vta.top.partitioning import canonical, partitioned

SHAPE = (1, 8, 5, 5)


def floats(x: Any, factor: float) -> Any:
    """Integers as float32, times a number."""
    return relay.multiply(relay.cast(x, "float32"), relay.const(np.float32(factor)))


def bytes_of(x: Any) -> Any:
    return relay.cast(relay.clip(x, -128.0, 127.0), "int8")


def product(x: Any, rng: np.random.Generator, high: int = 128, channels: int = 8) -> Any:
    w = relay.const(rng.integers(-high, high, (channels, channels, 3, 3)).astype("int8"))
    return relay.nn.conv2d(x, w, padding=(1, 1), channels=channels, kernel_size=(3, 3), out_dtype="int32")


def upward(x: Any) -> Any:
    return relay.floor(relay.add(x, relay.const(np.float32(0.5))))


def to_even(x: Any) -> Any:
    return relay.round(x)


def residual(x: Any, rng: np.random.Generator) -> Any:
    """A sum of products of two scales, rounded to an integer, and then to bytes."""
    total = relay.round(relay.add(floats(product(x, rng), 2.0**-2), floats(product(x, rng, 16), 2.0**-1)))
    total = relay.cast(relay.clip(total, -(2.0**31), 2.0**31 - 128), "int32")
    return upward(floats(relay.maximum(total, relay.const(0)), 2.0**-6))


FORMS: dict[str, Any] = {
    "halves upward": lambda x, rng: upward(floats(relay.nn.relu(product(x, rng)), 2.0**-9)),
    "halves to the even number": lambda x, rng: to_even(floats(product(x, rng, 8), 2.0**-4)),
    "quotients": lambda x, rng: to_even(
        relay.divide(relay.cast(product(x, rng), "float32"), relay.const(np.float32(512)))
    ),
    "bounds of fractions of two": lambda x, rng: upward(
        relay.maximum(floats(product(x, rng), 2.0**-9), relay.const(np.float32(-3.5)))
    ),
    "whole factors": lambda x, rng: floats(relay.right_shift(product(x, rng), relay.const(12)), 4.0),
    "a residual": residual,
}


def module(form: Any, **shape: Any) -> IRModule:
    x = relay.var("x", shape=SHAPE, dtype="int8")
    return relay.transform.InferType()(
        IRModule.from_expr(relay.Function([x], bytes_of(form(x, np.random.default_rng(3)))))
    )


@pytest.mark.parametrize("name", FORMS)
def test_equal_to_the_cpu(name: str) -> None:
    found = compared(module(FORMS[name]), Environment(SMALL))
    assert found.equal and found.kernels == 1 and not found.refused


def test_half_way_between_numbers() -> None:
    """All of -64 to 63 over 4, so that a quarter of them lie between two numbers."""
    x = relay.var("x", shape=SHAPE, dtype="int8")
    eye = np.zeros((8, 8, 1, 1), "int8")
    eye[range(8), range(8)] = 1
    same = relay.nn.conv2d(x, relay.const(eye), channels=8, kernel_size=(1, 1), out_dtype="int32")
    for rounded in (upward, to_even):
        body = bytes_of(rounded(floats(same, 0.25)))
        found = compared(relay.transform.InferType()(IRModule.from_expr(relay.Function([x], body))), Environment(SMALL))
        assert found.equal and found.kernels == 1


@pytest.mark.parametrize(
    ("form", "reason"),
    [
        (
            lambda x, rng: upward(floats(product(x, rng), 0.3)),
            "multiply is computed in float32, by what is no power of two",
        ),
        (lambda x, rng: floats(product(x, rng), 2.0**-9), "clip of float32 is not whole before it becomes an integer"),
        (
            lambda x, rng: upward(floats(relay.left_shift(product(x, rng), relay.const(6)), 2.0**-9)),
            "may be more than 24 bits",
        ),
        *[
            (
                lambda x, rng, v=v: upward(relay.add(floats(product(x, rng), 2.0**-9), relay.const(np.float32(v)))),
                reason,
            )
            for v, reason in {
                1e30: "add is computed in float32, with 1e+30, which is no number of 32 bits",
                -1e25: "add is computed in float32, with -1e+25, which is no number of 32 bits",
                2.0**31: "add is computed in float32, with 2.14748e+09, which is no number of 32 bits",
                np.inf: "add is computed in float32, with inf, which is no number of 32 bits",
                np.nan: "add is computed in float32, with nan, which is no number of 32 bits",
            }.items()
        ],
        *[
            (
                lambda x, rng, v=v: upward(floats(product(x, rng), v)),
                "multiply is computed in float32, by what is no power",
            )
            for v in (np.inf, np.nan, 0.0)
        ],
        (
            lambda x, rng: upward(relay.maximum(floats(product(x, rng), 2.0**-9), relay.const(np.float32(np.nan)))),
            "maximum bounds float32 by NaN",
        ),
        (
            lambda x, rng: upward(relay.minimum(floats(product(x, rng), 2.0**-9), relay.const(np.float32(np.nan)))),
            "minimum bounds float32 by NaN",
        ),
        (lambda x, rng: relay.exp(floats(product(x, rng), 2.0**-9)), "exp is computed in float32"),
    ],
)
def test_what_might_round(form: Any, reason: str) -> None:
    with Environment(SMALL):
        _, work = partitioned(canonical(module(form)), None)
    assert work.kernels == 0 and any([reason in r for r in work.refused]), work.refused


def test_a_network_of_the_default_quantisation() -> None:
    """Our own quantisation as it is by default, in float32: all convolutions with bytes behind them are on the accelerator."""
    rng = np.random.default_rng(0)
    x = relay.var("data", shape=SHAPE)
    y = x
    for n in range(4):
        w = relay.const(rng.normal(0, 0.1, (8, 8, 3, 3)).astype("float32"))
        z = relay.nn.relu(relay.nn.conv2d(y, w, padding=(1, 1), channels=8, kernel_size=(3, 3)))
        y = relay.nn.relu(relay.add(z, y)) if n == 2 else z
    y = relay.nn.global_avg_pool2d(y)
    with relay.quantize.qconfig(global_scale=8.0, skip_conv_layers=None):
        mod = relay.quantize.quantize(IRModule.from_expr(relay.Function([x], y)))
    found = compared(mod, Environment(SMALL))
    assert found.equal and found.kernels == 3 and list(found.refused.values()) == [1]
