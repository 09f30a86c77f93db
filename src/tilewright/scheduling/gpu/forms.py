"""The forms of computes on GPUs: what `topi.planner` asks of a plan."""

from __future__ import annotations

from tilewright.scheduling.decisions import KernelDecisions
from tilewright.scheduling.gpu.facts import facts_of
from tilewright.topi.planner import Planner

SORTED_BYTES = 1 << 15
"""Shared memory for a line that is sorted there."""


class GpuForms(Planner):
    """Answers to computes: the plain forms, whose axes the rules divide over threads; for programs in a certain order, those that threads
    of a block share. plan: takes the decisions."""

    def __init__(self, plan: KernelDecisions) -> None:
        self.plan = plan

    def threads(self) -> int:
        limit = facts_of(self.plan.target).max_threads_per_block
        choices = [n for n in (32, 64, 128, 256, 512, 1024) if n <= limit] or [limit]
        return self.plan.once("loop.threads", min(256, choices[-1]), lambda: choices)

    def in_threads(self, elements: int) -> bool:
        return elements > 1

    def order(self, n: int, number: int, wide: bool) -> str:
        plain = super().order(n, number, wide)
        size = (1 << max(n - 1, 1).bit_length()) * (12 if wide else 8)
        if n < 2 or size > min(SORTED_BYTES, facts_of(self.plan.target).shared_memory_per_block):
            return plain
        return self.plan.choose("order.form", "bitonic", lambda: ("bitonic", plain))


__all__ = ["GpuForms"]
