"""Convolutions, matrix products and pooling: a register tile inside the whole reduction.

for n, o, h, w, ov: for r: C[..] += A[..] * B[..]
-->
parallel tile:
  init rows x vectors
  for r: unrolled rows: unrolled columns: vectorized lanes (or one instruction of dot_products): C += A * B
  epilogue over the tile
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from math import gcd, prod
from typing import NamedTuple

from tilewright.ir import IntImm
from tilewright.scheduling.block_views import BlockView, KernelView, divisor_of, extent_of
from tilewright.scheduling.cost import MAX_COLUMNS, MAX_ROWS, divisors, image_tile, tile_cost, unroll_factor
from tilewright.scheduling.cpu.dot_products import dot_product_of
from tilewright.scheduling.cpu.epilogue import attach_epilogue, attach_folds, attach_own_data, vectorize_tile
from tilewright.scheduling.cpu.injective import vector_width
from tilewright.scheduling.cpu.nonzero import (
    MOST_UNROLLED,
    Mark,
    mark_nonzero_steps,
    nonzero_products,
    unroll_nonzero_products,
)
from tilewright.scheduling.cpu.prefetch import mark_epilogue_prefetch, mark_panel_prefetch
from tilewright.scheduling.cpu.sharing import most_even, parallelize, useful_threads
from tilewright.scheduling.instructions import DotProduct
from tilewright.scheduling.kernel_plan import KernelPlan
from tilewright.target import Target
from tilewright.target.core import Core
from tilewright.target.cpu import CpuFacts
from tilewright.tir import BufferRegion, IterVar
from tilewright.tir.schedule import LoopRV, Schedule
from tilewright.tir.transform.block.nonzero_steps import NONZERO
from tilewright.topi.stages import LANE_SUMS, OWN_DATA, TILE_COLUMNS, TILE_ROWS
from tilewright.topi.utils import ceil_div


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
        self.vector_is_column = len(block.operands) > 1 and len(self.vector_role) == 1
        # Where vectors run along the reduction, the second operand's own axis is the column.
        self.column_role = frozenset([1]) if LANE_SUMS in block.block.annotations else frozenset()
        self.shared: list[LoopRV] = []
        self.panels: LoopRV | None = None
        """The last one of `shared` where columns were packed in panels that are wider than a vector."""
        self.rows: list[LoopRV] = []
        self.columns: list[LoopRV] = []
        for axis in others:
            self._group(block.role_of(axis)).append(by_axis[axis])
        self.row_axes = [axis for axis in others if by_axis[axis] in self.rows]

    def _group(self, role: frozenset[int]) -> list[LoopRV]:
        if role == (self.vector_role if self.vector_is_column else self.column_role):
            return self.columns
        return self.rows if len(role) == 1 else self.shared


def work_of(block: BlockView, group: int, core: Core) -> int:
    """The work of a contraction, in elements of an element-wise kernel.

    It counts multiply-adds, of which an instruction does `group` in a lane. If an operand is read for few multiply-adds
    (one row by a matrix), it counts the elements of the operand.
    """
    return max(block.iterations // (core.adds_of_element * group), block.largest_read)


class _Facts(NamedTuple):
    """What is known of a contraction before its loops are touched."""

    dot: DotProduct | None
    lane_sums: bool
    """Whether vectors run along the reduction."""
    packed: BufferRegion | None
    """The read of operands that were packed in panels along the vector axis."""
    panel: int | None
    lanes: int
    work: int


def facts_of(block: BlockView, target: Target) -> _Facts:
    """The facts of a contraction."""
    dot = dot_product_of(block, target)
    lane_sums = LANE_SUMS in block.block.annotations
    packed, panel = (None if lane_sums else block.packed_read(block.spatial[-1])) or (None, None)
    extent = panel or block.extents[len(block.spatial) - 1]
    widest = target.cpu.lanes(block.block.writes[0].buffer.dtype.bits)
    lanes = dot.lanes if dot is not None else vector_width(extent, widest)
    work = work_of(block, dot.group if dot is not None else 1, target.cpu.core)
    return _Facts(dot, lane_sums, packed, panel, lanes, work)


class _Tile(NamedTuple):
    """Lines of rows, rows, and vectors of columns that are summed up in registers."""

    lines: int
    rows: int
    columns: int

    @property
    def registers(self) -> int:
        return self.lines * self.rows * self.columns

    def of(self, rows: list[IterVar]) -> dict[IterVar, int]:
        """The elements along each of the axes of rows, where there may be several."""
        return dict(zip(reversed(rows), (self.rows, self.lines), strict=False))


class _Nest(NamedTuple):
    """The spatial loops of a contraction: those around a tile, outermost first, and those in it."""

    tile: _Tile
    outer: list[LoopRV]
    inner: list[LoopRV]
    column: LoopRV
    """The one of `outer` over tiles of columns."""
    by_rows: bool = False
    """Whether tiles of rows meet all columns before the next ones do."""


class _Steps(NamedTuple):
    """The loops of the reduction: the outermost ones, the steps of the last one, and those that are unrolled."""

    outer: list[LoopRV]
    last: LoopRV
    unrolled: LoopRV
    iterations: int

    @property
    def first(self) -> LoopRV:
        return self.outer[0] if self.outer else self.last


def schedule_contraction(view: KernelView, block: BlockView, target: Target) -> None:
    """Schedule one contraction, and its epilogue if it has one."""
    sch, cpu = view.sch, target.cpu
    facts = facts_of(block, target)
    axes = _Axes(view, block, facts.dot)
    wide, vector, panels = split_vectors(sch, axes, facts)
    column, columns = column_loop(sch, axes, wide)
    nest = split_tile(view, block, axes, facts, (column, columns, vector), cpu)
    weights = blocks_of_columns(block, axes) if facts.packed is None else facts.packed
    shares = share_images(view, block, axes, nest, target)
    around = nest.outer[1 if shares > 1 else 0 : nest.outer.index(nest.column)]
    if facts.packed is None and weights is not None and single(sch, around):
        blocks = sch.get(nest.column).extent
        panels = blocks.value if isinstance(blocks, IntImm) else 0
    zeros = nonzero_products(view, block, nest.tile.of(axes.row_axes))
    steps = split_reduction(view, block, axes, nest.tile, cpu.core, zeros)
    sch.reorder(*nest.outer, *steps.outer, steps.last, steps.unrolled, *nest.inner, *axes.group)
    # What reads the result comes below loops of one axis each, which are easier to see through than fused ones.
    crowded = nest.tile.registers > cpu.vector_registers // 2
    epilogue = [] if facts.lane_sums else attach_epilogue(view, block, nest.outer[-1], crowded)
    folds = attach_folds(view, block, nest.outer[-1]) if facts.lane_sums else []
    if by_group := OWN_DATA in block.block.annotations and nest.outer[0] is axes.shared[0] and len(nest.outer) > 1:
        attach_own_data(view, block, epilogue[-1], nest.outer[0], cpu.lanes(32))
    start, end = (
        (0, 1) if by_group else most_even(sch, nest.outer, cpu.core.pieces * useful_threads(facts.work, target))
    )
    shared = sch.fuse(*nest.outer[start:end]) if end - start > 1 else nest.outer[start]
    own_loops = nest.outer[end:]
    if (
        weights is not None
        and panels
        and start == 0
        and not nest.by_rows
        and streams(view, block, facts, steps, own_loops)
    ):
        mark_panel_prefetch(
            sch, shared, len(own_loops), [*steps.outer, steps.last], weights.buffer.name, panels, shares
        )
    for reader in epilogue:
        mark_epilogue_prefetch(view, steps.first, nest.tile.registers * steps.iterations, reader)
    init = sch.decompose_reduction(block.rv, steps.first)
    for loop in (steps.unrolled, *nest.inner[:-1]):
        sch.unroll(loop)
    if facts.dot is None:
        sch.vectorize(vector)
    tile = own_loops[-1] if own_loops else shared
    for each in (init, *epilogue):
        vectorize_tile(sch, each, tile, facts.lanes, unrolled=not (crowded and BlockView(sch, each).is_chained))
    for fold in folds:
        vectorize_tile(sch, fold, tile, facts.lanes, masked=False)
    if folds:
        sch.set_scope(block.rv, 0, "local")
    elements = nest.tile.columns * facts.lanes * steps.iterations * (facts.dot.group if facts.dot is not None else 1)
    # A sum of constants reads nothing.
    weights_read = elements * block.operands[-1].buffer.dtype.bytes if block.operands else 0
    marks = leave_out_zeros(view, block, nest.tile.of(axes.row_axes), steps, zeros, nest.tile.registers, weights_read)
    run_in_threads(view, block, shared, facts.work, target)
    update = sch.get(block.rv).name_hint
    if facts.dot is not None:
        sch.tensorize(vector, facts.dot.local)
        update += "_o"
    if marks:
        sch.annotate(sch.get_block(update), NONZERO, marks)


def leave_out_zeros(
    view: KernelView, block: BlockView, tiles: Mapping[IterVar, int], steps: _Steps, zeros: Mapping[IterVar, Mark],
    sums: int, weights: int,
) -> list[Mark]:  # fmt: skip
    """Leave out products of padded zeros, at places of tiles (`zeros`) and in whole steps. sums: those of a tile; weights: bytes of its
    weights. Returns the marks of the block that multiplies."""
    loops = dict(zip(block.reduction, steps.outer, strict=False))
    unrolled = extent_of(view.sch.get(steps.unrolled))
    last = block.reduction[len(steps.outer)]
    whole = {last: steps.unrolled} if extent_of(view.sch.get(steps.last)) == 1 else {}
    marks = unroll_nonzero_products(view, block, {**loops, **whole}, zeros, sums * unrolled)
    mark_nonzero_steps(view, block, {a: loop for a, loop in loops.items() if a not in marks}, tiles, weights)
    return list(marks.values())


def split_vectors(sch: Schedule, axes: _Axes, facts: _Facts) -> tuple[LoopRV, LoopRV, int]:
    """(loop over vectors, loop over lanes, whole panels that follow each other): a vector axis wider than a vector is a column axis too
    (matrix products), and tiles stay within packed panels.
    """
    lanes, panel = facts.lanes, facts.panel
    if panel is None or panel == lanes:
        wide, vector = sch.split(axes.vector, [None, lanes])
        return wide, vector, 0
    panels, wide, vector = sch.split(axes.vector, [None, panel // lanes, lanes])
    whole = extent_of(sch.get(panels)) if single(sch, axes.shared) else 0
    axes.shared.append(panels)
    axes.panels = panels
    return wide, vector, whole


def column_loop(sch: Schedule, axes: _Axes, wide: LoopRV) -> tuple[LoopRV, int]:
    """The loop whose iterations are the columns of a tile, and how many it has."""
    vectors = divisor_of(sch.get(wide).extent)
    if vectors > 1 or not axes.columns:
        return wide, vectors
    axes.shared.append(wide)
    return axes.columns[-1], divisor_of(sch.get(axes.columns[-1]).extent)


def split_tile(
    view: KernelView, block: BlockView, axes: _Axes, facts: _Facts, columns: tuple[LoopRV, int, LoopRV], cpu: CpuFacts
) -> _Nest:
    """Split rows and columns by the tile that the plan chooses; `columns` are (loop, iterations, vector)."""
    sch = view.sch
    column, column_extent, vector = columns
    panels = 1 if axes.panels is None else divisor_of(sch.get(axes.panels).extent)
    vectors = panels * divisor_of(sch.get(column).extent)
    own_rows = bool(axes.rows)
    if not own_rows and axes.shared:
        axes.rows = [axes.shared.pop()]
    several = len(axes.rows) > 1 and not facts.lane_sums
    height = divisor_of(sch.get(axes.rows[-2]).extent) if several else 1
    row_extent = divisor_of(sch.get(axes.rows[-1]).extent) if axes.rows else 1
    tile = _Tile(*chosen_tile(view.plan, block, height, row_extent, column_extent, cpu.core))
    if not axes.columns and not axes.vector_is_column and not facts.lane_sums:
        # Nothing is reused across columns (depthwise, pooling): keep the tile narrow in them.
        tile = _Tile(1, tile.rows, 1)

    column_outer, column_inner = sch.split(column, [None, tile.columns], disable_predication=True)
    outer = [loop for loop in [*axes.shared, *axes.columns, column_outer] if loop is not column]
    inner = [column_inner, vector]
    if axes.rows:
        row_outer, row_inner = sch.split(axes.rows[-1], [None, tile.rows], disable_predication=True)
        inner = [row_inner, *inner]
        if tile.lines > 1:
            axes.rows[-2], line = sch.split(axes.rows[-2], [None, tile.lines], disable_predication=True)
            inner = [line, *inner]
        rows = [*axes.rows[:-1], row_outer]
        # What streams is the larger operand, once; tiles of the smaller one come round again.
        inside = len(rows) if facts.lane_sums and row_extent > column_extent else 0
        if [column] == axes.columns and in_lines(view, block, axes, rows, ceil_div(column_extent, tile.columns), cpu):
            inside = len(rows) - 1
        if own_rows and [column] != axes.columns and in_rows(view, block, axes, facts, vectors, cpu):
            around = [loop for loop in outer[:-1] if loop is not axes.panels]
            columns_of_row = [column_outer] if axes.panels is None else [axes.panels, column_outer]
            return _Nest(tile, [*around, *rows, *columns_of_row], inner, column_outer, by_rows=True)
        outer = [*outer[:-1], *rows[:inside], outer[-1], *rows[inside:]]
    return _Nest(tile, outer, inner, column_outer)


def in_rows(view: KernelView, block: BlockView, axes: _Axes, facts: _Facts, vectors: int, cpu: CpuFacts) -> bool:
    """Whether a tile of rows meets all columns before the next one does (`rows`); else all rows meet a tile of columns before the next
    one (`columns`). vectors: those of all columns.

    By rows, results are written in order, and each tile of rows reads all weights again. That pays where memory is busy with results, and
    weights stay in the second cache: 2 x 3 products of 976 x 15 by 15 x 224 took 0.7 of the time on an Intel Xeon with AVX-512, and a
    convolution of 3914 pixels from 1 channel to 624 a half; a tenth where neighbours kept the last cache busy.
    """
    if facts.lane_sums or not axes.vector_is_column or len(block.operands) != 2:
        return False
    (place,) = axes.vector_role
    weights, data = block.operands[place], block.operands[1 - place]
    reduced = prod([divisor_of(view.sch.get(loop).extent) for loop in (*axes.reduction, *axes.group)])
    columns = vectors * facts.lanes * reduced * weights.buffer.dtype.bits // 8
    results = prod(_extents(block.block.writes[0])) * block.block.writes[0].buffer.dtype.bits // 8
    read = prod(_extents(data)) * data.buffer.dtype.bits // 8
    model = "rows" if 2 * results > max(cpu.l2_bytes, 4 * read) and 2 * columns <= cpu.l2_bytes else "columns"
    return view.plan.choose(f"{block.name}.order", model, lambda: ("columns", "rows")) == "rows"


def _extents(region: BufferRegion) -> list[int]:
    return [divisor_of(d) for d in region.buffer.shape]


def in_lines(view: KernelView, block: BlockView, axes: _Axes, rows: list[LoopRV], passes: int, cpu: CpuFacts) -> bool:
    """Whether a line of pixels meets all columns before the next line does (`lines`); else all pixels meet a tile of columns before
    the next tile (`columns`). rows: the loops over lines and tiles of a line; passes: tiles of columns.

    By columns, weights of a tile stay in the first cache, and each tile reads the data again. By lines, data is read once, and each
    line reads all weights again. Up to twice the second cache, 1 x 1 convolutions ran alike both ways; those of larger data took 0.2
    to 0.9 of the time by lines (AMD EPYC with AVX2).
    """
    lines = prod(view.extents(rows[:-1]))
    if len(rows) < 2 or lines < 2 or passes < 2 or not axes.vector_is_column or len(block.operands) != 2:
        return False
    (place,) = axes.vector_role
    sizes = [prod(_extents(r)) * r.buffer.dtype.bits // 8 for r in block.operands]
    data, weights = sizes[1 - place], sizes[place]
    again = weights * lines if 2 * weights > cpu.l2_bytes else 0
    model = "lines" if data > 2 * cpu.l2_bytes and again + data < data * passes else "columns"
    return view.plan.choose(f"{block.name}.order", model, lambda: ("columns", "lines")) == "lines"


def share_images(view: KernelView, block: BlockView, axes: _Axes, nest: _Nest, target: Target) -> int:
    """Divide the images of a batch into parts, outside all other loops, where threads share those. Returns the number of parts."""
    shares = images_of_threads(view, block, axes, target)
    if shares > 1:
        share, images = view.sch.split(axes.rows[0], [shares, None], disable_predication=True)
        nest.outer[nest.outer.index(axes.rows[0])] = images
        nest.outer.insert(0, share)
    return shares


def split_reduction(
    view: KernelView, block: BlockView, axes: _Axes, tile: _Tile, core: Core, zeros: Collection[IterVar] = ()
) -> _Steps:
    """Split the last loop of the reduction by the steps that are unrolled: all of an axis of `zeros`, along which products of zeros are
    left out."""
    sch = view.sch
    *outer, last = axes.reduction
    reduced = prod([divisor_of(sch.get(loop).extent) for loop in axes.reduction])
    steps, most = divisor_of(sch.get(last).extent), core.short_body if outer else core.long_body
    model = unroll_factor(steps, tile.registers, most)
    if block.reduction[len(outer)] in zeros and steps * tile.registers <= MOST_UNROLLED:
        model = steps
    factor = view.plan.choose(f"{block.name}.unroll", model, lambda: sorted({*divisors(steps, 16), model}))
    last, unrolled = sch.split(last, [None, factor], disable_predication=True)
    return _Steps(outer, last, unrolled, reduced)


def streams(view: KernelView, block: BlockView, facts: _Facts, steps: _Steps, own: list[LoopRV]) -> bool:
    """Whether each panel of weights is fetched while tiles work on the one before. `own`: the loops of one thread around a tile."""
    known = all([isinstance(view.sch.get(loop).extent, IntImm) for loop in own])
    in_turn = not own or (facts.packed is not None and not known)
    return in_turn and not (facts.packed is not None and steps.outer) and fetches(view.plan, block)


def run_in_threads(view: KernelView, block: BlockView, shared: LoopRV, work: int, target: Target) -> None:
    """Share the iterations of a loop among threads."""
    if OWN_DATA not in block.block.annotations:
        parallelize(view, block.name, [shared], work, target)
        return
    # Refused where it cannot be seen that what groups make of their data is their own: one after the other.
    with view.sch.tried(f"threads for groups of {block.name}"):
        parallelize(view, block.name, [shared], work, target)


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
    sizes = [prod([divisor_of(d) for d in r.buffer.shape]) for r in block.operands]
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
    read = block.operands[place]
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
    return [c for c in divisors(columns, MAX_COLUMNS) if tile_cost(rows, c, core) is not None]
