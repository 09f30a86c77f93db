"""The mutator of parallel loops."""

from __future__ import annotations

from tilewright.meta_schedule.loop_plans import parallel_extents
from tilewright.meta_schedule.mutator.mutator import Mutator, argument
from tilewright.support.errors import ScheduleError
from tilewright.tir.schedule import Instruction, Schedule, Trace

KEY = "meta_schedule.parallel"


class MutateParallel(Mutator):
    """Chooses another number of outer loops that become one parallel loop.

    max_jobs_per_core: the number of iterations of the parallel loop for each core.
    """

    def __init__(self, max_jobs_per_core: int) -> None:
        self.max_jobs_per_core = max_jobs_per_core

    def apply(self, trace: Trace) -> Trace | None:
        noted = [i for i in trace.insts if i.kind.method == "annotate" and argument(i, "ann_key") == KEY]
        context = self.context
        if not noted or context is None or context.mod is None:
            return None
        sch = Schedule(context.mod, error_render_level="fast")
        try:
            trace.apply_to_schedule(sch, remove_postproc=True)
        except ScheduleError:
            return None
        most = self.max_jobs_per_core * context.num_threads
        inst = self.random.choice(noted)
        choices = sorted({extent for extent in parallel_extents(sch) if extent <= most} - {argument(inst, "ann_val")})
        return _with_value(trace, inst, self.random.choice(choices)) if choices else None


def _with_value(trace: Trace, inst: Instruction, value: int) -> Trace:
    """The trace in which an annotation has another value."""
    values = list(inst.values)
    values[inst.kind.names.index("ann_val")] = value
    new = Instruction.of(inst.kind, values, inst.outputs)
    return Trace([new if i is inst else i for i in trace.insts], trace.decisions)
