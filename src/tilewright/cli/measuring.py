"""Times of repeated runs."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np

from tilewright.cli.tensors import Array


def timed(run: Callable[[], Any], seconds: float, least: int = 5) -> Array:
    """Milliseconds of calls made for about that many seconds, after two calls that do not count."""
    run()
    run()
    times: list[float] = []
    stop = time.perf_counter() + seconds
    while len(times) < least or time.perf_counter() < stop:
        start = time.perf_counter()
        run()
        times.append((time.perf_counter() - start) * 1e3)
    return np.array(times)
