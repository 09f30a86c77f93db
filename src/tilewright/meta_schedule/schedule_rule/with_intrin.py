"""The rule that tiles for an instruction."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from importlib import import_module
from itertools import product
from typing import Any

from tilewright.meta_schedule.blocks import loop_kinds
from tilewright.meta_schedule.schedule_rule.multi_level_tiling import MultiLevelTiling, Tiled
from tilewright.support.errors import ScheduleError
from tilewright.tir.schedule import BlockRV, Schedule, TensorIntrin
from tilewright.tir.schedule.facts.leaves import int_extent, leaf_of, leaves

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
        for places, sizes in self._places(sch, block):
            tried = sch.copy()
            try:
                tile = _with_tile(tried, block, places, sizes)
                tried.decompose_reduction(tile, tried.get_loops(tile)[0])
                tried.tensorize(tile, self.intrin_name)
            except ScheduleError:
                continue
            state.block = _with_tile(sch, block, places, sizes)
            sch.annotate(state.block, KEY, self.intrin_name)
            super().prepare(state)
            return
        raise ScheduleError(f"the tensor intrinsic {self.intrin_name} computes no tile of the block")

    def _places(self, sch: Schedule, block: BlockRV) -> Iterator[tuple[tuple[int, ...], list[int]]]:
        """The loops of a block that may be those of the intrinsic, by their numbers, and the extents of the latter; inner loops first."""
        wanted = _description(self.intrin_name)
        kinds, loops = loop_kinds(sch, block), leaf_of(sch.get_sref(block)).loops
        fitting = [
            [i for i in reversed(range(len(loops))) if kinds[i] == kind and (int_extent(loops[i]) or 1) % extent == 0]
            for kind, extent in wanted
        ]
        for places in product(*fitting):
            if list(places) == sorted(set(places)):
                yield places, [extent for _, extent in wanted]


def _description(name: str) -> list[tuple[str, int]]:
    """The kinds and the extents of the loops that an intrinsic describes. Raises ScheduleError if there is no such intrinsic."""
    for family in ("arm", "cuda", "wasm", "x86"):
        import_module(f"tilewright.tir.tensor_intrin.{family}")  # registers its instructions
    intrin = TensorIntrin.get(name, allow_missing=True)
    if intrin is None:
        raise ScheduleError(f"there is no tensor intrinsic {name!r}")
    sch = Schedule(intrin.desc)
    (root,) = sch.state.roots.values()
    below = leaves(root.stmt.body)
    if len(below) != 1:
        raise ScheduleError(f"the tensor intrinsic {name!r} describes several blocks")
    block = sch.get_block(below[0].block.name_hint)
    extents = [int_extent(loop) or 1 for loop in below[0].loops]
    return list(zip(loop_kinds(sch, block), extents, strict=True))


def _with_tile(sch: Schedule, block: BlockRV, places: tuple[int, ...], sizes: list[int]) -> BlockRV:
    """Makes a block of a tile of these loops. Raises ScheduleError where a step is refused."""
    loops = sch.get_loops(block)
    outer, inner = [], []
    for i, loop in enumerate(loops):
        if i in places:
            parts = sch.split(loop, [None, sizes[places.index(i)]])
            outer.append(parts[0])
            inner.append(parts[1])
        else:
            outer.append(loop)
    sch.reorder(*outer, *inner)
    return sch.blockize(inner[0])
