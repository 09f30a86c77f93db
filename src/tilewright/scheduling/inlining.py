"""Inlining of element-wise blocks into their consumers."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tilewright.scheduling.block_views import BlockView, KernelView
from tilewright.topi.stages import MATERIALIZE

LARGEST = 256
"""The number of uses of variables in a block up to which producers are inlined into it: gathers at gathered places, each of which reads
its place several times, would grow exponentially."""


def inline_producers(view: KernelView, stays: Callable[[KernelView, BlockView, Sequence[BlockView]], bool]) -> None:
    """Inline element-wise blocks into their consumers. stays(view, block, consumers): whether a block is computed apart."""
    outputs = view.outputs()
    for block in view.blocks():
        if block.name in outputs or not block.is_injective or MATERIALIZE in block.block.annotations:
            continue
        consumers = view.consumers(block)
        if stays(view, block, consumers):
            continue
        inlined = BlockView(view.sch, block.rv)  # with what was inlined into it
        if any([inlined.size_in(c) > LARGEST for c in consumers]):
            continue
        # Refused for an opaque consumer, or one that takes the buffer's address: the block keeps its own loops.
        with view.sch.tried(f"{block.name} inlined into its readers"):
            view.sch.compute_inline(block.rv)


__all__ = ["inline_producers"]
