"""Cycles that a statement takes on a processor, by a roofline: arithmetic, loads, chains of sums, loops, and memory traffic.

It knows only what features know, and ignores what compilers do with the code. It ranks schedules of a kernel; it does not tell their time.
"""

from __future__ import annotations

from typing import NamedTuple

from tilewright.target.cpu import CpuFacts
from tilewright.tir import ForKind
from tilewright.tuning.features.arithmetic import KINDS, Counts
from tilewright.tuning.features.footprints import Footprint
from tilewright.tuning.features.stores import Store

_CYCLES = {"divmod": 8.0, "mathfunc": 16.0, "otherfunc": 4.0}
WEIGHTS = tuple([_CYCLES.get(kind.rpartition("_")[2], 1.0) for kind in KINDS])
"""Instructions of an operation of each kind, about."""
FROM_L3, FROM_MEMORY = 4.0, 12.0
"""Times for a cache line, in those from the second cache."""
START_THREADS = 10_000.0
"""Cycles to start and to join the threads of a parallel loop."""
UNROLLED = 64
"""Iterations of innermost loops without annotations that a compiler unrolls, at most."""
ITERATION = 1.5
"""Cycles of a loop for each iteration, besides its body."""


OPERANDS = 2
"""Registers for what is multiplied, besides those for sums, at least."""
EXPOSED = 0.1
"""The share of the time of memory accesses that is not hidden behind arithmetic."""


class Estimate(NamedTuple):
    """Cycles of all iterations of a statement on one thread, by cause and together (`total`). least: were there
    only full vectors, no loops, and each element loaded once.

    held: vectors of the written buffer that one pass through the unrolled loops touches. body: iterations of that pass. traffic: bytes that
    come into the first, second and third cache. fits: iterations of the loops whose data each cache holds. spread: by how much threads
    shorten it; starts: cycles for starting and joining them.
    """

    arithmetic: float
    loads: float
    chain: float
    loops: float
    memory: float
    total: float
    least: float
    held: float
    body: float
    traffic: tuple[float, float, float]
    fits: tuple[float, float, float]
    spread: float
    starts: float


def unrolled_level(store: Store) -> int:
    """The depth from which on loops are vectors or unrolled: by annotation, or since their body is below the limit that was set."""
    level, body = len(store.loops), 1
    for depth in range(len(store.loops) - 1, -1, -1):
        loop = store.loops[depth]
        marked = loop.kind in (ForKind.VECTORIZED, ForKind.UNROLLED)
        if not marked and (loop.kind != ForKind.SERIAL or body * loop.extent > max(loop.unroll_step, 1)):
            break
        body *= loop.extent
        level = depth
    return level


def vector_length(store: Store) -> int:
    """Iterations of the vectorized loops."""
    length = 1
    for loop in store.loops:
        if loop.kind == ForKind.VECTORIZED:
            length *= loop.extent
    return length


def work_of(counts: Counts) -> float:
    """Instructions of an iteration, were it not for vectors."""
    return sum([c * w for c, w in zip(counts, WEIGHTS, strict=True) if c])


def estimate(
    store: Store, touched: list[Footprint], inner: list[float], cpu: CpuFacts, threads: int, line: int
) -> Estimate:
    """inner: iterations of the loops from each depth on."""
    core, iterations = cpu.core, inner[0] * store.share
    lanes = min(cpu.lanes(store.bits), vector_length(store))
    level = unrolled_level(store)
    body = inner[level]
    passes = iterations / body
    arithmetic = iterations / lanes * max(work_of(store.counts), 0.5) / core.multiply_adds
    written = next((t for t in touched if t.writes), touched[0])
    sums = any([t.writes and t.reads for t in touched])
    held = written.elements[level] / lanes
    # The loop around the unrolled ones leaves the written elements where they are, in registers if these hold them.
    fits_registers = held + OPERANDS * sums <= cpu.vector_registers
    stays = level > 0 and not written.moves[level - 1] and fits_registers and not store.starts_inside
    moved = 0.0
    for t in touched:
        vectors = t.elements[level] / lanes if t.stride <= 1 or lanes == 1 else float(t.elements[level])
        if t.writes:
            kept = store.loops[level - 1].extent if stays else 1
            moved += 2 * vectors / kept if t.reads else vectors / kept
        else:
            moved += vectors
    loads = passes * moved / core.loads
    chain = passes * (body / lanes / max(held, 1.0)) * core.latency if sums else 0.0
    loops, outer = 0.0, 1.0
    for loop in store.loops[:level]:
        outer *= loop.extent
        loops += outer * ITERATION
    traffic, fits = [], []
    for size in (cpu.l1_bytes, cpu.l2_bytes, cpu.l3_bytes or 4 * cpu.l2_bytes):
        bytes_in, fit = _traffic(store, touched, inner, float(size), line)
        traffic.append(bytes_in * store.share)
        fits.append(fit)
    vector = core.streamed / line
    memory = vector * (traffic[0] + FROM_L3 * traffic[1] + FROM_MEMORY * traffic[2])
    spread, starts = _threads(store, threads)
    busy = max(arithmetic, loads, chain) + loops + EXPOSED * memory
    full = cpu.lanes(store.bits)
    least = max(
        iterations / full * max(work_of(store.counts), 0.5) / core.multiply_adds,
        sum([t.elements[0] for t in touched]) / full / core.loads,
    )
    least += EXPOSED * core.streamed * sum([t.lines[0] for t in touched])
    return Estimate(
        arithmetic,
        loads,
        chain,
        loops,
        memory,
        busy,
        least,
        held,
        body,
        (traffic[0], traffic[1], traffic[2]),
        (fits[0], fits[1], fits[2]),
        spread,
        starts * START_THREADS,
    )


def _traffic(store: Store, touched: list[Footprint], inner: list[float], size: float, line: int) -> tuple[float, float]:
    """Bytes that come into a cache, and the iterations of the outermost loops whose data it holds."""
    depth = len(store.loops)
    level = depth
    for at in range(depth + 1):
        if sum([t.lines[at] for t in touched]) * line <= size:
            level = at
            break
    bytes_in = 0.0
    for t in touched:
        lines = t.lines[level]
        # The loops around it that do not change what is accessed find it in the cache still.
        at = level
        if lines * line <= size / 2:
            while at > 0 and not t.moves[at - 1]:
                at -= 1
        times = inner[0] / inner[at]
        if at == 0:
            times = 1.0
        bytes_in += lines * line * times
    return bytes_in, inner[level]


def _threads(store: Store, threads: int) -> tuple[float, float]:
    """By how much threads shorten a statement, and how often they are started."""
    outer = 1.0
    for loop in store.loops if threads > 1 else ():
        if loop.kind == ForKind.PARALLEL:
            return loop.extent / -(-loop.extent // threads), outer
        outer *= loop.extent
    return 1.0, 0.0
