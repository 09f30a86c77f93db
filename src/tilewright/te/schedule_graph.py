"""Analyses of schedules and graphs of operations, under their classic names (`tvm.te.schedule.*`)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from tilewright.arith import Analyzer
from tilewright.ir import PrimExpr, Range, as_prim_expr
from tilewright.te.operation import Operation, PlaceholderOp, ScanOp
from tilewright.te.primfunc import post_order
from tilewright.te.schedule import Schedule
from tilewright.te.schedule_apply import apply_schedule, infer_ranges
from tilewright.te.schedule_build import fixed_axes, steps_of
from tilewright.te.schedule_stage import SCOPE
from tilewright.te.tensor import Tensor
from tilewright.tir.buffer import Buffer
from tilewright.tir.expr import BufferLoad, IterVar, Var
from tilewright.tir.function import PrimFunc
from tilewright.tir.stmt import Block, BufferStore, Stmt
from tilewright.tir.stmt_functor import post_order_visit


def _arguments(sch: Schedule) -> list[Tensor]:
    """All inputs and outputs."""
    states = {t.op for st in sch.stages if isinstance(st.op, ScanOp) for t in st.op.state_placeholder}
    inputs = [st.op for st in sch.stages if isinstance(st.op, PlaceholderOp) and st.op not in states]
    return [t for op in (*inputs, *sch.outputs) for t in op.outputs]


def InferBound(sch: Schedule) -> dict[IterVar, Range]:
    """The range of every axis at the place where its stage is computed, in terms of the axes of the stages around it."""
    return infer_ranges(sch, _arguments(sch))


def ScheduleOps(sch: Schedule, bounds: Mapping[IterVar, Range], debug_keep_trivial_loop: bool = False) -> Stmt:
    """The loop nests of all stages, over buffers with the names of the tensors."""
    return apply_schedule(sch, _arguments(sch)).body


def SchedulePostProcToPrimFunc(
    args: Sequence[Any], body: Stmt, extern_buffer: Mapping[Tensor, Buffer] | None = None
) -> PrimFunc:
    """Make a function of the result of ScheduleOps. `args` are its tensors, buffers and variables."""
    buffers: dict[str, Buffer] = {}

    def note(e: Any) -> None:
        if isinstance(e, (BufferLoad, BufferStore)):
            buffers.setdefault(e.buffer.name, e.buffer)
        elif isinstance(e, Block):
            for r in (*e.reads, *e.writes):
                buffers.setdefault(r.buffer.name, r.buffer)

    post_order_visit(body, note)
    params: list[Var] = []
    table: dict[Var, Buffer] = {}
    for i, arg in enumerate(args):
        if isinstance(arg, Var):
            params.append(arg)
            continue
        buffer = arg if isinstance(arg, Buffer) else buffers.get(arg.name.replace(".v", "_v"), buffers.get(arg.op.name))
        if buffer is None:
            raise ValueError(f"SchedulePostProcToPrimFunc: argument {i}, {arg.name}, is not used by the statement")
        params.append(Var(f"var_{buffer.name}", "handle"))
        table[params[-1]] = buffer
    return PrimFunc(
        tuple(params),
        body,
        None,
        table,
        {"global_symbol": "main", "tir.noalias": True, "from_legacy_te_schedule": True},
    )


def VerifyCompactBuffer(stmt: Stmt) -> bool:
    """Whether every buffer that the statement uses is stored without gaps."""
    found: list[bool] = []

    def note(e: Any) -> None:
        if isinstance(e, (BufferLoad, BufferStore)):
            found.append(_compact(e.buffer))
        elif isinstance(e, Block) and "buffer_dim_align" in e.annotations:
            found.append(False)

    post_order_visit(stmt, note)
    return all(found)


def _compact(buffer: Buffer) -> bool:
    if not buffer.strides:
        return True
    step: PrimExpr = as_prim_expr(1)
    for stride, dim in zip(reversed(buffer.strides), reversed(buffer.shape), strict=True):
        if not Analyzer().can_prove_equal(stride, step):
            return False
        step = step * dim
    return True


def CreateReadGraph(ops: Sequence[Operation]) -> dict[Operation, list[Tensor]]:
    """The tensors that each operation reads, for all operations that `ops` need."""
    return {op: list(op.input_tensors) for op in post_order(list(ops))}


def PostDFSOrder(
    roots: Sequence[Operation], graph: Mapping[Operation, Sequence[Tensor]] | None = None
) -> list[Operation]:
    """The operations that `roots` need, producers first."""
    return [op for op in post_order(list(roots)) if graph is None or op in graph]


def CreateAttachPath(sch: Schedule) -> dict[Operation, list[IterVar]]:
    """For each operation, the axes of other stages in which it is computed, from the innermost outwards."""
    paths: dict[Operation, list[IterVar]] = {}
    for stage in sch.stages:
        path: list[IterVar] = []
        here = stage
        while here.attach_type == SCOPE and here.attach_stage is not None and here.attach_ivar is not None:
            parent = here.attach_stage
            place = [a.var for a in parent.leaf_iter_vars].index(here.attach_ivar.var)
            path += reversed(parent.leaf_iter_vars[: place + 1])
            here = parent
        paths[stage.op] = path
    return paths


def ScanGetBody(scan: ScanOp) -> list[Operation]:
    """The operations of one step of a recurrence."""
    return list(steps_of(scan))


def ScanFixPointAnalysis(scan: ScanOp) -> dict[IterVar, PrimExpr]:
    """For each spatial axis of the updates: 1 if every step reads the state only at the same index, otherwise 0."""
    return {axis: as_prim_expr(int(fixed)) for axis, fixed in fixed_axes(scan).items()}
