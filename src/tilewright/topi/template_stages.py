"""What schedules of AutoTVM's templates share: the stages of a template among those that are fused with it, and the loops of the rest.

A template computes stages of names of its own. Element-wise stages after it, and what produces its inputs, come from the kernel that it is
part of. They are inlined, and the last one takes the tiles.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from typing import Any

from tilewright import te
from tilewright.te.primfunc import post_order
from tilewright.topi.utils import shape_of

LANES = 16
"""The most elements that stages which only move data handle at once."""


class TemplateStages:
    """schedule: of all stages. found: the template's own stages, by name. last: the stage whose loops are tiled: the output of the
    kernel, or the anchor where the output has another shape or there are several; then outputs have loops of their own."""

    def __init__(self, outs: Any, own: Collection[str], anchor: str) -> None:
        outputs: list[te.Tensor] = list(outs) if isinstance(outs, (list, tuple)) else [outs]
        self.schedule = te.create_schedule([t.op for t in outputs])
        self.found: dict[str, te.Tensor] = {}
        final = set(self.schedule.outputs)
        for op in post_order(self.schedule.outputs):
            if not isinstance(op, te.ComputeOp):
                continue
            if op.name in own:
                self.found[op.name] = op.output(0)
            elif op not in final:
                self.schedule[op].compute_inline()
        self.anchor = self.found[anchor]
        alike = len(outputs) == 1 and shape_of(outputs[0]) == shape_of(self.anchor)
        self.last = outputs[0] if alike else self.anchor
        for t in outputs:
            if t.op is not self.last.op:
                spread(self.schedule, t)

    def moved(self, *names: str) -> None:
        """Gives stages that only move data, where the kernel has them, loops of their own."""
        for name in names:
            if name in self.found:
                spread(self.schedule, self.found[name])


def spread(s: te.Schedule, tensor: te.Tensor) -> None:
    """Loops of a stage that is computed for itself: the outer ones are shared among threads, the innermost is vectorised."""
    axes = axes_of(s, tensor)
    if not axes:
        return
    width = math.gcd(extent_of(axes[-1]), LANES)
    if width > 1:
        axes[-1], lanes = s[tensor].split(axes[-1], width)
        s[tensor].vectorize(lanes)
    shared(s, tensor, axes[:-1] if len(axes) > 1 else axes)


def shared(s: te.Schedule, tensor: te.Tensor, axes: Sequence[Any]) -> Any:
    """Fuses outer loops of a stage and shares them among threads."""
    whole = s[tensor].fuse(*axes) if len(axes) > 1 else axes[0]
    s[tensor].parallel(whole)
    return whole


def axes_of(s: te.Schedule, tensor: te.Tensor) -> list[Any]:
    """The axes of a stage, as it was computed or as `cache_write` made it."""
    op: Any = s[tensor].op
    return list(op.axis)


def reduced(s: te.Schedule, tensor: te.Tensor) -> list[Any]:
    """The axes that a stage sums over."""
    op: Any = s[tensor].op
    return list(op.reduce_axis)


def extent_of(axis: Any) -> int:
    """The extent of an axis whose extent is static."""
    return int(axis.dom.extent)


def inner(entity: Any, level: int = -1) -> int:
    """An extent of a split, by its level; the innermost by default."""
    return int(entity.size[level])
