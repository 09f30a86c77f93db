"""TorchScript's operators on numbers, lists and strings."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from typing import Any


def _add(a: Any, b: Any, alpha: Any = 1) -> Any:
    return a + b if alpha == 1 else a - b if alpha == -1 else a + alpha * b


def _div(a: Any, b: Any, rounding_mode: str | None = None) -> Any:
    if rounding_mode is None:
        return a / b
    return a // b if rounding_mode == "floor" else type(a)(math.trunc(a / b))


NUMBERS: dict[str, Callable[..., Any]] = {
    "add": _add, "sub": lambda a, b, alpha=1: _add(a, b, -alpha), "mul": operator.mul, "floordiv": operator.floordiv, "div": _div,
    "remainder": operator.mod, "neg": operator.neg, "pow": operator.pow, "eq": operator.eq, "ne": operator.ne, "lt": operator.lt,
    "le": operator.le, "gt": operator.gt, "ge": operator.ge, "__and__": operator.and_, "__or__": operator.or_, "__xor__": operator.xor,
    "__not__": operator.not_, "min": min, "max": max, "ceil": math.ceil, "floor": math.floor, "round": round, "sqrt": math.sqrt,
    "abs": abs, "log": math.log, "exp": math.exp, "__is__": operator.is_, "__isnot__": operator.is_not, "Int": int, "Float": float,
    "Bool": bool, "IntImplicit": int, "FloatImplicit": float, "ScalarImplicit": lambda x: x, "len": len, "append": list.append,
    "extend": list.extend, "pop": list.pop, "insert": list.insert, "list": list, "__getitem__": operator.getitem,
    "__contains__": operator.contains,
    "format": str.format, "keys": lambda d: list(d.keys()), "values": lambda d: list(d.values()), "items": lambda d: list(d.items()),
    "copy": lambda x: x.copy(), "clear": lambda x: x.clear(), "index": list.index, "reverse": list.reverse, "startswith": str.startswith,
    "_set_item": operator.setitem,
}  # fmt: skip
"""Operators of scripts on numbers, lists or strings, as Python functions by name."""
CHANGES = {"append", "extend", "pop", "insert", "clear", "reverse", "_set_item"}
CONTAINERS = CHANGES | {"len", "__getitem__", "list", "__contains__", "__is__", "__isnot__", "keys", "values", "items"}
CONVERSIONS = {"Int", "Float", "Bool", "IntImplicit", "FloatImplicit", "ScalarImplicit"}
