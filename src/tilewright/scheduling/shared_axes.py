"""Axes that all blocks of a kernel have in common: its rows."""

from __future__ import annotations

from tilewright.scheduling.block_views import BlockView, KernelView


def shared_axes(view: KernelView, blocks: list[BlockView]) -> int:
    """The number of leading spatial axes that all blocks have in common, without reduced ones."""
    last = blocks[-1]
    # What has no axis counts along one of a single step, for which there may be not a loop.
    idle = len(last.block.iter_vars) - len(view.loops(last))
    if idle and idle != last.extents[: len(last.spatial)].count(1):
        return 0
    extents = [e for e in last.extents if e != 1 or not idle]
    count = len(last.spatial) - idle
    for block in blocks:
        if block.is_opaque:
            return 0
        if block.reduction:
            first = block.block.iter_vars.index(block.reduction[0])
            same = 0
            for mine, theirs in zip([e for e in block.extents[:first] if e != 1 or not idle], extents, strict=False):
                if mine != theirs:
                    break
                same += 1
            count = min(count, same)
    return count


__all__ = ["shared_axes"]
