"""What the options of passes change, by configuration and by argument."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.tir_transform.thread.test_threads import allocate, module, nodes, outputs, shared
from tilewright import tir
from tilewright.ir import IRModule
from tilewright.ir.transform import PassContext
from tilewright.script import tir as T
from tilewright.testing import CompareBeforeAfter
from tilewright.tir import transform as P


def one(func: Any) -> IRModule:
    return IRModule({"main": func})


@T.prim_func
def nest(A: T.Buffer((4, 8), "int32")):
    for i in range(4):
        for j in range(8):
            A[i, j] = A[i, j] + 1


def loops(mod: Any, **options: Any) -> list[int]:
    """The extents of the loops that are left."""
    with PassContext(config={"tir.UnrollLoop": options}):
        out = P.UnrollLoop()(mod)
    array = np.zeros((4, 8), "int32")
    assert (outputs(out, array) == 1).all()
    return [int(f.extent) for f in nodes(out, tir.For)]


def test_unrolling_by_steps_and_by_extent() -> None:
    mod = one(nest)
    assert loops(mod) == [8, 4]
    assert loops(mod, auto_max_step=8) == [4]
    assert loops(mod, auto_max_step=32) == []
    assert loops(mod, auto_max_extent=8) == []
    assert loops(mod, auto_max_extent=4) == [8, 4], "a loop around one that stays is not unrolled for its extent"
    assert loops(mod, auto_max_step=32, auto_max_depth=1) == [4]


def test_marked_loops_stay_marked_where_nothing_is_written_out() -> None:
    i, a = tir.Var("i", "int32"), tir.decl_buffer((4,), "int32", "A")
    mod = module(tir.For(i, 0, 4, tir.ForKind.UNROLLED, tir.BufferStore(a, 1, [i])), a)
    assert not nodes(P.UnrollLoop()(mod), tir.For)
    with PassContext(config={"tir.UnrollLoop": {"explicit_unroll": False}}):
        assert [f.kind for f in nodes(P.UnrollLoop()(mod), tir.For)] == [tir.ForKind.UNROLLED]


def test_loops_over_registers_are_unrolled() -> None:
    i, a, r = tir.Var("i", "int32"), tir.decl_buffer((4,), "int32", "A"), shared("R", 4, "int32", "local")
    mod = module(
        allocate(r, tir.For(i, 0, 4, 0, tir.stmt_seq(tir.BufferStore(r, 1, [i]), tir.BufferStore(a, r[i], [i])))), a
    )
    assert len(nodes(P.UnrollLoop()(mod), tir.For)) == 1
    with PassContext(config={"tir.UnrollLoop": {"unroll_local_access": True}}):
        assert not nodes(P.UnrollLoop()(mod), tir.For)


@pytest.mark.parametrize("split", [1, 2, 3])
def test_double_buffers_of_several_turns(split: int) -> None:
    a, b, s = tir.decl_buffer((32,), name="A"), tir.decl_buffer((32,), name="B"), shared("S", 4, scope="global")
    i, j, k = (tir.Var(n, "int32") for n in "ijk")
    fill = tir.AttrStmt(s.data, "double_buffer_scope", 1, tir.For(j, 0, 4, 0, tir.BufferStore(s, a[i * 4 + j], [j])))
    use = tir.For(k, 0, 4, 0, tir.BufferStore(b, s[k] * 2.0, [i * 4 + k]))
    mod = module(tir.For(i, 0, 8, 0, allocate(s, tir.stmt_seq(fill, use))), a, b)
    with PassContext(config={"tir.InjectDoubleBuffer": {"split_loop": split}}):
        out = P.Simplify()(P.InjectDoubleBuffer()(mod))
    outer = [f for f in nodes(out, tir.For) if f.extent.value == 8 // split and f.body is not None]
    assert outer
    x = np.arange(32, dtype="float32")
    np.testing.assert_array_equal(outputs(out, x, np.zeros(32, "float32")), x * 2)


class TestNestedConditionsAreHoisted(CompareBeforeAfter):
    transform = P.HoistIfThenElse()

    @T.prim_func
    def before(A: T.Buffer((4, 8), "int32"), n: T.int32):
        for i in range(4):
            for j in range(8):
                if i > 1:
                    if n > 3:
                        A[i, j] = 1

    @T.prim_func
    def expected(A: T.Buffer((4, 8), "int32"), n: T.int32):
        if n > 3:
            for i in range(4):
                if i > 1:
                    for j in range(8):
                        A[i, j] = 1


class TestOnlyConditionsRightInsideAreHoistedByTheBasicVariant(CompareBeforeAfter):
    transform = P.HoistIfThenElse("basic")

    @T.prim_func
    def before(A: T.Buffer((4, 8), "int32"), n: T.int32):
        for i in range(4):
            for j in range(8):
                if i > 1:
                    if n > 3:
                        A[i, j] = 1

    @T.prim_func
    def expected(A: T.Buffer((4, 8), "int32"), n: T.int32):
        for i in range(4):
            if i > 1:
                for j in range(8):
                    if n > 3:
                        A[i, j] = 1


@pytest.mark.parametrize("variant", [None, "basic"])
def test_conditions_on_threads_stay(variant: Any) -> None:
    a, i = tir.decl_buffer((64,), name="A"), tir.Var("i", "int32")
    tx = tir.IterVar((0, 16), tir.Var("tx", "int32"), tir.IterVar.ThreadIndex, "threadIdx.x")
    body = tir.For(i, 0, 4, 0, tir.IfThenElse(tx.var < 8, tir.BufferStore(a, 1.0, [tx.var * 4 + i])))
    mod = module(tir.AttrStmt(tx, "thread_extent", 16, body), a)
    assert type(P.HoistIfThenElse(variant)(mod)["main"].body.body) is tir.For
    with PassContext(config={"tir.HoistIfThenElse": {"support_block_scope_hosting": True}}):
        assert type(P.HoistIfThenElse(variant)(mod)["main"].body.body) is tir.IfThenElse
    with pytest.raises(ValueError, match='variant is None or "basic", but was given'):
        P.HoistIfThenElse("other")


class TestIndicesAreNarrowedWithTheirLoops(CompareBeforeAfter):
    transform = P.NarrowDataType(32)

    @T.prim_func
    def before(A: T.Buffer((T.int64(64),), "float32")):
        for i in T.serial(T.int64(8)):
            for j in T.serial(T.int64(8)):
                A[i * T.int64(8) + j] = T.float32(1)

    @T.prim_func
    def expected(A: T.Buffer((T.int64(64),), "float32")):
        for i in range(8):
            for j in range(8):
                A[i * 8 + j] = T.float32(1)


class TestIndicesThatMayBeLargeStay(CompareBeforeAfter):
    transform = P.NarrowDataType(32)

    @T.prim_func
    def before(A: T.Buffer((T.int64(1 << 40),), "float32")):
        for i in T.serial(T.int64(1 << 20)):
            A[i * T.int64(1 << 20)] = T.float32(1)

    @T.prim_func
    def expected(A: T.Buffer((T.int64(1 << 40),), "float32")):
        for i in range(1 << 20):
            A[T.Cast("int64", i) * T.int64(1 << 20)] = T.float32(1)


def test_widths_to_narrow_to() -> None:
    mod = one(nest)
    assert P.NarrowDataType(64)(mod)["main"].body is mod["main"].body
    with pytest.raises(ValueError, match="NarrowDataType narrows to 32 bits"):
        P.NarrowDataType(16)


def simplified(condition: Any, *names: Any, **options: Any) -> str:
    b = tir.decl_buffer((1,), "bool", "B")
    mod = module(tir.BufferStore(b, condition, [0]), b, *names)
    with PassContext(config={"tir.Simplify": options}):
        return str(P.Simplify()(mod)["main"].body.value)


def test_conditions_as_conjunctions_of_disjunctions() -> None:
    i, j, k = (tir.Var(n, "int32") for n in "ijk")
    condition = tir.any(tir.all(i == 0, j == 5), k == 7)
    assert simplified(condition, i, j, k) == "i == 0 and j == 5 or k == 7"
    wanted = "(i == 0 or k == 7) and (j == 5 or k == 7)"
    assert simplified(condition, i, j, k, convert_boolean_to_and_of_ors=True) == wanted


def test_conditions_under_each_other() -> None:
    i, j, k = (tir.Var(n, "int32") for n in "ijk")
    implied = tir.all(i < j, j < k, i < k)
    assert simplified(implied, i, j, k) == "i < j and j < k and i < k"
    assert simplified(implied, i, j, k, apply_constraints_to_boolean_branches=True) == "i < j and j < k"
    never = tir.all(tir.any(i < 3, j < 3), i > 5, j > 5)
    assert simplified(never, i, j, k, apply_constraints_to_boolean_branches=True) == "T.bool(False)"


class TestStoresOfWhatIsThereGo(CompareBeforeAfter):
    transform = P.RemoveNoOp()

    @T.prim_func
    def before(A: T.Buffer((16,), "int32")):
        for i in range(16):
            A[i] = A[i]
        A[0] = A[1]

    @T.prim_func
    def expected(A: T.Buffer((16,), "int32")):
        A[0] = A[1]


@T.prim_func
def written_twice(A: T.Buffer((16,), "int32"), B: T.Buffer((16,), "int32")):
    for i in range(16):
        A[i] = 1
    for j in range(16):
        A[j] = 2
    for i in range(16):
        B[i] = 1
    for i in range(16):
        B[i] = B[i] + A[i]
    for i in range(8):
        B[i] = 3


def test_stores_that_are_written_over() -> None:
    mod = one(written_twice)
    assert len(nodes(P.RemoveNoOp()(mod), tir.For)) == 5
    with PassContext(config={"tir.RemoveNoOp": {"use_dataflow_analysis": True}}):
        out = P.RemoveNoOp()(mod)
    assert len(nodes(out, tir.For)) == 4, "what is read, or only written over in part, stays"
    a, b = np.zeros(16, "int32"), np.zeros(16, "int32")
    assert outputs(out, a, b).tolist() == [3] * 8 + [3] * 8


def test_conditions_for_which_no_loop_is_parted() -> None:
    def made(hint: Any) -> IRModule:
        a, i = tir.decl_buffer((16,), "int32", "A"), tir.Var("i", "int32")
        return module(tir.For(i, 0, 20, 0, tir.IfThenElse(hint(i < 16), tir.BufferStore(a, i, [i]))), a)

    assert len(nodes(P.LoopPartition()(made(tir.likely)), tir.For)) == 2
    kept = P.LoopPartition()(made(tir.ignore_loop_partition))
    assert len(nodes(kept, tir.For)) == 1
    assert outputs(kept, np.zeros(16, "int32")).tolist() == [*range(16)]
    assert outputs(P.LowerIntrin()(kept), np.zeros(16, "int32")).tolist() == [*range(16)]


def test_alignment_is_left_out_once_blocks_have_no_regions() -> None:
    @T.prim_func
    def f(A: T.Buffer((8,), "int32")):
        S = T.alloc_buffer((8,), "int32")
        for i in range(8):
            with T.block("S"):
                T.block_attr({"buffer_dim_align": [[0, 0, 4, 0]]})
                T.writes(S[i])
                S[i] = i
        for i in range(8):
            with T.block("A"):
                A[i] = S[i]

    mod = P.CompactBufferAllocation()(P.LowerMatchBuffer()(P.ConvertBlocksToOpaque()(P.LowerInitBlock()(one(f)))))
    assert outputs(mod, np.zeros(8, "int32")).tolist() == [*range(8)]
