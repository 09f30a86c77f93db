"""Inlining of element-wise blocks into their consumers, and of reshapes into what they reshape."""

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


def keep_rows(view: KernelView) -> None:
    """If rows are reduced and the result is reshaped, let the kernel's last block write it in the new shape. Its loops
    then still run over rows.
    """
    blocks = view.blocks()
    if not any([b.reduction for b in blocks]):
        return
    outputs = view.outputs()
    for block in blocks:
        if block.name not in outputs or not block.is_reshape:
            continue
        if any([BlockView(view.sch, rv).reduction for rv in view.sch.get_producers(block.rv)]):
            continue
        # Refused where other blocks read what it reads.
        with view.sch.tried(f"{block.name} inlined into what it reshapes"):
            view.sch.reverse_compute_inline(block.rv)


__all__ = ["inline_producers", "keep_rows"]
