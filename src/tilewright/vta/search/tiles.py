"""The copies of a tile as the matrices that the compiler makes of them, and its products as the compiler's loops and micro-ops."""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from tilewright.vta.compiler.transfers import Transfer, transfers
from tilewright.vta.configuration import Configuration
from tilewright.vta.isa.layout import layout_of
from tilewright.vta.search.problem import Problem, Tiling


class Edge(NamedTuple):
    """A tile along rows or columns: its first index of the data, how many it reads, and how many of these are padding before and
    behind."""

    def indices(self, step: int) -> np.ndarray[Any, Any]:
        """Those of the data, in steps; -1 for padding."""
        n = np.arange(self.length)
        inside = (n >= self.before) & (n < self.length - self.behind)
        return np.where(inside, self.first + (n - self.before) * step, -1)

    first: int
    length: int
    before: int
    behind: int


def edges(count: int, tile: int, window: int, stride: int, padding: int, size: int, step: int = 1) -> list[Edge]:
    """The tiles of one axis. step: between the indices that are read."""
    found = []
    for at in range(0, count, tile):
        first = at * stride - padding
        inside = [first + n * step for n in range(window)]
        before = sum([n < 0 for n in inside])
        found.append(Edge(max(first, 0), window, before, sum([n >= size for n in inside])))
    return found


@lru_cache(maxsize=4096)
def input_copies(p: Problem, t: Tiling, y: Edge, x: Edge, config: Configuration) -> tuple[Transfer, ...]:
    """The loads of a tile of inp."""
    size = config.element_bytes("inp")
    if p.dense:
        at = np.arange(t.rows)[:, None] * p.in_blocks + np.arange(t.in_blocks)
    else:
        sy, sx = p.strides if p.sampled else (1, 1)
        rows, columns = y.indices(sy), x.indices(sx)
        inside = (rows[:, None] >= 0) & (columns >= 0)
        plane = np.where(inside, rows[:, None] * p.size[1] + columns, -1)
        of_groups = np.arange(p.groups(t.out_blocks))[:, None] * p.in_blocks + np.arange(t.in_blocks)
        blocks = of_groups.reshape(-1, 1, 1) * (p.size[0] * p.size[1])
        at = np.where(plane >= 0, blocks + plane, -1)
    flat = at.reshape(-1)
    dram = np.where(flat >= 0, flat * size, -1)
    return tuple(transfers(np.arange(len(flat)), dram, size, layout_of(config)))


def padding_copies(copies: Iterable[Transfer]) -> frozenset[Transfer]:
    """Those that are padding alone."""
    return frozenset([c for c in copies if not c.rows])


@lru_cache(maxsize=1024)
def weight_copies(p: Problem, out_blocks: int, in_blocks: int, config: Configuration) -> tuple[Transfer, ...]:
    """The loads of a tile of wgt."""
    size = config.element_bytes("wgt")
    at = np.arange(out_blocks)[:, None] * (p.in_blocks * p.offsets) + np.arange(in_blocks * p.offsets)
    return tuple(transfers(np.arange(at.size), at.reshape(-1) * size, size, layout_of(config)))


@lru_cache(maxsize=1024)
def output_copies(p: Problem, t: Tiling, memory: str, config: Configuration) -> tuple[Transfer, ...]:
    """The stores of a tile, or the loads of an array of its shape."""
    size = config.element_bytes(memory)
    if p.dense:
        at = np.arange(t.rows)[:, None] * p.out_blocks + np.arange(t.out_blocks)
    else:
        o, y, x = np.arange(t.out_blocks)[:, None, None], np.arange(t.rows)[:, None], np.arange(t.columns)
        at = (o * p.rows + y) * p.columns + x
    return tuple(transfers(np.arange(at.size), at.reshape(-1) * size, size, layout_of(config)))


class Steps(NamedTuple):
    """A product of a tile: its instructions, and micro-ops of each."""

    instructions: int
    uops: int


@lru_cache(maxsize=4096)
def product_steps(p: Problem, t: Tiling, config: Configuration) -> Steps:
    """How the compiler writes the steps of a tile (compiler/steps.py): the outermost two loops are the instruction's, what is inside is
    micro-ops; where these are too many, it takes an instruction for each trip of the outermost loop."""
    height, width = t.window(p)
    sy, sx = p.on_chip
    (y, x), o, k = p.sums(t.rows, t.columns), t.out_blocks, t.in_blocks
    weights = (k * p.offsets, p.offsets)
    # Extents, and what a trip adds to dst, src and wgt.
    if p.dense:
        loops = [(k, (0, 1, 1)), (o, (1, 0, k)), (y, (o, k, 0))]
    else:
        groups = p.groups(o)
        loops = [
            (k, (0, height * width, weights[1])), (p.kernel[0], (0, width, p.kernel[1])), (p.kernel[1], (0, 1, 1)),
            (groups, (o // groups * y * x, k * height * width, o // groups * weights[0])), (o // groups, (y * x, 0, weights[0])),
            (y, (x, sy * width, 0)), (x, (1, sx, 0)),
        ]  # fmt: skip
    loops = [loop for loop in loops if loop[0] > 1]
    merged: list[tuple[int, tuple[int, ...]]] = []
    for extent, adds in loops:
        if merged and all([a == extent * b for a, b in zip(merged[-1][1], adds, strict=True)]):
            merged[-1] = (merged[-1][0] * extent, adds)
        else:
            merged.append((extent, adds))
    instructions = 1
    while True:
        inside = 1
        for extent, _ in merged[2:]:
            inside *= extent
        if inside <= config.depth("uop"):
            return Steps(instructions, inside)
        instructions *= merged[0][0]
        merged = merged[1:]


__all__ = [
    "Edge",
    "Steps",
    "edges",
    "input_copies",
    "output_copies",
    "padding_copies",
    "product_steps",
    "weight_copies",
]
