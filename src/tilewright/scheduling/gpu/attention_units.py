"""Attention on matrix units: scores, weights and sums are tiles of 16 x 16 in the registers of a warp, as mma has them.

Lane 4 * g + q has the rows g and 8 + g of a tile, and the columns 2 * q, 2 * q + 1, 8 + 2 * q, 8 + 2 * q + 1. The weights are the first
operand of the second product just where they are. What belongs to a row (maximum, total, factor) each of its four lanes has for itself;
a reduction along a row is first one of each lane, then one of four lanes, by shuffles.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tilewright.scheduling.gpu.attention_tiles import AttentionTile, holds_queries
from tilewright.scheduling.gpu.fragments import (
    LANES_OF_ROW,
    SCOPE,
    SIDE,
    by_lanes,
    layout_of_sums,
    load_operand,
    tensorize_tiles,
)
from tilewright.scheduling.gpu.grids import run_copies_ahead
from tilewright.scheduling.gpu.tiled_copies import PERMUTED, Threads, copy_rows_by_threads, is_permuted, vector_of
from tilewright.tir.schedule import BlockRV, LoopRV, Schedule
from tilewright.tir.tensor_intrin import mma

STEP = 16
"""Elements along a sum that an instruction takes."""


class OnUnits:
    """The steps of a kernel's schedule that depend on who has what. copies: those to shared memory that run ahead. instruction: the shape
    of mma."""

    def __init__(self, sch: Schedule, tile: AttentionTile, instruction: str) -> None:
        self.sch, self.tile, self.instruction = sch, tile, instruction
        self.threads = Threads(1, tile.rows // tile.of_warp, 32)
        self.copies: list[BlockRV] = []
        self.loads: list[tuple[BlockRV, BlockRV, str, bool, dict[str, str]]] = []

    def keep(self, rows: Sequence[BlockRV], elements: Sequence[BlockRV], shares: BlockRV) -> None:
        """Results of stages in registers: those of rows, of elements, and the weights that the second product reads."""
        for block in (*rows, *elements, shares):
            self.sch.set_scope(block, 0, "warp")

    # ---- products

    def stage_values(self, sums: BlockRV, copy: BlockRV, steps: LoopRV) -> None:
        """O += W * V: values through shared memory to registers."""
        self.value_names = self._of_product(sums, trans_b=False)
        shared, registers = self._staged(sums, 1, copy, steps, self.sch.get_loops(sums)[4])
        self.loads.append((shared, registers, "b", False, self.value_names))
        self.copies.append(shared)

    def stage_keys(
        self, products: BlockRV, query: BlockRV, key: BlockRV, blocks: LoopRV, warps: LoopRV, steps: LoopRV
    ) -> None:
        """S = Q * K: keys through shared memory to registers; queries too, once for all steps."""
        sch = self.sch
        depth = sch.get(sch.get_loops(products)[-1]).extent.value
        self.key_names = self._of_product(products, trans_b=True)
        k1 = sch.get_loops(products)[4]
        held = holds_queries(self.tile, depth)
        places = ((query, blocks, warps if held else k1), (key, steps, k1))
        for place, (copy, to_shared, to_registers) in enumerate(places):
            shared, registers = self._staged(products, place, copy, to_shared, to_registers)
            self.loads.append((shared, registers, "ab"[place], place == 1, self.key_names))
            if place == 1:
                self.copies.append(shared)

    def _staged(
        self, block: BlockRV, place: int, copy: BlockRV, to_shared: LoopRV, to_registers: LoopRV
    ) -> tuple[BlockRV, BlockRV]:
        sch = self.sch
        shared, registers = sch.cache_read(block, place, SCOPE, [block]), sch.cache_read(block, place, "warp", [block])
        sch.compute_at(registers, to_registers)
        sch.compute_at(shared, to_shared)
        sch.compute_inline(copy)
        return shared, registers

    def read(self, products: BlockRV) -> None:
        """Who copies and who loads what; after all stages have their places, for which accesses must be plain."""
        sch = self.sch
        for shared, registers, name, trans, names in self.loads:
            self._shared(shared)
            self._registers(registers, name, trans, names)
        first = sch.decompose_reduction(products, sch.get_loops(products)[4])
        layout_of_sums(sch, products)
        tensorize_tiles(sch, first, self.key_names["init"])
        sch.tensorize(sch.get_loops(products)[7], self.key_names["compute"])

    def _of_product(self, block: BlockRV, trans_b: bool) -> dict[str, str]:
        """The loops of a product, in tiles of instructions. Returns the names of these."""
        sch = self.sch
        made: Any = sch.get(block)
        dtype = str(made.reads[1].buffer.dtype)
        sums = str(made.writes[0].buffer.dtype)
        m, n, k = sch.get_loops(block)[4:]
        m1, mi = sch.split(m, [None, SIDE])
        n1, ni = sch.split(n, [None, SIDE])
        k1, ki = sch.split(k, [None, STEP])
        sch.reorder(k1, m1, n1, mi, ni, ki)
        for loop in (k1, m1, n1):
            sch.unroll(loop)
        return mma.get_mma_intrin_group(SCOPE, "global", dtype, sums, False, trans_b, instruction=self.instruction)

    def _shared(self, shared: BlockRV) -> None:
        sch = self.sch
        made: Any = sch.get(shared)
        length = int(made.writes[0].buffer.shape[-1].value)
        element = made.writes[0].buffer.dtype.bytes
        copy_rows_by_threads(sch, shared, self.threads, vector_of(made, element, length))
        if is_permuted(length, element):
            sch.annotate(shared, PERMUTED, 1)

    def _registers(self, registers: BlockRV, name: str, trans: bool, names: dict[str, str]) -> None:
        made: Any = self.sch.get(registers)
        source = made.reads[0].buffer
        permuted = is_permuted(int(source.shape[-1].value), source.dtype.bytes)
        load_operand(self.sch, registers, name.upper(), trans, STEP, names, permuted)

    # ---- elements

    def elements(
        self, scores: Sequence[BlockRV], sums: BlockRV, start: BlockRV, rescaled: BlockRV, end: BlockRV
    ) -> None:  # fmt: skip
        """Scores, weights and sums, all in registers."""
        sch = self.sch
        for block in scores:
            layout_of_sums(sch, block)
            by_lanes(sch, block)
        layout_of_sums(sch, sums)
        by_lanes(sch, rescaled)
        tensorize_tiles(sch, start, self.value_names["init"])
        sch.tensorize(sch.get_loops(sums)[7], self.value_names["compute"])
        by_lanes(sch, end, vectors=True)

    def run_ahead(self, steps: LoopRV, in_flight: int) -> None:
        """The copies of keys and values run some steps ahead."""
        if in_flight > 1:
            run_copies_ahead(self.sch, steps, in_flight, self.copies)

    # ---- rows

    def parts_of_row(self, block: BlockRV) -> list[BlockRV]:
        """The reduction of a tile of a row: one of what each lane has, then one of four lanes."""
        sch = self.sch
        row, column = sch.get_loops(block)[-2:]
        j0, j1, lane, pair = sch.split(column, [None, 2, LANES_OF_ROW, 2])
        sch.reorder(row, lane, j0, j1, pair)
        return [sch.rfactor(lane, 0)]

    def rows(
        self,
        tops: Sequence[BlockRV],
        totals: Sequence[BlockRV],
        factor: BlockRV,
        others: Sequence[BlockRV],
    ) -> None:
        """Maxima, totals and factors: each lane of a row has its own. others: blocks that write these, too, or hand them
        on to another kernel."""
        sch = self.sch
        copied = [*tops[:2], *totals[:2], factor, *others]
        sch.replicate(copied, LANES_OF_ROW, lambda column: column % 8 // 2)
        for block in (*tops[:2], *totals[:2], factor):
            self._row_layout(block, lambda at: (at[-2], at[-1], at[:-2]))
        for block in (tops[2], totals[2]):
            self._row_layout(block, lambda at: (at[-1], at[0], at[1:-1]))
            lane, row, *rest = sch.get_loops(block)[4:]
            self._over_rows(row, lane, rest)
            for loop in rest:
                sch.unroll(loop)
        for block in (tops[1], totals[1]):
            lane, row, own = sch.get_loops(block)[4:]
            sch.reorder(row, own, lane)
            self._over_rows(row, own, [lane])
            sch.unroll(lane)
        for block in (tops[0], totals[0], factor, *others):
            self._rows_by_lanes(block)

    def _rows_by_lanes(self, block: BlockRV) -> None:
        row, own = self.sch.get_loops(block)[-2:]
        self._over_rows(row, own, [])

    def _over_rows(self, row: LoopRV, lane: LoopRV, rest: Sequence[LoopRV]) -> None:
        sch = self.sch
        i0, i1, row = sch.split(row, [None, 2, 8])
        sch.reorder(i0, i1, row, lane, *rest)
        sch.bind(sch.fuse(row, lane), "threadIdx.x")
        for loop in (i0, i1):
            sch.unroll(loop)

    def _row_layout(self, block: BlockRV, parts: Any) -> None:
        """Rows as (tile, half, lane). parts: the row, the number of the lane in it, and the other indices."""

        def layout(*at: Any) -> list[Any]:
            row, lane, rest = parts(at)
            return [*rest, row // SIDE, row % SIDE // 8, row % 8 * LANES_OF_ROW + lane]

        self.sch.transform_layout(block, ("write", 0), layout)


__all__ = ["OnUnits"]
