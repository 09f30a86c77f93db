"""Types of the user's own, and where functions want their arguments to be."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tilewright as tvm
from tests.tir_transform.thread.test_threads import nodes
from tilewright import te, tir
from tilewright.codegen.interp import run
from tilewright.ir import IRModule
from tilewright.ir.types import FuncType, TensorType
from tilewright.node import assert_structural_equal
from tilewright.script import from_source
from tilewright.script import tir as T
from tilewright.support.errors import TVMError
from tilewright.target import Target
from tilewright.tir import transform as P
from tilewright.tir.analysis import (
    apply_prim_func_arg_and_result_memory_constraints,
    get_prim_func_arg_and_result_memory_constraints,
    get_vtcm_compaction_passes,
    has_if_then_else,
)

CUSTOM = "custom[fixed]32"


def program() -> Any:
    """B = cast(cast(A) + cast(A)) through numbers in 16.16 fixed point."""
    a, b = tir.decl_buffer((8,), name="A"), tir.decl_buffer((8,), name="B")
    data = tir.Var("F", tir.PointerType(tir.PrimType(CUSTOM), "global"))
    f, i = tir.decl_buffer((8,), CUSTOM, "F", data=data), tir.Var("i", "int32")
    x = tir.Cast(CUSTOM, a[i])
    body = tir.stmt_seq(tir.BufferStore(f, tir.Add(x, x), [i]), tir.BufferStore(b, tir.Cast("float32", f[i]), [i]))
    loop = tir.For(i, 0, 8, 0, body)
    return tir.PrimFunc([a, b], tir.Allocate(data, CUSTOM, [8], tir.const(True, "bool"), loop))


def test_custom_types_become_bits() -> None:
    datatype = tvm.target.datatype
    datatype.register("fixed", 150)
    assert datatype.get_type_code("fixed") == 150 and datatype.get_type_name(150) == "fixed"
    assert datatype.get_type_registered(150) and not datatype.get_type_registered(151)
    mod = IRModule({"main": program()})
    with pytest.raises(TVMError, match="no lowering of Cast fixed float is registered for target llvm"):
        P.LowerCustomDatatypes()(mod)

    def to_fixed(op: Any) -> Any:
        return tir.Cast("uint32", op.value * tir.const(65536.0, "float32"))

    def from_fixed(op: Any) -> Any:
        return tir.Cast("float32", op.value) / tir.const(65536.0, "float32")

    datatype.register_op(to_fixed, "Cast", "llvm", "float", "fixed")
    datatype.register_op(from_fixed, "Cast", "llvm", "fixed", "float")
    datatype.register_op(lambda op: op.a + op.b, "Add", "llvm", "fixed")
    out = P.LowerCustomDatatypes()(mod)
    assert "custom" not in out.script()
    a, b = np.arange(8, dtype="float32") / 4, np.zeros(8, "float32")
    run(out, [a, b])
    np.testing.assert_array_equal(b, a * 2)


def test_custom_operations_as_external_calls() -> None:
    datatype = tvm.target.datatype
    datatype.register("posit", 151)
    add = datatype.create_lower_func({32: "Posit32Add", 16: "Posit16Add"})
    x, y = (tir.Var(n, "custom[posit]16") for n in "xy")
    call = add(tir.Add(x, y))
    assert call.dtype == "uint16" and call.args[0].value == "Posit16Add"
    cast = datatype.create_lower_func({(32, 16): "FloatToPosit16"})(
        tir.Cast("custom[posit]16", tir.Var("f", "float32"))
    )
    assert cast.args[0].value == "FloatToPosit16"
    with pytest.raises(RuntimeError, match="missing lowering function for Add of 8 bits"):
        add(tir.Add(tir.Var("x", "custom[posit]8"), tir.Var("y", "custom[posit]8")))
    with pytest.raises(ValueError, match="the code of posit must be 129 or more, but is 5"):
        datatype.register("posit", 5)
    with pytest.raises(ValueError, match="the code 151 of other is that of posit already"):
        datatype.register("other", 151)


@T.prim_func
def copy(A: T.Buffer((8,), "float32"), B: T.Buffer((8,), "float32")):
    for i in range(8):
        B[i] = A[i]


def test_memory_of_arguments_and_results() -> None:
    tensor = TensorType((8,), "float32")
    ty = FuncType((tensor,), tensor)
    assert get_prim_func_arg_and_result_memory_constraints(copy, ty) == ["", ""]
    moved = apply_prim_func_arg_and_result_memory_constraints(copy, ty, ["global.vtcm", ""])
    assert get_prim_func_arg_and_result_memory_constraints(moved, ty) == ["global.vtcm", ""]
    (load,) = nodes(IRModule({"main": moved}), tir.BufferLoad)
    assert load.buffer.scope() == "global.vtcm"
    with pytest.raises(TVMError, match="buffer A must be in 'global.vtcm', so it cannot be in 'global.texture'"):
        apply_prim_func_arg_and_result_memory_constraints(moved, ty, ["global.texture", ""])


def test_statements_with_conditions() -> None:
    assert not has_if_then_else(copy.body)
    assert has_if_then_else(tir.IfThenElse(tir.Var("b", "bool"), tir.Evaluate(0)))


def test_vtcm_of_a_scheduled_module() -> None:
    @T.prim_func
    def f(A: T.Buffer((64,), "float32")):
        V = T.alloc_buffer((64,), "float32", scope="global.vtcm")
        for i in range(64):
            with T.block("V"):
                v = T.axis.spatial(64, i)
                V[v] = A[v]
        for i in range(64):
            with T.block("A"):
                v = T.axis.spatial(64, i)
                A[v] = V[v]

    mod = tvm.transform.Sequential(get_vtcm_compaction_passes())(IRModule({"main": f}))
    assert tir.analysis.calculate_allocated_bytes(mod)["main"] == {"global.vtcm": 256}


def test_default_schedule_for_gpus() -> None:
    @T.prim_func
    def f(A: T.Buffer((6, 100), "float32"), B: T.Buffer((6,), "float32")):
        C = T.alloc_buffer((6, 100), "float32")
        for i, j in T.grid(6, 100):
            with T.block("C"):
                vi, vj = T.axis.remap("SS", [i, j])
                C[vi, vj] = A[vi, vj] * T.float32(2)
        for i, j in T.grid(6, 100):
            with T.block("B"):
                vi, vj = T.axis.remap("SR", [i, j])
                with T.init():
                    B[vi] = T.float32(0)
                B[vi] = B[vi] + C[vi, vj]

    mod = IRModule({"main": f})
    assert_structural_equal(P.DefaultGPUSchedule()(mod), mod)
    with Target("cuda"):
        out = P.DefaultGPUSchedule()(mod)
    tags = [n.thread_binding.thread_tag for n in nodes(out, tir.For) if n.thread_binding is not None]
    assert sorted(tags) == ["blockIdx.x"] * 2 + ["threadIdx.x"] * 2 and out["main"].attrs["tir.is_scheduled"]
    assert P.DefaultGPUSchedule()(out) is not None
    a, b = np.arange(600, dtype="float32").reshape(6, 100), np.zeros(6, "float32")
    run(out, [a, b])
    np.testing.assert_array_equal(b, 2 * a.sum(1))


@pytest.mark.parametrize("extents", [(16, 14, 14), (3, 1030), (5000, 3), (1, 1), (7,), (2, 1024)])
def test_default_schedule_of_any_extents(extents: tuple[int, ...]) -> None:
    """Elements whose axes are remainders of blocks and threads together, more than a block holds, and just one."""
    x = te.placeholder(extents, name="x")
    mod = IRModule({"main": te.create_prim_func([x, te.compute(extents, lambda *i: x[i] * 2.0, name="y")])})
    with Target("cuda"):
        out = P.DefaultGPUSchedule()(mod)
    bound = {n.thread_binding.thread_tag: n.extent.value for n in nodes(out, tir.For) if n.thread_binding is not None}
    assert sorted(bound) == ["blockIdx.x", "threadIdx.x"] and bound["threadIdx.x"] <= 1024
    a = np.random.default_rng(0).standard_normal(extents).astype("float32")
    b = np.zeros_like(a)
    run(out, [a, b])
    np.testing.assert_array_equal(b, 2 * a)


def test_prim_func_passes_have_their_class() -> None:
    assert isinstance(P.Simplify(), P.PrimFuncPass)

    @P.prim_func_pass(opt_level=1, name="mine")
    def mine(func: Any, mod: Any, ctx: Any) -> Any:
        return func.with_attr("seen", True)

    @P.prim_func_pass(opt_level=1)
    class Marked:
        def __init__(self, key: str) -> None:
            self.key = key

        def transform_function(self, func: Any, mod: Any, ctx: Any) -> Any:
            return func.with_attr(self.key, True)

    assert isinstance(mine, P.PrimFuncPass) and isinstance(Marked("a"), P.PrimFuncPass)
    out = tvm.transform.Sequential([mine, Marked("own")])(IRModule({"main": copy}))
    assert out["main"].attrs["seen"] and out["main"].attrs["own"]


def test_storage_side_by_side_counts_once() -> None:
    a = tir.decl_buffer((8,), name="A")
    parts = [
        tir.Allocate(v, "float32", [n], tir.const(True, "bool"), tir.BufferStore(a, 1.0, [0]))
        for v, n in ((tir.Var(f"v{n}", tir.PointerType(tir.PrimType("float32"), "local")), n) for n in (4, 16))
    ]
    func = tir.PrimFunc([a], tir.stmt_seq(*parts))
    assert tir.analysis.calculate_allocated_bytes(func) == {"main": {"local": 64}}
    assert tir.analysis.calculate_workspace_bytes(func, 1) == 64


def test_functions_may_say_how_much_they_compute() -> None:
    mod = IRModule({"f": copy.with_attr("estimated_flops", 5.0), "g": copy})
    assert tir.analysis.estimate_tir_flops(mod) == 5.0


def test_one_number_is_the_work_of_one_thread() -> None:
    """Also of a block without axes, which is the outermost one."""
    program = """
@T.prim_func
def main(A: T.Buffer((), "float32"), B: T.Buffer((), "float32")):
    with T.block("B"):
        T.reads(A[()])
        T.writes(B[()])
        B[()] = A[()] + T.float32(1)
"""
    with Target("cuda"):
        text = P.DefaultGPUSchedule()(IRModule({"main": from_source(program)})).script()
    assert text.count("thread_binding(1") == 2 and 'T.block("B")' in text
