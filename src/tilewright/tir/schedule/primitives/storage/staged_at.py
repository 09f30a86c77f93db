"""read_at and write_at: stage the part of a buffer that one iteration of a loop uses, by one copying block."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tilewright.ir import IntImm
from tilewright.tir import Buffer, IfThenElse
from tilewright.tir.schedule.arguments import read_number_below, write_number_below
from tilewright.tir.schedule.facts.leaves import leaves, loops_above
from tilewright.tir.schedule.primitives.computation.attach import move_consumer, move_producer
from tilewright.tir.schedule.primitives.computation.blocks import blockize_loop
from tilewright.tir.schedule.primitives.rewrite import ReplaceStmts
from tilewright.tir.schedule.primitives.storage.cache import cache_read, cache_write
from tilewright.tir.schedule.state import ScheduleState, StmtSRef
from tilewright.tir.schedule.trace import BlockRV, LoopRV, recorded_as
from tilewright.tir.stmt_functor import substitute

if TYPE_CHECKING:
    from tilewright.tir.schedule.schedule import Schedule


@recorded_as(read_number_below)
def read_at(
    s: Schedule, loop: LoopRV, block: BlockRV | str, read_buffer_index: int | str | Buffer, storage_scope: str
) -> BlockRV:
    """for i: for j: C[i, j] = f(A[i, j])   -->   for i: {A_shared[i, :] = A[i, :];  for j: C[i, j] = f(A_shared[i, j])}

    The copy is one block with loops inside, annotated "auto_copy". `tir.transform.LowerAutoCopy` distributes it over
    the threads around it. Returns that block.
    """
    copy = _plain(cache_read)(s, block, read_buffer_index, storage_scope, [block])
    move_producer(s.state, s.block(copy), s.loop(loop), False, -1)
    return s.block_rv(_as_one(s.state, s.block(copy), s.loop(loop)))


@recorded_as(write_number_below)
def write_at(
    s: Schedule, loop: LoopRV, block: BlockRV | str, write_buffer_index: int | str | Buffer, storage_scope: str
) -> BlockRV:
    """for i: for j: C[i, j] = f   -->   for i: {for j: C_shared[i, j] = f;  C[i, :] = C_shared[i, :]}

    The copy is one block with loops inside, annotated as for `read_at`. Returns that block.
    """
    copy = _plain(cache_write)(s, block, write_buffer_index, storage_scope)
    move_consumer(s.state, s.block(copy), s.loop(loop), False, -1)
    return s.block_rv(_as_one(s.state, s.block(copy), s.loop(loop)))


def _plain(method: Any) -> Any:
    """The function of a primitive. Calls of it are not recorded."""
    return method.__wrapped__


def _as_one(state: ScheduleState, copy: StmtSRef, loop: StmtSRef) -> StmtSRef:
    """Make one block of the copying block's loops below `loop`."""
    inner = [r for r in loops_above(copy) if r not in (*loops_above(loop), loop)]
    name = copy.stmt.name_hint
    whole = blockize_loop(state, inner[0]) if inner else copy
    block = whole.stmt
    body = block.body
    if inner:
        (leaf,) = leaves(body)
        env = {iv.var: v for iv, v in zip(leaf.block.iter_vars, leaf.realize.iter_values, strict=True)}
        store = substitute(leaf.block.body, env)
        predicate = leaf.realize.predicate
        if not isinstance(predicate, IntImm):
            store = IfThenElse(predicate, store)
        body = ReplaceStmts({id(leaf.realize): store}).run(body)
    notes = {**block.annotations, "auto_copy": IntImm("int32", 1)}
    state.replace(whole, block.replace(body=body, name_hint=name, annotations=notes))
    return whole
