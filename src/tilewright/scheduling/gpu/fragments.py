"""Tiles of 16 x 16 in the registers of a warp, as mma has them: their layouts, who has which element, loads of operands.

Lane 4 * g + q has the rows g and 8 + g of a tile, and the columns 2 * q, 2 * q + 1, 8 + 2 * q, 8 + 2 * q + 1.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tilewright.scheduling.gpu.tiled_copies import PERMUTED
from tilewright.tir.schedule import BlockRV, Schedule
from tilewright.tir.tensor_intrin import mma_layouts

SCOPE = "shared.dyn"
"""Where operands are staged: shared memory of any size."""
SIDE = 16
"""The side of a tile of sums."""
LANES_OF_ROW = 4


def layout_of_sums(sch: Schedule, block: BlockRV, width: int = SIDE) -> None:
    """The result of a block as tiles of SIDE rows and `width` columns, in registers."""

    def layout(*at: Any) -> list[Any]:
        *batch, i, j = at
        lane, element = mma_layouts.shared_16x16_to_ldmatrix_32x8_layout(i % SIDE, j % width)
        return [*batch, i // SIDE, j // width, lane, element]

    sch.transform_layout(block, ("write", 0), layout)


def by_lanes(sch: Schedule, block: BlockRV, vectors: bool = False) -> None:
    """Gives each lane its elements of the tiles of a block. vectors: pairs of neighbours are one access."""
    *_, i, j = sch.get_loops(block)
    i0, i1, row = sch.split(i, [None, 2, SIDE // 2])
    j0, j1, column, pair = sch.split(j, [None, 2, LANES_OF_ROW, 2])
    sch.reorder(i0, j0, i1, j1, row, column, pair)
    sch.bind(sch.fuse(row, column), "threadIdx.x")
    if vectors:
        sch.vectorize(pair)
    else:
        sch.unroll(pair)
    for loop in (i0, j0, i1, j1):
        sch.unroll(loop)


def tensorize_tiles(sch: Schedule, block: BlockRV, name: str) -> None:
    """The last two loops of a block by an intrinsic on a tile; those around them, over tiles, are unrolled."""
    *_, i0, j0, i, _ = sch.get_loops(block)
    for loop in (i0, j0):
        sch.unroll(loop)
    sch.tensorize(i, name)


def load_operand(
    sch: Schedule, registers: BlockRV, name: str, trans: bool, k_dim: int, names: Mapping[str, str], permuted: bool
) -> None:
    """The load of an operand's tiles from shared memory to registers, by the intrinsics `names`. name: "A" or "B". permuted: whether
    chunks of rows have changed places there."""
    rows, columns = mma_layouts.operand_shape(k_dim, name, trans)
    of_lane = mma_layouts.operand_layout(k_dim, name, trans)

    def layout(*at: Any) -> list[Any]:
        *batch, i, j = at
        return [*batch, i // rows, j // columns, *of_lane(i % rows, j % columns)]

    sch.transform_layout(registers, ("write", 0), layout)
    *_, i, j = sch.get_loops(registers)
    (i0, i1), (j0, j1) = sch.split(i, [None, rows]), sch.split(j, [None, columns])
    sch.reorder(i0, j0, i1, j1)
    for loop in (i0, j0):
        sch.unroll(loop)
    loaded = sch.blockize(i1)
    if permuted:
        sch.annotate(loaded, PERMUTED, 1)
    sch.tensorize(loaded, names[f"load_{name.lower()}"])


__all__ = ["LANES_OF_ROW", "SCOPE", "SIDE", "by_lanes", "layout_of_sums", "load_operand", "tensorize_tiles"]
