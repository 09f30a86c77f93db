"""Compiled divisions of integers where processors trap: by zero, and of the least number by -1. They answer as NumPy does."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tilewright as tvm
from tilewright import relay
from tilewright.contrib import graph_executor
from tilewright.relay.op.arithmetic.binary import whole_quotient


def run(body: Any, inputs: dict[str, np.ndarray]) -> list[np.ndarray]:
    library = relay.build(tvm.IRModule.from_expr(relay.Function(relay.analysis.free_vars(body), body)), "llvm")
    executor = graph_executor.GraphModule(library["default"](tvm.cpu()))
    for name, x in inputs.items():
        executor.set_input(name, x)
    executor.run()
    return [executor.get_output(k).numpy() for k in range(executor.get_num_outputs())]


def exact(a: int, b: int) -> int:
    """a / b rounded towards zero, without bounds; 0 by 0."""
    return 0 if b == 0 else abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int32", "int64"])
def test_every_pair_of_odd_numbers(dtype: str) -> None:
    bounds = np.iinfo(dtype)
    below = [-1, -2, -7, bounds.min, bounds.min + 1] if bounds.min < 0 else []
    odd = np.array([0, 1, 2, 7, bounds.max, bounds.max - 1, *below], dtype)
    a, b = (np.ascontiguousarray(x.ravel()) for x in np.meshgrid(odd, odd))
    x, y = (relay.var(n, shape=a.shape, dtype=dtype) for n in "xy")
    names = ("divide", "trunc_divide", "floor_divide", "mod", "trunc_mod", "floor_mod")
    found = run(relay.Tuple([getattr(relay, n)(x, y) for n in names]), {"x": a, "y": b})
    pairs = zip(a.tolist(), b.tolist(), strict=True)
    towards_zero = np.array([exact(*p) & 2**bounds.bits - 1 for p in pairs], "uint64")
    towards_zero = towards_zero.astype(f"uint{bounds.bits}").view(dtype)
    with np.errstate(all="ignore"):
        np.testing.assert_array_equal(whole_quotient(a, b), towards_zero)
        rest = np.fmod(a, b)
        wanted = [towards_zero, towards_zero, np.floor_divide(a, b), rest, rest, np.mod(a, b)]
    for name, f, w in zip(names, found, wanted, strict=True):
        np.testing.assert_array_equal(f, w, name)


def test_known_divisors_have_no_conditions() -> None:
    x = relay.var("x", shape=(64,), dtype="uint8")
    seven = relay.const(np.array(7, "uint8"))
    body = relay.Tuple([relay.floor_divide(x, seven), relay.mod(x, seven)])
    library = relay.build(tvm.IRModule.from_expr(relay.Function([x], body)), "llvm")
    text = library.get_lib().get_source("ll")
    assert "udiv" in text and "urem" in text
    assert "select" not in text


def test_mean_of_no_integers() -> None:
    n = relay.Any()
    x = relay.var("x", shape=(n, 3), dtype="int32")
    mod = tvm.IRModule.from_expr(relay.Function([x], relay.mean(x, axis=0)))
    machine = relay.create_executor("vm", mod, tvm.cpu(), "llvm").evaluate()
    np.testing.assert_array_equal(machine(np.zeros((0, 3), "int32")).numpy(), [0, 0, 0])
    np.testing.assert_array_equal(machine(np.array([[1, 2, 9], [3, 4, 0]], "int32")).numpy(), [2, 3, 4])


def test_places_in_a_shape_without_elements() -> None:
    at, shape = relay.var("at", shape=(2,), dtype="int32"), relay.var("shape", shape=(2,), dtype="int32")
    run(relay.unravel_index(at, shape), {"at": np.array([0, 3], "int32"), "shape": np.array([0, 0], "int32")})


def test_values_outside_a_dense_tensor_are_left_out() -> None:
    at = relay.var("at", shape=(4, 2), dtype="int32")
    body = relay.sparse_to_dense(at, (2, 2), relay.const(np.arange(1, 5, dtype="float32")), relay.const(0.0))
    places = np.array([[0, 1], [1 << 30, 0], [-1, 1], [1, 0]], "int32")
    np.testing.assert_array_equal(run(body, {"at": places})[0], [[0, 1], [4, 0]])
