"""Strings that the constants of a program stand for: a library names them, so that each process that loads it knows them."""

from __future__ import annotations

from typing import Any

from tilewright.ir import IRModule
from tilewright.relay.expr import Constant, Function
from tilewright.relay.functor import post_order
from tilewright.runtime.host_functions.strings import CARRIER, string_table


def strings_of(mod: IRModule) -> dict[str, Any]:
    """{"strings": in alphabetical order}, as metadata; nothing where no constant is of strings."""
    found: set[str] = set()
    for func in mod.functions.values():
        for e in post_order(func) if isinstance(func, Function) else ():
            if isinstance(e, Constant) and e.data.dtype == CARRIER:
                found |= string_table.known(e.data.numpy())
    return {"strings": sorted(found)} if found else {}
