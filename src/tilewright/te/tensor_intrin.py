"""Tensor intrinsics of TE: a compute as description, and statements on buffers that do the same."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, ClassVar

from tilewright.arith import Analyzer
from tilewright.ir import PrimExpr, Range, as_prim_expr
from tilewright.node import structural_equal
from tilewright.support.errors import ScheduleError
from tilewright.te.operation import ComputeOp, Operation
from tilewright.te.primfunc import create_prim_func
from tilewright.te.tensor import Tensor, TensorSlice
from tilewright.tir import schedule as tir_schedule
from tilewright.tir.arithmetic import const_true
from tilewright.tir.buffer import Buffer, decl_buffer
from tilewright.tir.expr import IterVar, ProducerLoad, Reduce, Var
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
    """Declare an intrinsic that computes what `op` computes.

    fcompute(inputs, outputs) takes buffers and returns the body, a statement or call. For reductions that may be split
    it returns a tuple (body, reset, update), in which body can be None. `binds` gives the buffers of tensors; others
    are made with `default_buffer_params` (such as offset_factor). With `scalar_params`, a variable or a list of them,
    the function is fcompute(inputs, outputs, scalars); a call of the intrinsic gives these numbers.
    """
    if not isinstance(op, ComputeOp):
        raise TypeError(f"decl_tensor_intrin describes a compute, but was given a {type(op).__name__}")
    scalars = (scalar_params,) if isinstance(scalar_params, Var) else tuple(scalar_params or ())
    for v in scalars:
        if not isinstance(v, Var):
            raise TypeError(f"decl_tensor_intrin: scalar_params are variables, but one is a {type(v).__name__}: {v}")
    given = dict(binds or {})
    params = dict(default_buffer_params or {})
    buffers = []
    for t in (*op.input_tensors, *op.outputs):
        made = given.get(t)
        buffers.append(made if made is not None else decl_buffer(t.shape, t.dtype, t.op.name, **params))
    count = len(op.input_tensors)
    body = fcompute(buffers[:count], buffers[count:], *([list(scalars)] if scalars else []))
    parts = list(body) if isinstance(body, (tuple, list)) else [body]
    parts = [Evaluate(p) if isinstance(p, PrimExpr) else p for p in parts]
    if not 1 <= len(parts) <= 3 or not all([p is None or isinstance(p, Stmt) for p in parts]):
        raise TypeError(
            f"decl_tensor_intrin: the function of {name} must return a statement or call, or a tuple of body, reset and"
            f" update, but returned {', '.join([type(p).__name__ for p in parts])}"
        )
    return TensorIntrin(name, op, buffers, parts + [None] * (3 - len(parts)), scalars)


class TensorIntrin:
    """The argument of `Stage.tensorize`: a description (`op`), buffers, and up to three bodies."""

    _count: ClassVar[int] = 0

    def __init__(
        self,
        name: str,
        op: ComputeOp,
        buffers: list[Buffer],
        parts: list[Stmt | None],
        scalar_params: tuple[Var, ...] = (),
    ) -> None:
        self.name, self.op, self.buffers, self.scalar_params = name, op, buffers, scalar_params
        self.body, self.reduce_init, self.reduce_update = parts
        self._names: dict[bool, tuple[str, str]] = {}

    @property
    def inputs(self) -> tuple[Tensor, ...]:
        return self.op.input_tensors

    def __call__(self, *args: Any, reduce_axis: Any = None) -> TensorIntrinCall:
        """Make the body of a te.compute from regions of tensors for the inputs, then numbers for the scalar parameters.

        reduce_axis: axes over which the calls accumulate. The intrinsic must then have a reset and an update.
        """
        parts = [a for a in args if isinstance(a, (TensorSlice, ProducerLoad, Tensor))]
        numbers = [a for a in args if not isinstance(a, (TensorSlice, ProducerLoad, Tensor))]
        if len(parts) != len(self.inputs) or len(numbers) != len(self.scalar_params):
            raise ValueError(
                f"intrinsic {self.name} takes {len(self.inputs)} parts of tensors and {len(self.scalar_params)} numbers,"
                f" but was given {len(parts)} and {len(numbers)}"
            )
        axes = (reduce_axis,) if isinstance(reduce_axis, IterVar) else tuple(reduce_axis or ())
        for a in axes:
            if not isinstance(a, IterVar) or a.iter_type != IterVar.CommReduce:
                raise ValueError(f"intrinsic {self.name}: reduce_axis holds axes of te.reduce_axis, but was given {a}")
        if axes and (self.reduce_init is None or self.reduce_update is None):
            raise ValueError(
                f"intrinsic {self.name} accumulates over {', '.join([a.var.name for a in axes])}, so it must have a"
                " reset and an update: let its function return (body, reset, update)"
            )
        if not axes and self.body is None:
            raise ValueError(
                f"intrinsic {self.name} has no body for the whole computation, and no reduce_axis is given"
            )
        found = [_region(self.name, p, want) for p, want in zip(parts, self.inputs, strict=True)]
        scalars = tuple([as_prim_expr(n, f"a number for {self.name}") for n in numbers])
        return TensorIntrinCall(self, tuple([t for t, _ in found]), tuple([r for _, r in found]), axes, scalars)

    def registered(self, split: bool) -> tuple[str, str]:
        """Names of the TensorIR intrinsics (computation or update, reset). split: the initialisation of the reduction
        is separate.
        """
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


class TensorIntrinCall:
    """The result of a te.compute function whose elements an intrinsic writes."""

    def __init__(
        self,
        intrin: TensorIntrin,
        tensors: tuple[Tensor, ...],
        regions: tuple[tuple[Range, ...], ...],
        reduce_axis: tuple[IterVar, ...],
        scalar_inputs: tuple[PrimExpr, ...],
    ) -> None:
        self.intrin, self.tensors, self.regions = intrin, tensors, regions
        self.reduce_axis, self.scalar_inputs = reduce_axis, scalar_inputs


def _region(intrin: str, part: Any, want: Tensor) -> tuple[Tensor, tuple[Range, ...]]:
    """The tensor and the ranges of an argument of an intrinsic."""
    given: tuple[Any, ...] = ()
    if isinstance(part, Tensor):
        tensor = part
    elif isinstance(part, ProducerLoad):
        tensor, given = part.producer, part.indices
    else:
        tensor, given = part.tensor, part.indices
    ranges = []
    for index, dim in zip((*given, *[slice(None)] * (len(tensor.shape) - len(given))), tensor.shape, strict=True):
        if isinstance(index, slice):
            if index.step not in (None, 1):
                raise ValueError(f"intrinsic {intrin}: {part!r} has a step, but only whole ranges can be taken")
            low = 0 if index.start is None else index.start
            stop = as_prim_expr(dim if index.stop is None else index.stop)
            ranges.append(Range.from_min_extent(as_prim_expr(low), Analyzer().simplify(stop - low)))
        else:
            ranges.append(Range.from_min_extent(as_prim_expr(index), as_prim_expr(1)))
    shape = [r.extent for r in ranges]
    lead = len(shape) - len(want.shape)
    if lead < 0 or not structural_equal(tuple(shape[lead:]), want.shape) or tensor.dtype != want.dtype:
        raise ValueError(
            f"intrinsic {intrin}: {want.name} is {want.dtype}{list(want.shape)}, but was given {tensor.name} of"
            f" {tensor.dtype} with a part of {shape}"
        )
    return tensor, tuple(ranges)


def _with_root(func: PrimFunc, **changes: Any) -> BlockRealize:
    """Replace fields of the root block of a function."""
    root: Any = func.body
    return BlockRealize((), const_true(), root.block.replace(**changes))


def _decomposed(func: PrimFunc, name: str) -> tuple[PrimFunc, Stmt]:
    """Divide a reduction into its update and the nest of its initialisation."""
    sch = tir_schedule.Schedule(func)
    block = sch.get_block(name)
    sch.decompose_reduction(block, sch.get_loops(block)[0])
    (both,) = sch.mod.functions.values()
    assert isinstance(both, PrimFunc)
    root: Any = both.body
    reset, update = root.block.body.seq
    return both.replace(body=_with_root(both, body=update)), reset
