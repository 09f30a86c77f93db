"""Checks of blocks for primitives: their computation, and the order in which they run."""

from __future__ import annotations

from typing import Any

from tilewright.arith import Analyzer
from tilewright.ir import PrimExpr, Range
from tilewright.tir import Block, Buffer, Var
from tilewright.tir.schedule.errors import refuse
from tilewright.tir.schedule.facts.binding import Binding, binding_of
from tilewright.tir.schedule.facts.leaves import DATA_PAR, REDUCE, Leaf, conjuncts, int_extent, leaf_of, scope_leaves
from tilewright.tir.schedule.facts.linear_forms import Forms
from tilewright.tir.schedule.facts.point_effects import need_order_free
from tilewright.tir.schedule.state import ScheduleState, StmtSRef
from tilewright.tir.stmt_functor import substitute, used_vars

# ---- computation


def written_buffers(block: Block) -> list[Buffer]:
    return [r.buffer for r in block.writes]


def is_update(block: Block) -> bool:
    """Whether the block reads what it writes: a reduction, or the update half of one."""
    own = {r.buffer for r in block.writes}
    return any([r.buffer in own for r in block.reads]) or block.init is not None


def need_simple_iters(block: Block, allow_reduce: bool = True) -> None:
    for iv in block.iter_vars:
        if iv.iter_type != DATA_PAR and not (allow_reduce and iv.iter_type == REDUCE):
            kinds = {DATA_PAR: "data parallel", REDUCE: "reduction"}
            wanted = "data parallel or reduction" if allow_reduce else "data parallel"
            refuse(
                f"the iteration variables of {{0}} must be {wanted}, but {iv.var.name} is {kinds.get(iv.iter_type, 'ordered or opaque')}",
                block,
            )


def need_complete(state: ScheduleState, ref: StmtSRef) -> None:
    """Require a complete block: data parallel, the only writer of its outputs in the scope, and not a reader of them."""
    block = ref.stmt
    need_simple_iters(block, allow_reduce=False)
    if is_update(block):
        refuse("{0} must be a complete block, but it reads what it writes", block)
    need_order_free(state, block)
    need_only_writer(state, ref)


def need_only_writer(state: ScheduleState, ref: StmtSRef) -> None:
    block = ref.stmt
    for leaf in scope_leaves(ref):
        if leaf.block is not block:
            for b in written_buffers(leaf.block):
                if b in written_buffers(block):
                    refuse("{0} must be the only writer of {1}, but {2} writes it too", block, b, leaf.block)


def need_complete_or_reduction(state: ScheduleState, ref: StmtSRef) -> None:
    block = ref.stmt
    need_simple_iters(block)
    if is_update(block):
        if block.init is None:
            refuse("{0} must hold its own initialisation, but it reads what it writes and has no init", block)
        need_reduction_writes(state.forms, block)
        leaf = leaf_of(ref)
        need_whole_reduction(binding_of(state, leaf), leaf)
    elif any([iv.iter_type == REDUCE for iv in block.iter_vars]):
        refuse("{0} has reduction variables but does not read what it writes", block)
    need_order_free(state, block)
    need_only_writer(state, ref)


def need_whole_reduction(binding: Binding, leaf: Leaf, first_is_enough: bool = False) -> None:
    """Require that the reduction visits its whole domain, including the first point, at which the block initialises.

    first_is_enough: a predicate may leave out steps, but not the first one of any point of the output.
    """
    for iv in leaf.block.iter_vars:
        if iv.iter_type == REDUCE and iv.var in binding.gaps:
            refuse(f"{{0}} must visit the whole domain of {iv.var.name}, but {binding.reason}", leaf.block)
    if binding.predicated:
        reduce_loops = {lp.loop_var for lp in leaf.loops if REDUCE in binding.uses.get(lp.loop_var, ())}
        for c in conjuncts(leaf.realize.predicate):
            if not reduce_loops.isdisjoint(used_vars(c)) and not (
                first_is_enough and _holds_at_first(c, leaf, reduce_loops)
            ):
                refuse(f"the predicate {c} of {{0}} must not leave out steps of the reduction", leaf.block)
        if leaf.conditional:
            refuse("{0} must not be under a condition", leaf.block)
    for lp in leaf.loops:
        if len(binding.uses.get(lp.loop_var, ())) > 1 and int_extent(lp) != 1:
            refuse("{0} must not drive spatial and reduction variables of {1} at once", lp, leaf.block)


def _holds_at_first(condition: PrimExpr, leaf: Leaf, reduce_loops: set[Var]) -> bool:
    """Whether a condition holds in the first step of the reduction, for all values of the other loops."""
    analyzer = Analyzer()
    for lp in leaf.loops:
        analyzer.bind(lp.loop_var, Range.from_min_extent(lp.min, lp.extent))
    starts = {lp.loop_var: lp.min for lp in leaf.loops if lp.loop_var in reduce_loops}
    return bool(analyzer.can_prove(substitute(condition, starts)))


def need_reduction_writes(forms: Forms, block: Block) -> None:
    reduce = {iv.var for iv in block.iter_vars if iv.iter_type == REDUCE}
    for region in block.writes:
        for r in region.region:
            if forms.leaves(forms.of(r.min)) & reduce:
                refuse("the outputs of {0} must not be indexed by its reduction variables", block)


# ---- order


def producers(ref: StmtSRef) -> list[Leaf]:
    """Blocks of the scope before `ref`, in program order, that write what it reads."""
    out: list[Leaf] = []
    wanted = {r.buffer for r in ref.stmt.reads} - {r.buffer for r in ref.stmt.writes}
    for leaf in scope_leaves(ref):
        if leaf.block is ref.stmt:
            break
        if any([b in wanted for b in written_buffers(leaf.block)]):
            out.append(leaf)
    return out


def consumers(ref: StmtSRef) -> list[Leaf]:
    """Blocks of the scope after `ref`, in program order, that read what it writes."""
    own = set(written_buffers(ref.stmt))
    out: list[Leaf] = []
    seen = False
    for leaf in scope_leaves(ref):
        if leaf.block is ref.stmt:
            seen = True
        elif seen and any([r.buffer in own for r in leaf.block.reads]):
            out.append(leaf)
    return out


def conflict(a: Any, b: Block) -> bool:
    """Whether two blocks access a common buffer that one of them writes."""
    wa, wb = {r.buffer for r in a.writes}, {r.buffer for r in b.writes}
    return bool(wa & wb) or any([r.buffer in wa for r in b.reads]) or any([r.buffer in wb for r in a.reads])


def alloc_site(ref: StmtSRef, buffer: Buffer) -> StmtSRef | None:
    """The block around `ref` that allocates the buffer; None for a parameter of the function."""
    for up in (ref, *ref.ancestors()):
        if type(up.stmt) is Block and buffer in up.stmt.alloc_buffers:
            return up
    return None
