"""Short reductions over windows that move with the result (depthwise convolutions, pooling): each thread keeps a strip of results in
registers, and the compiler loads what their windows have in common once.

for c, h, w: for kh, kw: O[c, h, w] += A[c, h + kh, w + kw] * B[c, kh, kw];  for c, h, w: R[c, h, w] = max(O[c, h, w], 0)
-->
blockIdx.x over blocks; threadIdx.z, y, x over c, h // strip, w:
  O_local = 0
  for kh, kw: for h % strip: O_local += ..       unrolled
  for h % strip: R = max(O_local, 0)

Where the last axis is outside of the windows (channels of NHWC), a thread has a vector of it, and the strip runs along the axis before it.

name.vector   elements of the last axis of a thread
name.strip    results of a thread along the innermost axis of windows that threads are not neighbours along
name.threads  of a block
"""

from __future__ import annotations

from typing import NamedTuple

from tilewright.arith.pattern import constant_step
from tilewright.node import nodes_of
from tilewright.scheduling.block_views import BlockView, KernelView, constant_extent, uses
from tilewright.scheduling.cost import divisors
from tilewright.scheduling.gpu.facts import facts_of
from tilewright.scheduling.gpu.injective import vector_lanes
from tilewright.scheduling.gpu.matrix_form import inline_epilogue
from tilewright.scheduling.gpu.powers import powers
from tilewright.scheduling.gpu.threads import UNKNOWN, chosen_threads, known, one_loop, parted
from tilewright.target import Target
from tilewright.tir import BufferLoad, IterVar
from tilewright.tir.schedule import BlockRV, LoopRV, Schedule

MOST_STEPS = 64
"""Elements of a window up to which a thread reduces it without a loop."""
UNROLLED = 128
"""The most steps of a thread: elements of a window times the results of a strip."""
LONGEST = 8
"""Results of a strip."""
USUAL = 4
"""Results of a strip that the model takes, if there are threads enough."""
RESIDENT = 1024
"""Threads of a multiprocessor that hide each other's waiting."""
AXES = ("threadIdx.x", "threadIdx.y", "threadIdx.z")
SMALL = 4
"""How many times fewer threads a block may have so that none of them is without work."""


class Moves(NamedTuple):
    """How a window moves along an axis of the result: by `stride` elements for each result; it has `length` elements, `dilation` apart."""

    stride: int
    dilation: int
    length: int

    @property
    def overlaps(self) -> bool:
        """Whether the windows of neighbouring results have elements in common."""
        return 0 < self.stride < self.dilation * self.length and self.stride % self.dilation == 0


def schedule_windows(view: KernelView, target: Target) -> bool:
    """Schedules the short reductions over windows of a kernel. Whether there were any."""
    found = [b for b in view.blocks() if is_window(view, b)]
    for block in found:
        _in_strips(view, block)
    return bool(found)


def is_window(view: KernelView, block: BlockView) -> bool:
    """Whether a block is a reduction of few constant steps over windows, of which there may be any number."""
    if not block.reduction or block.is_opaque or len(block.block.writes) != 1:
        return False
    spatial, reduced = parted(view, block)
    steps, results = known(view, reduced), known(view, spatial)
    if steps is None or results == 0 or not 0 < steps <= MOST_STEPS or len(spatial) != len(block.spatial):
        return False
    return any([moves_along(block, axis) is not None for axis in block.spatial])


def moves_along(block: BlockView, axis: IterVar) -> Moves | None:
    """How windows move along an axis; None if they do not."""
    reduced = {v.var: v for v in block.reduction}
    for load in nodes_of(block.block.body, BufferLoad):
        for index in load.indices:
            inside = [reduced[v] for v in reduced if v in uses(index).vars]
            if axis.var not in uses(index).vars or len(inside) != 1:
                continue
            stride, dilation = constant_step(index, axis.var), constant_step(index, inside[0].var)
            if stride and dilation and constant_extent(inside[0]):
                return Moves(stride, dilation, constant_extent(inside[0]))
    return None


def _in_strips(view: KernelView, block: BlockView) -> None:
    sch, plan, name = view.sch, view.plan, block.name
    spatial, reduced = parted(view, block)
    results, steps = known(view, spatial) or UNKNOWN, known(view, reduced) or 1
    most = vector_lanes(block)
    lanes = plan.choose(f"{name}.vector", most, lambda: powers(1, most))
    places = [
        n for n, axis in enumerate(block.spatial[:-1]) if constant_extent(axis) and moves_along(block, axis) is not None
    ]
    strip = _strip(view, block, places[-1], results // lanes, steps) if places else 1
    out = sch.cache_write(block.rv, 0, "local")
    readers = sch.get_consumers(out)
    if len(readers) == 1 and len(sch.get_producers(readers[0])) == 1:
        inline_epilogue(sch, out)
    thread, inside = _over_threads(view, block, out, places[-1] if strip > 1 else None, strip, lanes)
    _unrolled(sch, inside, lanes)
    sch.compute_at(block.rv, thread)
    _reduced_in_registers(view, block, thread, lanes)


def _strip(view: KernelView, block: BlockView, place: int, vectors: int, steps: int) -> int:
    """Results of a thread along an axis."""
    axis = block.spatial[place]
    choices = [n for n in divisors(constant_extent(axis), LONGEST) if n * steps <= UNROLLED] or [1]
    moves = moves_along(block, axis)
    gains = moves is not None and moves.overlaps
    enough = max(facts_of(view.plan.target).multiprocessors, 1) * RESIDENT
    model = max([n for n in choices if gains and n <= USUAL and vectors // n >= enough], default=1)
    return view.plan.choose(f"{block.name}.strip", model, lambda: choices)


def _over_threads(
    view: KernelView, block: BlockView, out: BlockRV, place: int | None, strip: int, lanes: int
) -> tuple[LoopRV, list[LoopRV]]:
    """(the innermost loop over threads, the loops of a thread) of the results. threadIdx.x, y and z are along the last three axes, so that
    no thread has to divide."""
    sch = view.sch
    loops, inside = list(sch.get_loops(out)), []
    if place is not None:
        loops[place], within = sch.split(loops[place], [None, strip])
        inside.append(within)
    if lanes > 1:
        loops[-1], vector = sch.split(loops[-1], [None, lanes])
        inside.append(vector)
    left = chosen_threads(view, block, known(view, loops))
    threads: list[LoopRV] = []
    for n, most in enumerate(facts_of(view.plan.target).max_threads_along[: len(loops)], 1):
        count = _threads_along(known(view, loops[-n : len(loops) - n + 1]) or 1, left, most, n == 1)
        loops[-n], thread = sch.split(loops[-n], [None, count])
        threads.insert(0, thread)
        left //= count
    sch.reorder(*loops, *threads, *inside)
    sch.bind(one_loop(view, block, loops), "blockIdx.x")
    for axis, thread in zip(AXES, reversed(threads), strict=False):
        sch.bind(thread, axis)
    return threads[-1], inside


def _threads_along(extent: int, left: int, most: int, guarded: bool) -> int:
    """Threads along an axis: all of it, or a part that divides it. guarded: whether those of the last block may have no work, where the
    parts would be small."""
    best = max(divisors(extent, max(min(left, most), 1)))
    return min(left, most) if guarded and extent > left > SMALL * best else best


def _unrolled(sch: Schedule, loops: list[LoopRV], lanes: int) -> None:
    """Unrolls the loops of a thread; the last one is a vector if `lanes` are several."""
    for loop in loops[:-1] if lanes > 1 else loops:
        sch.unroll(loop)
    if lanes > 1:
        sch.vectorize(loops[-1])


def _reduced_in_registers(view: KernelView, block: BlockView, thread: LoopRV, lanes: int) -> None:
    """The loops of a reduction inside of a thread: its steps, and for each of them all results."""
    sch = view.sch
    inside, reduced = parted(view, BlockView(sch, block.rv))
    around = sch.get(thread)
    bound = next(n for n, loop in enumerate(inside, 1) if sch.get(loop) is around)
    results = inside[bound:]
    sch.reorder(*reduced, *results)
    start = sch.decompose_reduction(block.rv, reduced[0])
    begun = sch.get_loops(start)[bound:]
    for loops in (results, begun):
        wide = lanes > 1 and known(view, loops[-1:]) == lanes
        _unrolled(sch, loops, lanes if wide else 1)
    for loop in reduced:
        sch.unroll(loop)


__all__ = ["Moves", "is_window", "moves_along", "schedule_windows"]
