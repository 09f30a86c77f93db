"""What rules ask about blocks and their loops."""

from __future__ import annotations

from typing import Any

from tilewright.node import nodes_of
from tilewright.support.errors import ScheduleError
from tilewright.tir import Block, BufferLoad, BufferStore, For, ForKind, IntImm, StringImm
from tilewright.tir.schedule import BlockRV, LoopRV, Schedule
from tilewright.tir.schedule.facts.leaves import DATA_PAR, REDUCE, int_extent, leaf_of, leaves
from tilewright.tir.schedule.facts.loop_uses import loop_kinds
from tilewright.tir.stmt_functor import used_vars


def exists(sch: Schedule, block: BlockRV) -> bool:
    """Whether the block of a handle is still part of the program."""
    try:
        sch.get_sref(block)
    except ScheduleError:
        return False
    return True


def is_root(sch: Schedule, block: BlockRV) -> bool:
    """Whether a block is the whole body of its function."""
    return sch.get_sref(block).parent is None


def note(block: Any, key: str, default: Any = None) -> Any:
    """The annotation of a block or loop as Python value."""
    return plain(block.annotations.get(key, default))


def plain(value: Any) -> Any:
    """An annotation as numbers, texts and lists of Python."""
    if isinstance(value, (IntImm, StringImm)):
        return value.value
    if isinstance(value, (list, tuple)):
        return [plain(v) for v in value]
    return value


def only_store(block: Block) -> BufferStore | None:
    """The store that is the body of a block; None if there is more."""
    return block.body if isinstance(block.body, BufferStore) else None


def is_spatial(block: Block) -> bool:
    """Whether all iteration variables of a block are data parallel."""
    return all([iv.iter_type == DATA_PAR for iv in block.iter_vars])


def is_reduction(block: Block) -> bool:
    """Whether a block has an initialisation and only spatial and reduction variables, both kinds of which may be absent."""
    kinds = {iv.iter_type for iv in block.iter_vars}
    return block.init is not None and REDUCE in kinds and kinds <= {DATA_PAR, REDUCE}


def simple_kinds(sch: Schedule, block: BlockRV) -> list[str] | None:
    """The kinds of the loops of a block; None unless all are serial, without annotations, of known extent, hold nothing else, and are of
    the kinds S and R."""
    kinds = loop_kinds(sch, block)
    for loop, kind in zip(leaf_of(sch.get_sref(block)).loops, kinds, strict=True):
        if not kind or loop.kind != ForKind.SERIAL or loop.annotations or int_extent(loop) is None:
            return None
        if len(leaves(loop.body)) != 1:
            return None
    return kinds


def trivially_bound(sch: Schedule, block: BlockRV) -> bool:
    """Whether each iteration variable of a block is a loop variable of its own, or constant."""
    leaf = leaf_of(sch.get_sref(block))
    names = [v for v in leaf.realize.iter_values if not isinstance(v, IntImm)]
    loops = {loop.loop_var for loop in leaf.loops}
    return len(set(names)) == len(names) and all([v in loops for v in names])


def lengths(sch: Schedule, block: BlockRV, kinds: list[str]) -> tuple[int, int]:
    """The number of spatial points, and of reduction steps, that loops of known extent run over."""
    sizes = {"S": 1, "R": 1}
    for loop, kind in zip(leaf_of(sch.get_sref(block)).loops, kinds, strict=True):
        sizes[kind] *= int_extent(loop) or 1
    return sizes["S"], sizes["R"]


def needs_multi_level_tiling(sch: Schedule, block: BlockRV) -> bool:
    """Whether a block is a reduction that reads elements again: of at least one input, some spatial variable is no part of the index."""
    if is_root(sch, block):
        return False
    stmt = sch.get(block)
    if len(stmt.writes) != 1 or not is_reduction(stmt) or not trivially_bound(sch, block) or nodes_of(stmt.body, Block):
        return False
    if simple_kinds(sch, block) is None:
        return False
    spatial = {iv.var for iv in stmt.iter_vars if iv.iter_type == DATA_PAR and not _is_one(iv.dom.extent)}
    written = {r.buffer for r in stmt.writes}
    loads = [x for x in nodes_of(stmt.body, BufferLoad) if x.buffer not in written]
    return any([spatial - {v for i in load.indices for v in used_vars(i)} for load in loads])


def needs_parallel_reduction(sch: Schedule, block: BlockRV, most: int) -> bool:
    """Whether the steps of a reduction should run in parallel, since its points are too few. most: the points that are enough."""
    if is_root(sch, block):
        return False
    stmt = sch.get(block)
    kinds = simple_kinds(sch, block)
    if len(stmt.writes) != 1 or not is_reduction(stmt) or kinds is None or not trivially_bound(sch, block):
        return False
    points, steps = lengths(sch, block, kinds)
    if needs_multi_level_tiling(sch, block):
        return points < steps and points <= most
    return steps > 1


def fuse_reduction_loops(sch: Schedule, block: BlockRV) -> tuple[LoopRV, int]:
    """Moves the reduction loops of a block inside of its spatial ones, and fuses them. Returns the fused loop and the number of spatial
    loops. Raises ScheduleError where a step is refused."""
    loops = list(zip(sch.get_loops(block), loop_kinds(sch, block), strict=True))
    spatial = [loop for loop, kind in loops if kind == "S"]
    steps = [loop for loop, kind in loops if kind == "R"]
    if loops[: len(spatial)] != [(loop, "S") for loop in spatial]:
        sch.reorder(*spatial, *steps)
    return (sch.fuse(*steps) if len(steps) > 1 else steps[0]), len(spatial)


def root_blocks(sch: Schedule) -> list[BlockRV]:
    """The root block of each function. Blocks that a function of several of the same name has are refused by the primitive."""
    return [sch.get_block(ref.stmt.name_hint, gvar.name_hint) for gvar, ref in sch.state.roots.items()]


def is_bound(loop: For, prefix: str = "") -> bool:
    """Whether a loop is bound to a thread axis whose name begins so."""
    if loop.kind != ForKind.THREAD_BINDING or loop.thread_binding is None:
        return False
    return str(loop.thread_binding.thread_tag).startswith(prefix)


def _is_one(extent: Any) -> bool:
    return isinstance(extent, IntImm) and extent.value == 1
