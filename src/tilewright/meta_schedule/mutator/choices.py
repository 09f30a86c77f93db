"""Mutators of unrolling, of the extent of thread axes, and of where blocks are computed."""

from __future__ import annotations

from tilewright.meta_schedule.mutator.mutator import Mutator, another_choice, argument, drawn_for
from tilewright.tir.schedule import Trace


class MutateUnroll(Mutator):
    """Draws another length of unrolled code."""

    def apply(self, trace: Trace) -> Trace | None:
        keys = ("meta_schedule.unroll_explicit", "meta_schedule.unroll_implicit")
        steps = [
            argument(inst, "ann_val")
            for inst in trace.insts
            if inst.kind.method == "annotate" and argument(inst, "ann_key") in keys
        ]
        return another_choice(trace, drawn_for(trace, steps), self.random)


class MutateThreadBinding(Mutator):
    """Draws another extent of a loop that is bound to threadIdx.x."""

    def apply(self, trace: Trace) -> Trace | None:
        bound = {
            argument(inst, "loop")
            for inst in trace.insts
            if inst.kind.method == "bind" and argument(inst, "thread_axis") == "threadIdx.x"
        }
        factors = []
        for inst in trace.insts:
            if inst.kind.method == "split" and bound & set(inst.outputs):
                place = next(i for i, loop in enumerate(inst.outputs) if loop in bound)
                factors.append(argument(inst, "factors")[place])
        return another_choice(trace, drawn_for(trace, factors), self.random)


class MutateComputeLocation(Mutator):
    """Draws anew where a block is computed. The draw is made when the trace is replayed."""

    def apply(self, trace: Trace) -> Trace | None:
        places = [inst for inst in trace.insts if inst.kind.method == "sample_compute_location"]
        return trace.with_decision(self.random.choice(places), None) if places else None
