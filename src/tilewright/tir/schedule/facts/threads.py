"""Loops that are bound to threads: the memory that their threads share, and loops that can be one axis."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from tilewright.tir import For
from tilewright.tir.schedule.errors import refuse
from tilewright.tir.schedule.facts.binding import binding_of
from tilewright.tir.schedule.facts.leaves import leaf_of, leaves, loops_above
from tilewright.tir.schedule.facts.linear_forms import same
from tilewright.tir.schedule.state import ScheduleState, StmtSRef, children

if TYPE_CHECKING:
    from tilewright.tir.stmt import Stmt


def thread_tag(loop: Any) -> str:
    """The thread axis of a loop; empty for other loops."""
    return "" if loop.thread_binding is None else str(loop.thread_binding.thread_tag)


def sharing(scope: str, loops: Iterable[For]) -> list[For]:
    """The loops bound to threads whose threads share a buffer of the given scope.

    All threads of a kernel share global memory, those of a block shared memory, those of a warp its registers.
    """
    memory = scope.split(".")[0]
    out = []
    for lp in loops:
        tag = thread_tag(lp)
        in_block = tag.startswith(("threadIdx", "vthread"))
        if (
            (memory == "global" and tag)
            or (memory == "shared" and in_block)
            or (memory == "warp" and tag == "threadIdx.x")
        ):
            out.append(lp)
    return out


def need_one_axis(state: ScheduleState, ref: StmtSRef, tag: str) -> None:
    """Require that nested loops bound to one axis can be one: each thread runs its own part of the inner loop.

    They must have equal extents, and the body of the inner loop must not depend on the outer one.
    """
    if tag.startswith("vthread"):
        return
    if not tag.startswith("threadIdx."):
        for up in loops_above(ref):
            if thread_tag(up.stmt) == tag:
                refuse(f"{{0}} must not be bound to {tag}, to which {{1}} around it is bound", ref.stmt, up.stmt)
        for below in _loops_below(ref.stmt.body):
            if thread_tag(below) == tag:
                refuse(f"{{0}} must not be bound to {tag}, to which {{1}} inside of it is bound", ref.stmt, below)
        return
    for up in loops_above(ref):
        if thread_tag(up.stmt) == tag:
            _need_joint(state, up.stmt, ref.stmt, tag)
    for below in _loops_below(ref.stmt.body):
        if thread_tag(below) == tag:
            _need_joint(state, ref.stmt, below, tag)


def _loops_below(stmt: Stmt) -> Sequence[Stmt]:
    """The loops of the scope at and below a statement."""
    out: list[Stmt] = []
    stack = [stmt]
    while stack:
        s = stack.pop()
        if isinstance(s, For):
            out.append(s)
        if type(s).__name__ != "Block":
            stack.extend([c for c in children(s) if type(c).__name__ != "Block"])
    return out


def _need_joint(state: ScheduleState, outer: For, inner: Any, tag: str) -> None:
    if not same(state.forms.of(outer.extent), state.forms.of(inner.extent)):
        refuse(
            f"{{0}} and {{1}} around it, both of {tag}, must have the same extent, but run to {inner.extent} and {outer.extent}",
            inner,
            outer,
        )
    for x in leaves(inner.body):
        full = leaf_of(state.ref(x.block))
        if outer.loop_var in binding_of(state, full).uses:
            refuse(
                f"{{0}} must not be bound to {tag} inside {{1}}, which is: {{2}} depends on both", inner, outer, x.block
            )
        for r in x.block.writes:
            if r.buffer.scope().split(".")[0] not in ("global", "shared"):
                refuse(
                    f"{{0}} must not be bound to {tag} inside {{1}}, which is: {{2}} writes {r.buffer.name},"
                    f" of which each thread has its own ({r.buffer.scope()})",
                    inner, outer, x.block,
                )  # fmt: skip
