"""Kernels that are scheduled by records of auto_scheduler."""

from __future__ import annotations

from tilewright import te
from tilewright.codegen.backend import CPU_RULES, back_end_of
from tilewright.ir.transform import PassContext
from tilewright.node import structural_hash
from tilewright.relay.backend.kernels.tensor_graph import TensorGraph
from tilewright.relay.expr import Function
from tilewright.target import Target

USE = "relay.backend.use_auto_scheduler"
"""The option that lets builds use records."""


def asks_records() -> bool:
    """Whether the option is set."""
    return bool(PassContext.current().config.get(USE, False))


def recorded(
    graph: TensorGraph, func: Function, name: str, target: Target
) -> tuple[te.Schedule, list[te.Tensor]] | None:
    """(the schedule of a primitive function's tensors, its parameters); None where the option is not set, or the current DispatchContext
    knows none."""
    if not asks_records() or back_end_of(target).rules != CPU_RULES:
        return None
    from tilewright.auto_scheduler.relay_integration import TracingEnvironment, scheduled_kernel

    env = TracingEnvironment.current
    constants = env.constants.get(structural_hash(func), ()) if env is not None else ()
    with target:
        return scheduled_kernel(name, graph.inputs, graph.outputs, constant_inputs(graph, func, constants))


def constant_inputs(graph: TensorGraph, func: Function, parameters: set[int] | tuple[()]) -> list[int]:
    """The places among the inputs of a graph of tensors that are parameters of a function, by their places."""
    given = [graph.values[func.params[i]] for i in sorted(parameters)]
    return [graph.inputs.index(t) for t in given if isinstance(t, te.Tensor)]
