"""Values of index expressions at all points of a loop nest at once."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from tilewright.ir import PrimExpr
from tilewright.support.errors import TVMError
from tilewright.tir import Add, Call, Cast, IntImm, Mul, Not, Select, Sub, Var
from tilewright.tir.scalars import ARITHMETIC, COMPARISONS

Array = np.ndarray[Any, Any]
Values = Mapping[Var, Any]
"""Numbers of variables: integers of outer loops, arrays over the nest for inner ones."""

_BINARY: dict[str, Callable[[Any, Any], Any]] = {
    **{kind.__name__: operation.integers for kind, operation in {**ARITHMETIC, **COMPARISONS}.items()},
    "FloorDiv": lambda a, b: a // b,
    "FloorMod": lambda a, b: a % b,
    "Div": lambda a, b: np.trunc(a / b).astype(np.int64),
    "Mod": lambda a, b: np.fmod(a, b),
    "Min": np.minimum,
    "Max": np.maximum,
    "And": np.logical_and,
    "Or": np.logical_or,
}
_CALLS: dict[str, Callable[..., Any]] = {
    "likely": lambda a: a,
    "if_then_else": lambda c, a, b: np.where(c, a, b),
    "shift_left": lambda a, b: a << b,
    "shift_right": lambda a, b: a >> b,
    "bitwise_and": lambda a, b: a & b,
}


def evaluate(e: PrimExpr, values: Values) -> Any:
    """The value of an integer expression: a number, or an array over the nest. TVMError for what no index is made of."""
    if isinstance(e, IntImm):
        return e.value
    if isinstance(e, Var):
        if e not in values:
            raise TVMError(
                f"a program of the accelerator has static shapes and constant numbers, but `{e.name}` is known only at run time"
            )
        return values[e]
    if isinstance(e, Cast):
        return evaluate(e.value, values)
    if isinstance(e, Not):
        return np.logical_not(evaluate(e.a, values))
    if isinstance(e, Select):
        return np.where(*[evaluate(x, values) for x in (e.condition, e.true_value, e.false_value)])
    found = _CALLS.get(e.intrinsic) if isinstance(e, Call) else None
    if found is not None:
        return found(*[evaluate(x, values) for x in e.args])  # type: ignore[attr-defined]
    binary = _BINARY.get(type(e).__name__)
    if binary is None:
        raise TVMError(f"the accelerator cannot compute the index {e}")
    return binary(evaluate(e.a, values), evaluate(e.b, values))  # type: ignore[attr-defined]


def grid(extents: Sequence[tuple[Var, int, int]]) -> tuple[dict[Var, Any], int]:
    """Variables of a nest of loops (variable, first value, extent), outermost first, at its points in their order; the number of points."""
    total = int(np.prod([n for _, _, n in extents], dtype=np.int64))
    found, inner = {}, total
    points = np.arange(total)
    for var, first, extent in extents:
        inner //= max(extent, 1)
        found[var] = first + points // max(inner, 1) % max(extent, 1)
    return found, total


def coefficient(e: PrimExpr, var: Var) -> int | None:
    """What an index adds for each step of a variable; None where that is not the same for all."""
    if isinstance(e, IntImm):
        return 0
    if isinstance(e, Var):
        return int(e is var)
    if isinstance(e, Cast):
        return coefficient(e.value, var)
    if isinstance(e, (Add, Sub, Mul)):
        a, b = coefficient(e.a, var), coefficient(e.b, var)
        if a is None or b is None:
            return None
        if not isinstance(e, Mul):
            return a + b if isinstance(e, Add) else a - b
        if isinstance(e.b, IntImm):
            return a * int(e.b.value)
        return 0 if a == b == 0 else None
    parts = [getattr(e, n) for n in ("a", "b", "condition", "true_value", "false_value") if hasattr(e, n)]
    parts += list(e.args) if isinstance(e, Call) else []
    return 0 if parts and all([isinstance(p, PrimExpr) and coefficient(p, var) == 0 for p in parts]) else None


def spread(value: Any, count: int) -> Array:
    """A value at each point."""
    return np.broadcast_to(np.asarray(value), (count,))


__all__ = ["Array", "Values", "coefficient", "evaluate", "grid", "spread"]
