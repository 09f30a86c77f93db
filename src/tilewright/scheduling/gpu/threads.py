"""Threads for blocks that no other rule takes: one for each element, which computes its reductions one after the other."""

from __future__ import annotations

from tilewright.scheduling.block_views import BlockView, KernelView
from tilewright.tir import ForKind
from tilewright.tir.schedule.default_gpu import schedule_block

THREADS = 256
"""Threads of a block, where nothing says otherwise."""


def is_bound(view: KernelView, block: BlockView) -> bool:
    """Whether a loop around a block is bound to threads."""
    return any([view.sch.get(loop).kind == ForKind.THREAD_BINDING for loop in view.loops(block)])


def bind_elements(view: KernelView, block: BlockView) -> None:
    """for i: for j: for k: S   -->   blockIdx.x, threadIdx.x over (i, j): for k: S"""
    threads = view.plan.choose(f"{block.name}.threads", THREADS, lambda: (64, 128, 256, 512, 1024))
    schedule_block(view.sch, block.rv, threads)


__all__ = ["bind_elements", "is_bound"]
