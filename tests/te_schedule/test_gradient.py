"""Adjoints against finite differences in float64, and as native code."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from tests.te_schedule.helpers import execute
from tilewright import te, tir
from tilewright.codegen import interp
from tilewright.support.errors import TVMError

RNG = np.random.default_rng(3)
Array = np.ndarray[Any, Any]


def run(args: list[Any], inputs: list[Array], out: Any) -> Array:
    result = np.zeros([int(d) for d in out.shape], str(out.dtype))
    interp.run(te.create_prim_func([*args, out]), [*inputs, result])
    return result


def check(output: Any, inputs: list[Any], values: list[Array]) -> None:
    """<head, d output> by adjoints equals central differences, for every element of every input."""
    head = te.placeholder(output.shape, output.dtype, "head")
    weights = RNG.standard_normal([int(d) for d in output.shape])
    for tensor, adjoint, value in zip(inputs, te.gradient(output, inputs, head), values, strict=True):
        assert [int(d) for d in adjoint.shape] == list(value.shape), tensor
        got = run([*inputs, head], [*values, weights], adjoint)
        want = np.zeros_like(value)
        for place in np.ndindex(*value.shape):
            kept, step = value[place], 1e-5
            value[place] = kept + step
            high = (run(inputs, values, output) * weights).sum()
            value[place] = kept - step
            low = (run(inputs, values, output) * weights).sum()
            value[place] = kept
            want[place] = (high - low) / (2 * step)
        np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-6)


def placeholder(name: str, *shape: int) -> tuple[Any, Array]:
    return te.placeholder(shape, "float64", name), RNG.uniform(0.2, 0.9, shape)


V = te.var("v", "float64")
SCALAR: dict[str, Callable[[Any], Any]] = {
    "arithmetic": lambda x: (x + 2.0) * x - 3.0 / x + x / 4.0,
    "exp": te.exp,
    "log": te.log,
    "log2": te.log2,
    "log10": te.log10,
    "sqrt": te.sqrt,
    "rsqrt": te.rsqrt,
    "tanh": te.tanh,
    "sigmoid": te.sigmoid,
    "sin": te.sin,
    "cos": te.cos,
    "tan": te.tan,
    "sinh": te.sinh,
    "cosh": te.cosh,
    "asin": te.asin,
    "acos": te.acos,
    "atan": te.atan,
    "erf": te.erf,
    "asinh": te.asinh,
    "acosh": lambda x: te.acosh(x + 1.0),
    "atanh": te.atanh,
    "log1p": tir.log1p,
    "exp2": tir.exp2,
    "exp10": tir.exp10,
    "atan2": lambda x: tir.atan2(x, x * x + 0.3),
    "hypot": lambda x: tir.hypot(x, x + 0.5),
    "fmod": lambda x: te.fmod(x * 3.0, x + 0.07),
    "copysign": lambda x: tir.copysign(x, 0.5 - x) + x,
    "let": lambda x: tir.Let(V, x * 2.0, V * V),
    "abs": lambda x: te.abs(x - 0.5),
    "power": lambda x: te.power(x, x * 2.0),
    "extrema": lambda x: tir.max(x, 0.5) * tir.min(x, 0.6),
    "select": lambda x: tir.Select(x > 0.5, x * x, x),
    "if_then_else": lambda x: tir.if_then_else(x > 0.5, x * x, x * 3.0),
    "floor": lambda x: te.floor(x * 3.0) * x,
    "cast": lambda x: x.astype("float32").astype("float64") * 0.0 + x,
}


@pytest.mark.parametrize("name", SCALAR)
def test_functions_of_one_element(name: str) -> None:
    a, av = placeholder("A", 3, 2)
    check(te.compute(a.shape, lambda i, j: SCALAR[name](a[i, j]), name="f"), [a], [av])


def test_matrix_product_with_bias_and_activation() -> None:
    (a, av), (b, bv), (c, cv) = placeholder("A", 3, 4), placeholder("B", 4, 2), placeholder("C", 2)
    k = te.reduce_axis((0, 4), "k")
    product = te.compute((3, 2), lambda i, j: te.sum(a[i, k] * b[k, j], axis=k), name="product")
    out = te.compute((3, 2), lambda i, j: te.tanh(product[i, j] + c[j]), name="out")
    check(out, [a, b, c], [av, bv, cv])


def test_padded_strided_convolution() -> None:
    (x, xv), (w, wv) = placeholder("X", 1, 2, 5, 5), placeholder("W", 2, 2, 3, 3)
    pad = te.compute(
        (1, 2, 7, 7),
        lambda n, c, i, j: te.if_then_else(te.all(i >= 1, i < 6, j >= 1, j < 6), x[n, c, i - 1, j - 1], 0.0),
        name="pad",
    )
    rc, ry, rx = te.reduce_axis((0, 2), "rc"), te.reduce_axis((0, 3), "ry"), te.reduce_axis((0, 3), "rx")
    conv = te.compute(
        (1, 2, 3, 3),
        lambda n, o, i, j: te.sum(pad[n, rc, i * 2 + ry, j * 2 + rx] * w[o, rc, ry, rx], axis=[rc, ry, rx]),
        name="conv",
    )
    check(conv, [x, w], [xv, wv])


def test_softmax_and_several_uses_of_one_tensor() -> None:
    a, av = placeholder("A", 2, 4)
    k, m = te.reduce_axis((0, 4), "k"), te.reduce_axis((0, 4), "m")
    top = te.compute((2,), lambda i: te.max(a[i, m], axis=m), name="top")
    e = te.compute((2, 4), lambda i, j: te.exp(a[i, j] - top[i]), name="e")
    total = te.compute((2,), lambda i: te.sum(e[i, k], axis=k), name="total")
    out = te.compute((2, 4), lambda i, j: e[i, j] / total[i], name="out")
    check(out, [a], [av])


def test_reductions_with_conditions_minima_and_windows() -> None:
    a, av = placeholder("A", 4, 5)
    k = te.reduce_axis((0, 5), "k")
    half = te.compute((4,), lambda i: te.sum(a[i, k] * a[i, k], axis=k, where=k < 3), name="half")
    check(half, [a], [av])
    low = te.compute((4,), lambda i: te.min(a[i, k], axis=k), name="low")
    check(low, [a], [av])
    window = te.compute((4, 3), lambda i, j: a[i, j] * a[i, j + 1] - a[3 - i, j + 2], name="window")
    check(window, [a], [av])
    diagonal = te.compute((4,), lambda i: a[i, i] + a[i, 2], name="diagonal")
    check(diagonal, [a], [av])


def test_products_and_reducers_of_ones_own() -> None:
    a, av = placeholder("A", 3, 4)
    av[1, 2] = 0.0
    k = te.reduce_axis((0, 4), "k")
    check(te.compute((3,), lambda i: te.prod(a[i, k] * a[2 - i, k] + 0.1, axis=k), name="product"), [a], [av])
    check(te.compute((3,), lambda i: te.prod(a[i, k], axis=k, where=k > 0), name="part"), [a], [av])
    check(te.compute((1,), lambda i: te.prod(a[1, k], axis=k), name="zero"), [a], [av])
    either = te.comm_reducer(lambda x, y: x + y - x * y, lambda t: tir.const(0, t), name="either")
    (b, bv) = placeholder("B", 4)
    check(te.compute((3,), lambda i: either(a[i, k] * b[k], axis=k), name="chance"), [a, b], [av, bv])
    last = te.comm_reducer(lambda x, y: tir.Select(y > 0.5, y * y, x * 0.5), lambda t: tir.const(0, t), name="last")
    check(te.compute((3,), lambda i: last(a[i, k], axis=k), name="latest"), [a], [av])


def test_jacobian_and_inputs_without_influence() -> None:
    (a, av), (b, _) = placeholder("A", 2, 3), placeholder("B", 4)
    out = te.compute((2, 3), lambda i, j: a[i, j] * a[i, j], name="out")
    jacobian, zeros = te.gradient(out, [a, b])
    assert [int(d) for d in jacobian.shape] == [2, 3, 2, 3]
    want = np.zeros((2, 3, 2, 3))
    for place in np.ndindex(2, 3):
        want[place + place] = 2 * av[place]
    np.testing.assert_allclose(run([a], [av], jacobian), want)
    assert not run([a], [av], zeros).any()


def test_schedules_of_adjoints_are_schedules_as_any() -> None:
    a, b = te.placeholder((6, 8), name="A"), te.placeholder((8, 5), name="B")
    k = te.reduce_axis((0, 8), "k")
    c = te.compute((6, 5), lambda i, j: te.sum(a[i, k] * b[k, j], axis=k), name="C")
    head = te.placeholder((6, 5), name="head")
    (adjoint,) = te.gradient(c, [a], head)
    s = te.create_schedule(adjoint.op)
    _, inner = s[adjoint].split(adjoint.op.axis[1], factor=4)
    s[adjoint].reorder(adjoint.op.axis[0], *adjoint.op.reduce_axis, inner)
    s[adjoint].vectorize(inner)
    av, bv, hv = (RNG.standard_normal(shape).astype("float32") for shape in ((6, 8), (8, 5), (6, 5)))
    execute(s, [a, b, head, adjoint], [av, bv, hv], [hv @ bv.T])


def test_refusals() -> None:
    a, _ = placeholder("A", 4)
    out = te.compute((4,), lambda i: tir.call_pure_extern("float64", "cbrt", a[i]), name="F")
    with pytest.raises(TVMError, match=r"^te.gradient: no derivative is known for .*cbrt.* in compute F$"):
        te.gradient(out, [a])
    with pytest.raises(ValueError, match=r"the shape of head must end with that of the output, \[4\], but is \[3\]"):
        te.gradient(out, [a], te.placeholder((3,), "float64", "head"))
