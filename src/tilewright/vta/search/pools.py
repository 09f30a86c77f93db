"""The time of a pool as a kernel of its own, beside that of one that follows a product on the chip."""

from __future__ import annotations

from tilewright.vta.configuration import Configuration
from tilewright.vta.search.problem import Problem


def alone(p: Problem, config: Configuration) -> float:
    """Cycles that the pool of a problem takes at least as a kernel of its own: its data are loaded as inputs, become accumulators by a
    product with the identity, and its results are stored. Two virtual threads let the units work at the same time."""
    rows, columns = p.sums(p.rows, p.columns)
    blocks, word = p.batch * p.out_blocks, config.dram_bytes
    data, results = blocks * rows * columns, blocks * p.rows * p.columns
    bus = (data * config.element_bytes("inp") + results * config.element_bytes("out")) / word
    return max(bus, 2 * data + results * sum(p.pool_passes)) + 2 * config.dram_latency


__all__ = ["alone"]
