"""Memory of a device for what lies between the kernels of one function (LowerDeviceWorkspaces)."""

from __future__ import annotations

from typing import Any

from tilewright.ir import DataType, IRModule, PrimExpr
from tilewright.ir.transform import Pass, PassContext
from tilewright.node import Mutator, on
from tilewright.tir.arithmetic import cast_to, const, multiply
from tilewright.tir.expr import Call, StringImm
from tilewright.tir.function import PrimFunc
from tilewright.tir.stmt import Allocate, Evaluate, LetStmt, Stmt, stmt_seq
from tilewright.tir.transform.base import prim_func_pass

TAKE, GIVE = "__tvm_take_workspace", "__tvm_give_workspace"
"""Functions of the runtime: (type of the device, bytes) -> address on the device that is set; (type, address)."""


class _Workspaces(Mutator):
    def __init__(self, device_type: int) -> None:
        self.device_type = const(device_type, "int32")

    @on(PrimExpr)
    def _expr(self, e: PrimExpr) -> PrimExpr:
        return e

    @on(Allocate)
    def _allocate(self, s: Allocate) -> Stmt:
        size: PrimExpr = const(s.dtype.bytes * s.dtype.lanes, "int64")
        for extent in s.extents:
            size = multiply(size, cast_to(extent, "int64"))
        take = Call(DataType("handle"), "tvm_call_packed", (StringImm(TAKE), self.device_type, size))
        give = Call(DataType("int32"), "tvm_call_packed", (StringImm(GIVE), self.device_type, s.buffer_var))
        return LetStmt(s.buffer_var, take, stmt_seq(self.visit(s.body), Evaluate(give)))


def LowerDeviceWorkspaces() -> Pass:
    """Replace the allocations of host functions, which only their kernels access, by memory of the device. Run SplitHostDevice first.

    Functions without a target for a device stay, and kernels.
    """

    def run(func: PrimFunc, mod: IRModule, ctx: PassContext) -> PrimFunc:
        target: Any = func.attrs.get("target")
        if getattr(target, "host", None) is None or func.attrs.get("tir.is_global_func"):
            return func
        body = _Workspaces(target.kind.device_type).visit(func.body)
        return func if body is func.body else func.replace(body=body)

    made: Pass = prim_func_pass(run, name="tir.LowerDeviceWorkspaces")
    return made


__all__ = ["GIVE", "TAKE", "LowerDeviceWorkspaces"]
