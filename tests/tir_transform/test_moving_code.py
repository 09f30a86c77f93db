"""Passes that move conditions, bindings and attributes, or compute more to ask less: before and after, and run."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest

from tests.generators.programs import random_program, random_schedule
from tests.tir_transform.thread.test_threads import module, nodes
from tilewright import tir
from tilewright.codegen.interp import run
from tilewright.driver import lower
from tilewright.ir import IRModule
from tilewright.ir.transform import PassContext
from tilewright.script import tir as T
from tilewright.support.errors import TVMError
from tilewright.testing import CompareBeforeAfter
from tilewright.tir import transform as P
from tilewright.tir.transform import HoistedConditionals, HoistedLetBindings


class TestConditionLeavesBothLoops(CompareBeforeAfter):
    transform = P.HoistExpression()

    @T.prim_func
    def before(A: T.Buffer((64,), "float32"), n: T.int32):
        for i in range(4):
            for j in range(16):
                if n > 3:
                    A[i * 16 + j] = A[i * 16 + j] + T.float32(1)

    @T.prim_func
    def expected(A: T.Buffer((64,), "float32"), n: T.int32):
        if n > 3:
            for i in range(4):
                for j in range(16):
                    A[i * 16 + j] = A[i * 16 + j] + T.float32(1)


class TestConditionLeavesTheLoopThatDoesNotChangeIt(CompareBeforeAfter):
    transform = P.HoistExpression()

    @T.prim_func
    def before(A: T.Buffer((64,), "float32")):
        for i, j in T.grid(4, 16):
            if i < 3:
                A[i * 16 + j] = T.float32(1)
            else:
                A[i * 16 + j] = T.float32(2)

    @T.prim_func
    def expected(A: T.Buffer((64,), "float32")):
        for i in range(4):
            if i < 3:
                for j in range(16):
                    A[i * 16 + j] = T.float32(1)
            else:
                for j in range(16):
                    A[i * 16 + j] = T.float32(2)


class TestValuesAreChosenOutside(CompareBeforeAfter):
    transform = P.HoistExpression()

    @T.prim_func
    def before(A: T.Buffer((64,), "float32"), B: T.Buffer((64,), "float32")):
        for i, j in T.grid(4, 16):
            B[i * 16 + j] = T.if_then_else(i < 3, A[i * 16 + j], T.float32(0))

    @T.prim_func
    def expected(A: T.Buffer((64,), "float32"), B: T.Buffer((64,), "float32")):
        for i in range(4):
            if i < 3:
                for j in range(16):
                    B[i * 16 + j] = A[i * 16 + j]
            else:
                for j in range(16):
                    B[i * 16 + j] = T.float32(0)


class TestSequencesKeepTheirConditions(CompareBeforeAfter):
    transform = P.HoistExpression()

    @T.prim_func
    def before(A: T.Buffer((64,), "float32"), n: T.int32):
        for i in range(16):
            if n > 3:
                A[i] = T.float32(1)
            A[i + 16] = T.float32(2)

    expected = before


class TestLoadsStay(CompareBeforeAfter):
    transform = P.HoistExpression()

    @T.prim_func
    def before(A: T.Buffer((64,), "float32"), n: T.Buffer((1,), "int32")):
        for i in range(16):
            if n[0] > 3:
                A[i] = T.float32(1)

    expected = before


class TestNamesLeave(CompareBeforeAfter):
    transform = P.HoistExpression()

    @T.prim_func
    def before(A: T.Buffer((64,), "float32")):
        for i in range(4):
            for j in range(16):
                with T.LetStmt(i * 16) as base:
                    A[base + j] = T.float32(1)

    @T.prim_func
    def expected(A: T.Buffer((64,), "float32")):
        for i in range(4):
            with T.LetStmt(i * 16) as base:
                for j in range(16):
                    A[base + j] = T.float32(1)


def test_what_is_hoisted_is_an_option() -> None:
    @T.prim_func
    def f(A: T.Buffer((64,), "float32"), n: T.int32):
        for i in range(16):
            if n > 3:
                A[i] = T.if_then_else(n > 5, T.float32(1), A[i])

    mod = IRModule({"main": f})

    def hoisted(conditionals: Any, lets: Any = HoistedLetBindings.All) -> tuple[type, int]:
        options = {"hoisted_conditionals": conditionals, "hoisted_let_bindings": lets}
        with PassContext(config={"tir.HoistExpression": options}):
            out = P.HoistExpression()(mod)
        return type(out["main"].body), len(nodes(out, tir.For))

    assert hoisted(HoistedConditionals.Never) == (tir.For, 1)
    assert hoisted(HoistedConditionals.IfElseStmt) == (tir.IfThenElse, 1)
    assert hoisted(HoistedConditionals.IfElseExpr.value) == (tir.IfThenElse, 2)
    assert hoisted(HoistedConditionals.All, HoistedLetBindings.Never) == (tir.IfThenElse, 2)


def test_conditions_on_threads_leave_only_when_asked() -> None:
    a, i = tir.decl_buffer((64,), name="A"), tir.Var("i", "int32")
    tx = tir.IterVar((0, 16), tir.Var("tx", "int32"), tir.IterVar.ThreadIndex, "threadIdx.x")
    body = tir.For(i, 0, 4, 0, tir.IfThenElse(tx.var < 8, tir.BufferStore(a, 1.0, [tx.var * 4 + i])))
    mod = module(tir.AttrStmt(tx, "thread_extent", 16, body), a)
    assert type(P.HoistExpression()(mod)["main"].body.body) is tir.For
    with PassContext(config={"tir.HoistExpression": {"hoisted_conditionals": HoistedConditionals.All.value}}):
        assert type(P.HoistExpression()(mod)["main"].body.body) is tir.IfThenElse


MEANING = [P.HoistExpression, P.RewriteUnsafeSelect, P.ForceNarrowIndexToInt32, P.ReduceBranchingThroughOvercompute,
           P.UseAssumeToReduceBranches, P.PointerValueTypeRewrite, P.CombineContextCall, P.AnnotateIrregularLoop,
           P.InferFragment, P.CoProcSync, P.VerifyMemory, P.VerifySSA]  # fmt: skip


@pytest.mark.parametrize("seed", range(12))
def test_random_programs_keep_their_meaning(seed: int) -> None:
    rng = random.Random(seed)
    program = random_program(rng)
    func = random_schedule(program.func, rng, 8)
    expected, mod = program.arrays(seed), lower(func)
    run(program.func, expected)
    for make in MEANING:
        wide = any(["int64" in b.dtype for b in func.buffer_map.values()]) or "int64" in mod["main"].script()
        if make is P.ForceNarrowIndexToInt32 and wide:
            continue
        arrays, new = program.arrays(seed), make()(mod)
        tir.analysis.verify_well_formed(new)
        run(new, arrays)
        for a, b in zip(expected, arrays, strict=True):
            if isinstance(a, np.ndarray):
                np.testing.assert_array_equal(a.astype("float64"), b.astype("float64"), err_msg=make.__name__)


# --- Select and assumptions


class TestSelectOfLoadsIsLazy(CompareBeforeAfter):
    transform = P.RewriteUnsafeSelect()

    @T.prim_func
    def before(A: T.Buffer((16,), "float32"), B: T.Buffer((16,), "float32")):
        for i in range(16):
            B[i] = T.Select(i > 0, A[i - 1], T.float32(0)) + T.Select(i > 3, T.float32(1), T.float32(2))

    @T.prim_func
    def expected(A: T.Buffer((16,), "float32"), B: T.Buffer((16,), "float32")):
        for i in range(16):
            B[i] = T.if_then_else(i > 0, A[i - 1], T.float32(0)) + T.Select(i > 3, T.float32(1), T.float32(2))


class TestPaddingIsComputedOn(CompareBeforeAfter):
    transform = P.UseAssumeToReduceBranches()

    @T.prim_func
    def before(A: T.Buffer((16,), "float32"), B: T.Buffer((16,), "float32")):
        for i in range(16):
            T.evaluate(T.assume(i < 14 or A[i] == T.float32(0)))
        for i in range(16):
            B[i] = T.if_then_else(i < 14, A[i] * T.float32(2), T.float32(0))

    @T.prim_func
    def expected(A: T.Buffer((16,), "float32"), B: T.Buffer((16,), "float32")):
        for i in range(16):
            T.evaluate(T.assume(i < 14 or A[i] == T.float32(0)))
        for i in range(16):
            B[i] = A[i] * T.float32(2)


class TestPaddingOfAnotherValueIsAskedFor(CompareBeforeAfter):
    transform = P.UseAssumeToReduceBranches()

    @T.prim_func
    def before(A: T.Buffer((16,), "float32"), B: T.Buffer((16,), "float32")):
        for i in range(16):
            T.evaluate(T.assume(i < 14 or A[i] == T.float32(1)))
        for i in range(16):
            B[i] = T.if_then_else(i < 14, A[i] * T.float32(2), T.float32(0))

    expected = before


class TestUndefinedElementsMayBeWritten(CompareBeforeAfter):
    transform = P.ReduceBranchingThroughOvercompute()

    @T.prim_func
    def before(A: T.Buffer((16,), "int32")):
        for i in range(16):
            if i < 14:
                A[i] = 1
            T.evaluate(T.assume(i < 14 or A[i] == T.undef()))

    @T.prim_func
    def expected(A: T.Buffer((16,), "int32")):
        for i in range(16):
            A[i] = 1
            T.evaluate(T.assume(i < 14 or A[i] == T.undef()))


class TestBothBranchesAgreeOnPadding(CompareBeforeAfter):
    transform = P.ReduceBranchingThroughOvercompute()

    @T.prim_func
    def before(A: T.Buffer((16,), "int32"), B: T.Buffer((16,), "int32")):
        for i in range(16):
            T.evaluate(T.assume(i < 14 or A[i] == 0))
        for i in range(16):
            if i < 14:
                B[i] = A[i] + 5
            else:
                B[i] = 5

    @T.prim_func
    def expected(A: T.Buffer((16,), "int32"), B: T.Buffer((16,), "int32")):
        for i in range(16):
            T.evaluate(T.assume(i < 14 or A[i] == 0))
        for i in range(16):
            B[i] = A[i] + 5


class TestDefinedElementsMayNotBeWritten(CompareBeforeAfter):
    transform = P.ReduceBranchingThroughOvercompute()

    @T.prim_func
    def before(A: T.Buffer((16,), "int32")):
        for i in range(16):
            if i < 14:
                A[i] = 1

    expected = before


# --- index types


class TestIndicesBecomeInt32(CompareBeforeAfter):
    transform = P.ForceNarrowIndexToInt32()

    @T.prim_func
    def before(A: T.Buffer((T.int64(16),), "float32"), B: T.Buffer((T.int64(16),), "float32")):
        for i in T.serial(T.int64(16)):
            with T.block("B"):
                vi = T.axis.spatial(T.int64(16), i)
                B[vi] = A[T.int64(15) - vi]

    @T.prim_func
    def expected(A: T.Buffer((16,), "float32"), B: T.Buffer((16,), "float32")):
        for i in range(16):
            with T.block("B"):
                vi = T.axis.spatial(16, i)
                B[vi] = A[15 - vi]


def test_buffers_of_int64_are_not_narrowed() -> None:
    @T.prim_func
    def f(A: T.Buffer((4,), "int64")):
        A[0] = T.int64(1)

    with pytest.raises(TVMError, match="buffer A of f holds int64"):
        P.ForceNarrowIndexToInt32()(tir.function.as_module(f.with_attr("global_symbol", "f")))


# --- attributes


def note(key: str, value: Any, body: Any) -> Any:
    return tir.AttrStmt(None, key, value, body)


def test_marks_are_lifted_and_joined() -> None:
    a, i = tir.decl_buffer((64,), "int32", "A"), tir.Var("i", "int32")

    def store(k: int) -> Any:
        return tir.BufferStore(a, k, [i + k])

    loop = tir.For(i, 0, 8, 0, tir.stmt_seq(note("unit", 1, store(1)), note("unit", 1, store(2))))
    out = P.LiftAttrScope("unit")(module(loop, a))["main"].body
    assert isinstance(out, tir.AttrStmt) and isinstance(out.body, tir.For) and len(out.body.body.seq) == 2
    mixed = tir.For(i, 0, 8, 0, tir.stmt_seq(note("unit", 1, store(1)), note("unit", 2, store(2))))
    assert P.LiftAttrScope("unit")(module(mixed, a))["main"].body is mixed
    own = tir.For(i, 0, 8, 0, note("unit", i, store(1)))
    assert P.LiftAttrScope("unit")(module(own, a))["main"].body is own


def test_contexts_are_made_once() -> None:
    i = tir.Var("i", "int32")

    def use(k: int) -> Any:
        ctx = tir.call_intrin("handle", "tir.tvm_thread_context", tir.call_extern("handle", "device", k))
        return tir.Evaluate(tir.call_extern("int32", "push", ctx))

    out = P.CombineContextCall()(module(tir.For(i, 0, 8, 0, tir.stmt_seq(use(1), use(1), use(2)))))
    assert len(nodes(out, tir.LetStmt)) == 2 and isinstance(out["main"].body, tir.LetStmt)
    parallel = P.CombineContextCall()(module(tir.For(i, 0, 8, tir.ForKind.PARALLEL, use(1))))
    assert isinstance(parallel["main"].body.body, tir.LetStmt)


def calls(mod: Any) -> list[str]:
    return [n.op.name.removeprefix("tir.") for n in nodes(mod, tir.Call) if hasattr(n.op, "name")]


def test_units_of_a_co_processor_wait_for_each_other() -> None:
    a, b = tir.decl_buffer((8,), "int32", "A"), tir.decl_buffer((8,), "int32", "B")

    def on(unit: int, body: Any) -> Any:
        return tir.AttrStmt(tir.Var("cop", "int32"), "coproc_scope", unit, body)

    load, compute = tir.BufferStore(a, 1, [0]), tir.BufferStore(b, a[0] + 1, [0])
    host = tir.BufferStore(b, b[0] + 1, [1])
    out = P.CoProcSync()(module(tir.stmt_seq(on(1, load), on(2, compute), host), a, b))
    assert calls(out) == ["vta.coproc_dep_push", "vta.coproc_dep_pop", "vta.coproc_sync", "vta.coproc_sync"]
    assert calls(P.CoProcSync()(module(host, a, b))) == []


def test_fragments_are_described() -> None:
    kind = tir.PointerType(tir.PrimType("float16"), "wmma.matrix_a")
    frag, source = tir.Var("frag", kind), tir.decl_buffer((256,), "float16", "A")
    load = tir.tvm_load_matrix_sync(frag, 16, 16, 16, 0, source.data, 16, "row_major")
    body = tir.Allocate(frag, "float16", [256], tir.const(True, "bool"), tir.Evaluate(load))
    out = P.InferFragment()(module(body, source))["main"].body
    found = {}
    while isinstance(out, tir.AttrStmt):
        found[out.attr_key] = out.value.value
        out = out.body
    assert found == {"fragment_shape": "16, 16, 16", "fragment_layout": "row_major"}
    again = tir.tvm_load_matrix_sync(frag, 32, 8, 16, 0, source.data, 16, "row_major")
    both = tir.stmt_seq(tir.Evaluate(load), tir.Evaluate(again))
    with pytest.raises(TVMError, match="frag is used as a fragment of 16, 16, 16 and of 32, 8, 16"):
        P.InferFragment()(module(tir.Allocate(frag, "float16", [256], tir.const(True, "bool"), both), source))


# --- profiling


def test_profiler_marks() -> None:
    @T.prim_func
    def f(A: T.Buffer((4, 4), "int32")):
        for i in range(4):
            for j in range(4):
                A[i, j] = 1
            for j in range(4):
                A[i, j] = A[i, j] + 1

    mod = IRModule({"main": f})
    assert P.InstrumentProfileIntrinsics()(mod) is mod

    def marks(**options: Any) -> int:
        config = {"tir.instr_lwp": True, **{f"tir.{k}": v for k, v in options.items()}}
        with PassContext(config=config):
            out = P.InstrumentProfileIntrinsics()(mod)
        array = np.zeros((4, 4), "int32")
        run(out, [array])
        assert (array == 2).all()
        return calls(out).count("start_profile_intrinsic")

    assert marks() == 2
    assert marks(lwp_disable_func_prof=True) == 1
    assert marks(lwp_min_height=0) == 4
    assert marks(lwp_min_height=0, lwp_max_depth=1) == 2
