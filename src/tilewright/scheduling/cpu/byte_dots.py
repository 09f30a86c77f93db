"""Products of vectors of 16 bytes that an instruction adds to a general register (Arm's Helium): convolutions and dense layers.

for lines: for tiles of places:
  strip: bytes of the tile
  for filters (t at once):
    init t x places
    for kernel rows: for vectors: unrolled t: unrolled places: sum += vector * vector
    sums of t x places in memory
  epilogue of all filters x places, in vectors along filters
"""

from __future__ import annotations

from tilewright.scheduling.block_views import BlockView, KernelView, extent_of
from tilewright.scheduling.cpu.epilogue import vectorize_tile
from tilewright.scheduling.cpu.injective import vector_width
from tilewright.scheduling.cpu.paired import filters_together, loops_below, unrolled_steps
from tilewright.target import Target
from tilewright.tir.schedule import LoopRV
from tilewright.tir.tensor_intrin.arm_mve import VMLADAV_16_INTRIN
from tilewright.topi.stages import BYTE_DOTS, MATERIALIZE


def is_byte_dots(block: BlockView, target: Target) -> bool:
    """Whether a block sums products of vectors of bytes, by an instruction that the target has."""
    return BYTE_DOTS in block.block.annotations and target.cpu.byte_dots


def schedule_byte_dots(view: KernelView, block: BlockView, target: Target) -> None:
    """Schedule one product of vectors of bytes, with its data and its epilogue."""
    sch, places = view.sch, int(block.block.annotations[BYTE_DOTS])
    strips = [rv for rv in sch.get_producers(block.rv) if MATERIALIZE in sch.get(rv).annotations]
    loops = view.loops(block)
    spatial = len(block.spatial)
    *lines, place, filters = loops[:spatial]
    *steps, lane = loops[spatial:]
    tile, place = sch.split(place, [None, places], disable_predication=True)
    panel, filter_ = sch.split(filters, [None, filters_together(block)], disable_predication=True)
    unrolled = unrolled_steps(view, block, steps)
    sch.reorder(*lines, tile, panel, *steps, *unrolled, filter_, place, lane)
    consumers = view.consumers(block)
    alone = len(consumers) == 1 and consumers[0].is_injective and block.name not in view.outputs()
    sums = sch.cache_write(block.rv, 0, "local")
    sch.reverse_compute_at(sums, panel)
    if alone:
        # Refused where it reads other elements than those of one tile.
        with sch.tried(f"{consumers[0].name} tile by tile") as step:
            sch.reverse_compute_at(consumers[0].rv, tile)
        if not step.refused:
            vectorize_tile(sch, consumers[0].rv, tile, target.cpu.lanes(32), unrolled=False)
    for strip in strips:
        _copy(view, BlockView(sch, strip), tile)
    init = sch.decompose_reduction(block.rv, steps[0] if steps else unrolled[0])
    for loop in (*unrolled, filter_, place):
        sch.unroll(loop)
    for each in (init, sums):
        for loop in loops_below(view, each, panel):
            sch.unroll(loop)
    sch.tensorize(lane, VMLADAV_16_INTRIN)


def _copy(view: KernelView, strip: BlockView, tile: LoopRV) -> None:
    """Copy the bytes of a tile, as many at once as are within the data, or not, together."""
    sch, together = view.sch, int(strip.block.annotations[MATERIALIZE])
    sch.compute_at(strip.rv, tile)
    last = sch.get_loops(strip.rv)[-1]
    width = min(vector_width(extent_of(sch.get(last)), 16), together)
    if width >= 4:
        _, vector = sch.split(last, [None, width], disable_predication=True)
        sch.vectorize(vector)


__all__ = ["is_byte_dots", "schedule_byte_dots"]
