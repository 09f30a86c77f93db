"""The grid of a product's blocks, and the loop of steps of which copies run ahead."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tilewright.tir.schedule import BlockRV, LoopRV, Schedule
from tilewright.tir.schedule.facts.leaves import leaves


def bind_grid(sch: Schedule, batch: Sequence[LoopRV], m0: LoopRV, n0: LoopRV, by_rows: bool = False) -> None:
    """for batch..: for m0: for n0   -->   blockIdx.z, y and x. by_rows: neighbouring blocks are along m0, which is the inner loop."""
    if batch:
        sch.bind(sch.fuse(*batch) if len(batch) > 1 else batch[0], "blockIdx.z")
    sch.bind(m0, "blockIdx.x" if by_rows else "blockIdx.y")
    sch.bind(n0, "blockIdx.y" if by_rows else "blockIdx.x")


def rasterized(sch: Schedule, m0: LoopRV, n0: LoopRV, strip: int) -> None:
    """Blocks of a plane, in strips of columns; of rows, if the strip is negative."""
    outer, inner = (m0, n0) if strip > 0 else (n0, m0)
    if abs(strip) > 1:
        sch.rasterize(outer, inner, abs(strip))


def pipelined(sch: Schedule, steps: LoopRV, stages: int, copies: Sequence[bool]) -> None:
    """A loop with so many stages: asynchronous copies run stages - 1 steps ahead. copies: of each statement of the loop, whether it is
    one."""
    order = sorted(range(len(copies)), key=lambda n: not copies[n])
    sch.annotate(steps, "software_pipeline_stage", [0 if ahead else stages - 1 for ahead in copies])
    sch.annotate(steps, "software_pipeline_order", [order.index(n) for n in range(len(copies))])
    sch.annotate(steps, "software_pipeline_async_stages", [0])


def run_copies_ahead(sch: Schedule, steps: LoopRV, stages: int, copies: Sequence[BlockRV]) -> None:
    """The statements of a loop that are nests around `copies` run ahead, as in `pipelined`."""
    names = {sch.get(rv).name_hint for rv in copies}
    loop: Any = sch.get(steps)
    pipelined(sch, steps, stages, [any([leaf.block.name_hint in names for leaf in leaves(s)]) for s in loop.body.seq])


__all__ = ["bind_grid", "pipelined", "rasterized", "run_copies_ahead"]
