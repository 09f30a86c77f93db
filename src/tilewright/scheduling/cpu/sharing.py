"""Sharing of work among threads: the number of threads that a kernel's work is worth, and the loops whose iterations
they share.

The number of threads is known when a kernel runs, not when it is compiled, so the code does not depend on the compiling
machine. A parallel loop has enough iterations for the threads that the target requires (`CpuFacts.threads`), or for
fewer if the work is small. The runtime distributes runs of adjacent iterations, so fewer threads lose nothing.
"""

from __future__ import annotations

from math import prod

from tilewright.ir import IntImm
from tilewright.scheduling.cpu.kernel import divisor_of, extent_of
from tilewright.target import Target
from tilewright.tir.schedule import LoopRV, Schedule

PIECES = 8
"""The iterations of a parallel loop for each thread. With several, a late thread delays the others little."""


def useful_threads(work: int, target: Target) -> int:
    """The number of threads for a kernel of so many iterations; 1 if a second thread would not pay."""
    least = target.cpu.core.shared_elements
    return max(1, min(target.cpu.threads, 2 * work // least)) if work >= least else 1


def parallelize(sch: Schedule, loops: list[LoopRV], work: int, target: Target, inside: int = 1) -> None:
    """Run the outermost loops in parallel, fused as far as needed to give every thread equal work. inside: iterations
    in one of the innermost.
    """
    threads = useful_threads(work, target)
    if threads < 2 or not loops:
        return
    start, end = most_even(sch, loops, threads)
    if (
        start
        and inside * prod([divisor_of(sch.get(loop).extent) for loop in loops[start:]])
        < target.cpu.core.shared_elements
    ):
        # Too little for a start of all threads: the loops of unknown extent that stand outside share it out.
        start, end = 0, leading_dynamic(sch, loops)
    enough = PIECES * threads
    count, take = 1, start
    for loop in loops[start:end]:
        count *= extent_of(sch.get(loop)) if end - start == 1 else divisor_of(sch.get(loop).extent)
        take += 1
        if count >= enough:
            break
    if count < 2 and take - start < 2:
        return
    shared = [*loops[start:take]]
    extent = sch.get(shared[-1]).extent
    if all([extent_of(sch.get(loop)) == 1 for loop in loops[take:]]) and len(shared) > 1 and isinstance(extent, IntImm):
        # Some of the innermost loop stays inside, where what the outer ones say is known.
        least = -(-enough * extent.value // count)
        parts = next(d for d in range(min(least, extent.value), extent.value + 1) if extent.value % d == 0)
        if parts < extent.value:
            shared[-1], _ = sch.split(shared[-1], [parts, None], disable_predication=True)
    sch.parallel(sch.fuse(*shared) if len(shared) > 1 else shared[0])


def leading_dynamic(sch: Schedule, loops: list[LoopRV]) -> int:
    """The number of outermost loops with dynamic extents."""
    known = [isinstance(sch.get(loop).extent, IntImm) for loop in loops]
    return known.index(True) if True in known else len(loops)


def most_even(sch: Schedule, loops: list[LoopRV], threads: int) -> tuple[int, int]:
    """The range (from, to) of adjacent loops to run in parallel: the outermost ones with provably enough iterations for
    each thread, or else those with most.

    A loop of dynamic extent is not fused, so that no index is divided by a dynamic number.
    """
    groups: list[tuple[int, int]] = []
    for i, loop in enumerate(loops):
        if i and isinstance(sch.get(loop).extent, IntImm) and isinstance(sch.get(loops[i - 1]).extent, IntImm):
            groups[-1] = (groups[-1][0], i + 1)
        else:
            groups.append((i, i + 1))
    least = [prod([divisor_of(sch.get(loop).extent) for loop in loops[a:b]]) for a, b in groups]
    enough = PIECES * threads
    most = least.index(max(least))
    if least[most] == 1:
        # Nothing is sure to have two iterations: the first that may have.
        most = next((i for i, (a, _) in enumerate(groups) if not isinstance(sch.get(loops[a]).extent, IntImm)), most)
    return groups[next((i for i, n in enumerate(least) if n >= enough), most)]


__all__ = ["PIECES", "leading_dynamic", "most_even", "parallelize", "useful_threads"]
