"""Sampling instructions: they draw choices from the schedule's random numbers, and record them as decisions of the
trace.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tilewright.tir.schedule.errors import Violation, refuse
from tilewright.tir.schedule.facts.binding import binding_of
from tilewright.tir.schedule.facts.block_checks import consumers
from tilewright.tir.schedule.facts.leaves import REDUCE, int_extent, leaf_of, loops_above
from tilewright.tir.schedule.primitives.computation.attach import COMPUTE_INLINE, COMPUTE_ROOT, move_producer
from tilewright.tir.schedule.trace import BlockRV, ExprRV, LoopRV, sampling

if TYPE_CHECKING:
    from tilewright.tir.schedule.schedule import Schedule
    from tilewright.tir.schedule.state import StmtSRef
    from tilewright.tir.stmt import For


@sampling
def sample_categorical(s: Schedule, candidates: list[int], probs: list[float], decision: int | None = None) -> ExprRV:
    """Draw one of the candidates, with these probabilities. decision: the number of the candidate to return instead."""
    if len(candidates) != len(probs) or not candidates:
        refuse(f"there must be one probability per candidate, but there are {len(candidates)} and {len(probs)}")
    if decision is None:
        decision = s._random.choices(range(len(candidates)), [float(p) for p in probs])[0]
    elif not 0 <= int(decision) < len(candidates):
        refuse(f"the decision must be from 0 to {len(candidates) - 1}, but is {decision}")
    return s.expr_rv(int(candidates[int(decision)])), int(decision)  # type: ignore[return-value]


def divisors(n: int) -> list[int]:
    small = [d for d in range(1, int(n**0.5) + 1) if n % d == 0]
    return small + [n // d for d in reversed(small) if d * d != n]


@sampling
def sample_perfect_tile(
    s: Schedule, loop: LoopRV, n: int, max_innermost_factor: int = 16, decision: list[int] | None = None
) -> list[ExprRV]:
    """Draw n factors whose product is the extent of the loop. The last one is at most `max_innermost_factor`."""
    stmt = s.loop(loop).stmt
    extent = int_extent(stmt)
    if extent is None or extent < 1:
        refuse(f"{{0}} must have a constant, positive extent, but runs to {stmt.extent}", stmt)
    if decision is None:
        factors: list[int] = []
        rest = extent
        inner = [d for d in divisors(rest) if d <= max_innermost_factor]
        for i in range(n - 1):
            pick = s._random.choice(inner if i == 0 else divisors(rest))
            factors.append(pick)
            rest //= pick
        decision = [rest, *reversed(factors)] if n > 1 else [extent]
        if n > 2:
            head = decision[:-1]
            s._random.shuffle(head)
            decision = [*head, decision[-1]]
    else:
        decision = [int(d) for d in decision]
        product = 1
        for d in decision[1:]:
            product *= d
        if len(decision) != n or product <= 0 or extent % product:
            refuse(f"the decision must be {n} factors of the extent {extent} of {{0}}, but is {decision}", stmt)
        decision[0] = extent // product
    return [s.expr_rv(d) for d in decision], decision  # type: ignore[return-value]


@sampling
def sample_partitioned_tile(
    s: Schedule,
    loop: LoopRV,
    n: int,
    partition_pos: int = 0,
    innerpart_factor: int = 1,
    decision: list[int] | None = None,
) -> list[ExprRV]:
    """Like sample_perfect_tile, but the product of the factors from `partition_pos` on is a multiple of
    `innerpart_factor`.
    """
    stmt = s.loop(loop).stmt
    extent = int_extent(stmt)
    if extent is None or extent % innerpart_factor:
        refuse(f"the extent of {{0}} must be a multiple of {innerpart_factor}, but is {stmt.extent}", stmt)
    if decision is None:
        decision = [1] * n
        inner = innerpart_factor * s._random.choice(divisors(extent // innerpart_factor)) if partition_pos < n else 1
        for lo, hi, total in ((0, partition_pos, extent // inner), (partition_pos, n, inner)):
            if lo == hi and total != 1:
                refuse(f"partition_pos must leave room for factors on both sides, but is {partition_pos} of {n}", stmt)
            for i in range(lo, hi - 1):
                decision[i] = s._random.choice(divisors(total))
                total //= decision[i]
            if hi > lo:
                decision[hi - 1] = total
    decision = [int(d) for d in decision]
    return [s.expr_rv(d) for d in decision], decision  # type: ignore[return-value]


@sampling
def sample_compute_location(s: Schedule, block: BlockRV | str, decision: int | None = None) -> LoopRV:
    """Draw a loop under which the block can be computed, or a mark: -1 to keep its place, -2 to inline it.

    Pass the result to compute_at or reverse_compute_at. They do what a mark stands for.
    """
    ref = s.block(block)
    users = consumers(ref)
    places: list[StmtSRef] = []
    if users:
        user = s.state.ref(users[0].block)
        uses = binding_of(s.state, leaf_of(user)).uses
        for r in loops_above(user):
            if REDUCE in uses.get(r.stmt.loop_var, ()):
                break
            places.append(r)
    choices = [COMPUTE_ROOT, *[i for i in range(len(places)) if _possible(s, block, places[i].stmt)]]
    if _possible(s, block, None):
        choices.insert(0, COMPUTE_INLINE)
    if decision is None or int(decision) not in choices:
        decision = s._random.choice(choices)
    chosen = int(decision)
    return s.mark_rv(chosen) if chosen < 0 else s.loop_rv(places[chosen]), chosen  # type: ignore[return-value]


def _possible(s: Schedule, block: Any, loop: For | None) -> bool:
    from tilewright.tir.schedule.primitives.computation.inline import inline_block

    trial = s.copy()
    try:
        if loop is None:
            inline_block(trial.state, trial.block(block))
        else:
            move_producer(trial.state, trial.block(block), trial.state.ref(loop), True, -1)
    except Violation:
        return False
    return True
