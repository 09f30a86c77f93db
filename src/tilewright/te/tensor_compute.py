"""Blocks for computes whose elements are written by calls of a tensor intrinsic."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from tilewright.ir import IntImm, PrimExpr, Range
from tilewright.te.operation import TensorComputeOp
from tilewright.te.regions import full_region
from tilewright.te.tensor import Tensor
from tilewright.tir.arithmetic import add, cast_to, const_true
from tilewright.tir.buffer import Buffer
from tilewright.tir.expr import IterVar, Var
from tilewright.tir.function import PrimFunc
from tilewright.tir.stmt import (
    Block,
    BlockRealize,
    BufferRegion,
    For,
    ForKind,
    MatchBufferRegion,
    Stmt,
)
from tilewright.tir.stmt_functor import renew_defs, substitute

Convert = Callable[[PrimExpr], PrimExpr]


def tensor_compute_nest(
    op: TensorComputeOp, buffers: Mapping[Tensor, Buffer], outputs: list[Buffer], name: str, convert: Convert
) -> Stmt:
    """Loops around a block in which the buffers of the intrinsic are views of the parts that one call accesses.

    convert: converts an expression over tensors to one over buffers.
    """
    axes = op.loop_axes
    spatial = op.axis[: op.schedulable_ndim]
    loops = [Var(a.var.name, a.var.dtype) for a in axes]
    iter_vars = [IterVar(a.dom, Var(f"v_{a.var.name}", a.var.dtype), a.iter_type) for a in axes]
    # Loops begin at zero, as schedules need them.
    values: list[PrimExpr] = [add(v, a.dom.min) for v, a in zip(loops, axes, strict=True) if a.dom is not None]
    env: dict[Var, PrimExpr] = {a.var: i.var for a, i in zip(axes, iter_vars, strict=True)}
    if not spatial:
        zero = IntImm("int32", 0)
        unit = Range.from_min_extent(zero, IntImm("int32", 1))
        iter_vars.insert(0, IterVar(unit, Var("v_u", "int32"), IterVar.DataPar))
        values.insert(0, zero)

    def here(e: PrimExpr) -> PrimExpr:
        found: PrimExpr = substitute(convert(e), env)
        return found

    reads = []
    for tensor, region in zip(op.inputs, op.input_regions, strict=True):
        ranges = tuple([Range.from_min_extent(here(r.min), here(r.extent)) for r in region])
        reads.append(BufferRegion(buffers[tensor], ranges))
    point = [Range.from_min_extent(env[a.var], IntImm(a.var.dtype, 1)) for a in spatial]
    rest = [a.dom for a in op.axis[op.schedulable_ndim :] if a.dom is not None]
    writes = [BufferRegion(b, (*point, *rest)) for b in outputs]
    init, body, views = _instance(op)
    scalars = {v: cast_to(here(e), v.dtype) for v, e in zip(op.intrin.scalar_params, op.scalar_inputs, strict=True)}
    matched = [MatchBufferRegion(v, r) for v, r in zip(views, (*reads, *writes), strict=True)]
    others = dict.fromkeys(t for t in op.input_tensors if t not in op.inputs)
    block = Block(
        tuple(iter_vars),
        (*reads, *[full_region(buffers[t]) for t in others]),
        tuple(writes),
        name,
        substitute(body, scalars),
        None if init is None else substitute(init, scalars),
        (),
        tuple(matched),
    )
    nest: Stmt = BlockRealize(tuple(values), const_true(), block)
    for loop, axis in zip(reversed(loops), reversed(axes), strict=True):
        assert axis.dom is not None, "an axis of a compute has a domain"
        nest = For(loop, IntImm(loop.dtype, 0), axis.dom.extent, ForKind.SERIAL, nest)
    return nest


def _instance(op: TensorComputeOp) -> tuple[Stmt | None, Stmt, list[Buffer]]:
    """(reset, body, buffers) of the intrinsic, with new variables, so that two calls share none."""
    intrin = op.intrin
    init = intrin.reduce_init if op.reduce_axis else None
    body = intrin.reduce_update if op.reduce_axis else intrin.body
    params = tuple([Var(f"var_{b.name}", "handle") for b in intrin.buffers])
    root = BlockRealize((), const_true(), Block((), (), (), "", body, init))
    made: Any = renew_defs(PrimFunc(params, root, None, dict(zip(params, intrin.buffers, strict=True)), {}))
    return made.body.block.init, made.body.block.body, [made.buffer_map[p] for p in made.params]
