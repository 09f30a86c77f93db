"""Vector math in float32: error in ulps against float64 over the whole range, special values, scalar and vector."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from tests.codegen.util import aligned, elementwise, native, ulps
from tilewright.tir import op as T

LANES = 16


def special() -> Any:
    tiny = np.float32(1e-45)
    return np.array(
        [
            0.0,
            -0.0,
            np.inf,
            -np.inf,
            np.nan,
            tiny,
            -tiny,
            1.1754944e-38,
            -1.1754944e-38,
            3.4028235e38,
            -3.4028235e38,
            1,
            -1,
        ],
        np.float32,
    )


def spread(count: int) -> Any:
    """Every exponent and sign alike, special values first."""
    rng = np.random.default_rng(0)
    bits = rng.integers(0, 1 << 32, count, dtype=np.uint32)
    values = bits.view(np.float32).copy()
    rest = special()
    values[: rest.size] = rest
    return values


def near(low: float, high: float, count: int) -> Any:
    return np.linspace(low, high, count, dtype=np.float32)


def run(name: str, *inputs: Any, lanes: int = LANES, target: str = "llvm") -> Any:
    count = inputs[0].size // lanes * lanes
    func = elementwise(
        ["float32"] * len(inputs), "float32", count, lanes, lambda *a: T.call_intrin(a[0].dtype, f"tir.{name}", *a)
    )
    out = aligned(np.zeros(count), "float32")
    native(func, [*(aligned(x[:count], "float32") for x in inputs), out], target)
    return out


_erf = np.frompyfunc(math.erf, 1, 1)

CASES: list[tuple[str, Callable[[Any], Any], tuple[float, float], float]] = [
    ("exp", np.exp, (-104, 89), 1.0),
    ("exp2", np.exp2, (-150, 128), 1.0),
    ("log", np.log, (1e-3, 100), 1.0),
    ("log2", np.log2, (1e-3, 100), 1.5),
    ("log10", np.log10, (1e-3, 100), 2.0),
    ("tanh", np.tanh, (-10, 10), 1.5),
    ("sigmoid", lambda x: 1 / (1 + np.exp(-x)), (-80, 80), 2.5),
    ("erf", lambda x: np.asarray(_erf(x), np.float64), (-4.5, 4.5), 1.5),
    ("sin", np.sin, (-100, 100), 1.5),
    ("cos", np.cos, (-100, 100), 1.5),
    ("tan", np.tan, (-100, 100), 4.0),
    ("rsqrt", lambda x: 1 / np.sqrt(x), (1e-3, 100), 1.5),
    ("sqrt", np.sqrt, (0, 100), 0.5),
]


@pytest.mark.parametrize(("name", "ref", "span", "limit"), CASES, ids=[c[0] for c in CASES])
def test_accuracy(name: str, ref: Callable[[Any], Any], span: tuple[float, float], limit: float) -> None:
    everywhere = spread(1 << 16)
    if name in ("sin", "cos", "tan"):
        everywhere = everywhere[~(np.abs(everywhere) > 1e12) | np.isinf(everywhere)]
    x = np.concatenate([everywhere, near(*span, 1 << 17)])
    x = x[: x.size // LANES * LANES]
    with np.errstate(all="ignore"):
        wide = ref(x.astype(np.float64))
    error = ulps(run(name, x), wide)
    print(f"{name}: {error:.2f} ulp")
    assert error <= limit


@pytest.mark.parametrize("name", ["exp", "log", "tanh", "erf", "sin", "sigmoid"])
def test_without_fma(name: str) -> None:
    ref = {c[0]: c[1] for c in CASES}[name]
    span = {c[0]: c[2] for c in CASES}[name]
    x = near(*span, 1 << 14)
    error = ulps(run(name, x, target="llvm -mcpu=x86-64-v2", lanes=4), ref(x.astype(np.float64)))
    print(f"{name} without fma: {error:.2f} ulp")
    assert error <= 4.0


@pytest.mark.parametrize("lanes", [1, 3, 8, 32])
def test_any_number_of_lanes(lanes: int) -> None:
    x = spread(960)
    one = run("exp", x, lanes=16)
    np.testing.assert_array_equal(run("exp", x, lanes=lanes), one)


def test_pow() -> None:
    rng = np.random.default_rng(1)
    x = np.exp(rng.uniform(-20, 20, 1 << 15)).astype(np.float32)
    y = rng.uniform(-8, 8, 1 << 15).astype(np.float32)
    y[::3] = np.rint(y[::3])
    x[::6] *= -1
    values = special()
    pairs = np.array([(a, b) for a in [*values, 2, -2, 0.5, -0.5] for b in [*values, 2, 3, -2, -3, 0.5]], np.float32)
    x = np.concatenate([x, pairs[:, 0]])
    y = np.concatenate([y, pairs[:, 1]])
    pad = -x.size % LANES
    x, y = np.concatenate([x, np.ones(pad, np.float32)]), np.concatenate([y, np.ones(pad, np.float32)])
    with np.errstate(all="ignore"):
        wide = np.power(x.astype(np.float64), y.astype(np.float64))
    error = ulps(run("pow", x, y), wide)
    print(f"pow: {error:.2f} ulp")
    assert error <= 1.0


def test_signed_zero() -> None:
    x = np.array([0.0, -0.0] * 8, np.float32)
    for name in ("tanh", "erf", "sin"):
        np.testing.assert_array_equal(np.signbit(run(name, x)), np.signbit(x))
