"""Vector math in float32: error in ulps over all exponents, special values, scalar and vector, with and without FMA.

`make test-vecmath` tries all arguments; here stand samples of every exponent.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from tests.codegen.llvm.every_float import FUNCTIONS, errors, function, main
from tests.codegen.small_programs import aligned, elementwise, native
from tilewright.tir import op as T

LANES = 16
TARGETS = {"host": "llvm", "avx2": "llvm -mcpu=x86-64-v3", "no fma": "llvm -mcpu=x86-64-v2"}
SPECIAL = np.array(
    [0.0, -0.0, np.inf, -np.inf, np.nan, 1e-45, -1e-45, 1.1754942e-38, 1.1754944e-38, -1.1754944e-38, 3.4028235e38,
     -3.4028235e38, 1, -1, 2, -2, 0.5, -0.5, 3, -3, 88.72283, 88.72284, -87.33655, -103.97208, -103.97209, 9.01, 1.5707964],
    np.float32,
)  # fmt: skip


def sample(each: int = 192) -> Any:
    """Special values, then random mantissas for every sign and exponent, NaNs and denormals included."""
    mantissas = np.random.default_rng(0).integers(0, 1 << 23, (512, each), dtype=np.uint32)
    bits = (np.arange(512, dtype=np.uint32)[:, None] << 23) | mantissas
    values = np.concatenate([SPECIAL, bits.reshape(-1).view(np.float32)])
    return aligned(np.concatenate([values, np.ones(-values.size % LANES, np.float32)]), "float32")


def run(name: str, *inputs: Any, lanes: int = LANES, target: str = "llvm", dtype: str = "float32") -> Any:
    """The compiled function on arrays; as many of their elements as fill vectors."""
    count = inputs[0].size // lanes * lanes
    func = elementwise(
        [dtype] * len(inputs), dtype, count, lanes, lambda *a: T.call_intrin(a[0].dtype, f"tir.{name}", *a)
    )
    out = aligned(np.zeros(count), dtype)
    assert native(func, [*(aligned(x[:count], dtype) for x in inputs), out], target) == 0
    return out


@pytest.mark.parametrize("name", FUNCTIONS)
@pytest.mark.parametrize("target", TARGETS)
def test_accuracy(name: str, target: str) -> None:
    x = sample()
    out = aligned(np.zeros(x.size), "float32")
    function(name, x.size, 16 if target == "host" else 4, TARGETS[target])([x, out])
    with np.errstate(all="ignore"):
        found = errors(out, FUNCTIONS[name].exact(aligned(x, "float64")))
    worst = int(found.argmax())
    assert found[worst] <= FUNCTIONS[name].limit, f"{name}({x[worst]!r}) = {out[worst]!r}: {found[worst]} ulp"


@pytest.mark.parametrize("name", ["exp", "tanh", "sin", "log1p"])
@pytest.mark.parametrize("lanes", [1, 3, 8, 32])
def test_any_number_of_lanes(name: str, lanes: int) -> None:
    x = sample(3)[:1536]
    np.testing.assert_array_max_ulp(run(name, x, lanes=lanes), run(name, x, lanes=16), maxulp=1)


LONG = {
    "exp": np.exp, "log": np.log, "tanh": np.tanh, "sin": np.sin, "cos": np.cos, "exp2": np.exp2, "log2": np.log2,
    "log10": np.log10, "log1p": np.log1p, "tan": np.tan, "sinh": np.sinh, "cosh": np.cosh, "asin": np.arcsin,
    "acos": np.arccos, "atan": np.arctan, "asinh": np.arcsinh, "acosh": np.arccosh, "atanh": np.arctanh,
    "rsqrt": lambda x: 1 / np.sqrt(x), "sigmoid": lambda x: 1 / (1 + np.exp(-x)), "sqrt": np.sqrt,
    "exp10": lambda x: np.power(np.longdouble(10), x),
}  # fmt: skip


@pytest.mark.parametrize("name", LONG)
def test_reference(name: str) -> None:
    """What the compiled functions are compared with is right to a hundredth of an ulp of float32."""
    x = sample(8)
    with np.errstate(all="ignore"):
        mine = FUNCTIONS[name].exact(aligned(x, "float64"))
        exact = LONG[name](x.astype(np.longdouble))
        live = np.isfinite(exact) & (np.abs(exact) > 1e-45) & (np.abs(exact) < 1e39)
        apart = np.abs(mine[live] - exact[live]) / np.abs(exact[live])
    assert float(apart.max()) < 2.0**-23 / 100


def test_reference_of_erf() -> None:
    """erf by its series, in exact fractions of two to the 200th, where NumPy has none."""
    one = 1 << 200
    for x in (1e-30, 0.01, 0.5, 0.9, 1.25, 2.0, 3.5):
        z = int(x * 2**60) << 140 if x > 1e-18 else 0
        if z == 0:
            exact = 2 / math.sqrt(math.pi) * x
        else:
            total, term, k = 0, z, 0
            while term:
                total += term // (2 * k + 1)
                k += 1
                term = -(term * z // one) * z // one // k
            exact = 2 / math.sqrt(math.pi) * (total / one)
        got = float(FUNCTIONS["erf"].exact(aligned(np.full(16, x), "float64"))[0])
        assert abs(got - exact) <= 2.0**-40 * exact


def test_all_arguments_are_told(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["sqrt", "--step", "1024", "--workers", "1"]) == 0
    table = capsys.readouterr().out.splitlines()
    assert table[0].split()[:3] == ["function", "max", "ulp"] and table[1].split()[:2] == ["sqrt", "0.5000"]


def test_errors_are_counted() -> None:
    exact = np.array([1.0, 1.0, 0.0, np.nan, 1.0, 3.5e38, 3.5e38, 1e-46])
    got = np.array([1.0, 1 + 2**-23, -0.0, np.nan, np.nan, np.inf, 3.4e38, 0.0], np.float32)
    found = errors(got, exact)
    np.testing.assert_array_equal(np.isinf(found), [False, False, True, False, True, False, True, False])
    np.testing.assert_allclose(found[[0, 1, 3]], [0, 1, 0])
    assert found[7] < 0.1


def pairs() -> tuple[Any, Any]:
    """Bases and exponents: random ones, all special values with each other, and results near the ends of the range."""
    rng = np.random.default_rng(1)
    x = np.exp(rng.uniform(-80, 80, 1 << 16))
    y = rng.uniform(-8, 8, x.size)
    y[::3] = np.rint(y[::3])
    x[::6] *= -1
    # Close to 1 with large exponents, close to the smallest and the largest result, powers that are exact.
    near = 1 + rng.uniform(-1e-3, 1e-3, 1 << 15)
    bases = np.exp(rng.uniform(-30, 30, 1 << 15))
    ends = rng.choice([-149.0, -126.0, 128.0, 127.9], bases.size) / np.log2(bases) + rng.normal(0, 1e-2, bases.size)
    whole = rng.integers(1, 4096, 1 << 14).astype(float)
    values = [*SPECIAL, 2.5, -2.5, 1 + 2**-23, 1 - 2**-24, 16777216.0, 16777215.0]
    special = np.array([(a, b) for a in values for b in values])
    x = np.concatenate([x, near, bases, whole, special[:, 0]])
    y = np.concatenate([y, rng.uniform(-1e5, 1e5, near.size), ends, rng.integers(-2, 4, whole.size), special[:, 1]])
    pad = -x.size % LANES
    return np.append(x, np.ones(pad)).astype(np.float32), np.append(y, np.ones(pad)).astype(np.float32)


BINARY: dict[str, Callable[..., Any]] = {"pow": np.power, "atan2": np.arctan2, "hypot": np.hypot}


@pytest.mark.parametrize("name", BINARY)
@pytest.mark.parametrize("target", TARGETS)
def test_two_arguments(name: str, target: str) -> None:
    x, y = pairs()
    with np.errstate(all="ignore"):
        wide = BINARY[name](x.astype(np.longdouble), y.astype(np.longdouble)).astype(np.float64)
    found = errors(run(name, x, y, target=TARGETS[target], lanes=8), wide)
    worst = int(found.argmax())
    assert found[worst] <= 0.51, f"{name}({x[worst]!r}, {y[worst]!r}): {found[worst]} ulp"


@pytest.mark.parametrize("name", [n for n in FUNCTIONS if n != "exp10"])
def test_other_precisions(name: str) -> None:
    """float16 is float32's result rounded; float64 is right to a few units of its own."""
    with np.errstate(all="ignore"):
        x = sample(4).astype(np.float16)
        expected = FUNCTIONS[name].exact(aligned(x, "float64")).astype(np.float16)
        got = run(name, x, dtype="float16").astype(np.float64)
        np.testing.assert_allclose(got, expected.astype(np.float64), rtol=2**-10, atol=2**-24)
        wide = np.concatenate([sample(2), np.linspace(-20, 20, 512)]).astype(np.float64)
        exact = FUNCTIONS[name].exact(aligned(wide, "float64"))
        np.testing.assert_allclose(run(name, wide, dtype="float64"), exact, rtol=1e-14, atol=1e-300)


def test_far_angles_beside_near_ones() -> None:
    """Lanes of huge arguments do not disturb others, whose reduction needs no table."""
    x = np.array([1e30, 1.0, -3e38, 0.5, 2.0**28, 2.0**28 - 16, np.inf, np.nan] * 2, np.float32)
    with np.errstate(invalid="ignore"):
        np.testing.assert_allclose(run("sin", x), np.sin(x.astype(np.float64)), rtol=1e-6)
