"""Padding of rows of pixels (channel blocks) that are narrower than a register.

for c, h, w, b: B[c, h, w, b] = A[c, h - 1, w - 1, b] if inside else 0
-->
parallel c, h:
  vectors of the whole row: B = 0
  if inside: unrolled w: vectorized b: B[c, h, w + 1, b] = A[c, h - 1, w, b]

For narrow pixels a test takes longer than the copy. Wide pixels are bound by memory, so writing them twice would cost
more.
"""

from __future__ import annotations

from math import gcd

from tilewright.ir import IntImm
from tilewright.scheduling.block_views import BlockView, KernelView, extent_of, uses
from tilewright.scheduling.cost import divisors
from tilewright.target import Target
from tilewright.tir import BufferStore, Call
from tilewright.tir.schedule import LoopRV

UNROLLED = 8
"""The number of pixels in the body of a loop, at most; a plan may take twice as many."""


def pads_pixels(block: BlockView, target: Target) -> bool:
    """Whether a block, with static sizes, pads rows of pixels, and a register holds several pixels."""
    if len(block.spatial) < 3 or not block.is_padding:
        return False
    if not all([v.dom is not None and isinstance(v.dom.extent, IntImm) for v in block.spatial]):
        return False
    lanes, pixel = target.cpu.lanes(block.block.writes[0].buffer.dtype.bits), block.extents[-1]
    if not (4 <= pixel < lanes and lanes % pixel == 0):
        return False
    assert isinstance(block.block.body, BufferStore) and isinstance(block.block.body.value, Call)
    tested = uses(block.block.body.value.args[0]).vars
    *_, column, last = block.spatial
    return column.var in tested and last.var not in tested


def schedule_padding(view: KernelView, block: BlockView, target: Target) -> tuple[list[LoopRV], int]:
    """Schedule the block. Returns the loops over rows, and the number of elements of a row."""
    sch = view.sch
    row = block.extents[-2] * block.extents[-1]
    lanes = target.cpu.lanes(block.block.writes[0].buffer.dtype.bits)
    fill = sch.decompose_padding(block.rv, view.loops(block)[-2])
    whole = sch.fuse(*view.loops(fill)[-2:])
    sch.vectorize(sch.split(whole, [None, gcd(row, lanes)])[1])
    *rows, column, pixel = view.loops(block)
    columns = extent_of(sch.get(column))
    model = max(divisors(columns, UNROLLED))
    pixels = view.plan.choose(f"{block.name}.unroll", model, lambda: divisors(columns, 2 * UNROLLED))
    sch.unroll(sch.split(column, [None, pixels])[1])
    sch.vectorize(pixel)
    return rows, row
