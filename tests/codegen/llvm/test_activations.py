"""Activations emitted as a whole: GELU, 1 + erf(x), 1 + tanh(x), x * sigmoid(x); an ulp or two off."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from tests.codegen.small_programs import aligned, elementwise, native
from tilewright.codegen.backend import AOT, back_end_of
from tilewright.codegen.llvm import emit_module
from tilewright.ir import IRModule
from tilewright.ir.transform import Sequential
from tilewright.support.errors import TVMError
from tilewright.target import Target
from tilewright.tir import PrimFunc
from tilewright.tir import op as T

Array = np.ndarray[Any, Any]
SPECIAL = [np.nan, np.inf, -np.inf, 0.0, -0.0, 1e-45, -1e-40, 4.2, -4.2, 4.3, 87.0, -87.4, 89.0, -89.0, 3e38, -3e38]
ULP = 2.0**-23
WIDE = "llvm -mtriple=x86_64-unknown-linux-gnu -mcpu=skylake-avx512"


def call(name: str, x: Any) -> Any:
    return T.call_intrin(x.dtype, f"tir.{name}", x)


def prepared(func: PrimFunc, target: str) -> PrimFunc:
    """The function after the passes that the target's back end asks for."""
    kind = Target(target)
    done = Sequential(back_end_of(kind).passes(kind))(IRModule({"main": func}))["main"]
    assert isinstance(done, PrimFunc)
    return done


def arguments() -> Array:
    rng = np.random.default_rng(0)
    near = [np.linspace(-9, 9, 60001), rng.standard_normal(4000) * 1e-3, rng.standard_normal(4000) * 60, SPECIAL]
    values = np.concatenate(near)
    found = aligned(np.concatenate([values, np.zeros(-values.size % 64)]), "float32")
    # NaN of any bits, of which arithmetic makes only one kind.
    found.view("uint32")[:4] = 0x7FC00001, 0xFFFFFFFF, 0x7FFFFFFF, 0xFFC000FF
    return found


def exp(x: Array) -> Array:
    return np.exp(x.astype(np.longdouble))


def erf_sum(x: Array) -> Array:
    """erfc(-x), by series near 0 and by continued fractions far from it."""
    t = np.abs(x).astype(np.longdouble)
    series, term = np.zeros_like(t), t.copy()
    small = np.minimum(t, 3.5)
    term = small.copy()
    for n in range(90):
        series += term / (2 * n + 1)
        term = -term * small * small / (n + 1)
    fraction = np.zeros_like(t)
    large = np.clip(t, 3.5, 50)
    for n in range(60, 0, -1):
        fraction = n / 2 / (large + fraction)
    tail = exp(-large * large) / (large + fraction) / np.sqrt(np.longdouble(np.pi))
    erf = np.where(t < 3.5, 2 / np.sqrt(np.longdouble(np.pi)) * series, 1 - tail)
    return 1 + np.copysign(erf, x)


CASES: dict[str, tuple[Callable[[Any], Any], Callable[[Array], Array], float]] = {
    "erf": (lambda x: call("erf", x) + 1.0, erf_sum, ULP),
    "one first": (lambda x: 1.0 + call("erf", x), erf_sum, ULP),
    "gelu's": (
        lambda x: call("erf", x / 1.4142135381698608) + 1.0,
        lambda x: erf_sum(x / 1.4142135381698608),
        1.2 * ULP,
    ),
    "tanh": (lambda x: 1.0 + call("tanh", x), lambda x: 2 / (1 + exp(-2.0 * x)), 1.6 * ULP),
}


TARGETS = pytest.mark.parametrize(
    "target, lanes",
    [
        ("llvm", 16),
        pytest.param("llvm", 64, marks=pytest.mark.slow),
        ("llvm", 1),
        ("llvm -mcpu=x86-64-v3", 8),
        pytest.param("llvm -mcpu=x86-64-v2", 4, marks=pytest.mark.slow),
    ],
)


@TARGETS
@pytest.mark.parametrize("case", CASES)
def test_sums(case: str, target: str, lanes: int) -> None:
    f, exact, limit = CASES[case]
    x = arguments()
    out = aligned(np.zeros(x.size), "float32")
    assert native(prepared(elementwise(["float32"], "float32", x.size, lanes, f), target), [x, out], target) == 0
    with np.errstate(all="ignore"):
        error = np.abs(out - exact(x.astype(np.float64)))
    assert np.nanmax(error) <= limit
    np.testing.assert_array_equal(np.isnan(out), np.isnan(x))
    assert (out[x == 0] == 1).all() and (out[x > 40] == 2).all() and (out[x < -60] < 1e-37).all()


ROOT = 0.7071067690849304
GELUS: dict[str, tuple[Callable[[Any], Any], float]] = {
    "half first": (lambda x: 0.5 * x * (1.0 + call("erf", x * ROOT)), 1.0),
    "half last": (lambda x: x * (call("erf", x / 1.4142135381698608) + 1.0) * 0.5, 1.0),
    "half inside": (lambda x: x * (0.5 * (1.0 + call("erf", x * ROOT))), 1.0),
    "no half": (lambda x: (1.0 + call("erf", x * ROOT)) * x, 2.0),
    "scaled": (lambda x: x * 0.75 * (1.0 + call("erf", x * ROOT)), 1.5),
}


@TARGETS
@pytest.mark.parametrize("case", GELUS)
def test_gelu(case: str, target: str, lanes: int) -> None:
    """An ulp where x is positive, five down to -3; what is left further down is next to nothing beside x."""
    f, factor = GELUS[case]
    x = arguments()
    out = aligned(np.zeros(x.size), "float32")
    assert native(prepared(elementwise(["float32"], "float32", x.size, lanes, f), target), [x, out], target) == 0
    with np.errstate(all="ignore"):
        wide = x.astype(np.longdouble)
        want = factor / 2 * wide * erf_sum(wide / np.sqrt(np.longdouble(2)))
        usual = np.isfinite(x) & (x < 1e38)
        whole = 1 if factor in (1.0, 2.0) else 2
        for least, ulps in ((0, whole), (-1, 1.5 + whole), (-3, 5 + whole)):
            np.testing.assert_allclose(
                out[usual & (x >= least)], want[usual & (x >= least)].astype(np.float64), rtol=ulps * ULP, atol=1e-44
            )
        np.testing.assert_allclose(out[usual], want[usual].astype(np.float64), rtol=ULP * whole, atol=1e-7)
    assert (np.abs(out[usual & (x < -8)]) < 1e-14).all()
    np.testing.assert_array_equal(np.isnan(out), np.isnan(x) | (x == -np.inf))
    assert (out[x == np.inf] == np.inf).all()


@TARGETS
def test_silu(target: str, lanes: int) -> None:
    x = arguments()
    out = aligned(np.zeros(x.size), "float32")
    func = elementwise(["float32"], "float32", x.size, lanes, lambda v: v * call("sigmoid", v))
    assert native(prepared(func, target), [x, out], target) == 0
    with np.errstate(all="ignore"):
        wide = x.astype(np.longdouble)
        want = wide / (1 + np.exp(-wide))
        usual = np.isfinite(x) & (x > -87)
        np.testing.assert_allclose(out[usual], want[usual], rtol=2 * ULP, atol=1e-44)
    assert (np.abs(out[np.isfinite(x) & (x <= -87)]) < 1e-35).all()
    assert np.isnan(out[np.isnan(x)]).all() and out[x == np.inf] == np.inf and np.isnan(out[x == -np.inf])


def text(f: Callable[..., Any], inputs: int = 1, dtype: str = "float32", target: str = WIDE) -> str:
    func = prepared(elementwise([dtype] * inputs, dtype, 64, 16, f), target).with_attr("calling_conv", AOT)
    return emit_module(IRModule({"main": func}), target)


def test_where_they_apply() -> None:
    """Fewer instructions than by the parts; not for other numbers than 1, other types, or another factor than the argument."""
    gelu = text(lambda x: x * (0.5 * (call("erf", x / 1.4142135) + 1.0)))
    assert "fdiv" not in gelu and gelu.count("llvm.fma.v16f32(") == 19 and gelu.count("fmul") == 0
    gated = text(lambda x, y: y * (x * (0.5 * (call("erf", x / 1.4142135) + 1.0))), 2)
    assert gated.count("llvm.fma.v16f32(") == 19 and gated.count("fmul") == 1
    other = text(lambda x, y: y * (0.5 * (call("erf", x / 1.4142135) + 1.0)), 2)
    assert other.count("llvm.fma.v16f32(") == 17 and other.count("fmul") == 4
    assert text(lambda x: call("erf", x) + 2.0).count("llvm.fma.v16f32(") > 22
    assert "fdiv" not in text(lambda x: call("tanh", x) + 1.0)
    assert text(lambda x: x * call("sigmoid", x)).count("fdiv") == 1
    assert text(lambda x, y: y * call("sigmoid", x), 2).count("fdiv") == 0  # the exact one, by reciprocals


@pytest.mark.parametrize("target", ["llvm", "c"])
def test_other_types_are_refused(target: str) -> None:
    func = elementwise(["float64"], "float64", 8, 1, lambda x: call("gelu", x)).with_attr("calling_conv", AOT)
    with pytest.raises(TVMError, match="gelu takes float32 values, but was given float64"):
        back_end_of(Target(target)).emit(IRModule({"main": func}), Target(target))
