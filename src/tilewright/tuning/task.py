"""A kernel to be tuned."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from tilewright.target import Target
from tilewright.tuning.space import Space


@dataclass(frozen=True)
class Task:
    """A kernel, its target and its space.

    key: what records name the kernel by, such as the hexadecimal digest of its program. weight: how often a model calls the kernel.
    flops: floating-point operations of a call; 0 if they are not known. moved: bytes that a call reads and writes; 0 if not known.
    """

    name: str
    key: str
    target: Target
    space: Space[Any]
    weight: float = 1.0
    flops: float = 0.0
    moved: float = 0.0
