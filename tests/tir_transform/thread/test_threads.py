"""Passes for threads of a block: unified axes, barriers, reductions over threads, virtual threads; checked by running."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest

import tilewright as tvm
from tilewright import te, tir
from tilewright.codegen.interp import InterpError, run
from tilewright.codegen.interp.program import Program
from tilewright.driver import lower
from tilewright.ir import IRModule
from tilewright.ir.transform import Sequential
from tilewright.node import post_order_visit
from tilewright.script import tir as S
from tilewright.support.errors import TVMError
from tilewright.target import Target
from tilewright.testing import CompareBeforeAfter
from tilewright.tir import transform as T
from tilewright.tir.schedule import Schedule


def nodes(mod: Any, kind: type) -> list[Any]:
    found: list[Any] = []
    post_order_visit(mod["main"].body, lambda n: found.append(n) if isinstance(n, kind) else None)
    return found


def barriers(mod: Any) -> int:
    calls = [n for n in nodes(mod, tir.Evaluate) if isinstance(n.value, tir.Call)]
    return len([c for c in calls if getattr(c.value.op, "name", "") == "tir.tvm_storage_sync"])


def module(body: Any, *buffers: Any, **attrs: Any) -> IRModule:
    return IRModule({"main": tir.PrimFunc(list(buffers), body, attrs={"global_symbol": "main", **attrs})})


def axis(tag: str, extent: int) -> tir.IterVar:
    return tir.IterVar((0, extent), tir.Var(tag.replace(".", "_"), "int32"), tir.IterVar.ThreadIndex, tag)


def thread(tag: str, extent: int, body: Any) -> Any:
    """The body (a function of the thread's variable) under a thread_extent attribute."""
    it = axis(tag, extent)
    return tir.AttrStmt(it, "thread_extent", extent, body(it.var))


def shared(name: str, size: int, dtype: str = "float32", scope: str = "shared") -> Any:
    return tir.decl_buffer((size,), dtype, name, scope=scope)


def allocate(buffer: Any, body: Any) -> Any:
    return tir.Allocate(buffer.data, buffer.dtype, buffer.shape, tir.const(True, "bool"), body)


def outputs(mod: Any, *arrays: Any, **options: Any) -> Any:
    arrays = tuple(a.copy() for a in arrays)
    run(mod, list(arrays), **options)
    return arrays[-1]


FLAT = (
    T.LowerInitBlock, T.PlanAndUpdateBufferAllocationLocation, T.ConvertBlocksToOpaque, T.UnifyThreadBinding,
    T.CompactBufferAllocation, T.LowerMatchBuffer, T.LowerOpaqueBlock, T.FlattenBuffer, T.Simplify,
)  # fmt: skip


def flat(mod: Any) -> IRModule:
    return Sequential([make() for make in FLAT])(mod)


# --- barriers


def reversal(n: int = 64) -> tuple[Any, Any, Any]:
    """B[i] = A[n - 1 - i] through shared memory, without a barrier."""
    a, b, s = tir.decl_buffer((n,), name="A"), tir.decl_buffer((n,), name="B"), shared("S", n)

    def body(tx: Any) -> Any:
        return tir.SeqStmt([tir.BufferStore(s, a[tx], [tx]), tir.BufferStore(b, s[n - 1 - tx], [tx])])

    return module(thread("threadIdx.x", n, lambda tx: allocate(s, body(tx))), a, b), a, b


def test_missing_barrier_is_found_and_thread_sync_places_it() -> None:
    mod, _, _ = reversal()
    x = np.arange(64, dtype="float32")
    with pytest.raises(InterpError, match="uninitialised read: buffer S"):
        outputs(mod, x, np.zeros_like(x))
    with pytest.raises(InterpError, match="race: iterations 0 and 63 of parallel loop threadIdx|uninitialised read"):
        outputs(mod, x, np.zeros_like(x), check_races=True)
    synced = T.ThreadSync("shared")(mod)
    assert barriers(synced) == 1
    np.testing.assert_array_equal(outputs(synced, x, np.zeros_like(x), check_races=True), x[::-1])
    assert T.ThreadSync("shared")(synced) is synced or barriers(T.ThreadSync("shared")(synced)) == 1


def test_own_elements_need_no_barrier() -> None:
    a, b, s = tir.decl_buffer((64,), name="A"), tir.decl_buffer((64,), name="B"), shared("S", 64)

    def body(tx: Any, ty: Any) -> Any:
        at = ty * 16 + tx
        steps = [tir.BufferStore(s, a[at], [at]), tir.BufferStore(b, s[at] * 2.0, [at])]
        return tir.SeqStmt(steps)

    nest = thread("threadIdx.y", 4, lambda ty: allocate(s, thread("threadIdx.x", 16, lambda tx: body(tx, ty))))
    mod = T.ThreadSync("shared")(module(nest, a, b))
    assert barriers(mod) == 0
    x = np.arange(64, dtype="float32")
    np.testing.assert_array_equal(outputs(mod, x, np.zeros_like(x)), 2 * x)


def test_loops_carry_conflicts_around() -> None:
    a, b, s = tir.decl_buffer((4, 32), name="A"), tir.decl_buffer((4, 32), name="B"), shared("S", 32)
    k = tir.Var("k", "int32")

    def body(tx: Any) -> Any:
        fill = tir.BufferStore(s, a[k, tx], [tx])
        use = tir.BufferStore(b, s[31 - tx], [k, tx])
        return allocate(s, tir.For(k, 0, 4, tir.ForKind.SERIAL, tir.SeqStmt([fill, use])))

    mod = T.ThreadSync("shared")(module(thread("threadIdx.x", 32, body), a, b))
    assert barriers(mod) == 2
    x = np.random.rand(4, 32).astype("float32")
    np.testing.assert_array_equal(outputs(mod, x, np.zeros_like(x), check_races=True), x[:, ::-1])


def test_barrier_inside_of_a_condition_is_refused() -> None:
    a, b, s = tir.decl_buffer((32,), name="A"), tir.decl_buffer((32,), name="B"), shared("S", 32)

    def body(tx: Any) -> Any:
        steps = tir.SeqStmt([tir.BufferStore(s, a[tx], [tx]), tir.BufferStore(b, s[15 - tx], [tx])])
        return allocate(s, tir.IfThenElse(tx < 16, steps))

    with pytest.raises(TVMError, match="differs between the threads of a block, so that there can be no barrier"):
        T.ThreadSync("shared")(module(thread("threadIdx.x", 32, body), a, b))


def test_interpreter_refuses_threads_that_part() -> None:
    b = tir.decl_buffer((32,), name="B")
    sync = tir.Evaluate(tir.Call("int32", "tvm_storage_sync", [tir.StringImm("shared")]))

    def body(tx: Any) -> Any:
        return tir.SeqStmt([tir.IfThenElse(tx < 16, sync), tir.BufferStore(b, tir.const(1.0, "float32"), [tx])])

    with pytest.raises(InterpError, match="the threads of a block part: some reach a barrier and others their end"):
        outputs(module(thread("threadIdx.x", 32, body), b), np.zeros(32, "float32"))


# --- a tiled product with cooperative fetching


def gemm(n: int = 32) -> Schedule:
    a, b = te.placeholder((n, n), name="A"), te.placeholder((n, n), name="B")
    r = te.reduce_axis((0, n), name="k")
    c = te.compute((n, n), lambda i, j: te.sum(a[i, r] * b[r, j], axis=r), name="C")
    s = Schedule(te.create_prim_func([a, b, c]))
    block = s.get_block("C")
    i, j, k = s.get_loops(block)
    bi, ti, ii = s.split(i, [None, 4, 2])
    bj, tj, jj = s.split(j, [None, 4, 2])
    ko, ki = s.split(k, [None, 8])
    s.reorder(bi, bj, ti, tj, ko, ki, ii, jj)
    s.bind(bi, "blockIdx.y")
    s.bind(bj, "blockIdx.x")
    s.bind(ti, "threadIdx.y")
    s.bind(tj, "threadIdx.x")
    for operand in (0, 1):
        copy = s.cache_read(block, operand, "shared")
        s.compute_at(copy, bj)
        fused = s.fuse(*s.get_loops(copy)[-2:])
        _, ty, tx = s.split(fused, [None, 4, 4])
        s.bind(ty, "threadIdx.y")
        s.bind(tx, "threadIdx.x")
    return s


def test_cooperative_fetch() -> None:
    s = gemm()
    rng = np.random.default_rng(0)
    a, b = (rng.integers(-3, 4, (32, 32)).astype("float32") for _ in range(2))
    mod = flat(s.mod)
    extents = [n.value for n in nodes(mod, tir.AttrStmt) if n.attr_key == "thread_extent"]
    assert [int(e) for e in extents] == [4, 4, 4, 4], "one attribute for each of four axes"
    synced = T.ThreadSync("shared")(mod)
    assert barriers(synced) == 1
    for check in (False, True):
        np.testing.assert_array_equal(outputs(synced, a, b, np.zeros((32, 32), "float32"), check_races=check), a @ b)
    without = synced.with_functions({g: _without_barriers(f) for g, f in synced.functions.items()})
    with pytest.raises(InterpError, match="race|uninitialised"):
        outputs(without, a, b, np.zeros((32, 32), "float32"), check_races=True)


def _without_barriers(func: Any) -> Any:
    """The function with nothing where its barriers stood."""
    nothing = tir.Evaluate(tir.const(0, "int32"))

    def drop(s: Any) -> Any:
        is_sync = isinstance(s.value, tir.Call) and s.value.op.name == "tir.tvm_storage_sync"
        return nothing if is_sync else None

    return func.with_body(tir.stmt_functor.ir_transform(func.body, None, drop, ["tir.Evaluate"]))


def test_extents_of_one_axis_must_agree() -> None:
    b = tir.decl_buffer((8,), name="B")

    def loop(n: int) -> Any:
        v = tir.Var("t", "int32")
        it = tir.IterVar((0, n), tir.Var("", "int32"), tir.IterVar.ThreadIndex, "threadIdx.x")
        return tir.For(v, 0, n, tir.ForKind.THREAD_BINDING, tir.BufferStore(b, tir.const(1.0, "float32"), [v]), it)

    outer = tir.Var("o", "int32")
    it = tir.IterVar((0, 1), tir.Var("", "int32"), tir.IterVar.ThreadIndex, "blockIdx.x")
    both = tir.For(outer, 0, 1, tir.ForKind.THREAD_BINDING, tir.SeqStmt([loop(8), loop(4)]), it)
    with pytest.raises(TVMError, match=r"bound to threadIdx.x in one kernel have the extents 8 and 4"):
        T.UnifyThreadBinding()(module(both, b))


# --- reductions over threads


@pytest.mark.parametrize("n", [1, 5, 8, 32, 24])
@pytest.mark.parametrize("kind", ["sum", "max"])
@pytest.mark.parametrize("target", [None, "cuda"])
def test_reduction_over_threads(n: int, kind: str, target: str | None) -> None:
    rows, width = 4, 3 * n
    x = te.placeholder((rows, width), name="x")
    k = te.reduce_axis((0, width), name="k")
    y = te.compute((rows,), lambda i: getattr(te, kind)(x[i, k], axis=k), name="y")
    s = Schedule(te.create_prim_func([x, y]))
    i, r = s.get_loops(s.get_block("y"))
    _, tx = s.split(r, [None, n])
    s.bind(i, "threadIdx.y")
    s.bind(tx, "threadIdx.x")
    data = np.random.default_rng(n).integers(-9, 9, (rows, width)).astype("float32")
    expected = data.sum(1) if kind == "sum" else data.max(1)
    crossed = T.LowerCrossThreadReduction()(s.mod)
    assert "tvm_thread_allreduce" in str(crossed)
    np.testing.assert_array_equal(outputs(crossed, data, np.zeros(rows, "float32")), expected)
    mod = flat(crossed)
    if target is not None:
        mod = T.BindTarget(Target(target))(mod)
    np.testing.assert_array_equal(outputs(mod, data, np.zeros(rows, "float32"), check_races=True), expected)
    lowered = T.LowerThreadAllreduce()(mod)
    assert "tvm_thread_allreduce" not in str(lowered)
    assert ("tvm_warp_shuffle" in str(lowered)) == (target == "cuda" and n in (8, 32))
    np.testing.assert_array_equal(outputs(lowered, data, np.zeros(rows, "float32"), check_races=True), expected)


def test_reduction_with_tail_and_several_axes() -> None:
    x = te.placeholder((3, 50), name="x")
    k = te.reduce_axis((0, 50), name="k")
    y = te.compute((3,), lambda i: te.sum(x[i, k], axis=k), name="y")
    s = Schedule(te.create_prim_func([x, y]))
    _, r = s.get_loops(s.get_block("y"))
    _, ty, tx = s.split(r, [None, 4, 8])
    s.bind(ty, "threadIdx.y")
    s.bind(tx, "threadIdx.x")
    data = np.random.default_rng(1).integers(-9, 9, (3, 50)).astype("float32")
    mod = T.LowerThreadAllreduce()(flat(T.LowerCrossThreadReduction()(s.mod)))
    np.testing.assert_array_equal(outputs(mod, data, np.zeros(3, "float32"), check_races=True), data.sum(1))


def test_reduction_without_a_plain_update_is_refused() -> None:
    b, a = tir.decl_buffer((1,), name="B"), tir.decl_buffer((8,), name="A")
    v = tir.Var("v", "int32")
    it = tir.IterVar((0, 8), v, tir.IterVar.CommReduce)
    zero = tir.const(0, "int32")
    block = tir.Block(
        [it],
        [],
        [],
        "odd",
        tir.BufferStore(b, a[v] - b[0], [zero]),
        tir.BufferStore(b, tir.const(0.0, "float32"), [zero]),
    )
    t = tir.Var("t", "int32")
    bound = tir.IterVar((0, 8), tir.Var("", "int32"), tir.IterVar.ThreadIndex, "threadIdx.x")
    loop = tir.For(t, 0, 8, tir.ForKind.THREAD_BINDING, tir.BlockRealize([t], True, block), bound)
    with pytest.raises(TVMError, match=r"block odd reduces over threads; its body must be one store"):
        T.LowerCrossThreadReduction()(module(loop, a, b))


# --- virtual threads


def virtual(count: int, body: Any) -> Any:
    it = axis("vthread", count)
    return tir.AttrStmt(it, "virtual_thread", count, body(it.var))


@pytest.mark.parametrize("count", [2, 20])
def test_virtual_threads_have_storage_of_their_own(count: int) -> None:
    a, b = tir.decl_buffer((count * 8,), name="A"), tir.decl_buffer((count * 8,), name="B")
    own, common = shared("L", 8, scope="local"), shared("M", 8, scope="local")
    i, j, k = (tir.Var(n, "int32") for n in "ijk")

    def body(vt: Any) -> Any:
        steps = tir.SeqStmt(
            [
                tir.For(i, 0, 8, 0, tir.BufferStore(own, a[vt * 8 + i], [i])),
                tir.For(k, 0, 8, 0, tir.BufferStore(common, k.astype("float32"), [k])),
                tir.For(j, 0, 8, 0, tir.BufferStore(b, own[7 - j] + common[j], [vt * 8 + j])),
            ]
        )
        return allocate(own, allocate(common, steps))

    mod = module(virtual(count, body), a, b)
    data = np.random.rand(count * 8).astype("float32")
    expected = outputs(mod, data, np.zeros_like(data))
    new = T.InjectVirtualThread()(mod)
    assert not [n for n in nodes(new, tir.AttrStmt) if n.attr_key == "virtual_thread"]
    sizes = {n.buffer_var.name: int(n.extents[0]) for n in nodes(new, tir.Allocate)}
    assert sizes == {"L": 8 * count, "M": 8}
    kinds = {n.kind for n in nodes(new, tir.For) if n.loop_var.name == "vthread"}
    assert kinds == {tir.ForKind.UNROLLED if count <= 16 else tir.ForKind.SERIAL}
    np.testing.assert_array_equal(outputs(new, data, np.zeros_like(data)), expected)


def test_virtual_threads_share_barriers() -> None:
    a, b, s = tir.decl_buffer((64,), name="A"), tir.decl_buffer((64,), name="B"), shared("S", 32)

    def body(vt: Any, tx: Any) -> Any:
        steps = [tir.BufferStore(s, a[vt * 32 + tx], [tx]), tir.BufferStore(b, s[31 - tx], [vt * 32 + tx])]
        return allocate(s, tir.SeqStmt(steps))

    nest = thread("threadIdx.x", 32, lambda tx: virtual(2, lambda vt: body(vt, tx)))
    mod = T.ThreadSync("shared")(T.InjectVirtualThread()(module(nest, a, b)))
    assert barriers(mod) == 1
    data = np.arange(64, dtype="float32")
    expected = data.reshape(2, 32)[:, ::-1].reshape(-1)
    np.testing.assert_array_equal(outputs(mod, data, np.zeros_like(data), check_races=True), expected)


def test_scheduled_virtual_threads() -> None:
    x = te.placeholder((64,), name="x")
    y = te.compute((64,), lambda i: x[i] * 2.0, name="y")
    s = Schedule(te.create_prim_func([x, y]))
    v, t, _ = s.split(s.get_loops(s.get_block("y"))[0], [4, 8, 2])
    s.bind(v, "vthread.x")
    s.bind(t, "threadIdx.x")
    mod = T.InjectVirtualThread()(flat(s.mod))
    data = np.random.rand(64).astype("float32")
    np.testing.assert_array_equal(outputs(mod, data, np.zeros_like(data)), 2 * data)


# --- shapes


def copy_loop(kind: int) -> IRModule:
    b, i = tir.decl_buffer((4,), name="B"), tir.Var("i", "int32")
    return module(tir.For(i, 0, 4, kind, tir.BufferStore(b, tir.const(1.0, "float32"), [i])), b)


class TestParallelLoopsBecomeSerial(CompareBeforeAfter):
    transform = T.ConvertForLoopsToSerial()
    before = copy_loop(tir.ForKind.PARALLEL)
    expected = copy_loop(tir.ForKind.SERIAL)


class TestVectorLoopsStay(CompareBeforeAfter):
    def transform(self) -> Any:
        return T.ConvertForLoopsToSerial()

    def before(self) -> Any:
        return copy_loop(tir.ForKind.VECTORIZED)

    def expected(self) -> Any:
        return copy_loop(tir.ForKind.VECTORIZED)


def bound_inside(lifted: bool) -> IRModule:
    b = tir.decl_buffer((4, 4), name="B")
    k, t = tir.Var("k", "int32"), tir.Var("t", "int32")
    it = tir.IterVar((0, 4), tir.Var("", "int32"), tir.IterVar.ThreadIndex, "threadIdx.x")
    body: Any = tir.BufferStore(b, tir.const(1.0, "float32"), [k, t])

    def bound(s: Any) -> Any:
        return tir.For(t, 0, 4, tir.ForKind.THREAD_BINDING, s, it)

    def serial(s: Any) -> Any:
        return tir.For(k, 0, 4, 0, s)

    return module(bound(serial(body)) if lifted else serial(bound(body)), b)


class TestBoundLoopsAreLifted(CompareBeforeAfter):
    transform = T.LiftThreadBinding()
    before = bound_inside(False)
    expected = bound_inside(True)


def test_lockstep_only_where_threads_cooperate() -> None:
    mod, _, _ = reversal()
    assert "run_lanes(" in Program("main", mod["main"]).source
    assert "run_lanes(" not in Program("main", copy_loop(tir.ForKind.SERIAL)["main"]).source
    assert lower(copy_loop(tir.ForKind.PARALLEL)) is not None


def random_body(rng: random.Random, buffers: list[Any], tx: Any, n: int, depth: int, loops: tuple[Any, ...]) -> Any:
    """Random stores between shared buffers and a register, in loops and conditions on which all threads agree."""
    steps = []
    for _ in range(rng.randint(1, 4)):
        kind = rng.random()
        if depth and kind < 0.3:
            k = tir.Var("k", "int32")
            inner = random_body(rng, buffers, tx, n, depth - 1, (*loops, k))
            steps.append(tir.For(k, 0, rng.randint(1, 3), 0, inner))
        elif depth and loops and kind < 0.45:
            inner = random_body(rng, buffers, tx, n, depth - 1, loops)
            steps.append(tir.IfThenElse(tir.EQ(loops[-1] % 2, rng.randint(0, 1)), inner))
        else:
            # One store must not read what it writes: no barrier keeps threads apart within a statement.
            to, source = rng.sample(buffers, 2)
            at = rng.choice([tx, n - 1 - tx, (tx + 3) % n])
            seen = rng.choice([tx, n - 1 - tx, (tx + 1) % n, (tx + (loops[-1] if loops else 5)) % n])
            value = source[seen] + (loops[-1].astype("float32") if loops else 1.0)
            steps.append(tir.BufferStore(to, value, [at]))
    return tir.stmt_seq(*steps)


@pytest.mark.parametrize("seed", range(40))
def test_random_programs_have_no_race_after_thread_sync(seed: int) -> None:
    """With its barriers a program gives the same, whatever order threads run in, and has no race."""
    rng = random.Random(seed)
    n = 8
    a, b = tir.decl_buffer((n,), name="A"), tir.decl_buffer((n,), name="B")
    buffers = [shared(name, n) for name in "ST"]

    def body(tx: Any) -> Any:
        start = [tir.BufferStore(s, a[tx], [tx]) for s in buffers]
        end = tir.BufferStore(b, buffers[0][n - 1 - tx] + buffers[1][tx], [tx])
        steps: Any = tir.stmt_seq(*start, random_body(rng, buffers, tx, n, 3, ()), end)
        for s in buffers:
            steps = allocate(s, steps)
        return steps

    mod = module(thread("threadIdx.x", n, body), a, b)
    new = T.ThreadSync("shared")(mod)
    data = np.arange(n, dtype="float32")
    outputs(new, data, np.zeros_like(data), check_races=True)
    assert barriers(T.ThreadSync("shared")(new)) == barriers(new)


def test_dynamic_shared_memory_is_one_allocation() -> None:
    a, b = tir.decl_buffer((32,), name="A"), tir.decl_buffer((32,), name="B")
    s, t = shared("S", 33, scope="shared.dyn"), shared("T", 32, "int8", "shared.dyn")

    def body(tx: Any) -> Any:
        steps = [
            tir.BufferStore(s, a[tx], [tx + 1]),
            tir.BufferStore(t, tx.astype("int8"), [tx]),
            tir.BufferStore(b, s[32 - tx] + t[31 - tx].astype("float32"), [tx]),
        ]
        return allocate(s, allocate(t, tir.SeqStmt(steps)))

    mod = T.ThreadSync("shared.dyn")(module(thread("threadIdx.x", 32, body), a, b))
    new = T.MergeSharedMemoryAllocations()(mod)
    assert [int(x.extents[0]) for x in nodes(new, tir.Allocate)] == [144 + 32]
    data = np.random.rand(32).astype("float32")
    for program in (mod, new):
        got = outputs(program, data, np.zeros_like(data), check_races=True)
        np.testing.assert_array_equal(got, data[::-1] + np.arange(32, dtype="float32")[::-1])
    assert T.MergeSharedMemoryAllocations()(new) is new


def test_conditions_of_virtual_threads_nest() -> None:
    """What stood below a condition of the virtual thread was repeated as a whole again and again."""
    a, b = tir.decl_buffer((8,), name="A"), tir.decl_buffer((8,), name="B")

    def body(vt: Any) -> Any:
        inner = tir.IfThenElse(vt < 3, tir.BufferStore(b, a[vt] * 2.0, [vt]))
        return tir.IfThenElse(vt < 4, inner)

    new = T.InjectVirtualThread()(module(virtual(8, body), a, b))
    data = np.arange(8, dtype="float32")
    np.testing.assert_array_equal(outputs(new, data, np.zeros_like(data)), [0, 2, 4, 0, 0, 0, 0, 0])


def test_one_thread_needs_no_barrier() -> None:
    a, b, s = tir.decl_buffer((4,), name="A"), tir.decl_buffer((4,), name="B"), shared("S", 1)
    at = tir.const(0, "int32")

    def body(tx: Any) -> Any:
        return allocate(s, tir.SeqStmt([tir.BufferStore(s, a[tx], [at]), tir.BufferStore(b, s[at], [tx])]))

    mod = T.ThreadSync("shared")(module(thread("threadIdx.x", 1, body), a, b))
    assert barriers(mod) == 0


def test_shared_memory_holds_the_part_of_each_thread() -> None:
    """Copied by each thread for itself, the shared buffer shrank to the part of one of them."""
    a = te.placeholder((8, 4), name="A")
    b = te.compute((8, 4), lambda i, j: a[i, j] * 2.0, name="B")
    s = Schedule(te.create_prim_func([a, b]))
    i, j = s.get_loops("B")
    s.bind(i, "blockIdx.x")
    s.bind(j, "threadIdx.x")
    s.compute_at(s.cache_read("B", 0, "shared"), j)
    mod = T.ThreadSync("shared")(flat(s.mod))
    assert [int(n.extents[0]) for n in nodes(mod, tir.Allocate)] == [4]
    x = np.random.rand(8, 4).astype("float32")
    np.testing.assert_array_equal(outputs(mod, x, np.zeros_like(x)), 2 * x)


def test_kernels_launch_one_variable_after_another() -> None:
    """The second kernel was run with the last thread of the first, and reduced over the threads of both."""
    x = te.placeholder((6, 8), name="x")
    y = te.compute((6, 8), lambda i, j: x[i, j] * 2.0, name="y")
    k = te.reduce_axis((0, 8), name="k")
    z = te.compute((6,), lambda i: te.sum(y[i, k], axis=k), name="z")
    s = Schedule(te.create_prim_func([x, z]))
    outer, inner = s.split(s.fuse(*s.get_loops("y")), [None, 4])
    s.bind(outer, "blockIdx.x")
    s.bind(inner, "threadIdx.x")
    _, thread_loop = s.split(s.get_loops("z")[1], [None, 4])
    s.bind(thread_loop, "threadIdx.x")
    mod = flat(T.LowerCrossThreadReduction()(s.mod))
    data = np.random.default_rng(1).integers(-9, 9, (6, 8)).astype("float32")
    for new in (mod, T.LowerThreadAllreduce()(T.ThreadSync("shared")(mod))):
        np.testing.assert_array_equal(outputs(new, data, np.zeros(6, "float32")), 2 * data.sum(1))
    v, b = axis("threadIdx.x", 3), tir.decl_buffer((6,), name="B")
    kernels = [
        tir.AttrStmt(v, "thread_extent", 3, tir.BufferStore(b, tir.const(1.0, "float32"), [v.var + 3 * n]))
        for n in range(2)
    ]
    np.testing.assert_array_equal(outputs(module(tir.SeqStmt(kernels), b), np.zeros(6, "float32")), np.ones(6))


def test_reduction_over_threads_keeps_to_the_domain() -> None:
    """The write-back of rows that a split loop goes past had no condition."""
    x = te.placeholder((3, 8), name="x")
    k = te.reduce_axis((0, 8), name="k")
    s = Schedule(te.create_prim_func([x, te.compute((3,), lambda i: te.sum(x[i, k], axis=k), name="y")]))
    i, r = s.get_loops("y")
    s.bind(r, "threadIdx.x")
    s.split(i, [None, 2])
    data = np.random.default_rng(3).integers(-9, 9, (3, 8)).astype("float32")
    mod = T.LowerCrossThreadReduction()(s.mod)
    np.testing.assert_array_equal(outputs(mod, data, np.zeros(3, "float32")), data.sum(1))


def test_loops_around_launches_are_not_cut_by_the_block() -> None:
    """The guard of a loop named the block that is launched inside of it."""
    a, b = tir.decl_buffer((9,), name="A"), tir.decl_buffer((9,), name="B")
    i = tir.Var("i", "int32")

    def body(bx: Any) -> Any:
        at = bx * 2 + i
        return tir.IfThenElse(tir.likely(at < 9), tir.BufferStore(b, a[at] * 2.0, [at]))

    mod = T.LoopPartition()(module(tir.For(i, 0, 2, 0, thread("blockIdx.x", 5, body)), a, b))
    x = np.random.rand(9).astype("float32")
    np.testing.assert_array_equal(outputs(mod, x, np.zeros_like(x)), 2 * x)


def test_a_loop_below_a_condition_whose_extent_is_converted() -> None:
    """Whether it has a step is not known, so a barrier inside of it would not divide what is before from what follows."""

    @S.prim_func
    def main(n: S.int64, x: S.Buffer((32,), "float32"), y: S.Buffer((32,), "float32")) -> None:
        for t in S.thread_binding(32, thread="threadIdx.x"):
            with S.block("turn"):
                i = S.axis.spatial(32, t)
                s = S.alloc_buffer((32,), scope="shared")
                s[i] = x[i]
                if n > S.int64(0):
                    for _ in range(S.Cast("int32", n)):
                        y[i] = s[31 - i]

    text = str(tvm.build(main, target="opencl").imported_modules[0].get_source())
    assert text.index("s[threadIdx_x] =") < text.index("barrier(") < text.index("if (")
