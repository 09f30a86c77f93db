"""Dependences between blocks that share loops: does each iteration read only what it (or nobody) wrote?"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from tilewright.tir import Buffer
from tilewright.tir.schedule.analysis import Leaf
from tilewright.tir.schedule.errors import refuse
from tilewright.tir.schedule.regions import Region, contains, swept, unite
from tilewright.tir.schedule.state import ScheduleState


def swept_by(state: ScheduleState, found: Iterable[Leaf], buffer: Buffer, writes: bool) -> Region | None:
    """What the blocks touch of a buffer while the loops of each leaf run."""
    out: Region | None = None
    for leaf in found:
        for region in leaf.block.writes if writes else leaf.block.reads:
            if region.buffer is buffer:
                out = unite(state.forms, out, swept(state, region, leaf.realize, leaf.loops, exact=writes))
    return out


def need_same_iteration(state: ScheduleState, found: list[Leaf], outer: tuple[Any, ...], changing: list[Any]) -> None:
    """Refuses when the blocks below some loops pass values from one iteration of `changing` to another.

    found: the blocks with their loops further in. outer: all loops around, outermost first.
    A buffer is safe when what is read of it in one iteration was written in the same one.
    """
    first = min([i for i, lp in enumerate(outer) if any([lp is c for c in changing])], default=0)
    written: dict[Buffer, list[Leaf]] = {}
    for leaf in found:
        for region in leaf.block.writes:
            written.setdefault(region.buffer, []).append(leaf)
    for buffer, writers in written.items():
        readers = [
            x
            for x in found
            if any([r.buffer is buffer for r in x.block.reads]) and len(writers) + (x not in writers) > 1
        ]
        if not readers:
            continue
        for reader in readers:
            earlier = [w for w in writers if w is not reader]
            provided = swept_by(state, earlier, buffer, writes=True)
            required = swept_by(state, [reader], buffer, writes=False)
            if provided is None or required is None or not contains(state.forms, provided, required, buffer.shape):
                refuse(
                    f"an iteration of {{0}} must read only what it wrote itself of {buffer.name},"
                    " but {1} may read what {2} writes in another iteration",
                    outer[first] if outer else reader.block, reader.block, earlier[0].block if earlier else reader.block,
                )  # fmt: skip
