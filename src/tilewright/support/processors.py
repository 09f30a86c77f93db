"""How many processors this process may use."""

from __future__ import annotations

import os


def usable_processors() -> int:
    """Processors that the system lets this process run on, at least 1."""
    affinity = getattr(os, "sched_getaffinity", None)
    return len(affinity(0)) if affinity else (os.cpu_count() or 1)


__all__ = ["usable_processors"]
