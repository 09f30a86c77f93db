"""What the loops around a block are to its variables."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tilewright.tir.schedule.facts.binding import binding_of
from tilewright.tir.schedule.facts.leaves import DATA_PAR, REDUCE, int_extent, leaf_of

if TYPE_CHECKING:
    from tilewright.tir.schedule.schedule import Schedule
    from tilewright.tir.schedule.trace import BlockRV


def loop_kinds(sch: Schedule, block: BlockRV) -> list[str]:
    """The kinds of the loops around a block, outermost first: "S" for a loop of spatial variables only, "R" for one of reduction variables
    only, "" for others. A loop of a single iteration that no variable uses is spatial."""
    leaf = leaf_of(sch.get_sref(block))
    uses = binding_of(sch.state, leaf).uses
    kinds = []
    for loop in leaf.loops:
        used = uses.get(loop.loop_var, set())
        if not used:
            kinds.append("S" if int_extent(loop) == 1 else "")
        else:
            kinds.append("S" if used == {DATA_PAR} else "R" if used == {REDUCE} else "")
    return kinds
