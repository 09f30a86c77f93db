"""Sums of FULLY_CONNECTED brought to a result's scale: bit for bit what integers of any length give, at the ends of int32 too."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tilewright as tvm
from tests.frontend.tflite.ops.writer import Writer, litert, ours
from tilewright import relay
from tilewright.contrib import graph_executor
from tilewright.relay.frontend.common.value import make_call
from tilewright.relay.frontend.tflite.node import Value
from tilewright.relay.frontend.tflite.ops.quantized import multiplier, scaled_once

LEAST, MOST = -(2**31), 2**31 - 1


class Calls:
    """A node that makes relay operators."""

    def call(self, key: str, *args: Any, **attrs: Any) -> Value:
        like = next(a for a in args if isinstance(a, Value))
        given = [Value(array=np.array(a, like.dtype)) if isinstance(a, int) else a for a in args]
        return Value(make_call(key, given, attrs))

    def cast(self, x: Value, dtype: str) -> Value:
        return x if x.dtype == dtype else self.call("cast", x, dtype=dtype)


@pytest.mark.parametrize(
    ("factors", "dtype"),
    [
        ([0.3] * 4, "int32"), ([0.77] * 4, "int32"), ([0.5, 0.99, 0.6, 0.7], "int32"), ([2.0**-k for k in (2, 5, 9, 30)], "int32"),
        ([0.1, 0.02, 3e-7, 0.49], "int32"), ([0.7, 0.3, 0.7, 0.3], "int64"), ([1.5, 0.3, 0.2, 0.1], "int64"),
    ],
)  # fmt: skip
def test_rounded_once(factors: list[float], dtype: str) -> None:
    checked(factors, dtype, LEAST, MOST, "int32")


@pytest.mark.parametrize("bits", [31, 47])
@pytest.mark.parametrize(
    "factors", [[0.3, 2e-5, 1.5, 3e-9], [2.0**-30, 0.77, 1000.0, 1.0], [7e-11, 5e-13, 2.0**-47, 2.0**-50]]
)
def test_sums_of_48_bits_rounded_once(factors: list[float], bits: int) -> None:
    checked(factors, "int64", -(2**bits), 2**bits - 1, "int64")


def checked(factors: list[float], dtype: str, least: int, most: int, given: str) -> None:
    rng = np.random.default_rng(0)
    ends = np.repeat([least, least + 1, most, most - 1, -1, 0, 1, 2], 4).reshape(-1, 4)
    x = np.concatenate([rng.integers(least, most, (300, 4)), ends]).astype(given)
    v = relay.var("x", shape=x.shape, dtype=given)
    made = scaled_once(Calls(), Value(v), factors)  # type: ignore[arg-type]
    assert made.dtype == dtype
    lib = relay.build(tvm.IRModule.from_expr(relay.Function([v], made.expr)), "llvm")
    run = graph_executor.GraphModule(lib["default"](tvm.cpu()))
    run.set_input("x", x)
    run.run()
    for column, found, factor in zip(x.T, run.get_output(0).numpy().T, factors, strict=True):
        q, shift = multiplier(factor, -47 if given == "int64" else -31)
        assert found.tolist() == [(int(a) * q + (1 << (30 - shift))) >> (31 - shift) for a in column]


def test_a_wide_bias_of_a_small_scale() -> None:
    """Beyond where multipliers of sums of 32 bits are 0."""
    w = Writer()
    x = w.main.input("int16", (1, 2), (1.0, 0))
    weights = w.main.constant(np.ones((1, 2), np.int8), (1.0, 0))
    bias = w.main.constant(np.array([10**14], np.int64), (1.0, 0))
    made = w.main.op(
        "FULLY_CONNECTED", [x, weights, bias], [("int16", (1, 1), (2.0**34, 0))], {}, "FullyConnectedOptions"
    )
    data, inputs = w.finish(made), [np.array([[3, 4]], np.int16)]
    assert ours(data, inputs)[0].tolist() == litert(data, inputs)[0].tolist() == [[5821]]
