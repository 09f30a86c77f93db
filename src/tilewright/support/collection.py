"""A pause of Python's cyclic garbage collector, for work that makes many objects and few cycles."""

from __future__ import annotations

import gc
import threading
from collections.abc import Iterator
from contextlib import contextmanager

_lock = threading.Lock()
_pauses = 0
_was_enabled = False


@contextmanager
def paused_collection() -> Iterator[None]:
    """No cycles are looked for in the body, by any thread. IR is made of many objects without cycles: the collector would go
    through all of them again and again, for a third of the time of a build. What the program chose holds again afterwards."""
    global _pauses, _was_enabled
    with _lock:
        if _pauses == 0:
            _was_enabled = gc.isenabled()
            gc.disable()
        _pauses += 1
    try:
        yield
    finally:
        with _lock:
            _pauses -= 1
            if _pauses == 0 and _was_enabled:
                gc.enable()
