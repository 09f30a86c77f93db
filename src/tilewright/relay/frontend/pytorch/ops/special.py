"""Converters of special functions, which host functions compute (`runtime/host_functions/special`)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tilewright.relay.frontend.common.builder import Operand
from tilewright.relay.frontend.common.host_calls import special
from tilewright.relay.frontend.common.value import Value
from tilewright.relay.frontend.pytorch.ops.movement import broadcast_all
from tilewright.relay.frontend.pytorch.value import TorchCall, aten
from tilewright.runtime.host_functions.registry import Config, host_function
from tilewright.runtime.host_functions.special import POLYNOMIALS, recurrence

ONE = {
    "lgamma": "lgamma", "special_gammaln": "lgamma", "digamma": "digamma", "special_digamma": "digamma", "special_psi": "digamma",
    "erfinv": "erfinv", "special_erfinv": "erfinv", "special_erfcx": "erfcx", "special_ndtri": "ndtri", "i0": "bessel_i0",
    "special_i0": "bessel_i0", "special_i0e": "bessel_i0e", "special_i1": "bessel_i1", "special_i1e": "bessel_i1e",
    "special_bessel_j0": "bessel_j0", "special_bessel_j1": "bessel_j1", "special_bessel_y0": "bessel_y0", "special_bessel_y1": "bessel_y1",
    "special_modified_bessel_i0": "bessel_i0", "special_modified_bessel_i1": "bessel_i1", "special_modified_bessel_k0": "bessel_k0",
    "special_modified_bessel_k1": "bessel_k1", "special_scaled_modified_bessel_k0": "bessel_k0e",
    "special_scaled_modified_bessel_k1": "bessel_k1e", "special_airy_ai": "airy_ai",
}  # fmt: skip
TWO = {
    "special_zeta": "zeta", "igamma": "igamma", "special_gammainc": "igamma", "igammac": "igammac", "special_gammaincc": "igammac",
}  # fmt: skip


def _of_one(name: str) -> Callable[..., Value]:
    return lambda c, x: special(c, name, c.floats(x))


def _of_two(name: str) -> Callable[..., Value]:
    return lambda c, a, b: special(c, name, *broadcast_all(c, c.promote(a, b, floating=True)))


for _aten, _name in ONE.items():
    aten(_aten)(_of_one(_name))
for _aten, _name in TWO.items():
    aten(_aten)(_of_two(_name))


UNROLLED = 64
"""The largest degree of polynomials that kernels compute."""


def _polynomial(kind: str, shifted: bool) -> Callable[..., Value]:
    def convert(c: TorchCall, x: Any, n: Operand) -> Value:
        x, n = c.promote(x, n, floating=True)
        if shifted:
            x = c.call("subtract", c.call("multiply", x, 2), 1)
        if n.array is None or n.array.size != 1 or not -1 < float(n.array.item()) <= UNROLLED:
            return special(c, kind, *broadcast_all(c, [x, n]))
        x = broadcast_all(c, [x, n])[0]
        before, now = c.number(0, x.dtype), c.full(x.shape, 1, x.dtype)
        for k in range(int(n.array.item())):
            a, b, less = recurrence(kind, k)
            slope = c.call("add", c.call("multiply", x, a), b) if b else c.call("multiply", x, a)
            following = c.call("multiply", slope, now)
            before, now = now, c.call("subtract", following, c.call("multiply", before, less)) if less else following
        return now

    return convert


for _name in POLYNOMIALS:
    _family, _, _letters = _name.partition("_")
    aten(f"special_{_family}_polynomial_{_letters}")(_polynomial(_name, False))
    if _family == "chebyshev":
        aten(f"special_shifted_{_family}_polynomial_{_letters}")(_polynomial(_name, True))


@aten("polygamma", "special_polygamma")
def _polygamma(c: TorchCall, n: int, x: Value) -> Value:
    x = c.floats(x)
    if n == 0:
        return special(c, "digamma", x)
    return special(c, "polygamma", c.broadcast(c.number(n, x.dtype), x.shape), x)


@aten("special_spherical_bessel_j0")
def _spherical(c: TorchCall, x: Value) -> Value:
    x = c.floats(x)
    tiny = c.call("less", c.call("abs", x), 1e-6)
    plain = c.call("where", tiny, c.number(1, x.dtype), x)
    ratio = c.call("where", tiny, c.number(1, x.dtype), c.call("divide", c.call("sin", x), plain))
    # The limit at infinity is 0, where the sine is NaN.
    far = c.call("equal", c.call("abs", x), c.number(np.inf, x.dtype))
    return c.call("where", far, c.number(0, x.dtype), ratio)


@host_function("torch.gcd")
def _greatest(config: Config, a: np.ndarray, b: np.ndarray) -> np.ndarray:
    return np.asarray(np.gcd(a, b))


@host_function("torch.lcm")
def _least(config: Config, a: np.ndarray, b: np.ndarray) -> np.ndarray:
    return np.asarray(np.abs(np.lcm(a, b)))


@aten("gcd", "lcm")
def _divisor(c: TorchCall, a: Value, b: Value) -> Value:
    x, y = broadcast_all(c, c.promote(a, b))
    name = "torch.gcd" if "gcd" in c.target else "torch.lcm"
    return c.call("host.call", [x, y], function=name, shape=tuple(x.shape), dtype=x.dtype)


@aten("frexp")
def _frexp(c: TorchCall, x: Value) -> list[Value]:
    wide = c.cast(x, "float64")
    size = c.call("abs", wide)
    plain = c.call("where", c.call("equal", size, 0), c.number(1, "float64"), size)
    power = c.call("add", c.call("floor", c.call("log2", plain)), 1)
    share = c.call("divide", wide, c.call("power", c.number(2, "float64"), power))
    # The rounded logarithm may be off by one.
    much = c.call("greater_equal", c.call("abs", share), 1)
    little = c.call("logical_and", c.call("less", c.call("abs", share), 0.5), c.call("not_equal", size, 0))
    share = c.call(
        "where", much, c.call("divide", share, 2), c.call("where", little, c.call("multiply", share, 2), share)
    )
    moved = c.call("subtract", c.cast(much, "int32"), c.cast(little, "int32"))
    whole = c.call("add", c.cast(power, "int32"), moved)
    zero = c.call("logical_or", c.call("equal", size, 0), c.call("logical_not", c.call("isfinite", wide)))
    return [c.call("where", zero, x, c.cast(share, x.dtype)), c.call("where", zero, c.number(0, "int32"), whole)]
