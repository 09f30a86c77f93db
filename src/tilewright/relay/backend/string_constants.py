"""Metadata about strings: the strings in constants of a program, which every process that loads the library needs, and the inputs and
outputs that hold strings."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from tilewright.ir import IRModule
from tilewright.relay.expr import Constant, Expr, Function
from tilewright.relay.functor import post_order
from tilewright.runtime.host_functions.strings import CARRIER, string_table


def strings_among(nodes: Iterable[Expr]) -> list[str]:
    """The strings in constants among expressions, in alphabetical order."""
    found: set[str] = set()
    for e in nodes:
        if isinstance(e, Constant) and e.data.dtype == CARRIER:
            found |= string_table.known(e.data.numpy())
    return sorted(found)


def string_mark(main: Function, side: str, name: str) -> dict[str, Any]:
    """The metadata {"strings": True} for an input or output that holds strings; empty for others. side: "inputs" or "outputs"."""
    return {"strings": True} if name in main.attrs.get(f"string_{side}", ()) else {}


def strings_of(mod: IRModule) -> dict[str, Any]:
    """The metadata {"strings": strings of a module}; empty for a module without constants of strings."""
    if string_table.is_empty:
        return {}
    found = strings_among(e for f in mod.functions.values() if isinstance(f, Function) for e in post_order(f))
    return {"strings": found} if found else {}
