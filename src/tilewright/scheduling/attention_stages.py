"""The stages of attention in a kernel, for the rules of all families."""

from __future__ import annotations

from typing import NamedTuple

from tilewright.scheduling.block_views import BlockView, KernelView
from tilewright.topi.stages import BLOCK_ROWS


class Stages(NamedTuple):
    """The stages of attention, from packed keys to the sums. shares: the weights as the product with values reads them, which for 16-bit
    floats are another stage. total: of the weights of a row."""

    keys: BlockView
    products: BlockView
    scores: BlockView
    top: BlockView
    weights: BlockView
    total: BlockView
    shares: BlockView
    sums: BlockView


def attention_stages(view: KernelView) -> Stages | None:
    """The stages of a kernel that is attention. The stage of sums is marked, the others are found by what they read and who reads
    them. None for a single query without a block."""
    sums = next((b for b in view.blocks() if BLOCK_ROWS in b.block.annotations), None)
    if sums is None or sums.block.annotations[BLOCK_ROWS] <= 1:
        return None
    shares = view.producer(sums, 0)
    weights = shares if any([b.reduction for b in view.producers(shares)]) else view.producer(shares, 0)
    (top,) = [b for b in view.producers(weights) if b.reduction]
    scores = view.producer(top, 0)
    (products,) = [b for b in view.producers(scores) if b.reduction]
    (total,) = [b for b in view.consumers(weights) if b.reduction and BLOCK_ROWS not in b.block.annotations]
    keys = view.producer(products, 1)
    return Stages(keys, products, scores, top, weights, total, shares, sums)


__all__ = ["Stages", "attention_stages"]
