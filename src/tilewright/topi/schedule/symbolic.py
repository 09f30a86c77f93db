"""Kernels with sizes known only at run time: the same rules, block by block, as far as unknown extents let them apply."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from tilewright.ir import IntImm
from tilewright.support.errors import ScheduleError
from tilewright.target import Target
from tilewright.tir.schedule import Schedule
from tilewright.topi.schedule.injective import schedule_injective, schedule_reduction
from tilewright.topi.schedule.kernel import KernelView
from tilewright.topi.schedule.rules import has_own_loops, inline_producers, schedule_cpu


def has_symbolic_loops(sch: Schedule) -> bool:
    """Whether a block of a kernel has an axis of unknown extent."""
    axes = [v for block in KernelView(sch).blocks() for v in block.block.iter_vars]
    return any([v.dom is not None and not isinstance(v.dom.extent, IntImm) for v in axes])


def schedule_symbolic(sch: Schedule, target: Target) -> Schedule:
    """The kernel scheduled as if its sizes were known; where that asks for what an unknown size does not allow, each block by
    itself, and a block that no rule fits keeps its loops."""
    whole = attempt(sch, lambda s: schedule_cpu(s, target))
    if whole is not sch:
        return whole
    inline_producers(KernelView(sch))
    for name in [block.name for block in KernelView(sch).blocks()]:
        sch = attempt(sch, partial(_schedule_block, name=name, target=target))
    return sch


def _schedule_block(sch: Schedule, name: str, target: Target) -> None:
    view = KernelView(sch)
    block = next(b for b in view.blocks() if b.name == name)
    if not block.is_opaque and has_own_loops(view, block):
        (schedule_injective if block.is_injective else schedule_reduction)(view, block, target)


def attempt(sch: Schedule, rule: Callable[[Schedule], None]) -> Schedule:
    """The schedule after a rule, or the one given where the rule does not apply."""
    trial = sch.copy()
    try:
        rule(trial)
    except ScheduleError:
        return sch
    return trial
