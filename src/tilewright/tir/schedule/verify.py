"""Checks of a schedule's state: references of loops and blocks, and cached properties of blocks."""

from __future__ import annotations

from typing import Any

from tilewright.support.errors import InternalError
from tilewright.tir import Block, For
from tilewright.tir.schedule.block_scope import flags_of
from tilewright.tir.schedule.state import ScheduleDebugMask, ScheduleState, StmtSRef, children


def verify(state: ScheduleState, mask: int) -> None:
    """Raise InternalError if the state contradicts the program."""
    if mask & ScheduleDebugMask.VERIFY_SREF_TREE:
        verify_sref_tree(state)
    if mask & ScheduleDebugMask.VERIFY_CACHED_FLAGS:
        verify_cached_flags(state)


def verify_sref_tree(state: ScheduleState) -> None:
    """Check that each loop and block of the program has one reference, whose parent is the loop or block around it."""
    seen: set[int] = set()
    stack: list[tuple[Any, StmtSRef | None]] = [(root.stmt, None) for root in state.roots.values()]
    while stack:
        stmt, up = stack.pop()
        if type(stmt) is For or type(stmt) is Block:
            ref = state.get_sref(stmt)
            name = stmt.loop_var.name if isinstance(stmt, For) else stmt.name_hint
            if ref is None:
                raise InternalError(f"the schedule has no reference to {name}")
            if ref.parent is not up:
                raise InternalError(f"the reference to {name} has another parent than the program")
            if id(ref) in seen:
                raise InternalError(f"{name} stands twice in the program")
            seen.add(id(ref))
            up = ref
        stack.extend([(child, up) for child in children(stmt)])
    for ref in state.all_refs():
        if id(ref) not in seen:
            raise InternalError(f"the schedule keeps a reference to {type(ref.stmt).__name__}, which the program lacks")


def verify_cached_flags(state: ScheduleState) -> None:
    """Check that the cached properties of blocks are what a new analysis of the module finds."""
    known = state.known_flags()
    if not known:
        return
    fresh = ScheduleState(state.mod)
    for ref, flags in known:
        again = flags_of(fresh, fresh.ref(ref.stmt))
        if again != flags:
            raise InternalError(f"block {ref.stmt.name_hint} is remembered as {flags}, but is {again}")
