"""What a language cannot express is an error that names the kernel, the statement and the target, with what to do."""

from __future__ import annotations

from typing import Any

import pytest

import tilewright as tvm
from tests.codegen.device.kernels import elementwise
from tilewright import te, tir
from tilewright.support.errors import TVMError


def refused(func: tir.PrimFunc, target: str) -> str:
    with pytest.raises(TVMError) as caught:
        tvm.build(func, target=target)
    return str(caught.value)


def test_types() -> None:
    message = refused(elementwise("float64", 1, lambda a: a + 1.0), "metal")
    assert message.startswith(
        "Metal code generation of function 'main_kernel': Metal has no float64; cast to float32 (target: metal "
    )
    message = refused(elementwise("int4", 1, lambda a: a + a), "opencl")
    assert "OpenCL C has no values of type int4; cast them to a type that it has (target: opencl " in message


def test_intrinsics() -> None:
    def unknown(a: Any) -> Any:
        return tir.call_intrin("float32", "tir.texture2d_load", a)

    for target, language in (("cuda", "CUDA C"), ("opencl", "OpenCL C"), ("metal", "Metal")):
        message = refused(elementwise("float32", 1, unknown), target)
        assert f"{language} has no rule for the intrinsic tir.texture2d_load; lower it by" in message
        assert "in the statement: D[" in message and f"(target: {target} " in message

    def next_float(a: Any) -> Any:
        return tir.nextafter(a, a)

    assert "Metal has no" in refused(elementwise("float32", 1, next_float), "metal")


def matrix_units() -> tir.PrimFunc:
    from tests.codegen.device.kernels import KERNELS

    return KERNELS["wmma_matmul"]()


def test_architectures() -> None:
    message = refused(matrix_units(), "cuda -arch=sm_61")
    assert "fragments of float32 need sm_70; give the target -arch=sm_70 or a later one" in message
    message = refused(matrix_units(), "opencl")
    assert "OpenCL C has no storage of scope 'wmma.accumulator'" in message
    message = refused(elementwise("float32", 1, lambda a: a), "cuda -arch=ada")
    assert "the architecture of target cuda is written like \"sm_80\", but 'ada' was given" in message


def test_storage_of_unknown_size() -> None:
    n = te.var("n")
    b = tir.decl_buffer((n,), "float32", "B")
    local = tir.decl_buffer((n,), "float32", "L", scope="local")
    axis = tir.IterVar(None, tir.Var("tx", "int32"), 1, "threadIdx.x")
    store = tir.BufferStore(local, tir.BufferLoad(b, [axis.var]), [axis.var])
    back = tir.BufferStore(b, tir.BufferLoad(local, [axis.var]), [axis.var])
    body = tir.Allocate(local.data, "float32", [n], tir.const(True, "bool"), tir.SeqStmt([store, back]))
    func = tir.PrimFunc([b, n], tir.AttrStmt(axis, "thread_extent", tir.IntImm("int32", 4), body))
    message = refused(func, "opencl")
    assert "the size of L is n; storage of kernels has a constant size" in message
