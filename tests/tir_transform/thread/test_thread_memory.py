"""Kernels whose blocks are bound to threads apart: what the threads share, what each keeps, and what is done once."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tilewright import tir
from tilewright.codegen.interp import run
from tilewright.driver.pipeline import lower_pipeline
from tilewright.ir import IRModule
from tilewright.ir.transform import PassContext
from tilewright.script import tir as T
from tilewright.support.errors import TVMError
from tilewright.tir import PrimFunc, Schedule, analysis
from tilewright.tir import transform as X


@T.prim_func
def staged(a: T.Buffer((16,), "float32"), out: T.Buffer((16,), "float32")) -> None:
    s = T.alloc_buffer((16,))
    for i in range(16):
        with T.block("s"):
            v = T.axis.spatial(16, i)
            s[v] = a[v] + T.float32(1)
    for i in range(16):
        with T.block("out"):
            v = T.axis.spatial(16, i)
            out[v] = s[v] * T.float32(2)


BLOCKS = [
    X.LowerCrossThreadReduction,
    X.LowerInitBlock,
    X.PlanAndUpdateBufferAllocationLocation,
    X.ConvertBlocksToOpaque,
]
REST = [
    X.CompactBufferAllocation, X.LowerMatchBuffer, X.LowerOpaqueBlock, X.FlattenBuffer, X.Simplify, X.LoopPartition,
    X.VectorizeLoop, X.InjectVirtualThread, X.StorageRewrite, X.UnrollLoop, X.RemoveNoOp,
]  # fmt: skip


def kernel(func: PrimFunc, classic: bool = True) -> IRModule:
    """Lowered with barriers, axes unified before buffers shrink (as classic TVM does) or after."""
    mod = IRModule({"main": func.with_attr("global_symbol", "main")})
    passes = [make() for make in [*BLOCKS, X.UnifyThreadBinding, *REST]]
    for p in passes if classic else [lower_pipeline(threads=True)]:
        mod = p(mod)
    for scope in ("shared", "warp"):
        mod = X.ThreadSync(scope)(mod)
    return mod


def result(mod: Any) -> Any:
    out = np.zeros(16, "float32")
    run(mod, [np.arange(16, dtype="float32"), out])
    return out


def scheduled(scope: str, writer: str | None, reader: str | None) -> Schedule:
    """One kernel of four blocks of threads: the axes of the loops that write s and that read it."""
    sch = Schedule(staged)
    outer, inner = sch.split(sch.get_loops("out")[0], [4, 4])
    sch.bind(outer, "blockIdx.x")
    sch.set_scope("s", 0, scope)
    sch.compute_at("s", outer)
    if writer:
        sch.bind(sch.get_loops("s")[-1], writer)
    if reader:
        sch.bind(inner, reader)
    return sch


VIRTUAL = ["vthread", "vthread.x", "vthread.y"]
RUNS = [
    *[(scope, w, r) for scope in ("local", "shared") for w in (*VIRTUAL, None) for r in (*VIRTUAL, None)],
    *[("local", None, "threadIdx.x"), ("local", "threadIdx.x", "threadIdx.x"), ("local", "vthread.x", "threadIdx.x")],
    *[("shared", w, r) for w in ("threadIdx.x", None) for r in ("threadIdx.x", "threadIdx.y", "vthread.x", None)],
    *[("warp", w, r) for w in ("threadIdx.x", None) for r in ("threadIdx.x", None)],
]


@pytest.mark.parametrize(("scope", "writer", "reader"), RUNS)
def test_threads_take_what_they_share(scope: str, writer: str | None, reader: str | None) -> None:
    sch = scheduled(scope, writer, reader)
    want = 2 * (np.arange(16, dtype="float32") + 1)
    np.testing.assert_array_equal(result(sch.mod), want)
    for classic in (True, False):
        np.testing.assert_array_equal(result(kernel(sch.mod["main"], classic)), want)


@pytest.mark.parametrize(
    ("scope", "writer", "reader"),
    [
        ("local", "threadIdx.x", None), ("local", "threadIdx.x", "threadIdx.y"), ("local", "threadIdx.x", "vthread.x"),
        ("warp", "threadIdx.y", None), ("warp", "threadIdx.y", "threadIdx.x"),
    ],
)  # fmt: skip
@pytest.mark.parametrize("classic", [True, False])
def test_threads_keep_what_is_their_own(scope: str, writer: str, reader: str | None, classic: bool) -> None:
    text = (
        rf"each thread of {writer} has its own s \({scope} memory\), and what is read there may have been written by an"
    )
    with pytest.raises(TVMError, match=text):
        kernel(scheduled(scope, writer, reader).mod["main"], classic)


@pytest.mark.parametrize(("place", "legal"), [("v", True), ("3 - v", False), ("v // 2", False), ("(v + 1) % 4", False)])
def test_the_same_thread_reads_what_it_wrote(place: str, legal: bool) -> None:
    func = tir_function(
        f"""
@T.prim_func
def main(a: T.Buffer((16,), "float32"), out: T.Buffer((16,), "float32")):
    for b in T.thread_binding(4, thread="blockIdx.x"):
        with T.block("outer"):
            vb = T.axis.spatial(4, b)
            s = T.alloc_buffer((4,), scope="local")
            for t in T.thread_binding(4, thread="threadIdx.x"):
                with T.block("write"):
                    v = T.axis.spatial(4, t)
                    s[v] = a[vb * 4 + v]
            for t in T.thread_binding(4, thread="threadIdx.x"):
                with T.block("read"):
                    v = T.axis.spatial(4, t)
                    out[vb * 4 + v] = s[{place}]
"""
    )
    if legal:
        for classic in (True, False):
            np.testing.assert_array_equal(result(kernel(func, classic)), np.arange(16, dtype="float32"))
        return
    for classic in (True, False):
        with pytest.raises(TVMError, match="has its own s"):
            kernel(func, classic)


def tir_function(text: str) -> PrimFunc:
    from tilewright.script import from_source

    found = from_source(text)
    assert isinstance(found, PrimFunc)
    return found


def test_an_update_is_done_once() -> None:
    def program(scope: str, bound: bool) -> PrimFunc:
        loop = 'T.thread_binding(4, thread="threadIdx.x")' if bound else "range(4)"
        return tir_function(
            f"""
@T.prim_func
def main(a: T.Buffer((16,), "float32"), out: T.Buffer((16,), "float32")):
    for b in T.thread_binding(4, thread="blockIdx.x"):
        with T.block("outer"):
            vb = T.axis.spatial(4, b)
            s = T.alloc_buffer((4,), scope="{scope}")
            for i, k in T.grid(4, 4):
                with T.block("sum"):
                    v, vk = T.axis.remap("SR", [i, k])
                    with T.init():
                        s[v] = T.float32(0)
                    s[v] = s[v] + a[vb * 4 + vk]
            for t in {loop}:
                with T.block("read"):
                    v = T.axis.spatial(4, t)
                    out[vb * 4 + v] = s[v]
"""
        )

    want = np.arange(16, dtype="float32").reshape(4, 4).sum(1).repeat(4)
    for scope, bound in (("local", True), ("local", False), ("shared", False)):
        np.testing.assert_array_equal(result(kernel(program(scope, bound))), want)
    with pytest.raises(
        TVMError, match=r"every thread of threadIdx\.x would update s, which they share \(shared memory\)"
    ):
        kernel(program("shared", True))


def test_virtual_threads_side_by_side_are_counted_once() -> None:
    steps = [tir.Evaluate(0), tir.Evaluate(0)]
    axes = [tir.IterVar(None, tir.Var("v", "int32"), tir.IterVar.ThreadIndex, "vthread.x") for _ in steps]
    parts = [tir.AttrStmt(axis, "virtual_thread", 2, s) for axis, s in zip(axes, steps, strict=True)]
    thread = tir.IterVar(None, tir.Var("t", "int32"), tir.IterVar.ThreadIndex, "threadIdx.x")
    func = PrimFunc([], tir.AttrStmt(thread, "thread_extent", 4, tir.SeqStmt(parts)))
    assert analysis.verify_gpu_code(func, {"max_vthread": 2})
    assert not analysis.verify_gpu_code(func, {"max_vthread": 1})


def swapped(tag: str, scope: str = "global") -> PrimFunc:
    """Three times the first eight values from one half of a buffer to the other, each time in turned order."""
    shared = scope == "shared"
    start = "s[0, v] = a[v]" if shared else "out[v] = a[v]"
    swap = "s[(vk + 1) % 2, v] = s[vk % 2, 7 - v]" if shared else "out[(vk + 1) % 2 * 8 + v] = out[vk % 2 * 8 + 7 - v]"
    end = "out[v] = s[1, v % 8]" if shared else "T.evaluate(0)"
    return tir_function(
        f"""
@T.prim_func
def main(a: T.Buffer((16,), "float32"), out: T.Buffer((16,), "float32")):
    for b in T.thread_binding(1, thread="blockIdx.y"):
        with T.block("outer"):
            vb = T.axis.spatial(1, b)
            s = T.alloc_buffer((2, 16), scope="shared")
            for i in range(16):
                with T.block("start"):
                    v = T.axis.spatial(16, i)
                    {start}
            for k in range(3):
                for t in T.thread_binding(8, thread="{tag}"):
                    with T.block("swap"):
                        vk, v = T.axis.remap("SS", [k, t])
                        {swap}
            for i in range(16):
                with T.block("end"):
                    v = T.axis.spatial(16, i)
                    {end}
"""
    )


@pytest.mark.parametrize("tag", ["blockIdx.x", "threadIdx.x", "vthread.x"])
def test_loops_between_which_values_go_are_not_exchanged(tag: str) -> None:
    func = swapped(tag)
    want = result(func)
    lifted = X.LiftThreadBinding()(IRModule({"main": func}))
    np.testing.assert_array_equal(result(lifted), want)
    if tag == "blockIdx.x":
        with pytest.raises(
            TVMError, match=r"one kernel may read of out \(global memory\) what another of its blockIdx\.x wrote"
        ):
            X.UnifyThreadBinding()(lifted)


def test_threads_that_wait_for_each_other_run_the_serial_loop() -> None:
    func = swapped("threadIdx.x", "shared")
    mod = X.LiftThreadBinding()(IRModule({"main": func}))
    assert str(mod).index('thread="threadIdx.x"') < str(mod).index("range(3)")
    np.testing.assert_array_equal(result(kernel(mod["main"])), result(func))


@pytest.mark.parametrize("tag", ["blockIdx.x", "threadIdx.x", "vthread.x"])
def test_extents_are_known_at_the_launch(tag: str) -> None:
    func = tir_function(
        f"""
@T.prim_func
def main(a: T.Buffer((16,), "float32"), out: T.Buffer((16,), "float32")):
    for b in T.thread_binding(1, thread="blockIdx.y"):
        for k in range(4):
            for t in T.thread_binding(k + 1, thread="{tag}"):
                with T.block("copy"):
                    v = T.axis.spatial(16, k * 4 + t)
                    out[v] = a[v]
"""
    )
    if tag == "vthread.x":
        np.testing.assert_array_equal(result(X.UnifyThreadBinding()(IRModule({"main": func}))), result(func))
        return
    with pytest.raises(TVMError, match=r"the extent k \+ 1 of a loop bound to .* is known only inside of the kernel"):
        X.UnifyThreadBinding()(IRModule({"main": func}))


def test_memory_of_threads_is_gone_after_the_kernel() -> None:
    sch = Schedule(staged)
    sch.set_scope("s", 0, "warp")
    sch.bind(sch.get_loops("s")[0], "threadIdx.x")
    with pytest.raises(
        TVMError, match=r"s \(warp memory\) is there while one kernel runs, but is used outside of it too"
    ):
        kernel(sch.mod["main"])


def test_virtual_threads_around_a_kernel_launch_it_again() -> None:
    sch = Schedule(staged)
    outer, inner = sch.split(sch.get_loops("out")[0], [4, 4])
    sch.bind(outer, "vthread.x")
    sch.compute_at("s", outer)
    sch.bind(inner, "threadIdx.x")
    np.testing.assert_array_equal(result(kernel(sch.mod["main"])), result(sch.mod))


def test_barriers_between_blocks_that_only_some_threads_run() -> None:
    sch = Schedule(staged)
    outer, inner = sch.split(sch.get_loops("out")[0], [3, 6])
    sch.bind(outer, "blockIdx.x")
    sch.set_scope("s", 0, "shared")
    sch.compute_at("s", outer)
    sch.bind(sch.get_loops("s")[-1], "threadIdx.x")
    sch.bind(inner, "threadIdx.y")
    want = result(sch.mod)
    mod = IRModule({"main": sch.mod["main"]})
    for make in [*BLOCKS, X.UnifyThreadBinding]:
        mod = make()(mod)
    np.testing.assert_array_equal(result(X.ThreadSync("shared")(mod)), want)


@pytest.mark.parametrize(
    ("tag", "scope", "index", "legal"),
    [
        ("threadIdx.x", "shared", "v", True),
        ("threadIdx.x", "shared", "(v + vo) % 4", False),
        ("threadIdx.x", "local", "v", False),
        ("blockIdx.x", "shared", "v", False),
        ("vthread.x", "local", "(v + vo) % 4", True),
    ],
)
def test_a_loop_of_an_axis_inside_of_another(tag: str, scope: str, index: str, legal: bool) -> None:
    func = tir_function(
        f"""
@T.prim_func
def main(a: T.Buffer((16,), "float32"), out: T.Buffer((16,), "float32")):
    for b in T.thread_binding(2, thread="blockIdx.y"):
        for o in T.thread_binding(4, thread="{tag}"):
            with T.block("outer"):
                vb, vo = T.axis.remap("SS", [b, o])
                s = T.alloc_buffer((4,), scope="{scope}")
                for t in T.thread_binding(4, thread="{tag}"):
                    with T.block("fetch"):
                        v = T.axis.spatial(4, t)
                        s[{index}] = a[vb * 4 + {index}]
                with T.block("out"):
                    out[vb * 4 + vo] = s[3 - vo]
                    out[vb * 4 + vo + 8] = s[vo]
"""
    )
    mod = IRModule({"main": func})
    want = result(mod)
    if legal:
        np.testing.assert_array_equal(result(kernel(func)), want)
        return
    with pytest.raises(TVMError, match="stands inside of another one|has its own s"):
        X.UnifyThreadBinding()(mod)


@pytest.mark.parametrize("inner_first", [True, False])
def test_blocks_are_bound_once(inner_first: bool) -> None:
    sch = Schedule(staged)
    loops = sch.split(sch.get_loops("out")[0], [4, 4])
    first, second = (loops[1], loops[0]) if inner_first else (loops[0], loops[1])
    sch.bind(first, "blockIdx.x")
    with pytest.raises(TVMError, match=r"must not be bound to blockIdx\.x, to which loop i_\d .* is bound"):
        sch.bind(second, "blockIdx.x")


def test_sums_over_threads_are_lowered_before() -> None:
    func = tir_function(
        """
@T.prim_func
def main(a: T.Buffer((16,), "float32"), out: T.Buffer((16,), "float32")):
    for b in T.thread_binding(4, thread="blockIdx.x"):
        for t in T.thread_binding(4, thread="threadIdx.x"):
            with T.block("sum"):
                v, vk = T.axis.remap("SR", [b, t])
                with T.init():
                    out[v] = T.float32(0)
                out[v] = out[v] + a[v * 4 + vk]
"""
    )
    want = result(func)
    np.testing.assert_allclose(result(kernel(func)), want)
    mod = X.ConvertBlocksToOpaque()(X.LowerInitBlock()(IRModule({"main": func})))
    with pytest.raises(TVMError, match=r"the threads of threadIdx\.x update one element of out at the same time"):
        X.UnifyThreadBinding()(X.LowerCrossThreadReduction()(mod))


SHARED_MADE_BY_A_THREAD = """
@T.prim_func
def main(a: T.Buffer((2,), "int32"), out: T.Buffer((4,), "int32")):
    for t in T.thread_binding(4, thread="threadIdx.x"):
        with T.block(""):
            s = T.alloc_buffer((1,), "int32", scope="SCOPE")
            s[0] = 0
            for k in range(2):
                s[0] = s[0] + a[k]
            out[t] = s[0]
"""


def test_shared_memory_is_no_threads_own_wherever_it_is_allocated() -> None:
    own = tir_function(SHARED_MADE_BY_A_THREAD.replace("SCOPE", "local"))
    X.UnifyThreadBinding()(IRModule({"main": own}))
    shared = tir_function(SHARED_MADE_BY_A_THREAD.replace("SCOPE", "shared"))
    with pytest.raises(TVMError, match=r"the threads of threadIdx\.x update one element of s at the same time"):
        X.UnifyThreadBinding()(IRModule({"main": shared}))


def test_threads_do_not_wait_for_what_others_write_to_global_memory() -> None:
    """The reader ran in every thread of its block, maybe before the writers had come there."""
    func = tir_function(
        """
@T.prim_func
def main(a: T.Buffer((16,), "float32"), out: T.Buffer((16,), "float32")):
    s = T.alloc_buffer((16,))
    d = T.alloc_buffer((16,))
    for b in T.thread_binding(4, thread="blockIdx.x"):
        for t in T.thread_binding(4, thread="threadIdx.x"):
            with T.block("s"):
                v = T.axis.spatial(16, b * 4 + t)
                s[v] = a[v]
        for i in range(4):
            with T.block("d"):
                v = T.axis.spatial(16, b * 4 + i)
                d[v] = s[v]
    for i in range(16):
        with T.block("out"):
            v = T.axis.spatial(16, i)
            out[v] = s[v] + d[v]
"""
    )
    with pytest.raises(
        TVMError, match=r"read of s \(global memory\) what another of its threadIdx.x wrote, which does not"
    ):
        kernel(func)
    with PassContext(config={"tir.detect_global_barrier": True}):
        mod = X.ThreadSync("global")(kernel(func))
    np.testing.assert_array_equal(result(mod), 2 * np.arange(16, dtype="float32"))


@pytest.mark.parametrize("tag", ["blockIdx.y", "threadIdx.y"])
def test_every_thread_starts_a_sum_that_one_goes_on_with(tag: str) -> None:
    func = tir_function(
        f"""
@T.prim_func
def main(a: T.Buffer((16,), "float32"), out: T.Buffer((16,), "float32")):
    for t in T.thread_binding(4, thread="threadIdx.x"):
        for i in range(4):
            with T.block("start"):
                v = T.axis.spatial(16, t * 4 + i)
                out[v] = T.float32(0)
        for i in T.thread_binding(4, thread="{tag}"):
            with T.block("sum"):
                v = T.axis.spatial(16, t * 4 + i)
                out[v] = out[v] + a[v]
"""
    )
    with pytest.raises(TVMError, match=rf"every thread of {tag} would write out \(global memory\)"):
        kernel(func)


def counted(own_rows: bool) -> PrimFunc:
    """Each thread counts what it reads, in columns that only data know: of its own row, or of one for all."""

    @T.prim_func
    def func(a: T.Buffer((4, 8), "int32"), counts: T.Buffer((4, 3), "int32")) -> None:
        for t in T.thread_binding(4, thread="threadIdx.x"):
            for k in range(8):
                if a[t, k] > 0:
                    counts[t if own_rows else 0, a[t, k] % 3] = counts[t if own_rows else 0, (a[t, k] + 1) % 3] + 1

    return func  # type: ignore[no-any-return]


def test_places_that_data_know_in_rows_of_threads() -> None:
    mod = X.UnifyThreadBinding()(IRModule.from_expr(counted(True)))
    a, expected = np.random.default_rng(0).integers(-2, 9, (4, 8)).astype("int32"), np.zeros((4, 3), "int32")
    for row, values in zip(expected, a, strict=True):
        for v in values[values > 0]:
            row[v % 3] = row[(v + 1) % 3] + 1
    found = np.zeros((4, 3), "int32")
    run(mod, [a, found])
    np.testing.assert_array_equal(found, expected)
    with pytest.raises(TVMError, match="one kernel may read of counts .* what another of its threadIdx.x wrote"):
        X.UnifyThreadBinding()(IRModule.from_expr(counted(False)))


def test_what_a_let_binds_to_data_is_another_value_at_each_step() -> None:
    """Threads of one row of elements that data know: two of them may meet in one element."""

    @T.prim_func
    def func(a: T.Buffer((4,), "int32"), counts: T.Buffer((16,), "int32")) -> None:
        for t in T.thread_binding(4, thread="threadIdx.x"):
            for k in range(2):
                first: T.int32 = a[t]
                counts[first + t] = counts[first + t + 1 - k] + 1

    with pytest.raises(TVMError, match="one kernel may read of counts .* what another of its threadIdx.x wrote"):
        X.UnifyThreadBinding()(IRModule.from_expr(func))


@T.prim_func
def summed(m: T.int64, n: T.int64, a: T.handle, out: T.handle) -> None:
    """Elements of a sum by one number of blocks and threads, which nobody can divide by a size that is not known."""
    x, y = T.match_buffer(a, (n, m, 4)), T.match_buffer(out, (m, 4))
    for b in T.thread_binding((m * 4 + 7) // 8, thread="blockIdx.x"):
        for t in T.thread_binding(8, thread="threadIdx.x"):
            for k in range(n):
                with T.block("sum"):
                    vi = T.axis.spatial(4, (b * 8 + t) // m)
                    vj = T.axis.spatial(m, (b * 8 + t) % m)
                    vk = T.axis.reduce(n, k)
                    T.where(b * 8 + t < m * 4)
                    with T.init():
                        y[vj, vi] = T.float32(0)
                    y[vj, vi] = y[vj, vi] + x[vk, vj, vi]


@pytest.mark.parametrize("length", [0, 1, 5])
def test_a_sum_of_unknown_length_begins_in_its_thread(length: int) -> None:
    """Where there is a step there was a first one; where there is none, the element is written apart."""
    mod = lower_pipeline(threads=True)(IRModule.from_expr(summed))
    a, found = np.random.default_rng(0).random((length, 3, 4)).astype("float32"), np.full((3, 4), np.nan, "float32")
    run(mod, [3, length, a, found], check_races=True)
    np.testing.assert_allclose(found, a.sum(0), 1e-6)


def marked(own_rows: bool) -> PrimFunc:
    """Threads mark their rows up to lengths that data say, and read them."""

    @T.prim_func
    def func(a: T.Buffer((4,), "int32"), marks: T.Buffer((4, 8), "int32"), out: T.Buffer((4, 8), "int32")) -> None:
        for t in T.thread_binding(4, thread="threadIdx.x"):
            for k in range(a[t]):
                marks[t if own_rows else k % 4, k] = 1
            for k in range(8):
                out[t, k] = marks[t, k]

    return func  # type: ignore[no-any-return]


def test_loops_whose_lengths_data_say_in_rows_of_threads() -> None:
    mod = X.UnifyThreadBinding()(IRModule.from_expr(marked(True)))
    lengths, marks, found = np.array([0, 8, 3, 5], "int32"), np.zeros((4, 8), "int32"), np.zeros((4, 8), "int32")
    run(mod, [lengths, marks, found], check_races=True)
    np.testing.assert_array_equal(found, np.arange(8) < lengths[:, None])
    with pytest.raises(TVMError, match="one kernel may read of marks .* what another of its threadIdx.x wrote"):
        X.UnifyThreadBinding()(IRModule.from_expr(marked(False)))


def test_threads_of_a_kernel_without_blocks_share_nothing() -> None:
    @T.prim_func
    def func(a: T.Buffer((0, 8), "float32"), out: T.Buffer((0,), "float32")) -> None:
        for _ in T.thread_binding(0, thread="blockIdx.x"):
            for _ in T.thread_binding(32, thread="threadIdx.x"):
                for k in range(8):
                    out[0] = out[0] + a[0, k]

    X.UnifyThreadBinding()(IRModule.from_expr(func))
