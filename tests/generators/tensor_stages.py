"""The stages of random tensor expressions: each adds tensors over an earlier one, or says that it does not fit it."""

from __future__ import annotations

import contextlib
import random
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from tests.generators.tensor_builder import DTYPES, FLOATS, INTS, WRAPPING, Builder, Made, const, inexact, limit
from tilewright import te, tir
from tilewright.node import structural_equal


def _scale(b: Builder, rng: random.Random, x: Made) -> bool:
    d, t = x.dtype, x.tensor
    if d == "bool":
        return False
    factor = rng.choice([2, 3, -1, 0.5] if d in FLOATS else [2, 3, -1] if not d.startswith("uint") else [2, 3])
    grain = x.grain + (factor == 0.5)
    if inexact(d, x.bound * 3 + 1, grain):
        return False
    b.compute(t.shape, x.shape, lambda *i: t(*i) * const(factor, d) + const(1, d), x.bound * 3 + 1, grain)
    return True


def _add(b: Builder, rng: random.Random, x: Made) -> bool:
    """With a new input along some of the dimensions, or with an earlier tensor of the same shape."""
    d, t = x.dtype, x.tensor
    twins = [m for m in b.made if m is not x and m.dtype == d and structural_equal(m.tensor.shape, t.shape)]
    if twins and rng.random() < 0.5:
        y = rng.choice(twins)
        pick = list(range(len(x.shape)))
    else:
        pick = sorted(rng.sample(range(len(x.shape)), rng.randint(1, len(x.shape))))
        y = b.placeholder(tuple([t.shape[k] for k in pick]), tuple([x.shape[k] for k in pick]), d)
    u = y.tensor
    grain = max(x.grain, y.grain)
    if d == "bool":
        op = rng.choice([tir.all, tir.any, tir.EQ, tir.NE])
        b.compute(t.shape, x.shape, lambda *i: op(t(*i), u(*[i[k] for k in pick])), 1)
        return True
    if rng.random() < 0.3 and not inexact(d, x.bound * y.bound, x.grain + y.grain):
        b.compute(t.shape, x.shape, lambda *i: t(*i) * u(*[i[k] for k in pick]), x.bound * y.bound, x.grain + y.grain)
        return True
    if inexact(d, x.bound + y.bound, grain):
        return False
    minus = rng.random() < 0.4 and (not d.startswith("uint") or d in WRAPPING)
    b.compute(
        t.shape,
        x.shape,
        lambda *i: t(*i) - u(*[i[k] for k in pick]) if minus else t(*i) + u(*[i[k] for k in pick]),
        x.bound + y.bound,
        grain,
    )
    return True


def _matmul(b: Builder, rng: random.Random, x: Made) -> bool:
    if x.dtype == "bool":
        return False
    m, axis = x, rng.randrange(len(x.shape))
    if inexact(m.dtype, m.bound * 2 * m.shape[axis], m.grain):
        m = b.clamped(m)
    d, t, n = m.dtype, m.tensor, m.shape[axis]
    if inexact(d, m.bound * 2 * n, m.grain):
        return False
    wide = d in ("int8", "uint8", "float16", "bfloat16") and rng.random() < 0.5
    to = ("int32" if d in INTS else "float32") if wide else d
    width = b.size(rng, [1, 3, 4, 8, 9])
    w = b.placeholder((t.shape[axis], width), (n, width), d).tensor
    k = te.reduce_axis((0, t.shape[axis]), name="k")
    put = rng.randrange(len(m.shape))

    def body(*i: Any) -> Any:
        rest, col = [*i[:put], *i[put + 1 :]], i[put]
        a, c = t(*rest[:axis], k, *rest[axis:]), w(k, col)
        return te.sum((a.astype(to) * c.astype(to)) if wide else a * c, axis=k)

    def placed(seq: tuple[Any, ...], item: Any) -> tuple[Any, ...]:
        rest = [*seq[:axis], *seq[axis + 1 :]]
        return (*rest[:put], item, *rest[put:])

    b.compute(placed(tuple(t.shape), width), placed(m.shape, width), body, m.bound * 2 * n, m.grain)
    return True


def _reduce(b: Builder, rng: random.Random, x: Made) -> bool:
    """Over some of the axes, in any order, maybe of what a condition picks."""
    rank = len(x.shape)
    axes = rng.sample(range(rank), rng.randint(1, min(2, rank)))
    if rank == len(axes) and rank > 1:
        axes = axes[:1]
    count = int(np.prod([x.shape[a] for a in axes]))
    kind = rng.choice(["sum", "sum", "max", "min", "prod", "any", "own"])
    d = x.dtype
    if b.special and kind in ("max", "min"):
        kind = "sum"  # what is not a number wins or loses by its place
    if d == "bool":
        kind = rng.choice(["any", "all"])
    elif kind == "any":
        kind = "sum"
    m = x
    if kind == "prod":
        m = b.clamped(x)
        bound = max(m.bound, 1.0) ** count
        if inexact(d, bound, 0) or m.grain:
            return False
    else:
        bound = m.bound * count if kind in ("sum", "own") else m.bound
        if inexact(d, bound, m.grain):
            m = b.clamped(x)
            bound = m.bound * count
            if inexact(d, bound, m.grain):
                return False
    t = m.tensor
    rs = {a: te.reduce_axis((0, t.shape[a]), name=f"r{a}") for a in axes}
    order = [rs[a] for a in axes]
    where = None
    if rng.random() < 0.25:
        a = axes[0]
        where = rs[a].var % 2 == 0 if rng.random() < 0.5 else rs[a].var >= 1
    reducer: Any = {
        "sum": te.sum,
        "max": te.max,
        "min": te.min,
        "prod": tir.prod if hasattr(tir, "prod") else te.prod,
        "any": te.comm_reducer(lambda p, q: tir.Or(p, q), lambda t: const(0, t), name="any"),
        "all": te.comm_reducer(lambda p, q: tir.And(p, q), lambda t: const(1, t), name="all"),
        "own": te.comm_reducer(lambda p, q: p + q, lambda t: const(0, t), name="own"),
    }[kind]

    def at(i: tuple[Any, ...]) -> Any:
        rest = iter(i)
        return t(*[rs[a] if a in rs else next(rest) for a in range(rank)])

    kept = [a for a in range(rank) if a not in rs]
    if kept:
        shape, values = tuple([t.shape[a] for a in kept]), tuple([m.shape[a] for a in kept])
    else:
        shape, values = (1,), (1,)

    def body(*i: Any) -> Any:
        value = at(i if kept else ())
        return reducer(value, axis=order, where=where) if where is not None else reducer(value, axis=order)

    if kind in ("max", "min") and where is not None or d in ("bfloat16", "float16") and kind in ("max", "min"):
        bound = max(bound, limit(d))  # where nothing is picked, the identity stays
    made = b.compute(shape, values, body, bound, m.grain)
    if bound >= limit(d) and d != "bool":
        b.clamped(made)
    if rng.random() < 0.3 and kept and d != "bool" and kind == "sum" and not inexact(d, bound + m.bound, m.grain):
        s = made.tensor
        b.compute(t.shape, m.shape, lambda *i: t(*i) + s(*[i[a] for a in kept]), bound + m.bound, m.grain)
    return True


def _argmax(b: Builder, rng: random.Random, x: Made) -> bool:
    """The place of the largest, by a reducer of pairs; ties by the smaller index."""
    if (
        b.special
        or x.dtype in ("bool", "uint64", "float16", "bfloat16")
        or len(x.shape) < 2
        or x.bound >= limit(x.dtype)
    ):
        return False
    t, rank = x.tensor, len(x.shape)
    axis = rng.randrange(rank)

    def better(p: Any, q: Any) -> Any:
        left = tir.Or(p[1] > q[1], tir.And(p[1] == q[1], p[0] < q[0]))
        return tir.Select(left, p[0], q[0]), tir.Select(left, p[1], q[1])

    def start(kind: str, other: str) -> Any:
        return tir.max_value(kind), tir.min_value(other)

    arg = te.comm_reducer(better, start, name="arg")
    k = te.reduce_axis((0, t.shape[axis]), name="k")

    def body(*i: Any) -> Any:
        rest = iter(i)
        return arg((k.var.astype("int32"), t(*[k if a == axis else next(rest) for a in range(rank)])), axis=k)

    kept = [a for a in range(rank) if a != axis]
    where, best = te.compute(tuple([t.shape[a] for a in kept]), body, name=b.fresh())
    values = tuple([x.shape[a] for a in kept])
    b.made += [Made(where, values, 16.0), Made(best, values, x.bound, x.grain)]
    return True


def _pair(b: Builder, rng: random.Random, x: Made) -> bool:
    """Two outputs of one compute."""
    d, t = x.dtype, x.tensor
    if d == "bool" or inexact(d, 2 * x.bound, x.grain):
        return False
    zero = const(0, d)
    p, q = te.compute(t.shape, lambda *i: (t(*i) + t(*i), tir.max(t(*i), zero)), name=b.fresh())
    b.made += [Made(p, x.shape, 2 * x.bound, x.grain), Made(q, x.shape, x.bound, x.grain)]
    return True


def _stencil(b: Builder, rng: random.Random, x: Made) -> bool:
    a, reach = rng.randrange(len(x.shape)), rng.choice([1, 2])
    d, t = x.dtype, x.tensor
    if x.shape[a] <= reach or inexact(d, 2 * x.bound, x.grain) and d != "bool":
        return False

    def body(*i: Any) -> Any:
        near, far = t(*i), t(*i[:a], i[a] + reach, *i[a + 1 :])
        return tir.any(near, far) if d == "bool" else near + far

    b.compute(
        (*t.shape[:a], t.shape[a] - reach, *t.shape[a + 1 :]),
        (*x.shape[:a], x.shape[a] - reach, *x.shape[a + 1 :]),
        body,
        2 * x.bound,
        x.grain,
    )
    return True


def _pad(b: Builder, rng: random.Random, x: Made) -> bool:
    a, before, after = rng.randrange(len(x.shape)), rng.choice([0, 1, 2]), rng.choice([1, 2])
    t, n = x.tensor, x.tensor.shape[a]
    zero = const(0, x.dtype)
    mirrored = rng.random() < 0.2 and x.shape[a] > 2

    def body(*i: Any) -> Any:
        j = i[a] - before
        if mirrored:
            j = tir.Select(j < 0, -j, tir.Select(j >= n, 2 * n - 2 - j, j))
            return t(*i[:a], j, *i[a + 1 :])
        return tir.if_then_else(tir.all(i[a] >= before, i[a] < n + before), t(*i[:a], j, *i[a + 1 :]), zero)

    more = before + after
    if x.shape[a] + more > 20:
        return False
    b.compute(
        (*t.shape[:a], n + more, *t.shape[a + 1 :]),
        (*x.shape[:a], x.shape[a] + more, *x.shape[a + 1 :]),
        body,
        x.bound,
        x.grain,
    )
    return True


def _conv(b: Builder, rng: random.Random, x: Made) -> bool:
    """One or two dimensions; padding inside the sum, stride, dilation."""
    rank = len(x.shape)
    axes = sorted(rng.sample(range(rank), rng.choice([1, 2]) if rank > 1 else 1))
    taps = [rng.choice([1, 2, 3]) for _ in axes]
    count = int(np.prod(taps))
    m = x
    if x.dtype == "bool":
        return False
    if inexact(m.dtype, m.bound * 2 * count, m.grain):
        m = b.clamped(m)
        if inexact(m.dtype, m.bound * 2 * count, m.grain):
            return False
    t, d = m.tensor, m.dtype
    steps, spread = [rng.choice([1, 1, 2]) for _ in axes], [rng.choice([1, 1, 2]) for _ in axes]
    padded = rng.random() < 0.5
    shape, values = list(t.shape), list(m.shape)
    for a, r, stride, dilation in zip(axes, taps, steps, spread, strict=True):
        reach = (r - 1) * dilation + 1
        if not padded and m.shape[a] < reach:
            return False
        extent = t.shape[a] if padded else t.shape[a] - reach + 1
        value = m.shape[a] if padded else m.shape[a] - reach + 1
        shape[a], values[a] = (extent + stride - 1) // stride, (value + stride - 1) // stride
    w = b.placeholder(tuple(taps), tuple(taps), d).tensor
    rs = [te.reduce_axis((0, r), name=f"r{k}") for k, r in enumerate(taps)]
    zero = const(0, d)

    def body(*i: Any) -> Any:
        index, inside = list(i), []
        for a, r, stride, dilation, n in zip(axes, rs, steps, spread, taps, strict=True):
            at = i[a] * stride + r * dilation - (n // 2 if padded else 0)
            index[a] = at
            inside += [at >= 0, at < t.shape[a]]
        value = t(*index)
        return te.sum((tir.if_then_else(tir.all(*inside), value, zero) if padded else value) * w(*rs), axis=rs)

    b.compute(tuple(shape), tuple(values), body, m.bound * 2 * count, m.grain)
    return True


def _select(b: Builder, rng: random.Random, x: Made) -> bool:
    d, t = x.dtype, x.tensor
    a = rng.randrange(len(x.shape))
    mod, eager = rng.choice([2, 3]), rng.random() < 0.5
    if d != "bool" and inexact(d, 2 * x.bound, x.grain):
        return False

    def body(*i: Any) -> Any:
        condition = rng_condition(i, a, mod)
        one = t(*i)
        other = tir.Not(one) if d == "bool" else one + one
        return (tir.Select if eager else tir.if_then_else)(condition, one, other)

    rng_condition = rng.choice(
        [
            lambda i, a, mod: tir.all(i[a] % mod == 1, i[0] > 0),
            lambda i, a, mod: tir.any(i[a] // mod == 0, i[-1] >= 2),
            lambda i, a, mod: tir.Not(i[a] < mod),
            lambda i, a, mod: i[0] + i[-1] < mod,
        ]
    )
    b.compute(t.shape, x.shape, body, 2 * x.bound, x.grain)
    return True


def _cast(b: Builder, rng: random.Random, x: Made) -> bool:
    to = rng.choice([d for d in dict.fromkeys(DTYPES) if d != x.dtype])
    m = x
    if b.special and to in INTS:
        return False  # an infinity becomes the largest number, and what follows overflows
    if to == "bool":
        t = m.tensor
        b.compute(t.shape, m.shape, lambda *i: t(*i) > const(0, m.dtype), 1)
        return True
    if inexact(to, m.bound, m.grain) or to in WRAPPING or to in INTS:
        m = b.clamped(x)
    if to.startswith("uint") and not x.dtype.startswith("uint") and x.dtype != "bool":
        inner = m.tensor
        zero = const(0, m.dtype)
        m = b.compute(inner.shape, m.shape, lambda *i: tir.max(inner(*i), zero), m.bound)
    if m.grain and to in INTS:
        return False
    t = m.tensor
    b.compute(t.shape, m.shape, lambda *i: t(*i).astype(to), m.bound, m.grain)
    return True


def _clip(b: Builder, rng: random.Random, x: Made) -> bool:
    if x.dtype == "bool":
        return False
    t, d = x.tensor, x.dtype
    low, high = (0, rng.choice([2, 6]))
    one = rng.random() < 0.5
    b.compute(
        t.shape,
        x.shape,
        lambda *i: tir.max(t(*i), const(low, d)) if one else tir.min(tir.max(t(*i), const(low, d)), const(high, d)),
        max(x.bound, 6.0) if one else 6.0,
        x.grain,
    )
    return True


def _move(b: Builder, rng: random.Random, x: Made) -> bool:
    """Elements in other places: reversed, transposed, repeated, packed, flattened, sliced, joined."""
    t, rank = x.tensor, len(x.shape)
    shape, values = list(t.shape), list(x.shape)
    a = rng.randrange(rank)
    kind = rng.choice(
        ["reverse", "transpose", "repeat", "tile", "pack", "flatten", "slice", "join", "spread", "fix", "rotate"]
    )
    if kind == "reverse":
        body: Any = lambda *i: t(*i[:a], t.shape[a] - 1 - i[a], *i[a + 1 :])  # noqa: E731
    elif kind == "transpose":
        order = rng.sample(range(rank), rank)
        shape, values = [t.shape[k] for k in order], [x.shape[k] for k in order]
        body = lambda *i: t(*[i[order.index(k)] for k in range(rank)])  # noqa: E731
    elif kind in ("repeat", "tile", "join"):
        if values[a] > 8:
            return False
        shape[a], values[a] = shape[a] * 2, values[a] * 2
        n = t.shape[a]
        if kind == "repeat":
            body = lambda *i: t(*i[:a], i[a] // 2, *i[a + 1 :])  # noqa: E731
        elif kind == "tile":
            body = lambda *i: t(*i[:a], i[a] % n, *i[a + 1 :])  # noqa: E731
        else:
            body = lambda *i: tir.if_then_else(i[a] < n, t(*i), t(*i[:a], i[a] - n, *i[a + 1 :]))  # noqa: E731
    elif kind == "pack":
        if rank > 3 or values[a] % 2 or not isinstance(t.shape[a], tir.IntImm):
            return False
        shape[a : a + 1], values[a : a + 1] = [int(t.shape[a]) // 2, 2], [values[a] // 2, 2]
        body = lambda *i: t(*i[:a], i[a] * 2 + i[a + 1], *i[a + 2 :])  # noqa: E731
    elif kind == "flatten":
        if rank < 2 or a == rank - 1 or values[a] * values[a + 1] > 48:
            return False
        n = t.shape[a + 1]
        shape[a : a + 2], values[a : a + 2] = [t.shape[a] * n], [x.shape[a] * x.shape[a + 1]]
        body = lambda *i: t(*i[:a], i[a] // n, i[a] % n, *i[a + 1 :])  # noqa: E731
    elif kind == "slice":
        begin, step = rng.choice([0, 1]), rng.choice([1, 2])
        if values[a] - begin < 1:
            return False
        shape[a], values[a] = (shape[a] - begin + step - 1) // step, (values[a] - begin + step - 1) // step
        body = lambda *i: t(*i[:a], i[a] * step + begin, *i[a + 1 :])  # noqa: E731
    elif kind == "spread":
        if rank > 3:
            return False
        n = b.size(rng, [1, 2, 3])
        shape.insert(a, n)
        values.insert(a, n)
        body = lambda *i: t(*i[:a], *i[a + 1 :])  # noqa: E731
    elif kind == "fix":
        if rank < 2:
            return False
        at = rng.choice([0, t.shape[a] - 1])
        del shape[a], values[a]
        body = lambda *i: t(*i[:a], at, *i[a:])  # noqa: E731
    else:
        by, n = rng.choice([1, 3]), t.shape[a]
        body = lambda *i: t(*i[:a], (i[a] + by) % n, *i[a + 1 :])  # noqa: E731
    if not all(values):
        return False
    b.compute(tuple(shape), tuple(values), body, x.bound, x.grain)
    return True


def _gather(b: Builder, rng: random.Random, x: Made) -> bool:
    """Rows picked by an input of indices."""
    t, a = x.tensor, rng.randrange(len(x.shape))
    n = b.size(rng, [2, 3, 5])
    index = b.placeholder((n,), (n,), rng.choice(["int32", "int32", "int64"]), 0, x.shape[a] - 1).tensor
    guarded = rng.random() < 0.3
    zero = const(0, x.dtype)

    def body(*i: Any) -> Any:
        value = t(*i[:a], index(i[a]), *i[a + 1 :])
        return tir.if_then_else(i[a] % 2 == 0, value, zero) if guarded else value

    b.compute((*t.shape[:a], n, *t.shape[a + 1 :]), (*x.shape[:a], n, *x.shape[a + 1 :]), body, x.bound, x.grain)
    return True


def _divide(b: Builder, rng: random.Random, x: Made) -> bool:
    """Quotients and remainders, rounded either way, by constants and by an input, negative ones too."""
    d, t = x.dtype, x.tensor
    if d not in INTS:
        return False
    op = rng.choice([tir.floordiv, tir.floormod, tir.truncdiv, tir.truncmod])
    divisor = rng.choice([2, 3, 4, 7] if d.startswith("uint") else [2, 3, 4, 7, -2, -3])
    if rng.random() < 0.6:
        b.compute(t.shape, x.shape, lambda *i: op(t(*i), const(divisor, d)), max(x.bound, 7.0))
    else:
        u = b.placeholder((t.shape[-1],), (x.shape[-1],), d, 1, 5).tensor
        b.compute(t.shape, x.shape, lambda *i: op(t(*i), u(i[-1])), max(x.bound, 7.0))
    return True


def _bits(b: Builder, rng: random.Random, x: Made) -> bool:
    d, t = x.dtype, x.tensor
    if d not in INTS:
        return False
    kind = rng.choice(["and", "or", "xor", "not", "left", "right"])
    if kind == "not":
        if inexact(d, x.bound + 1, 0) or d in ("uint32", "uint64"):
            return False
        b.compute(t.shape, x.shape, lambda *i: tir.bitwise_not(t(*i)), x.bound + 1)
        return True
    if kind in ("left", "right"):
        by = rng.choice([0, 1, 2])
        if kind == "left" and inexact(d, x.bound * 4, 0):
            return False
        f = tir.shift_left if kind == "left" else tir.shift_right
        b.compute(t.shape, x.shape, lambda *i: f(t(*i), const(by, d)), x.bound * 4)
        return True
    f = {"and": tir.bitwise_and, "or": tir.bitwise_or, "xor": tir.bitwise_xor}[kind]
    mask = rng.choice([1, 3, 6, 127])
    b.compute(t.shape, x.shape, lambda *i: f(t(*i), const(mask, d)), 2 * x.bound + 128)
    return not inexact(d, 2 * x.bound + 128, 0)


def _compare(b: Builder, rng: random.Random, x: Made) -> bool:
    """A comparison as a number."""
    d, t = x.dtype, x.tensor
    if d == "bool":
        return False
    op = rng.choice([tir.LT, tir.LE, tir.GT, tir.GE, tir.EQ, tir.NE])
    to = rng.choice([d, "int32", "bool"])
    b.compute(
        t.shape,
        x.shape,
        lambda *i: op(t(*i), const(1, d)) if to == "bool" else op(t(*i), const(1, d)).astype(to),
        1,
    )
    return True


def _index(b: Builder, rng: random.Random, x: Made) -> bool:
    """Values made of indices."""
    d, t = x.dtype, x.tensor
    if d == "bool" or inexact(d, x.bound + 64, x.grain) or d in ("bfloat16",):
        return False
    how = rng.choice(
        [lambda i: i[0] * 2 + i[-1], lambda i: tir.max(i[0], i[-1]), lambda i: tir.min(i[0] - i[-1], 2) + 20]
    )
    b.compute(t.shape, x.shape, lambda *i: t(*i) + how(i).astype(d), x.bound + 64, x.grain)
    return True


def _triangle(b: Builder, rng: random.Random, x: Made) -> bool:
    """A sum up to the element's own index: a prefix sum."""
    a = rng.randrange(len(x.shape))
    d, m = x.dtype, x
    if d == "bool":
        return False
    if inexact(d, m.bound * m.shape[a], m.grain):
        m = b.clamped(m)
        if inexact(d, m.bound * m.shape[a], m.grain):
            return False
    t = m.tensor
    k = te.reduce_axis((0, t.shape[a]), name="k")
    zero = const(0, d)
    as_where = rng.random() < 0.5

    def body(*i: Any) -> Any:
        value = t(*i[:a], k, *i[a + 1 :])
        if as_where:
            return te.sum(value, axis=k, where=k.var <= i[a])
        return te.sum(tir.Select(k.var <= i[a], value, zero), axis=k)

    b.compute(t.shape, m.shape, body, m.bound * m.shape[a], m.grain)
    return True


def _let(b: Builder, rng: random.Random, x: Made) -> bool:
    d, t = x.dtype, x.tensor
    if d == "bool" or inexact(d, 3 * x.bound, x.grain):
        return False

    def body(*i: Any) -> Any:
        v = tir.Var("v", d)
        return tir.Let(v, t(*i) + t(*i), v + t(*i))

    b.compute(t.shape, x.shape, body, 3 * x.bound, x.grain)
    return True


def _extern(b: Builder, rng: random.Random, x: Made) -> bool:
    """Running sums along the last dimension, by loops of its own."""
    t, d, rank = x.tensor, x.dtype, len(x.shape)
    if d == "bool" or b.sizes or inexact(d, x.bound * x.shape[-1], x.grain):
        return False

    def body(ins: Any, outs: Any) -> Any:
        ib = tir.ir_builder.create()
        source, target = ib.buffer_ptr(ins[0]), ib.buffer_ptr(outs[0])
        with contextlib.ExitStack() as loops:
            at = [loops.enter_context(ib.for_range(0, n, f"e{k}")) for k, n in enumerate(x.shape)]
            with ib.if_scope(at[-1] == 0):
                target[tuple(at)] = source[tuple(at)]
            with ib.else_scope():
                target[tuple(at)] = target[(*at[:-1], at[-1] - 1)] + source[tuple(at)]
        return ib.get()

    out = te.extern([t.shape], [t], body, dtype=[d], name=b.fresh())
    b.externs[out.op] = lambda a: np.add.accumulate(a, axis=rank - 1, dtype=a.dtype)
    b.made.append(Made(out, x.shape, x.bound * x.shape[-1], x.grain))
    return True


def _scan(b: Builder, rng: random.Random, x: Made) -> bool:
    """A recurrence along the first dimension; blocks have no form for it, stages do."""
    t, d = x.tensor, x.dtype
    if b.recipe.kind != "te schedule" or d == "bool" or b.sizes or len(x.shape) < 2:
        return False
    if inexact(d, x.bound * x.shape[0], x.grain):
        return False
    rest = tuple(t.shape[1:])
    state = te.placeholder(t.shape, dtype=d, name=b.fresh())
    init = te.compute((1, *rest), lambda _, *i: t(0, *i), name=b.fresh())
    update = te.compute(t.shape, lambda k, *i: state(k - 1, *i) + t(k, *i), name=b.fresh())
    out = te.scan(init, update, state, inputs=[t], name=b.fresh())
    b.made.append(Made(out, x.shape, x.bound * x.shape[0], x.grain))
    return True


STAGES: dict[str, Callable[[Builder, random.Random, Made], bool]] = {
    "scale": _scale, "add": _add, "matmul": _matmul, "reduce": _reduce, "argmax": _argmax, "pair": _pair,
    "stencil": _stencil, "pad": _pad, "conv": _conv, "select": _select, "cast": _cast, "clip": _clip, "move": _move,
    "gather": _gather, "divide": _divide, "bits": _bits, "compare": _compare, "index": _index,
    "triangle": _triangle, "let": _let, "extern": _extern, "scan": _scan,
}  # fmt: skip
NAMES = [*STAGES, "add", "matmul", "matmul", "reduce", "reduce", "conv", "move", "move", "scale", "divide"]


def kinds() -> Iterator[str]:
    """The names of the stages."""
    yield from STAGES
