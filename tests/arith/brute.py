"""Expressions evaluated with NumPy at all points of a small domain: the oracle of the arith fuzzer.

Signed integers of 32 bits and more are index arithmetic, which must not overflow: a point where it does says nothing.
Narrower and unsigned integers wrap around. A point where a division by zero is met says nothing either.
"""

from __future__ import annotations

import itertools
import random
from collections.abc import Mapping
from typing import Any

import numpy as np

from tilewright import tir
from tilewright.ir import DataType, FloatImm, IntImm

Array = Any
LIMIT = 1 << 61


def numpy_type(dtype: DataType) -> Any:
    if dtype.is_bool:
        return np.bool_
    return np.dtype(str(dtype.element)) if dtype.is_float else np.dtype(np.int64)


def settle(value: Array, dtype: DataType) -> tuple[Array, Array | bool]:
    """(value as its type holds it, where it overflowed)."""
    if not (dtype.is_int or dtype.is_uint) or dtype.is_bool:
        return value, False
    bits = dtype.bits
    if dtype.is_int and bits >= 32:
        bound = 1 << (bits - 1) if bits < 64 else LIMIT
        return value, (value >= bound) | (value < -bound)
    mask = (1 << bits) - 1
    if dtype.is_uint:
        return value & mask, False
    half = 1 << (bits - 1)
    return ((value + half) & mask) - half, False


def truncated(a: Array, b: Array) -> Array:
    return np.sign(a) * np.sign(b) * (abs(a) // abs(b))


_PLAIN: dict[type, Any] = {
    tir.Add: np.add,
    tir.Sub: np.subtract,
    tir.Min: np.minimum,
    tir.Max: np.maximum,
    tir.EQ: np.equal,
    tir.NE: np.not_equal,
    tir.LT: np.less,
    tir.LE: np.less_equal,
    tir.GT: np.greater,
    tir.GE: np.greater_equal,
    tir.And: np.logical_and,
    tir.Or: np.logical_or,
}
_DIVISIONS: dict[type, Any] = {
    tir.FloorDiv: np.floor_divide,
    tir.FloorMod: lambda a, b: a - b * (a // b),
    tir.Div: truncated,
    tir.Mod: lambda a, b: a - b * truncated(a, b),
}


class Points:
    """Values of variables at many points: arrays of one axis; values of vectors have their lanes on a second one."""

    def __init__(self, values: Mapping[tir.Var, Array], count: int) -> None:
        self.values, self.count = dict(values), count

    @staticmethod
    def of(domain: Mapping[tir.Var, range], rng: random.Random, most: int = 300) -> Points:
        """All points of the domain, or corners and random ones where there are more than `most`."""
        size = 1
        for r in domain.values():
            size *= len(r)
        if size <= most:
            rows = list(itertools.product(*domain.values()))
        else:
            ends = itertools.product(*[sorted({r[0], r[-1]}) for r in domain.values()])
            rows = [*itertools.islice(ends, most // 4)]
            rows += [tuple(r[rng.randrange(len(r))] for r in domain.values()) for _ in range(most - len(rows))]
        table = np.array(rows, dtype=np.int64).reshape(len(rows), len(domain))
        return Points({v: table[:, i] for i, v in enumerate(domain)}, len(rows))

    def where(self, keep: Array) -> Points:
        return Points({v: a[keep] for v, a in self.values.items()}, int(np.count_nonzero(keep)))

    def row(self, i: int) -> str:
        return ", ".join(f"{v.name}={a[i]}" for v, a in self.values.items())

    def evaluate(self, e: Any) -> tuple[Array, Array]:
        """(values, where they say nothing)."""
        with np.errstate(all="ignore"):
            value, bad = _Evaluation(self).run(e)
        value = np.broadcast_to(value, (self.count, *np.shape(value)[1:]) if np.ndim(value) else (self.count,))
        bad = np.broadcast_to(bad, (self.count,)) if np.ndim(bad) < 2 else bad.any(axis=1)
        return value, bad

    def values_of(self, e: Any) -> Array:
        """The values of an expression that is defined everywhere."""
        value, bad = self.evaluate(e)
        assert not bad.any(), f"{e} is undefined at {self.row(int(np.argmax(bad)))}"
        return value


class _Evaluation:
    def __init__(self, points: Points) -> None:
        self.env: dict[tir.Var, tuple[Array, Array]] = {v: (a, False) for v, a in points.values.items()}
        self.memo: dict[int, tuple[Array, Array]] = {}
        self.count = points.count

    def run(self, e: Any) -> tuple[Array, Array]:
        found = self.memo.get(id(e))
        if found is None:
            found = self.memo[id(e)] = self._run(e)
        return found

    def _run(self, e: Any) -> tuple[Array, Array]:
        kind = type(e)
        if kind in (IntImm, FloatImm):
            return np.full(self.count, e.value, numpy_type(e.dtype)), False
        if isinstance(e, tir.Var):
            return self.env[e]
        if kind in _PLAIN or kind is tir.Mul or kind in _DIVISIONS:
            return self._binary(kind, e)
        if kind is tir.Not:
            a, bad = self.run(e.a)
            return np.logical_not(a), bad
        if kind is tir.Select:
            (c, b0), (x, b1), (y, b2) = (self.run(v) for v in (e.condition, e.true_value, e.false_value))
            if np.ndim(c) < np.ndim(x):
                c = c[:, None]
            return np.where(c, x, y), _any(b0, b1, b2)
        if kind is tir.Cast:
            return self._cast(e)
        if kind is tir.Broadcast:
            a, bad = self.run(e.value)
            return np.repeat(np.broadcast_to(a, self.count)[:, None], int(e.lanes), axis=1), bad
        if kind is tir.Ramp:
            (base, b0), (stride, b1) = self.run(e.base), self.run(e.stride)
            steps = np.arange(int(e.lanes))
            value, b2 = settle(base[:, None] + stride[:, None] * steps, e.dtype)
            return value, _any(b0, b1, b2)
        if kind is tir.Let:
            self.env[e.var] = self.run(e.value)
            return self.run(e.body)
        if kind is tir.Call:
            return self._call(e)
        raise AssertionError(f"no value for {kind}")

    def _binary(self, kind: type, e: Any) -> tuple[Array, Array]:
        (a, b0), (b, b1) = self.run(e.a), self.run(e.b)
        bad = _any(b0, b1)
        if e.dtype.is_float or e.a.dtype.is_float:
            f = {tir.Mul: np.multiply, tir.Div: np.divide}.get(kind) or _PLAIN.get(kind) or _DIVISIONS[kind]
            return f(a, b), bad
        if kind in _DIVISIONS:
            zero = b == 0
            value = _DIVISIONS[kind](a, np.where(zero, 1, b))
            bad = _any(bad, zero)
        elif kind is tir.Mul:
            big = abs(a.astype(np.float64)) * abs(b.astype(np.float64)) >= LIMIT
            value = np.where(big, 0, a * b)
            bad = _any(bad, big)
        else:
            value = _PLAIN[kind](a, b)
        value, over = settle(value, e.dtype)
        return value, _any(bad, over)

    def _cast(self, e: Any) -> tuple[Array, Array]:
        a, bad = self.run(e.value)
        target = e.dtype
        if target.is_bool:
            return a != 0, bad
        if target.is_float:
            return a.astype(numpy_type(target)), bad
        if e.value.dtype.is_float:
            lost = ~(abs(a) < 2.0**30)
            return settle(np.where(lost, 0, a).astype(np.int64), target)[0], _any(bad, lost)
        value, over = settle(a.astype(np.int64), target)
        return value, _any(bad, over)

    def _call(self, e: Any) -> tuple[Array, Array]:
        name = e.op.name
        args = [self.run(a) for a in e.args]
        if name == "tir.if_then_else":
            (c, b0), (x, b1), (y, b2) = args
            return np.where(c, x, y), _any(b0, np.where(c, b1, b2))
        bad = _any(*[b for _, b in args])
        v = [a for a, _ in args]
        if name == "tir.likely":
            return v[0], bad
        if name in ("tir.shift_left", "tir.shift_right"):
            out_of_range = (v[1] < 0) | (v[1] >= e.dtype.bits)
            by = np.where(out_of_range, 0, v[1])
            if name == "tir.shift_right":
                return v[0] >> by, _any(bad, out_of_range)
            big = abs(v[0].astype(np.float64)) * 2.0**by >= LIMIT
            value, over = settle(np.where(big, 0, v[0]) << by, e.dtype)
            return value, _any(bad, out_of_range, big, over)
        if name == "tir.bitwise_not":
            return settle(~v[0], e.dtype)[0], bad
        if name == "tir.abs":
            return settle(abs(v[0]), e.dtype)[0], bad
        f = {"tir.bitwise_and": np.bitwise_and, "tir.bitwise_or": np.bitwise_or, "tir.bitwise_xor": np.bitwise_xor}
        return f[name](v[0], v[1]), bad


def _any(*masks: Array) -> Array:
    out: Array = False
    for m in masks:
        if m is not False:
            if np.ndim(m) == 2:
                m = m.any(axis=1)
            out = m if out is False else out | m
    return out


def agree(a: Array, b: Array) -> Array:
    """Where two arrays of values are the same; NaN is like NaN."""
    same = a == b
    if a.dtype.kind == "f":
        same = same | (np.isnan(a) & np.isnan(b))
    return same if same.ndim == 1 else same.all(axis=1)
