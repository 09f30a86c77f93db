"""The post-processor that stores weights in the order in which they are read."""

from __future__ import annotations

from typing import NamedTuple

from tilewright.ir import GlobalVar
from tilewright.meta_schedule.blocks import only_store
from tilewright.meta_schedule.postproc.postproc import Postproc
from tilewright.node import nodes_of
from tilewright.tir import Block, Buffer, BufferLoad, PrimExpr
from tilewright.tir.schedule import Schedule
from tilewright.tir.schedule.analysis import suggest_index_map
from tilewright.tir.schedule.facts.leaves import Leaf, leaves
from tilewright.tir.stmt_functor import substitute
from tilewright.tir.transform.function.modules import PREPROC

FREE, PLACEHOLDERS = "layout_free_buffers", "layout_free_placeholders"
"""The attribute of functions with the numbers of parameters whose layouts are free; the annotation of blocks with such constants."""


class RewriteLayout(Postproc):
    """Gives buffers whose layouts are free the one that `suggest_index_map` finds for the loops that read them.

    The block that reads a buffer gets a copy in the new layout. The block that makes the copy is annotated
    "meta_schedule.layout_rewrite_preproc": the pass RemoveWeightLayoutRewriteBlock removes it, for weights that are passed in their new
    layout, and for constants; measurements do not count it. Left as they are: buffers that are read at several places, or by
    instructions, or for which there is no better layout.
    """

    def apply(self, sch: Schedule) -> bool:
        for gvar in list(sch.state.roots):
            for buffer in _free(sch, gvar):
                sch.attempt(lambda s, gvar=gvar, buffer=buffer: _rewrite(s, gvar, buffer))  # type: ignore[misc]
        return True


class _Reader(NamedTuple):
    """A block that reads a buffer at one place. chain: the blocks that copy the buffer before, and the number of the buffer that each reads
    among those it reads; the block itself is the last. loops: those around all of it, outermost first."""

    leaf: Leaf
    indices: tuple[PrimExpr, ...]
    chain: tuple[tuple[str, int], ...]


def _free(sch: Schedule, gvar: GlobalVar) -> list[Buffer]:
    """The buffers of a function whose layouts are free."""
    func = sch.state.function(gvar)
    found = [func.buffer_map[func.params[int(n)]] for n in func.attrs.get(FREE, ())]
    for block in nodes_of(func.body, Block):
        found += [b for b in block.annotations.get(PLACEHOLDERS, ()) if isinstance(b, Buffer)]
    return list(dict.fromkeys(found))


def _rewrite(sch: Schedule, gvar: GlobalVar, buffer: Buffer) -> None:
    """Rewrites the layout of a buffer, if there is a better one. Raises ScheduleError where a step is refused."""
    reader = _reader(sch, gvar, buffer)
    if reader is None:
        return
    leaf = reader.leaf
    bound = {iv.var: value for iv, value in zip(leaf.block.iter_vars, leaf.realize.iter_values, strict=True)}
    indices = [substitute(i, bound) for i in reader.indices]
    layout = suggest_index_map(buffer, indices, leaf.loops, leaf.realize.predicate)
    if layout is None or all([a is b for a, b in zip(layout.initial_indices, layout.final_indices, strict=False)]):
        return
    first, number = reader.chain[0]
    copy = sch.cache_read(sch.get_block(first, gvar.name_hint), number, "global")
    sch.annotate(copy, PREPROC, True)
    for name, number in reader.chain:
        sch.transform_layout(sch.get_block(name, gvar.name_hint), ("read", number), layout)


def _reader(sch: Schedule, gvar: GlobalVar, buffer: Buffer) -> _Reader | None:
    """The only block that reads a buffer, or a copy of it, and computes something with it; None unless there is one."""
    chain: list[tuple[str, int]] = []
    while True:
        found = [
            leaf for leaf in _all(sch.state.roots[gvar].stmt) if any([r.buffer is buffer for r in leaf.block.reads])
        ]
        if len(found) != 1 or found[0].conditional:
            return None
        (leaf,) = found
        loads = [x for x in nodes_of(leaf.block, BufferLoad) if x.buffer is buffer]
        if nodes_of(leaf.block.body, Block) or leaf.block.match_buffers or len(loads) != 1:
            return None
        number = next(i for i, r in enumerate(leaf.block.reads) if r.buffer is buffer)
        chain.append((leaf.block.name_hint, number))
        store = only_store(leaf.block)
        if store is None:
            return None
        copied = store.buffer in sch.state.roots[gvar].stmt.alloc_buffers and store.value is loads[0]
        if not copied or tuple(store.indices) != tuple(loads[0].indices):
            return _Reader(leaf, tuple(loads[0].indices), tuple(chain))
        buffer = store.buffer


def _all(block: Block) -> list[Leaf]:
    """The blocks at and below a block, each with all loops around it below this one."""
    found = []
    for leaf in leaves(block.body):
        found.append(leaf)
        found += [Leaf(x.realize, (*leaf.loops, *x.loops), leaf.conditional or x.conditional) for x in _all(leaf.block)]
    return found
