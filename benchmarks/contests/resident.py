"""What of this process is in memory. getrusage would tell the peak of the process that started this one, where that was larger."""

from __future__ import annotations

import re
from pathlib import Path


def resident(kind: str) -> float:
    """MB of this process's resident set: "VmHWM", the most since the last reset, or "VmRSS", now."""
    found = re.search(rf"^{kind}:\s*(\d+) kB", Path("/proc/self/status").read_text(), re.MULTILINE)
    return int(found[1]) / 1024 if found else 0.0


def forget_peak() -> None:
    """Let VmHWM start again from what is resident now."""
    Path("/proc/self/clear_refs").write_text("5")
