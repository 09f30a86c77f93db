"""The rule that tiles for processors with long vectors."""

from __future__ import annotations

from typing import Any

from tilewright.meta_schedule.schedule_rule.multi_level_tiling import NO_LIMIT, MultiLevelTiling, Tiled
from tilewright.tir import Var
from tilewright.tir.schedule import LoopRV
from tilewright.tir.schedule.facts.leaves import int_extent, leaf_of


class MultiLevelTilingWideVector(MultiLevelTiling):
    """Tiles like MultiLevelTiling, but the innermost tile of the loop along which the output is contiguous is a vector, where vectors
    divide it.

    vector_length_in_bits: of a register, such as 1024 of HVX.
    """

    def __init__(
        self,
        structure: str,
        vector_length_in_bits: int,
        max_innermost_factor: int | None = None,
        reuse_read: Any = None,
        reuse_write: Any = None,
    ) -> None:
        super().__init__(structure, None, max_innermost_factor, None, reuse_read, reuse_write)
        self.vector_length_in_bits = vector_length_in_bits

    def parts(self, state: Tiled, loop: LoopRV, count: int) -> list[LoopRV]:
        sch = state.sch
        (written,) = sch.get(state.block).writes
        lanes = max(self.vector_length_in_bits // int(written.buffer.dtype.bits), 1)
        if not _is_contiguous(state, loop) or (int_extent(sch.get(loop)) or 0) % lanes:
            return super().parts(state, loop, count)
        outer, inner = sch.split(loop, [None, lanes])
        factors = sch.sample_perfect_tile(outer, count - 1, self.max_innermost_factor or NO_LIMIT)
        return [*sch.split(outer, [*factors]), inner]


def _is_contiguous(state: Tiled, loop: LoopRV) -> bool:
    """Whether a loop runs along the last dimension of the output of the block."""
    leaf = leaf_of(state.sch.get_sref(state.block))
    last = leaf.block.writes[0].region[-1].min
    bound = {iv.var: value for iv, value in zip(leaf.block.iter_vars, leaf.realize.iter_values, strict=True)}
    return isinstance(last, Var) and bound.get(last) is state.sch.get(loop).loop_var
