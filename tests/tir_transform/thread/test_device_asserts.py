"""LowerDeviceAsserts: what a thread leaves out when its assertion fails."""

from __future__ import annotations

import pytest

from tilewright import tir
from tilewright.ir import DataType, IRModule
from tilewright.tir.transform.function.device_asserts import LowerDeviceAsserts
from tilewright.tir.transform.function.launch import DEVICE_KERNEL_LAUNCH


def lowered(call: tir.PrimExpr) -> tir.Stmt:
    index = tir.Var("index", "int32")
    checked = tir.AssertStmt(index < 8, tir.StringImm("small"), tir.Evaluate(call))
    func = tir.PrimFunc([index], checked).with_attr("calling_conv", DEVICE_KERNEL_LAUNCH)
    return LowerDeviceAsserts()(IRModule({"main": func}))["main"].body


def intrinsic(name: str) -> tir.PrimExpr:
    return tir.Call(DataType("int32"), name, [tir.const(0)] * 5)


@pytest.mark.parametrize(
    "call",
    [
        *map(intrinsic, """tvm_storage_sync tvm_warp_shuffle tvm_mma_sync tvm_fill_fragment mma_fill ptx_ldmatrix
        make_filled_simdgroup_matrix simdgroup_load simdgroup_store simdgroup_multiply_accumulate""".split()),
        tir.call_extern("int32", "__syncthreads"),
        tir.call_pure_extern("int32", "__shfl_xor_sync", -1, 1, 1),
        tir.call_llvm_intrin("void", "llvm.nvvm.barrier0"),
    ],
    ids=str,
)  # fmt: skip
def test_what_threads_do_together_is_done_by_all(call: tir.PrimExpr) -> None:
    body = lowered(call)
    assert isinstance(body, tir.SeqStmt) and len(body.seq) == 2
    assert isinstance(body.seq[0], tir.IfThenElse) and body.seq[0].else_case is None
    assert isinstance(body.seq[1], tir.Evaluate) and body.seq[1].value is call


@pytest.mark.parametrize(
    "call",
    [intrinsic("ptx_cp_async"), tir.call_pure_extern("float32", "expf", tir.const(1.0, "float32"))],
    ids=["copy", "function"],
)
def test_what_threads_do_alone_is_left_out(call: tir.PrimExpr) -> None:
    body = lowered(call)
    assert isinstance(body, tir.IfThenElse) and body.else_case is not None
    assert isinstance(body.then_case, tir.Evaluate) and body.then_case.value is call
