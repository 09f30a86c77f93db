"""Reductions along trailing axes (softmax, layer norm, mean): one row at a time, vectors along it.

for i: for k: M[i] = max(..);  for i: for k: S[i] += exp(A[i, k] - M[i]);  for i, j: O[i, j] = ..
-->
parallel i: (for k: lanes: ..), fold lanes; ...; for j: vectorize lanes: O
"""

from __future__ import annotations

from collections import Counter
from math import prod

from tilewright.ir import IntImm, PrimExpr
from tilewright.scheduling.block_views import BlockView, KernelView, divisor_of, extent_of
from tilewright.scheduling.cost import divisors
from tilewright.scheduling.cpu.injective import schedule_injective, vector_width
from tilewright.scheduling.cpu.prefetch import mark_next_row
from tilewright.scheduling.cpu.row_groups import rows_of_group, schedule_row_groups
from tilewright.scheduling.cpu.sharing import parallelize, useful_threads
from tilewright.scheduling.shared_axes import shared_axes
from tilewright.target import Target
from tilewright.target.core import Core
from tilewright.tir import BlockRealize, For
from tilewright.tir.schedule import BlockRV, LoopRV

MOST_VECTORS = 8
"""Vectors over which a reduction can be spread."""

MOST_UNROLLED = 64
"""The longest loop of a reduction that a plan may unroll."""


def schedule_rows(view: KernelView, target: Target) -> None:
    """Spread reductions over vector lanes, and move all blocks under the row loop of the last one."""
    sch = view.sch
    behind = share_out_sum(view, target)

    def in_rows() -> list[BlockView]:
        return [b for b in view.blocks() if b.name not in behind]

    row_axes = shared_axes(view, in_rows())
    rows = 1 if behind else rows_of_group(view, in_rows(), row_axes, target)
    if rows > 1:
        schedule_row_groups(view, rows, target)
        return
    work, few = max([b.iterations for b in in_rows()]), few_columns(in_rows(), row_axes, target)
    partial: list[tuple[BlockRV, int]] = []
    for block in [b for b in in_rows() if b.reduction]:
        partial += spread_over_lanes(view, block, target)
    blocks = in_rows()
    spread_out = {sch.get(rv).name_hint for rv, _ in partial}
    row: LoopRV | None = None
    rows_of: dict[str, LoopRV] = {}
    shared: list[LoopRV] = []
    if row_axes:
        shared_out, row = row_loops(view, view.loops(blocks[-1])[:row_axes], target)
        shared, at = [shared_out], row
        for block in reversed(blocks[:-1]):
            if block.name not in spread_out:
                at = row
                model = "own" if few and numbers_of_row(block, row_axes) == few else "shared"
                if view.plan.choose(f"{block.name}.place", model, lambda: ("shared", "own")) == "own":
                    shared_out, at = row_loops(view, view.loops(block)[:row_axes], target)
                    shared.insert(0, shared_out)
                    continue
            # Partial results go where their reduction is, which follows them.
            rows_of[block.name] = at
            # Refused where what a row needs is not one row of that block: it stays a stage of its own.
            with sch.tried(f"{block.name} row by row with {blocks[-1].name}"):
                sch.compute_at(block.rv, at)
    for block in blocks if partial else []:
        if block.reduction and block.name not in spread_out:
            unroll_fold(view, block, target)
    for rv, width in partial:
        vectorize_partial(view, rv, target, width, rows_of.get(sch.get(rv).name_hint, row))
    for loop in shared:
        # What a row makes for itself alone is not seen any more where a predicate cuts off its last vector.
        parallelize(view, blocks[-1].name, [loop], work, target)
    stages = in_rows() if row is not None else []
    written = Counter([w.buffer for block in stages for w in block.block.writes])
    for k, block in enumerate(stages):
        # A block that starts sums shares their buffer, and has been vectorised with them.
        if row is not None and block.is_injective and all([written[w.buffer] == 1 for w in block.block.writes]):
            vectorize_last(view, block.rv, target, row, stages[:k])
    for block in [b for b in view.blocks() if b.name in behind]:
        unroll_fold(view, block, target)


def few_columns(blocks: list[BlockView], row_axes: int, target: Target) -> list[int]:
    """The numbers of a row by their axes, where they are several, but fewer than half of a vector: vectors then run over rows, which needs
    loops of their own. Empty otherwise."""
    reduced = next((numbers_of_row(b, row_axes) for b in blocks if b.reduction), [])
    return reduced if 1 < prod(reduced) < target.cpu.lanes(32) // 2 else []


def numbers_of_row(block: BlockView, row_axes: int) -> list[int]:
    """What a block computes of each row, by its axes."""
    return block.extents[row_axes : len(block.spatial)]


def row_loops(view: KernelView, loops: list[LoopRV], target: Target) -> tuple[LoopRV, LoopRV]:
    """The loop that threads share, and the loop over rows: all loops fused into one.

    If extents are dynamic and the outer loops have enough iterations for all threads, the other loops stay separate. No
    index must then be divided by a dynamic number.
    """
    sch = view.sch
    extents = [sch.get(loop).extent for loop in loops]
    end, least = len(loops), 1
    if not all([isinstance(e, IntImm) for e in extents[1:]]):
        for i, e in enumerate(extents):
            least *= divisor_of(e)
            if least >= 2 * target.cpu.threads:
                end = i + 1
                break
    shared_out = sch.fuse(*loops[:end]) if end > 1 else loops[0]
    return shared_out, shared_out if end == len(loops) else loops[-1]


def share_out_sum(view: KernelView, target: Target) -> set[str]:
    """Divide reductions of many elements to fewer results than threads: parts of them become rows, whose results are
    reduced in turn.

    Returns the names of the blocks after the rows; none if nothing was changed.
    """
    sch = view.sch
    blocks = view.blocks()
    reductions = [b for b in blocks if b.reduction]
    if len(reductions) != 1 or any([b.is_opaque for b in blocks]):
        return set()
    (block,) = reductions
    loops = view.loops(block)[-len(block.reduction) :]
    rows, extent = block.iterations // prod(view.extents(loops)), sch.get(loops[0]).extent
    threads = useful_threads(block.iterations, target)
    if rows >= threads or len(block.block.writes) != 1 or not isinstance(extent, IntImm):
        return set()
    most = min(target.cpu.core.pieces * threads, block.iterations // target.cpu.core.shared_elements)
    choices = divisors(extent.value, target.cpu.core.pieces * threads)
    model = max([n for n in choices if n <= most], default=1)
    parts = view.plan.choose(f"{block.name}.parts", model, lambda: choices)
    if parts < 2:
        return set()
    outer, _ = sch.split(loops[0], [parts, None], disable_predication=True)
    sch.rfactor(outer, 0)
    return {b.name for b in blocks[blocks.index(block) :]}


def spread_over_lanes(
    view: KernelView, block: BlockView, target: Target, masked: bool = True
) -> list[tuple[BlockRV, int]]:
    """Factor the last reduction axis over several vectors, and these over one vector, whose lanes remain to be folded.

    masked: whether the last of several vectors may reach beyond the axis. Returns the blocks of partial results with the
    numbers of their elements; none if the axis is too short or is no whole number of vectors.
    """
    sch = view.sch
    if len(block.block.writes) != 1 or block.is_opaque:
        return []
    lanes = target.cpu.lanes(block.block.writes[0].buffer.dtype.bits)
    if lanes == 1:
        return []
    partial: list[tuple[BlockRV, int]] = []
    model = first_width(view, block, lanes, target.cpu.core)
    row = sch.get(view.loops(block)[-1]).extent
    first = view.plan.choose(f"{block.name}.lanes", model, lambda: widths_of_row(row, lanes, model, masked))
    # Each step adds the halves of vectors; scalars would wait for one another.
    narrower = [w for w in (lanes, lanes // 2, lanes // 4) if w < first]
    for width in (first, *narrower) if first else ():
        reduced = view.loops(block)[-1]
        extent = sch.get(reduced).extent
        known = divisor_of(extent)
        if width < 4 or (partial and (known < 2 * width or known % width)):
            continue
        if isinstance(extent, IntImm) and width == extent.value:
            inner = reduced
        else:
            # Vectors of a first width that does not divide the row reach beyond its end, where they are masked.
            _, inner = sch.split(reduced, [None, width], disable_predication=known % width == 0)
        factored = sch.rfactor(inner, len(block.block.writes[0].region))
        sch.set_scope(factored, 0, "local")
        partial.append((factored, width))
    return partial


def widths_of_row(extent: PrimExpr, lanes: int, model: int, masked: bool) -> list[int]:
    """The numbers of elements of a row that can be reduced in parallel: whole vectors; those that divide the row if its length is not
    known, or if the last ones cannot be masked. 0: one after the other."""
    widths = [lanes // 2, *[lanes * n for n in range(1, MOST_VECTORS + 1)]]
    if isinstance(extent, IntImm) and masked:
        fits = [w for w in widths if 4 <= w <= extent.value]
    else:
        fits = [w for w in widths if w >= 4 and divisor_of(extent) % w == 0]
    return sorted({0, model, *fits})


def first_width(view: KernelView, block: BlockView, lanes: int, core: Core) -> int:
    """The number of elements of a row to reduce in parallel: several vectors, or a wide enough divisor of the row; 0 if
    the row is too short. Several are as many as let additions not wait for each other.

    If there are several axes, the last can be short. Each of its elements is then summed separately.
    """
    accumulators = int(core.latency)
    extent = view.sch.get(view.loops(block)[-1]).extent
    known = divisor_of(extent)
    if not isinstance(extent, IntImm):
        # A whole number of vectors is all that can be told of an extent that is not known.
        return next((w for w in (lanes * accumulators, lanes, lanes // 2) if known % w == 0), 0)
    least = 1 if len(block.reduction) > 1 else 2
    for vector in (lanes, lanes // 2):
        for several in range(accumulators * lanes // vector, 1, -1):
            if vector >= 4 and known % (vector * several) == 0 and known >= least * vector * several:
                return vector * several
    if known % lanes == 0 and known >= 2 * lanes:
        return lanes
    if known >= core.masked_after * lanes * accumulators:
        return lanes * accumulators
    if known >= core.masked_after * lanes:
        return lanes
    return lanes // 2 if known % (lanes // 2) == 0 and known >= lanes else 0


def vectorize_partial(view: KernelView, block: BlockRV, target: Target, width: int, row: LoopRV | None) -> None:
    """Move the loop over lanes inwards and vectorise it. The initialisation gets its own loops."""
    sch = view.sch
    now = BlockView(sch, block)
    lanes = target.cpu.lanes(now.block.writes[0].buffer.dtype.bits)
    loops = view.loops(block)
    here = [sch.get(loop) for loop in loops]
    if row is not None and sch.get(row) in here:
        # compute_at makes loops for the block's axes in order, and rfactor put that of the lanes first.
        before = loops[: here.index(sch.get(row)) + 1]
        lane_loop, *steps = loops[len(before) :]
    else:
        *before, lane_loop = loops
        steps = before[len(before) - len(now.reduction) :]
    sch.reorder(*steps, lane_loop)
    # Where the lanes are all there is, no step is left.
    init = sch.decompose_reduction(block, steps[0] if steps else lane_loop)
    if len(steps) == 1 and unrolls(view, now.name, "steps", sch.get(steps[0]), target.cpu.core.unrolled_steps):
        sch.unroll(steps[0])
    wide = now.vector_elements(width, lanes)
    for one in (block, init):
        spread(view, one, wide if wide >= width else lanes, width)


def unroll_fold(view: KernelView, block: BlockView, target: Target) -> None:
    """Fold the remaining lanes of a reduction without a loop, in a register."""
    sch = view.sch
    loops = view.loops(block)
    if not loops or len(block.reduction) != 1:
        return
    last, axes = sch.get(loops[-1]), block.block.iter_vars
    # Several blocks in the innermost loop are a row each; it is no loop over lanes of one of them.
    if not isinstance(last.body, BlockRealize):
        return
    # Factoring puts the axis of the lanes first: the innermost loop may be a spatial one.
    if last.body.iter_values[axes.index(block.reduction[0])] is last.loop_var and unrolls(
        view, block.name, "fold", last, target.cpu.core.unrolled_lanes
    ):
        sch.decompose_reduction(block.rv, loops[-1])
        sch.unroll(loops[-1])


def unrolls(view: KernelView, name: str, what: str, loop: For, most: int) -> bool:
    """Whether a short loop of a reduction is unrolled: by the model up to `most` iterations."""
    extent = extent_of(loop)
    if not isinstance(loop.extent, IntImm) or extent > MOST_UNROLLED:
        return extent <= most
    return (
        view.plan.choose(f"{name}.{what}", "unrolled" if extent <= most else "loop", lambda: ("unrolled", "loop"))
        == "unrolled"
    )


def spread(view: KernelView, block: BlockRV, lanes: int, width: int) -> None:
    """Vectorise the last loop, with several vectors unrolled."""
    last = view.loops(block)[-1]
    if width > lanes:
        several, last = view.sch.split(last, [None, vector_width(width, lanes)])
        view.sch.unroll(several)
    view.sch.vectorize(last)


def vectorize_last(view: KernelView, block: BlockRV, target: Target, row: LoopRV, before: list[BlockView]) -> None:
    """Vectorise the last loop of an element-wise block below the row loop. before: the stages of a row before it."""
    sch = view.sch
    loops = view.loops(block)
    here = [sch.get(loop) for loop in loops]
    if sch.get(row) not in here:
        schedule_injective(view, BlockView(sch, block), target)
        return
    below = loops[here.index(sch.get(row)) + 1 :]
    lanes = target.cpu.lanes(BlockView(sch, block).block.writes[0].buffer.dtype.bits)
    if below and extent_of(sch.get(below[-1])) > lanes // 2:
        extent = extent_of(sch.get(below[-1]))
        model = BlockView(sch, block).vector_elements(extent, lanes) if extent < 1 << 20 else lanes
        widths = {model, *[n for n in (lanes, 2 * lanes, 4 * lanes) if n <= max(extent, lanes)]}
        width = view.plan.choose(f"{sch.get(block).name_hint}.vector", model, lambda: sorted(widths))
        vectors, vector = sch.split(below[-1], [None, width])
        # Refused where neighbouring rows need parts of it in common (a padded input below windows).
        with sch.tried(f"vectors of {sch.get(block).name_hint}"):
            sch.vectorize(vector)
            mark_next_row(view, row, vectors, BlockView(sch, block), before)
