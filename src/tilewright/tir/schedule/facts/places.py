"""What was found out about blocks at their places: primitives ask for the same facts again, mostly of blocks that they do not change."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from tilewright.tir.schedule.facts.leaves import Leaf
from tilewright.tir.schedule.state import ScheduleState

if TYPE_CHECKING:
    from tilewright.tir.stmt import For

Fact = TypeVar("Fact")


def known_at(
    state: ScheduleState, leaf: Leaf, loops: Sequence[For], kind: tuple[Any, ...], find: Callable[[], Fact]
) -> Fact:
    """A fact about a block at its place while `loops` run: what `find` returned when it was asked for first.

    kind: which fact; its parts are compared by identity. It may depend on the block, on the variables and extents of loops, and on what is
    known of variables (`Forms.ranges`, which forgets facts when that changes), but not on how loops run.
    """
    key = (
        *map(id, kind),
        id(leaf.realize),
        leaf.conditional,
        _place(leaf.loops),
        None if loops is leaf.loops else _place(loops),
    )
    found = state.forms.facts.get(key)
    if found is None:
        # What the key names stays alive as long as the fact, so that nothing else gets its identity.
        found = state.forms.facts[key] = find(), (kind, leaf, loops)
    fact: Fact = found[0]
    return fact


def _place(loops: Sequence[For]) -> tuple[int, ...]:
    return tuple([id(part) for lp in loops for part in (lp.loop_var, lp.min, lp.extent)])


__all__ = ["known_at"]
