"""Converters for complex numbers, as pairs of real tensors: arithmetic, Fourier transforms, and moves of elements."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tilewright.relay.cards.relations import Dim
from tilewright.relay.frontend.common.value import Value
from tilewright.relay.frontend.pytorch.dtypes import DType, dtype_name
from tilewright.relay.frontend.pytorch.ops.arithmetic import atan2, identity
from tilewright.relay.frontend.pytorch.ops.linalg import einsum, matmul
from tilewright.relay.frontend.pytorch.ops.movement import broadcast_all
from tilewright.relay.frontend.pytorch.value import Argument, Complex, Result, TorchCall, aten, converters
from tilewright.support.errors import OpNotImplemented

BY_PARTS = {
    "view", "reshape", "_unsafe_view", "flatten", "unflatten", "squeeze", "unsqueeze", "transpose", "t", "permute", "movedim", "expand",
    "cat", "stack", "slice", "select", "narrow", "split", "split_with_sizes", "chunk", "unbind", "repeat", "flip", "roll", "clone",
    "contiguous", "alias", "detach", "neg", "sum", "mean", "index_select", "index", "gather", "add", "sub", "constant_pad_nd", "pad",
    "cumsum", "tril", "triu", "diagonal", "lift_fresh_copy", "slice_scatter", "select_scatter", "diag_embed", "trace", "unfold",
    "as_strided", "expand_as", "broadcast_to", "view_as", "swapaxes", "mT", "concat", "hstack", "vstack", "copy",
}  # fmt: skip
"""Operators that apply separately to the real and the imaginary part."""
complex_converters: dict[str, Callable[..., Any]] = {}


def _complex(*names: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    def register(f: Callable[..., Any]) -> Callable[..., Value]:
        complex_converters.update(dict.fromkeys(names, f))
        return f

    return register


def convert_complex(
    c: TorchCall, name: str, overload: str, positional: Sequence[Argument], named: dict[str, Argument]
) -> Any:
    """A call with a complex argument. Raises OpNotImplemented."""
    short = name.removeprefix("aten::")
    found = complex_converters.get(short)
    if found is not None:
        return found(c, *positional, **named)
    if short not in BY_PARTS:
        raise OpNotImplemented("it is not supported on complex numbers: split them with torch.view_as_real before it")
    plain = converters.get(f"{short}.{overload}") or converters[short]
    parts = [plain(c, *_part(list(positional), k), **_part(named, k)) for k in (0, 1)]
    return _joined(*parts)


def _part(x: Any, k: int) -> Any:
    if isinstance(x, Complex):
        return (x.real, x.imag)[k]
    if isinstance(x, (list, tuple)):
        # A real tensor among complex ones has the imaginary part 0.
        some = any([isinstance(v, Complex) for v in x])
        return [_zero(v) if some and k and isinstance(v, Value) else _part(v, k) for v in x]
    return {n: _part(v, k) for n, v in x.items()} if isinstance(x, dict) else x


def _zero(x: Value) -> Value:
    return Value(array=np.zeros((), x.dtype))


def _joined(a: Any, b: Any) -> Result:
    if isinstance(a, (list, tuple)):
        return [_joined(x, y) for x, y in zip(a, b, strict=True)]
    return Complex(a, b)


def as_complex(c: TorchCall, x: Any, like: Complex | None = None) -> Complex:
    """A value as a complex value."""
    if isinstance(x, Complex):
        return x
    dtype = like.real.dtype if like is not None else "float32"
    if isinstance(x, complex):
        return Complex(c.number(x.real, dtype), c.number(x.imag, dtype))
    value = c.tensor(x, dtype)
    return Complex(value, c.full(value.shape, 0, value.dtype))


@aten("complex")
def _from_parts(c: TorchCall, real: Value, imag: Value) -> Complex:
    return Complex(*broadcast_all(c, [real, imag]))


@aten("polar")
def _polar(c: TorchCall, size: Value, angle: Value) -> Complex:
    size, angle = broadcast_all(c, [size, angle])
    return Complex(c.call("multiply", size, c.call("cos", angle)), c.call("multiply", size, c.call("sin", angle)))


@aten("view_as_complex")
def _view_as_complex(c: TorchCall, x: Value) -> Complex:
    parts = c.calls("split", x, indices_or_sections=2, axis=x.ndim - 1)
    return Complex(*[c.call("squeeze", p, axis=(x.ndim - 1,)) for p in parts])


@_complex("view_as_real", "view_as_real_copy")
def _view_as_real(c: TorchCall, x: Complex) -> Value:
    return c.call("stack", [x.real, x.imag], axis=x.real.ndim)


aten("view_as_real")(_view_as_real)


@_complex("real", "imag")
def _one_part(c: TorchCall, x: Complex) -> Value:
    return x.imag if "imag" in c.target else x.real


@_complex("conj", "_conj", "conj_physical", "_conj_physical", "resolve_conj")
def _conjugate(c: TorchCall, x: Complex) -> Complex:
    return x if "resolve" in c.target else Complex(x.real, c.call("negative", x.imag))


aten("_conj", "_conj_physical", "view_as_real_copy")(identity)


@_complex("abs")
def _size(c: TorchCall, x: Complex) -> Value:
    squares = [c.call("multiply", p, p) for p in (x.real, x.imag)]
    return c.call("sqrt", c.call("add", *squares))


@aten("angle")
def _real_angle(c: TorchCall, x: Value) -> Value:
    x = c.floats(x)
    flat = c.call("where", c.call("less", x, 0), c.number(np.pi, x.dtype), c.number(0, x.dtype))
    return c.call("where", c.call("isnan", x), x, flat)


@_complex("angle")
def _angle(c: TorchCall, x: Complex) -> Value:
    return atan2(c, x.imag, x.real)


@_complex("add", "sub")
def _sum(c: TorchCall, a: Any, b: Any, alpha: Any = 1) -> Complex:
    x, y = _both(c, a, b)
    key = "subtract" if ".sub" in c.target or "::sub" in c.target else "add"
    parts = [(x.real, y.real), (x.imag, y.imag)]
    return Complex(*[c.call(key, p, c.call("multiply", q, alpha) if alpha != 1 else q) for p, q in parts])


def _both(c: TorchCall, a: Any, b: Any) -> tuple[Complex, Complex]:
    like = a if isinstance(a, Complex) else b
    return as_complex(c, a, like), as_complex(c, b, like)


@_complex("mul")
def _product(c: TorchCall, a: Any, b: Any) -> Complex:
    for x, y in ((a, b), (b, a)):
        if isinstance(x, Complex) and not isinstance(y, (Complex, complex)):
            return Complex(*[c.call("multiply", p, c.tensor(y, p.dtype)) for p in (x.real, x.imag)])
    x, y = _both(c, a, b)
    real = c.call("subtract", c.call("multiply", x.real, y.real), c.call("multiply", x.imag, y.imag))
    imag = c.call("add", c.call("multiply", x.real, y.imag), c.call("multiply", x.imag, y.real))
    return Complex(real, imag)


@_complex("div")
def _quotient(c: TorchCall, a: Any, b: Any) -> Complex:
    if isinstance(a, Complex) and not isinstance(b, (Complex, complex)):
        return Complex(*[c.call("divide", p, c.tensor(b, p.dtype)) for p in (a.real, a.imag)])
    x, y = _both(c, a, b)
    top = _product(c, x, _plain_conjugate(c, y))
    length = c.call("add", c.call("multiply", y.real, y.real), c.call("multiply", y.imag, y.imag))
    return Complex(*[c.call("divide", p, length) for p in (top.real, top.imag)])


def _plain_conjugate(c: TorchCall, x: Complex) -> Complex:
    return Complex(x.real, c.call("negative", x.imag))


@_complex("matmul", "mm", "bmm", "mv", "dot")
def _matrix_product(c: TorchCall, a: Any, b: Any) -> Complex:
    x, y = _both(c, a, b)
    rr, ii, ri, ir = [
        matmul(c, p, q) for p, q in ((x.real, y.real), (x.imag, y.imag), (x.real, y.imag), (x.imag, y.real))
    ]
    return Complex(c.call("subtract", rr, ii), c.call("add", ri, ir))


@_complex("einsum")
def _sum_of_products(c: TorchCall, equation: str, operands: Sequence[Any], path: Any = None) -> Complex:
    """A multilinear operator: the sum over all choices of real and imaginary parts of its operands, with i * i = -1."""
    sums: list[Value | None] = [None, None]
    for choice in itertools.product(*[(0, 1) if isinstance(x, Complex) else (0,) for x in operands]):
        parts = [_part(x, k) for x, k in zip(operands, choice, strict=True)]
        term = einsum(c, equation, parts)
        turns = sum(choice)
        so_far = sums[turns % 2]
        if so_far is None:
            sums[turns % 2] = c.call("negative", term) if turns % 4 >= 2 else term
        else:
            sums[turns % 2] = c.call("subtract" if turns % 4 >= 2 else "add", so_far, term)
    return Complex(*sums)  # type: ignore[arg-type]


@_complex("square")
def _square(c: TorchCall, x: Complex) -> Any:
    return _product(c, x, x)


@_complex("reciprocal")
def _reciprocal(c: TorchCall, x: Complex) -> Any:
    return _quotient(c, as_complex(c, 1, x), x)


@_complex("sqrt")
def _root(c: TorchCall, x: Complex) -> Complex:
    return _polar(c, c.call("sqrt", _size(c, x)), c.call("multiply", _angle(c, x), 0.5))


@_complex("log")
def _log(c: TorchCall, x: Complex) -> Complex:
    return Complex(c.call("log", _size(c, x)), _angle(c, x))


@_complex("pow")
def _power(c: TorchCall, x: Any, exponent: Any) -> Any:
    if not isinstance(exponent, (int, float)):
        raise c.refuse("exponent", "a tensor", "a number")
    if isinstance(exponent, int) and 0 < exponent <= 4:
        made = x
        for _ in range(exponent - 1):
            made = _product(c, made, x)
        return made
    return _polar(c, c.call("power", _size(c, x), exponent), c.call("multiply", _angle(c, x), exponent))


@_complex("eq", "ne")
def _same(c: TorchCall, a: Any, b: Any) -> Value:
    x, y = _both(c, a, b)
    equal = c.call("logical_and", c.call("equal", x.real, y.real), c.call("equal", x.imag, y.imag))
    return c.call("logical_not", equal) if ".ne" in c.target or "::ne" in c.target else equal


@_complex("zeros_like", "ones_like")
def _alike(c: TorchCall, x: Complex, *rest: object, **more: object) -> Complex:
    return Complex(
        c.full(x.real.shape, 1 if "ones" in c.target else 0, x.real.dtype), c.full(x.real.shape, 0, x.real.dtype)
    )


@_complex("exp")
def _exp(c: TorchCall, x: Complex) -> Complex:
    return _polar(c, c.call("exp", x.real), x.imag)


PARTS = {"complex32": "float16", "complex64": "float32", "complex128": "float64"}


@_complex("_to_copy", "to", "prims::convert_element_type")
def _to(c: TorchCall, x: Complex, *rest: object, dtype: DType | None = None, **more: object) -> Complex | Value:
    given = next((v for v in rest if v is not None and not isinstance(v, (bool, str))), None)
    name = dtype_name(given if dtype is None else dtype) if given is not None or dtype is not None else ""
    if name in PARTS:
        return Complex(*[c.cast(p, PARTS[name]) for p in (x.real, x.imag)])
    # A cast to a real type drops the imaginary part.
    return c.cast(x.real, name) if name else x


@_complex("chalf", "cfloat", "cdouble")
def _to_width(c: TorchCall, x: Complex, *rest: object, **more: object) -> Any:
    name = {"chalf": "complex32", "cfloat": "complex64", "cdouble": "complex128"}[c.target.split("::")[1].split(".")[0]]
    return _to(c, x, dtype=name)


@_complex("sym_size", "size")
def _extent(c: TorchCall, x: Complex, dim: int | None = None) -> list[Dim] | Dim:
    return list(x.real.shape) if dim is None else x.real.shape[dim]


# Fourier transforms, as products with matrices of cosines and sines


def _waves(c: TorchCall, rows: Any, columns: Any, n: Any, sign: float) -> list[Value]:
    """cos and sin of 2 pi r c / n."""
    # Integers are reduced modulo n before they become angles, which keeps the accuracy.
    if all([isinstance(d, int) for d in (rows, columns, n)]):
        angle = 2 * np.pi * ((np.arange(rows)[:, None] * np.arange(columns)[None, :]) % n) / n
        return [Value(array=np.cos(angle)), Value(array=sign * np.sin(angle))]
    r, k = [c.call("arange", start=0, stop=d, step=1, dtype="int64") for d in (rows, columns)]
    turns = c.call("multiply", c.call("expand_dims", r, axis=1), c.call("expand_dims", k, axis=0))
    turns = c.cast(c.call("floor_mod", turns, c.size(n)), "float64")
    angle = c.call("divide", c.call("multiply", turns, 2 * np.pi), c.cast(c.size(n), "float64"))
    return [c.call("cos", angle), c.call("multiply", c.call("sin", angle), sign)]


def _along(c: TorchCall, x: Value, axis: int, matrix: Value) -> Value:
    """x times a matrix (outputs, inputs) along an axis."""
    order = [k for k in range(x.ndim) if k != axis] + [axis]
    moved = c.transpose(x, order)
    flat = moved if moved.ndim > 1 else c.reshape(moved, [1, *moved.shape])
    out = c.call("nn.dense", flat, c.cast(matrix, x.dtype))
    out = out if moved.ndim > 1 else c.reshape(out, matrix.shape[:1])
    return c.transpose(out, [order.index(k) for k in range(x.ndim)])


def _transformed(c: TorchCall, x: Complex, axis: int, forward: bool) -> Complex:
    n = x.real.shape[axis]
    cos, sin = _waves(c, n, n, n, -1.0 if forward else 1.0)
    parts = [[_along(c, p, axis, m) for m in (cos, sin)] for p in (x.real, x.imag)]
    return Complex(c.call("subtract", parts[0][0], parts[1][1]), c.call("add", parts[0][1], parts[1][0]))


def _scaled(c: TorchCall, x: Any, count: Any, normalization: int) -> Any:
    dtype = (x.real if isinstance(x, Complex) else x).dtype
    whole = c.number(count, dtype) if isinstance(count, int) else c.cast(c.size(count), dtype)
    if normalization == 0:
        return x
    by = c.call("sqrt", whole) if normalization == 1 else whole
    if isinstance(x, Complex):
        return Complex(*[c.call("divide", p, by) for p in (x.real, x.imag)])
    return c.call("divide", x, by)


def _extents(c: TorchCall, x: Value, axes: Sequence[int]) -> Any:
    count: Any = 1
    for a in axes:
        count = count * x.shape[a]
    return count


@aten("_fft_r2c")
def _real_to_complex(c: TorchCall, x: Value, dim: Sequence[int], normalization: int, onesided: bool) -> Any:
    axes = [c.axis(d, x.ndim) for d in dim]
    count = _extents(c, x, axes)
    n = x.shape[axes[-1]]
    cos, sin = _waves(c, n // 2 + 1 if onesided else n, n, n, -1.0)
    made = Complex(_along(c, x, axes[-1], cos), _along(c, x, axes[-1], sin))
    for a in axes[:-1]:
        made = _transformed(c, made, a, True)
    return _scaled(c, made, count, normalization)


@aten("_fft_c2c")
def _complex_to_complex(c: TorchCall, x: Any, dim: Sequence[int], normalization: int, forward: bool) -> Any:
    made = as_complex(c, x)
    axes = [c.axis(d, made.real.ndim) for d in dim]
    count = _extents(c, made.real, axes)
    for a in axes:
        made = _transformed(c, made, a, forward)
    return _scaled(c, made, count, normalization)


complex_converters["_fft_c2c"] = _complex_to_complex


@aten("_fft_c2r")
def _complex_to_real(c: TorchCall, x: Any, dim: Sequence[int], normalization: int, size: int) -> Any:
    made = as_complex(c, x)
    axes = [c.axis(d, made.real.ndim) for d in dim]
    for a in axes[:-1]:
        made = _transformed(c, made, a, False)
    last = axes[-1]
    (size,) = c.static([size], "the extent of its result")
    half = size // 2 + 1
    # All coefficients but the first (and for an even size the last) count twice: for themselves and their mirror image.
    twice = np.full(half, 2.0)
    twice[0] = 1.0
    if size % 2 == 0:
        twice[-1] = 1.0
    cos, sin = [Value(array=m.array * twice) for m in _waves(c, size, half, size, -1.0)]
    out = c.call("add", _along(c, made.real, last, cos), _along(c, made.imag, last, sin))
    return _scaled(c, out, _extents(c, out, axes), normalization)


complex_converters["_fft_c2r"] = _complex_to_real
