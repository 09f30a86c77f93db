"""Reductions along rows (sums, softmax, layer norm): a warp or a block of threads for each row, in one kernel.

for i: for k: M[i] = max(A[i, k]);  for i, j: E[i, j] = exp(A[i, j] - M[i]);  for i: for k: S[i] += E[i, k];  for i, j: O[i, j] = ..
-->
blockIdx.x, threadIdx.y over i:
    A_local = A[i, ...]                     each thread has elements (step, threadIdx.x, lane) of the row, as vectors
    threadIdx.x, step, lane: M_local = max  over threads by shuffles
    ...

What is as long as a row stays in registers, as long as these suffice; an input that several stages read then stays in shared memory, as
long as that suffices; else it is computed again, or read again, where it is read. Short rows share a warp. A long reduction to few results
is divided among blocks of threads first, whose results a second kernel reduces.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from math import gcd, prod
from typing import Any, NamedTuple

from tilewright.ir import IntImm
from tilewright.node import nodes_of
from tilewright.scheduling.block_views import BlockView, KernelView, constant_extent
from tilewright.scheduling.gpu.facts import facts_of
from tilewright.scheduling.gpu.long_rows import SHORT, first_part, parts_of, run_apart
from tilewright.scheduling.gpu.powers import power_below, powers
from tilewright.scheduling.gpu.threads import (
    UNKNOWN,
    VECTOR_BYTES,
    known,
    one_loop,
    parted,
)
from tilewright.scheduling.shared_axes import shared_axes
from tilewright.target import Target
from tilewright.tir import Buffer, BufferLoad, FloorDiv, Var
from tilewright.tir.schedule import BlockRV, IndexMap, LoopRV
from tilewright.tir.transform.function.launch import MIN_BLOCKS

IN_WARP = 2048
"""Bytes of a row up to which a warp takes it; longer ones have a block of threads."""
OF_THREAD = 64
"""Bytes of a row for each thread, as far as there are threads."""
IN_REGISTERS = 128
"""Most bytes of a row that a thread keeps for each stage."""
UNROLLED = 32
"""Most elements of a row that a thread computes without a loop."""
OTHER_REGISTERS = 48
"""Registers of a thread beside those for parts of rows."""
SHARED_FOR_RESULTS = 1024
"""Bytes of shared memory for results of warps."""
VALUES = 8
"""The most results of a reduction that each thread keeps."""
USED = 0.5
"""The share of threads that have work, below which rows are divided so that each thread has what is left over, and keeps nothing."""


class Threads(NamedTuple):
    """How the threads of a block share rows.

    rows: of a block; along: threads of each row, a power of two for shuffles; lanes: elements of a vector. Rows of `length` elements are
    `steps` times a vector for each thread, of which some have none in the last step; steps is 0 where there is no such division.
    """

    rows: int
    along: int
    lanes: int
    length: int
    steps: int


def schedule_rows(view: KernelView, target: Target) -> bool:
    """Schedule a kernel whose reductions all run along rows; False for others."""
    blocks = view.blocks()
    reductions = [b for b in blocks if b.reduction]
    if not reductions or not all([is_row(view, b) for b in reductions]) or any([b.is_opaque for b in blocks]):
        return False
    if len(reductions) == 1 and (parts := parts_of(view, reductions[0])) > 1:
        done = schedule_in_parts(view, reductions[0], parts, target)
        schedule_stages(view, [b for b in view.blocks() if b.name not in done], target)
        return True
    divide_groups_of_rows(view, blocks[-1])
    blocks = view.blocks()
    if has_common_rows(view, blocks):
        if len(reductions) > 1 and run_apart(view, blocks, stays_in_block(view, reductions[0])):
            schedule_apart(view, [b.name for b in blocks], target)
        else:
            schedule_stages(view, blocks, target)
        return True
    for block in reductions:
        schedule_stages(view, [block], target)
    return True


def schedule_in_parts(view: KernelView, block: BlockView, parts: int, target: Target) -> set[str]:
    """Schedules the parts of a reduction, with what they read. Returns the names of these blocks; another one reduces the parts."""
    first = first_part(view, block, parts)
    read = {p.name for p in view.producers(first) if not p.reduction}
    before = [b for b in view.blocks() if b.name != first.name and b.name in read]
    schedule_stages(view, [*before, first], target)
    return {first.name, *[b.name for b in before]}


def schedule_apart(view: KernelView, names: Sequence[str], target: Target) -> None:
    """Schedules each reduction of a kernel by itself, in parts; what lies between them is computed where it is read. The last block, and
    what else is not a reduction, is left to other rules."""
    for block in [b for b in view.blocks() if b.name in names[:-1] and not b.reduction]:
        with view.sch.tried(f"{block.name} computed again by its readers"):
            view.sch.compute_inline(block.rv)
    for block in [b for b in view.blocks() if b.name in names and b.reduction]:
        parts = parts_of(view, block)
        if parts > 1:
            schedule_in_parts(view, block, parts, target)
        schedule_stages(view, [BlockView(view.sch, block.rv)], target)


def stays_in_block(view: KernelView, block: BlockView) -> bool:
    """Whether a block of threads can keep a row that a reduction reads, in registers or in shared memory."""
    length = known(view, parted(view, block)[1])
    last = [(r.buffer.shape[-1], r.buffer.dtype.bytes) for r in block.block.reads if r.buffer.shape]
    rows = [n.value * size for n, size in last if isinstance(n, IntImm) and n.value == length]
    return any([bool(shared_scope(view, size)) for size in rows])


def divide_groups_of_rows(view: KernelView, block: BlockView) -> None:
    """for v: O[v] = .. R[v // c]   -->   for g: for i in c: O[g * c + i] = .. R[g]

    Where a block reads results of reductions by groups of neighbours along an axis (group norm), groups get an axis of their own, which
    reductions have, too.
    """
    reduced = {w.buffer for b in view.producers(block) if b.reduction for w in b.block.writes}
    axes = {v.var: n for n, v in enumerate(block.block.iter_vars)}
    found = {
        (axes[e.a], e.b.value)
        for load in nodes_of(block.block.body, BufferLoad)
        if load.buffer in reduced
        for index in load.indices
        for e in nodes_of(index, FloorDiv)
        if isinstance(e.a, Var) and e.a in axes and isinstance(e.b, IntImm)
    }
    if block.reduction or len(found) != 1:
        return
    ((axis, size),) = found
    if constant_extent(block.block.iter_vars[axis]) % size:
        return

    def layout(*v: Any) -> list[Any]:
        return [*v[:axis], v[axis] // size, v[axis] % size, *v[axis + 1 :]]

    view.sch.transform_block_layout(block.rv, IndexMap.from_func(layout, len(axes)))


def has_common_rows(view: KernelView, blocks: list[BlockView]) -> bool:
    """Whether each reduction gives few values for a row that all blocks have in common."""
    count = shared_axes(view, blocks)
    return all([prod(b.extents[: len(b.spatial)][count:]) <= VALUES for b in blocks if b.reduction])


def is_row(view: KernelView, block: BlockView) -> bool:
    """Whether a reduction runs over enough adjacent elements, or over all there is."""
    spatial, reduced = parted(view, block)
    steps = known(view, reduced)
    if (steps is not None and steps < SHORT) or not block.iterations or is_product(block):
        return False
    last = block.reduction[-1]
    largest = max(
        block.operands, key=lambda r: prod([d.value if isinstance(d, IntImm) else UNKNOWN for d in r.buffer.shape])
    )
    return not spatial or block.reads_along(largest, last)


def is_product(block: BlockView) -> bool:
    """Whether a reduction reads several tensors, two of which have axes of the result that the other one does not have."""
    spatial = [v for v, n in zip(block.block.iter_vars, block.extents, strict=True) if n > 1 and v in block.spatial]
    axes = [{a for a in block.axes_of(r) if a in spatial} for r in block.operands]
    return any([a - b and b - a for a in axes for b in axes])


def schedule_stages(view: KernelView, blocks: list[BlockView], target: Target) -> None:
    """Schedule blocks as one kernel of rows, as far as they have rows in common."""
    sch = view.sch
    if not blocks:
        return
    count = shared_axes(view, blocks)
    last = blocks[-1]
    loops = view.loops(last)
    names = {b.name for b in blocks}
    threads = threads_of(view, blocks, count, known(view, loops[count - 1 : count]) if count else 1)
    copies, held = keep_rows(view, blocks, count, threads)
    for block in [b for b in view.blocks() if b.name in names and b.name != last.name]:
        if block.reduction or len(block.spatial) <= count:
            # What each thread has of a row: the result of a reduction over threads, or what is computed of such.
            local(view, block.rv)
    *outer, inner = loops[:count] or [sch.add_unit_loop(loops[0] if loops else last.rv)]
    if len(loops) == count:
        # A loop for the thread that computes the one value of a row.
        inner, _ = sch.split(inner, [None, 1])
    row: LoopRV | None = None
    if threads.rows > 1:
        inner, row = sch.split(inner, [None, threads.rows])
        sch.bind(row, "threadIdx.y")
    whole = sch.fuse(*outer, inner) if outer else inner
    sch.bind(whole, "blockIdx.x")
    row = whole if row is None else row
    stages = [b.rv for b in view.blocks() if b.name in names and b.name != last.name]
    for rv in [*reversed(stages), *reversed(copies)]:
        with sch.tried(f"{sch.get(rv).name_hint} row by row with {last.name}"):
            sch.compute_at(rv, row)
    for rv in sch.get_child_blocks(row):
        share_out(view, rv, row, threads)
    for kept in held:
        divide(view, kept, threads)
    if blocks_at_once := resident_blocks(threads, len(held), target):
        sch.annotate(whole, MIN_BLOCKS, blocks_at_once)


def resident_blocks(threads: Threads, kept: int, target: Target) -> int:
    """How many blocks of a multiprocessor leave each thread the registers for so many kept parts of a row; 0 for GPUs of which nothing is
    known. Compilers that are not told keep values in memory to make room for more blocks."""
    gpu = facts_of(target)
    if not gpu.max_threads_per_multiprocessor:
        return 0
    others = OTHER_REGISTERS if threads.length else 2 * OTHER_REGISTERS  # indices of 64 bits
    registers = min(kept * threads.steps * threads.lanes + others, gpu.max_registers_per_thread)
    return max(gpu.occupancy(threads.rows * threads.along, registers).blocks, 1)


def threads_of(view: KernelView, blocks: Sequence[BlockView], count: int, rows: int | None) -> Threads:
    """How threads share rows. rows: along the last of their axes."""
    last = blocks[-1]
    lengths, widest = [], 1
    for block in blocks:
        spatial, reduced = parted(view, block)
        lengths.append(known(view, [*spatial[count:], *reduced]))
        widest = max([widest, *[r.buffer.dtype.bytes for r in (*block.block.reads, *block.block.writes)]])
    length = 0 if None in lengths else max([n for n in lengths if n is not None], default=1)
    gpu = facts_of(view.plan.target)
    limit = power_below(min(gpu.max_threads_per_block, 1024))
    warp = min(max(gpu.warp_size, 1), limit)
    most = power_below(gcd(length, max(VECTOR_BYTES // widest, 1))) if length else 1
    lanes = view.plan.choose(f"{last.name}.vector", most, lambda: powers(1, most))
    if length:
        size = length * widest
        least = min(warp if size <= IN_WARP else power_below(max(size // OF_THREAD, warp)), limit)
        wider = [w for w in powers(least, min(least * 8, limit)) if w // 2 < length // lanes or w == least]
        model = max(wider, key=lambda w: (used(length // lanes, w), -w))
        short = 2 * power_below(length // lanes - 1) if length > lanes else 1
        if short < warp and rows is not None and rows % (warp // short) == 0:
            model = short
    else:
        model = min(8 * warp, limit)
    fewest = min(model, warp)
    along = view.plan.choose(f"{last.name}.threads", model, lambda: powers(fewest, limit))
    whole = max(warp // along, 1)
    many = [
        n for n in powers(whole, max(256 // along, whole)) if n * along <= limit and rows is not None and rows % n == 0
    ]
    several = max([n for n in many if n * along <= 128], default=1)
    together = view.plan.choose(f"{last.name}.rows", several, lambda: many or [1])
    even = length > 0 and used(length // lanes, along) >= USED
    return Threads(together, along, lanes, length, steps_of(length // lanes, along) if even else 0)


def steps_of(vectors: int, threads: int) -> int:
    """How many vectors a thread takes one after the other."""
    return -(-vectors // threads)


def used(vectors: int, threads: int) -> float:
    """The share of threads that have work."""
    return vectors / (steps_of(vectors, threads) * threads)


def keep_rows(
    view: KernelView, blocks: Sequence[BlockView], count: int, threads: Threads
) -> tuple[list[BlockRV], list[BlockRV]]:
    """Keep what is as long as a row in registers: what stages hand on, and inputs that several stages read, which may also be in shared
    memory. What cannot be kept is computed again. Returns the copies that were added, and all blocks whose results are in
    registers."""
    sch = view.sch
    added: list[BlockRV] = []
    held: list[BlockRV] = []
    names = {b.name for b in blocks}
    for block in blocks[:-1]:
        if block.name in view.outputs() or not block.is_injective or len(block.spatial) <= count:
            continue
        buffer = block.block.writes[0].buffer
        fits = is_whole_row(buffer, threads)
        choices = ("registers", "again") if fits else ("again",)
        model = "registers" if fits and in_registers(buffer, threads) else "again"
        if view.plan.choose(f"{block.name}.kept", model, partial(list, choices)) == "registers":
            sch.set_scope(block.rv, 0, "local")
            held.append(block.rv)
        else:
            with sch.tried(f"{block.name} computed again by its readers"):
                sch.compute_inline(block.rv)
    blocks = [b for b in view.blocks() if b.name in names]
    for buffer in dict.fromkeys([r.buffer for b in blocks for r in b.block.reads]):
        readers = [b for b in blocks if any([r.buffer is buffer for r in b.block.reads])]
        written = any([w.buffer is buffer for b in blocks for w in b.block.writes])
        if written or not is_whole_row(buffer, threads) or not any([b.reduction for b in readers]):
            continue
        if not all([runs_along(b, n) for b in readers for n, r in enumerate(b.block.reads) if r.buffer is buffer]):
            continue
        scope = shared_scope(view, threads.length * buffer.dtype.bytes) if threads.rows == 1 else ""
        model = "registers" if in_registers(buffer, threads) else "shared" if scope else "memory"
        name = f"{readers[0].name}.{buffer.name}"
        ways = ("registers", "shared", "memory") if scope else ("registers", "memory")
        kept = view.plan.choose(name, model, partial(list, ways))
        if kept == "memory":
            continue
        number = next(n for n, r in enumerate(readers[0].block.reads) if r.buffer is buffer)
        copy: BlockRV | None = None
        with sch.tried(f"{buffer.name} in {'registers' if kept == 'registers' else 'shared memory'}"):
            copy = sch.cache_read(
                readers[0].rv, number, "local" if kept == "registers" else scope, [b.rv for b in readers]
            )
        if copy is not None:
            added.append(copy)
            if kept == "registers":
                held.append(copy)
    return added, held


def is_whole_row(buffer: Buffer, threads: Threads) -> bool:
    """Whether the last axis of a buffer is a row that can be divided among threads."""
    last = buffer.shape[-1] if buffer.shape else None
    return threads.steps > 0 and isinstance(last, IntImm) and last.value == threads.length and threads.length > 1


def shared_scope(view: KernelView, size: int) -> str:
    """The scope of shared memory in which a row of so many bytes fits; "" where it does not."""
    gpu, target = facts_of(view.plan.target), view.plan.target
    size += SHARED_FOR_RESULTS
    if size <= gpu.shared_memory_per_block:
        return "shared"
    return "shared.dyn" if target.kind.name == "cuda" and size <= gpu.shared_memory_per_block_optin else ""


def in_registers(buffer: Buffer, threads: Threads) -> bool:
    """Whether a thread has registers for its part of a row. Only loops that are unrolled have their elements there."""
    elements = threads.steps * threads.lanes
    return elements <= UNROLLED and elements * int(buffer.dtype.bytes) <= IN_REGISTERS


def runs_along(block: BlockView, read: int) -> bool:
    """Whether a block reads one element at a time along its row: its last index is the last axis."""
    region = block.block.reads[read].region
    axis = (block.reduction or block.spatial)[-1]
    if not region or any([not isinstance(r.extent, IntImm) or r.extent.value != 1 for r in region]):
        return False
    return region[-1].min is axis.var


def divide(view: KernelView, block: BlockRV, threads: Threads) -> None:
    """The last axis of a block's result as (step, thread, lane), in registers."""
    along, lanes = threads.along, threads.lanes

    def parts(*index: Any) -> list[Any]:
        *rest, last = index
        return [*rest, last // (along * lanes), last // lanes % along, last % lanes]

    # Digits of a number differ where numbers do; some threads have no element in the last step.
    view.sch.transform_layout(block, ("write", 0), parts, assume_injective_transform=True)


def local(view: KernelView, block: BlockRV) -> None:
    """The results of a block in registers, unless they are outputs of the kernel."""
    node = view.sch.get(block)
    if node.name_hint not in view.outputs():
        for n in range(len(node.writes)):
            view.sch.set_scope(block, n, "local")


def share_out(view: KernelView, block: BlockRV, row: LoopRV, threads: Threads) -> None:
    """Divide what a block does for a row among threads."""
    sch = view.sch
    now = BlockView(sch, block)
    loops = view.loops(block)
    at = [sch.get(loop) for loop in loops].index(sch.get(row)) + 1
    below = loops[at:]
    if not now.reduction and prod(view.extents(below)) == 1:
        # One value for a row, which each thread computes for itself.
        return
    if now.reduction:
        # Each thread has all results that a row has.
        _, reduced = parted(view, now)
        held = {id(sch.get(loop)) for loop in reduced}
        below = [loop for loop in below if id(sch.get(loop)) in held]
        others = [loop for loop in loops[at:] if id(sch.get(loop)) not in held]
        sch.reorder(*others, *below)
    whole = one_loop(view, now, below)
    extent = sch.get(whole).extent
    steps = extent.value if isinstance(extent, IntImm) else None
    lanes = threads.lanes if steps is not None and steps % threads.lanes == 0 else 1
    lane: LoopRV | None = None
    if lanes > 1:
        whole, lane = sch.split(whole, [None, lanes])
    step, thread = sch.split(whole, [None, threads.along])
    sch.bind(thread, "threadIdx.x")
    if now.reduction:
        sch.reorder(thread, step)
    if lane is not None:
        if now.reduction:
            sch.unroll(lane)
        else:
            sch.vectorize(lane)
    if steps is not None and -(-steps // threads.along) <= UNROLLED:
        sch.unroll(step)


__all__ = ["schedule_rows"]
