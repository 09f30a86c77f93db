"""The columns of features.

The first 164 are those that Ansor's paper describes (Zheng et al., OSDI 2020, appendix B), in the groups in which classic `PerStoreFeature`
documents them: arithmetic, and annotations of loops (57); accesses to the five buffers with the most bytes (5 x 18); the arithmetic
intensity at ten points of the loop nest (10); allocation (4); the loop nest (3). Those after them relate the statement to the target: what
its caches hold, how its vectors and registers are used, and the parts of the estimate of its cycles.
"""

from __future__ import annotations

import math
import os
from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import numpy as np

from tilewright.ir import IRModule
from tilewright.target import Target
from tilewright.target.cpu import CpuFacts
from tilewright.tir import ForKind, PrimFunc
from tilewright.tuning.features.arithmetic import KINDS
from tilewright.tuning.features.estimate import Estimate, estimate, vector_length
from tilewright.tuning.features.footprints import Footprint, footprints
from tilewright.tuning.features.stores import Store, stores_of
from tilewright.tuning.inputs import kernel_of

Rows = np.ndarray[Any, np.dtype[np.float32]]

_POSITIONS = (
    "none",
    "inner_spatial",
    "middle_spatial",
    "outer_spatial",
    "inner_reduce",
    "middle_reduce",
    "outer_reduce",
    "mixed",
)
_MARKS = {"vectorize": ForKind.VECTORIZED, "unroll": ForKind.UNROLLED, "parallel": ForKind.PARALLEL}
_OF_GPUS = ("is_gpu", *[f"{of}_{axis}_len" for of in ("blockIdx", "threadIdx") for axis in "xyz"], "vthread_len")
_OF_ACCESS = (
    *[f"access_{kind}" for kind in ("read", "write", "read_write")],
    *("bytes", "unique_bytes", "lines", "unique_lines"),
    *[f"reuse_{kind}" for kind in ("loop", "serial", "none")],
    *("reuse_distance_iterations", "reuse_distance_bytes", "reuse_count"),
    *[f"{what}_over_reuse" for what in ("bytes", "unique_bytes", "lines", "unique_lines")],
    "stride",
)
BUFFERS, SAMPLES, LINE = 5, 10, 64

_OWN = (
    *[f"{what}_l{cache}" for cache in (1, 2, 3) for what in ("fits", "traffic", "intensity")],
    *[f"accesses_{kind}" for kind in ("neighbours", "same", "apart")],
    *(
        "lanes",
        "lanes_used",
        "held_vectors",
        "registers_used",
        "body",
        "spread",
        "starts_cycles",
        "share",
        "starts_inside",
        "bits",
    ),
    *[f"cycles_{part}" for part in ("arithmetic", "loads", "chain", "loops", "memory")],
    "cycles",
    *("efficiency", "part_of_program", "efficiency_of_program"),
)


def names(buffers: int = BUFFERS, samples: int = SAMPLES) -> tuple[str, ...]:
    """The columns that classic has, by name."""
    marks = [
        f"{mark}_{what}" for mark in _MARKS for what in ("count", "product", "length", *[f"at_{p}" for p in _POSITIONS])
    ]
    accesses = [f"buffer{k}_{what}" for k in range(buffers) for what in _OF_ACCESS]
    curve = [f"intensity_{k}" for k in range(samples)]
    allocation = [f"allocation_{what}" for what in ("size", "product", "outer_product", "inner_product")]
    return (*KINDS, *marks, *_OF_GPUS, *accesses, *curve, *allocation, "outer_product", "loops", "auto_unroll_max_step")


COLUMNS = (*names(), *_OWN)
CLASSIC = len(names())
"""The number of columns that classic has; those of ours follow."""
KEPT = 1024
"""Programs whose rows are kept."""


@lru_cache(maxsize=1)
def host_threads() -> int:
    """Threads of this machine that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def features(program: IRModule | PrimFunc, target: Target, threads: int | None = None) -> Rows:
    """The rows of a program, lowered or not: an array of (statements, len(COLUMNS)) float32.

    Counts and sizes x are sign(x) * log2(1 + |x|); shares and flags are themselves. threads: those that run it, where they are not those of
    this machine. Raises TVMError for a module of several functions.
    """
    kernel = program if isinstance(program, PrimFunc) else kernel_of(program)
    return _kept(kernel, target, threads or min(target.cpu.threads, host_threads()))


@lru_cache(KEPT)
def _kept(kernel: PrimFunc, target: Target, threads: int) -> Rows:
    """A search asks again for the programs of its population whenever its model has learned."""
    found = features_of(kernel, target, threads)
    found.setflags(write=False)
    return found


def features_of(
    program: IRModule | PrimFunc,
    target: Target,
    threads: int,
    buffers: int = BUFFERS,
    samples: int = SAMPLES,
    line: int = LINE,
    logarithms: bool = True,
) -> Rows:
    """The same with other numbers of buffers and of points of the intensity, and another length of cache lines in bytes. logarithms: of
    counts and sizes; otherwise these are themselves."""
    stores = stores_of(program if isinstance(program, PrimFunc) else kernel_of(program))
    touched = [footprints(store, line) for store in stores]
    cpu = target.cpu
    nests = [_inner(store) for store in stores]
    costs = [
        estimate(store, t, inner, cpu, threads, line) for store, t, inner in zip(stores, touched, nests, strict=True)
    ]
    total = sum([cost.total for cost in costs])
    efficiency = sum([cost.least for cost in costs]) / max(total, 1e-9)
    rows = [
        [
            *_row(k, stores, touched, nests[k], buffers, samples, line),
            *_own(store, touched[k], nests[k][0] * store.share, costs[k], cpu),
            *(costs[k].least / max(costs[k].total, 1e-9), costs[k].total / max(total, 1e-9), efficiency),
        ]
        for k, store in enumerate(stores)
    ]
    found = np.array(rows, dtype=np.float64).reshape(len(rows), len(names(buffers, samples)) + len(_OWN))
    scaled = _scaled(buffers, samples) & logarithms
    found[:, scaled] = np.sign(found[:, scaled]) * np.log2(1 + np.abs(found[:, scaled]))
    return found.astype(np.float32)


@lru_cache(maxsize=8)
def _scaled(buffers: int, samples: int) -> np.ndarray[Any, np.dtype[np.bool_]]:
    """Which columns have logarithms: all but flags and shares."""
    own = ("lanes_used", "registers_used", "share", "starts_inside", "part_of_program")
    plain = [
        "_at_" in n
        or n.startswith("efficiency")
        or n == "is_gpu"
        or n in own
        or any([n.endswith(end) for end in _FLAGS])
        for n in (*names(buffers, samples), *_OWN)
    ]
    return ~np.array(plain)


_FLAGS = ("_access_read", "_access_write", "_access_read_write", "_reuse_loop", "_reuse_serial", "_reuse_none")


def _inner(store: Store) -> list[float]:
    """The iterations of the loops from each depth on."""
    inner = [1.0]
    for loop in reversed(store.loops):
        inner.append(inner[-1] * max(loop.extent, 1))
    return inner[::-1]


def _row(
    number: int,
    stores: list[Store],
    all_touched: list[list[Footprint]],
    inner: list[float],
    buffers: int,
    samples: int,
    line: int,
) -> list[float]:
    """The columns that classic has."""
    store, touched = stores[number], all_touched[number]
    iterations = inner[0] * store.share
    written = next((t for t in touched if t.writes), touched[0])
    row = [c * iterations for c in store.counts]
    for kind in _MARKS.values():
        row += _marks(store, written, kind)
    row += [0.0] + [1.0] * (len(_OF_GPUS) - 1)
    row += _accesses(number, stores, all_touched, inner, buffers, line)
    row += _curve(store, touched, inner, samples)
    allocation = store.allocation
    if allocation is None:
        row += [0.0, 0.0, 0.0, 0.0]
    else:
        size, outer = float(allocation.size), float(allocation.outer)
        row += [size, size * outer, outer, inner[0] / outer]
    row += [inner[0], float(len(store.loops)), float(max([loop.unroll_step for loop in store.loops], default=0))]
    return row


def _marks(store: Store, written: Footprint, kind: int) -> list[float]:
    """Loops of a kind: their number, the product of their extents, the extent of the innermost, and where that one is."""
    at = [depth for depth, loop in enumerate(store.loops) if loop.kind == kind]
    position = [0.0] * len(_POSITIONS)
    if not at:
        position[0] = 1.0
        return [0.0, 1.0, 0.0, *position]
    product = 1.0
    for depth in at:
        product *= store.loops[depth].extent
    last = at[-1]
    moves = written.moves[last]
    same = [d for d, loop in enumerate(store.loops) if loop.extent > 1 and written.moves[d] == moves]
    where = 0 if not same or last >= same[-1] else 2 if last <= same[0] else 1
    position[(1 if moves else 4) + where] = 1.0
    return [float(len(at)), product, float(store.loops[last].extent), *position]


def _accesses(
    number: int, stores: list[Store], all_touched: list[list[Footprint]], inner: list[float], buffers: int, line: int
) -> list[float]:
    """The columns of the buffers with the most bytes."""
    store, touched = stores[number], all_touched[number]
    iterations = inner[0] * store.share
    rows = []
    for t in touched:
        total = iterations * t.count * t.element
        unique = float(t.elements[0] * t.element)
        step = min(1.0, t.stride * t.element / line) if t.stride else 0.0
        last = store.loops[-1].extent if store.loops else 1
        lines = max(iterations * t.count * (step if step else 1 / max(last, 1)), t.lines[0])
        unique_lines = t.lines[0]
        kind, distance, distance_bytes, count = _reuse(number, stores, all_touched, t, inner)
        flags = [
            float(t.reads and not t.writes),
            float(t.writes and not t.reads),
            float(t.reads and t.writes),
        ]
        reuse = [0.0, 0.0, 0.0]
        reuse[kind] = 1.0
        by = max(count, 1.0) if kind != 2 else 0.5
        sizes = [total, unique, lines, unique_lines]
        row = [*flags, *sizes, *reuse, distance, distance_bytes, count, *[s / by for s in sizes], float(t.stride)]
        rows.append((total, unique, row))
    if len(rows) > 1:
        rows.sort(key=lambda r: (-r[0], -r[1]))
    found = [value for _, _, row in rows[:buffers] for value in row]
    return found + [0.0] * (len(_OF_ACCESS) * (buffers - min(len(rows), buffers)))


def _reuse(
    number: int, stores: list[Store], all_touched: list[list[Footprint]], t: Footprint, inner: list[float]
) -> tuple[int, float, float, float]:
    """How elements of a buffer are used again: by a loop (0), by another statement (1), or not (2); after how many iterations and bytes;
    how often."""
    store, touched = stores[number], all_touched[number]
    for depth in range(len(store.loops) - 1, -1, -1):
        loop = store.loops[depth]
        if loop.extent > 1 and not t.moves[depth]:
            between = sum([float(u.elements[depth + 1] * u.element) for u in touched])
            return 0, inner[depth + 1], between, float(loop.extent)
    for other in range(len(stores)):
        if other != number and any([u.buffer is t.buffer for u in all_touched[other]]):
            shared = 0
            for a, b in zip(store.place, stores[other].place, strict=False):
                if a != b:
                    break
                shared += 1
            between = sum([float(u.elements[shared] * u.element) for u in touched])
            return 1, inner[shared], between, 1.0
    return 2, 0.0, 0.0, 0.0


def _curve(store: Store, touched: Sequence[Footprint], inner: list[float], samples: int) -> list[float]:
    """Operations for each byte that is touched, at points from the innermost loop to the whole nest that are even in the logarithm of the
    operations."""
    work = max(sum(store.counts), 1.0)
    points: list[tuple[float, float]] = []
    for level in range(len(store.loops), -1, -1):
        operations = math.log2(1 + work * inner[level])
        if points and operations <= points[-1][0]:
            continue
        size = sum([t.elements[level] * t.element for t in touched])
        points.append((operations, work * inner[level] / max(size, 1)))
    found, at = [], 0
    first, last = points[0][0], points[-1][0]
    for k in range(samples):
        x = first + (last - first) * k / max(samples - 1, 1)
        while at + 1 < len(points) - 1 and points[at + 1][0] < x:
            at += 1
        if len(points) == 1:
            found.append(points[0][1])
            continue
        (x0, y0), (x1, y1) = points[at], points[at + 1]
        found.append(y0 + (y1 - y0) * min((x - x0) / (x1 - x0), 1.0))
    return found


def _own(store: Store, touched: list[Footprint], iterations: float, cost: Estimate, cpu: CpuFacts) -> list[float]:
    work = sum(store.counts) * iterations
    row: list[float] = []
    for fit, traffic in zip(cost.fits, cost.traffic, strict=True):
        row += [fit, traffic, work / max(traffic, 1.0)]
    row += [
        float(sum([t.count for t in touched if t.stride == 1])),
        float(sum([t.count for t in touched if t.stride == 0])),
        float(sum([t.count for t in touched if t.stride > 1])),
    ]
    length, lanes = vector_length(store), cpu.lanes(store.bits)
    used = length / (-(-length // lanes) * lanes)
    row += [float(length), used, cost.held, min(cost.held / cpu.vector_registers, 4.0), cost.body]
    row += [cost.spread, cost.starts, store.share, float(store.starts_inside), float(store.bits)]
    row += [cost.arithmetic, cost.loads, cost.chain, cost.loops, cost.memory, cost.total]
    return row
