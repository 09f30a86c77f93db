"""Transposed reads: tiles are loaded along the axis that is contiguous in the input, and transposed in registers.

for i: for j: B[i, j] = f(A[j, i])
-->
parallel tiles of i, tiles of j:
  for j in the tile, unrolled: T[j, :] = vectorized A[j, i in the tile]
  for i in the tile, unrolled: B[i, :] = vectorized f(T[j in the tile, i])

The second half transposes in registers (`codegen.llvm.memory.crossing`).
"""

from __future__ import annotations

from math import prod
from typing import NamedTuple

from tilewright.arith import detect_linear_equation
from tilewright.ir import IntImm, PrimExpr
from tilewright.node import has_node
from tilewright.scheduling.block_views import BlockView, KernelView, steps_by_one, uses
from tilewright.target import Target
from tilewright.tir import BufferRegion, FloorDiv, FloorMod, IterVar, Min, Mul
from tilewright.tir.schedule import LoopRV

LEAST = 4
"""The minimal extent of both axes."""


class Crossing(NamedTuple):
    """A transposed read (its position), the axis along which it is contiguous, and the tile: the elements along that
    axis and along the last one.

    `block`: the size of a contiguous block of the axis, if this is more than a tile; otherwise 0.
    """

    read: int
    axis: IterVar
    rows: int
    columns: int
    block: int = 0


def crossing_of(block: BlockView, target: Target) -> Crossing | None:
    """The only transposed read of an element-wise block with static sizes."""
    if block.has_condition or len(block.block.writes) != 1 or len(block.spatial) < 2:
        return None
    if any([e >= 1 << 20 for e in block.extents]) or len(block.block.iter_vars) != len(block.spatial):
        return None
    *others, last = block.spatial
    found = []
    for k, region in enumerate(block.block.reads):
        if last in block.axes_of(region) and not block.reads_along(region, last):
            found.append(k)
    if len(found) != 1:
        return None
    region = block.block.reads[found[0]]
    lanes = target.cpu.lanes(block.block.writes[0].buffer.dtype.bits)
    if lanes == 1:  # no vectors, no tile to turn in them
        return None
    for axis in others:
        extent = block.extents[block.block.iter_vars.index(axis)]
        rows = _tile(extent, lanes)
        inner = region.region[-1].min
        if rows and _turns(region, axis, last, rows):
            columns = min(rows, _tile(block.extents[-1], lanes))
            together = inner.b.value if isinstance(inner, FloorMod) and isinstance(inner.b, IntImm) else 0
            return Crossing(found[0], axis, rows, columns, together if together > rows else 0) if columns else None
    return None


def _tile(extent: int, lanes: int) -> int:
    """A power of two up to the vector width that holds the extent, if possible; 0 if the extent is too small."""
    return 0 if extent < LEAST else min(lanes, 1 << (extent - 1).bit_length())


def _turns(region: BufferRegion, axis: IterVar, last: IterVar, tile: int) -> bool:
    """Whether a read takes one element, contiguous along `axis`, with `last` in another dimension."""
    if not all([isinstance(r.extent, IntImm) and r.extent.value == 1 for r in region.region]):
        return False
    *outer, inner = [r.min for r in region.region]
    places = [e for e in outer if last.var in uses(e).vars]
    if last.var in uses(inner).vars or len(places) != 1 or not steps_by_one(_unclamped(places[0]), last.var):
        return False
    others = [e for e in outer if axis.var in uses(e).vars]
    if isinstance(inner, FloorMod) and inner.a is axis.var and isinstance(inner.b, IntImm):
        # Blocks of channels: tiles stay within them.
        return inner.b.value % tile == 0 and all([isinstance(e, FloorDiv) and e.a is axis.var for e in others])
    return not others and steps_by_one(inner, axis.var)


def _unclamped(index: PrimExpr) -> PrimExpr:
    """The index without its upper clamp."""
    return index.a if isinstance(index, Min) and isinstance(index.b, IntImm) else index


def _goes_on(block: BlockView, crossing: Crossing) -> bool:
    """Whether the elements beyond a partial last tile would belong to other axes, or an index is decreasing, has a
    step, or is clamped.

    If so, the tile keeps the axes of the block.
    """
    *outer, inner = [r.min for r in block.block.reads[crossing.read].region]
    *_, last = block.spatial
    extent = block.extents[block.block.iter_vars.index(crossing.axis)]
    rows_cut = extent % crossing.rows != 0 and inner is not crossing.axis.var and not isinstance(inner, FloorMod)
    columns_cut = block.extents[-1] % crossing.columns != 0 and not any([e is last.var for e in outer])
    bound = any([isinstance(e, Min) for e in outer])
    return bound or rows_cut or columns_cut or any([_falls(e, v) for e in outer for v in block.spatial])


def _falls(index: PrimExpr, axis: IterVar) -> bool:
    """Whether an index decreases along an axis, or grows by more than one along it alone."""
    form, alone = detect_linear_equation(index, [axis.var]), set(uses(index).vars) == {axis.var}
    if not form or not isinstance(form[0], IntImm):
        # A digit of the axis may be multiplied: v % 5 * 3.
        return alone and has_node(index, Mul)
    return form[0].value < 0 or (form[0].value > 1 and alone)


def schedule_crossing(view: KernelView, block: BlockView, crossing: Crossing) -> tuple[list[LoopRV], int]:
    """Tile one such block. Returns the loops over tiles, outermost first, and the number of elements of a tile."""
    sch = view.sch
    by_axis = dict(zip(block.block.iter_vars, view.loops(block), strict=True))
    *_, last = block.spatial
    others = [by_axis[v] for v in block.spatial if v is not last and v is not crossing.axis]
    inside = [] if crossing.block else [by_axis[v] for v in block.spatial[block.spatial.index(crossing.axis) + 1 : -1]]
    reindexed = _goes_on(block, crossing)
    if reindexed:
        tile = sch.reindex(block.rv, ("read", crossing.read))
        at = block.spatial.index(crossing.axis)
        sch.transform_layout(tile, ("write", 0), lambda *i: [*i[:at], *i[at + 1 :], i[at]])
        sch.set_scope(tile, 0, "local")
    else:
        # Another block may read the same buffer: the product of a matrix and itself does.
        tile = sch.cache_read(block.rv, crossing.read, "local", [block.rv])
    if crossing.block:
        # Of a block with several tiles the index is seen to have two digits.
        far, near = sch.split(by_axis[crossing.axis], [None, crossing.block])
        others, by_axis[crossing.axis] = [*others, far], near
    row, row_inner = sch.split(by_axis[crossing.axis], [None, crossing.rows])
    column, column_inner = sch.split(by_axis[last], [None, crossing.columns])
    outer = [*others, column, row]
    if inside and view.plan.choose(f"{block.name}.order", "rows", lambda: ("rows", "columns")) == "rows":
        # A tile writes its rows from begin to end. Column by column it would write a piece of each row of the result, from one page of
        # memory to the next: 0.42 to 1.03 of the time for 13 random shapes.
        outer = [*[loop for loop in others if loop not in inside], row, *inside, column]
    sch.reorder(*outer, row_inner, column_inner)
    sch.compute_at(tile, outer[-1])
    *rest, along = sch.get_loops(tile)[len(outer) :]
    if reindexed:
        sch.reorder(along, rest[-1])
        along, rest[-1] = rest[-1], along
    for loop in (*rest, row_inner):
        sch.unroll(loop)
    sch.vectorize(along)
    sch.vectorize(column_inner)
    return outer, prod([crossing.rows, crossing.columns])
