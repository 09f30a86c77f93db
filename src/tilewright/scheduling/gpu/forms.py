"""The forms of computes on GPUs: what `topi.planner` asks of a plan."""

from __future__ import annotations

from tilewright.scheduling.decisions import KernelDecisions
from tilewright.topi.planner import Planner


class GpuForms(Planner):
    """Answers to computes: the plain forms, whose axes the rules divide over threads. plan: takes the decisions."""

    def __init__(self, plan: KernelDecisions) -> None:
        self.plan = plan


__all__ = ["GpuForms"]
