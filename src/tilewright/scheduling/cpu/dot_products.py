"""The instruction for a block that is written in groups (see scheduling/instructions.py).

Register tile, order of loops and epilogue are those of every contraction; only the innermost lanes x group loops, elsewhere
one vector, are tensorized.
"""

from __future__ import annotations

from tilewright.ir import IntImm
from tilewright.scheduling.block_views import BlockView, uses
from tilewright.scheduling.instructions import DotProduct, dot_product
from tilewright.target import Target
from tilewright.tir import FloorMod, PrimExpr


def dot_product_of(block: BlockView, target: Target) -> DotProduct | None:
    """The instruction for a block's innermost lanes x group products; None if it is not written in groups."""
    if not block.reduction or not block.spatial or block.block.init is None or len(block.block.reads) != 2:
        return None
    if len(block.block.writes) != 1:
        return None
    group, vector = block.reduction[-1], block.spatial[-1]
    data, weight = block.block.reads
    # One number for all sums, which has no axis, is not a row of groups.
    if len(weight.region) < 2 or not data.region or weight.region[-1].min is not group.var:
        return None
    if vector.var in uses(data.region[-1].min).vars:
        return None
    along = weight.region[-2].min
    write = block.block.writes[0]
    if lane_of(along) is not vector.var or write.region[-1].min is not vector.var:
        return None
    extent = panel_of(along) or block.extents[block.block.iter_vars.index(vector)]
    pairs = block.extents[block.block.iter_vars.index(group)]
    found = dot_product(target, str(data.buffer.dtype), str(weight.buffer.dtype), str(write.buffer.dtype), extent)
    return found if found is not None and found.group == pairs else None


def lane_of(index: PrimExpr) -> PrimExpr:
    """The variable v of an index v, or v % panel."""
    return index.a if isinstance(index, FloorMod) else index


def panel_of(index: PrimExpr) -> int | None:
    """The width of a panel, from an index v % width."""
    return index.b.value if isinstance(index, FloorMod) and isinstance(index.b, IntImm) else None
