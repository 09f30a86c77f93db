"""What reads the sums of a contraction, tile by tile: epilogues, sums of lanes, producers and consumers of one group."""

from __future__ import annotations

from tilewright.ir import IntImm
from tilewright.scheduling.block_views import BlockView, KernelView, extent_of
from tilewright.scheduling.cpu.injective import vector_width
from tilewright.tir import Buffer, Var
from tilewright.tir.schedule import BlockRV, LoopRV, Schedule

UNROLLED = 128
"""Iterations of an epilogue's loops up to which they are unrolled."""


def attach_epilogue(view: KernelView, block: BlockView, tile: LoopRV, crowded: bool = False) -> list[BlockRV]:
    """Move the readers of the result under the tile loop, and keep the accumulators in local storage.

    Without a reader, a copy from the accumulators to the result is made. A reader that does not index accumulators by
    their axes reads a copy in memory, so that the accumulators can stay in registers. The same holds for a reader with
    long chains of instructions if accumulators take most registers (`crowded`): a loop over the copy has registers for
    its constants, and spills nothing.
    """
    sch = view.sch
    consumers = view.consumers(block)
    alone = len(consumers) == 1 and consumers[0].is_injective and block.name not in view.outputs()
    reader = consumers[0] if alone else None
    far = reader is not None and crowded and reader.is_chained
    if reader is not None and not far and _by_axes(reader, block.block.writes[0].buffer):
        # Refused where it reads other elements than those of one tile (a transposition, a window).
        with sch.tried(f"{reader.name} tile by tile, on sums in registers") as step:
            sch.reverse_compute_at(reader.rv, tile)
        if not step.refused:
            sch.set_scope(block.rv, 0, "local")
            return [reader.rv]
        reader = None
    copy = sch.cache_write(block.rv, 0, "local")
    sch.reverse_compute_at(copy, tile)
    if reader is None:
        return [copy]
    with sch.tried(f"{reader.name} tile by tile, on a copy of sums") as step:
        sch.reverse_compute_at(reader.rv, tile)
    if step.refused:
        return [copy]
    sch.set_scope(copy, 0, "local")
    return [copy, reader.rv]


def attach_own_data(view: KernelView, block: BlockView, epilogue: BlockRV, group: LoopRV, lanes: int) -> None:
    """Move the producers and consumers of one group into its loop (its padded data, the readers of its results). Both
    then stay in the first caches.
    """
    sch = view.sch
    found = [block.rv]
    for reader in found:
        for rv in sch.get_producers(reader):
            producer = BlockView(sch, rv)
            if producer.is_injective and len(view.consumers(producer)) == 1:
                # Refused where groups read the same of it.
                with sch.tried(f"{producer.name} in the loop over groups") as step:
                    sch.compute_at(rv, group)
                if not step.refused:
                    found.append(rv)
    for consumer in view.consumers(BlockView(sch, epilogue)):
        if consumer.is_injective:
            # Refused where it reads several groups at once.
            with sch.tried(f"{consumer.name} in the loop over groups") as step:
                sch.reverse_compute_at(consumer.rv, group)
            if not step.refused:
                found.append(consumer.rv)
    for rv in found[1:]:
        last = sch.get_loops(rv)[-1]
        extent = extent_of(sch.get(last))
        width = vector_width(extent, lanes)
        if width == 1 and extent > 4:
            width = min(lanes, 1 << (extent - 1).bit_length())
        if width > 1:
            _, vector = sch.split(last, [None, width])
            sch.vectorize(vector)


def attach_folds(view: KernelView, block: BlockView, tile: LoopRV) -> list[BlockRV]:
    """Move the blocks that add the lanes of sums under the tile loop. Returns them without the last one, which has no
    vectors.
    """
    sch = view.sch
    found = [sch.cache_write(block.rv, 0, "local")]
    sch.reverse_compute_at(found[0], tile)
    while consumers := view.consumers(BlockView(sch, found[-1])):
        # Refused where it reads other elements than those of one tile, and so all of them when they are there.
        with sch.tried(f"{consumers[0].name} tile by tile, on sums of lanes") as step:
            sch.reverse_compute_at(consumers[0].rv, tile)
        if step.refused:
            return found
        sch.set_scope(found[-1], 0, "local")
        found.append(consumers[0].rv)
    *folds, last = found
    loops = view.loops(last)
    for loop in loops[[sch.get(x) for x in loops].index(sch.get(tile)) + 1 :]:
        sch.unroll(loop)
    return folds


def _by_axes(block: BlockView, of: Buffer | None = None) -> bool:
    """Whether a block reads sums by their own axes (of a buffer, or all in local storage), without combining several
    into one index.
    """
    sums = [r for r in block.block.reads if (r.buffer.scope() == "local" if of is None else r.buffer is of)]
    return all([isinstance(i.min, (Var, IntImm)) for r in sums for i in r.region])


def vectorize_tile(
    sch: Schedule, block: BlockRV, tile: LoopRV, lanes: int, masked: bool = True, unrolled: bool = True
) -> None:
    """Vectorise the last loop of a block below the tile loop, and unroll the others as far as they are a tile.

    `masked`: a loop shorter than a vector becomes part of a vector of the width that its inputs have, so that they can
    stay in registers.
    """
    loops = sch.get_loops(block)
    below = loops[[sch.get(loop) for loop in loops].index(sch.get(tile)) + 1 :]
    if not below:
        return
    last = below[-1]
    extent = extent_of(sch.get(last))
    rest = below[:-1]
    if extent % lanes == 0:
        lanes = min(extent, BlockView(sch, block).vector_elements(extent, lanes))
    if extent > lanes or (masked and 1 < extent < lanes and _by_axes(BlockView(sch, block))):
        outer, last = sch.split(last, [None, lanes])
        rest = [*rest, outer]
    # Refused where a predicate on the last axis keeps the loop scalar.
    with sch.tried(f"vectors of {sch.get(block).name_hint}") as step:
        sch.vectorize(last)
    if step.refused:
        rest = [*rest, last]
    rounds = 1
    for loop in reversed(rest) if unrolled else ():
        rounds *= extent_of(sch.get(loop))
        if rounds > UNROLLED:
            # More than a tile: all that a reader reads of one, along the axis that was reduced too.
            break
        sch.unroll(loop)
