"""Batch splitting: bytes of memory traffic that are saved where first layers run for a few images at a time."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from math import gcd
from typing import NamedTuple

from tilewright.scheduling.cost import divisors
from tilewright.target.cpu import CpuFacts

PART = 2
"""A layer's data fit where they take this part of the last cache: its constants, what goes on beside it, and others are there too."""


class Traffic(NamedTuple):
    """Bytes that a layer moves for a whole batch: of images, and of its constants."""

    moved: int
    constants: int


class BatchSplit(NamedTuple):
    """So many first layers run for so many images at a time; the bytes that this saves, which may be negative."""

    images: int
    layers: int
    saved: float


def cache_of_batch(cpu: CpuFacts) -> int:
    """Bytes of a layer's data that stay in the last cache; 0 where it is not known."""
    return cpu.l3_bytes // PART


def batch_splits(layers: Sequence[Traffic], ends: Collection[int], batch: int, cpu: CpuFacts) -> list[BatchSplit]:
    """The splits of a batch that are possible. ends: numbers of first layers after which one value goes on.

    Layers that fit into the cache only after splitting save what they move; each repetition costs the constants of all layers and the
    start of their threads, in bytes that the last cache gives in that time. As many images at a time as there are threads, so that each
    has one of its own, or else fewer.
    """
    cache, start = cache_of_batch(cpu), cpu.core.start * cpu.core.from_last_cache
    found: list[BatchSplit] = []
    for images in divisors(gcd(batch, cpu.threads), batch // 2):
        parts, saved = batch // images, 0.0
        for count, layer in enumerate(layers, 1):
            if layer.moved // parts <= cache < layer.moved:
                saved += layer.moved
            saved -= (parts - 1) * (layer.constants + start)
            if count in ends:
                found.append(BatchSplit(images, count, saved))
    return found


def best_split(splits: Sequence[BatchSplit]) -> BatchSplit | None:
    """The split that saves the most, if any does; of equal ones that with the most images, then the most layers."""
    return max([s for s in splits if s.saved > 0], key=lambda s: (s.saved, s.images, s.layers), default=None)


__all__ = ["BatchSplit", "Traffic", "batch_splits", "best_split", "cache_of_batch"]
