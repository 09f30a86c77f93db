"""Attention on warpgroups (sm_90a): a warp copies boxes of keys and values by tensor maps, warpgroups multiply them where they are.

Four warps have 64 queries, 16 each, which stay in registers as the first operand of the first product; its second one, the keys of a step,
and the values are in shared memory in the swizzle that wgmma reads. Scores, weights and sums are in registers as on matrix units
(`attention_units.py`): the order of wgmma's sums is that of mma's, so the weights are the first operand of the second product.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tilewright.arith import Analyzer
from tilewright.arith.pattern import constant_step
from tilewright.ir import IntImm
from tilewright.node import nodes_of
from tilewright.scheduling.attention_stages import Stages
from tilewright.scheduling.block_views import BlockView, KernelView
from tilewright.scheduling.gpu.attention_tiles import MOST_REGISTERS, AttentionTile
from tilewright.scheduling.gpu.attention_units import OnUnits
from tilewright.scheduling.gpu.fragments import SCOPE, by_lanes, layout_of_sums
from tilewright.scheduling.gpu.warpgroups import GROUP_ROWS, WARP_ROWS, box_to_shared
from tilewright.target import Target
from tilewright.tir import LT, BufferLoad, Call
from tilewright.tir.arithmetic import conjuncts
from tilewright.tir.schedule import BlockRV, LoopRV, Schedule
from tilewright.tir.tensor_intrin.wgmma import Operand, wgmma_intrin_name
from tilewright.tir.transform.thread.warp_specialization import SPECIALIZED
from tilewright.tir.warpgroups import PRODUCTS

SWIZZLE = 128
"""Bytes of the rows of keys and values in shared memory."""
ROW = 64
"""Elements of such a row."""
MOST_COLUMNS = 256
"""Columns of a product of a warpgroup."""
KEYS, VALUES = Operand(False, SWIZZLE), Operand(True, SWIZZLE)


class OnWarpgroups(OnUnits):
    """The steps of a kernel's schedule that depend on who has what."""

    def __init__(self, sch: Schedule, tile: AttentionTile) -> None:
        super().__init__(sch, tile, "")
        self.boxes: list[tuple[BlockRV, Operand]] = []

    def stage_values(self, sums: BlockRV, copy: BlockRV, steps: LoopRV) -> None:
        """O += W * V: values from shared memory."""
        self.value_name = self._product(sums, VALUES)
        self._boxes(sums, copy, steps, VALUES)

    def stage_keys(
        self, products: BlockRV, query: BlockRV, key: BlockRV, blocks: LoopRV, warps: LoopRV, steps: LoopRV
    ) -> None:
        """S = Q * K: keys from shared memory; queries are in registers, once for all steps."""
        self.key_name = self._product(products, KEYS)
        self.queries = self.sch.cache_read(products, 0, "warp", [products])
        self.sch.compute_at(self.queries, warps)
        self.sch.compute_inline(query)
        self._boxes(products, key, steps, KEYS)

    def _product(self, block: BlockRV, operand: Operand) -> str:
        """The loops of a product: steps of an instruction, which is as wide as the tile. Returns its name."""
        sch = self.sch
        made: Any = sch.get(block)
        dtype, sums = str(made.reads[1].buffer.dtype), str(made.writes[0].buffer.dtype)
        m, n, k = sch.get_loops(block)[4:]
        width = int(sch.get(n).extent.value)
        k1, ki = sch.split(k, [None, PRODUCTS[dtype].k])
        sch.reorder(k1, m, n, ki)
        sch.unroll(k1)
        return wgmma_intrin_name(dtype, sums, width, None, operand)

    def _boxes(self, block: BlockRV, copy: BlockRV, steps: LoopRV, operand: Operand) -> None:
        """The second operand in shared memory, a tile of each step."""
        sch = self.sch
        shared = sch.cache_read(block, 1, SCOPE, [block])
        sch.compute_at(shared, steps)
        sch.compute_inline(copy)
        self.boxes.append((shared, operand))

    def read(self, products: BlockRV) -> None:
        """Who copies and who loads what; after all stages have their places, for which accesses must be plain."""
        sch = self.sch
        made: Any = sch.get(self.queries)
        for shared, operand in self.boxes:
            box_to_shared(sch, shared, operand, str(made.writes[0].buffer.dtype))
        layout_of_sums(sch, self.queries)
        by_lanes(sch, self.queries, vectors=True)
        first = sch.decompose_reduction(products, sch.get_loops(products)[4])
        layout_of_sums(sch, products, self.tile.keys)
        by_lanes(sch, first)
        sch.tensorize(sch.get_loops(products)[5], self.key_name)

    def elements(
        self, scores: Sequence[BlockRV], sums: BlockRV, start: BlockRV, rescaled: BlockRV, end: BlockRV
    ) -> None:
        """Scores, weights and sums, all in registers."""
        sch = self.sch
        for block in scores:
            layout_of_sums(sch, block)
            by_lanes(sch, block)
        made: Any = sch.get(sums)
        layout_of_sums(sch, sums, int(made.writes[0].buffer.shape[-1].value))
        for block in (rescaled, start):
            by_lanes(sch, block)
        sch.tensorize(sch.get_loops(sums)[5], self.value_name)
        by_lanes(sch, end, vectors=True)

    def run_ahead(self, steps: LoopRV, in_flight: int) -> None:
        """A warp copies so many tiles ahead."""
        self.sch.annotate(steps, SPECIALIZED, in_flight)


def suits_warpgroups(view: KernelView, stages: Stages, tile: AttentionTile, target: Target) -> bool:
    """Whether warpgroups can compute an attention: types and tiles that wgmma has, keys and values that are boxes of tensors."""
    gpu, dtype = target.gpu, stages.shares.block.writes[0].buffer.dtype
    if (
        not (target.kind.name == "cuda" and gpu.has_wgmma and gpu.has_tma)
        or dtype.bits != 16
        or stages.weights.name == stages.shares.name
    ):
        return False
    deep, wide = stages.products.extents[-1], stages.sums.extents[-2]
    rows = tile.of_warp == WARP_ROWS and tile.rows % GROUP_ROWS == 0
    columns = deep % ROW == wide % ROW == tile.keys % WARP_ROWS == 0 and max(wide, tile.keys) <= MOST_COLUMNS
    # Scores, weights in both types, sums and queries; what addresses and rows take.
    fits = 3 * tile.keys // 4 + wide // 2 + deep // 4 + 40 <= MOST_REGISTERS
    values = view.producer(stages.sums, 1)
    return rows and columns and fits and _is_box(view, stages.keys) and _is_box(view, values)


def _is_box(view: KernelView, block: BlockView) -> bool:
    """Whether a block brings rows of a tensor of global memory, one for each key, to whole tiles: the last index runs along a row, one
    other index along keys, and zeros are behind the last key only."""
    loads = nodes_of(block.block.body, BufferLoad)
    if view.producers(block) or len(loads) != 1 or loads[0].buffer.strides:
        return False
    load, analyzer = loads[0], Analyzer()
    shape = [n.value if isinstance(n, IntImm) else 0 for n in load.buffer.shape]
    if 0 in shape or not 2 <= len(shape) <= 5 or shape[-1] * load.buffer.dtype.bytes % 16:
        return False
    for axis in block.spatial:
        if axis.dom is not None:
            analyzer.bind(axis.var, axis.dom)
    _, key, element, *_ = block.spatial
    by_key, by_element = [[constant_step(i, axis.var, analyzer) for i in load.indices] for axis in (key, element)]
    along_keys = by_key.count(1) == 1 and by_key.count(0) == len(shape) - 1 and by_key[-1] == 0
    if not along_keys or by_element != [*[0] * (len(shape) - 1), 1]:
        return False
    calls = [e for e in nodes_of(block.block.body, Call) if e.intrinsic == "if_then_else"]
    ends = [c for call in calls for c in conjuncts(call.args[0])]
    return all(
        [
            isinstance(c, LT)
            and any([analyzer.can_prove_equal(c.a - c.b, i - n) for i, n in zip(load.indices, shape, strict=True)])
            for c in ends
        ]
    )


__all__ = ["OnWarpgroups", "suits_warpgroups"]
