"""LowerScalableVectors: vectors of as many lanes as the machine's registers hold become vectors of a number of lanes.

A[T.Ramp(0, 1, T.vscale() * 4)] = T.Broadcast(x, T.vscale() * 4)   -->   A[0:8] = T.Broadcast(x, 8)          with 256 bits
"""

from __future__ import annotations

from typing import Any

from tilewright.ir import DataType, IntImm, IRModule, PrimExpr
from tilewright.ir.dtype import MOST_SCALE, ScalableLanes
from tilewright.ir.transform import Pass, PassContext
from tilewright.node import any_node, on
from tilewright.runtime import Device
from tilewright.target import Target
from tilewright.tir.arithmetic import cast_to, less
from tilewright.tir.expr import Broadcast, Call, Cast, Let, Ramp, Var
from tilewright.tir.function import PrimFunc
from tilewright.tir.stmt import LetStmt, Stmt
from tilewright.tir.substitution import BufferMutator
from tilewright.tir.transform.base import call_name, prim_func_pass

BITS = 128
"""Of vscale 1."""


def vector_scale(target: Target) -> int:
    """vscale of a target: how many times 128 bits its vectors hold, as far as is known; at least 1, and 1 for devices."""
    return max(1, target.cpu.vector_bits // BITS) if target.kind.device_type == Device.kDLCPU else 1


def is_scalable(node: object) -> bool:
    """Whether a node by itself depends on vscale: a call of it, a scalable vector, or a mask of lanes."""
    if isinstance(node, Call) and call_name(node) in ("vscale", "get_active_lane_mask"):
        return True
    return isinstance(node, PrimExpr) and isinstance(node.dtype.lanes, ScalableLanes)


class FixedLanes(BufferMutator):
    """The program with a number for vscale."""

    def __init__(self, scale: int) -> None:
        super().__init__()
        self.scale = scale
        self.vectors: dict[Var, Var] = {}

    def _lanes(self, lanes: int) -> int:
        return lanes.factor * self.scale if isinstance(lanes, ScalableLanes) else lanes

    def _dtype(self, dtype: DataType) -> DataType:
        return dtype.with_lanes(self._lanes(dtype.lanes))

    @on(Var)
    def _var(self, v: Var) -> Var:
        if not isinstance(v.dtype.lanes, ScalableLanes):
            return v
        return self.vectors.setdefault(v, Var(v.name, self._dtype(v.dtype)))

    @on(Ramp)
    def _ramp(self, e: Ramp) -> PrimExpr:
        return Ramp(self.visit(e.base), self.visit(e.stride), self._lanes(e.lanes), e.span)

    @on(Broadcast)
    def _broadcast(self, e: Broadcast) -> PrimExpr:
        return Broadcast(self.visit(e.value), self._lanes(e.lanes), e.span)

    @on(Cast)
    def _cast(self, e: Cast) -> PrimExpr:
        return Cast(self._dtype(e.dtype), self.visit(e.value), e.span)

    @on(Call)
    def _call(self, e: Call) -> PrimExpr:
        name = call_name(e)
        if name == "vscale":
            return IntImm(e.dtype, self.scale)
        args = tuple([self.visit(a) for a in e.args])
        if name == "get_active_lane_mask":
            base, limit = [cast_to(a, max([x.dtype for x in args], key=lambda t: t.bits)) for a in args]
            lanes = self._lanes(e.dtype.lanes)
            mask = less(Ramp(base, IntImm(base.dtype, 1), lanes), Broadcast(limit, lanes))
            return cast_to(mask, self._dtype(e.dtype))
        return Call(self._dtype(e.dtype), e.op, args, e.span)

    @on(Let, LetStmt)
    def _let(self, s: Let | LetStmt) -> Any:
        body: Any = self.visit(s.body)
        return type(s)(self._var(s.var), self.visit(s.value), body, s.span)


def fix_lanes(func: PrimFunc, scale: int) -> PrimFunc:
    """The function with vscale = `scale`."""
    if not any_node(func.body, is_scalable):
        return func
    body: Stmt = FixedLanes(scale).visit(func.body)
    return func.replace(body=body)


def LowerScalableVectors(scale: int | None = None) -> Pass:
    """Give scalable vectors, and vscale() elsewhere, the width of a machine's vectors. scale: vscale; None: that of the target of each
    function, else of the current one; 1 without one."""

    if scale is not None and not 1 <= scale <= MOST_SCALE:
        raise ValueError(f"LowerScalableVectors takes a vscale of 1 to {MOST_SCALE}, but was given {scale}")

    def run(func: PrimFunc, mod: IRModule, ctx: PassContext) -> PrimFunc:
        if scale is not None:
            return fix_lanes(func, scale)
        target = func.attrs.get("target") or Target.current(allow_none=True)
        return fix_lanes(func, 1 if target is None else vector_scale(Target(target)))

    made: Pass = prim_func_pass(run, name="tir.LowerScalableVectors")
    return made


__all__ = ["FixedLanes", "LowerScalableVectors", "fix_lanes", "is_scalable", "vector_scale"]
