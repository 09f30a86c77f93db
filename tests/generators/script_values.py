"""Random typed expressions, as TVMScript and as Python over NumPy scalars."""

from __future__ import annotations

import itertools
import random
from typing import Any, NamedTuple

import numpy as np

from tests.generators.tensor_builder import FLOATS, INTS, inexact
from tilewright.node.field_values import numpy_dtype


class Text(NamedTuple):
    """An expression in both languages; its value is no larger than `bound` in size."""

    script: str
    python: str
    bound: float


def limits(dtype: str) -> tuple[float, float]:
    """The least and largest integer that a type holds exactly."""
    if dtype in FLOATS:
        return -(2.0 ** FLOATS[dtype]), 2.0 ** FLOATS[dtype]
    info = np.iinfo(dtype)
    return float(info.min), float(info.max)


def _cast(dtype: str, value: Any) -> Any:
    array = np.asarray(value)
    if dtype in FLOATS and numpy_dtype(dtype).itemsize < 4 and array.dtype.kind in "iu":
        array = array.astype(np.float32)
    return array.astype(numpy_dtype(dtype))[()]


def _truncdiv(a: Any, b: Any) -> Any:
    q = abs(int(a)) // abs(int(b))
    return type(a)(q if (a < 0) == (b < 0) else -q)


HELPERS: dict[str, Any] = {
    "np": np,
    "empty": lambda shape, dtype: np.full(shape, 99, numpy_dtype(dtype)),
    "grid": lambda *extents: itertools.product(*[range(n) for n in extents]),
    "min_": lambda a, b: b if b < a else a,
    "max_": lambda a, b: b if b > a else a,
    "cast": _cast,
    "truncdiv": _truncdiv,
    "truncmod": lambda a, b: type(a)(int(a) - int(_truncdiv(a, b)) * int(b)),
}


class Values:
    """Expressions over some buffers and index variables (each with the dimension that it runs over)."""

    def __init__(self, arrays: list[Any], variables: list[tuple[str, Any]]) -> None:
        self.arrays, self.variables = list(arrays), variables
        self.read: set[str] = set()

    def const(self, value: float, dtype: str) -> Text:
        number = float(value) if dtype in FLOATS else int(value)
        script = str(number) if dtype == "int32" else f"T.{dtype}({number})"
        return Text(script, f'cast("{dtype}", {number})', abs(value))

    def index(self, rng: random.Random, dim: Any) -> str:
        """An index within a dimension; the same text in both languages but for min."""
        choices = ["0"]
        for v, d in self.variables:
            if d.text == dim.text or d.text.isdigit() and dim.text.isdigit() and d.size <= dim.size:
                choices += [v, v, v, f"{dim.text} - 1 - {v}", f"{v} // 2", f"({v} + 1) % {dim.text}"]
            else:
                choices += [f"{v} % {dim.text}", f"MIN({v}, {dim.text} - 1)"]
        return rng.choice(choices)

    def load(self, a: Any, at: list[str]) -> Text:
        self.read.add(a.name)
        text = ", ".join(at)
        return Text(f"{a.name}[{text.replace('MIN', 'T.min')}]", f"{a.name}[{text.replace('MIN', 'min')}]", a.bound)

    def cast(self, x: Text, dtype: str) -> Text:
        return Text(f'T.Cast("{dtype}", {x.script})', f'cast("{dtype}", {x.python})', x.bound)

    def clamp(self, x: Text, dtype: str) -> Text:
        """Small integers."""
        high = self.const(3, dtype)
        inner = Text(f"T.min({x.script}, {high.script})", f"min_({x.python}, {high.python})", 3)
        if dtype.startswith("uint"):
            return inner
        low = self.const(-3, dtype)
        return Text(f"T.max({inner.script}, {low.script})", f"max_({inner.python}, {low.python})", 3)

    def add(self, dtype: str, a: Text, b: Text) -> Text:
        if inexact(dtype, a.bound + b.bound, 0) or a.bound + b.bound > limits(dtype)[1]:
            a, b = self.clamp(a, dtype), self.clamp(b, dtype)
        return Text(f"({a.script} + {b.script})", f"({a.python} + {b.python})", a.bound + b.bound)

    def leaf(self, rng: random.Random, dtype: str) -> Text:
        kind = rng.random()
        if kind < 0.7 and self.arrays:
            a = rng.choice(self.arrays)
            x = self.load(a, [self.index(rng, d) for d in a.shape])
            if a.dtype == dtype:
                return x
            if dtype.startswith("uint") and not a.dtype.startswith("uint"):
                zero = self.const(0, a.dtype)
                x = Text(f"T.max({x.script}, {zero.script})", f"max_({x.python}, {zero.python})", x.bound)
            if x.bound >= min(limits(dtype)[1], limits(a.dtype)[1]):
                x = self.clamp(x, a.dtype)
            return self.cast(x, dtype)
        if kind < 0.85 and self.variables:
            v, d = rng.choice(self.variables)
            if dtype == "int32":
                return Text(v, f"np.int32({v})", max(d.size, 8))
            return self.cast(Text(v, f"np.int32({v})", max(d.size, 8)), dtype)
        return self.const(rng.choice([0, 1, 2, 3]), dtype)

    def condition(self, rng: random.Random) -> Text:
        """A truth."""
        kind = rng.random()
        if kind < 0.5 and self.variables:
            v, _ = rng.choice(self.variables)
            text = rng.choice([f"{v} % 2 == 1", f"{v} < 2", f"{v} // 2 != 1", f"0 < {v}"])
            return Text(text, text, 1)
        dtype = rng.choice(["int32", "float32", "int8"])
        a, b = self.draw(rng, dtype, 1), self.const(1, dtype)
        op = rng.choice(["<", "<=", ">", "==", "!="])
        x = Text(f"{a.script} {op} {b.script}", f"{a.python} {op} {b.python}", 1)
        if kind > 0.8 and self.variables:
            v, _ = rng.choice(self.variables)
            word = rng.choice(["and", "or"])
            return Text(f"({v} < 3 {word} {x.script})", f"({v} < 3 {word} {x.python})", 1)
        return x

    def small(self, rng: random.Random, dtype: str, depth: int) -> Text:
        """A value whose sums stay exact."""
        x = self.draw(rng, dtype, depth)
        return x if x.bound <= 3 else self.clamp(x, dtype)

    def draw(self, rng: random.Random, dtype: str, depth: int) -> Text:
        """A value of a type."""
        if depth == 0:
            return self.leaf(rng, dtype)
        ops = ["+", "+", "*", "max", "min", "select", "if", "leaf"]
        if not dtype.startswith("uint"):
            ops.append("-")
        if dtype in INTS:
            ops += ["//", "%", "truncdiv", "truncmod", "&", "^", ">>", "cast"]
        op = rng.choice(ops)
        if op == "leaf":
            return self.leaf(rng, dtype)
        a = self.draw(rng, dtype, depth - 1)
        if op in ("//", "%", "truncdiv", "truncmod"):
            by = rng.choice([2, 3, 5] if dtype.startswith("uint") else [2, 3, 5, -2, -3])
            b = self.const(by, dtype)
            if op in ("//", "%"):
                return Text(f"({a.script} {op} {b.script})", f"({a.python} {op} {b.python})", max(a.bound, 5))
            return Text(f"T.{op}({a.script}, {b.script})", f"{op}({a.python}, {b.python})", max(a.bound, 5))
        if op in ("&", "^", ">>"):
            b = self.const(rng.choice([1, 2, 3]), dtype)
            name = {"&": "bitwise_and", "^": "bitwise_xor", ">>": "shift_right"}[op]
            script = f"T.{name}({a.script}, {b.script})" if rng.random() < 0.5 else f"({a.script} {op} {b.script})"
            return Text(script, f"({a.python} {op} {b.python})", 2 * a.bound + 4)
        if op == "cast":
            other = rng.choice(["int32", "int16", "int64"])
            if a.bound > 127:
                a = self.clamp(a, dtype)
            return self.cast(self.cast(a, other), dtype) if not dtype.startswith("uint") else a
        b = self.draw(rng, dtype, depth - 1)
        if op in ("max", "min"):
            return Text(f"T.{op}({a.script}, {b.script})", f"{op}_({a.python}, {b.python})", max(a.bound, b.bound))
        if op in ("select", "if"):
            c = self.condition(rng)
            word = "Select" if op == "select" else "if_then_else"
            python = f"({a.python} if {c.python} else {b.python})"
            return Text(f"T.{word}({c.script}, {a.script}, {b.script})", python, max(a.bound, b.bound))
        bound = a.bound * b.bound if op == "*" else a.bound + b.bound
        if bound >= limits(dtype)[1]:
            a, b = self.clamp(a, dtype), self.clamp(b, dtype)
            bound = 9
        return Text(f"({a.script} {op} {b.script})", f"({a.python} {op} {b.python})", bound)
