"""The post-processor that makes loops parallel, vectorised and unrolled, as the root block notes."""

from __future__ import annotations

from functools import partial

from tilewright.meta_schedule.blocks import note, root_blocks
from tilewright.meta_schedule.loop_plans import parallel_loops, vector_loops
from tilewright.meta_schedule.postproc.postproc import Postproc
from tilewright.tir.schedule import BlockRV, LoopRV, Schedule

PREFIX = "meta_schedule."


class RewriteParallelVectorizeUnroll(Postproc):
    """Does what ParallelizeVectorizeUnroll noted at root blocks, for each block below them. Loops for which a primitive refuses it stay."""

    def apply(self, sch: Schedule) -> bool:
        for root in root_blocks(sch):
            notes = {}
            for key in ("parallel", "vectorize", "unroll_explicit", "unroll_implicit"):
                value = note(sch.get(root), PREFIX + key)
                if value is not None:
                    sch.unannotate(root, PREFIX + key)
                    notes[key] = int(value)
            if notes:
                for block in sch.get_child_blocks(root):
                    self._rewrite(sch, block, notes)
        return True

    @staticmethod
    def _rewrite(sch: Schedule, block: BlockRV, notes: dict[str, int]) -> None:
        if "vectorize" in notes:
            _become(sch, block, vector_loops(sch, block, notes["vectorize"]), "vectorize")
        if "parallel" in notes:
            _become(sch, block, parallel_loops(sch, block, notes["parallel"]), "parallel")
        loops = sch.get_loops(block)
        for key, explicit in (("unroll_explicit", 1), ("unroll_implicit", 0)):
            if notes.get(key, 0) > 0 and loops and not sch.get(loops[0]).annotations:
                sch.annotate(loops[0], "pragma_auto_unroll_max_step", notes[key])
                sch.annotate(loops[0], "pragma_unroll_explicit", explicit)


def _become(sch: Schedule, block: BlockRV, loops: list[LoopRV], kind: str) -> None:
    """Fuses loops, and makes the result parallel or a vector; fewer loops where a primitive refuses it."""
    while loops:
        if sch.attempt(partial(_fuse, loops=loops, kind=kind)):
            return
        loops = loops[1:] if kind == "vectorize" else loops[:-1]


def _fuse(sch: Schedule, loops: list[LoopRV], kind: str) -> None:
    fused = sch.fuse(*loops) if len(loops) > 1 else loops[0]
    if kind == "parallel":
        sch.parallel(fused)
    else:
        sch.vectorize(fused)
