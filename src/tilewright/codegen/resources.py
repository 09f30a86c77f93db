"""What a compiled kernel of CUDA uses, as NVIDIA's assembler says."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple


class Resources(NamedTuple):
    """Of a kernel: registers of a thread; bytes of a thread's stack, and of the values that did not fit into registers, as they are stored
    and loaded (`spill_stores`, `spill_loads`); bytes of static shared memory; barriers."""

    registers: int
    stack: int = 0
    spill_stores: int = 0
    spill_loads: int = 0
    shared_memory: int = 0
    barriers: int = 0


_ENTRY = re.compile(r"Compiling entry function '(\S+)' for")
_NUMBERS = {
    "registers": re.compile(r"Used (\d+) registers"),
    "stack": re.compile(r"(\d+) bytes stack frame"),
    "spill_stores": re.compile(r"(\d+) bytes spill stores"),
    "spill_loads": re.compile(r"(\d+) bytes spill loads"),
    "shared_memory": re.compile(r"(\d+) bytes smem"),
    "barriers": re.compile(r"used (\d+) barriers"),
}


def read_log(log: str) -> dict[str, Resources]:
    """The resources of each kernel, from what ptxas writes with -v."""
    return {name: Resources(**numbers) for name, numbers in _entries(log) if "registers" in numbers}


def _entries(log: str) -> Iterator[tuple[str, dict[str, int]]]:
    parts = _ENTRY.split(log)
    for name, text in zip(parts[1::2], parts[2::2], strict=True):
        # What follows may tell of functions that the kernel calls.
        found = {key: pattern.search(text) for key, pattern in _NUMBERS.items()}
        yield name, {key: int(match[1]) for key, match in found.items() if match is not None}


__all__ = ["Resources", "read_log"]
