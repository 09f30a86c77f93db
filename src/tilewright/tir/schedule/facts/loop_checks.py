"""Properties of loops that primitives check."""

from __future__ import annotations

from typing import Any

from tilewright.ir import IntImm
from tilewright.tir import ForKind
from tilewright.tir.schedule.errors import refuse


def need_plain_loop(loop: Any) -> None:
    """Require a serial loop without annotations that starts at 0."""
    if loop.kind != ForKind.SERIAL or loop.annotations or loop.thread_binding is not None:
        refuse("{0} must be a plain serial loop, but it already has a kind, a thread binding or annotations", loop)
    if not isinstance(loop.min, IntImm) or loop.min.value != 0:
        refuse(f"{{0}} must start at 0, but starts at {loop.min}", loop)
