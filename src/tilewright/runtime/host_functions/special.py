"""Special functions for all importers, as host functions: no kernels, but double precision, accurate to 1e-9 or better.

Formulas by number are those of Abramowitz and Stegun, Handbook of Mathematical Functions.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from statistics import NormalDist
from typing import Any

import numpy as np

from tilewright.runtime.host_functions.registry import Config, host_function

Array = Any
"""An array of NumPy, in float64."""
EULER = 0.5772156649015329
FUNCTIONS: dict[str, int] = {}
"""Their names, and how many arguments they take."""


def _function(arguments: int) -> Callable[[Callable[..., Array]], Callable[..., Array]]:
    def register(f: Callable[..., Array]) -> Callable[..., Array]:
        def run(config: Config, *xs: Array) -> Array:
            whole = np.broadcast_arrays(*[np.asarray(x, np.float64) for x in xs])
            with np.errstate(all="ignore"):
                return np.asarray(f(*[w.reshape(-1) for w in whole])).reshape(whole[0].shape)

        host_function(f"special.{f.__name__}")(run)
        FUNCTIONS[f.__name__] = arguments
        return f

    return register


def _each(f: Callable[..., float], *xs: Array) -> Array:
    return np.array([f(*row) for row in zip(*[x.tolist() for x in xs], strict=True)], np.float64)


# ---- gamma functions


def _lgamma_of(x: float) -> float:
    if math.isinf(x):
        return math.inf
    if math.isnan(x) or x <= 0 and x == math.floor(x):
        return math.nan if math.isnan(x) else math.inf
    return math.lgamma(x)


@_function(1)
def lgamma(x: Array) -> Array:
    """The logarithm of the size of the gamma function."""
    return _each(_lgamma_of, x)


DIGAMMA = (1 / 12, -1 / 120, 1 / 252, -1 / 240, 1 / 132, -691 / 32760, 1 / 12)
"""6.3.18."""


@_function(1)
def digamma(x: Array) -> Array:
    """The derivative of the logarithm of the gamma function; not a number at its poles."""
    low = x <= 0
    at = np.where(low, 1 - x, x)
    total = np.zeros_like(at)
    for _ in range(10):
        few = at < 10
        total -= np.where(few, 1 / at, 0.0)
        at = np.where(few, at + 1, at)
    total += np.log(at) - 0.5 / at
    for k, b in enumerate(DIGAMMA, 1):
        total -= b / at ** (2 * k)
    made = np.where(low, total - np.pi / np.tan(np.pi * x), total)
    made = np.where(low & (x == np.floor(x)), np.where(x == 0, -np.inf * np.copysign(1, x), np.nan), made)
    return np.where(np.isposinf(x), np.inf, made)


MOST_TERMS = 10_000
BERNOULLI = (1 / 6, -1 / 30, 1 / 42, -1 / 30, 5 / 66, -691 / 2730, 7 / 6, -3617 / 510, 43867 / 798, -174611 / 330)


@_function(2)
def zeta(x: Array, q: Array) -> Array:
    """The sum of (q + k) ** -x over k from 0 on: term by term up to 10, from there Euler and Maclaurin's formula."""
    total, at = np.zeros_like(x), q.astype(np.float64)
    least = float(np.min(at, initial=0.0, where=np.isfinite(at)))
    for _ in range(10 + min(math.ceil(-least), MOST_TERMS)):
        total += np.where(at < 10, at**-x, 0.0)
        at = np.where(at < 10, at + 1, at)
    total += at ** (1 - x) / (x - 1) + 0.5 * at**-x
    rising, power = x.copy(), at ** (-x - 1)
    for k, b in enumerate(BERNOULLI, 1):
        total += b / math.factorial(2 * k) * rising * power
        rising *= (x + 2 * k - 1) * (x + 2 * k)
        power /= at * at
    pole = (q <= 0) & (q == np.floor(q))
    made = np.where(pole, np.inf, np.where((q <= 0) & (x != np.floor(x)), np.nan, total))
    return np.where(x == 1, np.inf, np.where(x < 1, np.nan, made))


@_function(2)
def polygamma(n: Array, x: Array) -> Array:
    """The n-th derivative of digamma."""
    sign = np.where(n % 2 == 0, -1.0, 1.0)
    made = sign * np.exp(lgamma(n + 1)) * zeta(n + 1, x)
    return np.where(n == 0, digamma(x), np.where((n < 0) | (n != np.floor(n)), np.nan, made))


def _gamma_parts(a: float, x: float) -> tuple[float, float]:
    """(P, Q): the shares of the gamma integral below and above x (6.5.29, 6.5.31)."""
    if math.isnan(a) or math.isnan(x) or x < 0 or a <= 0:
        return (math.nan, math.nan) if not (a == 0 and x > 0) else (1.0, 0.0)
    if x == 0 or math.isinf(x):
        return (0.0, 1.0) if x == 0 else (1.0, 0.0)
    scale = math.exp(a * math.log(x) - x - math.lgamma(a))
    if x < a + 1:
        term = total = 1 / a
        for k in range(1, 10000):
            term *= x / (a + k)
            total += term
            if abs(term) < abs(total) * 1e-17:
                break
        return scale * total, 1 - scale * total
    b, c = x + 1 - a, 1e300
    d = made = 1 / b
    for k in range(1, 10000):
        step = -k * (k - a)
        b += 2
        d = 1 / (step * d + b or 1e-300)
        c = b + step / c or 1e-300
        made *= d * c
        if abs(d * c - 1) < 1e-16:
            break
    return 1 - scale * made, scale * made


@_function(2)
def igamma(a: Array, x: Array) -> Array:
    """The share of the gamma integral below x."""
    return _each(lambda p, q: _gamma_parts(p, q)[0], a, x)


@_function(2)
def igammac(a: Array, x: Array) -> Array:
    """The share of the gamma integral above x."""
    return _each(lambda p, q: _gamma_parts(p, q)[1], a, x)


def _betainc(a: float, b: float, x: float) -> float:
    if not (a > 0 and b > 0 and 0 <= x <= 1):
        return math.nan
    if x in (0, 1):
        return float(x)
    if x > (a + 1) / (a + b + 2):
        return 1 - _betainc(b, a, 1 - x)
    front = math.exp(math.lgamma(a + b) - math.lgamma(a) - math.lgamma(b) + a * math.log(x) + b * math.log1p(-x)) / a
    # 26.5.8, by Lentz's method.
    c, d = 1.0, 1 / (1 - (a + b) * x / (a + 1) or 1e-300)
    made = d
    for m in range(1, 10000):
        for step in (
            m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m)),
            -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1)),
        ):
            d = 1 / (1 + step * d or 1e-300)
            c = 1 + step / c or 1e-300
            made *= d * c
        if abs(d * c - 1) < 1e-16:
            break
    return front * made


@_function(3)
def betainc(a: Array, b: Array, x: Array) -> Array:
    """The share of the beta integral below x."""
    return _each(_betainc, a, b, x)


# ---- the normal distribution


def _ndtri(p: float) -> float:
    if p in (0, 1):
        return math.inf if p else -math.inf
    return NormalDist().inv_cdf(p) if 0 < p < 1 else math.nan


@_function(1)
def ndtri(p: Array) -> Array:
    """The number below which a share p of the normal distribution lies."""
    return _each(_ndtri, p)


def _erfinv(y: float) -> float:
    if abs(y) < 1e-4:
        return y * math.sqrt(math.pi) / 2 * (1 + math.pi / 12 * y * y)
    return math.copysign(_ndtri((1 + abs(y)) / 2) / math.sqrt(2), y)


@_function(1)
def erfinv(y: Array) -> Array:
    """The number whose error function is y."""
    return _each(_erfinv, y)


@_function(1)
def erfcx(x: Array) -> Array:
    """exp(x * x) * erfc(x)."""

    def of(v: float) -> float:
        if v < 20:
            return math.exp(min(v * v, 709.7)) * math.erfc(v) if v > -26.6 else math.inf
        # 7.1.23
        return (1 - 0.5 / v**2 + 0.75 / v**4 - 1.875 / v**6) / (v * math.sqrt(math.pi))

    return _each(of, x)


# ---- integrals


def _expint(x: float) -> float:
    if x == 0 or math.isnan(x):
        return -math.inf if x == 0 else math.nan
    if x < -1.5:
        # -E1(-x) (5.1.22)
        z = -x
        b, c = z + 1, 1e300
        d = made = 1 / b
        for k in range(1, 1000):
            b += 2
            d = 1 / (b - k * k * d)
            c = b - k * k / c
            made *= d * c
            if abs(d * c - 1) < 1e-16:
                break
        return -made * math.exp(-z)
    if x < 40:
        term, total = 1.0, EULER + math.log(abs(x))
        for k in range(1, 200):
            term *= x / k
            total += term / k
            if abs(term) < 1e-18 * abs(total):
                break
        return total
    term = total = 1.0
    for k in range(1, 40):
        term *= k / x
        if term < 1e-17:
            break
        total += term
    return math.exp(x) / x * total if x < 709 else math.inf


@_function(1)
def expint(x: Array) -> Array:
    """The exponential integral Ei."""
    return _each(_expint, x)


def _nodes(n: int) -> tuple[Array, Array]:
    return np.polynomial.legendre.leggauss(n)


@_function(1)
def dawsn(x: Array) -> Array:
    """exp(-x * x) times the integral of exp(t * t) from 0 to x."""
    t, w = _nodes(200)
    at, size = np.minimum(np.abs(x), 30.0)[:, None], np.abs(x)
    # From x down; what lies more than 30 / x below counts for nothing.
    span = np.minimum(at, np.where(at > 7, 60 / np.maximum(2 * at, 1), at))
    u = at - span * (1 + t[None]) / 2
    inside = (np.exp(u * u - at * at) * w[None]).sum(1) * span[:, 0] / 2
    far = (1 + 0.5 / size**2 + 0.75 / size**4 + 1.875 / size**6) / (2 * size)
    return np.copysign(np.where(size > 30, far, inside), x)


def _fresnel(x: Array, wave: Callable[[Array], Array], other: int) -> Array:
    t, w = _nodes(200)
    size = np.minimum(np.abs(x), 1e8)
    near = np.minimum(size, 8.0)[:, None]
    u = near * (1 + t[None]) / 2
    inside = (wave(np.pi / 2 * u * u) * w[None]).sum(1) * near[:, 0] / 2
    # 7.3.9, 7.3.10, 7.3.27, 7.3.28
    z = np.pi * size * size
    f = (1 - 3 / z**2 + 105 / z**4 - 10395 / z**6) / (np.pi * size)
    g = (1 - 15 / z**2 + 945 / z**4) / (np.pi * size * z)
    s, c = np.sin(z / 2), np.cos(z / 2)
    far = 0.5 - f * c - g * s if other else 0.5 + f * s - g * c
    return np.copysign(np.where(size > 8, far, inside), x)


@_function(1)
def fresnel_sin(x: Array) -> Array:
    """The integral of sin(pi / 2 * t * t) from 0 to x."""
    return _fresnel(x, np.sin, 1)


@_function(1)
def fresnel_cos(x: Array) -> Array:
    """The integral of cos(pi / 2 * t * t) from 0 to x."""
    return _fresnel(x, np.cos, 0)


@_function(1)
def spence(x: Array) -> Array:
    """The dilogarithm: the integral of log(t) / (1 - t) from 1 to x."""

    def of(v: float) -> float:
        if v < 0 or math.isnan(v):
            return math.nan
        if v == 0:
            return math.pi**2 / 6
        if v > 1.5:
            return -of(1 / v) - math.log(v) ** 2 / 2
        if v < 0.5:
            return math.pi**2 / 6 - math.log(v) * math.log1p(-v) - of(1 - v)
        z, term, total = 1 - v, 1.0, 0.0
        for k in range(1, 200):
            term *= z
            total += term / k**2
            if abs(term) < 1e-18:
                break
        return total

    return _each(of, x)


# ---- Bessel functions


def _series_waves(x: Array, order: int) -> Array:
    """J of order 0 or 1 for |x| <= 25: the mean of cos(order * t - x * sin(t)) over a turn, which 96 places give exactly (9.1.21)."""
    t = 2 * np.pi * np.arange(96) / 96
    return np.cos(order * t[None] - x[:, None] * np.sin(t[None])).mean(1)


def _far(x: Array, order: int) -> tuple[Array, Array]:
    """(P, Q) of Hankel's expansions (9.2.9, 9.2.10)."""
    mu, z = 4.0 * order * order, 8 * x
    p, q = np.ones_like(x), np.zeros_like(x)
    term = np.ones_like(x)
    for k in range(1, 17):
        term = term * (mu - (2 * k - 1) ** 2) / (k * z)
        sign = -1 if k % 4 in (2, 3) else 1
        if k % 2:
            q = q + sign * term
        else:
            p = p + sign * term
    return p, q


def _bessel_j(x: Array, order: int) -> Array:
    size = np.abs(x)
    p, q = _far(np.maximum(size, 25.0), order)
    angle = size - (order / 2 + 0.25) * np.pi
    far = np.sqrt(2 / (np.pi * np.maximum(size, 1))) * (p * np.cos(angle) - q * np.sin(angle))
    made = np.where(size > 25, far, _series_waves(np.minimum(size, 25.0), order))
    return np.where(x < 0, -made, made) if order else made


@_function(1)
def bessel_j0(x: Array) -> Array:
    """The Bessel function of the first kind, of order 0."""
    return _bessel_j(x, 0)


@_function(1)
def bessel_j1(x: Array) -> Array:
    """The Bessel function of the first kind, of order 1."""
    return _bessel_j(x, 1)


def _bessel_y(x: Array, order: int) -> Array:
    p, q = _far(np.maximum(x, 14.0), order)
    angle = x - (order / 2 + 0.25) * np.pi
    far = np.sqrt(2 / (np.pi * np.maximum(x, 1))) * (p * np.sin(angle) + q * np.cos(angle))
    near = np.clip(x, 1e-300, 14.0)
    quarter, log = near * near / 4, np.log(near / 2)
    if order == 0:
        # 9.1.13
        total, term, harmonic = np.zeros_like(x), np.ones_like(x), 0.0
        for k in range(1, 60):
            term, harmonic = term * -quarter / k**2, harmonic + 1 / k
            total -= harmonic * term
        made = 2 / np.pi * ((log + EULER) * _bessel_j(near, 0) + total)
    else:
        # 9.1.11
        total, term, harmonic = np.zeros_like(x), near / 2, 0.0
        for k in range(60):
            total += (2 * harmonic + 1 / (k + 1) - 2 * EULER) * term
            harmonic += 1 / (k + 1)
            term = term * -quarter / ((k + 1) * (k + 2))
        made = -2 / (np.pi * near) + 2 / np.pi * log * _bessel_j(near, 1) - total / np.pi
    return np.where(x > 14, far, np.where(x > 0, made, np.where(x == 0, -np.inf, np.nan)))


@_function(1)
def bessel_y0(x: Array) -> Array:
    """The Bessel function of the second kind, of order 0."""
    return _bessel_y(x, 0)


@_function(1)
def bessel_y1(x: Array) -> Array:
    """The Bessel function of the second kind, of order 1."""
    return _bessel_y(x, 1)


def _scaled_i(x: Array, order: int) -> Array:
    """exp(-|x|) * I of order 0 or 1: the mean over a turn (9.6.19), far out its expansion (9.7.1)."""
    size = np.abs(x)
    t = 2 * np.pi * np.arange(192) / 192
    near = np.exp(np.minimum(size, 60.0)[:, None] * (np.cos(t[None]) - 1)) * np.cos(order * t[None])
    mu, z = 4.0 * order * order, 8 * np.maximum(size, 60.0)
    term = total = np.ones_like(x)
    for k in range(1, 14):
        term = -term * (mu - (2 * k - 1) ** 2) / (k * z)
        total = total + term
    made = np.where(size > 60, total / np.sqrt(2 * np.pi * np.maximum(size, 1)), near.mean(1))
    return np.where(x < 0, -made, made) if order else made


@_function(1)
def bessel_i0e(x: Array) -> Array:
    """exp(-|x|) times the modified Bessel function of the first kind, of order 0."""
    return _scaled_i(x, 0)


@_function(1)
def bessel_i1e(x: Array) -> Array:
    """exp(-|x|) times the modified Bessel function of the first kind, of order 1."""
    return _scaled_i(x, 1)


@_function(1)
def bessel_i0(x: Array) -> Array:
    """The modified Bessel function of the first kind, of order 0."""
    return _scaled_i(x, 0) * np.exp(np.abs(x))


@_function(1)
def bessel_i1(x: Array) -> Array:
    """The modified Bessel function of the first kind, of order 1."""
    return _scaled_i(x, 1) * np.exp(np.abs(x))


def _scaled_k(x: Array, order: int) -> Array:
    """exp(x) * K of order 0 or 1: the integral of exp(-x * (cosh(t) - 1)) * cosh(order * t) from 0 on (9.6.24)."""
    at = np.clip(x, 1e-300, 1e300)
    # Beyond `last` the integrand is nothing; equal steps are exact for functions that vanish at both ends of the whole line.
    # cosh(t) - 1 is 2 * sinh(t / 2) ** 2, of which nothing is lost where t is small.
    last = 2 * np.arcsinh(np.sqrt(745 / 2 / at))
    t = last[:, None] * np.arange(801)[None] / 800
    parts = np.exp(-2 * at[:, None] * np.sinh(t / 2) ** 2) * np.cosh(order * t)
    parts[:, 0] /= 2
    made = np.where(np.isinf(x), 0, parts.sum(1) * last / 800)
    return np.where(x > 0, made, np.where(x == 0, np.inf, np.nan))


@_function(1)
def bessel_k0e(x: Array) -> Array:
    """exp(x) times the modified Bessel function of the second kind, of order 0."""
    return _scaled_k(x, 0)


@_function(1)
def bessel_k1e(x: Array) -> Array:
    """exp(x) times the modified Bessel function of the second kind, of order 1."""
    return _scaled_k(x, 1)


@_function(1)
def bessel_k0(x: Array) -> Array:
    """The modified Bessel function of the second kind, of order 0."""
    return _scaled_k(x, 0) * np.exp(-x)


@_function(1)
def bessel_k1(x: Array) -> Array:
    """The modified Bessel function of the second kind, of order 1."""
    return _scaled_k(x, 1) * np.exp(-x)


def _airy(x: float) -> float:
    """Ai: its two power series (10.4.2, 3), far out its asymptotic ones (10.4.59, 60)."""
    if math.isnan(x) or math.isinf(x):
        return x if math.isnan(x) else 0.0
    zeta = 2 / 3 * math.pow(abs(x), 1.5)
    if abs(x) <= 6:
        f, g, up, down = 0.0, 0.0, 1.0, x
        for k in range(0, 180, 3):
            f, g = f + up, g + down
            up *= x**3 / ((k + 2) * (k + 3))
            down *= x**3 / ((k + 3) * (k + 4))
        return 0.3550280538878172 * f - 0.2588194037928068 * g
    terms = [1.0]
    for k in range(1, 18):
        terms.append(terms[-1] * (6 * k - 5) * (6 * k - 1) / (72 * k * zeta))
    if x > 0:
        near = sum([t * (-1.0) ** k for k, t in enumerate(terms)])
        return math.exp(-zeta) / (2 * math.sqrt(math.pi) * math.pow(x, 0.25)) * near
    even = sum([t * (-1.0) ** k for k, t in enumerate(terms[::2])])
    odd = sum([t * (-1.0) ** k for k, t in enumerate(terms[1::2])])
    angle = zeta + math.pi / 4
    return (math.sin(angle) * even - math.cos(angle) * odd) / (math.sqrt(math.pi) * math.pow(-x, 0.25))


@_function(1)
def airy_ai(x: Array) -> Array:
    """Airy's function Ai."""
    return _each(_airy, x)


# ---- orthogonal polynomials: P[k + 1] = (a x + b) P[k] - c P[k - 1] (22.7)


def recurrence(kind: str, k: int) -> tuple[float, float, float]:
    """(a, b, c) of a family of polynomials."""
    if kind.startswith("chebyshev"):
        first = {"t": (1.0, 0.0), "u": (2.0, 0.0), "v": (2.0, -1.0), "w": (2.0, 1.0)}[kind[-1]]
        return (*first, 0.0) if k == 0 else (2.0, 0.0, 1.0)
    if kind == "hermite_h":
        return 2.0, 0.0, 2.0 * k
    if kind == "hermite_he":
        return 1.0, 0.0, float(k)
    if kind == "laguerre_l":
        return -1.0 / (k + 1), (2 * k + 1) / (k + 1), k / (k + 1)
    return (2 * k + 1) / (k + 1), 0.0, k / (k + 1)


POLYNOMIALS = (
    "chebyshev_t", "chebyshev_u", "chebyshev_v", "chebyshev_w", "hermite_h", "hermite_he", "laguerre_l", "legendre_p",
)  # fmt: skip


def _polynomial(kind: str) -> Callable[[Array, Array], Array]:
    def value(x: Array, n: Array) -> Array:
        # A degree that is not an integer loses its fraction; below 0 there is no polynomial.
        degree = np.where(np.isfinite(n), np.trunc(n), -1)
        before, now, k = np.zeros_like(x), np.ones_like(x), 0
        while True:
            going = (degree > k) & np.isfinite(now)
            if not going.any():
                return np.where(degree < 0, 0.0, now)
            a, b, c = recurrence(kind, k)
            following = (a * x + b) * now - c * before
            before, now, k = np.where(going, now, before), np.where(going, following, now), k + 1

    value.__name__ = kind
    return value


for _kind in POLYNOMIALS:
    _function(2)(_polynomial(_kind))
