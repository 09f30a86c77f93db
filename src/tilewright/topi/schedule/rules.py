"""The rules for CPUs, and which one serves which block.

tile_products products in groups where the processor has registers of whole tiles (AMX)
contraction   reductions whose last spatial axis is contiguous (convolution, matrix product, pooling):
              a register tile of rows x vectors, the reduction around it, the epilogue behind it
windows       depthwise convolutions and pooling: each channel by itself, its padding inside the loop over bands of rows
winograd      3 x 3 convolutions in Winograd's form: all stages of groups of tiles
attention     all stages of attention, in blocks of queries
columns       reductions of one tensor over other axes than its last: strips of columns
rows          reductions along the last axis (softmax, layer norm): one row at a time, vectors across it
woven         places of several phases side by side (transposed convolutions): their vectors shuffled in registers
injective     everything else: vectors on the last axis (transposed reads: tiles turned in registers; padded rows of narrow pixels:
              filled, then copied), threads on the outer ones
"""

from __future__ import annotations

from tilewright.support.errors import ScheduleError
from tilewright.target import Target
from tilewright.tir import ForKind
from tilewright.tir.schedule import Schedule
from tilewright.topi.schedule.attention import attention_sums, schedule_attention
from tilewright.topi.schedule.columns import is_columns, schedule_columns
from tilewright.topi.schedule.contraction import is_contraction, schedule_contraction
from tilewright.topi.schedule.injective import schedule_injective, schedule_reduction
from tilewright.topi.schedule.kernel import BlockView, KernelView
from tilewright.topi.schedule.rows import schedule_rows
from tilewright.topi.schedule.tile_products import schedule_tiles, tile_of
from tilewright.topi.schedule.tiles import MATERIALIZE
from tilewright.topi.schedule.windows import is_strided, is_windowed, schedule_windows
from tilewright.topi.schedule.winograd import schedule_winograd, winograd_product
from tilewright.topi.schedule.woven import schedule_woven, woven_vectors

REPEATED = 4
"""Times that a place is asked for, from which on it is computed once and kept."""


def schedule_cpu(sch: Schedule, target: Target) -> None:
    """Schedules every block of a kernel."""
    view = KernelView(sch)
    if any([0 in block.extents for block in view.blocks()]):
        # Tensors without elements: there is nothing to run faster.
        return
    keep_rows(view, target)
    inline_producers(view)
    reductions = [b for b in view.blocks() if b.reduction]
    winograd, attention = winograd_product(view), attention_sums(view)
    if winograd is not None:
        schedule_winograd(view, winograd, target)
    elif attention is not None:
        schedule_attention(view, attention, target)
    elif len(reductions) == 1 and is_columns(reductions[0], target):
        schedule_columns(view, reductions[0], target)
    elif any([is_product(b, target) for b in view.blocks()]):
        schedule_contraction_kernel(view, target)
    elif reductions and all([is_columns(b, target) for b in reductions]):
        for block in reductions:
            schedule_columns(view, block, target)
    elif reductions:
        schedule_rows(view, target)
    woven = woven_vectors(view)
    if woven is not None:
        schedule_woven(view, woven, target)
    for block in view.blocks():
        if block.is_opaque or not has_own_loops(view, block):
            continue
        if block.is_injective:
            schedule_injective(view, block, target)
        else:
            schedule_reduction(view, block, target)


def is_product(block: BlockView, target: Target) -> bool:
    """Whether a block is one of those that register tiles compute."""
    return is_contraction(block, target) or is_strided(block, target) or tile_of(block, target) is not None


def schedule_contraction_kernel(view: KernelView, target: Target) -> None:
    """The heaviest contraction takes the epilogue; smaller ones are scheduled on their own."""
    found = [b for b in view.blocks() if is_product(b, target)]
    contractions = sorted(found, key=lambda b: -b.iterations)
    for block in contractions:
        tiles = tile_of(block, target)
        if tiles is not None:
            schedule_tiles(view, block, target, tiles)
        elif is_windowed(block, target):
            schedule_windows(view, block, target)
        else:
            schedule_contraction(view, block, target)


def has_own_loops(view: KernelView, block: BlockView) -> bool:
    """Whether no rule has touched the loops of a block: one serial loop for each of its axes, and no other block in them."""
    loops = [view.sch.get(loop) for loop in view.loops(block)]
    if any([loop.kind != ForKind.SERIAL for loop in loops]) or len(loops) != len(block.block.iter_vars):
        return False
    return not loops or len(view.sch.get_child_blocks(view.loops(block)[0])) == 1


def keep_rows(view: KernelView, target: Target) -> None:
    """Where rows are reduced and the result is reshaped, the kernel's last block writes it there itself: its loops stay those over rows."""
    blocks = view.blocks()
    if not any([b.reduction for b in blocks]) or any([is_contraction(b, target) for b in blocks]):
        return
    outputs = view.outputs()
    for block in blocks:
        if block.name not in outputs or not block.is_reshape:
            continue
        if any([BlockView(view.sch, rv).reduction for rv in view.sch.get_producers(block.rv)]):
            continue
        try:
            view.sch.reverse_compute_inline(block.rv)
        except ScheduleError:
            # Other blocks read what it reads.
            continue


def inline_producers(view: KernelView) -> None:
    """Inlines element-wise blocks into their consumers where that repeats no costly work."""
    outputs = view.outputs()
    for block in view.blocks():
        if block.name in outputs or not block.is_injective or MATERIALIZE in block.block.annotations:
            continue
        consumers = view.consumers(block)
        repeated = any([c.reduction or c.is_opaque for c in consumers])
        if block.has_condition and repeated:
            continue
        if (block.is_heavy or block.has_condition) and (repeated or len(consumers) > 1):
            continue
        if any([c.iterations >= REPEATED * block.iterations and block.is_place_in(c) for c in consumers]):
            continue
        try:
            view.sch.compute_inline(block.rv)
        except ScheduleError:
            # An opaque consumer, or one that takes the buffer's address: the block keeps its own loops.
            continue
