"""The first use of what is loaded late."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from threading import RLock

from tilewright.support.collection import paused_collection

_one_thread = RLock()


@contextmanager
def loading() -> Iterator[None]:
    """Modules run in the body, for one thread at a time. Python's own locks are for single modules: threads that each wait for a module
    of the other's get one that has run in part, or an error. A thread that imports by a statement holds such locks already, and others
    may wait for them with ours: it does not wait."""
    waits = not _imports()
    if waits:
        _one_thread.acquire()
    try:
        # Modules are many objects that stay: a sixth of the time of their import would go to looking for cycles.
        with paused_collection():
            yield
    finally:
        if waits:
            _one_thread.release()


def _imports() -> bool:
    """Whether this thread is importing a module."""
    frame = sys._getframe(1)
    while frame.f_back is not None:
        frame = frame.f_back
        if frame.f_code.co_name == "_find_and_load" and frame.f_globals.get("__name__") == "importlib._bootstrap":
            return True
    return False
