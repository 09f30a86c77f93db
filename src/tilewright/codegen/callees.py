"""Calls between the functions of a module, for back ends that write them."""

from __future__ import annotations

from typing import Any, Protocol

from tilewright.ir import DataType, GlobalVar, IRModule
from tilewright.support.errors import TVMError
from tilewright.tir import Call, PrimFunc


class Caller(Protocol):
    """The emitter of the function that calls."""

    def error(self, message: str, node: Any) -> TVMError:
        """An error that names the function and the node."""


def callee_of(mod: IRModule, gvar: GlobalVar, caller: Caller, call: Call) -> PrimFunc:
    """The function of the module that `call` calls. Raises TVMError if there is none, or if it takes another number of arguments."""
    func = mod.functions.get(gvar)
    if not isinstance(func, PrimFunc):
        raise caller.error(f"the module has no function {gvar.name_hint!r} to call", call)
    if len(func.params) != len(call.args):
        raise caller.error(
            f"{gvar.name_hint} takes {len(func.params)} arguments, but is called with {len(call.args)}", call
        )
    return func


def value_type(func: PrimFunc) -> DataType | None:
    """The type of the value that a function returns; None if it returns nothing, and its code a return code: 0, or that of an error."""
    dtype = getattr(func.ret_type, "dtype", None)
    return None if dtype is None or dtype == "" or dtype.code == "void" else dtype


__all__ = ["callee_of", "value_type"]
