"""The post-processor that separates the initialisation of reductions."""

from __future__ import annotations

from tilewright.meta_schedule.blocks import is_bound, is_reduction, note
from tilewright.meta_schedule.postproc.postproc import Postproc
from tilewright.support.errors import ScheduleError
from tilewright.tir import Block, ForKind
from tilewright.tir.schedule import Schedule
from tilewright.tir.schedule.facts.leaves import leaves
from tilewright.tir.schedule.facts.loop_uses import loop_kinds

INIT, TENSORIZE = "meta_schedule.auto_tensorize_init", "meta_schedule.auto_tensorize"


class RewriteReductionBlock(Postproc):
    """Initialises the results of each reduction before its outermost reduction loop. Reductions across threads keep their form. The
    initialisation of a block that is annotated "meta_schedule.auto_tensorize_init" is left to the intrinsic that is named there."""

    def apply(self, sch: Schedule) -> bool:
        for gvar, root in sch.state.roots.items():
            for name in _reductions(root.stmt):
                self._decompose(sch, name, gvar.name_hint)
        return True

    @staticmethod
    def _decompose(sch: Schedule, name: str, function: str) -> None:
        block = sch.get_block(name, function)
        loops = list(zip(sch.get_loops(block), loop_kinds(sch, block), strict=True))
        steps = [loop for loop, kind in loops if kind == "R"]
        if not steps or any([is_bound(sch.get(loop)) for loop in steps]):
            return
        is_vector = sch.get(loops[-1][0]).kind == ForKind.VECTORIZED
        try:
            init = sch.decompose_reduction(block, steps[0])
        except ScheduleError:
            # The initialisation then runs in the first step, under a condition.
            return
        intrinsic = note(sch.get(block), INIT)
        if intrinsic is not None:
            sch.unannotate(block, INIT)
            sch.annotate(init, TENSORIZE, intrinsic)
        if is_vector:
            sch.vectorize(sch.get_loops(init)[-1])


def _reductions(block: Block) -> list[str]:
    """The names of the reductions at and below a block."""
    found = []
    for leaf in leaves(block.body):
        if is_reduction(leaf.block):
            found.append(leaf.block.name_hint)
        found += _reductions(leaf.block)
    return found
