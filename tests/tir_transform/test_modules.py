"""Passes on modules and calls: constants, layouts of parameters, inlining, launches, packed calls, float8 storage, verifiers."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

from tests.tir_transform.test_moving_code import calls
from tests.tir_transform.thread.test_threads import allocate, module, nodes, outputs, shared, thread
from tilewright import tir
from tilewright.codegen.interp import run
from tilewright.ir import GlobalVar, IRModule
from tilewright.node import structural_equal
from tilewright.script import tir as T
from tilewright.support.errors import TVMError
from tilewright.target import Target
from tilewright.tir import IndexMap
from tilewright.tir import transform as P

RNG = np.random.default_rng(1)


def constant(values: Any, out: Any) -> Any:
    """out[i] = values[i]."""
    data = tir.Var("C", tir.PointerType(tir.PrimType("float32"), "global"))
    view, i = tir.decl_buffer((len(values),), name="C", data=data), tir.Var("i", "int32")
    body = tir.For(i, 0, len(values), 0, tir.BufferStore(out, view[i], [i]))
    return tir.AllocateConst(data, "float32", [len(values)], np.asarray(values, "float32"), body)


def test_constants_are_taken_out_once() -> None:
    a, b = tir.decl_buffer((3,), name="A"), tir.decl_buffer((3,), name="B")
    funcs = {name: tir.PrimFunc([x], constant([1, 2, 3], x)) for name, x in (("f", a), ("g", b))}
    out = P.ExtractPrimFuncConstants()(IRModule(funcs))
    assert len(out.attrs["constants"]) == 1
    for func in out.functions.values():
        assert func.body.annotations["irmod_storage_idx"] == 0
    array = np.zeros(3, "float32")
    run(out["f"], [array])
    assert array.tolist() == [1, 2, 3]
    assert P.ExtractPrimFuncConstants()(out).attrs["constants"] == out.attrs["constants"]


@T.prim_func
def doubled(A: T.Buffer((8, 8), "float32"), B: T.Buffer((8, 8), "float32")):
    for i, j in T.grid(8, 8):
        with T.block("B"):
            vi, vj = T.axis.remap("SS", [i, j])
            B[vi, vj] = A[vi, vj] * T.float32(2)


def test_layouts_of_parameters() -> None:
    a = next(b for b in doubled.buffer_map.values() if b.name == "A")
    tiled = IndexMap.from_func(lambda i, j: [i // 4, j // 4, i % 4, j % 4])
    func = doubled.with_attr("layout_transform_map", {a.data: [tiled]})
    out = P.ApplyLayoutTransforms()(IRModule({"main": func}))
    assert "layout_transform_map" not in out["main"].attrs
    x = RNG.standard_normal((8, 8)).astype("float32")
    y = np.zeros((8, 8), "float32")
    run(out, [np.ascontiguousarray(x.reshape(2, 4, 2, 4).transpose(0, 2, 1, 3)), y])
    np.testing.assert_array_equal(y, x * 2)
    unknown = doubled.with_attr("layout_transform_map", {tir.Var("X", "handle"): [tiled]})
    with pytest.raises(TVMError, match="X is not a buffer parameter of the function"):
        P.ApplyLayoutTransforms()(IRModule({"main": unknown}))


@T.prim_func
def rewritten(W: T.Buffer((8, 8), "float32"), B: T.Buffer((8, 8), "float32")):
    V = T.alloc_buffer((2, 8, 4), "float32")
    for k, i, j in T.grid(2, 8, 4):
        with T.block("rewrite"):
            vk, vi, vj = T.axis.remap("SSS", [k, i, j])
            T.block_attr({"meta_schedule.layout_rewrite_preproc": True})
            V[vk, vi, vj] = W[vi, vk * 4 + vj]
    for i, j in T.grid(8, 8):
        with T.block("B"):
            vi, vj = T.axis.remap("SS", [i, j])
            B[vi, vj] = V[vj // 4, vi, vj % 4] + T.float32(1)


def test_weights_come_in_their_new_layout() -> None:
    out = P.RemoveWeightLayoutRewriteBlock()(IRModule({"main": rewritten}))
    assert not [n for n in nodes(out, tir.Block) if n.name_hint == "rewrite" or n.alloc_buffers]
    w, b = RNG.standard_normal((8, 8)).astype("float32"), np.zeros((8, 8), "float32")
    run(out, [np.ascontiguousarray(w.reshape(8, 2, 4).transpose(1, 0, 2)), b])
    np.testing.assert_array_equal(b, w + 1)


@pytest.mark.parametrize("skip", [False, True])
def test_constant_weights_are_rearranged(skip: bool) -> None:
    w = RNG.standard_normal((8, 8)).astype("float32")
    (pw, wb), (pb, bb) = list(rewritten.buffer_map.items())
    body = tir.AllocateConst(wb.data, "float32", [8, 8], w, rewritten.body)
    func = rewritten.replace(params=(pb,), buffer_map={pb: bb}, body=body)
    out = P.RemoveWeightLayoutRewriteBlock(skip)(IRModule({"main": func}))
    (made,) = nodes(out, tir.AllocateConst)
    assert [int(e) for e in made.extents] == [2, 8, 4]
    if not skip:
        b = np.zeros((8, 8), "float32")
        run(out, [b])
        np.testing.assert_array_equal(b, w + 1)


def test_private_functions_are_inlined() -> None:
    a = tir.decl_buffer((16,), "int32", "A")
    g, k, n = GlobalVar("put"), tir.Var("k", "int32"), tir.Var("n", "int32")
    data = tir.Var("p", tir.PointerType(tir.PrimType("int32"), "global"))
    view = tir.decl_buffer((16,), "int32", "p", data=data)
    i = tir.Var("i", "int32")
    put = tir.PrimFunc([data, k, n], tir.For(i, 0, n, 0, tir.BufferStore(view, i + k, [i + k])))
    body = tir.stmt_seq(*[tir.Evaluate(tir.call_tir(g, a.data, at, 4)) for at in (0, 4, 8)])
    main = tir.PrimFunc([a], body, attrs={"global_symbol": "main"})
    out = P.InlinePrivateFunctions()(IRModule({GlobalVar("main"): main, g: put}))
    assert [v.name_hint for v in out.functions] == ["main"] and tir.analysis.verify_ssa(out["main"])
    array = np.zeros(16, "int32")
    run(out, [array])
    assert array.tolist() == [*range(12), 0, 0, 0, 0]
    exposed = IRModule({GlobalVar("main"): main, g: put.with_attr("global_symbol", "put")})
    assert P.InlinePrivateFunctions()(exposed) is exposed
    endless = put.replace(body=tir.Evaluate(tir.call_tir(g, data, k, n)))
    assert len(P.InlinePrivateFunctions()(IRModule({GlobalVar("main"): main, g: endless})).functions) == 2


def test_loops_that_are_left_early_are_marked() -> None:
    i, j = tir.Var("i", "int32"), tir.Var("j", "int32")
    leave = tir.IfThenElse(j > 2, tir.Evaluate(tir.call_extern("void", "break")))
    out = P.AnnotateIrregularLoop()(module(tir.For(i, 0, 8, 0, tir.For(j, 0, 8, 0, leave))))
    outer = out["main"].body
    assert not outer.annotations and outer.body.annotations == {"irregular_loop_mark": 1}


# --- kernels


def test_kernels_are_launched_through_packed_calls() -> None:
    a, n = tir.decl_buffer((64,), name="A"), tir.Var("n", "int32")
    dyn = shared("S", 32, scope="shared.dyn")
    target = Target("cuda", host="llvm")

    def body(tx: Any) -> Any:
        return allocate(dyn, tir.stmt_seq(tir.BufferStore(dyn, 1.0, [tx]), tir.BufferStore(a, dyn[tx], [tx])))

    func = tir.PrimFunc([a, n], thread("blockIdx.x", n, lambda bx: thread("threadIdx.x", 32, body)))
    mod = IRModule({"main": func.with_attrs({"global_symbol": "main", "target": target})})
    mod = P.SplitHostDevice()(P.AnnotateDeviceRegions()(mod))
    out = P.LowerDeviceKernelLaunch()(mod)
    kernel = out["main_kernel"]
    assert kernel.attrs["tir.kernel_launch_params"] == ("blockIdx.x", "threadIdx.x", "tir.use_dyn_shared_memory")
    assert kernel.attrs["calling_conv"] == 2
    (call,) = [c for c in nodes(out, tir.Call) if c.op.name == "tir.tvm_call_packed"]
    assert call.args[0].value == "main_kernel"
    assert [str(x) for x in call.args[-3:]] == ["n", "32", "128"]


def test_kernels_whose_blocks_wait_for_each_other_are_launched_at_once() -> None:
    """A barrier of all blocks is a property of the launch, to which no argument belongs."""
    a, target = tir.decl_buffer((64,), name="A"), Target("cuda", host="llvm")
    wait = tir.Evaluate(tir.call_intrin("int32", "tir.tvm_storage_sync", "global"))

    def body(tx: Any) -> Any:
        return tir.stmt_seq(tir.BufferStore(a, 1.0, [tx]), wait, tir.BufferStore(a, a[63 - tx], [tx]))

    func = tir.PrimFunc(
        [a], thread("blockIdx.x", 2, lambda bx: thread("threadIdx.x", 32, lambda tx: body(bx * 32 + tx)))
    )
    mod = IRModule({"main": func.with_attrs({"global_symbol": "main", "target": target})})
    out = P.LowerDeviceKernelLaunch()(P.SplitHostDevice()(P.AnnotateDeviceRegions()(mod)))
    launch = out["main_kernel"].attrs["tir.kernel_launch_params"]
    assert launch == ("blockIdx.x", "threadIdx.x", "tir.use_cooperative_launch")
    (call,) = [c for c in nodes(out, tir.Call) if c.op.name == "tir.tvm_call_packed"]
    assert [str(x) for x in call.args[-2:]] == ["2", "32"]


# --- packed calls


def test_arguments_of_packed_calls_are_put_on_stacks() -> None:
    a = tir.decl_buffer((4, 8), name="A")
    call = tir.call_packed("f", a, 3, 1.5, "text")
    out = P.LowerTVMBuiltin()(module(tir.Evaluate(call), a))
    names = calls(out)
    assert (
        names.count("tvm_struct_set") == 10 + 4
        and "tvm_call_packed_lowered" in names
        and "tvm_call_packed" not in names
    )
    lowered = next(c for c in nodes(out, tir.Call) if c.op.name == "tir.tvm_call_packed_lowered")
    assert [int(x) for x in lowered.args[-2:]] == [0, 4]
    stacks = {n.var.name: n.value for n in nodes(out, tir.LetStmt)}
    assert int(stacks["stack_value"].args[1]) == 4 and int(stacks["stack_array"].args[1]) == 1
    tir.analysis.verify_well_formed(out)


def test_lowered_calls_pass_the_same_arguments() -> None:
    a, i = tir.decl_buffer((4, 8), name="A"), tir.Var("i", "int32")
    calls_made = tir.stmt_seq(
        tir.Evaluate(tir.call_packed("f", a, i, 1.5, "text")), tir.Evaluate(tir.call_packed("g", i + 1, i * 2))
    )
    mod = module(tir.For(i, 0, 3, 0, calls_made), a)

    def record(program: IRModule) -> list[Any]:
        seen: list[Any] = []

        def take(*args: Any) -> None:
            seen.append([x.tolist() if isinstance(x, np.ndarray) else x for x in args])

        run(program, [np.arange(32, dtype="float32").reshape(4, 8)], externs={"f": take, "g": take})
        return seen

    lowered = P.LowerTVMBuiltin()(mod)
    assert record(lowered) == record(mod) and len(record(mod)) == 6


def test_stacks_are_used_again_and_belong_to_threads() -> None:
    i = tir.Var("i", "int32")
    two = tir.stmt_seq(tir.Evaluate(tir.call_packed("f", i, i)), tir.Evaluate(tir.call_packed("g", i)))
    out = P.LowerTVMBuiltin()(module(tir.For(i, 0, 8, tir.ForKind.PARALLEL, two)))
    loop = out["main"].body
    assert isinstance(loop, tir.For)
    (value,) = nodes(out, tir.LetStmt)
    assert int(value.value.args[1]) == 2


def test_large_storage_comes_from_the_workspace() -> None:
    s, small = shared("S", 1024, scope="global"), shared("R", 16, scope="global")
    out = P.LowerTVMBuiltin()(module(allocate(s, allocate(small, tir.BufferStore(s, 1.0, [0])))))
    assert calls(out).count("TVMBackendAllocWorkspace") == 1 and calls(out).count("TVMBackendFreeWorkspace") == 1
    assert len(nodes(out, tir.Allocate)) == 1


def test_pointers_become_descriptors() -> None:
    a = tir.decl_buffer((4, 8), name="A")
    call = tir.call_intrin("int32", "tir.tvm_call_cpacked", "f", a.data, 3)
    out = P.LegalizePackedCalls()(module(tir.Evaluate(call), a))
    (made,) = [c for c in nodes(out, tir.Call) if c.op.name == "tir.tvm_stack_make_array"]
    assert int(made.args[3]) == 2
    assert P.LegalizePackedCalls()(out)["main"].body is out["main"].body


# --- float8


@pytest.mark.parametrize("dtype", ["float8_e4m3fn", "float8_e5m2"])
def test_float8_as_integers(dtype: str) -> None:
    kind = getattr(ml_dtypes, dtype)

    @T.prim_func
    def f(
        A: T.Buffer((256,), dtype),
        B: T.Buffer((4096,), "float32"),
        C: T.Buffer((256,), "float32"),
        D: T.Buffer((4096,), dtype),
    ):
        for i in range(256):
            C[i] = T.Cast("float32", A[i])
        for i in range(4096):
            D[i] = T.Cast(dtype, B[i])

    out = P.FP8StorageLegalize()(IRModule({"main": f}))
    assert "float8" not in out.script()
    bits = np.arange(256, dtype="uint8")
    rng = np.random.default_rng(5)
    scale = np.exp2(rng.uniform(-22, 18, 4096))
    values = (rng.standard_normal(4096) * scale).astype("float32")
    values[:8] = [np.inf, -np.inf, np.nan, 0.0, -0.0, 448, 464, 1e30]
    every = bits.view(kind).astype("float32")
    finite = every[np.isfinite(every)]
    # Halfway between neighbours, where ties go to the even one.
    middle = np.sort(finite)
    middle = (middle[1:] + middle[:-1]) / 2
    values[8 : 8 + len(middle)] = middle
    c, d = np.zeros(256, "float32"), np.zeros(4096, "uint8")
    with np.errstate(all="ignore"):
        run(out, [bits, values, c, d])
        wanted = values.astype(kind)
    np.testing.assert_array_equal(c, every)
    nan = np.isnan(wanted.astype("float32"))
    np.testing.assert_array_equal(np.isnan(d.view(kind).astype("float32")), nan)
    np.testing.assert_array_equal(d[~nan], wanted.view("uint8")[~nan])


def test_float8_compute_then_storage() -> None:
    @T.prim_func
    def f(A: T.Buffer((16,), "float8_e5m2"), B: T.Buffer((16,), "float8_e5m2")):
        for i in range(16):
            B[i] = A[i] + A[i]

    out = P.FP8StorageLegalize()(P.FP8ComputeLegalize()(IRModule({"main": f})))
    x = RNG.integers(-8, 8, 16).astype("float32").astype(ml_dtypes.float8_e5m2)
    y = np.zeros(16, "uint8")
    run(out, [x.view("uint8"), y])
    np.testing.assert_array_equal(y.view(ml_dtypes.float8_e5m2).astype("float32"), 2 * x.astype("float32"))


# --- verifiers


def test_verifiers_as_passes() -> None:
    a = tir.decl_buffer((64,), name="A")
    host = module(tir.BufferStore(a, 1.0, [0]), a, target=Target("cuda"))
    with pytest.raises(TVMError, match="main accesses memory of its target outside of thread axes"):
        P.VerifyMemory()(host)
    device = module(thread("threadIdx.x", 64, lambda tx: tir.BufferStore(a, 1.0, [tx])), a, target=Target("cuda"))
    assert P.VerifyMemory()(device) is device
    with pytest.raises(
        TVMError, match="VerifyGPUCode: main: threads of a block: 64, more than the 32 of max_threads_per_block"
    ):
        P.VerifyGPUCode({"max_threads_per_block": 32})(device)
    i = tir.Var("i", "int32")
    twice = tir.stmt_seq(*[tir.For(i, 0, 8, 0, tir.BufferStore(a, 1.0, [i])) for _ in range(2)])
    with pytest.raises(TVMError, match="main binds a variable twice; run ConvertSSA"):
        P.VerifySSA()(module(twice, a))
    vtcm = shared("V", 1024, scope="global.vtcm")
    large = module(allocate(vtcm, tir.BufferStore(vtcm, 1.0, [0])))
    with pytest.raises(TVMError, match="main allocates 4096 bytes of VTCM, more than the 1024 there are"):
        P.VerifyVTCMLimit(1024)(large)
    assert structural_equal(P.VerifyVTCMLimit(4096)(large), large)


def test_outputs_helper_is_pure() -> None:
    a = np.zeros((8, 8), "float32")
    outputs(IRModule({"main": doubled}), a, a)
    assert not a.any()
