"""Passes about memories and copies between them: staged, swizzled, flattened, rolled, prefetched; before and after, and run."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.tir_transform.test_moving_code import calls
from tests.tir_transform.thread.test_threads import allocate, flat, module, nodes, outputs, shared, thread
from tilewright import tir
from tilewright.codegen.interp import run
from tilewright.ir import IRModule, Range
from tilewright.script import tir as T
from tilewright.support.errors import TVMError
from tilewright.testing import CompareBeforeAfter
from tilewright.tir import transform as P

RNG = np.random.default_rng(0)


def one(func: Any) -> IRModule:
    return IRModule({"main": func.with_attr("global_symbol", "main")})


# --- staging


@T.prim_func
def staged_copy(A: T.Buffer((64, 16), "float32"), B: T.Buffer((64, 16), "float32")):
    S = T.alloc_buffer((64, 16), "float32", scope="shared")
    for bx in T.thread_binding(4, "blockIdx.x"):
        for tx in T.thread_binding(16, "threadIdx.x"):
            for r in range(4):
                for v in T.vectorized(4):
                    with T.block("S"):
                        i = T.axis.spatial(64, bx * 16 + r * 4 + tx // 4)
                        j = T.axis.spatial(16, tx % 4 * 4 + v)
                        T.block_attr({"tir.manifest_shared_memory_local_stage": 1})
                        S[i, j] = A[i, j]
        for tx in T.thread_binding(16, "threadIdx.x"):
            for r in range(16):
                with T.block("B"):
                    i, j = T.axis.remap("SS", [bx, tx])
                    k = T.axis.spatial(16, r)
                    B[i * 16 + j, k] = S[i * 16 + j, k] + T.float32(1)


def test_copies_into_shared_memory_go_through_registers() -> None:
    a, b = RNG.standard_normal((64, 16)).astype("float32"), np.zeros((64, 16), "float32")
    mod = P.ManifestSharedMemoryLocalStage()(one(staged_copy))
    local = [x for n in nodes(mod, tir.Block) for x in n.alloc_buffers if x.scope() == "local"]
    assert [list(map(int, x.shape)) for x in local] == [[4, 4]]
    np.testing.assert_array_equal(outputs(mod, a, b), a + 1)
    synced = P.ThreadSync("shared")(flat(mod))
    np.testing.assert_array_equal(outputs(synced, a, b), a + 1)


def test_only_stores_to_shared_memory_are_staged() -> None:
    @T.prim_func
    def f(A: T.Buffer((8,), "float32")):
        for i in range(8):
            with T.block("A"):
                v = T.axis.spatial(8, i)
                T.block_attr({"tir.manifest_shared_memory_local_stage": 1})
                A[v] = T.float32(1)

    with pytest.raises(TVMError, match="block A must be one store to shared memory"):
        P.ManifestSharedMemoryLocalStage()(one(f))


@pytest.mark.parametrize("staged", [False, True])
@pytest.mark.parametrize("rows", [16, 13])
@pytest.mark.parametrize("vector_bytes", [4, 16])
def test_automatic_copies(rows: int, vector_bytes: int, staged: bool) -> None:
    @T.prim_func
    def f(A: T.Buffer((rows, 24), "float32"), B: T.Buffer((rows, 24), "float32")):
        S = T.alloc_buffer((rows, 24), "float32", scope="shared")
        for ty in T.thread_binding(4, "threadIdx.y"):
            for tx in T.thread_binding(8, "threadIdx.x"):
                with T.block("fetch"):
                    T.block_attr({"auto_copy": 1, "vector_bytes": vector_bytes, "local_stage": staged})
                    for i, j in T.grid(rows, 24):
                        with T.block("S"):
                            vi, vj = T.axis.remap("SS", [i, j])
                            S[vi, vj] = A[vi, vj]
                with T.block("B"):
                    for k in range(rows * 24 // 32 + 1):
                        if k * 32 + ty * 8 + tx < rows * 24:
                            B[(k * 32 + ty * 8 + tx) // 24, (k * 32 + ty * 8 + tx) % 24] = S[
                                (k * 32 + ty * 8 + tx) // 24, (k * 32 + ty * 8 + tx) % 24
                            ]

    mod = P.LowerAutoCopy()(one(f))
    kinds = {n.kind for n in nodes(mod, tir.For)}
    assert (tir.ForKind.VECTORIZED in kinds) == (vector_bytes == 16)
    a, b = RNG.standard_normal((rows, 24)).astype("float32"), np.zeros((rows, 24), "float32")
    lowered = P.VectorizeLoop()(P.ThreadSync("shared")(flat(mod)))
    np.testing.assert_array_equal(outputs(lowered, a, b), a)


def test_copy_intrinsic_gets_views_and_padding() -> None:
    seen: list[Any] = []

    def copy(src: Any, dst: Any, before: Any, after: Any, value: Any) -> Any:
        seen.append((src, dst, [int(x) for x in before], [int(x) for x in after], value))
        return tir.Evaluate(0)

    a, b = tir.decl_buffer((8, 8), name="A"), tir.decl_buffer((10, 10), name="B")
    i, j = tir.Var("i", "int32"), tir.Var("j", "int32")
    inside = tir.all(i >= 1, i < 9, j >= 1, j < 9)
    store = tir.BufferStore(b, tir.if_then_else(inside, a[i - 1, j - 1], 0.0), [i, j])
    nest = tir.For(i, 0, 10, 0, tir.For(j, 0, 10, 0, store))
    mod = module(tir.AttrStmt(None, "pragma_dma", 1, nest), a, b)
    out = P.InjectCopyIntrin("dma", copy)(mod)
    assert isinstance(out["main"].body, tir.Evaluate)
    src, dst, before, after, value = seen[0]
    assert (before, after, float(value)) == ([1, 1], [1, 1], 0.0)
    assert (
        [int(x) for x in src.shape] == [8, 8] and [int(x) for x in src.strides] == [8, 1] and int(src.elem_offset) == 0
    )
    assert [int(x) for x in dst.shape] == [10, 10] and int(dst.elem_offset) == 0
    with pytest.raises(TVMError, match="there must be loops around one store"):
        P.InjectCopyIntrin("dma", copy)(module(tir.AttrStmt(None, "pragma_dma", 1, tir.Evaluate(0)), a))


def test_asynchronous_copies() -> None:
    a, s, i = tir.decl_buffer((64,), name="A"), shared("S", 64, scope="global.vtcm"), tir.Var("i", "int32")
    loop = tir.For(i, 0, 32, 0, tir.BufferStore(s, a[i + 8], [i]))
    body = tir.AttrStmt(None, "async_commit_queue_scope", 0, tir.AttrStmt(None, "async_scope", 1, loop))
    use = tir.AttrStmt(
        None, "async_wait_queue_scope", 0, tir.AttrStmt(None, "async_wait_inflight_count", 1, tir.Evaluate(0))
    )
    out = P.LowerAsyncDMA()(module(tir.stmt_seq(body, use), a, s))
    copy = next(n for n in nodes(out, tir.Call) if n.op.name == "tir.dma_copy")
    assert int(copy.args[3]) == 128 and not nodes(out, tir.For) and "dma_wait" in calls(out)
    strided = tir.For(i, 0, 32, 0, tir.BufferStore(s, a[i * 2], [i]))
    out = P.LowerAsyncDMA()(module(tir.AttrStmt(None, "async_commit_queue_scope", 0, strided), a, s))
    assert len(nodes(out, tir.For)) == 1


def test_ptx_copies_are_asynchronous() -> None:
    a, s = tir.decl_buffer((64,), "float16", "A"), shared("S", 64, "float16")

    def body(tx: Any) -> Any:
        ramp = tir.Ramp(tx * 8, 1, 8)
        zero = tir.Broadcast(tir.const(0, "float16"), 8)
        plain = tir.BufferStore(s, a[ramp], [ramp])
        guarded = tir.BufferStore(s, tir.if_then_else(tx < 4, a[ramp], zero), [ramp])
        narrow = tir.BufferStore(s, a[tx], [tx])
        return tir.AttrStmt(None, "async_scope", 1, tir.stmt_seq(plain, guarded, narrow))

    out = P.InjectPTXAsyncCopy()(module(thread("threadIdx.x", 8, body), a, s))
    copies = [n for n in nodes(out, tir.Call) if n.op.name == "tir.ptx_cp_async"]
    assert [len(c.args) for c in copies] == [5, 6] and [int(c.args[4]) for c in copies] == [16, 16]
    assert len(nodes(out, tir.BufferStore)) == 1
    assert not [n for n in nodes(out, tir.AttrStmt) if n.attr_key == "async_scope"]


def test_guarded_loads() -> None:
    a = tir.decl_buffer((64,), name="A")
    r = tir.decl_buffer((1,), name="R", scope="local")

    def body(tx: Any) -> Any:
        return allocate(r, tir.BufferStore(r, tir.if_then_else(tx < 4, a[tx], tir.const(0.0, "float32")), [0]))

    mod = module(thread("threadIdx.x", 8, body), a)
    assert calls(P.InjectPTXLDG32()(mod)) == ["ptx_ldg32"]
    assert P.InjectPTXLDG32(False)(mod)["main"].body is mod["main"].body


@pytest.mark.parametrize("columns", [32, 64, 128])
def test_swizzled_shared_memory(columns: int) -> None:
    @T.prim_func
    def f(A: T.Buffer((32, columns), "float16"), B: T.Buffer((columns, 32), "float16")):
        S = T.alloc_buffer((32, columns), "float16", scope="shared")
        for i, j in T.grid(32, columns):
            with T.block("S"):
                vi, vj = T.axis.remap("SS", [i, j])
                T.block_attr({"permuted_layout": 1})
                S[vi, vj] = A[vi, vj]
        for i, j in T.grid(columns, 32):
            with T.block("B"):
                vi, vj = T.axis.remap("SS", [i, j])
                T.block_attr({"permuted_layout": 1})
                B[vi, vj] = S[vj, vi]

    mod = P.InjectPermutedLayout()(one(f))
    a, b = RNG.standard_normal((32, columns)).astype("float16"), np.zeros((columns, 32), "float16")
    np.testing.assert_array_equal(outputs(mod, a, b), a.T)
    assert mod["main"].script().count("bitwise_xor") + mod["main"].script().count("^") == 2
    # Eight threads that go down a column touch eight different chunks of a row of banks.
    load = next(n for n in nodes(mod, tir.BufferLoad) if n.buffer.scope() == "shared")
    vi, vj = (x.var for x in next(n for n in nodes(mod, tir.Block) if n.name_hint == "B").iter_vars)
    from tilewright.arith import Analyzer

    at = [
        [int(Analyzer().simplify(tir.stmt_functor.substitute(x, {vi: 0, vj: k}))) for x in load.indices]
        for k in range(8)
    ]
    assert len({(r * columns + c) // 8 % 8 for r, c in at}) == 8


def test_all_accesses_of_a_swizzled_buffer_are_marked() -> None:
    @T.prim_func
    def f(A: T.Buffer((32, 64), "float16")):
        S = T.alloc_buffer((32, 64), "float16", scope="shared")
        with T.block("S"):
            T.block_attr({"permuted_layout": 1})
            S[0, 0] = T.float16(1)
        with T.block("A"):
            A[0, 0] = S[0, 0]

    with pytest.raises(TVMError, match="S is accessed in a block annotated 'permuted_layout' and outside of any"):
        P.InjectPermutedLayout()(one(f))


def test_registers_of_mma() -> None:
    @T.prim_func
    def f(A: T.Buffer((32, 16), "float32"), B: T.Buffer((32, 16), "float32")):
        C = T.alloc_buffer((32, 16), "float32", scope="m16n8k8.matrixC")
        for i, j in T.grid(32, 16):
            with T.block("C"):
                vi, vj = T.axis.remap("SS", [i, j])
                C[vi, vj] = A[vi, vj] * T.float32(2)
        for i, j in T.grid(32, 16):
            with T.block("B"):
                vi, vj = T.axis.remap("SS", [i, j])
                B[vi, vj] = C[vi, vj]

    mod = P.TransformMmaBufferLayout()(one(f))
    (c,) = [x for n in nodes(mod, tir.Block) for x in n.alloc_buffers]
    assert c.scope() == "local" and [int(x) for x in c.shape] == [2, 2, 16, 8]
    a, b = RNG.standard_normal((32, 16)).astype("float32"), np.zeros((32, 16), "float32")
    np.testing.assert_array_equal(outputs(mod, a, b), a * 2)


# --- realized buffers


def realized(rolling: bool = False, prefetch: int | None = None) -> tuple[IRModule, Any]:
    """B[i] = S[i] + S[i+1] + S[i+2] with S[k] = A[k] * 2 realized for each i."""
    a, b = tir.decl_buffer((18,), name="A"), tir.decl_buffer((16,), name="B")
    s = tir.decl_buffer((18,), name="S")
    i, k = tir.Var("i", "int32"), tir.Var("k", "int32")
    fill: Any = tir.For(k, 0, 3, 0, tir.BufferStore(s, a[i + k] * 2.0, [i + k]))
    if prefetch is not None:
        fill = tir.AttrStmt(a, "prefetch_scope", prefetch, fill)
    use = tir.BufferStore(b, s[i] + s[i + 1] + s[i + 2], [i])
    body: Any = tir.BufferRealize(s, [Range.from_min_extent(i, 3)], tir.const(True, "bool"), tir.stmt_seq(fill, use))
    if rolling:
        body = tir.AttrStmt(s, "rolling_buffer_scope", 1, body)
    return module(tir.For(i, 0, 16, 0, body), a, b), a


def windows(a: Any) -> Any:
    return 2 * a[:16] + 2 * a[1:17] + 2 * a[2:18]


def test_realized_storage_is_flat_and_of_its_bounds() -> None:
    mod, _ = realized()
    a, b = RNG.integers(0, 9, 18).astype("float32"), np.zeros(16, "float32")
    out = P.StorageFlatten(64)(mod)
    (made,) = nodes(out, tir.Allocate)
    assert [int(e) for e in made.extents] == [3]
    np.testing.assert_array_equal(outputs(out, a, b), windows(a))
    noted = P.StorageFlatten(64, True)(mod)
    assert [int(n.value) for n in nodes(noted, tir.AttrStmt)].count(3) == 1


def test_flattened_regions_that_are_bound() -> None:
    a, v, i = tir.decl_buffer((8, 8), name="A"), tir.decl_buffer((4,), name="V"), tir.Var("i", "int32")
    body: Any = tir.For(i, 0, 4, 0, tir.BufferStore(v, 1.0, [i]))
    body = tir.AttrStmt([v, a], "buffer_bind_scope", tir.tvm_tuple(3, 1, 2, 4), body)
    out = P.StorageFlatten(64)(module(body, a))
    array = outputs(out, np.zeros((8, 8), "float32"))
    assert array.sum() == 4 and (array[3, 2:6] == 1).all()


def test_rolling_buffers_compute_each_row_once() -> None:
    mod, _ = realized(rolling=True)
    a, b = RNG.integers(0, 9, 18).astype("float32"), np.zeros(16, "float32")
    rolled = P.InjectRollingBuffer()(mod)
    assert isinstance(rolled["main"].body, tir.BufferRealize)
    out = P.StorageFlatten(64)(rolled)
    np.testing.assert_array_equal(outputs(out, a, b), windows(a))


def test_rolling_needs_an_overlap() -> None:
    s, a, i = tir.decl_buffer((32,), name="S"), tir.decl_buffer((32,), name="A"), tir.Var("i", "int32")
    body = tir.BufferRealize(
        s, [Range.from_min_extent(i * 2, 2)], tir.const(True, "bool"), tir.BufferStore(s, a[i], [i * 2])
    )
    with pytest.raises(TVMError, match="S has no dimension whose bounds move by less than their extent"):
        P.InjectRollingBuffer()(module(tir.For(i, 0, 16, 0, tir.AttrStmt(s, "rolling_buffer_scope", 1, body)), a))


def test_prefetches() -> None:
    mod, a = realized(prefetch=2)
    out = P.InjectPrefetch()(mod)
    (hint,) = nodes(out, tir.Prefetch)
    assert hint.buffer is a and [int(r.extent) for r in hint.bounds] == [3]
    flattened = P.StorageFlatten(64)(out)
    assert "prefetch" in calls(flattened)
    values, b = RNG.integers(0, 9, 18).astype("float32"), np.zeros(16, "float32")
    np.testing.assert_array_equal(outputs(flattened, values, b), windows(values))


def test_textures() -> None:
    image = tir.decl_buffer((2, 8, 8, 4), name="I", scope="global.texture")
    b = tir.decl_buffer((2, 8, 8, 4), name="B")
    n, y, x = (tir.Var(name, "int32") for name in "nyx")
    lanes = tir.Ramp(tir.IntImm("int32", 0), tir.IntImm("int32", 1), 4)
    body: Any = tir.BufferStore(b, image[n, y, x, lanes], [n, y, x, lanes])
    for v, extent in ((x, 8), (y, 8), (n, 2)):
        body = tir.For(v, 0, extent, 0, body)
    region = [Range.from_min_extent(0, int(e)) for e in image.shape]
    out = P.TextureFlatten()(module(tir.BufferRealize(image, region, tir.const(True, "bool"), body), b))
    assert {"texture2d_load", "nd_mem_alloc_with_scope"} <= set(calls(out)) and isinstance(
        out["main"].body, tir.LetStmt
    )


# --- pointers, special memory


class TestVectorsAllTheWay(CompareBeforeAfter):
    transform = P.PointerValueTypeRewrite()

    def _program(self, lanes: int, ramp: bool) -> Any:
        a, i = tir.decl_buffer((16,), name="A"), tir.Var("i", "int32")
        dtype = "float32" if ramp else f"float32x{lanes}"
        s = tir.decl_buffer((16 if ramp else 16 // lanes,), dtype, "S")
        at = tir.Ramp(i * 4, 1, 4)
        mine = at if ramp else i
        body = tir.stmt_seq(tir.BufferStore(s, a[at], [mine]), tir.BufferStore(a, s[mine] + s[mine], [at]))
        return module(allocate(s, tir.For(i, 0, 4, 0, body)), a)

    def before(self) -> Any:
        return self._program(4, True)

    def expected(self) -> Any:
        return self._program(4, False)


def test_vtcm_is_asked_for() -> None:
    s = shared("S", 64, scope="global.vtcm")
    out = P.LowerVtcmAlloc()(module(allocate(s, tir.BufferStore(s, 1.0, [0]))))
    assert isinstance(out["main"].body, tir.LetStmt) and calls(out) == [
        "tvm_stack_make_shape",
        "nd_mem_alloc_with_scope",
    ]


def test_memories_that_are_described() -> None:
    from tilewright.runtime import register_func
    from tilewright.tir.transform.function.launch import MemoryInfo

    register_func(
        "tvm.info.mem.local.TEST",
        lambda: MemoryInfo(128, 64 * 128, 128, tir.call_extern("handle", "head")),
        override=True,
    )
    s = shared("S", 32, scope="local.TEST")
    use = tir.Evaluate(tir.call_extern("int32", "f", s.access_ptr("r", offset=16)))
    out = P.LowerDeviceStorageAccessInfo()(module(allocate(s, use)))
    assert isinstance(out["main"].body, tir.LetStmt)
    offset = next(n for n in nodes(out, tir.Call) if n.op.name == "tir.handle_add_byte_offset")
    assert int(offset.args[1]) == 4
    plain = shared("P", 32, scope="shared")
    out = P.LowerDeviceStorageAccessInfo()(
        module(allocate(plain, tir.Evaluate(tir.call_extern("int32", "f", plain.access_ptr("r")))))
    )
    assert "address_of" in calls(out)
    large = shared("S", 1 << 16, scope="local.TEST")
    with pytest.raises(TVMError, match="S takes 2097152 bits, more than the 8192 of memory local.TEST"):
        P.LowerDeviceStorageAccessInfo()(module(allocate(large, tir.Evaluate(0))))


def test_run_keeps_prefetch_statements() -> None:
    a = tir.decl_buffer((8,), name="A")
    body = tir.stmt_seq(tir.Prefetch(a, [Range.from_min_extent(0, 8)]), tir.BufferStore(a, 1.0, [0]))
    array = np.zeros(8, "float32")
    run(module(body, a), [array])
    assert array[0] == 1
