"""The tensors of a random program: their types, sizes and bounds, so that results are exact in any order of sums."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np

from tests.generators.case import Recipe
from tilewright import te, tir

FLOATS = {"float64": 53, "float32": 24, "float16": 11, "bfloat16": 8}
INTS = ["int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"]
DTYPES = ["float32"] * 6 + ["int32"] * 3 + ["int8", "int8", "uint8", "int16", "int64", "int64", "uint32", "bool"]
DTYPES += ["float16", "float16", "bfloat16", "bfloat16", "float64"]
FIRST = [1, 2, 3, 4, 5, 7, 8, 10, 16]
ROUNDING = {"float64": 1e-10, "float32": 1e-5, "float16": 2.0**-8, "bfloat16": 2.0**-5}
"""What functions of a last stage may differ by, relative to the value."""
SMOOTH = [
    te.exp,
    te.tanh,
    te.sigmoid,
    te.sin,
    te.cos,
    te.erf,
    lambda x: te.sqrt(te.abs(x)),
    lambda x: te.log(te.abs(x) + 1),
]
WRAPPING = ("int8", "uint8", "int16", "uint16")


class Made(NamedTuple):
    """A tensor of the program: its values are whole multiples of 2**-grain, none above `bound` in size."""

    tensor: te.Tensor
    shape: tuple[int, ...]
    bound: float
    grain: int = 0

    @property
    def dtype(self) -> str:
        return str(self.tensor.dtype)


def limit(dtype: str) -> float:
    """Up to where integers of a type are exact."""
    if dtype in FLOATS:
        return 2.0 ** FLOATS[dtype]
    if dtype == "bool":
        return 1.0
    return float(np.iinfo(dtype).max)


def inexact(dtype: str, bound: float, grain: int) -> bool:
    """Whether sums of such values could round, or overflow a type for which that means nothing."""
    return dtype not in WRAPPING and bound * 2.0**grain >= limit(dtype)


def const(value: float, dtype: str) -> Any:
    return tir.const(bool(value) if dtype == "bool" else value, dtype)


Stages = Mapping[str, Callable[["Builder", random.Random, Made], bool]]


class Builder:
    """The tensors so far. Each stage takes an earlier tensor and adds new ones."""

    def __init__(self, recipe: Recipe) -> None:
        self.recipe, self.made = recipe, list[Made]()
        self.inputs: list[te.Tensor] = []
        self.fill: dict[str, Callable[..., Any]] = {}
        self.sizes: dict[tir.Var, int] = {}
        self.name = "s"
        self.special = recipe.special
        self.tolerance = 0.0
        self.externs: dict[Any, Callable[..., Any]] = {}

    # --- parts

    def placeholder(
        self, shape: tuple[Any, ...], values: tuple[int, ...], dtype: str, low: int = -2, high: int = 2
    ) -> Made:
        """A new input of small integers."""
        if dtype.startswith("uint"):
            low = max(low, 0)
        if dtype == "bool":
            low, high = 0, 1
        name = f"in{len(self.inputs)}"
        t = te.placeholder(shape, dtype=dtype, name=name)
        self.inputs.append(t)
        special = self.special and dtype in FLOATS

        def fill(rng: np.random.Generator, shape: tuple[int, ...]) -> Any:
            values = rng.integers(low, high + 1, shape).astype(np.float64)
            if special:
                odd = rng.choice([np.nan, np.inf, -np.inf, -0.0], shape)
                values = np.where(rng.random(shape) < 0.2, odd, values)
            return values

        self.fill[name] = fill
        return Made(t, values, float(max(abs(low), abs(high), 1)))

    def compute(
        self, like: tuple[Any, ...], values: tuple[int, ...], f: Callable[..., Any], bound: float, grain: int = 0
    ) -> Made:
        """A new tensor."""
        t = te.compute(like, f, name=self.fresh())
        made = Made(t, values, bound, grain)
        self.made.append(made)
        return made

    def fresh(self) -> str:
        self.count = getattr(self, "count", 0) + 1
        return f"{self.name}_{self.count}" if self.count > 1 else self.name

    def clamped(self, x: Made) -> Made:
        """Its values brought back to small integers, so that what follows is exact again."""
        if x.dtype == "bool" or (x.bound <= 3 and not x.grain):
            return x
        d, t = x.dtype, x.tensor
        if d.startswith("uint"):
            return self.compute(t.shape, x.shape, lambda *i: tir.min(t(*i), const(3, d)), 3.0)

        def body(*i: Any) -> Any:
            value = t(*i)
            if x.grain:
                value = tir.floor(value)
            return tir.max(tir.min(value, const(2, d)), const(-2, d))

        return self.compute(t.shape, x.shape, body, 2.0)

    def size(self, rng: random.Random, values: list[int]) -> int:
        return min(rng.choice(values), self.recipe.largest)

    def start(self) -> None:
        """The first input; some of its dimensions are variables."""
        rng = self.recipe.rng("shape")
        dtype = rng.choice(DTYPES)
        rank = rng.choice([1, 2, 2, 2, 2, 3, 3, 4])
        values = tuple([self.size(rng, FIRST if rank < 3 else [1, 2, 3, 4, 5]) for _ in range(rank)])
        symbolic = rng.random() < 0.2
        self.sizes_given = symbolic and rng.random() < 0.4
        shape: list[Any] = list(values)
        for k in range(rank):
            if symbolic and rng.random() < 0.6:
                v = tir.Var(f"n{k}", rng.choice(["int32", "int32", "int32", "int64"]))
                if any([str(w.dtype) != str(v.dtype) for w in self.sizes]):
                    v = tir.Var(f"n{k}", next(iter(self.sizes)).dtype)
                self.sizes[v], shape[k] = values[k], v
        self.made.append(self.placeholder(tuple(shape), values, dtype))

    def add_stage(self, number: int, names: list[str], stages: Stages) -> None:
        rng = self.recipe.rng(f"stage{number}")
        self.name, self.count = f"s{number}", 0
        x = self.made[-1] if rng.random() < 0.75 else rng.choice(self.made)
        for _ in range(6):
            if stages[rng.choice(names)](self, rng, x):
                return

    def outputs(self) -> list[te.Tensor]:
        """A last stage over the newest tensor, and with it some that no other reads."""
        rng = self.recipe.rng("outputs")
        self.name, self.count = "out", 0
        x = self.made[-1]
        d, t = x.dtype, x.tensor
        smooth = d in FLOATS and not self.special and rng.random() < 0.12
        if d != "bool" and (smooth or inexact(d, x.bound + 1, x.grain)):
            x = self.clamped(x)
            t = x.tensor
        if smooth:
            f = rng.choice(SMOOTH)
            self.tolerance = ROUNDING[d]
            self.compute(t.shape, x.shape, lambda *i: f(t(*i)), 1e9)
            return [self.made[-1].tensor]
        last = self.compute(
            t.shape,
            x.shape,
            (lambda *i: tir.Not(t(*i))) if d == "bool" else (lambda *i: t(*i) + const(1, d)),
            x.bound + 1,
        )
        read = {id(s.op) for m in self.made if isinstance(m.tensor.op, te.ComputeOp) for s in m.tensor.op.input_tensors}
        others = [m.tensor for m in self.made if isinstance(m.tensor.op, te.ComputeOp) and id(m.tensor.op) not in read]
        more = [t for t in others if t is not last.tensor and rng.random() < 0.7]
        return [*more, last.tensor]
