"""The time of a tiling: what each unit does for each tile, and when it can.

The program is that of the schedules in `vta.top`: for each tile a reset, for each part of the reduction loads and products of each virtual
thread, then the ALU and the store. Copies wait for the last use of their place, products for their copies. A program with many tiles ends
like a shorter one that goes on with the same number of cycles for each tile."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, NamedTuple

from tilewright.vta.compiler.transfers import Transfer
from tilewright.vta.configuration import Configuration
from tilewright.vta.search.costs import Cost, read, steps, together, write
from tilewright.vta.search.problem import Problem, Tiling
from tilewright.vta.search.tiles import (
    Edge,
    edges,
    input_copies,
    output_copies,
    padding_copies,
    product_steps,
    weight_copies,
)
from tilewright.vta.search.timeline import COMPUTE, LOAD, STORE, Alone, Bus, Operation, Timeline

MOST = 700
"""Operations of a program that is looked at whole; of a longer one the first so many."""


MOST_OF_LEAST = 50_000
"""The same for lower bounds."""


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
        self.y_kinds, self.x_kinds = ([e._replace(first=0) for e in edges] for edges in (self.y_edges, self.x_edges))
        self.product = product_steps(p, t, config)
        self._held: dict[tuple[object, ...], tuple[int, int]] = {}
        self._uop_costs: dict[int, Cost] = {}
        self._next_uop = 0
        self._there: dict[tuple[str, int], tuple[int, ...]] = {}
        self._padding: dict[int, frozenset[Transfer]] = {}
        """Padding of each thread's inputs that has been loaded apart."""
        self._padding_of: dict[tuple[Edge, Edge], frozenset[Transfer]] = {}
        self._load_of: dict[tuple[str, int], int] = {}
        self._product_of: dict[int, int] = {}
        self._store_of: dict[int, int] = {}
        self._copies: dict[tuple[object, ...], tuple[Cost, int]] = {}
        self._steps()

    def _steps(self) -> None:
        """Costs of the compute unit, which all tiles share."""
        t, config, n, pooled = self.t, self.config, self.t.accumulators(self.p), self.t.results()
        most = (1 << 14) - 1
        self.reset = steps(n, -(-n // most), config.gemm_latency, n)
        count = n * self.t.in_blocks * self.p.offsets
        self.gemm = steps(count, self.product.instructions, config.gemm_latency, n)
        passes = [*[(n, each) for each in self.p.passes], *[(pooled, each) for each in self.p.pool_passes]]
        self.alu = [(each, steps(n, -(-n // most), config.alu_latency, n, each)) for n, each in passes]
        self.parts = self.p.in_blocks // t.in_blocks

    def _add(self, unit: int, cost: Cost, instructions: int, after: tuple[int, ...] = ()) -> int:
        self.operations.append(Operation(unit, cost, after, instructions))
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
        if count not in self._uop_costs:
            self._uop_costs[count] = read(_row(count), "uop", self.config)
        self._add(COMPUTE, self._uop_costs[count], 1)

    def _load(self, memory: str, thread: int, what: tuple[int, ...], cost: Cost, instructions: int) -> None:
        """A copy to a place of inp or wgt, unless it is there."""
        if self._there.get((memory, thread)) == what:
            return
        self._there[memory, thread] = what
        after = (self._product_of[thread],) if thread in self._product_of else ()
        self._load_of[memory, thread] = self._add(LOAD, cost, instructions, after)

    def _copy(
        self,
        memory: str,
        first: int,
        kind: tuple[Any, ...],
        make: Callable[..., Iterable[Transfer]],
        there: frozenset[Transfer] = frozenset(),
    ) -> tuple[Cost, int]:
        """The cost and the number of copies, make(*kind), whose first element has this number in DRAM: their place in a burst matters.
        there: padding that is on the chip."""
        shift = first * self.config.element_bytes(memory) % self.config.dram_burst
        key = (memory, shift, there, *kind)
        if key not in self._copies:
            copies = [c._replace(dram=c.dram + shift) for c in make(*kind) if c not in there]
            costs = [write(c, self.config) if memory == "out" else read(c, memory, self.config) for c in copies]
            self._copies[key] = together(costs), len(copies)
        return self._copies[key]

    def _weights(self, out: int, part: int) -> tuple[Cost, int]:
        p, t = self.p, self.t
        first = (out * t.out_blocks * p.in_blocks + part * t.in_blocks) * p.offsets
        return self._copy("wgt", first, (), lambda: weight_copies(p, t.out_blocks, t.in_blocks, self.config))

    def _input(self, thread: int, place: Place, row: int, part: int, group: int) -> tuple[Cost, int]:
        p, t = self.p, self.t
        y, x = self.y_edges[row], self.x_edges[place.column]
        block = part * t.in_blocks
        if p.dense:
            first = row * t.rows * p.in_blocks + block
        else:
            groups = p.out_blocks // p.per_group if p.per_group else 1
            block += (place.batch * groups + group) * p.in_blocks
            first = (block * p.size[0] + y.first) * p.size[1] + x.first
        kind = self.y_kinds[row], self.x_kinds[place.column]
        there = self._padding.get(thread, frozenset())
        if kind not in self._padding_of:
            self._padding_of[kind] = padding_copies(input_copies(p, t, *kind, self.config))
        self._padding[thread] = self._padding_of[kind]
        return self._copy("inp", first, kind, lambda *edges: input_copies(p, t, *edges, self.config), there)

    def _outputs(self, memory: str, place: Place, out: int, row: int) -> tuple[Cost, int]:
        """The stores of a tile, or the loads of an array of its shape."""
        p, t = self.p, self.t
        block = place.batch * p.out_blocks + out * t.out_blocks
        first = (block * p.rows + row * t.rows) * p.columns + place.column * t.columns
        if p.dense:
            first = row * t.rows * p.out_blocks + out * t.out_blocks
        return self._copy(memory, first, (), lambda: output_copies(p, t, memory, self.config))

    def tile(self, place: Place) -> None:
        p, t = self.p, self.t
        threads = range(t.threads)
        at = [self._of_thread(place, n) for n in threads]
        for n in threads:
            for whole in p.copied:
                blocks = at[n][0] * t.out_blocks
                self._add(
                    COMPUTE,
                    *(
                        self._outputs("acc", place, *at[n])
                        if whole
                        else self._copy("acc", blocks, (t.out_blocks,), lambda o: [_row(o)])
                    ),
                )
            self._uops(("acc", n), 1)
            self._add(COMPUTE, self.reset, 1, (self._store_of[n],) if n in self._store_of else ())
        for k in range(self.parts):
            for n in threads:
                o, row = at[n]
                self._load("wgt", n, (o, k), *self._weights(o, k))
                group = o * t.out_blocks // p.per_group if p.per_group else 0
                self._load("inp", n, (place.batch, row, place.column, k, group), *self._input(n, place, row, k, group))
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
            self._store_of[n] = self._add(
                STORE, *self._outputs("out", place, *at[n]), (last[n],) if n in last else (self._product_of[n],)
            )
        self.tile_ends.append(len(self.operations))

    def _of_thread(self, place: Place, thread: int) -> tuple[int, int]:
        """Numbers of the tile of output blocks and of that of rows of a virtual thread."""
        t, p = self.t, self.p
        outs, rows = p.out_blocks // (t.out_blocks * t.out_threads), p.rows // (t.rows * t.row_threads)
        by_out, by_row = thread % t.out_threads, thread // t.out_threads
        return by_out * outs + place.out, by_row * rows + place.row


def _row(count: int) -> Transfer:
    return Transfer(0, 0, 1, count, count)


def bus_of(config: Configuration) -> Bus:
    """The bus of an accelerator."""
    word, latency = config.dram_bytes, config.dram_latency
    window = config.dram_requests * config.dram_burst / word
    rate = min(1.0, window / (latency + 1 + config.dram_burst / word))
    return Bus(latency, window, config.dram_requests, config.ins_width / 8 / word, rate, 1, config.command_queue)


class Outlook:
    """A tiling whose program is looked at whole, or its first tiles. The tiles must divide the problem, and fit."""

    def __init__(self, p: Problem, t: Tiling, config: Configuration) -> None:
        program, self._bus = _Program(p, t, config), bus_of(config)
        outs, spatial = p.out_blocks // t.out_blocks, (p.rows // t.rows) * (p.columns // t.columns)
        self._tiles = p.batch * outs * spatial // t.threads
        inner = outs // t.out_threads if t.spatial_outer else spatial // t.row_threads
        for place in places(p, t):
            program.tile(place)
            done, length = len(program.tile_ends), len(program.operations)
            if length > MOST and (done >= 4 and done % (2 * inner) == 0 or done >= 2 and length > 2 * MOST):
                break
        self._operations, self._tile_ends = program.operations, program.tile_ends

    @property
    def operations(self) -> int:
        """How many are looked at."""
        return len(self._operations)

    def _whole(self, ends: Sequence[float]) -> float:
        """Cycles of the whole program, from when the operations that are looked at end."""
        seen = len(self._tile_ends)
        half = seen // 2
        end, before = (max(ends[: self._tile_ends[n - 1]], default=0.0) for n in (seen, half or 1))
        more = (self._tiles - seen) * (end - before) / (seen - half) if seen < self._tiles else 0.0
        return end + more + 2

    def alone(self) -> float:
        """Cycles as if each instruction had the bus for itself: no more than `cycles`, in less time."""
        line = Alone(self._bus)
        line.add(self._operations)
        return max(self._whole(line.ends), line.beats * self._tiles / len(self._tile_ends))

    def cycles(self) -> float:
        return self._whole(Timeline(self._operations, self._bus).ends)


def estimate(p: Problem, t: Tiling, config: Configuration) -> float:
    """Cycles of the whole problem."""
    return Outlook(p, t, config).cycles()


def least(p: Problem, t: Tiling, config: Configuration, enough: float = float("inf")) -> float:
    """Cycles that the program of a tiling takes at least: each instruction as if it had the bus for itself, and all beats of the bus. No
    further tiles are looked at when it is `enough`, or after MOST_OF_LEAST operations."""
    program, line = _Program(p, t, config), Alone(bus_of(config))
    for place in places(p, t):
        program.tile(place)
        line.add(program.operations[len(line.ends) :])
        if line.end >= enough or len(line.ends) > MOST_OF_LEAST:
            break
    return line.end


__all__ = ["MOST", "Outlook", "Place", "estimate", "least", "places"]
