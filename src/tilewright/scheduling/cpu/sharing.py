"""Sharing of work among threads: the number of threads that a kernel's work is worth, and the loops whose iterations
they share.

The number of threads is known when a kernel runs, not when it is compiled, so the code does not depend on the compiling
machine. A parallel loop has enough iterations for the threads that the target requires (`CpuFacts.threads`), or for
fewer if the work is small. The runtime distributes runs of adjacent iterations, so fewer threads lose nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import NamedTuple

from tilewright.ir import IntImm
from tilewright.scheduling.block_views import KernelView, divisor_of, extent_of
from tilewright.scheduling.cost import divisors
from tilewright.target import Target
from tilewright.tir.schedule import LoopRV, Schedule


def useful_threads(work: int, target: Target) -> int:
    """The number of threads for a kernel of so many iterations; 1 if a second thread would not pay."""
    least = target.cpu.core.shared_elements
    return max(1, min(target.cpu.threads, 2 * work // least)) if work >= least else 1


def parallelize(view: KernelView, name: str, loops: list[LoopRV], work: int, target: Target, inside: int = 1) -> None:
    """Run the outermost loops in parallel, fused as far as needed to give every thread equal work. name: of the block whose
    loops they are; inside: iterations in one of the innermost.

    How many iterations the parallel loop has is a decision where it is a number: 1 starts no threads.
    """
    sch, threads = view.sch, useful_threads(work, target)
    if target.cpu.threads < 2 or not loops:
        return
    enough = target.cpu.core.pieces * threads
    start, end = most_even(sch, loops, enough)
    if (
        start
        and inside * prod([divisor_of(sch.get(loop).extent) for loop in loops[start:]])
        < target.cpu.core.shared_elements
    ):
        # Too little for a start of all threads: the loops of unknown extent that stand outside share it out.
        start, end = 0, leading_dynamic(sch, loops)
    cut = cheapest_cut(sch, loops, start, end, enough) if threads > 1 else None
    if all([isinstance(sch.get(loop).extent, IntImm) for loop in loops[start:end]]):
        model = 1 if cut is None else pieces_of(view, loops, start, cut)
        own = {} if cut is None else {model: cut}
        # As they are now: the choices may be asked for when the loops are no more.
        extents = [extent_of(sch.get(loop)) for loop in loops]
        pieces = view.plan.choose(f"{name}.pieces", model, lambda: sorted({1, *own, *cuts(extents, start, end)}))
        if pieces != model:
            cut = cuts(extents, start, end).get(pieces)
    if cut is None:
        return
    shared = [*loops[start : cut.loops]]
    if cut.parts:
        # Some of the innermost loop stays inside, where what the outer ones say is known.
        shared[-1], _ = sch.split(shared[-1], [cut.parts, None], disable_predication=True)
    sch.parallel(sch.fuse(*shared) if len(shared) > 1 else shared[0])


class Cut(NamedTuple):
    """The loops up to which iterations are shared among threads, and into how many parts the last of them is split; 0: into none."""

    loops: int
    parts: int = 0


def cheapest_cut(sch: Schedule, loops: list[LoopRV], start: int, end: int, enough: int) -> Cut | None:
    """The fewest loops from `start` that have `enough` iterations, and the fewest parts of the last; None if there is but one iteration,
    or none."""
    count, take = 1, start
    for loop in loops[start:end]:
        count *= extent_of(sch.get(loop)) if end - start == 1 else divisor_of(sch.get(loop).extent)
        take += 1
        if count >= enough:
            break
    if not count or count < 2 and take - start < 2:
        return None
    extent = sch.get(loops[take - 1]).extent
    if take - start > 1 and isinstance(extent, IntImm) and is_innermost(sch, loops, take):
        least = -(-enough * extent.value // count)
        parts = next(d for d in range(min(least, extent.value), extent.value + 1) if extent.value % d == 0)
        if parts < extent.value:
            return Cut(take, parts)
    return Cut(take)


def pieces_of(view: KernelView, loops: list[LoopRV], start: int, cut: Cut) -> int:
    """The number of iterations of the parallel loop that a cut makes of loops of known extents from `start` on."""
    last = cut.parts or extent_of(view.sch.get(loops[cut.loops - 1]))
    return prod(view.extents(loops[start : cut.loops - 1])) * last


def shares(view: KernelView, name: str, work: int, target: Target) -> bool:
    """Whether threads share a loop that is one piece for each of its iterations: as the plan decides, where the target has threads."""
    if target.cpu.threads < 2:
        return False
    model = "shared" if useful_threads(work, target) > 1 else "alone"
    return view.plan.choose(f"{name}.threads", model, lambda: ("alone", "shared")) == "shared"


def cuts(extents: Sequence[int], start: int, end: int) -> dict[int, Cut]:
    """All cuts of loops of known extents from `start` to `end`, by the number of iterations of the parallel loop."""
    found: dict[int, Cut] = {}
    count = 1
    for take in range(start + 1, end + 1):
        extent = extents[take - 1]
        if not extent:
            break
        if take - start > 1 and all([e == 1 for e in extents[take:]]):
            for parts in divisors(extent, extent - 1):
                if parts > 1:
                    found.setdefault(count * parts, Cut(take, parts))
        count *= extent
        if count > 1 or take - start > 1:
            found.setdefault(count, Cut(take))
    return found


def is_innermost(sch: Schedule, loops: list[LoopRV], take: int) -> bool:
    """Whether the loops behind the first `take` have one iteration."""
    return all([extent_of(sch.get(loop)) == 1 for loop in loops[take:]])


def leading_dynamic(sch: Schedule, loops: list[LoopRV]) -> int:
    """The number of outermost loops with dynamic extents."""
    known = [isinstance(sch.get(loop).extent, IntImm) for loop in loops]
    return known.index(True) if True in known else len(loops)


def most_even(sch: Schedule, loops: list[LoopRV], enough: int) -> tuple[int, int]:
    """The range (from, to) of adjacent loops to run in parallel: the outermost ones with provably `enough` iterations,
    or else those with most.

    A loop of dynamic extent is not fused, so that no index is divided by a dynamic number.
    """
    groups: list[tuple[int, int]] = []
    for i, loop in enumerate(loops):
        if i and isinstance(sch.get(loop).extent, IntImm) and isinstance(sch.get(loops[i - 1]).extent, IntImm):
            groups[-1] = (groups[-1][0], i + 1)
        else:
            groups.append((i, i + 1))
    least = [prod([divisor_of(sch.get(loop).extent) for loop in loops[a:b]]) for a, b in groups]
    most = least.index(max(least))
    if least[most] == 1:
        # Nothing is sure to have two iterations: the first that may have.
        most = next((i for i, (a, _) in enumerate(groups) if not isinstance(sch.get(loops[a]).extent, IntImm)), most)
    return groups[next((i for i, n in enumerate(least) if n >= enough), most)]


__all__ = ["leading_dynamic", "most_even", "parallelize", "shares", "useful_threads"]
