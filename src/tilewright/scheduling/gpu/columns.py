"""Reductions over other axes than the last: neighbouring threads have neighbouring columns.

for i: for j: for k: O[i, j] += A[i, k, j]
-->
blockIdx.x, threadIdx.x over (i, j): threadIdx.y over parts of k: step: O[i, j] += A[i, k, j]

Where there are few columns, a long reduction is also divided among blocks of threads, whose results a second kernel adds.
"""

from __future__ import annotations

from tilewright.scheduling.block_views import BlockView, KernelView
from tilewright.scheduling.cost import divisors
from tilewright.scheduling.gpu.facts import facts_of
from tilewright.scheduling.gpu.powers import power_below, powers
from tilewright.scheduling.gpu.threads import (
    bind_elements,
    known,
    neighbours,
    one_loop,
    parted,
)

SHORT = 16
"""Reductions of fewer elements run in one thread each."""
LEAST_PART = 256
"""Elements of a reduction, from which on it is divided among blocks of threads."""
MOST_PARTS = 16
"""Threads that share a column."""


def schedule_reduction(view: KernelView, block: BlockView) -> None:
    """Threads for a reduction that no other rule takes."""
    spatial, reduced = parted(view, block)
    columns, steps = known(view, spatial), known(view, reduced)
    if not spatial or not reduced or columns is None or steps is None or steps < SHORT or 0 in (columns, steps):
        bind_elements(view, block)
        return
    gpu = facts_of(view.plan.target)
    wanted = 2 * max(gpu.multiprocessors, 1) * 256
    choices = [n for n in divisors(steps, 64) if n == 1 or steps // n >= SHORT]
    most = min(wanted // columns, steps // LEAST_PART)
    model = max([n for n in choices if n <= most], default=1)
    parts = view.plan.choose(f"{block.name}.parts", model, lambda: choices)
    if parts > 1:
        outer, _ = view.sch.split(one_loop(view, block, reduced), [parts, None], disable_predication=True)
        first = BlockView(view.sch, view.sch.rfactor(outer, 0))
        bind_columns(view, first, True)
        bind_elements(view, BlockView(view.sch, block.rv))
    else:
        bind_columns(view, block)


def bind_columns(view: KernelView, block: BlockView, divided: bool = False) -> None:
    """Columns over threadIdx.x, parts of the reduction over threadIdx.y. divided: whether its last loop is over parts, which
    blocks of threads have."""
    sch = view.sch
    spatial, reduced = parted(view, block)
    columns, steps = known(view, spatial) or 1, known(view, reduced) or 1
    gpu = facts_of(view.plan.target)
    limit = gpu.max_threads_per_block
    warp = min(max(gpu.warp_size, 1), limit)
    wide = view.plan.choose(f"{block.name}.columns", warp, lambda: powers(min(8, limit), min(256, limit)))
    share = columns * steps // (max(gpu.multiprocessors, 1) * 256 * 16)
    most = power_below(min(MOST_PARTS, limit // wide, max(steps // SHORT, 1)))
    model = min(most, 8) if columns < max(gpu.multiprocessors, 1) * 1024 and share < 64 else 1
    parts = view.plan.choose(f"{block.name}.threads", model, lambda: powers(1, most))
    sch.reorder(*spatial, *reduced)
    if divided:
        *spatial, part = spatial
        sch.bind(part, "blockIdx.y")
    grid, thread = neighbours(view, spatial, wide)
    whole = one_loop(view, block, reduced)
    sch.bind(grid, "blockIdx.x")
    sch.bind(thread, "threadIdx.x")
    if parts > 1:
        step, part = sch.split(whole, [None, parts])
        sch.reorder(part, step)
        sch.bind(part, "threadIdx.y")


__all__ = ["schedule_reduction"]
