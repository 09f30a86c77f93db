"""Programs with their weights: a function as a module, parameters bound to constants."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TypeAlias, TypeVar

import numpy as np

from tilewright.ir import IntImm, IRModule, TensorType
from tilewright.relay.expr import Constant, Expr, Function, RelayExpr, Var, const
from tilewright.relay.functor import free_vars, substitute
from tilewright.runtime import NDArray

_E = TypeVar("_E", bound=RelayExpr)
Value: TypeAlias = "RelayExpr | np.ndarray | NDArray | float"
Params: TypeAlias = Mapping[str, Value]
"""Weights, or what stands for them, by the names of parameters."""


def bind(expr: _E, binds: Mapping[Var, Value] | Params) -> _E:
    """The function with some parameters (by Var or by name) replaced by expressions or arrays; of another expression, its
    variables. Names that no parameter has are left alone.

    Raises TypeError for an array that does not fit the parameter's type."""
    return _bound(expr, binds, _fitting)


def bind_any(expr: _E, binds: Mapping[Var, Value] | Params) -> _E:
    """The same without a check: type inference tells whether the function takes the arrays."""
    return _bound(expr, binds, lambda _, value: value)


def _bound(expr: _E, binds: Mapping[Var, Value] | Params, checked: Callable[[Var, Constant], Constant]) -> _E:
    function = expr if isinstance(expr, Function) else None
    variables = function.params if function is not None else free_vars(expr)
    by_name = {p.name_hint: p for p in variables}
    table: dict[Var, Expr] = {}
    for key, value in binds.items():
        param = by_name.get(key) if isinstance(key, str) else key
        if param is not None:
            table[param] = value if isinstance(value, RelayExpr) else checked(param, const(value))
    if not table:
        return expr
    if function is None:
        return substitute(expr, table)  # type: ignore[return-value]
    params = [p for p in function.params if p not in table]
    body = substitute(function.body, table)
    return expr.replace(params=tuple(params), body=body)


def _fitting(param: Var, value: Constant) -> Constant:
    """The value, if it is of the type that the parameter is declared with."""
    t = param.type_annotation
    if isinstance(t, TensorType):
        shape = value.data.shape
        fits = len(shape) == len(t.shape) and all(
            [not isinstance(want, IntImm) or want.value == have for want, have in zip(t.shape, shape, strict=True)]
        )
        if not fits or t.dtype != value.data.dtype.name:
            raise TypeError(
                f"the parameter %{param.name_hint} is declared {t!r}, but is bound to an array of shape {shape} and dtype"
                f" {value.data.dtype.name}"
            )
    return value


def as_module(mod: IRModule | Function) -> IRModule:
    """A module whose main is the given function."""
    if isinstance(mod, IRModule):
        return mod
    if isinstance(mod, Function):
        return IRModule.from_expr(mod)
    raise TypeError(f"relay.build takes an IRModule or a relay.Function, but was given {type(mod).__name__}")


def bind_params(mod: IRModule, params: Params | None) -> IRModule:
    """The module with main's parameters of these names replaced by constants."""
    if not params:
        return mod
    return mod.with_functions(
        {
            g: bind(f, params) if g.name_hint == "main" and isinstance(f, Function) else f
            for g, f in mod.functions.items()
        }
    )
