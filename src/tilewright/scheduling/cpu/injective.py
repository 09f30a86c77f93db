"""Element-wise kernels: vectors on the last axis, threads on the outer ones."""

from __future__ import annotations

from math import prod

from tilewright.ir import FloatImm, IntImm
from tilewright.node import nodes_of
from tilewright.scheduling.block_views import BlockView, KernelView, divisor_of, extent_of, uses
from tilewright.scheduling.cpu.crossing import crossing_of, schedule_crossing
from tilewright.scheduling.cpu.padding import pads_pixels, schedule_padding
from tilewright.scheduling.cpu.sharing import parallelize
from tilewright.target import Target
from tilewright.target.core import Core
from tilewright.tir import LT, BufferLoad, BufferStore, Call, Cast, FloorDiv, IterVar
from tilewright.tir.schedule import LoopRV, Schedule
from tilewright.tir.stmt_functor import post_order_visit
from tilewright.topi.stages import MATERIALIZE

MOST_REPEATS = 4
"""Rows that repeat one row and are written together, at most."""

MOST_STEPS = 8
"""Vectors of a row that are written out, at most."""


def schedule_injective(view: KernelView, block: BlockView, target: Target) -> None:
    """for i: for j: S   -->   parallel i: for j // lanes: vectorize j % lanes: S"""
    loops = view.loops(block)
    if not loops:
        return
    lanes = target.cpu.lanes(block.block.writes[0].buffer.dtype.bits)
    if target.cpu.pairs and computes(block):
        # Vectors of bytes are words that are copied; arithmetic has one number in a general register.
        lanes = 1
    total, whole = prod(view.extents(loops)), len(loops) == len(block.spatial)
    crossing = crossing_of(block, target) if whole else None
    if crossing is not None and has_form(view, block, "tiles"):
        loops, inside = schedule_crossing(view, block, crossing)
    elif whole and pads_pixels(block, target) and has_form(view, block, "filled"):
        loops, inside = schedule_padding(view, block, target)
    elif (ends := parts_of(block, loops, lanes)) and has_form(view, block, "parts"):
        schedule_parts(view, block, loops, ends, target)
        return
    else:
        loops, inside = vectorize_rows(view, block, loops, lanes)
    parallelize(view, block.name, loops, total, target, inside)


def computes(block: BlockView) -> bool:
    """Whether a block does arithmetic on what it reads, rather than moving it."""
    store = block.block.body
    value = store.value if isinstance(store, BufferStore) else None
    if isinstance(value, Call) and getattr(value.op, "name", "") == "tir.if_then_else":
        return not all([isinstance(v, (BufferLoad, IntImm, FloatImm)) for v in value.args[1:]])
    return not isinstance(value, (BufferLoad, IntImm, FloatImm))


def has_form(view: KernelView, block: BlockView, form: str) -> bool:
    """Whether a block gets a form that it can have: tiles (transposed reads), filled (padded rows of pixels), parts (concatenations); else
    its rows are vectorised as they are."""
    return view.plan.choose(f"{block.name}.form", form, lambda: (form, "rows")) == form


def vectorize_rows(view: KernelView, block: BlockView, loops: list[LoopRV], lanes: int) -> tuple[list[LoopRV], int]:
    """for i: for j: S   -->   for i: for j // width: vectorize j % width: S

    Returns (the loops outside, the width).
    """
    sch = view.sch
    together = rows_together(view, block, loops, lanes)
    if together > 1:
        loops = [*loops[:-together], sch.fuse(*loops[-together:])]
    *outer, last = view.extents(loops)
    width = width_along(block, last, lanes, view.plan.target.cpu.core)
    divide = bool(outer) and last < lanes and lanes % last == 0
    even = divide and outer[-1] * last % lanes == 0
    if (even and MATERIALIZE in block.block.annotations) or (
        divide and width == 1 and outer[-1] * last >= 4 * lanes and not computes(block)
    ):
        # Operands packed in groups: a vector runs over several.
        loops = [*loops[:-2], sch.fuse(*loops[-2:])]
        width = lanes
    if width == lanes and isinstance(sch.get(loops[-1]).extent, IntImm):
        width = block.vector_elements(last, lanes)
    if width == 1:
        return loops, 1
    widths = {width, *[n for n in (lanes, 2 * lanes, 4 * lanes) if width % lanes == 0 and n <= max(last, lanes)]}
    width = view.plan.choose(f"{block.name}.vector", width, lambda: sorted(widths))
    along, vector = sch.split(loops[-1], [None, width])
    sch.vectorize(vector)
    if _computes_places(block) and 1 < (steps := extent_of(sch.get(along))) <= MOST_STEPS:
        # The places of each vector are found once, before all rows; the loads of the lanes have no conditions then.
        if view.plan.choose(f"{block.name}.steps", "unrolled", lambda: ("unrolled", "loop")) == "unrolled":
            sch.unroll(along)
            return loops[:-1], steps * width
    times = repeats_of(block, block.spatial[-2]) if len(loops) == len(block.spatial) > 1 else 1
    if times > 1 and extent_of(sch.get(loops[-2])) % times == 0 and repeats_together(view, block):
        # Rows that repeat one row are written from what is loaded once.
        row, again = sch.split(loops[-2], [None, times])
        sch.reorder(along, again, vector)
        sch.unroll(again)
        return [*loops[:-2], row, along], times * width
    return [*loops[:-1], along], width


def repeats_of(block: BlockView, axis: IterVar, most: int = MOST_REPEATS) -> int:
    """How many steps of an axis read one element, up to four: images that are enlarged."""
    found = {
        e.b.value if isinstance(e, FloorDiv) and e.a is axis.var and isinstance(e.b, IntImm) else 1
        for load in uses(block.block.body).loads for e in load.indices if axis.var in uses(e).vars
    }  # fmt: skip
    return found.pop() if len(found) == 1 and max(found) <= most else 1


def repeats_together(view: KernelView, block: BlockView) -> bool:
    """Whether rows that repeat one row are written side by side, or one after the other.

    Large results are written faster in order: 0.55 of the time for 4 x 23 images of 46 x 196 pixels that are doubled. Side by side, what
    is loaded is repeated in registers once; that counts where lanes are picked one by one: 0.3 of the time for images enlarged threefold.
    """
    (write,) = block.block.writes
    size = prod([divisor_of(n) for n in write.buffer.shape]) * write.buffer.dtype.bytes
    along = repeats_of(block, block.spatial[-1], size)
    picked = along & (along - 1) == 0 and not block.is_chained
    model = "apart" if picked and size > view.plan.target.cpu.l2_bytes else "together"
    return view.plan.choose(f"{block.name}.repeats", model, lambda: ("apart", "together")) == "together"


def _computes_places(block: BlockView) -> bool:
    """Whether a block computes, from each place along its last axis, which element of a row it reads (images that are resized)."""
    axis = block.spatial[-1].var
    found = [load.indices[-1] for load in uses(block.block.body).loads if load.indices]
    return any([axis in uses(e).vars and any([c.value.dtype.is_float for c in nodes_of(e, Cast)]) for e in found])


def rows_together(view: KernelView, block: BlockView, loops: list[LoopRV], lanes: int) -> int:
    """The innermost loops that are one row: where rows follow each other, fewer vectors are cut off, and several side by side come out
    even.
    """
    even = 4 * lanes if block.is_chained else lanes
    if view.extents(loops)[-1] % even == 0 or len(loops) != len(block.spatial):
        return 1
    most = block.neighbouring_axes()
    return next((n for n in range(most, 1, -1) if _one_row(view.sch, block, loops[-n:], lanes)), 1)


def width_along(block: BlockView, last: int, lanes: int, core: Core) -> int:
    """The lanes of vectors along rows of so many elements; 1 for none."""
    width = vector_width(last, lanes)
    if width > 1 and last > lanes and -(-last // lanes) + 1 < last // width and not _gathers(block, width, lanes):
        # Whole vectors, the last of them masked, are fewer than narrow ones.
        return lanes
    if width == lanes or last <= 4 or len(block.block.writes) != 1 or not block.is_near(block.spatial[-1], core.near):
        return width
    if MATERIALIZE in block.block.annotations or (width == 1 and last < 2 * lanes):
        # Neighbours stay neighbours: a masked vector or two does what would be a loop over elements, or narrow vectors.
        return min(lanes, 1 << (last - 1).bit_length())
    return width


def parts_of(block: BlockView, loops: list[LoopRV], lanes: int) -> list[int]:
    """The ends of the parts of a concatenation along rows longer than a vector. Each part reads another tensor."""
    if not block.has_condition or len(loops) != len(block.spatial) or block.extents[-1] <= lanes:
        return []
    last = block.spatial[-1].var
    ends: set[int] = set()

    def look(e: object) -> None:
        if isinstance(e, Call) and getattr(e.op, "name", "") == "tir.if_then_else":
            when, _, other = e.args
            if uses(other).loads and isinstance(when, LT) and when.a is last and isinstance(when.b, IntImm):
                ends.add(when.b.value)

    post_order_visit(block.block.body, look)
    return sorted([e for e in ends if 0 < e < block.extents[-1]])


def schedule_parts(view: KernelView, block: BlockView, loops: list[LoopRV], ends: list[int], target: Target) -> None:
    """for i: for j: S   -->   parallel i: for each part, up to its end: for j // lanes: vectorize j % lanes: S

    Within a part, vectors do not test which part an element belongs to.
    """
    sch = view.sch
    *outer, last = loops
    parallelize(view, block.name, outer, prod(view.extents(loops)), target, extent_of(sch.get(last)))
    lanes = target.cpu.lanes(BlockView(sch, sch.get_child_blocks(last)[0]).block.writes[0].buffer.dtype.bits)
    sizes = [b - a for a, b in zip([0, *ends], ends, strict=False)]
    for part in sch.loop_partition(last, [*sizes, None]):
        size = extent_of(sch.get(part))
        if size > 1:
            part, vector = sch.split(part, [None, min(lanes, 1 << (size - 1).bit_length())])
            sch.vectorize(vector)
        if not outer:
            parallelize(view, block.name, [part], size, target, lanes)


def _gathers(block: BlockView, narrow: int, wide: int) -> bool:
    """Whether wide vectors would read elements one by one: from separate places, or one narrow element for all lanes
    (enlarged images).
    """
    axis = block.spatial[-1].var
    for region in block.block.reads:
        indices = [r.min for r in region.region]
        if any([axis in uses(e).vars for e in indices[:-1]]):
            return True
        last = indices[-1] if indices else None
        while isinstance(last, FloorDiv) and isinstance(last.b, IntImm):
            if narrow <= last.b.value < wide and axis in uses(last).vars:
                return True
            last = last.a
    return False


def _one_row(sch: Schedule, block: BlockView, loops: list[LoopRV], lanes: int) -> bool:
    """Whether rows can be vectorised as one row: the vectors divide it evenly, and its digits stay recognisable."""
    extents = [sch.get(loop).extent for loop in loops]
    extent = prod([e.value for e in extents]) if all([isinstance(e, IntImm) for e in extents]) else 1 << 20
    width = vector_width(extent, lanes)
    if width == lanes:
        width = block.vector_elements(extent, lanes)
    return width > 1 and sch.accepts(lambda trial: trial.vectorize(trial.split(trial.fuse(*loops), [None, width])[1]))


def schedule_reduction(view: KernelView, block: BlockView, target: Target) -> None:
    """for i: for k: S   -->   parallel i: for k: S"""
    spatial = set(block.spatial)
    loops = [loop for loop, axis in zip(view.loops(block), block.block.iter_vars, strict=True) if axis in spatial]
    parallelize(view, block.name, loops, block.iterations, target)


def vector_width(extent: int, lanes: int) -> int:
    """The lanes for an axis: all lanes, or the largest power of two that divides the axis; 1 if that is too narrow."""
    if extent % lanes == 0:
        return lanes
    width = lanes
    while width > 1 and extent % width:
        width //= 2
    if width >= min(4, lanes):
        return width
    return lanes if extent >= 2 * lanes else 1
