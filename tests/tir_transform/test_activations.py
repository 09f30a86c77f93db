"""FuseActivations: which expressions become which intrinsics, and that the interpreter answers the same for both."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from tests.codegen.small_programs import elementwise
from tilewright.codegen import interp
from tilewright.ir import IRModule, structural_equal
from tilewright.tir import PrimFunc
from tilewright.tir import op as T
from tilewright.tir.transform import FuseActivations

ROOT = 0.7071067690849304


def call(name: str, *args: Any) -> Any:
    return T.call_intrin(args[0].dtype, f"tir.{name}", *args)


def fused(f: Callable[..., Any], dtype: str = "float32", lanes: int = 4) -> tuple[PrimFunc, PrimFunc]:
    """(the function of two arguments, the same after the pass)."""
    func = elementwise([dtype] * 2, dtype, 64, lanes, f)
    return func, FuseActivations()(IRModule({"main": func}))["main"]


BECOME: dict[str, tuple[Callable[..., Any], Callable[..., Any]]] = {
    "1 + erf": (lambda x, y: call("erf", x) + 1.0, lambda x, y: call("one_plus_erf", x)),
    "1 + erf of a quotient": (
        lambda x, y: 1.0 + call("erf", x / 2.0),
        lambda x, y: call("one_plus_erf", x * 0.5),
    ),
    "1 + tanh": (lambda x, y: 1.0 + call("tanh", x + y), lambda x, y: call("one_plus_tanh", x + y)),
    "SiLU": (lambda x, y: x * call("sigmoid", x), lambda x, y: call("silu", x)),
    "SiLU of a sum, last": (
        lambda x, y: call("sigmoid", x + y) * (x + y),
        lambda x, y: call("silu", x + y),
    ),
    "GELU": (lambda x, y: 0.5 * x * (1.0 + call("erf", x * ROOT)), lambda x, y: call("gelu", x)),
    "twice GELU": (lambda x, y: (call("erf", x / 1.4142135) + 1.0) * x, lambda x, y: call("gelu", x) * 2.0),
    "gated GELU": (
        lambda x, y: y * (x * (0.5 * (call("erf", x * ROOT) + 1.0))),
        lambda x, y: call("gelu", x) * y,
    ),
    "GELU of SiLU": (
        lambda x, y: 0.5 * (x * call("sigmoid", x) + y) * (1.0 + call("erf", (x * call("sigmoid", x) + y) * ROOT)),
        lambda x, y: call("gelu", call("silu", x) + y),
    ),
    "GELU in a sum": (
        lambda x, y: y + 0.5 * x * (1.0 + call("erf", x * ROOT)),
        lambda x, y: y + call("gelu", x),
    ),
}


@pytest.mark.parametrize("lanes", [1, 4])
@pytest.mark.parametrize("case", BECOME)
def test_what_becomes_of_it(case: str, lanes: int) -> None:
    source, want = BECOME[case]
    before, after = fused(source, lanes=lanes)
    assert structural_equal(after, elementwise(["float32"] * 2, "float32", 64, lanes, want))
    rng = np.random.default_rng(1)
    x, y = (rng.standard_normal(64).astype("float32") * 3 for _ in range(2))
    outs = [np.zeros(64, "float32") for _ in range(2)]
    for func, out in zip((before, after), outs, strict=True):
        interp.run(func, [x, y, out])
    np.testing.assert_allclose(outs[1], outs[0], rtol=2e-6, atol=4e-7)


@pytest.mark.parametrize(
    "source, dtype",
    [
        (lambda x, y: call("erf", x) + 2.0, "float32"),
        (lambda x, y: y * call("sigmoid", x), "float32"),
        (lambda x, y: x * call("sigmoid", x), "float64"),
        (lambda x, y: x * call("sigmoid", x), "float16"),
        (lambda x, y: 1.0 + call("tanh", x), "float64"),
        # Two calls of what has an effect are two values.
        (
            lambda x, y: T.call_extern("float32x4", "f", x) * call("sigmoid", T.call_extern("float32x4", "f", x)),
            "float32",
        ),
    ],
)
def test_what_stays(source: Callable[..., Any], dtype: str) -> None:
    before, after = fused(source, dtype)
    assert structural_equal(before, after)


def test_another_factor_than_the_argument() -> None:
    """The sum is fused, the product stays."""
    root = float(np.float32(1.4142135))
    _, after = fused(lambda x, y: y * (0.5 * (call("erf", x / root) + 1.0)))
    want = elementwise(["float32"] * 2, "float32", 64, 4, lambda x, y: y * (0.5 * call("one_plus_erf", x * ROOT)))
    assert structural_equal(after, want)
