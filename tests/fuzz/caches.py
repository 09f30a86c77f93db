"""A cache of compiled kernels for each run."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager

VARIABLE = "TILEWRIGHT_CACHE_DIR"


@contextmanager
def own_cache() -> Iterator[None]:
    """While this is entered, kernels are kept in a folder that goes at the end, so that random programs do not fill the user's cache;
    where TILEWRIGHT_CACHE_DIR is set, they are kept there. Processes that are started inside have the same."""
    if os.environ.get(VARIABLE):
        yield
        return
    with tempfile.TemporaryDirectory(prefix="tilewright-fuzz-cache-", ignore_cleanup_errors=True) as folder:
        os.environ[VARIABLE] = folder
        try:
            yield
        finally:
            del os.environ[VARIABLE]
