"""The rules for CPUs, and the choice of a rule for a block.

tile_products  products in groups, on processors with tile registers (AMX)
contraction    reductions whose last spatial axis is contiguous (convolution, matrix product, pooling):
               a register tile of rows x vectors, the reduction around it, the epilogue after it
scalar_tiles   products on processors without vectors: a tile of sums in registers
windows        depthwise convolutions and pooling: each channel separately, its padding inside the loop over bands of rows
paired         products of pairs of 16-bit numbers (Arm's DSP extension): data is widened for a tile of places, sums in registers
byte_dots      products of vectors of bytes (Arm's Helium): sums in general registers, stored for an epilogue in vectors
winograd       3 x 3 convolutions in Winograd's form: all stages of groups of tiles
strassen       products by Strassen's algorithm: all stages of groups of rows
attention      all stages of attention, in blocks of queries
columns        reductions of one tensor over other axes than its last: strips of columns
rows           reductions along the last axis (softmax, layer norm): one row at a time, vectors along it
interleaved    results of several phases, interleaved (transposed convolutions): their vectors are shuffled in registers
injective      all other blocks: vectors on the last axis, threads on the outer ones; transposed reads are tiles transposed in
               registers; padded rows of narrow pixels are filled, then copied
"""

from __future__ import annotations

from collections.abc import Sequence

from tilewright.scheduling.attention_stages import attention_stages
from tilewright.scheduling.block_views import BlockView, KernelView
from tilewright.scheduling.cpu.attention import in_blocks, schedule_attention
from tilewright.scheduling.cpu.byte_dots import is_byte_dots, schedule_byte_dots
from tilewright.scheduling.cpu.columns import is_columns, schedule_columns
from tilewright.scheduling.cpu.contraction import is_contraction, schedule_contraction
from tilewright.scheduling.cpu.crossing import crossing_of
from tilewright.scheduling.cpu.injective import schedule_injective, schedule_reduction
from tilewright.scheduling.cpu.interleaved import interleaved_vectors, schedule_interleaved
from tilewright.scheduling.cpu.padded_products import pad_products
from tilewright.scheduling.cpu.paired import is_paired, is_paired_channels, schedule_paired, schedule_paired_channels
from tilewright.scheduling.cpu.rows import schedule_rows
from tilewright.scheduling.cpu.scalar_tiles import is_scalar_product, schedule_scalar_product
from tilewright.scheduling.cpu.strassen import schedule_strassen, strassen_product
from tilewright.scheduling.cpu.tile_products import by_tiles, schedule_tiles, tile_of
from tilewright.scheduling.cpu.windows import by_windows, is_strided, is_windowed, schedule_windows
from tilewright.scheduling.cpu.winograd import schedule_winograd, winograd_product
from tilewright.scheduling.inlining import inline_producers, keep_rows
from tilewright.scheduling.kernel_plan import KernelPlan
from tilewright.target import Target
from tilewright.tir import ForKind
from tilewright.tir.schedule import BlockRV, Schedule

REPEATED = 4
"""The number of uses of an index from which on it is computed once and stored."""


def schedule_cpu(sch: Schedule, target: Target, plan: KernelPlan | None = None, root: BlockRV | None = None) -> None:
    """Schedule every block of a kernel, as the plan decides (the cost model, where none is given): those below `root`, or
    below the root block.
    """
    view = KernelView(sch, KernelPlan(target) if plan is None else plan, root)
    if any([0 in block.extents for block in view.blocks()]):
        # Tensors without elements: there is nothing to run faster.
        return
    pad_products(view, target)
    if not any([is_contraction(b, target) for b in view.blocks()]):
        keep_rows(view)
    inline_producers(view, stays)
    reductions = [b for b in view.blocks() if b.reduction]
    winograd, strassen, attention = winograd_product(view), strassen_product(view), attention_stages(view)
    paired = next((b for b in view.blocks() if is_paired(b, target)), None)
    channels = next((b for b in view.blocks() if is_paired_channels(b, target)), None)
    dots = next((b for b in view.blocks() if is_byte_dots(b, target)), None)
    if paired is not None:
        schedule_paired(view, paired)
    elif dots is not None:
        schedule_byte_dots(view, dots, target)
    elif channels is not None:
        schedule_paired_channels(view, channels)
    elif winograd is not None:
        schedule_winograd(view, winograd, target)
    elif strassen is not None:
        schedule_strassen(view, strassen, target)
    elif attention is not None and in_blocks(attention):
        schedule_attention(view, attention, target)
    elif reductions and all([is_columns(b, target) for b in reductions]):
        for block in reductions:
            schedule_columns(view, block, target)
    elif any([is_product(view, b, target) for b in view.blocks()]):
        schedule_contraction_kernel(view, target)
    elif products := [b for b in view.blocks() if is_scalar_product(b, target)]:
        for block in products:
            schedule_scalar_product(view, block, target)
    elif reductions:
        schedule_rows(view, target)
    interleaved = interleaved_vectors(view)
    if interleaved is not None:
        schedule_interleaved(view, interleaved, target)
    for block in view.blocks():
        if block.is_opaque or not has_own_loops(view, block):
            continue
        if block.is_injective:
            schedule_injective(view, block, target)
        else:
            schedule_reduction(view, block, target)


def is_product(view: KernelView, block: BlockView, target: Target) -> bool:
    """Whether a block is computed by register tiles."""
    if is_contraction(block, target):
        return True
    return (is_strided(block, target) and by_windows(view, block, "loops")) or tile_of(block, target) is not None


def schedule_contraction_kernel(view: KernelView, target: Target) -> None:
    """Schedule the heaviest contraction with the epilogue, and smaller ones on their own."""
    found = [b for b in view.blocks() if is_product(view, b, target)]
    contractions = sorted(found, key=lambda b: -b.iterations)
    for block in contractions:
        tiles = tile_of(block, target)
        if tiles is not None and by_tiles(view.plan, block, target):
            schedule_tiles(view, block, target, tiles)
        elif is_windowed(block) and by_windows(view, block, "tiles"):
            schedule_windows(view, block, target)
        else:
            schedule_contraction(view, block, target)


def has_own_loops(view: KernelView, block: BlockView) -> bool:
    """Whether no rule has changed the loops of a block: one serial loop for each of its axes, and no other block in
    them.
    """
    loops = [view.sch.get(loop) for loop in view.loops(block)]
    if any([loop.kind != ForKind.SERIAL for loop in loops]) or len(loops) != len(block.block.iter_vars):
        return False
    return not loops or len(view.sch.get_child_blocks(view.loops(block)[0])) == 1


def _is_number_of_row(view: KernelView, block: BlockView, consumers: Sequence[BlockView]) -> bool:
    """Whether a block computes one number of each row of its consumers from what has been reduced."""
    producers = [BlockView(view.sch, rv) for rv in view.sch.get_producers(block.rv)]
    return any([p.reduction for p in producers]) and all(
        [c.iterations >= REPEATED * block.iterations for c in consumers]
    )


def stays(view: KernelView, block: BlockView, consumers: Sequence[BlockView]) -> bool:
    """Whether a block is computed apart: where whole tiles of it are transposed, or inlined expensive work would be repeated."""
    if len(consumers) == 1 and consumers[0].is_padding and crossing_of(block, view.plan.target) is not None:
        # A border around whole tiles would cut them off.
        return True
    repeated = any([c.reduction or c.is_opaque for c in consumers])
    if block.has_condition and repeated:
        return True
    if (block.is_heavy or block.has_condition) and (repeated or len(consumers) > 1):
        return True
    if block.is_heavy and _is_number_of_row(view, block, consumers):
        return True
    return any([c.iterations >= REPEATED * block.iterations and block.is_place_in(c) for c in consumers])
