"""Tensor intrinsics of TE: a compute, and the statements that do the same on buffers."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, ClassVar

from tilewright.ir import PrimExpr
from tilewright.support.errors import ScheduleError
from tilewright.te.operation import ComputeOp, Operation
from tilewright.te.primfunc import create_prim_func
from tilewright.te.tensor import Tensor
from tilewright.tir import schedule as tir_schedule
from tilewright.tir.arithmetic import const_true
from tilewright.tir.buffer import Buffer, decl_buffer
from tilewright.tir.expr import Reduce, Var
from tilewright.tir.function import PrimFunc
from tilewright.tir.stmt import Block, BlockRealize, Evaluate, Stmt, stmt_seq


def decl_tensor_intrin(
    op: Operation,
    fcompute: Callable[[list[Buffer], list[Buffer]], Any],
    name: str = "tensor_intrin",
    binds: Mapping[Tensor, Buffer] | None = None,
    scalar_params: Any = None,
    default_buffer_params: Mapping[str, Any] | None = None,
) -> TensorIntrin:
    """An intrinsic that computes what `op` does.

    fcompute(inputs, outputs) gets buffers and returns the body: a statement or call, or for reductions that may be
    split a tuple (body, reset, update), in which body may be None. `binds` gives the buffers of tensors;
    others are made with `default_buffer_params` (such as offset_factor).
    """
    if scalar_params:
        raise ValueError("decl_tensor_intrin: scalar parameters are taken from the compute; leave scalar_params out")
    if not isinstance(op, ComputeOp):
        raise TypeError(f"decl_tensor_intrin describes a compute, but was given a {type(op).__name__}")
    given = dict(binds or {})
    params = dict(default_buffer_params or {})
    buffers = []
    for t in (*op.input_tensors, *op.outputs):
        made = given.get(t)
        buffers.append(made if made is not None else decl_buffer(t.shape, t.dtype, t.op.name, **params))
    count = len(op.input_tensors)
    body = fcompute(buffers[:count], buffers[count:])
    parts = list(body) if isinstance(body, (tuple, list)) else [body]
    parts = [Evaluate(p) if isinstance(p, PrimExpr) else p for p in parts] + [None] * (3 - len(parts))
    return TensorIntrin(name, op, buffers, parts)


class TensorIntrin:
    """What `Stage.tensorize` takes: a description (`op`), buffers, and up to three bodies."""

    _count: ClassVar[int] = 0

    def __init__(self, name: str, op: ComputeOp, buffers: list[Buffer], parts: list[Stmt | None]) -> None:
        self.name, self.op, self.buffers = name, op, buffers
        self.body, self.reduce_init, self.reduce_update = parts
        self._names: dict[bool, tuple[str, str]] = {}

    def registered(self, split: bool) -> tuple[str, str]:
        """Names of the TensorIR intrinsics (computation or update, reset). split: the reduction began outside."""
        found = self._names.get(split)
        if found is None:
            found = self._names[split] = self._register(split)
        return found

    def _register(self, split: bool) -> tuple[str, str]:
        TensorIntrin._count += 1
        name = f"te.{self.name}.{TensorIntrin._count}"
        count = len(self.op.input_tensors)
        desc = create_prim_func([*self.op.input_tensors, *self.op.outputs])
        reset: Stmt | None = None
        if isinstance(self.op.body[0], Reduce):
            desc, reset = _decomposed(desc, self.op.name)
        if not split:
            body = self.body
            if body is None and self.reduce_init is not None and self.reduce_update is not None:
                body = stmt_seq(self.reduce_init, self.reduce_update)
            if body is None:
                raise ScheduleError(f"tensorize: intrinsic {self.name} has no body for the whole computation")
            desc = desc.replace(body=_with_root(desc, init=reset))
            tir_schedule.TensorIntrin.register(name, desc, self._impl(self.buffers, body))
            return name, ""
        if self.reduce_init is None or self.reduce_update is None or reset is None:
            raise ScheduleError(
                f"tensorize: the reduction begins outside of the tensorized loops, so that intrinsic {self.name} must"
                " have a reset and an update: let its function return (body, reset, update)"
            )
        outputs = desc.params[count:]
        kept = {p: desc.buffer_map[p] for p in outputs}
        reset_desc = desc.replace(params=outputs, buffer_map=kept, body=_with_root(desc, body=reset))
        tir_schedule.TensorIntrin.register(name, desc, self._impl(self.buffers, self.reduce_update))
        tir_schedule.TensorIntrin.register(
            f"{name}.reset", reset_desc, self._impl(self.buffers[count:], self.reduce_init)
        )
        return name, f"{name}.reset"

    def _impl(self, buffers: list[Buffer], body: Stmt) -> PrimFunc:
        params = tuple([Var(f"var_{b.name}", "handle") for b in buffers])
        root = Block((), (), (), "root", body)
        return PrimFunc(params, BlockRealize((), const_true(), root), None, dict(zip(params, buffers, strict=True)), {})


def _with_root(func: PrimFunc, **changes: Any) -> BlockRealize:
    """The body of a function with fields of its root block replaced."""
    root: Any = func.body
    return BlockRealize((), const_true(), root.block.replace(**changes))


def _decomposed(func: PrimFunc, name: str) -> tuple[PrimFunc, Stmt]:
    """A reduction as its update, and the nest that initialises."""
    sch = tir_schedule.Schedule(func)
    block = sch.get_block(name)
    sch.decompose_reduction(block, sch.get_loops(block)[0])
    (both,) = sch.mod.functions.values()
    assert isinstance(both, PrimFunc)
    root: Any = both.body
    reset, update = root.block.body.seq
    return both.replace(body=_with_root(both, body=update)), reset
