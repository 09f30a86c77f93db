"""Primitives on reductions: decompose_reduction and rfactor."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tilewright.ir import IntImm
from tilewright.tir import Block, BlockRealize, BufferLoad, BufferStore, For, ForKind, IterVar, Var, decl_buffer
from tilewright.tir.schedule.analysis import (
    DATA_PAR,
    REDUCE,
    Leaf,
    binding_of,
    conjunction,
    conjuncts,
    leaf_of,
    leaves,
    loops_above,
    need_complete_or_reduction,
    need_whole_reduction,
    scope_root,
)
from tilewright.tir.schedule.copies import copy_iters
from tilewright.tir.schedule.effects import need_order_free
from tilewright.tir.schedule.errors import refuse
from tilewright.tir.schedule.loops import reaches_once
from tilewright.tir.schedule.regions import access_regions
from tilewright.tir.schedule.rewrite import ReplaceStmts, body_list, vars_in
from tilewright.tir.schedule.state import ScheduleState, seq_of
from tilewright.tir.schedule.trace import BlockRV, LoopRV, primitive
from tilewright.tir.stmt_functor import substitute

if TYPE_CHECKING:
    from tilewright.tir.schedule.schedule import Schedule


@primitive
def decompose_reduction(s: Schedule, block: BlockRV | str, loop: LoopRV) -> BlockRV:
    """for i: for k: C[i] init 0, += A[i, k]   -->   for i: {C_init[i] = 0;  for k: C_update[i] += A[i, k]}

    The initialisation runs right before `loop`, over the spatial loops from there inwards; its block is returned.
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
    need_order_free(state, old)
    need_whole_reduction(binding, leaf)
    spatial = [iv for iv in old.iter_vars if iv.iter_type == DATA_PAR]
    iters, env = copy_iters(spatial, "_init")
    inside = [r.stmt for r in above[at:]]
    _need_single_visits(state, leaf, at)
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
            lp.kind if threaded else ForKind.SERIAL, nest, lp.thread_binding if threaded else None,
        )  # fmt: skip
    own = {r.buffer for r in old.writes} - {r.buffer for r in old.reads}
    reads = (*[w for w in old.writes if w.buffer in own], *old.reads)
    update = old.replace(init=None, reads=reads, name_hint=old.name_hint + "_update")
    new_loop = _with_leaf(loop_ref.stmt, leaf.realize, leaf.realize.replace(block=update))
    parent = loop_ref.parent
    assert parent is not None
    changed = ReplaceStmts({id(loop_ref.stmt): seq_of([nest, new_loop])}).run(parent.stmt.body)
    state.replace(parent, parent.stmt.replace(body=changed), {old: update})
    return s.block_rv(state.ref(init_block))


def _need_single_visits(state: ScheduleState, leaf: Leaf, at: int) -> None:
    """The loops from number `at` inwards reach each point once, so that one initialisation before them is right."""
    once, reason = reaches_once(state, leaf, at)
    if not once:
        refuse(
            f"the loops of {{0}} from {{1}} inwards must reach each of its points once, but {reason}",
            leaf.block,
            leaf.loops[at],
        )


def _init_annotations(annotations: Any) -> dict[str, Any]:
    return {k: v for k, v in annotations.items() if not k.startswith("meta_schedule.")}


def _with_leaf(loop: Any, realize: Any, new: Any) -> Any:
    return ReplaceStmts({id(realize): new}).run(loop)


@primitive
def rfactor(s: Schedule, loop: LoopRV, factor_axis: int) -> BlockRV:
    """for k in n: C[] += A[k]   -->   for k in n: C_rf[k] = A[k];  for k in n: C[] += C_rf[k]

    With the loop k split, each `k_outer` (the loop given) gets a partial sum of its own in a buffer with one more
    dimension, at `factor_axis`; the block that computes it is returned, and the old block adds the partial sums.
    """
    state = s.state
    loop_ref = s.loop(loop)
    found = leaves(loop_ref.stmt.body)
    scope = scope_root(loop_ref)
    if len(found) != 1:
        refuse("{0} must hold exactly one block", loop_ref.stmt)
    old = found[0].block
    ref = state.ref(old)
    need_complete_or_reduction(state, ref)
    if old.init is None:
        refuse("{0} must be a reduction with an initialisation", old)
    leaf = leaf_of(ref)
    binding = binding_of(state, leaf)
    if not binding.covers:
        refuse(f"{{0}} must visit each of its points exactly once, but {binding.reason}", old)
    if conjuncts(leaf.realize.predicate):
        refuse("{0} must have no predicate", old)
    loop_var = loop_ref.stmt.loop_var
    if binding.uses.get(loop_var) != {REDUCE}:
        refuse("{0} must be a reduction loop of {1}", loop_ref.stmt, old)
    combiner = reducer_of(old)
    top = leaf.loops[0]
    top_ref = state.ref(top)
    if len(leaves(top)) != 1:
        refuse("{0} must hold no other block than {1}", top, old)
    update, target = old.body, old.body.buffer
    rank = len(target.shape)
    axis = factor_axis if factor_axis >= 0 else factor_axis + rank + 1
    if not 0 <= axis <= rank:
        refuse(f"factor_axis must be from {-rank - 1} to {rank} for {{0}}, but is {factor_axis}", target)
    partial = decl_buffer(
        [*target.shape[:axis], loop_ref.stmt.extent, *target.shape[axis:]],
        target.dtype,
        f"{target.name}_rf",
        scope=target.scope(),
    )
    # The partial block: the loops as they are, one new spatial variable for the loop, and the reduction loops left.
    iters: list[Any] = []
    values: list[Any] = []
    env: dict[Any, Any] = {}
    factor_var = Var(f"v{loop_var.name}", loop_var.dtype)
    factor_iter = IterVar((0, loop_ref.stmt.extent), factor_var, DATA_PAR)
    loop_iters: dict[Any, Any] = {loop_var: factor_var}
    for lp in leaf.loops:
        if lp.loop_var is not loop_var and REDUCE in binding.uses.get(lp.loop_var, ()):
            if binding.uses[lp.loop_var] != {REDUCE}:
                refuse("{0} must drive only reduction variables of {1}", lp, old)
            loop_iters[lp.loop_var] = Var(f"v{lp.loop_var.name}", lp.loop_var.dtype)
    for iv, value in zip(old.iter_vars, leaf.realize.iter_values, strict=True):
        if iv.iter_type == DATA_PAR:
            var = Var(iv.var.name, iv.var.dtype)
            iters.append(IterVar(iv.dom, var, DATA_PAR))
            values.append(value)
            env[iv.var] = var
        else:
            env[iv.var] = substitute(value, loop_iters)
    iters.insert(0, factor_iter)
    values.insert(0, loop_var)
    for lp in leaf.loops:
        if lp.loop_var in loop_iters and lp.loop_var is not loop_var:
            iters.append(IterVar((0, lp.extent), loop_iters[lp.loop_var], REDUCE))
            values.append(lp.loop_var)
    for iv in iters:
        state.note_range(iv.var, iv.dom.min, iv.dom.extent)
    spatial_index = [substitute(i, env) for i in update.indices]
    index = [*spatial_index[:axis], factor_var, *spatial_index[axis:]]
    own_load = BufferLoad(partial, tuple(index))
    incoming = substitute(combiner.incoming, env)
    body = BufferStore(partial, combiner.combine(own_load, incoming), tuple(index))
    init = BufferStore(partial, combiner.identity, tuple(index))
    reads, writes = access_regions(state, body)
    reads = tuple([r for r in reads if r.buffer is not partial])
    rf_block = Block(tuple(iters), reads, writes, old.name_hint + "_rf", body, init)
    rf_realize = BlockRealize(tuple(values), IntImm("bool", 1), rf_block)
    rf_nest = ReplaceStmts({id(leaf.realize): rf_realize}).run(top)
    # The final block: spatial loops and the factored loop only.
    final_env: dict[Any, Any] = {}
    final_iters: list[Any] = []
    final_values: list[Any] = []
    loop_copy: dict[Any, Any] = {}
    final_loops: list[Any] = []
    for lp in leaf.loops:
        if lp.loop_var is loop_var or DATA_PAR in binding.uses.get(lp.loop_var, ()):
            loop_copy[lp.loop_var] = Var(lp.loop_var.name, lp.loop_var.dtype)
            state.note_range(loop_copy[lp.loop_var], lp.min, lp.extent)
            final_loops.append(lp)
    reduce_var = Var(f"v{loop_var.name}", loop_var.dtype)
    final_iters.append(IterVar((0, loop_ref.stmt.extent), reduce_var, REDUCE))
    final_values.append(loop_copy[loop_var])
    for iv, value in zip(old.iter_vars, leaf.realize.iter_values, strict=True):
        if iv.iter_type == DATA_PAR:
            var = Var(iv.var.name, iv.var.dtype)
            final_env[iv.var] = var
            final_iters.append(IterVar(iv.dom, var, DATA_PAR))
            final_values.append(substitute(value, loop_copy))
    for iv in final_iters:
        state.note_range(iv.var, iv.dom.min, iv.dom.extent)
    at = tuple([substitute(i, final_env) for i in update.indices])
    partial_load = BufferLoad(partial, (*at[:axis], reduce_var, *at[axis:]))
    final_body = BufferStore(target, combiner.combine(BufferLoad(target, at), partial_load), at)
    final_reads, final_writes = access_regions(state, final_body)
    final_block = Block(
        tuple(final_iters), tuple([r for r in final_reads if r.buffer is not target]), final_writes, old.name_hint, final_body,
        substitute(old.init, final_env), (), (), old.annotations,
    )  # fmt: skip
    nest: Any = BlockRealize(tuple(final_values), IntImm("bool", 1), final_block)
    for lp in reversed(final_loops):
        keep = lp.kind == ForKind.THREAD_BINDING
        nest = For(
            loop_copy[lp.loop_var],
            lp.min,
            lp.extent,
            lp.kind if keep else ForKind.SERIAL,
            nest,
            lp.thread_binding if keep else None,
        )
    parent = top_ref.parent
    assert parent is not None and parent is scope
    body_new = ReplaceStmts({id(top): seq_of([rf_nest, nest])}).run(scope.stmt.body)
    new_scope = scope.stmt.replace(body=body_new, alloc_buffers=(*scope.stmt.alloc_buffers, partial))
    state.replace(scope, new_scope, {old: final_block})
    return s.block_rv(state.ref(rf_block))


class Combiner:
    """An associative, commutative update `C = op(C, x)`: how to combine, the identity, and what comes in."""

    def __init__(self, node: Any, identity: Any, incoming: Any) -> None:
        self.node, self.identity, self.incoming = node, identity, incoming

    def combine(self, a: Any, b: Any) -> Any:
        return self.node(a, b)


def reducer_of(block: Any) -> Combiner:
    """The reduction that a block computes; refused when it is no sum, product, minimum or maximum of one buffer."""
    from tilewright.node import structural_equal
    from tilewright.tir import Add, Max, Min, Mul

    store, init = block.body, block.init
    if len(body_list(store)) != 1 or not isinstance(store, BufferStore) or not isinstance(init, BufferStore):
        refuse("{0} must update one buffer by one store", block)
    value: Any = store.value
    own = BufferLoad(store.buffer, store.indices)
    found: list[Combiner] = []
    for node in (Add, Mul, Min, Max):
        if type(value) is node:
            for mine, other in ((value.a, value.b), (value.b, value.a)):
                if structural_equal(mine, own) and not _loads(other, store.buffer):
                    found.append(Combiner(node, init.value, other))
    if not found:
        refuse("{0} must be a sum, product, minimum or maximum into the element that it loads", block)
    return found[0]


def _loads(e: Any, buffer: Any) -> bool:
    found: list[Any] = []
    from tilewright.node import post_order_visit

    post_order_visit(e, lambda x: found.append(x) if isinstance(x, BufferLoad) and x.buffer is buffer else None)
    return bool(found)
