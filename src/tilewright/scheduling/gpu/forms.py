"""The forms of computes on GPUs: what `topi.planner` asks of a plan."""

from __future__ import annotations

from tilewright.scheduling.decisions import KernelDecisions
from tilewright.scheduling.gpu.attention_tiles import attention_blocks
from tilewright.scheduling.gpu.facts import facts_of
from tilewright.scheduling.gpu.powers import power_below, powers
from tilewright.topi.planner import Blocks, Planner

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

    def order(self, n: int, number: int, lines: int, wide: bool) -> str:
        plain = super().order(n, number, lines, wide)
        if n < 2:
            return plain
        ways = ("bitonic", "merged", plain) if n <= self._sorted_at_once(wide) else ("merged", plain)
        return self.plan.choose("order.form", ways[0], lambda: ways)

    def sorted_run(self, n: int, wide: bool) -> int:
        most = min(self._sorted_at_once(wide), 1 << (n - 1).bit_length())
        return self.plan.choose("order.run", most, lambda: powers(2, most))

    def _sorted_at_once(self, wide: bool) -> int:
        """The elements that a block sorts in shared memory, with keys of 64 bits if they are wide, and positions."""
        return power_below(min(SORTED_BYTES, facts_of(self.plan.target).shared_memory_per_block) // (12 if wide else 8))

    def attention(self, heads: int, queries: int, keys: int, depth: int, width: int, dtype: str) -> Blocks:
        found = attention_blocks(self.plan, heads, queries, keys, depth, width, dtype)
        return found or super().attention(heads, queries, keys, depth, width, dtype)


__all__ = ["GpuForms"]
