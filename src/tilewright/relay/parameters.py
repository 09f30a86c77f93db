"""Programs with their weights: a function as a module, parameters bound to constants."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tilewright.ir import IRModule
from tilewright.relay.expr import Function, bind


def as_module(mod: IRModule | Function) -> IRModule:
    """A module whose main is the given function."""
    if isinstance(mod, IRModule):
        return mod
    if isinstance(mod, Function):
        return IRModule.from_expr(mod)
    raise TypeError(f"relay.build takes an IRModule or a relay.Function, but was given {type(mod).__name__}")


def bind_params(mod: IRModule, params: Mapping[str, Any] | None) -> IRModule:
    """The module with main's parameters of these names replaced by constants."""
    if not params:
        return mod
    return mod.with_functions(
        {
            g: bind(f, params) if g.name_hint == "main" and isinstance(f, Function) else f
            for g, f in mod.functions.items()
        }
    )
