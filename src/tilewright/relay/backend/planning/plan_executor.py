"""Runs a plan in Python: a given function runs each kernel, on arrays at the places of the plan. It is an oracle for the memory plan and,
with the interpreter of tensor programs, for whole models before code generation."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from tilewright.node.field_values import numpy_dtype
from tilewright.relay.backend.planning.constants import aligned_bytes
from tilewright.relay.backend.planning.plan import KernelCall, Place, Plan

Array = np.ndarray
RunKernel = Callable[[KernelCall, Sequence[Array]], None]


def run_plan(plan: Plan, inputs: Mapping[str, Array] | Sequence[Array], run_kernel: RunKernel) -> list[Array]:
    """The outputs of one run. The workspace is filled with a pattern, which makes reads of unwritten memory visible."""
    if isinstance(inputs, Mapping):
        inputs = [inputs[name] for name, _ in plan.inputs]
    constants = plan.constants.blob()
    workspace = aligned_bytes(plan.workspace_bytes)
    workspace[:] = 0xFF
    outputs = [np.empty(t.concrete_shape, numpy_dtype(t.dtype)) for t in plan.outputs]

    def array(place: Place) -> Array:
        if place.kind == "input":
            blob, offset = np.ascontiguousarray(inputs[place.index]).reshape(-1).view(np.uint8), place.offset
        elif place.kind == "output":
            blob, offset = outputs[place.index].reshape(-1).view(np.uint8), place.offset
        else:
            blob, offset = constants if place.kind == "constant" else workspace, plan.offset(place)
        dtype = numpy_dtype(place.type.dtype)
        size = int(np.prod(place.type.concrete_shape, dtype=np.int64)) * dtype.itemsize
        return blob[offset : offset + size].view(dtype).reshape(place.type.concrete_shape)

    for call in plan.calls:
        run_kernel(call, [array(p) for p in call.args])
    return outputs
