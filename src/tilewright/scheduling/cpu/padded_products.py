"""Products whose extents are no whole vectors and tiles: their operands are copied with zeros behind their ends, and the sums are cut.

for i in 389: for j in 611: for k: C[i, j] += A[i, k] * B[k, j]
-->
copies of A with 392 rows, of B with 624 columns; the product of both in whole tiles; C is what is left of it

The copies are small beside the product. Without them vectors would run along k, and gather the elements of B: 389 x 611 x 283 takes 1.2
ms instead of 25 on an AMD EPYC with AVX-512, one thread.
"""

from __future__ import annotations

from collections.abc import Sequence

from tilewright.ir import IntImm
from tilewright.scheduling.block_views import BlockView, KernelView
from tilewright.scheduling.cost import tiling
from tilewright.scheduling.cpu.injective import vector_width
from tilewright.scheduling.cpu.nonzero import adds_products
from tilewright.target import Target
from tilewright.tir import IterVar
from tilewright.topi.utils import ceil_div

LEAST_DEPTH = 8
"""The least extent of a reduction that pays for copies of its operands."""


def pad_products(view: KernelView, target: Target) -> None:
    """Pads the product of a kernel that has one, and no other reduction, to whole tiles, as the plan decides."""
    reductions = [b for b in view.blocks() if b.reduction]
    if len(reductions) != 1 or (paddings := _paddings(reductions[0], target)) is None:
        return
    (block,) = reductions
    if view.plan.choose(f"{block.name}.ends", "padded", lambda: ("padded", "as they are")) == "padded":
        # Refused where the block is no sum of products of whole buffers.
        with view.sch.tried(f"{block.name} on padded operands"):
            view.sch.pad_einsum(block.rv, paddings)


def _paddings(block: BlockView, target: Target) -> list[int] | None:
    """For each axis of a block, the multiple to which it is padded; None if the block is no product, or its vectors are whole."""
    axes = block.block.iter_vars
    lanes = target.cpu.lanes(block.block.writes[0].buffer.dtype.bits) if len(block.block.writes) == 1 else 1
    plain = not block.block.annotations and block.block.init is not None and bool(block.spatial)
    if not plain or lanes == 1 or not adds_products(block):
        return None
    extents = dict(zip(axes, block.extents, strict=True))
    column = block.spatial[-1]
    rows = [a for a in block.spatial if len(block.role_of(a)) == 1 and block.role_of(a) != block.role_of(column)]
    depth = max([extents[a] for a in block.reduction])
    whole = extents[column] % vector_width(extents[column], lanes) == 0 and vector_width(extents[column], lanes) > 1
    if whole or not rows or len(block.role_of(column)) != 1 or not block.is_contiguous(column):
        return None
    if extents[column] < lanes or extents[rows[-1]] < 2 or depth < LEAST_DEPTH or not _is_static(axes):
        return None
    tile = tiling(extents[rows[-1]], int(ceil_div(extents[column], lanes)), target.cpu.core)
    sizes = {rows[-1]: tile.tile_rows, column: tile.tile_columns * lanes}
    return [sizes.get(a, 1) for a in axes]


def _is_static(axes: Sequence[IterVar]) -> bool:
    return all([a.dom is not None and isinstance(a.dom.extent, IntImm) for a in axes])


__all__ = ["pad_products"]
