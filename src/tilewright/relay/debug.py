"""The operator `debug` in the interpreter: stops in Python's debugger with the value."""

from __future__ import annotations

from typing import Any

from tilewright.runtime import get_global_func, register_func


def _debugger_init(value: Any, stack: Any = None) -> None:
    """Where `relay.op.debug(x)` is evaluated: `value` is what x is. Go `up` for the expressions around it."""
    breakpoint()


# A program may have registered another one before.
if get_global_func("relay.debug", allow_missing=True) is None:
    register_func("relay.debug", _debugger_init)
