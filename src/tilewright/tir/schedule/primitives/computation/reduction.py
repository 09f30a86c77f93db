"""decompose_reduction: moves the initialisation of a reduction into a block of its own."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tilewright.tir import Block, BlockRealize, For, ForKind, Var
from tilewright.tir.schedule.errors import refuse
from tilewright.tir.schedule.facts.binding import binding_of
from tilewright.tir.schedule.facts.block_checks import need_simple_iters, need_whole_reduction
from tilewright.tir.schedule.facts.hazards import takes_only_from
from tilewright.tir.schedule.facts.leaves import (
    DATA_PAR,
    REDUCE,
    Leaf,
    conjunction,
    conjuncts,
    leaf_of,
    leaves,
    loops_above,
)
from tilewright.tir.schedule.facts.point_effects import need_order_free
from tilewright.tir.schedule.facts.regions import access_regions
from tilewright.tir.schedule.primitives.copies import copy_iters, renewed_thread
from tilewright.tir.schedule.primitives.loop_nests.loops import reaches_once
from tilewright.tir.schedule.primitives.rewrite import ReplaceStmts, vars_in
from tilewright.tir.schedule.state import ScheduleState, seq_of
from tilewright.tir.schedule.trace import BlockRV, LoopRV, primitive
from tilewright.tir.stmt_functor import substitute

if TYPE_CHECKING:
    from tilewright.tir.schedule.schedule import Schedule
    from tilewright.tir.stmt import Stmt


@primitive
def decompose_reduction(s: Schedule, block: BlockRV | str, loop: LoopRV) -> BlockRV:
    """for i: for k: C[i] init 0, += A[i, k]   -->   for i: {C_init[i] = 0;  for k: C_update[i] += A[i, k]}

    The initialisation runs right before `loop`, over copies of the spatial loops from `loop` inwards. Returns its
    block.
    """
    state = s.state
    ref, loop_ref = s.block(block), s.loop(loop)
    old = ref.stmt
    if old.init is None:
        refuse("{0} must be a reduction with an initialisation, but has none", old)
    above = loops_above(ref)
    if loop_ref not in above:
        refuse("{0} must be around {1}", loop_ref.stmt, old)
    leaf = leaf_of(ref)
    binding = binding_of(state, leaf)
    at = above.index(loop_ref)
    for r in above[:at]:
        if REDUCE in binding.uses.get(r.stmt.loop_var, ()):
            refuse(
                "{0} must be outside all reduction loops of {1}, but {2} around it is one", loop_ref.stmt, old, r.stmt
            )
    need_simple_iters(old)
    need_order_free(state, old)
    need_whole_reduction(binding, leaf, first_is_enough=True)
    need_single_visits(state, leaf, at)
    _need_no_earlier_use(state, loop_ref.stmt, old)
    nest, init_block = initial_nest(state, leaf, at)
    own = {r.buffer for r in old.writes} - {r.buffer for r in old.reads}
    reads = (*[w for w in old.writes if w.buffer in own], *old.reads)
    update = old.replace(init=None, reads=reads, name_hint=old.name_hint + "_update")
    new_loop = _with_leaf(loop_ref.stmt, leaf.realize, leaf.realize.replace(block=update))
    parent = loop_ref.parent
    assert parent is not None
    changed = ReplaceStmts({id(loop_ref.stmt): seq_of([nest, new_loop])}).run(parent.stmt.body)
    state.replace(parent, parent.stmt.replace(body=changed), {old: update})
    return s.block_rv(state.ref(init_block))


def initial_nest(state: ScheduleState, leaf: Leaf, at: int) -> tuple[Any, Block]:
    """The initialisation of a reduction as a block of its own, in copies of its spatial loops from number `at` inwards."""
    old, binding = leaf.block, binding_of(state, leaf)
    spatial = [iv for iv in old.iter_vars if iv.iter_type == DATA_PAR]
    iters, env = copy_iters(spatial, "_init")
    inside = leaf.loops[at:]
    copied: list[Any] = []
    loop_env: dict[Any, Any] = {}
    for lp in inside:
        kinds = binding.uses.get(lp.loop_var, set())
        if DATA_PAR not in kinds:
            continue
        if REDUCE in kinds:
            refuse("{0} must not drive spatial and reduction variables of {1} at once", lp, old)
        loop_env[lp.loop_var] = Var(lp.loop_var.name + "_init", lp.loop_var.dtype)
        copied.append(lp)
    dropped = {lp.loop_var for lp in inside} - loop_env.keys()
    values = tuple(
        [
            substitute(v, loop_env)
            for iv, v in zip(old.iter_vars, leaf.realize.iter_values, strict=True)
            if iv.iter_type == DATA_PAR
        ]
    )
    kept = [c for c in conjuncts(leaf.realize.predicate) if dropped.isdisjoint(vars_in(c))]
    for var, lp in [(loop_env[lp.loop_var], lp) for lp in copied]:
        state.note_range(var, lp.min, lp.extent)
    body = substitute(old.init, env)
    _, writes = access_regions(state, body)
    init_block = Block(
        iters, (), writes, old.name_hint + "_init", body, None, (), (), _init_annotations(old.annotations)
    )
    nest: Any = BlockRealize(values, conjunction([substitute(c, loop_env) for c in kept]), init_block)
    for lp in reversed(copied):
        threaded = lp.kind == ForKind.THREAD_BINDING
        nest = For(
            loop_env[lp.loop_var], substitute(lp.min, loop_env), substitute(lp.extent, loop_env),
            lp.kind if threaded else ForKind.SERIAL, nest,
            renewed_thread(lp.thread_binding) if threaded else None, span=lp.span,
        )  # fmt: skip
    return nest, init_block


def need_single_visits(state: ScheduleState, leaf: Leaf, at: int) -> None:
    """Require that the loops from number `at` inwards reach each point once, so that one initialisation before them is
    right.
    """
    once, reason = reaches_once(state, leaf, at)
    if not once:
        refuse(
            f"the loops of {{0}} from {{1}} inwards must reach each of its points once, but {reason}",
            leaf.block,
            leaf.loops[at],
        )


def _need_no_earlier_use(state: ScheduleState, loop: For, block: Block) -> None:
    """Require that nothing below the loop uses an element before its initialisation. It would read the initial value."""
    found = leaves(loop.body)
    at = next(i for i, x in enumerate(found) if x.block is block)
    for i, x in enumerate(found):
        for buffer in {r.buffer for r in block.writes} & {r.buffer for r in (*x.block.reads, *x.block.writes)}:
            if i < at or (i > at and not takes_only_from(state, x, found[at], buffer)):
                refuse(
                    f"in {{0}}, {{1}} must use of {buffer.name} only what {{2}} has computed in the same iteration, but"
                    " may use what is initialised in another one",
                    loop, x.block, block,
                )  # fmt: skip


def _init_annotations(annotations: dict[str, int]) -> dict[str, int]:
    return {k: v for k, v in annotations.items() if not k.startswith("meta_schedule.")}


def _with_leaf(loop: For, realize: Stmt, new: Stmt) -> Any:
    return ReplaceStmts({id(realize): new}).run(loop)
