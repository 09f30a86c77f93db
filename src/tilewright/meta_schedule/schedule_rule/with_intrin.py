"""The rule that tiles for an instruction."""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module
from typing import Any

from tilewright.meta_schedule.schedule_rule.multi_level_tiling import MultiLevelTiling, Tiled
from tilewright.support.errors import ScheduleError
from tilewright.tir.schedule import TensorIntrin
from tilewright.tir.schedule.intrinsic_tiles import tile_with_tensor_intrin

KEY = "meta_schedule.auto_tensorize"


class MultiLevelTilingWithIntrin(MultiLevelTiling):
    """Tiles like MultiLevelTiling, around a tile that a tensor intrinsic computes. Blocks that the intrinsic does not fit are left alone.

    intrin_name: of a registered TensorIntrin. The post-processor RewriteTensorize puts it in place.
    """

    def __init__(
        self,
        intrin_name: str,
        structure: str,
        tile_binds: Sequence[str] | None = None,
        max_innermost_factor: int | None = None,
        vector_load_lens: Sequence[int] | None = None,
        reuse_read: Any = None,
        reuse_write: Any = None,
    ) -> None:
        super().__init__(structure, tile_binds, max_innermost_factor, vector_load_lens, reuse_read, reuse_write)
        self.intrin_name = intrin_name

    def prepare(self, state: Tiled) -> None:
        sch, block = state.sch, state.block
        import_module("tilewright.tir.tensor_intrin")  # registers instructions
        intrin = TensorIntrin.get(self.intrin_name, allow_missing=True)
        if intrin is None:
            raise ScheduleError(f"there is no tensor intrinsic {self.intrin_name!r}")
        loop = tile_with_tensor_intrin(sch, block, self.intrin_name)
        if loop is None:
            raise ScheduleError(f"the tensor intrinsic {self.intrin_name} computes no tile of the block")
        state.block = sch.blockize(loop)
        sch.annotate(state.block, KEY, self.intrin_name)
        super().prepare(state)
