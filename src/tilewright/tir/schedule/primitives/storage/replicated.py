"""replicate: several equal copies of each element, so that each of the threads that need it has one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tilewright.ir import IntImm, Range
from tilewright.tir import Block, Buffer, BufferLoad, BufferRegion, BufferStore, For, ForKind, IterVar, PrimExpr, Var
from tilewright.tir.schedule.arguments import map_of_one
from tilewright.tir.schedule.errors import refuse
from tilewright.tir.schedule.facts.block_checks import need_simple_iters
from tilewright.tir.schedule.facts.leaves import DATA_PAR, scope_leaves, scope_root
from tilewright.tir.schedule.primitives.rewrite import ReplaceStmts, RewriteAccesses, fresh_buffer
from tilewright.tir.schedule.trace import BlockRV, recorded_as
from tilewright.tir.stmt_functor import substitute

if TYPE_CHECKING:
    from tilewright.tir.schedule.schedule import Schedule


@recorded_as(map_of_one)
def replicate(s: Schedule, blocks: list[BlockRV], copies: int, number: Any) -> None:
    """for i: M[i] = f;  for i: for j: C[i, j] uses M[i]
           -->   for i: for q in 4: M[i, q] = f;  for i: for j: C[i, j] uses M[i, number(j)]

    All buffers that the blocks write get one more dimension, of `copies` equal elements, and the blocks one more loop inside. They must
    be all that writes these buffers. number: which copy other blocks read, by their last spatial variable. Where threads share a
    row, each thus has what belongs to it.
    """
    state = s.state
    refs = [s.block(b) for b in blocks]
    if not refs:
        refuse("at least one block is needed")
    if copies < 1:
        refuse(f"the number of copies must be positive, but is {copies}")
    scope = scope_root(refs[0])
    made: dict[Buffer, Buffer] = {}
    for ref in refs:
        if scope_root(ref) is not scope:
            refuse("{0} and {1} must be in one block", refs[0].stmt, ref.stmt)
        need_simple_iters(ref.stmt)
        for region in ref.stmt.writes:
            buffer = region.buffer
            if buffer not in scope.stmt.alloc_buffers:
                refuse("{0} must write only buffers of its scope, but {1} is an output of it", ref.stmt, buffer)
            if buffer not in made:
                made[buffer] = fresh_buffer(buffer, shape=(*buffer.shape, IntImm(buffer.shape[-1].dtype, copies)))
    named = {id(ref.stmt) for ref in refs}
    changes: dict[int, Any] = {}
    reuse: dict[Any, Any] = {}
    for leaf in scope_leaves(refs[0]):
        block = leaf.block
        if not {r.buffer for r in (*block.reads, *block.writes)} & made.keys():
            continue
        if id(block) in named:
            q, own = Var("q", "int32"), Var("v_q", "int32")
            domain = Range.from_min_extent(0, copies)
            new = _with_copies(block, made, own)
            new = new.replace(iter_vars=(*block.iter_vars, IterVar(domain, own, DATA_PAR)))
            state.note_range(own, domain.min, domain.extent)
            realize = leaf.realize.replace(block=new, iter_values=(*leaf.realize.iter_values, q))
            state.note_range(q, domain.min, domain.extent)
            changes[id(leaf.realize)] = For(q, domain.min, domain.extent, ForKind.SERIAL, realize)
        else:
            for region in block.writes:
                if region.buffer in made:
                    refuse("{0} writes {1}, too, and must be among the blocks", block, region.buffer)
            spatial = [iv.var for iv in block.iter_vars if iv.iter_type == DATA_PAR]
            at: Any = IntImm("int32", 0)
            if spatial:
                at = substitute(number.final_indices[0], {number.initial_indices[0]: spatial[-1]})
            new = _with_copies(block, made, state.forms.simplify(at))
            changes[id(leaf.realize)] = leaf.realize.replace(block=new)
        reuse[block] = new
    body = ReplaceStmts(changes).run(scope.stmt.body)
    allocs = tuple([made.get(b, b) for b in scope.stmt.alloc_buffers])
    state.replace(scope, scope.stmt.replace(body=body, alloc_buffers=allocs), reuse)


def _with_copies(block: Block, made: dict[Buffer, Buffer], copy: PrimExpr) -> Block:
    """A block that accesses one copy of buffers that have several."""
    for old, new in made.items():

        def load(e: BufferLoad, new: Buffer = new) -> BufferLoad:
            return BufferLoad(new, (*e.indices, copy))

        def store(x: BufferStore, new: Buffer = new) -> BufferStore:
            return BufferStore(new, x.value, (*x.indices, copy))

        def region(r: BufferRegion, new: Buffer = new) -> BufferRegion:
            return BufferRegion(new, (*r.region, Range.from_min_extent(copy, 1)))

        block = RewriteAccesses(old, load, store, region).visit(block)
    return block


__all__ = ["replicate"]
