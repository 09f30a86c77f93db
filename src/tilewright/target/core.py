"""Descriptions of processor cores: the numbers that the cost model of schedules works with, as data in `cores/`, one file for each family.

A number is either a fact of the family (its optimisation guide) or was fitted to measurements; each file says which machine it was fitted
on. A family without measurements of its own has those of its nearest relative.
"""

from __future__ import annotations

import tomllib
from functools import lru_cache
from importlib.resources import files
from typing import NamedTuple


class Core(NamedTuple):
    """One core. Times are in cycles; `registers` are vectors, and a vector is as wide as `CpuFacts.vector_bits` says."""

    family: str
    registers: int
    """Vector registers."""
    multiply_adds: float
    """Multiply-adds of vectors that are issued in a cycle."""
    latency: float
    """From a multiply-add to the next one into the same accumulator."""
    loads: float
    """Loads of vectors or broadcast scalars in a cycle, from the first cache."""
    streamed: float
    """Time for a vector from the second cache."""
    pointers: int
    """Addresses without a constant distance that fit into registers in the loop of a reduction."""
    tile_start: float
    """Time to start and end a register tile, in multiply-adds of each step of its reduction."""
    long_body: int
    """Multiply-adds in the body of a reduction's only loop, at most."""
    short_body: int
    """The same in the innermost of several loops."""
    copied: float
    """Time for an element that is copied by vectors."""
    gathered: float
    """The same where neighbours of the copy are not neighbours in memory."""
    folded: float
    """Time to add up the lanes of one sum."""
    far: float
    """Factor for a matrix that is read where it lies although its rows are on pages far apart."""
    first_missed: float
    """Time for a cache line of broadcast scalars that the first cache does not hold."""
    second_missed: float
    """The same where the second does not."""
    direct: float
    """Share of the peak rate that direct convolutions reach."""
    products: float
    """Share of the peak rate that products of transformed tiles reach."""
    transformed: float
    """Time for a vector that is transformed in Winograd's form."""
    from_memory: float
    """Bytes that a core reads from memory in a cycle."""
    from_last_cache: float
    """Bytes that it reads from the last-level cache in a cycle."""
    start: float
    """Time until all threads have started a parallel loop."""
    relaid: float
    """Time for an element that is brought from one layout to another."""
    relaid_parts: float
    """The same where blocks of channels are not full."""
    relayout: float
    """Time for the kernel that does it, beside its elements."""


@lru_cache(maxsize=32)
def core(family: str, registers: int) -> Core:
    """The description of a family, with so many vector registers. Raises KeyError for a file that lacks a number or has one too many."""
    text = (files("tilewright.target") / "cores" / f"{family}.toml").read_text(encoding="utf-8")
    numbers = {name: value for table in tomllib.loads(text).values() for name, value in table.items()}
    wanted = set(Core._fields) - {"family", "registers"}
    if numbers.keys() != wanted:
        raise KeyError(f"cores/{family}.toml: {sorted(numbers.keys() ^ wanted)}")
    return Core(family=family, registers=registers, **numbers)


__all__ = ["Core", "core"]
