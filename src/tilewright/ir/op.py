"""Attributes of operators that programs add: properties of their own, and rules that lower intrinsics for a target."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tilewright.ir.expr import Op

__all__ = ["Op", "register_intrin_lowering", "register_op_attr"]


def register_op_attr(op_name: str, attr_key: str, value: Any = None, level: int = 10) -> Any:
    """Sets an attribute of the operator of that name, which is made if there is none.

    Without value: a decorator, for attributes that are functions. Of two values the one of the higher level stays.
    Raises ValueError when another value stands on the same level.
    """

    def register(given: Any) -> Any:
        key = (op_name, attr_key)
        op = Op._known.get(op_name) or Op(op_name)
        held = Op._levels.get(key, 10 if op.get_attr(attr_key) is not None else -1)
        if held == level and op.get_attr(attr_key) not in (None, given) and key in Op._levels:
            raise ValueError(f"{op_name} has an attribute {attr_key} of level {level} already; give a higher level")
        if level >= held:
            op.set_attr(attr_key, given, level)
            Op._levels[key] = level
        return given

    return register if value is None else register(value)


def register_intrin_lowering(
    op_name: str, target: str, *, f: Callable[[Any], Any] | None = None, level: int = 10
) -> Any:
    """Says how calls to an intrinsic become code for a kind of target ("llvm", ..., or "default" for all).

    op_name: such as "tir.exp". f: takes the call, returns an expression; the call itself where it has no rule.
    Without f: a decorator.
    """
    return register_op_attr(op_name, f"{target}.FLowerIntrin", f, level)
