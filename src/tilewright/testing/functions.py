"""Small functions that tests hand to the runtime."""

from __future__ import annotations

import os
import time
from typing import Any

from tilewright.runtime import get_global_func, register_func


def nop(*args: Any) -> None:
    """Takes anything and does nothing: the cost of a call."""


def echo(value: Any) -> Any:
    """Gives its argument back."""
    return value


def identity_cpp(value: Any) -> Any:
    """Gives its argument back, after a way through the calling convention of native code."""
    function = get_global_func("testing.echo")
    assert function is not None
    return function(value)


def identity_after(x: Any, sleep: float) -> Any:
    """Gives x back after `sleep` seconds: for tests of pools with time limits."""
    time.sleep(sleep)
    return x


def terminate_self() -> None:
    """Ends the process at once with status -1, as a crash would: for tests of pools and servers."""
    os._exit(-1)


register_func("testing.nop", nop, override=True)
register_func("testing.echo", echo, override=True)
