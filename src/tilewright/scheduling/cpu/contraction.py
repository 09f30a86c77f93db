"""Convolutions, matrix products and pooling: a register tile inside the whole reduction.

for n, o, h, w, ov: for r: C[..] += A[..] * B[..]
-->
parallel tile:
  init rows x vectors
  for r: unrolled rows: unrolled columns: vectorized lanes (or one instruction of dot_products): C += A * B
  epilogue over the tile
"""

from __future__ import annotations

from math import gcd, prod

from tilewright.ir import IntImm
from tilewright.scheduling.cost import MAX_ROWS, divisors, image_tile, tile_cost, unroll_factor
from tilewright.scheduling.cpu.dot_products import dot_product_of
from tilewright.scheduling.cpu.injective import vector_width
from tilewright.scheduling.cpu.kernel import BlockView, KernelView, divisor_of, extent_of
from tilewright.scheduling.cpu.prefetch import mark_ahead, mark_early
from tilewright.scheduling.cpu.sharing import most_even, parallelize, useful_threads
from tilewright.scheduling.instructions import DotProduct
from tilewright.scheduling.kernel_plan import KernelPlan
from tilewright.target import Target
from tilewright.target.core import Core
from tilewright.tir import Buffer, BufferRegion, Var
from tilewright.tir.schedule import BlockRV, LoopRV, Schedule
from tilewright.topi.stages import LANE_SUMS, OWN_DATA, TILE_COLUMNS, TILE_ROWS


def is_contraction(block: BlockView, target: Target) -> bool:
    """Whether a block reduces, and its last spatial axis runs over adjacent elements in all tensors, or over groups
    that an instruction multiplies and adds at once.
    """
    if not block.reduction or not block.spatial or len(block.block.writes) != 1 or block.block.init is None:
        return False
    if dot_product_of(block, target) is not None:
        return True
    axis = block.spatial[-1]
    if axis.dom is None:
        return False
    lanes = target.cpu.lanes(block.block.writes[0].buffer.dtype.bits)
    extent = block.extents[block.block.iter_vars.index(axis)]
    return block.is_contiguous(axis) and vector_width(extent, lanes) > 1 and extent % vector_width(extent, lanes) == 0


class _Axes:
    """The loops of a contraction by role.

    One operand holds the vector axis. A column axis occurs only in this operand. A row axis occurs only in another
    operand, whose elements are broadcast. The other axes (batch, group) occur in both.
    """

    def __init__(self, view: KernelView, block: BlockView, dot: DotProduct | None) -> None:
        loops = view.loops(block)
        by_axis = dict(zip(block.block.iter_vars, loops, strict=True))
        self.reduction = [by_axis[v] for v in block.reduction]
        self.group = [self.reduction.pop()] if dot is not None else []
        *others, vector = block.spatial
        self.vector = by_axis[vector]
        self.vector_role = block.role_of(vector)
        self.vector_is_column = len(block.block.reads) > 1 and len(self.vector_role) == 1
        # Where vectors run along the reduction, the second operand's own axis is the column.
        self.column_role = frozenset([1]) if LANE_SUMS in block.block.annotations else frozenset()
        self.shared: list[LoopRV] = []
        self.rows: list[LoopRV] = []
        self.columns: list[LoopRV] = []
        for axis in others:
            self._group(block.role_of(axis)).append(by_axis[axis])

    def _group(self, role: frozenset[int]) -> list[LoopRV]:
        if role == (self.vector_role if self.vector_is_column else self.column_role):
            return self.columns
        return self.rows if len(role) == 1 else self.shared


UNROLLED = 128
"""Iterations of an epilogue's loops up to which they are unrolled."""


def work_of(block: BlockView, group: int, core: Core) -> int:
    """The work of a contraction, in elements of an element-wise kernel.

    It counts multiply-adds, of which an instruction does `group` in a lane. If an operand is read for few multiply-adds
    (one row by a matrix), it counts the elements of the operand.
    """
    return max(block.iterations // (core.adds_of_element * group), block.largest_read)


def schedule_contraction(view: KernelView, block: BlockView, target: Target) -> None:
    """Schedule one contraction, and its epilogue if it has one."""
    sch = view.sch
    cpu = target.cpu
    dot = dot_product_of(block, target)
    work = work_of(block, dot.group if dot is not None else 1, cpu.core)
    lane_sums = LANE_SUMS in block.block.annotations
    packed = None if lane_sums else block.packed_read(block.spatial[-1])
    panel = None if packed is None else packed[1]
    extent = panel or block.extents[len(block.spatial) - 1]
    lanes = dot.lanes if dot is not None else vector_width(extent, cpu.lanes(block.block.writes[0].buffer.dtype.bits))
    axes = _Axes(view, block, dot)

    # A vector axis wider than a vector is a column axis too (matrix products); tiles stay within packed panels.
    whole_panels = 0
    if panel is not None and panel != lanes:
        panels, wide, vector = sch.split(axes.vector, [None, panel // lanes, lanes])
        whole_panels = extent_of(sch.get(panels)) if single(sch, axes.shared) else 0
        axes.shared.append(panels)
    else:
        wide, vector = sch.split(axes.vector, [None, lanes])
    vectors = divisor_of(sch.get(wide).extent)
    tile_column = wide if vectors > 1 else (axes.columns[-1] if axes.columns else wide)
    if vectors == 1 and axes.columns:
        axes.shared.append(wide)
        column_extent = divisor_of(sch.get(tile_column).extent)
    else:
        column_extent = vectors
    if not axes.rows:
        axes.rows = [axes.shared.pop()] if axes.shared else []
    row_loop = axes.rows[-1] if axes.rows else None
    row_extent = divisor_of(sch.get(row_loop).extent) if row_loop is not None else 1
    above = axes.rows[-2] if len(axes.rows) > 1 and not lane_sums else None
    height = divisor_of(sch.get(above).extent) if above is not None else 1
    lines, rows, columns = chosen_tile(view.plan, block, height, row_extent, column_extent, cpu.core)
    if not axes.columns and not axes.vector_is_column and not lane_sums:
        # Nothing is reused across columns (depthwise, pooling): keep the tile narrow in them.
        columns, lines = 1, 1

    column_outer, column_inner = sch.split(tile_column, [None, columns], disable_predication=True)
    outer = [loop for loop in [*axes.shared, *axes.columns, column_outer] if loop is not tile_column]
    inner = [column_inner, vector]
    if row_loop is not None:
        row_outer, row_inner = sch.split(row_loop, [None, rows], disable_predication=True)
        line_inner: list[LoopRV] = []
        if lines > 1:
            axes.rows[-2], line = sch.split(axes.rows[-2], [None, lines], disable_predication=True)
            line_inner = [line]
        # What streams is the larger operand, once; tiles of the smaller one come round again.
        rows_outside = lane_sums and row_extent > column_extent
        outer = (
            [*outer[:-1], *axes.rows[:-1], row_outer, outer[-1]]
            if rows_outside
            else [*outer, *axes.rows[:-1], row_outer]
        )
        inner = [*line_inner, row_inner, *inner]
    weights = packed[0] if packed is not None else blocks_of_columns(block, axes)
    own: list[LoopRV] = []
    shares = images_of_threads(view, block, axes, target)
    if shares > 1:
        share, images = sch.split(axes.rows[0], [shares, None], disable_predication=True)
        outer[outer.index(axes.rows[0])] = images
        own = [share]
    if packed is None and weights is not None and single(sch, outer[: outer.index(column_outer)]):
        blocks = sch.get(column_outer).extent
        whole_panels = blocks.value if isinstance(blocks, IntImm) else 0
    outer = [*own, *outer]
    *reduce_outer, last = axes.reduction
    reduced = prod([divisor_of(sch.get(loop).extent) for loop in axes.reduction])
    steps, most = divisor_of(sch.get(last).extent), cpu.core.short_body if reduce_outer else cpu.core.long_body
    model = unroll_factor(steps, lines * rows * columns, most)
    factor = view.plan.choose(f"{block.name}.unroll", model, lambda: divisors(steps, 16))
    last_outer, last_inner = sch.split(last, [None, factor], disable_predication=True)
    sch.reorder(*outer, *reduce_outer, last_outer, last_inner, *inner, *axes.group)
    # What reads the result comes below loops of one axis each, which are easier to see through than fused ones.
    crowded = lines * rows * columns > cpu.vector_registers // 2
    epilogue = [] if lane_sums else attach_epilogue(view, block, outer[-1], crowded)
    folds = attach_folds(view, block, outer[-1]) if lane_sums else []
    if OWN_DATA in block.block.annotations and outer[0] is axes.shared[0] and len(outer) > 1:
        attach_own_data(view, block, epilogue[-1], outer[0], cpu.lanes(32))
        start, end = 0, 1
    else:
        start, end = most_even(sch, outer, useful_threads(work, target))
    shared_out = sch.fuse(*outer[start:end]) if end - start > 1 else outer[start]
    tile = shared_out if end == len(outer) else outer[-1]
    first = reduce_outer[0] if reduce_outer else last_outer
    rows_known = all([isinstance(sch.get(loop).extent, IntImm) for loop in outer[end:]])
    in_turn = end == len(outer) or (packed is not None and not rows_known)
    streams = weights is not None and whole_panels and start == 0 and in_turn
    if streams and not (packed is not None and reduce_outer) and fetches(view.plan, block):
        assert weights is not None
        mark_ahead(
            sch, shared_out, len(outer) - end, [*reduce_outer, last_outer], weights.buffer.name, whole_panels, shares
        )
    for reader in epilogue:
        mark_early(sch, first, lines * rows * columns * reduced, reader, cpu.core)
    init = sch.decompose_reduction(block.rv, first)

    sch.unroll(last_inner)
    for loop in inner[:-1]:
        sch.unroll(loop)
    if dot is None:
        sch.vectorize(vector)
    for each in (init, *epilogue):
        vectorize_tile(sch, each, tile, lanes, unrolled=not (crowded and BlockView(sch, each).is_chained))
    for fold in folds:
        vectorize_tile(sch, fold, tile, lanes, masked=False)
    if folds:
        sch.set_scope(block.rv, 0, "local")
    if OWN_DATA in block.block.annotations:
        # Refused where it cannot be seen that what groups make of their data is their own: one after the other.
        with sch.tried(f"threads for groups of {block.name}"):
            parallelize(sch, [shared_out], work, target)
    else:
        parallelize(sch, [shared_out], work, target)
    if dot is not None:
        sch.tensorize(vector, dot.local)


def fetches(plan: KernelPlan, block: BlockView) -> bool:
    """Whether panels of weights are fetched while tiles work on the one before."""
    return plan.choose(f"{block.name}.prefetch", "next panel", lambda: ("next panel", "no")) != "no"


def images_of_threads(view: KernelView, block: BlockView, axes: _Axes, target: Target) -> int:
    """The number of parts into which the images of a batch are divided, if weights are smaller than data; otherwise
    threads share the weights.

    Each thread then reads all weights, and only images that it has written itself.
    """
    batch = view.sch.get(axes.rows[0]).extent if len(axes.rows) > 2 and axes.vector_is_column else None
    if not isinstance(batch, IntImm) or OWN_DATA in block.block.annotations:
        return 1
    (place,) = axes.vector_role
    sizes = [prod([divisor_of(d) for d in r.buffer.shape]) for r in block.block.reads]
    most = gcd(batch.value, target.cpu.threads)
    model = most if sizes[place] < max(sizes) else 1
    return view.plan.choose(f"{block.name}.shares", model, lambda: divisors(most, most))


def single(sch: Schedule, loops: list[LoopRV]) -> bool:
    """Whether all loops have one iteration."""
    return all([extent_of(sch.get(loop)) == 1 for loop in loops])


def blocks_of_columns(block: BlockView, axes: _Axes) -> BufferRegion | None:
    """The read that holds the vectors, if its first axis is its only column axis. Tiles of adjacent blocks are then
    contiguous.
    """
    if len(axes.columns) != 1 or not axes.vector_is_column:
        return None
    (place,) = axes.vector_role
    read = block.block.reads[place]
    columns = [v for v in block.spatial[:-1] if block.role_of(v) == axes.vector_role]
    return read if read.region[0].min is columns[0].var else None


def chosen_tile(
    plan: KernelPlan, block: BlockView, lines: int, rows: int, columns: int, core: Core
) -> tuple[int, int, int]:
    """The tile (lines of rows, rows, vectors of columns) for which the compute was made, or one of divisors."""
    attrs = block.block.annotations
    if TILE_ROWS not in attrs:
        # Several lines only where each is whole.
        heights = [(1, r) for r in divisors(rows, MAX_ROWS)]
        heights += [(n, rows) for n in divisors(lines, max(MAX_ROWS // rows, 1))[1:]]
        n, r, c = plan.choose(
            f"{block.name}.tile",
            image_tile(lines, rows, columns, core),
            lambda: [(n, r, c) for n, r in heights for c in tile_widths(n * r, columns, core)],
        )
        return n, r, c
    height = int(attrs[TILE_ROWS])
    if TILE_COLUMNS in attrs:
        return 1, height, int(attrs[TILE_COLUMNS])
    widths = tile_widths(height, columns, core)
    model = min(widths, key=lambda c: (tile_cost(height, c, core), -c), default=1)
    return 1, height, plan.choose(f"{block.name}.vectors", model, lambda: widths)


def tile_widths(rows: int, columns: int, core: Core) -> list[int]:
    """Divisors of the vectors of columns that leave a tile of so many rows in registers."""
    return [c for c in divisors(columns, 8) if tile_cost(rows, c, core) is not None]


def attach_epilogue(view: KernelView, block: BlockView, tile: LoopRV, crowded: bool = False) -> list[BlockRV]:
    """Move the readers of the result under the tile loop, and keep the accumulators in local storage.

    Without a reader, a copy from the accumulators to the result is made. A reader that does not index accumulators by
    their axes reads a copy in memory, so that the accumulators can stay in registers. The same holds for a reader with
    long chains of instructions if accumulators take most registers (`crowded`): a loop over the copy has registers for
    its constants, and spills nothing.
    """
    sch = view.sch
    consumers = view.consumers(block)
    alone = len(consumers) == 1 and consumers[0].is_injective and block.name not in view.outputs()
    reader = consumers[0] if alone else None
    far = reader is not None and crowded and reader.is_chained
    if reader is not None and not far and _by_axes(reader, block.block.writes[0].buffer):
        # Refused where it reads other elements than those of one tile (a transposition, a window).
        with sch.tried(f"{reader.name} tile by tile, on sums in registers") as step:
            sch.reverse_compute_at(reader.rv, tile)
        if not step.refused:
            sch.set_scope(block.rv, 0, "local")
            return [reader.rv]
        reader = None
    copy = sch.cache_write(block.rv, 0, "local")
    sch.reverse_compute_at(copy, tile)
    if reader is None:
        return [copy]
    with sch.tried(f"{reader.name} tile by tile, on a copy of sums") as step:
        sch.reverse_compute_at(reader.rv, tile)
    if step.refused:
        return [copy]
    sch.set_scope(copy, 0, "local")
    return [copy, reader.rv]


def attach_own_data(view: KernelView, block: BlockView, epilogue: BlockRV, group: LoopRV, lanes: int) -> None:
    """Move the producers and consumers of one group into its loop (its padded data, the readers of its results). Both
    then stay in the first caches.
    """
    sch = view.sch
    found = [block.rv]
    for reader in found:
        for rv in sch.get_producers(reader):
            producer = BlockView(sch, rv)
            if producer.is_injective and len(view.consumers(producer)) == 1:
                # Refused where groups read the same of it.
                with sch.tried(f"{producer.name} in the loop over groups") as step:
                    sch.compute_at(rv, group)
                if not step.refused:
                    found.append(rv)
    for consumer in view.consumers(BlockView(sch, epilogue)):
        if consumer.is_injective:
            # Refused where it reads several groups at once.
            with sch.tried(f"{consumer.name} in the loop over groups") as step:
                sch.reverse_compute_at(consumer.rv, group)
            if not step.refused:
                found.append(consumer.rv)
    for rv in found[1:]:
        last = sch.get_loops(rv)[-1]
        extent = extent_of(sch.get(last))
        width = vector_width(extent, lanes)
        if width == 1 and extent > 4:
            width = min(lanes, 1 << (extent - 1).bit_length())
        if width > 1:
            _, vector = sch.split(last, [None, width])
            sch.vectorize(vector)


def attach_folds(view: KernelView, block: BlockView, tile: LoopRV) -> list[BlockRV]:
    """Move the blocks that add the lanes of sums under the tile loop. Returns them without the last one, which has no
    vectors.
    """
    sch = view.sch
    found = [sch.cache_write(block.rv, 0, "local")]
    sch.reverse_compute_at(found[0], tile)
    while consumers := view.consumers(BlockView(sch, found[-1])):
        # Refused where it reads other elements than those of one tile, and so all of them when they are there.
        with sch.tried(f"{consumers[0].name} tile by tile, on sums of lanes") as step:
            sch.reverse_compute_at(consumers[0].rv, tile)
        if step.refused:
            return found
        sch.set_scope(found[-1], 0, "local")
        found.append(consumers[0].rv)
    *folds, last = found
    loops = view.loops(last)
    for loop in loops[[sch.get(x) for x in loops].index(sch.get(tile)) + 1 :]:
        sch.unroll(loop)
    return folds


def _by_axes(block: BlockView, of: Buffer | None = None) -> bool:
    """Whether a block reads sums by their own axes (of a buffer, or all in local storage), without combining several
    into one index.
    """
    sums = [r for r in block.block.reads if (r.buffer.scope() == "local" if of is None else r.buffer is of)]
    return all([isinstance(i.min, (Var, IntImm)) for r in sums for i in r.region])


def vectorize_tile(
    sch: Schedule, block: BlockRV, tile: LoopRV, lanes: int, masked: bool = True, unrolled: bool = True
) -> None:
    """Vectorise the last loop of a block below the tile loop, and unroll the others as far as they are a tile.

    `masked`: a loop shorter than a vector becomes part of a vector of the width that its inputs have, so that they can
    stay in registers.
    """
    loops = sch.get_loops(block)
    below = loops[[sch.get(loop) for loop in loops].index(sch.get(tile)) + 1 :]
    if not below:
        return
    last = below[-1]
    extent = extent_of(sch.get(last))
    rest = below[:-1]
    if extent % lanes == 0:
        lanes = min(extent, BlockView(sch, block).vector_elements(extent, lanes))
    if extent > lanes or (masked and 1 < extent < lanes and _by_axes(BlockView(sch, block))):
        outer, last = sch.split(last, [None, lanes])
        rest = [*rest, outer]
    # Refused where a predicate on the last axis keeps the loop scalar.
    with sch.tried(f"vectors of {sch.get(block).name_hint}") as step:
        sch.vectorize(last)
    if step.refused:
        rest = [*rest, last]
    rounds = 1
    for loop in reversed(rest) if unrolled else ():
        rounds *= extent_of(sch.get(loop))
        if rounds > UNROLLED:
            # More than a tile: all that a reader reads of one, along the axis that was reduced too.
            break
        sch.unroll(loop)
