"""The roofline of this machine: the least time that the work of a kernel can take."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from tilewright.cli.bandwidth import Bandwidth, sizes_of
from tilewright.cli.peak import FLOATS, MultiplyAdd, Peak, multiply_add
from tilewright.target import Target

FIRST_SAMPLES = 3


class Work(NamedTuple):
    """What a call of a kernel must do. flops: its operations; moved: the bytes that it reads and writes; products: the element types of the
    factors and sums of its multiply-adds, if it has any."""

    flops: float
    moved: float
    products: tuple[str, ...] = ()


class Roofline:
    """The rates of this machine that bound kernels (Williams et al., CACM 52(4), 2009): multiply-adds on registers, and reads from the
    innermost memory that holds all that a kernel moves. Both are measured on a number of threads; the best of all samples counts, since
    others' work on the machine only takes away."""

    def __init__(self, work: Iterable[Work], threads: int) -> None:
        work = list(work)
        self._target = Target("llvm")
        self._peaks = {i: Peak(threads, i) for i in dict.fromkeys([self._instruction(w) for w in work if w.flops])}
        self._bandwidth = Bandwidth(threads, [self._level(w) for w in work if w.moved])
        for _ in range(FIRST_SAMPLES):
            self.sample()

    def sample(self) -> None:
        """Measures all rates once more; milliseconds."""
        for peak in self._peaks.values():
            peak.sample()
        self._bandwidth.sample()

    def least_seconds(self, work: Work) -> float | None:
        """What a call takes at least; None where its work is not known."""
        arithmetic = work.flops / self._peaks[self._instruction(work)].rate if work.flops else 0.0
        traffic = work.moved / max(self._bandwidth.samples[self._level(work)]) if work.moved else 0.0
        return max(arithmetic, traffic) or None

    def _instruction(self, work: Work) -> MultiplyAdd:
        first, second, total = work.products if len(work.products) == 3 else FLOATS
        return multiply_add(self._target, (first, second, total))

    def _level(self, work: Work) -> str:
        cpu = self._target.cpu
        capacities = {"first cache": cpu.l1_bytes, "second cache": cpu.l2_bytes, "last cache": cpu.l3_bytes}
        held = [level for level in sizes_of(cpu) if work.moved <= capacities.get(level, float("inf"))]
        return held[0]
