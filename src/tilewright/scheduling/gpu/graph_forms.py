"""The forms of operators on GPUs: plain layouts, in which kernels find their tiles by themselves; images with channels last for matrix
units; attention as one kernel."""

from __future__ import annotations

from tilewright.scheduling.gpu.attention_tiles import ACROSS, tiles_of
from tilewright.scheduling.gpu.facts import mma_shape
from tilewright.scheduling.graph_forms import AttentionProblem, GraphForms
from tilewright.topi.utils import ceil_div


class GpuGraphForms(GraphForms):
    """Answers to passes. Layouts stay as the model has them, except for images that matrix units multiply."""

    def channels_last(self, factors: str, sums: str) -> bool:
        return (
            self.plan.choose(
                f"images({factors}).layout",
                "last" if mma_shape(self.plan.target, factors, sums) else "plain",
                lambda: ["last", "plain"],
            )
            == "last"
        )

    def attention_in_blocks(self, p: AttentionProblem) -> bool:
        deep, wide = [ceil_div(n, ACROSS) * ACROSS for n in (p.depth, p.width)]
        if p.keys < ACROSS or not tiles_of(p.queries, deep, wide, p.dtype, self.plan.target):
            return False
        name = f"attention({p.heads}x{p.queries}x{p.keys}).form"
        return self.plan.choose(name, "blocks", lambda: ["blocks", "whole"]) == "blocks"


__all__ = ["GpuGraphForms"]
