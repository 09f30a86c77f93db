"""Software prefetch: what a kernel will read is asked for while it works. Which loops and blocks ask is decided here;
`tir.transform.InjectSoftwarePrefetch` inserts the hints.

Panels of weights: while tiles of rows work on one panel, the next one is fetched from memory. Otherwise the first tile of
each panel waits for memory.

The data that an epilogue reads besides the sums (a residual) is fetched during the reduction.

Rows of softmax and norms: while one is computed, the next one is fetched.
"""

from __future__ import annotations

from math import prod

from tilewright.ir import IntImm
from tilewright.scheduling.block_views import BlockView, KernelView, divisor_of
from tilewright.tir.schedule import BlockRV, LoopRV, Schedule
from tilewright.tir.transform.memory.software_prefetch import EARLY, NEXT, PANELS, tensors_of


def mark_panel_prefetch(
    sch: Schedule, tiles: LoopRV, rows: int, steps: list[LoopRV], name: str, panels: int, times: int
) -> None:
    """Mark a loop over tiles for software prefetch of a tensor's panels. The loop has the tiles of each of `panels`
    panels, and runs all of them so many `times`.

    `rows`: the number of loops of dynamic extent directly below it, around the loops of the steps.
    """
    count = sch.get(tiles).extent
    if isinstance(count, IntImm) and count.value % (panels * times) == 0 and panels > 1:
        sch.annotate(steps[-1], PANELS, [name, count.value // (panels * times), panels, rows, len(steps) - 1])


def mark_epilogue_prefetch(view: KernelView, sums: LoopRV, work: int, epilogue: BlockRV) -> None:
    """Mark what an epilogue reads of tensors for prefetch before the reduction loop, as the plan decides: where the `work`
    multiply-adds of the loop on vectors take at least as long as memory for a cache line.
    """
    sch, core = view.sch, view.plan.target.cpu.core
    if not tensors_of(sch.get(epilogue)):
        return
    model = "operands" if work >= core.memory_latency * core.multiply_adds else "no"
    if view.plan.choose(f"{sch.get(epilogue).name_hint}.prefetch", model, lambda: ("operands", "no")) == "operands":
        sch.annotate(epilogue, EARLY, 1)
        sch.annotate(sums, EARLY, 1)


def mark_next_row(view: KernelView, row: LoopRV, loop: LoopRV, block: BlockView, before: list[BlockView]) -> None:
    """Mark the loop over the vectors of a row for prefetch of the next row of a tensor, which stages `before` it have read too, as the plan
    decides: where the tensor and the results are larger than the second cache, and two rows are not larger than the first one.

    A row comes from memory while nothing else is done, and nothing comes while it is computed: softmax of 750 x 840 took 0.75 of the time
    with the hints on an Intel Xeon.
    """
    sch = view.sch
    known = {r.buffer for b in before for r in b.block.reads if r.buffer.scope() == "global"} - {
        w.buffer for b in before for w in b.block.writes
    }
    again = [r.buffer for r in block.block.reads if r.buffer in known and len(r.buffer.shape) > 1]
    if not again:
        return
    size = prod([divisor_of(d) for d in again[0].shape]) * again[0].dtype.bytes
    around, cpu = view.loops(block.rv), view.plan.target.cpu
    loops = [sch.get(one) for one in around]
    place = loops.index(sch.get(row)) + 1
    near = 2 * prod(view.extents(around[place:])) * again[0].dtype.bytes <= cpu.l1_bytes
    model = "next row" if near and 2 * size > cpu.l2_bytes else "no"
    if view.plan.choose(f"{block.name}.prefetch", model, lambda: ("next row", "no")) == "next row":
        between = loops.index(sch.get(loop)) - place
        sch.annotate(loop, NEXT, [again[0].name, between])
