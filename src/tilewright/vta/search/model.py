"""The time of a tiling: what each unit does for each tile, and when it can.

The program is that of the schedules in `vta.top`: for each tile a reset, for each part of the reduction loads and products of each virtual
thread, then the ALU and the store. Copies wait for the last use of their place, products for their copies. A program with many tiles ends
like a shorter one that goes on with the same number of cycles for each tile."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from tilewright.vta.compiler.transfers import Transfer
from tilewright.vta.configuration import Configuration
from tilewright.vta.search.costs import Cost, read, steps, together, write
from tilewright.vta.search.problem import Problem, Tiling
from tilewright.vta.search.tiles import Edge, edges, input_copies, output_copies, product_steps, weight_copies
from tilewright.vta.search.timeline import COMPUTE, LOAD, STORE, Operation, Timeline

MOST = 1500
"""Operations of a program that is looked at whole; of a longer one the first so many."""


class Place(NamedTuple):
    """A tile: the numbers of its tiles of batch, output blocks, rows and columns."""

    batch: int
    out: int
    row: int
    column: int


def places(p: Problem, t: Tiling) -> Iterator[Place]:
    """The tiles in their order, each for all virtual threads."""
    outs = range(p.out_blocks // (t.out_blocks * t.out_threads))
    rows, columns = range(p.rows // (t.rows * t.row_threads)), range(p.columns // t.columns)
    for b in range(p.batch):
        if t.spatial_outer:
            yield from [Place(b, o, y, x) for y in rows for x in columns for o in outs]
        else:
            yield from [Place(b, o, y, x) for o in outs for y in rows for x in columns]


class _Program:
    """The operations of a tiling, with what they wait for."""

    def __init__(self, p: Problem, t: Tiling, config: Configuration) -> None:
        self.p, self.t, self.config = p, t, config
        self.operations: list[Operation] = []
        self.instructions = 0
        self.tile_ends: list[int] = []
        height, width = t.window(p)
        self.y_edges, self.x_edges = (
            edges(
                count,
                tile,
                window,
                p.strides[n] * p.pool_strides[n],
                p.padding[n],
                p.size[n],
                p.strides[n] if p.sampled else 1,
            )
            for n, (count, tile, window) in enumerate(((p.rows, t.rows, height), (p.columns, t.columns, width)))
        )
        self.product = product_steps(p, t, config)
        self._held: dict[tuple[object, ...], tuple[int, int]] = {}
        self._next_uop = 0
        self._there: dict[tuple[str, int], tuple[int, ...]] = {}
        self._load_of: dict[tuple[str, int], int] = {}
        self._product_of: dict[int, int] = {}
        self._store_of: dict[int, int] = {}
        self._inputs: dict[tuple[Edge, Edge], tuple[Cost, int]] = {}
        copies = weight_copies(p, t.out_blocks, t.in_blocks, config)
        self.weights = together([read(c, "wgt", config) for c in copies]), len(copies)
        stores = output_copies(p, t, "out", config)
        self.store = together([write(c, config) for c in stores]), len(stores)
        self.copied = []
        for whole in p.copied:
            beside = output_copies(p, t, "acc", config) if whole else (_row(t.out_blocks),)
            self.copied.append((together([read(c, "acc", config) for c in beside]), len(beside)))
        self._steps()

    def _steps(self) -> None:
        """Costs of the compute unit, which all tiles share."""
        t, config, n, pooled = self.t, self.config, self.t.accumulators(self.p), self.t.results()
        most = (1 << 14) - 1
        self.reset = steps(n, -(-n // most), config.gemm_latency, n)
        count = n * self.t.in_blocks * self.p.taps
        self.gemm = steps(count, self.product.instructions, config.gemm_latency, n)
        passes = [*[(n, each) for each in self.p.passes], *[(pooled, each) for each in self.p.pool_passes]]
        self.alu = [(each, steps(n, -(-n // most), config.alu_latency, n, each)) for n, each in passes]
        self.parts = self.p.in_blocks // t.in_blocks

    def _add(self, unit: int, cost: Cost, instructions: int, after: tuple[int, ...] = ()) -> int:
        self.operations.append(Operation(unit, cost, after))
        self.instructions += instructions
        return len(self.operations) - 1

    def _uops(self, key: tuple[object, ...], count: int) -> None:
        """Micro-ops stay on the chip until others need their room (compiler/commands.py)."""
        if key in self._held:
            return
        if self._next_uop + count > self.config.depth("uop"):
            self._next_uop = 0
        begin, end = self._next_uop, self._next_uop + count
        self._held = {k: (at, size) for k, (at, size) in self._held.items() if at >= end or at + size <= begin}
        self._held[key], self._next_uop = (begin, count), end
        self._add(COMPUTE, read(_row(count), "uop", self.config), 1)

    def _load(self, memory: str, thread: int, what: tuple[int, ...], cost: Cost, instructions: int) -> None:
        """A copy to a place of inp or wgt, unless it is there."""
        if self._there.get((memory, thread)) == what:
            return
        self._there[memory, thread] = what
        after = (self._product_of[thread],) if thread in self._product_of else ()
        self._load_of[memory, thread] = self._add(LOAD, cost, instructions, after)

    def _input(self, y: Edge, x: Edge) -> tuple[Cost, int]:
        kind = (y._replace(first=0), x._replace(first=0))
        if kind not in self._inputs:
            copies = input_copies(self.p, self.t, y, x, self.config)
            self._inputs[kind] = together([read(c, "inp", self.config) for c in copies]), len(copies)
        return self._inputs[kind]

    def tile(self, place: Place) -> None:
        p, t = self.p, self.t
        threads = range(t.threads)
        at = [self._of_thread(place, n) for n in threads]
        for n in threads:
            for cost, count in self.copied:
                self._add(COMPUTE, cost, count)
            self._uops(("acc", n), 1)
            self._add(COMPUTE, self.reset, 1, (self._store_of[n],) if n in self._store_of else ())
        for k in range(self.parts):
            for n in threads:
                o, row = at[n]
                y, x = self.y_edges[row], self.x_edges[place.column]
                self._load("wgt", n, (o, k), *self.weights)
                group = o * t.out_blocks // p.per_group if p.per_group else 0
                self._load("inp", n, (place.batch, row, place.column, k, group), *self._input(y, x))
            for n in threads:
                for piece in range(self.product.instructions):
                    self._uops(
                        ("acc", 0) if n == 0 and self.product == (1, 1) else ("gemm", n, piece), self.product.uops
                    )
                after = tuple({self._load_of["wgt", n], self._load_of["inp", n]})
                self._product_of[n] = self._add(COMPUTE, self.gemm, self.product.instructions, after)
        last = {}
        for n in threads:
            arrays = 0
            for each, cost in self.alu:
                arrays += each - 1
                self._uops(("acc", n) if each == 1 else ("array", n, arrays), 1)
                last[n] = self._add(COMPUTE, cost, 1)
        for n in threads:
            self._store_of[n] = self._add(STORE, *self.store, (last[n],) if n in last else (self._product_of[n],))
        self.tile_ends.append(len(self.operations))

    def _of_thread(self, place: Place, thread: int) -> tuple[int, int]:
        """Numbers of the tile of output blocks and of that of rows of a virtual thread."""
        t, p = self.t, self.p
        outs, rows = p.out_blocks // (t.out_blocks * t.out_threads), p.rows // (t.rows * t.row_threads)
        by_out, by_row = thread % t.out_threads, thread // t.out_threads
        return by_out * outs + place.out, by_row * rows + place.row


def _row(count: int) -> Transfer:
    return Transfer(0, 0, 1, count, count)


def estimate(p: Problem, t: Tiling, config: Configuration) -> float:
    """Cycles of the whole problem. The tiles must divide it, and fit."""
    program = _Program(p, t, config)
    outs, spatial = p.out_blocks // t.out_blocks, (p.rows // t.rows) * (p.columns // t.columns)
    tiles = p.batch * outs * spatial // t.threads
    inner = outs // t.out_threads if t.spatial_outer else spatial // t.row_threads
    for place in places(p, t):
        program.tile(place)
        done, length = len(program.tile_ends), len(program.operations)
        if length > MOST and done >= 4 and (done % (2 * inner) == 0 or length > 4 * MOST):
            break
    seen = len(program.tile_ends)
    beats = config.ins_width / 8 / config.dram_bytes * program.instructions / len(program.operations)
    line = Timeline(program.operations, (config.dram_latency + 3 + beats, 2 * beats, beats))
    half = seen // 2
    end, before = (max(line.ends[: program.tile_ends[n - 1]], default=0.0) for n in (seen, half or 1))
    more = (tiles - seen) * (end - before) / (seen - half) if seen < tiles else 0.0
    return end + more + 2


__all__ = ["MOST", "Place", "estimate", "places"]
