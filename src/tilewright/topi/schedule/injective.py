"""Element-wise kernels: vectors on the last axis, threads on the outer ones."""

from __future__ import annotations

from math import prod

from tilewright.target import Target
from tilewright.tir.schedule import LoopRV, Schedule
from tilewright.topi.schedule.kernel import BlockView, KernelView, extent_of

PARALLEL_WORK = 1 << 15
"""Iterations below which handing work to another thread costs more than it saves."""


def schedule_injective(view: KernelView, block: BlockView, target: Target) -> None:
    """for i: for j: S   -->   parallel i: for j // lanes: vectorize j % lanes: S"""
    sch = view.sch
    loops = view.loops(block)
    if not loops:
        return
    lanes = target.cpu.lanes(block.block.writes[0].buffer.dtype.bits)
    extents = view.extents(loops)
    last = extents[-1]
    total = prod(extents)
    inner = vector_width(last, lanes)
    if inner > 1:
        outer, vector = sch.split(loops[-1], [None, inner])
        sch.vectorize(vector)
        loops = [*loops[:-1], outer]
    parallelize(sch, loops, total, target)


def schedule_reduction(view: KernelView, block: BlockView, target: Target) -> None:
    """for i: for k: S   -->   parallel i: for k: S"""
    spatial = set(block.spatial)
    loops = [loop for loop, axis in zip(view.loops(block), block.block.iter_vars, strict=True) if axis in spatial]
    parallelize(view.sch, loops, block.iterations, target)


def vector_width(extent: int, lanes: int) -> int:
    """Lanes to use on an axis: all, or the widest power of two that divides it; 1 when that is too narrow."""
    if extent % lanes == 0:
        return lanes
    width = lanes
    while width > 1 and extent % width:
        width //= 2
    if width >= min(4, lanes):
        return width
    return lanes if extent >= 2 * lanes else 1


def parallelize(sch: Schedule, loops: list[LoopRV], work: int, target: Target) -> None:
    """Runs the outermost loops in parallel, fused as far as it takes to feed every thread evenly."""
    if work < PARALLEL_WORK or target.cpu.cores < 2 or not loops:
        return
    enough = 8 * target.cpu.cores
    count, take = 1, 0
    for loop in loops:
        count *= extent_of(sch.get(loop))
        take += 1
        if count >= enough:
            break
    if count < 2:
        return
    sch.parallel(sch.fuse(*loops[:take]) if take > 1 else loops[0])
