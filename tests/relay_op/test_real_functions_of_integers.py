"""Functions of real numbers on integers, compiled: computed in floats, and rounded towards zero to the type of the operator."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tilewright as tvm
from tilewright import relay
from tilewright.contrib import graph_executor

COUNT = 512
"""Elements: results in wider elements than the buffer's would reach far beyond it."""

BELOW: dict[str, tuple[int, int, Callable[..., Any]]] = {
    "exp": (0, 5, np.exp),
    "fast_exp": (0, 5, np.exp),
    "log": (1, 100, np.log),
    "log2": (1, 100, np.log2),
    "log10": (1, 100, np.log10),
    "sqrt": (0, 100, np.sqrt),
    "rsqrt": (1, 100, lambda x: 1 / np.sqrt(x)),
    "tanh": (0, 5, np.tanh),
    "fast_tanh": (0, 5, np.tanh),
    "sigmoid": (0, 5, lambda x: 1 / (1 + np.exp(-x))),
    "erf": (0, 3, np.vectorize(math.erf)),
    "fast_erf": (0, 3, np.vectorize(math.erf)),
    "sin": (0, 100, np.sin),
    "cos": (0, 100, np.cos),
    "tan": (0, 2, np.tan),
    "asin": (0, 2, np.arcsin),
    "acos": (0, 2, np.arccos),
    "atan": (0, 100, np.arctan),
    "sinh": (0, 5, np.sinh),
    "cosh": (0, 5, np.cosh),
    "asinh": (0, 100, np.arcsinh),
    "acosh": (1, 100, np.arccosh),
    "atanh": (0, 1, np.arctanh),
}
"""The least argument, the bound of arguments, and the function in NumPy or Python."""

INTEGERS = ["int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64"]


def compiled(body: Any, *inputs: np.ndarray) -> list[np.ndarray]:
    params = relay.analysis.free_vars(body)
    library = relay.build(tvm.IRModule.from_expr(relay.Function(params, body)), "llvm")
    executor = graph_executor.GraphModule(library["default"](tvm.cpu()))
    for p, x in zip(params, inputs, strict=True):
        executor.set_input(p.name_hint, x)
    executor.run()
    return [executor.get_output(k).numpy() for k in range(executor.get_num_outputs())]


@pytest.mark.parametrize("dtype", INTEGERS)
def test_results_are_rounded_towards_zero(dtype: str) -> None:
    data = [(np.arange(COUNT) % (bound - least) + least).astype(dtype) for least, bound, _ in BELOW.values()]
    names = list(BELOW)
    xs = [relay.var(f"x{i}", shape=(COUNT,), dtype=dtype) for i in range(len(names))]
    found = compiled(relay.Tuple(tuple([getattr(relay, n)(x) for n, x in zip(names, xs, strict=True)])), *data)
    for name, x, y in zip(names, data, found, strict=True):
        expected = np.trunc(BELOW[name][2](x.astype("float64"))).astype(dtype)
        assert y.dtype == x.dtype
        np.testing.assert_array_equal(y, expected, name)
        reference = relay.create_executor("debug").evaluate(getattr(relay, name)(relay.const(x))).numpy()
        np.testing.assert_array_equal(reference, expected, f"the reference of {name}")


def test_wide_integers_keep_their_digits() -> None:
    """float32 would tell 2^52 - 1 and its neighbours not apart."""
    x = np.array([(1 << 26) - 1, 1 << 26, (1 << 26) + 1], "int64") ** 2
    (found,) = compiled(relay.sqrt(relay.var("x", shape=(3,), dtype="int64")), x)
    assert found.tolist() == [(1 << 26) - 1, 1 << 26, (1 << 26) + 1]


@pytest.mark.parametrize("dtype", ["int8", "int32", "int64"])
def test_layers_write_their_type(dtype: str) -> None:
    """Whole networks of integers meet these layers by mistake: their results are as wide as their buffers."""
    x = relay.var("x", shape=(1, COUNT), dtype=dtype)
    data = np.where(np.arange(COUNT) == 7, 100, 0).astype(dtype)[None]
    layers = [
        relay.nn.softmax(x),
        relay.nn.fast_softmax(x),
        relay.nn.l2_normalize(relay.minimum(x, relay.const(10, dtype)), 1e-6),
        relay.std(relay.reshape(x, (8, COUNT // 8)), axis=1),
        relay.logsumexp(x, axis=1),
    ]
    softmax, fast, unit, deviation, total = compiled(relay.Tuple(tuple(layers)), data)
    one = (data != 0).astype(dtype)
    for found in (softmax, fast, unit):
        assert found.dtype == dtype
        np.testing.assert_array_equal(found, one)
    assert deviation.dtype == total.dtype == dtype
    assert deviation[1:].tolist() == [0] * 7
    assert total.tolist() == [100]


@pytest.mark.parametrize("dtype", INTEGERS)
def test_integers_are_finite(dtype: str) -> None:
    x = relay.var("x", shape=(COUNT,), dtype=dtype)
    tests = relay.Tuple((relay.isnan(x), relay.isinf(x), relay.isfinite(x)))
    found = compiled(tests, np.arange(COUNT).astype(dtype))
    assert [y.all() or y.any() for y in found] == [False, False, True]
