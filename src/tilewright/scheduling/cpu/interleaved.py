"""Interleaved results: transposed convolutions interleave the places of their phases.

for i, x: B[i, x] = f(T[i, x // (s * L), x % s, x % (s * L) // s])
-->
parallel i, blocks of s * L places:
  for each of s phases, unrolled: T[phase, :] = vectorized loads, or zeros
  B[i, block] = vectorized f(T), shuffled in registers
"""

from __future__ import annotations

from math import prod

from tilewright.scheduling.block_views import BlockView, KernelView
from tilewright.scheduling.cpu.sharing import parallelize
from tilewright.target import Target
from tilewright.tir.schedule import LoopRV
from tilewright.topi.stages import INTERLEAVED

MOST_ROWS = 8
"""The number of rows, of as many phases, whose code is unrolled, at most; a plan may take twice as many."""


def interleaved_vectors(view: KernelView) -> BlockView | None:
    """The block of vectors whose elements its only reader, which has the result's loops, interleaves."""
    for block in view.blocks():
        if INTERLEAVED in block.block.annotations:
            readers = view.consumers(block)
            if len(readers) == 1 and readers[0].is_injective and len(view.loops(readers[0])) == len(block.extents) - 2:
                return block
    return None


def by_period(view: KernelView, reader: BlockView, period: int) -> bool:
    """Whether there is code for each row of a period, as the plan decides."""
    model = "unrolled" if period <= MOST_ROWS else "loop"
    return view.plan.choose(f"{reader.name}.rows", model, lambda: ("unrolled", "loop")) == "unrolled"


def schedule_interleaved(view: KernelView, block: BlockView, target: Target) -> None:
    """Schedule such vectors and their reader."""
    sch = view.sch
    (reader,) = view.consumers(block)
    *_, phases, lanes = block.extents
    *outer, last = view.loops(reader)
    total = prod(view.extents([*outer, last]))
    inner: list[LoopRV] = []
    period = int(block.block.annotations[INTERLEAVED])
    if 1 < period <= 2 * MOST_ROWS and by_period(view, reader, period):
        # Which phase a row is of, or none, is known before the model runs.
        *outer, row = outer
        rows, row = sch.split(row, [None, period])
        outer, inner = [*outer, rows], [row]
    place, vector = sch.split(last, [None, phases * lanes])
    sch.reorder(place, *inner, vector)
    sch.set_scope(block.rv, 0, "local")
    sch.compute_at(block.rv, inner[-1] if inner else place)
    *_, phase, lane = view.loops(block)
    for loop in inner:
        sch.unroll(loop)
    sch.vectorize(lane)
    sch.unroll(phase)
    sch.vectorize(vector)
    parallelize(view, reader.name, [*outer, place], total, target, phases * lanes * prod(view.extents(inner)))
