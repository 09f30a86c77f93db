"""unsafe_shorten: leaves out the last iterations of a loop, of which the caller knows that they change nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tilewright.tir.arithmetic import minimum
from tilewright.tir.schedule.arguments import map_of_loops
from tilewright.tir.schedule.errors import refuse
from tilewright.tir.schedule.facts.leaves import loops_above
from tilewright.tir.schedule.facts.loop_checks import need_plain_loop
from tilewright.tir.schedule.trace import LoopRV, recorded_as
from tilewright.tir.stmt_functor import substitute

if TYPE_CHECKING:
    from tilewright.tir.schedule.schedule import Schedule


@recorded_as(map_of_loops)
def unsafe_shorten(s: Schedule, loop: LoopRV, outer: list[LoopRV], extent: Any) -> None:
    """for i in n: for t in m: S   -->   for i in n: for t in min(m, extent(i)): S

    The caller guarantees that later iterations change nothing, as those of keys that a causal mask hides. extent: the number of
    iterations that count, by the variables of `outer`, loops around it.
    """
    ref = s.loop(loop)
    need_plain_loop(ref.stmt)
    around = loops_above(ref)
    refs = [s.loop(x) for x in outer]
    for each in refs:
        if each not in around:
            refuse("{0} must be around {1}", each.stmt, ref.stmt)
    env = {v: r.stmt.loop_var for v, r in zip(extent.initial_indices, refs, strict=True)}
    counted = substitute(extent.final_indices[0], env).astype(ref.stmt.extent.dtype)
    s.state.replace(ref, ref.stmt.replace(extent=s.state.forms.simplify(minimum(ref.stmt.extent, counted))))


__all__ = ["unsafe_shorten"]
