"""The steps of a program: what each does to its loops and to a te schedule, and how records write it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields
from typing import Any

from tilewright.auto_scheduler.loop_steps import (
    UNROLL_PRAGMA,
    Annotation,
    FollowFusedSplit,
    FollowSplit,
    Fuse,
    Pragma,
    Reorder,
    Split,
    StorageAlign,
)
from tilewright.auto_scheduler.stage_steps import CacheRead, CacheWrite, ComputeAt, ComputeInline, ComputeRoot, Rfactor
from tilewright.auto_scheduler.step import STEPS, Replay, Step, follow
from tilewright.support.errors import TVMError


def step_from_json(data: Any) -> Step:
    """The step that `to_json` wrote. Raises TVMError for anything else."""
    kind = STEPS.get(data[0]) if isinstance(data, list) and data and isinstance(data[0], str) else None
    if kind is None:
        raise TVMError(f"a step is a list that begins with one of {', '.join(STEPS)}, but this is {str(data)[:80]}")
    wanted = fields(kind)
    if len(data) - 1 != len(wanted):
        raise TVMError(f"the step {data[0]} has {len(wanted)} fields, but {str(data)[:80]} has {len(data) - 1}")
    values = []
    for f, value in zip(wanted, data[1:], strict=True):
        many = isinstance(value, list)
        numbers = value if many else [value]
        right = many == str(f.type).startswith("tuple")
        right &= all([isinstance(v, str) if "str" in str(f.type) else isinstance(v, int) or v is None for v in numbers])
        right &= None not in numbers or "None" in str(f.type)
        if not right:
            raise TVMError(f"the field {f.name} of the step {str(data)[:80]} is no {f.type}")
        values.append(tuple(value) if many else bool(value) if f.type == "bool" else value)
    made: Callable[..., Step] = kind
    return made(*values)


__all__ = [
    "STEPS", "UNROLL_PRAGMA", "Annotation", "CacheRead", "CacheWrite", "ComputeAt", "ComputeInline", "ComputeRoot", "FollowFusedSplit",
    "FollowSplit", "Fuse", "Pragma", "Reorder", "Replay", "Rfactor", "Split", "Step", "StorageAlign", "follow", "step_from_json",
]  # fmt: skip
