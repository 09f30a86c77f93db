"""Where the time of tuning goes."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import ClassVar, Self

from tilewright.meta_schedule.utils import print_table


class Profiler:
    """Adds up the seconds of named parts, while it is in use: `with Profiler() as profiler:`."""

    _stack: ClassVar[threading.local] = threading.local()

    def __init__(self) -> None:
        self._seconds: dict[str, float] = {}
        self._begun: float | None = None
        self._total = 0.0

    def get(self) -> dict[str, float]:
        """Seconds of the parts, and "Total"."""
        now = time.perf_counter() - self._begun if self._begun is not None else 0.0
        return {**self._seconds, "Total": self._total + now}

    def table(self) -> str:
        """The seconds and shares of the parts as a table, longest first."""
        seconds = self.get()
        total = max(seconds["Total"], 1e-12)
        rows = [
            (name, f"{s:.3f}", f"{100 * s / total:.1f} %") for name, s in sorted(seconds.items(), key=lambda i: -i[1])
        ]
        return print_table([("part", "seconds", "share"), *rows])

    def __enter__(self) -> Self:
        if not hasattr(Profiler._stack, "profilers"):
            Profiler._stack.profilers = []
        Profiler._stack.profilers.append(self)
        self._begun = time.perf_counter()
        return self

    def __exit__(self, *error: object) -> None:
        assert self._begun is not None
        self._total += time.perf_counter() - self._begun
        self._begun = None
        Profiler._stack.profilers.pop()

    @staticmethod
    def current() -> Profiler | None:
        """The profiler in use; None without one."""
        stack: list[Profiler] = getattr(Profiler._stack, "profilers", [])
        return stack[-1] if stack else None

    @staticmethod
    @contextmanager
    def timeit(name: str) -> Iterator[None]:
        """Adds the time of a block to a part of the profiler in use, if there is one."""
        profiler, begun = Profiler.current(), time.perf_counter()
        try:
            yield
        finally:
            if profiler is not None:
                profiler._seconds[name] = profiler._seconds.get(name, 0.0) + time.perf_counter() - begun
