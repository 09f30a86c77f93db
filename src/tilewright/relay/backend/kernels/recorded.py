"""Kernels that are scheduled by records of auto_scheduler."""

from __future__ import annotations

from tilewright import te
from tilewright.codegen.backend import back_end_of
from tilewright.ir.transform import PassContext
from tilewright.relay.backend.kernels.tensor_graph import TensorGraph
from tilewright.target import Target

USE = "relay.backend.use_auto_scheduler"
"""The option that lets builds use records."""


def asks_records() -> bool:
    """Whether the option is set."""
    return bool(PassContext.current().config.get(USE, False))


def recorded(graph: TensorGraph, name: str, target: Target) -> te.Schedule | None:
    """The schedule of a kernel's tensors; None where the option is not set, or the current DispatchContext knows none."""
    if not asks_records() or not back_end_of(target).scheduled:
        return None
    from tilewright.auto_scheduler.relay_integration import auto_schedule_topi

    with target:
        return auto_schedule_topi(name, graph.outputs)
