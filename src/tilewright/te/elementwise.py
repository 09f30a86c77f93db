"""Python's operators on tensors. With topi imported they broadcast; otherwise shapes must be equal or one side a
scalar.
"""

from __future__ import annotations

import operator
import sys
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from tilewright.node import structural_equal
from tilewright.support import lazy
from tilewright.te.compute import compute
from tilewright.te.tensor import Tensor, install_elementwise
from tilewright.tir.arithmetic import const
from tilewright.tir.op import power

if TYPE_CHECKING:
    from tilewright.ir import PrimExpr
    from tilewright.tir.expr import Var


_SCALAR: dict[str, Callable[..., Any]] = {
    "add": operator.add,
    "subtract": operator.sub,
    "multiply": operator.mul,
    "divide": operator.truediv,
    "floor_divide": operator.floordiv,
    "mod": operator.mod,
    "power": power,
}


# `broadcasting` has the operators of topi by name. The package's top module declares it, since topi is a higher layer.
__getattr__, __dir__ = lazy.late(__name__)


def elementwise(name: str, lhs: Any, rhs: Any) -> Tensor:
    """`lhs <name> rhs` for each element. Raises ValueError if two tensors differ in shape and topi has no such
    operator.
    """
    if name == "negative":
        result: Tensor = compute(lhs.shape, lambda *i: -lhs(*i), f"T_{name}", "elemwise")
        return result
    if isinstance(lhs, Tensor) and isinstance(rhs, Tensor):
        operators: Mapping[str, Callable[[Tensor, Tensor], Tensor]] = sys.modules[__name__].broadcasting
        if name in operators:
            return operators[name](lhs, rhs)
        if not structural_equal(lhs.shape, rhs.shape):
            raise ValueError(
                f"{name} of tensors of shapes {list(lhs.shape)} and {list(rhs.shape)}: shapes must be equal; topi.{name} broadcasts"
            )
    like = lhs if isinstance(lhs, Tensor) else rhs
    fn = _SCALAR[name]

    def element(value: PrimExpr | Tensor | float, indices: tuple[Var, ...]) -> Any:
        if isinstance(value, Tensor):
            return value(*indices)
        return const(value, like.dtype) if isinstance(value, (int, float)) else value

    made: Tensor = compute(like.shape, lambda *i: fn(element(lhs, i), element(rhs, i)), f"T_{name}", "elemwise")
    return made


install_elementwise(elementwise)
