"""What builds of models ask: the program of a kernel's computation, by its workload; and changes of computes to other layouts.

`extract_tasks` and what it needs of models are in relay/backend/auto_scheduler_tasks.py.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from enum import Enum
from typing import Any, ClassVar, Self

from tilewright.auto_scheduler.compute_dag import ComputeDAG, LayoutRewriteOption
from tilewright.auto_scheduler.dispatcher import DispatchContext
from tilewright.auto_scheduler.layout import layout_of_text, read_in
from tilewright.auto_scheduler.loop_state import State
from tilewright.auto_scheduler.packed_weights import (
    before_packing,
    scheduled_on_packed,
    wanted_layouts,
    with_free,
)
from tilewright.auto_scheduler.sketch_facts import FREE
from tilewright.auto_scheduler.workload_registry import register_workload_tensors
from tilewright.ir import IntImm
from tilewright.ir.transform import PassContext
from tilewright.node import nodes_of
from tilewright.support import lazy
from tilewright.support.errors import TVMError
from tilewright.target import Target
from tilewright.te.operation import ComputeOp, Operation, PlaceholderOp
from tilewright.te.primfunc import post_order
from tilewright.te.schedule import Schedule
from tilewright.te.tensor import UNCHECKED, Tensor
from tilewright.tir.expr import IterVar, ProducerLoad, Reduce
from tilewright.tuning.packing import Packing

lazy.declare(
    __name__,
    {
        name: f"tilewright.relay.backend.auto_scheduler_tasks:{name}"
        for name in ("call_all_topi_funcs", "extract_tasks", "te_compiler_update_weights")
    },
)
__getattr__, __dir__ = lazy.late(__name__)

OPTION = "relay.backend.use_auto_scheduler"


def is_auto_scheduler_enabled() -> bool:
    """Whether builds in the current PassContext use the programs of the current DispatchContext."""
    return bool(PassContext.current().config.get(OPTION, False))


class TracingMode(Enum):
    """What is noted of the kernels of a model: all tasks, those with reductions, or what a rewriting of layouts needs."""

    EXTRACT_TASK = 0
    EXTRACT_COMPLEX_TASK_ONLY = 1
    PREPARE_LAYOUT_REWRITE = 2


class TracingEnvironment:
    """While it is entered, kernels are noted, and none is scheduled. func_name_to_wkl_key: workloads by the names of kernels.
    wkl_key_to_input_names: inputs of workloads whose values matter. constants: by the hash of a primitive function, the places of the
    parameters that are constants in all its calls."""

    current: ClassVar[TracingEnvironment | None] = None

    def __init__(self, tracing_mode: TracingMode) -> None:
        self.tracing_mode = tracing_mode
        self.func_name_to_wkl_key: dict[str, str] = {}
        self.wkl_key_to_weight: dict[str, int] = {}
        self.wkl_key_to_input_names: dict[str, list[str]] = {}
        self.constants: dict[int, set[int]] = {}

    def __enter__(self) -> Self:
        TracingEnvironment.current = self
        return self

    def __exit__(self, *_: Any) -> None:
        TracingEnvironment.current = None

    def add_workload_key(self, func_name: str, workload_key: str) -> None:
        """Notes the workload of a kernel."""
        self.func_name_to_wkl_key[func_name] = workload_key

    def add_workload_input_names(self, workload_key: str, input_names: list[str]) -> None:
        """Notes the inputs of a workload whose values matter."""
        self.wkl_key_to_input_names[workload_key] = input_names


_rewriting = threading.local()


def enter_layout_rewrite() -> None:
    """From now on, `auto_schedule_topi` answers with programs on parameters in the layouts that fit them."""
    _rewriting.on = True


def exit_layout_rewrite() -> None:
    """Ends what `enter_layout_rewrite` began."""
    _rewriting.on = False


def traverse_to_get_io_tensors(outs: Sequence[Tensor]) -> tuple[list[Tensor], bool, bool]:
    """(the inputs of a computation, then its outputs; whether a compute says that layouts of its parameters are free; whether it has a
    reduction). Empty lists for inputs whose shapes are not known."""
    ops = post_order([t.op for t in outs])
    inputs = [t for op in ops if isinstance(op, PlaceholderOp) for t in op.outputs]
    if not all([isinstance(d, IntImm) for t in [*inputs, *outs] for d in t.shape]):
        return [], False, False
    computes = [op for op in ops if isinstance(op, ComputeOp)]
    reduces = any([nodes_of(body, Reduce) for op in computes for body in op.body])
    return [*inputs, *outs], any([FREE in op.attrs for op in computes]), reduces


def auto_schedule_topi(func_name: str, outs: Sequence[Tensor]) -> Schedule | None:
    """The te schedule of a computation by the current DispatchContext; None where it knows none. In a TracingEnvironment, the workload is
    noted instead. func_name: of the kernel."""
    found = _program(func_name, outs)
    if found is None:
        return None
    dag, state, has_free_layouts = found
    given = has_free_layouts and getattr(_rewriting, "on", False)
    option = LayoutRewriteOption.REWRITE_FOR_PRE_TRANSFORMED if given else LayoutRewriteOption.NO_REWRITE
    return dag.apply_steps_from_state(state, option)[0]


def scheduled_kernel(
    func_name: str, inputs: Sequence[Tensor], outs: Sequence[Tensor], free: Sequence[int] = ()
) -> tuple[Schedule, list[Tensor]] | None:
    """(the te schedule of a kernel by the current DispatchContext, its parameters); None where it knows none, and in a
    TracingEnvironment, which notes the workload. free: the places of inputs that are constants; the environment notes that their
    layouts are free. Inputs that `wanted_packings` chose layouts for are read in these."""
    if TracingEnvironment.current is not None:
        outs = with_free(outs, [inputs[i] for i in free])
    before = before_packing(inputs, outs)
    found = _program(func_name, before.outs)
    if found is None:
        return None
    dag, state, _ = found
    if before.packed:
        return scheduled_on_packed(before, dag, state)
    return dag.apply_steps_from_state(state)[0], [*inputs, *outs]


def wanted_packings(
    func_name: str, inputs: Sequence[Tensor], outs: Sequence[Tensor], constants: Sequence[int]
) -> list[Packing]:
    """The inputs of a kernel, among those that are constants, which the current DispatchContext wants in other layouts."""
    found = _program(func_name, with_free(outs, [inputs[i] for i in constants]))
    return [] if found is None else [layout.packing(inputs) for layout in wanted_layouts(found[0], found[1])]


def _program(func_name: str, outs: Sequence[Tensor]) -> tuple[ComputeDAG, State, bool] | None:
    """(a computation, its program, whether a compute says that layouts of its parameters are free); None where none is known."""
    tensors, has_free_layouts, reduces = traverse_to_get_io_tensors(outs)
    if not tensors:
        return None
    try:
        dag = ComputeDAG(tensors)
    except TVMError:
        # A stage that is no compute, or no stage at all: nothing for steps.
        return None
    key = register_workload_tensors(dag.workload_key(), tensors)
    env = TracingEnvironment.current
    if env is not None:
        if env.tracing_mode is TracingMode.EXTRACT_TASK or reduces:
            env.add_workload_key(func_name, key)
        return None
    context, target = DispatchContext.current, Target.current()
    if context is None or target is None:
        return None
    state = context.query(target, key, reduces, dag, func_name)
    return None if state is None else (dag, state, has_free_layouts)


def tensor_no_check_call(self: Tensor, *indices: Any) -> ProducerLoad:
    """An element of a tensor, whatever its shape says of the number of indices."""
    return ProducerLoad(self, tuple([i.var if isinstance(i, IterVar) else i for i in indices]))


def remove_index_check(tensor: Tensor) -> None:
    """Lets a compute index a parameter as if it had another shape, until `rewrite_compute_body` rewrites these indices."""
    object.__setattr__(tensor.op, "attrs", {**tensor.op.attrs, UNCHECKED: True})


def rewrite_tensor_shape(tensor: Tensor, shape: Sequence[int]) -> None:
    """Gives a parameter another shape, in place."""
    if not isinstance(tensor.op, PlaceholderOp):
        raise TVMError(f"only parameters have shapes that can be changed, but {tensor.op.name} is computed")
    new = tuple([IntImm("int32", int(d)) for d in shape])
    object.__setattr__(tensor.op, "shape", new)
    object.__setattr__(tensor, "shape", new)


def rewrite_compute_body(compute_tensor: Tensor, new_layout: str) -> Tensor | tuple[Tensor, ...]:
    """A compute that reads its parameter of free layout in another layout: "2i8k4i" has the outer two of i, eight of k, the inner four of
    i, by the names of the compute's axes."""
    op: Operation = compute_tensor.op
    if not isinstance(op, ComputeOp) or len(op.attrs.get(FREE, ())) != 1:
        raise TVMError(f"{op.name} must be a compute with one parameter in its attribute {FREE!r}")
    (tensor,) = op.attrs[FREE]
    changed = read_in(op, layout_of_text(op, tensor, new_layout))
    outputs = tuple([changed.output(i) for i in range(changed.num_outputs)])
    return outputs[0] if len(outputs) == 1 else outputs
