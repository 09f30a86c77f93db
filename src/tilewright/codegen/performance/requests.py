"""Requests of warps: what shared memory and the caches do for the addresses of 32 threads.

The rules are those of the CUDA C++ Programming Guide ("Compute Capability 5.x", "Shared Memory", which later ones refer to) and of the
CUDA C++ Best Practices Guide ("Coalesced Access to Global Memory"): 32 banks of 4 bytes, words that several threads read are read once;
requests of 8 and 16 bytes by each thread are served by halves and quarters of a warp; global memory is accessed by sectors of 32 bytes.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

BANKS, BANK_BYTES, SECTOR, WARP = 32, 4, 32, 32


class Wavefronts(NamedTuple):
    """Passes through shared memory for each request: `taken`, and the least that its width allows (`ideal`); arrays."""

    taken: np.ndarray
    ideal: np.ndarray


def _distinct(rows: np.ndarray) -> np.ndarray:
    """Which elements of sorted rows are the first of their value; negative ones are none."""
    first = np.ones(rows.shape, dtype=bool)
    first[:, 1:] = rows[:, 1:] != rows[:, :-1]
    return first & (rows >= 0)


def wavefronts(addresses: np.ndarray, width: int, active: np.ndarray) -> Wavefronts:
    """addresses: bytes, (requests, 32); width: bytes of each thread, a power of two up to 16; active: which threads take part."""
    words = max(width // BANK_BYTES, 1)
    lanes = WARP // words
    parts = len(addresses) * words
    there = np.where(active, addresses // BANK_BYTES, -1).reshape(parts, lanes)
    many = np.where(there[..., None] < 0, -1, there[..., None] + np.arange(words)).reshape(parts, lanes * words)
    many.sort(axis=1)
    first = _distinct(many)
    rows = np.broadcast_to(np.arange(parts)[:, None], many.shape)
    counts = np.bincount((rows * BANKS + many % BANKS)[first], minlength=parts * BANKS).reshape(parts, BANKS)
    taken = counts.max(axis=1).reshape(len(addresses), words)
    return Wavefronts(taken.sum(axis=1), (taken > 0).sum(axis=1))


class Sectors(NamedTuple):
    """Sectors of each request: `taken`, and the least that its bytes need (`ideal`); arrays."""

    taken: np.ndarray
    ideal: np.ndarray


def sectors(addresses: np.ndarray, width: int, active: np.ndarray) -> Sectors:
    """As `wavefronts`, for global memory."""
    starts = np.where(active, addresses, -1)
    ends = np.where(active, addresses + width - 1, -1)
    both = np.concatenate([np.where(starts < 0, -1, starts // SECTOR), np.where(ends < 0, -1, ends // SECTOR)], axis=1)
    both.sort(axis=1)
    starts = np.sort(starts, axis=1)
    asked = _distinct(starts).sum(axis=1) * width
    return Sectors(_distinct(both).sum(axis=1), -(-asked // SECTOR))


__all__ = ["BANKS", "BANK_BYTES", "SECTOR", "WARP", "Sectors", "Wavefronts", "sectors", "wavefronts"]
