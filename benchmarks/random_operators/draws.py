"""What families of random cases are drawn with: sizes (log-uniform in 1 to 1024, half of them odd ones), nodes, calls of torch."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import Any

import numpy as np

from benchmarks.random_operators.cases import log_uniform

Rng = np.random.Generator
Shape = tuple[int, ...]
MOST_ELEMENTS, LEAST_ELEMENTS = 1 << 22, 1 << 10
"""Of a tensor. Smaller ones would measure calls alone."""


def node(kind: str, inputs: str = "x", output: str = "y", **attributes: Any) -> Any:
    from onnx import helper

    names = [n if n != "_" else "" for n in inputs.split()]
    return helper.make_node(kind, names, output.split(), **attributes)


def ints(*values: int) -> np.ndarray[Any, Any]:
    return np.array(values, np.int64)


def number(value: float) -> np.ndarray[Any, Any]:
    return np.array(value, np.float32)


def joined(shape: Sequence[int]) -> str:
    return "x".join(map(str, shape)) or "scalar"


def pick(rng: Rng, *choices: Any) -> Any:
    return choices[int(rng.integers(len(choices)))]


def extent(rng: Rng, most: int = 1024) -> int:
    """Log-uniform; four in ten are multiples of eight."""
    e = log_uniform(rng, most)
    return min(most, -(-e // 8) * 8) if e > 8 and rng.random() < 0.4 else e


def shape(rng: Rng, low: int, high: int, batch: bool = False) -> Shape:
    """Of `low` to `high` axes; the first is 1 to 4 for a batch."""
    while True:
        rank = int(rng.integers(low, high + 1))
        found = tuple([extent(rng) for _ in range(rank)])
        if batch:
            found = (pick(rng, 1, 1, 1, 2, 3, 4), *found[1:])
        if LEAST_ELEMENTS <= prod(found) <= MOST_ELEMENTS:
            return found


def out_call(
    function: Callable[..., Any], *args: Any, **named: Any
) -> Callable[[dict[str, Any], Any], Callable[[], Any]]:
    """Torch's call of a function on x that writes to a result."""

    def made(given: dict[str, Any], out: Any) -> Callable[[], Any]:
        x = given["x"]
        return lambda: function(x, *args, **named, out=out)

    return made


def plain_call(function: Callable[..., Any], *names: str) -> Callable[[dict[str, Any], Any], Callable[[], Any]]:
    """Torch's call of a function on tensors by their names (x alone if none is told)."""

    def made(given: dict[str, Any], _: Any) -> Callable[[], Any]:
        held = [given[n] for n in names or ("x",)]
        return lambda: function(*held)

    return made
