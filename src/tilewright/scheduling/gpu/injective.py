"""Element-wise kernels: a vector of 16 bytes for each thread; transposed reads by tiles in shared memory."""

from __future__ import annotations

from math import gcd

from tilewright.ir import IntImm
from tilewright.node import post_order_visit
from tilewright.scheduling.block_views import BlockView, KernelView
from tilewright.scheduling.gpu.crossing import crossing_of, schedule_crossing
from tilewright.scheduling.gpu.facts import facts_of
from tilewright.scheduling.gpu.powers import power_below, powers
from tilewright.scheduling.gpu.threads import (
    UNKNOWN,
    VECTOR_BYTES,
    bind_elements,
    chosen_threads,
    known,
    one_loop,
)
from tilewright.tir import Cast

COMPUTED_BYTES = 32
"""The most bytes of a vector inside of a thread, where elements are computed in a wider type."""
WAVES = 8
"""Threads that a multiprocessor would have had in turn, from which on each gets several elements: times the threads that it holds."""
MOST_ITEMS = 8
"""Vectors of a thread."""


def schedule_injective(view: KernelView, block: BlockView) -> None:
    """for i: for j: S   -->   blockIdx.x, threadIdx.x over (i, j // lanes): for item: vectorize j % lanes: S"""
    crossing = crossing_of(view, block)
    if crossing is not None and view.plan.choose(f"{block.name}.form", "tiles", lambda: ("tiles", "rows")) == "tiles":
        schedule_crossing(view, block, crossing)
        return
    loops = view.loops(block)
    steps = known(view, loops)
    if not loops or len(loops) != len(block.spatial) or steps == 0:
        bind_elements(view, block)
        return
    sch = view.sch
    most = vector_lanes(block)
    lanes = view.plan.choose(f"{block.name}.vector", most, lambda: powers(1, most))
    whole, vector = one_loop(view, block, loops), None
    if lanes > 1:
        whole, vector = sch.split(whole, [None, lanes])
    steps = None if steps is None else -(-steps // lanes)
    threads = chosen_threads(view, block, steps)
    items = items_of(view, block, steps, threads)
    if items > 1:
        grid, item, thread = sch.split(whole, [None, items, threads])
        sch.reorder(grid, thread, item)
    else:
        grid, thread = sch.split(whole, [None, threads])
    if vector is not None:
        sch.vectorize(vector)
    sch.bind(grid, "blockIdx.x")
    sch.bind(thread, "threadIdx.x")
    if items > 1:
        sch.unroll(item)


def vector_lanes(block: BlockView) -> int:
    """The elements of a row that one access of a thread takes: such that the widest type has 16 bytes, and rows are whole vectors. 1 where
    the row does not run over adjacent elements."""
    if len(block.block.writes) != 1 or not block.spatial:
        return 1
    last = block.spatial[-1]
    extent = last.dom.extent if last.dom is not None else None
    if not isinstance(extent, IntImm) or not block.is_contiguous(last):
        return 1
    widest = max([r.buffer.dtype.bytes for r in (*block.block.writes, *block.block.reads)])
    most = min(VECTOR_BYTES // widest, COMPUTED_BYTES // max(widest, _widest_cast(block)))
    return power_below(gcd(extent.value, max(most, 1)))


def _widest_cast(block: BlockView) -> int:
    """The bytes of the widest type that a block converts to."""
    found = [1]

    def look(e: object) -> None:
        if isinstance(e, Cast):
            found.append(int(e.dtype.bytes))

    post_order_visit(block.block.body, look)
    return max(found)


def items_of(view: KernelView, block: BlockView, steps: int | None, threads: int) -> int:
    """The vectors of a thread."""
    gpu = facts_of(view.plan.target)
    resident = max(gpu.multiprocessors, 1) * max(gpu.max_threads_per_multiprocessor, 1024)
    model = 1 if steps is None else min(power_below(steps // (WAVES * resident)), MOST_ITEMS)
    return view.plan.choose(f"{block.name}.items", model, lambda: powers(1, MOST_ITEMS))


__all__ = ["UNKNOWN", "schedule_injective", "vector_lanes"]
