"""What a program of the fuzzer is made from (its recipe), and the program with its arguments and its reference."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from tilewright import tir
from tilewright.node.field_values import numpy_dtype
from tilewright.tir import PrimFunc

Array = np.ndarray[Any, Any]

LARGEST = 16
"""The largest dimension of a tensor that is drawn."""


SHARES = ["te"] * 7 + ["script"] * 5 + ["te schedule"] * 4 + ["gpu"] * 2 + ["flat"] * 2
"""How often programs of each kind are made."""


class Recipe(NamedTuple):
    """A seed, and which of its stages and schedule steps are used; each is drawn from its own number, so that a part can be left out."""

    seed: int
    stages: tuple[int, ...]
    steps: tuple[int, ...]
    largest: int = LARGEST

    @staticmethod
    def of(seed: int) -> Recipe:
        rng = random.Random(f"{seed}/recipe")
        return Recipe(seed, tuple(range(rng.choice([1, 2, 2, 3, 3, 4]))), tuple(range(rng.choice([0, 3, 6, 10, 14]))))

    def rng(self, part: str) -> random.Random:
        """The random numbers of one part; the same whatever else is left out."""
        return random.Random(f"{self.seed}/{part}")

    @property
    def kind(self) -> str:
        """Which generator makes the program."""
        return self.rng("kind").choice(SHARES)

    @property
    def special(self) -> bool:
        """Whether inputs hold infinities and what is not a number."""
        return self.kind in ("te", "te schedule") and self.rng("special").random() < 0.08

    def options(self) -> str:
        """The command line's options for it."""
        default = Recipe.of(self.seed)
        parts = [f"--seed {self.seed} --count 1"]
        for name in ("stages", "steps"):
            if getattr(self, name) != getattr(default, name):
                parts.append(f"--{name} {','.join(map(str, getattr(self, name))) or 'none'}")
        return " ".join(parts + ([f"--largest {self.largest}"] if self.largest != LARGEST else []))


class Case:
    """A function with what it takes: how each buffer is filled, values of scalars; and what it must compute."""

    def __init__(
        self,
        kind: str,
        func: PrimFunc,
        fill: Mapping[str, Callable[[np.random.Generator, tuple[int, ...]], Array]],
        sizes: Mapping[tir.Var, int],
        reference: Callable[[list[Any]], None] | None = None,
        tolerance: float = 0.0,
        done: Sequence[str] = (),
    ) -> None:
        """`fill` makes inputs by the names of buffers, the others are outputs; `reference` fills the outputs of arguments.

        `done` tells which primitives it was scheduled with already.
        """
        self.done = list(done)
        self.kind, self.func, self.fill, self.sizes = kind, func, fill, sizes
        self.reference, self.tolerance = reference, tolerance

    def arguments(self, seed: int) -> list[Any]:
        """Arrays and scalars for the parameters: outputs hold 77 (or true), which no program leaves there."""
        rng = np.random.default_rng(seed)
        out: list[Any] = []
        for p in self.func.params:
            buffer = self.func.buffer_map.get(p)
            if buffer is None:
                out.append(self.sizes[p])
                continue
            shape = tuple([self.size(n) for n in buffer.shape])
            make = self.fill.get(buffer.name)
            kind = numpy_dtype(buffer.dtype)
            out.append(make(rng, shape).astype(kind) if make else np.full(shape, 77).astype(kind))
        return out

    def size(self, dim: Any) -> int:
        """A dimension as a number."""
        if isinstance(dim, tir.IntImm):
            return int(dim.value)
        if isinstance(dim, tir.Var):
            return self.sizes[dim]
        from tilewright.arith import Analyzer

        values = {v: tir.IntImm(v.dtype, n) for v, n in self.sizes.items()}
        return int(Analyzer().simplify(tir.stmt_functor.substitute(dim, values)))


def same(expected: Any, got: Any, tolerance: float = 0.0) -> bool:
    """Whether two arguments hold the same values: NaN equals NaN, and 0.0 equals -0.0."""
    if not isinstance(expected, np.ndarray):
        return True
    if expected.tobytes() == got.tobytes():
        return True
    left, right = expected, got
    if left.dtype.kind not in "iub":
        left, right = left.astype(np.float64), right.astype(np.float64)
        close = np.abs(left - right) <= tolerance * np.maximum(np.abs(left), 1.0) if tolerance else left == right
        return bool(np.all((left == right) | close | (np.isnan(left) & np.isnan(right))))
    return bool(np.all(left == right))


def difference(expected: list[Any], got: list[Any], tolerance: float = 0.0) -> str | None:
    """Where arguments differ, in words."""
    for index, (a, b) in enumerate(zip(expected, got, strict=True)):
        if not same(a, b, tolerance):
            wrong = np.argwhere(
                [not same(x[None], y[None], tolerance) for x, y in zip(a.ravel(), b.ravel(), strict=True)]
            )
            at = np.unravel_index(int(wrong[0, 0]), a.shape)
            return (
                f"parameter {index} differs in {len(wrong)} of {a.size} elements,"
                f" at {[int(k) for k in at]}: {a[at]} wanted, {b[at]} found"
            )
    return None
