"""The rules for GPUs, and the choice of a rule for a block.

A rule of ANCHORS looks at a whole kernel. It schedules the blocks that it knows, with what belongs to them (prologues that it reads
through shared memory, the epilogue), and says whether there were any. All other blocks get threads one by one:

products       products, and convolutions as products, on matrix units or in registers
threads        any block: one thread an element, reductions one after the other
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tilewright.scheduling.block_views import BlockView, KernelView
from tilewright.scheduling.gpu.matrix_form import divide_groups
from tilewright.scheduling.gpu.products import is_product, schedule_products
from tilewright.scheduling.gpu.threads import bind_elements, is_bound
from tilewright.scheduling.inlining import inline_producers
from tilewright.scheduling.kernel_plan import KernelPlan
from tilewright.target import Target
from tilewright.tir.schedule import Schedule

ANCHORS: tuple[Callable[[KernelView, Target], bool], ...] = (schedule_products,)
"""Rules for kernels by their heaviest blocks. The first one that knows a kernel takes it."""


def schedule_gpu(sch: Schedule, target: Target, plan: KernelPlan) -> None:
    """Schedule every block of a kernel, as the plan decides."""
    view = KernelView(sch, plan)
    for block in view.blocks():
        divide_groups(sch, block.rv)
    inline_producers(view, lambda v, block, consumers: feeds_product(consumers, target) or stays(v, block, consumers))
    any(rule(view, target) for rule in ANCHORS)
    for block in view.blocks():
        if not is_bound(view, block):
            bind_elements(view, block)


def feeds_product(consumers: Sequence[BlockView], target: Target) -> bool:
    """Whether a product reads a block, which it brings to its form in its own way."""
    return any([is_product(c.block, target) for c in consumers])


def stays(view: KernelView, block: BlockView, consumers: Sequence[BlockView]) -> bool:
    """Whether a block is computed apart: where inlined expensive work would be repeated."""
    if block.is_heavy and len(consumers) > 1:
        return True
    return block.is_heavy and any([c.is_opaque or c.iterations > block.iterations for c in consumers])


__all__ = ["schedule_gpu"]
