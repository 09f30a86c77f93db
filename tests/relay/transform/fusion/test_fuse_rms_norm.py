"""FuseRmsNorm: divisions of rows by their root mean square become one operator, with the same values."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tilewright as tvm
from tilewright import relay
from tilewright.relay import transform
from tilewright.relay.analysis import list_op_freqs

FUSED = "nn.contrib_rms_norm"


def mean_of(square: Any, axis: Any = -1) -> Any:
    return relay.mean(square, axis=axis, keepdims=True) + relay.const(0.5)


FORMS: dict[str, Callable[[Any], Any]] = {
    "divided by a root": lambda x: x / relay.sqrt(mean_of(x * x)),
    "times a reciprocal root": lambda x: relay.rsqrt(mean_of(x * x)) * x,
    "times 1 / root": lambda x: x * (relay.const(1.0) / relay.sqrt(mean_of(x * x))),
    "a power": lambda x: x * relay.rsqrt(mean_of(relay.power(x, relay.const(2.0)))),
}
OTHERS: dict[str, Callable[[Any], Any]] = {
    "another axis before all": lambda x: (
        x / relay.sqrt(relay.mean(x * x, axis=-1, keepdims=True) + relay.const(np.full((1, 1, 1, 1), 0.5, "float32")))
    ),
    "two axes": lambda x: x / relay.sqrt(mean_of(x * x, (1, 2))),
    "another axis": lambda x: x / relay.sqrt(mean_of(x * x, 1)),
    "other data": lambda x: relay.exp(x) / relay.sqrt(mean_of(x * x)),
    "a third power": lambda x: x / relay.sqrt(mean_of(relay.power(x, relay.const(3.0)))),
    "no root": lambda x: x / mean_of(x * x),
    "the root times the data": lambda x: x * relay.sqrt(mean_of(x * x)),
}


def fused(body: Callable[[Any], Any], dtype: str = "float32") -> tuple[Any, Any]:
    """(the program, the same after the pass)."""
    x = relay.var("x", shape=(3, 4, 20), dtype=dtype)
    mod = transform.InferType()(tvm.IRModule.from_expr(relay.Function([x], body(x))))
    return mod, transform.FuseRmsNorm()(mod)


def value(mod: Any, x: np.ndarray[Any, Any]) -> Any:
    executor = relay.build(mod, "llvm")["default"](tvm.cpu())
    executor["set_input"]("x", x)
    executor["run"]()
    return executor["get_output"](0).numpy()


@pytest.mark.parametrize("form", FORMS)
def test_one_operator(form: str) -> None:
    _, after = fused(FORMS[form])
    assert list_op_freqs(after) == {FUSED: 1}
    x = np.random.default_rng(0).standard_normal((3, 4, 20)).astype("float32")
    wide = x.astype("float64")
    np.testing.assert_allclose(value(after, x), wide / np.sqrt((wide**2).mean(2, keepdims=True) + 0.5), rtol=1e-6)


@pytest.mark.parametrize("form", OTHERS)
def test_leaves_others(form: str) -> None:
    before, after = fused(OTHERS[form])
    assert tvm.ir.structural_equal(before, after)


def test_leaves_a_root_that_is_read_elsewhere() -> None:
    def body(x: Any) -> Any:
        root = relay.sqrt(mean_of(x * x))
        return relay.Tuple([x / root, root])

    before, after = fused(body)
    assert tvm.ir.structural_equal(before, after)


def test_models_use_it() -> None:
    x = relay.var("x", shape=(40, 64))
    body = FORMS["times a reciprocal root"](x) * relay.const(np.ones(64, "float32"))
    with tvm.transform.PassContext(opt_level=3):
        optimized, _ = relay.optimize(tvm.IRModule.from_expr(relay.Function([x], body)), "llvm")
    assert FUSED in list_op_freqs(optimized)
