"""What all rules for GPUs need: loops over blocks and threads, and threads for blocks that no other rule takes."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

from tilewright.ir import IntImm
from tilewright.node import any_node
from tilewright.scheduling.block_views import BlockView, KernelView
from tilewright.scheduling.gpu.facts import facts_of
from tilewright.scheduling.gpu.powers import powers
from tilewright.tir import AttrStmt, Call, For, ForKind, IterVar
from tilewright.tir.schedule import LoopRV
from tilewright.tir.schedule.facts.leaves import leaves
from tilewright.tir.stmt_functor import used_vars

VECTOR_BYTES = 16
"""The widest access of a thread."""
UNKNOWN = 1 << 20
"""What rules take for an extent that is not known."""


def is_bound(view: KernelView, block: BlockView) -> bool:
    """Whether a loop around or inside of a block is bound to threads; or the block is for the host, since it calls packed functions."""
    around = any([view.sch.get(loop).kind == ForKind.THREAD_BINDING for loop in view.loops(block)])
    return around or (block.is_opaque and any_node(block.block.body, _is_placed))


def _is_placed(node: Any) -> bool:
    """Whether a statement says where it runs."""
    if isinstance(node, For):
        return node.kind == ForKind.THREAD_BINDING
    if isinstance(node, AttrStmt):
        return node.attr_key == "thread_extent"
    return isinstance(node, Call) and str(getattr(node.op, "name", "")).startswith("tir.tvm_call_")


def one_loop(view: KernelView, block: BlockView, loops: Sequence[LoopRV]) -> LoopRV:
    """The loops as one; a loop of one step around the block where there are none."""
    if not loops:
        return view.sch.add_unit_loop(block.rv)
    return view.sch.fuse(*loops) if len(loops) > 1 else loops[0]


def known(view: KernelView, loops: Sequence[LoopRV]) -> int | None:
    """The number of iterations of loops; None where it is not known."""
    extents = [view.sch.get(loop).extent for loop in loops]
    return (
        prod([e.value for e in extents if isinstance(e, IntImm)])
        if all([isinstance(e, IntImm) for e in extents])
        else None
    )


def chosen_threads(view: KernelView, block: BlockView, steps: int | None, most: int = 256) -> int:
    """Threads of a block for so many steps: fewer where blocks would else be fewer than multiprocessors."""
    gpu = facts_of(view.plan.target)
    limit = gpu.max_threads_per_block
    warp = min(max(gpu.warp_size, 1), limit)
    model = min(most, limit)
    share = UNKNOWN if steps is None else -(-steps // max(gpu.multiprocessors, 1))
    while model > warp and model // 2 >= share:
        model //= 2
    return view.plan.choose(f"{block.name}.threads", model, lambda: powers(min(32, limit), limit))


def parted(view: KernelView, block: BlockView) -> tuple[list[LoopRV], list[LoopRV]]:
    """(loops of spatial axes, loops of reduced axes) of a block, as far as each follows one kind of axis."""
    sch = view.sch
    loops = view.loops(block)
    if not loops:
        return [], []
    (leaf,) = [x for x in leaves(sch.get(loops[0])) if x.block is block.block]
    reduced = {
        v
        for axis, value in zip(leaf.block.iter_vars, leaf.realize.iter_values, strict=True)
        if axis.iter_type != IterVar.DataPar
        for v in used_vars(value)
    }
    inside = [loop for loop in loops if sch.get(loop).loop_var in reduced]
    return [loop for loop in loops if sch.get(loop).loop_var not in reduced], inside


def neighbours(view: KernelView, loops: Sequence[LoopRV], threads: int) -> tuple[LoopRV, LoopRV]:
    """(loop over blocks, loop over threads) of spatial loops: threads have neighbours along the last one or two.

    Where threads took parts of more loops, it could not always be shown that they write different elements. Nor where blocks were counted
    over loops of unknown extents: those of one row are then blockIdx.y.
    """
    sch = view.sch
    last = sch.get(loops[-1]).extent
    count = 1 if isinstance(last, IntImm) and last.value >= threads else min(2, len(loops))
    inner = sch.fuse(*loops[-count:]) if count > 1 else loops[-1]
    outer, thread = sch.split(inner, [None, threads])
    rest = loops[:-count]
    if rest and known(view, [outer]) is None:
        sch.bind(outer, "blockIdx.y")
        return (sch.fuse(*rest) if len(rest) > 1 else rest[0]), thread
    return (sch.fuse(*rest, outer) if rest else outer), thread


def bind_elements(view: KernelView, block: BlockView) -> None:
    """for i: for j: for k: S   -->   blockIdx.x, threadIdx.x over (i, j): for k: S

    Reductions run one after the other in a thread.
    """
    sch = view.sch
    spatial, reduced = parted(view, block)
    if reduced and spatial:
        sch.reorder(*spatial, *reduced)
    if not spatial:
        thread = sch.add_unit_loop(reduced[0] if reduced else block.rv)
        grid = sch.add_unit_loop(thread)
    else:
        steps = known(view, spatial)
        model = UNKNOWN if steps is None else steps
        if reduced and len(spatial) > 2:
            pair = known(view, spatial[-2:])
            model = model if pair is None else min(model, pair * max(facts_of(view.plan.target).multiprocessors, 1))
        threads = chosen_threads(view, block, model)
        if not reduced and sch.attempt(lambda s: _bind_one_number(view, block, spatial, threads)):
            return
        grid, thread = neighbours(view, spatial, threads)
    sch.bind(grid, "blockIdx.x")
    sch.bind(thread, "threadIdx.x")


def _bind_one_number(view: KernelView, block: BlockView, loops: Sequence[LoopRV], threads: int) -> None:
    """All loops as one, of which threads take neighbours."""
    sch = view.sch
    grid, thread = sch.split(one_loop(view, block, loops), [None, threads])
    sch.bind(grid, "blockIdx.x")
    sch.bind(thread, "threadIdx.x")


__all__ = [
    "UNKNOWN", "VECTOR_BYTES", "bind_elements", "chosen_threads", "facts_of", "is_bound", "known", "neighbours", "one_loop", "parted",
]  # fmt: skip
