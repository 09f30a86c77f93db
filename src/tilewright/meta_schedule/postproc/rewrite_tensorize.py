"""The post-processor that puts instructions in place."""

from __future__ import annotations

from tilewright.meta_schedule.blocks import note
from tilewright.meta_schedule.postproc.postproc import Postproc
from tilewright.support.errors import ScheduleError
from tilewright.tir import Block, Buffer
from tilewright.tir.schedule import Schedule
from tilewright.tir.schedule.facts.leaves import leaves

KEY = "meta_schedule.auto_tensorize"


class RewriteTensorize(Postproc):
    """Tensorizes the blocks that are annotated "meta_schedule.auto_tensorize" by the intrinsics that they name. Refuses schedules whose
    blocks they do not fit. vectorize_init_loop: the innermost loop of their initialisations becomes a vector where the primitive accepts
    it; otherwise the schedule has a fallback, which says why not.
    """

    def __init__(self, vectorize_init_loop: bool = False) -> None:
        self.vectorize_init_loop = vectorize_init_loop

    def apply(self, sch: Schedule) -> bool:
        for gvar, root in sch.state.roots.items():
            for name, intrinsic, buffer in _annotated(root.stmt):
                block = sch.get_block(name, gvar.name_hint)
                sch.unannotate(block, KEY)
                for inner in _initialisations(root.stmt, buffer) if self.vectorize_init_loop else []:
                    loops = sch.get_loops(sch.get_block(inner, gvar.name_hint))
                    with sch.tried(f"the initialisation {inner} as a vector"):
                        sch.vectorize(loops[-1])
                try:
                    sch.tensorize(block, intrinsic)
                except ScheduleError:
                    return False
        return True


def _annotated(block: Block) -> list[tuple[str, str, Buffer]]:
    """The names of annotated blocks, of their intrinsics, and what they write."""
    found = []
    for leaf in leaves(block.body):
        intrinsic = note(leaf.block, KEY)
        if intrinsic is not None:
            found.append((leaf.block.name_hint, str(intrinsic), leaf.block.writes[0].buffer))
        found += _annotated(leaf.block)
    return found


def _initialisations(block: Block, buffer: Buffer) -> list[str]:
    """The names of blocks in blocks that read nothing and write a buffer in loops of their own."""
    found = []
    for leaf in leaves(block.body):
        for inner in leaves(leaf.block.body):
            if not inner.block.reads and inner.loops and inner.block.writes[0].buffer is buffer:
                found.append(inner.block.name_hint)
    return found
