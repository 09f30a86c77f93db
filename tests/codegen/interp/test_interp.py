"""The interpreter against itself: elements reached directly and through accessors; its messages; what it keeps."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest

from tests.codegen.device.kernels import KERNELS
from tests.generators.programs import random_program, random_step
from tilewright import tir
from tilewright.codegen.interp import InterpError, Interpreter, run
from tilewright.codegen.interp.program import compiled
from tilewright.codegen.interp.values import np_type
from tilewright.driver import lower
from tilewright.ir import DataType, IRModule
from tilewright.script import tir as T
from tilewright.support.errors import ScheduleError
from tilewright.tir.schedule import Schedule


def both(mod: Any, args: list[Any]) -> list[list[Any]]:
    """The arguments after a run with direct access, and after one in which accessors check everything."""
    out = []
    for races in (False, True):
        given = [a.copy() if isinstance(a, np.ndarray) else a for a in args]
        Interpreter(mod, check_races=races)(*given)
        out.append(given)
    return out


@pytest.mark.parametrize("seed", range(40))
def test_direct_access_changes_nothing(seed: int) -> None:
    program = random_program(random.Random(seed))
    s, rng = Schedule(program.func, seed=seed), random.Random(seed)
    for _ in range(6):
        try:
            random_step(s, rng)
        except ScheduleError:
            continue
    for mod in (program.func, s.mod, lower(s.mod)):
        for a, b in zip(*both(mod, program.arrays(seed)), strict=True):
            if isinstance(a, np.ndarray):
                assert a.tobytes() == b.tobytes()


def nests(extent: int, shape: int, dtype: str = "float32") -> Any:
    @T.prim_func
    def main(x: T.Buffer((8,), dtype), y: T.Buffer((8,), dtype)) -> None:
        t = T.alloc_buffer((shape, 2), dtype)
        for i in range(extent):
            with T.block("put"):
                vi = T.axis.spatial(extent, i)
                t[vi, 0] = x[vi] + x[vi]
        for i in range(8):
            with T.block("get"):
                vi = T.axis.spatial(8, i)
                y[vi] = t[vi, 0]

    return main


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int16", "int64", "float16", "float32", "float64", "bfloat16"])
def test_elements_keep_their_type(dtype: str) -> None:
    from tilewright.codegen.interp.values import np_type
    from tilewright.ir import DataType

    x = np.arange(8).astype(np_type(DataType(dtype))) * np_type(DataType(dtype)).type(60)
    y = np.zeros_like(x)
    run(nests(8, 8, dtype), [x, y])
    np.testing.assert_array_equal(y, x + x)


def test_elements_of_four_bits_are_numbers() -> None:
    """A NumPy scalar of four bits is not made a wider one by a cast."""

    @T.prim_func
    def main(x: T.Buffer((4,), "int4"), y: T.Buffer((4,), "int32")) -> None:
        for i in range(4):
            y[i] = y[i] + (T.Cast("int32", x[i]) ^ 12)

    given = np.array([1, 2, -3, 4]).astype(np_type(DataType("int4")))
    for _, y in both(main, [given, np.full(4, 5, "int32")]):
        np.testing.assert_array_equal(y, [18, 19, -10, 13])


def test_messages_of_elements_that_are_not_there() -> None:
    x, y = np.ones(8, "float32"), np.zeros(8, "float32")
    with pytest.raises(
        InterpError, match=r"uninitialised read: buffer t\[4, 0\] was never written\n  in function main, at .*i=4, vi=4"
    ):
        run(nests(4, 8), [x, y])
    with pytest.raises(
        InterpError, match=r"read out of bounds: buffer t\[4, 0\], shape \(4, 2\)\n  in function main, at .*i=4, vi=4"
    ):
        run(nests(4, 4), [x, y])
    with pytest.raises(InterpError, match=r"write out of bounds: buffer t\[4, 0\], shape \(4, 2\)"):
        run(nests(8, 4), [x, y])
    with pytest.raises(InterpError, match=r"argument x must have shape \(8,\), but has \(7,\)"):
        run(nests(8, 8), [x[:7], y])


def test_sums_that_may_wrap_have_no_bounds() -> None:
    """Where index arithmetic leaves its type, the element that it wraps around to is the one that is read."""
    n = tir.Var("n", "int8")
    out = tir.decl_buffer((4,), "int8", "out")
    i = tir.Var("i", "int8")
    wide = (i + tir.IntImm("int8", 100)) + tir.IntImm("int8", 100)
    body = tir.For(
        i, tir.IntImm("int8", 0), tir.IntImm("int8", 4), tir.ForKind.SERIAL, tir.BufferStore(out, wide, (i,))
    )
    p = tir.Var("p", "handle")
    data = np.zeros(4, "int8")
    run(tir.PrimFunc([p, n], body, None, {p: out}), [data, 0])
    assert data.tolist() == [-56, -55, -54, -53]


def test_a_function_is_compiled_once() -> None:
    func = nests(8, 8)
    first = Interpreter(func).program("main")
    assert Interpreter(IRModule({"main": func})).program("main") is first
    assert compiled("main", func, False) is first
    assert Interpreter(func, check_races=True)._programs == {}


def test_arguments_from_another_function() -> None:
    """A callee is given a pointer into storage that knows what was written: the checked form takes it."""
    inner = nests(8, 8)
    a, b = tir.decl_buffer((8,), "float32", "a"), tir.decl_buffer((8,), "float32", "b")
    pa, pb = tir.Var("pa", "handle"), tir.Var("pb", "handle")
    local = tir.decl_buffer((8,), "float32", "local")
    i = tir.Var("i", "int32")
    mod = IRModule({"inner": inner})
    callee = mod.get_global_var("inner")
    fill = tir.For(i, 0, 8, tir.ForKind.SERIAL, tir.BufferStore(local, a[i], (i,)))
    call = tir.Evaluate(tir.Call("int32", callee, [local.data, b.data]))
    body = tir.Allocate(local.data, "float32", [8], tir.const(True), tir.SeqStmt((fill, call)))
    main = tir.PrimFunc([pa, pb], body, None, {pa: a, pb: b})
    x, y = np.arange(8, dtype="float32"), np.zeros(8, "float32")
    run(mod.with_functions({**mod.functions, **IRModule({"main": main}).functions}), [x, y], "main")
    np.testing.assert_array_equal(y, x + x)


def test_errors_in_deep_nests_tell_the_loops_of_their_part() -> None:
    """Python nests at most 20 blocks: what is inside is a function of its own, which has not all variables of the loops around it."""
    a = tir.decl_buffer((4,), "float32", "a")
    loops = [tir.Var(f"i{n}", "int32") for n in range(26)]
    body: tir.Stmt = tir.BufferStore(a, tir.const(1.0, "float32"), [loops[0] + 4])
    for v in reversed(loops):
        body = tir.For(v, tir.const(0, "int32"), tir.const(2, "int32"), tir.ForKind.SERIAL, body)
    handle = tir.Var("a", "handle")
    func = tir.PrimFunc([handle], body, buffer_map={handle: a}).with_attr("global_symbol", "main")
    with pytest.raises(
        InterpError, match=r"write out of bounds: buffer a\[4\], shape \(4\)\n  in function main, at i0=0, i1=0, "
    ):
        run(func, [np.zeros(4, "float32")])


def test_threads_of_a_launch_race() -> None:
    """Nothing orders blocks, nor threads without a barrier; each launch waits for the one before."""

    @T.prim_func
    def added(x: T.Buffer((4,), "float32"), y: T.Buffer((1,), "float32")) -> None:
        for b in T.thread_binding(4, thread="blockIdx.x"):
            for t in T.thread_binding(1, thread="threadIdx.x"):
                with T.block("add"):
                    i, _ = T.axis.remap("SS", [b, t])
                    y[0] = y[0] + x[i]

    @T.prim_func
    def in_turn(x: T.Buffer((4,), "float32"), y: T.Buffer((4,), "float32")) -> None:
        for t in T.thread_binding(4, thread="threadIdx.x"):
            with T.block("copy"):
                i = T.axis.spatial(4, t)
                y[i] = x[i]
        for t in T.thread_binding(4, thread="threadIdx.x"):
            with T.block("turn"):
                i = T.axis.spatial(4, t)
                x[i] = y[3 - i]

    @T.prim_func
    def at_once(x: T.Buffer((4,), "float32"), y: T.Buffer((4,), "float32")) -> None:
        for t in T.thread_binding(4, thread="threadIdx.x"):
            with T.block("turn"):
                i = T.axis.spatial(4, t)
                y[i] = x[i]
                x[i] = y[3 - i]

    x = np.arange(4, dtype="float32")
    with pytest.raises(
        InterpError, match=r"race: threads \(1, 0\) and \(0, 0\) of one launch both touch buffer y\[0\]"
    ):
        run(added, [x, np.zeros(1, "float32")], check_races=True)
    with pytest.raises(InterpError, match=r"threads \(2,\) and \(1,\) of one launch both touch buffer y\[2\]"):
        run(at_once, [x.copy(), np.zeros(4, "float32")], check_races=True)
    given = x.copy()
    run(in_turn, [given, np.zeros(4, "float32")], check_races=True)
    np.testing.assert_array_equal(given, x[::-1])


@pytest.mark.parametrize("check_races", [False, True])
@pytest.mark.parametrize("lowered", [False, True])
def test_blocks_that_wait_for_each_other(lowered: bool, check_races: bool) -> None:
    func = KERNELS["all_blocks_wait"]()
    x, y = np.arange(1024, dtype="float32"), np.zeros(1024, "float32")
    run(lower(func) if lowered else func, [x, y], check_races=check_races)
    np.testing.assert_array_equal(x, np.arange(1024, 0, -1))


def test_all_blocks_reach_the_barrier() -> None:
    @T.prim_func
    def some(x: T.Buffer((2,), "float32")) -> None:
        for b in T.thread_binding(2, thread="blockIdx.x"):
            for t in T.thread_binding(1, thread="threadIdx.x"):
                with T.block("wait"):
                    i, _ = T.axis.remap("SS", [b, t])
                    if i == 0:
                        T.tvm_storage_sync("global")
                    x[i] = T.float32(0)

    with pytest.raises(InterpError, match="only some blocks of a launch reach a barrier of all blocks"):
        run(some, [np.zeros(2, "float32")])


def test_threads_that_reduce_together_do_not_race() -> None:
    """Before it is lowered, a reduction over threads is one block that all of them run."""

    @T.prim_func
    def summed(x: T.Buffer((2, 4), "float32"), y: T.Buffer((2,), "float32")) -> None:
        for b in T.thread_binding(2, thread="blockIdx.x"):
            for t in T.thread_binding(4, thread="threadIdx.x"):
                with T.block("sum"):
                    i, k = T.axis.remap("SR", [b, t])
                    with T.init():
                        y[i] = T.float32(0)
                    y[i] = y[i] + x[i, k]

    x, y = np.arange(8, dtype="float32").reshape(2, 4), np.zeros(2, "float32")
    run(summed, [x, y], check_races=True)
    np.testing.assert_array_equal(y, x.sum(1))
