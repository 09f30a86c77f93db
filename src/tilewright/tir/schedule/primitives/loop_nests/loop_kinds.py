"""Primitives that set how a loop runs: parallel, vectorize, unroll, bind."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tilewright.tir import Block, ForKind, IterVar, Var
from tilewright.tir.expr import scalable_lanes
from tilewright.tir.schedule.errors import refuse
from tilewright.tir.schedule.facts.binding import binding_of
from tilewright.tir.schedule.facts.block_checks import need_simple_iters
from tilewright.tir.schedule.facts.hazards import need_same_iteration, private_buffers
from tilewright.tir.schedule.facts.leaves import REDUCE, Leaf, int_extent, leaves, loops_above
from tilewright.tir.schedule.facts.point_effects import need_order_free, self_dependence
from tilewright.tir.schedule.facts.threads import need_one_axis, thread_tag
from tilewright.tir.schedule.state import ScheduleState, StmtSRef
from tilewright.tir.schedule.trace import LoopRV, primitive

if TYPE_CHECKING:
    from tilewright.tir.schedule.schedule import Schedule


def need_independent(state: ScheduleState, ref: StmtSRef, what: str, private: bool, reduction: bool = False) -> None:
    """Require independent iterations: the binding of each block below is one to one, or an axis of it is the loop, and the loop is not a
    reduction loop.

    private: buffers that are used only inside the loop; lowering gives each iteration its own copy. reduction: allow a
    reduction on a thread axis, which becomes a reduction across threads.
    """
    loop = ref.stmt
    outer = tuple([r.stmt for r in loops_above(ref)]) + (loop,)
    found = leaves(loop.body)
    own = private_buffers(ref, found) if private else set()
    for leaf in found:
        full = Leaf(leaf.realize, outer + leaf.loops, leaf.conditional)
        if any([int_extent(f) == 0 for f in full.loops]):
            continue  # it never runs
        binding = binding_of(state, full)
        kinds = binding.uses.get(loop.loop_var, set())
        need_simple_iters(leaf.block)
        if REDUCE in kinds and (not reduction or leaf.block.init is None):
            refuse(
                f"{{0}} must not be {what}: it is a reduction loop of {{1}}, so its iterations update the same elements",
                loop,
                leaf.block,
            )
        if all([r.buffer in own for r in leaf.block.writes]):
            # Each iteration has its own copy, so a point must not use a value that another iteration stored.
            reason = self_dependence(state, leaf.block)
            if reason:
                refuse(f"the points of {{0}} must not depend on each other, but {reason}", leaf.block)
            continue
        if not binding.injective and not any([value is loop.loop_var for value in leaf.realize.iter_values]):
            refuse(
                f"{{0}} must not be {what}: the bindings of {{1}} must be one to one, but {binding.reason}",
                loop,
                leaf.block,
            )
        if loop.loop_var not in binding.uses and int_extent(loop) != 1:
            refuse(
                f"{{0}} must not be {what}: {{1}} does not depend on it, so its iterations write the same elements",
                loop,
                leaf.block,
            )
        if loop.loop_var in binding.again and _updates(leaf.block):
            refuse(
                f"{{0}} must not be {what}: {{1}} does not depend on all of it, so its iterations update the same elements",
                loop,
                leaf.block,
            )
        need_order_free(state, leaf.block)
    if len(found) > 1:
        need_same_iteration(state, found, outer, [loop], own)


def _updates(block: Block) -> bool:
    """Whether a point updates an element that it wrote before."""
    return block.init is not None or bool({r.buffer for r in block.reads} & {w.buffer for w in block.writes})


def need_kind_holds(state: ScheduleState, ref: StmtSRef) -> None:
    """Require that a parallel, vectorized or thread loop is still valid with its new content."""
    kind = ref.stmt.kind
    if kind == ForKind.PARALLEL:
        need_independent(state, ref, "parallel", private=True)
    elif kind == ForKind.VECTORIZED:
        need_independent(state, ref, "vectorized", private=False)
    elif kind == ForKind.THREAD_BINDING:
        tag = thread_tag(ref.stmt)
        need_independent(state, ref, f"bound to {tag}", private=True, reduction=tag.startswith("threadIdx."))


def set_kind(s: Schedule, ref: StmtSRef, kind: int, thread_binding: IterVar | None = None) -> None:
    s.state.replace(ref, ref.stmt.replace(kind=kind, thread_binding=thread_binding))


@primitive
def parallel(s: Schedule, loop: LoopRV) -> None:
    """for i: S   -->   parallel for i: S"""
    ref = s.loop(loop)
    need_independent(s.state, ref, "parallel", private=True)
    set_kind(s, ref, ForKind.PARALLEL)


@primitive
def vectorize(s: Schedule, loop: LoopRV) -> None:
    """for i in 8: S   -->   vectorized for i in 8: S"""
    ref = s.loop(loop)
    if int_extent(ref.stmt) is None and scalable_lanes(ref.stmt.extent) is None:
        refuse(f"{{0}} must have a constant extent to be a vector, but runs to {ref.stmt.extent}", ref.stmt)
    need_independent(s.state, ref, "vectorized", private=False)
    set_kind(s, ref, ForKind.VECTORIZED)


@primitive
def unroll(s: Schedule, loop: LoopRV) -> None:
    """for i in 2: S   -->   S[i := 0]; S[i := 1]   (when the program is lowered)"""
    set_kind(s, s.loop(loop), ForKind.UNROLLED)


AXES = tuple([f"{kind}.{d}" for kind in ("blockIdx", "threadIdx", "vthread") for d in "xyz"]) + ("vthread",)


@primitive
def bind(s: Schedule, loop: LoopRV, thread_axis: str) -> None:
    """for i in n: S   -->   for i in thread_binding(n, thread_axis): S

    thread_axis: blockIdx.*, threadIdx.* or vthread.*. Nested loops can be bound to the same threadIdx axis if they have
    the same extent. The threads then run the inner loop together, for example to copy data to shared memory.
    """
    ref = s.loop(loop)
    stmt = ref.stmt
    if thread_axis not in AXES:
        refuse(f"the thread axis must be one of {', '.join(AXES)}, but is {thread_axis!r}", stmt)
    need_one_axis(s.state, ref, thread_axis)
    need_independent(
        s.state, ref, f"bound to {thread_axis}", private=True, reduction=thread_axis.startswith("threadIdx.")
    )
    axis = IterVar(None, Var(thread_axis, stmt.loop_var.dtype), IterVar.ThreadIndex, thread_axis)
    set_kind(s, ref, ForKind.THREAD_BINDING, axis)
