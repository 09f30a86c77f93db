"""Tensor operators without topi: same shapes, or a tensor with a scalar; topi installs broadcasting ones."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

from tilewright.node import structural_equal
from tilewright.te.compute import compute
from tilewright.te.tensor import Tensor, install_elementwise
from tilewright.tir.arithmetic import const
from tilewright.tir.op import power

_SCALAR: dict[str, Callable[..., Any]] = {
    "add": operator.add,
    "subtract": operator.sub,
    "multiply": operator.mul,
    "divide": operator.truediv,
    "floor_divide": operator.floordiv,
    "mod": operator.mod,
    "power": power,
}


def elementwise(name: str, lhs: Any, rhs: Any) -> Tensor:
    """`lhs <name> rhs` per element. Raises ValueError when two tensors differ in shape."""
    if name == "negative":
        result: Tensor = compute(lhs.shape, lambda *i: -lhs(*i), f"T_{name}", "elemwise")
        return result
    if isinstance(lhs, Tensor) and isinstance(rhs, Tensor) and not structural_equal(lhs.shape, rhs.shape):
        raise ValueError(
            f"{name} of tensors of shapes {list(lhs.shape)} and {list(rhs.shape)}: without topi shapes must be equal;"
            f" import tilewright.topi for broadcasting"
        )
    like = lhs if isinstance(lhs, Tensor) else rhs
    fn = _SCALAR[name]

    def element(value: Any, indices: tuple[Any, ...]) -> Any:
        if isinstance(value, Tensor):
            return value(*indices)
        return const(value, like.dtype) if isinstance(value, (int, float)) else value

    made: Tensor = compute(like.shape, lambda *i: fn(element(lhs, i), element(rhs, i)), f"T_{name}", "elemwise")
    return made


install_elementwise(elementwise)
