"""The expression language for computes: `tir`, and `compute`, which returns one tensor."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from tilewright import te
from tilewright import tir as tir


def compute(
    shape: Sequence[Any],
    f: Callable[..., Any],
    name: str = "compute",
    tag: str = "",
    attrs: Mapping[str, Any] | None = None,
) -> te.Tensor:
    """One tensor of `shape` whose element at (i, ...) is f(i, ...)."""
    result: te.Tensor = te.compute(tuple(shape), f, name=name, tag=tag, attrs=dict(attrs or {}))
    return result
