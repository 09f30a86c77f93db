"""A line that tells how far a run of a fuzzer is, and how long it still takes."""

from __future__ import annotations

import sys
import time


class Progress:
    """Counts what is done and what failed, and shows it: live on a terminal, now and then elsewhere."""

    def __init__(self, count: int, what: str = "programs") -> None:
        self.count, self.what, self.done, self.failures = count, what, 0, 0
        self.start = self.shown = time.monotonic()
        self.live = sys.stderr.isatty()

    def text(self, where: str = "") -> str:
        rate = self.done / max(time.monotonic() - self.start, 1e-9)
        return f"{self.done} {self.what} {where}, {self.failures} failures, {rate:.1f} {self.what} a second"

    def show(self) -> None:
        """Shows the line where the last one is old."""
        now = time.monotonic()
        if now - self.shown < (0.5 if self.live else 60):
            return
        self.shown = now
        line = self.text(f"of {self.count}" if self.count else "so far")
        if self.count:
            left = int((self.count - self.done) * (now - self.start) / max(self.done, 1))
            line += f", {left // 60} min {left % 60:02d} s left"
        print(f"\r\033[K{line}" if self.live else line, end="" if self.live else "\n", file=sys.stderr, flush=True)

    def clear(self) -> None:
        """Removes the line."""
        if self.live:
            print("\r\033[K", end="", file=sys.stderr, flush=True)
