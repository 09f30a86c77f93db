"""Kernels whose rules see one long axis instead of several short ones, and no axis of extent one.

Kernels with products or windows are not changed: their rules identify axes by their roles.
"""

from __future__ import annotations

from tilewright.scheduling.block_views import uses
from tilewright.tir import IterVar
from tilewright.tir.schedule import Schedule
from tilewright.tir.schedule.facts.leaves import Leaf, leaves
from tilewright.tir.schedule.primitives.loop_nests.merged_axes import TOLD, is_plain


def merge_rows(sch: Schedule) -> None:
    """Merge adjacent axes of a kernel in which no block has axes with roles."""
    root = sch.get_block("root")
    if not has_roles(leaves(sch.get(root).body)):
        sch.merge_axes(root)


def has_roles(blocks: list[Leaf]) -> bool:
    """Whether a block of a kernel is a product or a window, or is marked for other rules."""
    return any([not TOLD.issuperset(x.block.annotations) or _reduces_pairs(x) for x in blocks])


def _reduces_pairs(leaf: Leaf) -> bool:
    """Whether a block multiplies elements of several tensors along a reduced axis, or reduces windows."""
    block, loops = leaf.block, {loop.loop_var: loop for loop in leaf.loops}
    reduced = {iv.var for iv in block.iter_vars if iv.iter_type == IterVar.CommReduce}
    if not reduced or not is_plain(leaf.realize, loops):
        return False
    operands = set()
    for load in uses(block.body).loads:
        for index in load.indices:
            found = uses(index).vars
            if found & reduced:
                operands.add(load.buffer)
                if len(found) > 1:
                    return True
    return len(operands - {w.buffer for w in block.writes}) > 1
