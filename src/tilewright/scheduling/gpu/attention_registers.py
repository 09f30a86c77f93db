"""Attention without matrix units: each thread computes a tile of scores, and one of sums, in its registers.

16 threads along x share the rows of a thread y: each has every 16th key of a step, and every 16th element of the values. What belongs to a
row all of them have; reductions along a row are of 16 threads, by shuffles. Weights pass through shared memory to the second product.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tilewright.scheduling.gpu.attention_tiles import ACROSS, AttentionTile
from tilewright.scheduling.gpu.grids import run_copies_ahead
from tilewright.scheduling.gpu.tiled_copies import Threads, copy_rows_by_threads, vector_of
from tilewright.tir.schedule import BlockRV, LoopRV, Schedule

STEP = 4
"""Elements of queries and keys that a thread multiplies at once: a vector of shared memory."""


class InRegisters:
    """The steps of a kernel's schedule that depend on who has what. copies: those to shared memory that run ahead."""

    def __init__(self, sch: Schedule, tile: AttentionTile, scope: str) -> None:
        self.sch, self.tile, self.scope = sch, tile, scope
        self.threads = Threads(1, tile.rows // tile.of_warp, ACROSS)
        self.copies: list[BlockRV] = []
        self.loads: list[tuple[BlockRV, bool]] = []

    def keep(self, rows: Sequence[BlockRV], elements: Sequence[BlockRV], shares: BlockRV) -> None:
        """Results of stages in registers: those of rows, and of elements; the weights that the second product reads in shared memory."""
        for block in (*rows, *elements):
            self.sch.set_scope(block, 0, "local")
        self.sch.set_scope(shares, 0, self.scope)

    def stage_values(self, sums: BlockRV, copy: BlockRV, steps: LoopRV) -> None:
        """O += W * V: values through shared memory."""
        sch = self.sch
        row, column, key = sch.get_loops(sums)[4:]
        c0, c1 = sch.split(column, [None, ACROSS])
        k0, k1 = sch.split(key, [None, STEP])
        sch.reorder(c1, k0, k1, row, c0)
        sch.unroll(k1)
        shared = sch.cache_read(sums, 1, self.scope, [sums])
        sch.compute_at(shared, steps)
        sch.compute_inline(copy)
        self.loads.append((shared, False))
        self.copies.append(shared)

    def stage_keys(
        self, products: BlockRV, query: BlockRV, key: BlockRV, blocks: LoopRV, warps: LoopRV, steps: LoopRV
    ) -> None:
        """S = Q * K: queries, once for all steps, and keys through shared memory."""
        sch = self.sch
        row, column, depth = sch.get_loops(products)[4:]
        d0, d1 = sch.split(depth, [None, STEP])
        sch.reorder(d0, d1, row, column)
        for place, copy, at in ((0, query, blocks), (1, key, steps)):
            shared = sch.cache_read(products, place, self.scope, [products])
            sch.compute_at(shared, at)
            sch.compute_inline(copy)
            self.loads.append((shared, place == 1))
            if place == 1:
                self.copies.append(shared)

    def read(self, products: BlockRV) -> None:
        """Who copies and who multiplies what."""
        sch = self.sch
        for shared, read_by_rows in self.loads:
            made: Any = sch.get(shared)
            buffer = made.writes[0].buffer
            vector = vector_of(made, buffer.dtype.bytes, int(buffer.shape[-1].value))
            copy_rows_by_threads(sch, shared, self.threads, vector)
            if read_by_rows:
                # Threads read vectors of 16 rows, which begin in different banks.
                sch.storage_align(shared, 0, -2, 32, STEP)
        d0, d1, row, column = sch.get_loops(products)[4:]
        first = sch.decompose_reduction(products, d0)
        c0, c1 = sch.split(column, [None, ACROSS])
        sch.reorder(c1, d0, d1, row, c0)
        sch.unroll(d1)
        self._by_threads(products, c1)
        self._divided(first)
        self._own(products)

    def run_ahead(self, steps: LoopRV, in_flight: int) -> None:
        """The copies of keys and values run some steps ahead."""
        if in_flight > 1:
            run_copies_ahead(self.sch, steps, in_flight, self.copies)

    def parts_of_row(self, block: BlockRV) -> list[BlockRV]:
        """The threads of a row reduce their parts at once."""
        return []

    def rows(
        self,
        tops: Sequence[BlockRV],
        totals: Sequence[BlockRV],
        factor: BlockRV,
        others: Sequence[BlockRV],
    ) -> None:
        """Maxima, totals and factors: each thread of a row has them, and computes them for itself but for the reductions."""
        sch = self.sch
        for block in (tops[1], totals[1]):
            row, column = sch.get_loops(block)[4:]
            c0, c1 = sch.split(column, [None, ACROSS])
            sch.reorder(row, c1, c0)
            sch.bind(c1, "threadIdx.x")
            for loop in (row, c0):
                sch.unroll(loop)
        for block in (tops[0], totals[0], factor, *others):
            sch.unroll(sch.get_loops(block)[-1])

    def elements(
        self, scores: Sequence[BlockRV], sums: BlockRV, start: BlockRV, rescaled: BlockRV, end: BlockRV
    ) -> None:
        """Scores, weights and sums: every 16th of a row."""
        sch = self.sch
        for block in dict.fromkeys([*scores, end]):
            self._divided(block)
        for block in (start, rescaled, sums):
            self._by_threads(block, sch.get_loops(block)[-3 if block is not sums else 4])
        for block in dict.fromkeys([*scores, sums]):
            made: Any = sch.get(block)
            if made.writes[0].buffer.scope() == "local":
                self._own(block)
            elif block is scores[-1]:
                # Rows of threads along y begin in different banks.
                sch.storage_align(block, 0, -2, 32, STEP)

    def _divided(self, block: BlockRV) -> None:
        """The last two loops of a block, rows and what threads share of them."""
        row, column = self.sch.get_loops(block)[-2:]
        c0, c1 = self.sch.split(column, [None, ACROSS])
        self.sch.reorder(c1, row, c0)
        self._by_threads(block, c1)

    def _by_threads(self, block: BlockRV, across: LoopRV) -> None:
        sch = self.sch
        sch.bind(across, "threadIdx.x")
        for loop in sch.get_loops(block)[-2:]:
            sch.unroll(loop)

    def _own(self, block: BlockRV) -> None:
        """The elements of each thread, apart from those of others."""

        def layout(*at: Any) -> list[Any]:
            *batch, i, j = at
            return [*batch, i, j // ACROSS, j % ACROSS]

        self.sch.transform_layout(block, ("write", 0), layout)


__all__ = ["InRegisters"]
