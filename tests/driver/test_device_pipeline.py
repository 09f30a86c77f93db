"""Programs for a GPU through the whole pipeline: lowered, split into host and kernels, and run by the interpreter."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tilewright import te, tir
from tilewright.codegen.interp import run
from tilewright.driver import device_pipeline, lower
from tilewright.ir import IRModule
from tilewright.ir.transform import PassContext
from tilewright.node import post_order_visit
from tilewright.support.errors import TVMError
from tilewright.target import Target
from tilewright.tir.analysis import verify_gpu_code, verify_well_formed
from tilewright.tir.schedule import Schedule

CUDA = Target("cuda", host="llvm")
DEPTH = 24
"""Of the products: three tiles, so that a pipeline has a beginning, a middle and an end."""


def kernels(mod: IRModule) -> dict[str, Any]:
    return {g.name_hint: f for g, f in mod.functions.items() if "kernel" in g.name_hint}


def calls(func: Any) -> list[str]:
    found: list[str] = []
    post_order_visit(
        func.body, lambda n: found.append(n.op.name[4:]) if isinstance(n, tir.Call) and hasattr(n.op, "name") else None
    )
    return found


def allocated(func: Any) -> dict[str, int]:
    return tir.analysis.calculate_allocated_bytes(func)["main"]


def compiled(program: Any, args: Any = None, target: Any = CUDA, **config: Any) -> IRModule:
    """Lowered, split, and checked."""
    with PassContext(config=config):
        mod = lower(program, args)
        for func in mod.functions.values():
            verify_well_formed(func)
        out = device_pipeline(target)(mod)
    for func in out.functions.values():
        verify_well_formed(func)
    assert kernels(out), "there is a kernel"
    return out


def factors(n: int = 16) -> list[Any]:
    """Of a product: whole numbers, whose sums are exact."""
    rng = np.random.default_rng(0)
    return [rng.integers(-3, 4, shape).astype("float32") for shape in ((n, DEPTH), (DEPTH, n))]


def check(mod: IRModule, expected: Any, *inputs: Any, tolerance: float = 0) -> None:
    out = np.full(expected.shape, 77, expected.dtype)
    run(mod, [*inputs, out], entry="main", check_races=True)
    np.testing.assert_allclose(out, expected, rtol=tolerance)


def gemm(
    n: int = 16,
    vthreads: int = 1,
    double_buffer: bool = False,
    pipeline: bool = False,
    stage: bool = False,
    scope: str = "shared",
) -> Schedule:
    """C = A @ B, n x DEPTH times DEPTH x n: tiles in shared memory fetched by all threads of a block, accumulators in registers."""
    a, b = te.placeholder((n, DEPTH), name="A"), te.placeholder((DEPTH, n), name="B")
    r = te.reduce_axis((0, DEPTH), name="k")
    c = te.compute((n, n), lambda i, j: te.sum(a[i, r] * b[r, j], axis=r), name="C")
    s = Schedule(te.create_prim_func([a, b, c]))
    block = s.get_block("C")
    i, j, k = s.get_loops(block)
    bi, vi, ti, ii = s.split(i, [None, vthreads, 4, 2])
    bj, vj, tj, jj = s.split(j, [None, vthreads, 4, 2])
    ko, ki = s.split(k, [None, 8])
    s.reorder(bi, bj, vi, vj, ti, tj, ko, ki, ii, jj)
    for loop, tag in (
        (bi, "blockIdx.y"),
        (bj, "blockIdx.x"),
        (vi, "vthread.y"),
        (vj, "vthread.x"),
        (ti, "threadIdx.y"),
        (tj, "threadIdx.x"),
    ):
        s.bind(loop, tag)
    out = s.cache_write(block, 0, "local")
    s.reverse_compute_at(out, tj)
    copies = [(s.cache_read(block, operand, scope), s.cache_read(block, operand, "local")) for operand in (0, 1)]
    for copy, local in copies:
        s.compute_at(local, ki)
        s.compute_at(copy, ko)
        fused = s.fuse(*s.get_loops(copy)[-2:])
        _, ty, tx, vec = s.split(fused, [None, 4, 4, 2])
        s.bind(ty, "threadIdx.y")
        s.bind(tx, "threadIdx.x")
        s.vectorize(vec)
        if double_buffer:
            s.annotate(copy, "double_buffer_scope", 0)
        if stage:
            s.annotate(copy, "tir.manifest_shared_memory_local_stage", 1)
    if pipeline:
        s.annotate(ko, "software_pipeline_stage", [0, 0, 1])
        s.annotate(ko, "software_pipeline_order", [0, 1, 2])
    s.decompose_reduction(block, ko)
    return s


@pytest.mark.parametrize(
    "options",
    [
        {}, {"vthreads": 2}, {"double_buffer": True}, {"pipeline": True}, {"stage": True}, {"scope": "shared.dyn"},
        {"vthreads": 2, "double_buffer": True}, {"vthreads": 2, "pipeline": True, "scope": "shared.dyn"},
    ],
    ids=lambda o: "+".join(o) or "plain",
)  # fmt: skip
def test_tiled_gemm(options: dict[str, Any]) -> None:
    n = 16 * options.get("vthreads", 1)  # two blocks a side
    a, b = factors(n)
    mod = compiled(gemm(n, **options).mod)
    (kernel,) = kernels(mod).values()
    assert calls(kernel).count("tvm_storage_sync") >= 1
    doubled = 2 if options.get("double_buffer") or options.get("pipeline") else 1
    tile = 8 * options.get("vthreads", 1)
    assert allocated(kernel)[options.get("scope", "shared")] == 2 * doubled * tile * 8 * 4, "tiles of A and B, no more"
    assert verify_gpu_code(kernel, {"max_threads_per_block": 16, "max_shared_memory_per_block": 2048, "max_kernels": 1})
    check(mod, a @ b, a, b)


def test_reduction_over_threads_by_shuffles_and_by_memory() -> None:
    a = te.placeholder((8, 64), name="A")
    k = te.reduce_axis((0, 64), name="k")
    b = te.compute((8,), lambda i: te.sum(a[i, k], axis=k), name="B")
    values = np.random.default_rng(1).integers(-9, 9, (8, 64)).astype("float32")
    for threads, shuffles in ((32, True), (24, False)):
        s = Schedule(te.create_prim_func([a, b]))
        i, r = s.get_loops(s.get_block("B"))
        _, inner = s.split(r, [None, threads])
        s.bind(i, "blockIdx.x")
        s.bind(inner, "threadIdx.x")
        mod = compiled(s.mod)
        (kernel,) = kernels(mod).values()
        assert ("tvm_warp_shuffle_down" in calls(kernel)) == shuffles
        assert ("tvm_storage_sync" in calls(kernel)) == (not shuffles)
        check(mod, values.sum(1), values)


def test_warp_memory_becomes_shuffles() -> None:
    a = te.placeholder((4, 32), name="A")
    b = te.compute((4, 32), lambda i, j: a[i, j] * 2.0, name="B")
    c = te.compute((4, 32), lambda i, j: b[i, (j + 1) % 32], name="C")
    s = Schedule(te.create_prim_func([a, c]))
    i, j = s.get_loops(s.get_block("C"))
    s.bind(i, "blockIdx.x")
    block = s.get_block("B")
    s.compute_at(block, i)
    s.set_scope(block, 0, "warp")
    s.bind(s.get_loops(block)[-1], "threadIdx.x")
    s.bind(j, "threadIdx.x")
    mod = compiled(s.mod)
    (kernel,) = kernels(mod).values()
    assert "tvm_warp_shuffle" in calls(kernel) and "warp" not in allocated(kernel)
    values = np.random.default_rng(2).standard_normal((4, 32)).astype("float32")
    check(mod, np.roll(values * 2, -1, 1), values)


def test_a_te_schedule_goes_the_same_way() -> None:
    n = 32
    a, b = te.placeholder((n, n), name="A"), te.placeholder((n, n), name="B")
    k = te.reduce_axis((0, n), name="k")
    c = te.compute((n, n), lambda i, j: te.sum(a[i, k] * b[k, j], axis=k), name="C")
    s = te.create_schedule(c.op)
    shared_a, shared_b = s.cache_read(a, "shared", [c]), s.cache_read(b, "shared", [c])
    local = s.cache_write(c, "local")
    by, bx = te.thread_axis("blockIdx.y"), te.thread_axis("blockIdx.x")
    ty, tx = te.thread_axis((0, 4), "threadIdx.y"), te.thread_axis((0, 4), "threadIdx.x")
    yo, yi = s[c].split(c.op.axis[0], 8)
    xo, xi = s[c].split(c.op.axis[1], 8)
    yt, yr = s[c].split(yi, nparts=4)
    xt, xr = s[c].split(xi, nparts=4)
    s[c].reorder(yo, xo, yt, xt, yr, xr)
    for axis, thread in ((yo, by), (xo, bx), (yt, ty), (xt, tx)):
        s[c].bind(axis, thread)
    s[local].compute_at(s[c], xt)
    ko, ki = s[local].split(s[local].op.reduce_axis[0], 8)
    s[local].reorder(ko, ki, *s[local].op.axis)
    for load in (shared_a, shared_b):
        s[load].compute_at(s[local], ko)
        fused = s[load].fuse(*s[load].op.axis)
        f0, f1 = s[load].split(fused, nparts=4)
        f1, f2 = s[load].split(f1, nparts=4)
        s[load].bind(f0, ty)
        s[load].bind(f1, tx)
        s[load].double_buffer()
    mod = compiled(s, [a, b, c])
    (kernel,) = kernels(mod).values()
    rng = np.random.default_rng(3)
    x, y = (rng.integers(-3, 4, (n, n)).astype("float32") for _ in range(2))
    assert allocated(kernel)["shared"] == 2 * 2 * 64 * 4
    check(mod, x @ y, x, y)


def test_asynchronous_copies_of_a_pipeline() -> None:
    s = gemm(pipeline=True)
    ko = next(rv for rv in s.get_loops(s.get_block("C_update")) if "software_pipeline_stage" in s.get(rv).annotations)
    s.annotate(ko, "software_pipeline_async_stages", [0])
    a, b = factors()
    mod = compiled(s.mod)
    (kernel,) = kernels(mod).values()
    text = kernel.script()
    assert "async_commit_queue_scope" in text and "async_wait_inflight_count" in text
    # A thread waits for its own copies. A barrier makes those of the others known.
    lines = [line.strip() for line in text.splitlines()]
    waits = [k for k, line in enumerate(lines) if "async_wait_inflight_count" in line]
    assert waits and all([lines[k + 1] == 'T.tvm_storage_sync("shared")' for k in waits])
    check(mod, a @ b, a, b)
    asynchronous = compiled(s.mod, **{"tir.use_async_copy": True})
    (kernel,) = kernels(asynchronous).values()
    assert "ptx_cp_async" in calls(kernel)


@pytest.mark.parametrize("threads", [32, 24])
def test_largest_element_and_its_place_over_threads(threads: int) -> None:
    def larger(x: Any, y: Any) -> Any:
        return tir.Select(x[1] >= y[1], x[0], y[0]), tir.Select(x[1] >= y[1], x[1], y[1])

    argmax = te.comm_reducer(larger, lambda i, v: (tir.const(-1, i), te.min_value(v)), name="argmax")
    places, values = te.placeholder((8, 64), "int32", name="places"), te.placeholder((8, 64), name="values")
    k = te.reduce_axis((0, 64), "k")
    at, most = te.compute((8,), lambda i: argmax((places[i, k], values[i, k]), axis=k), name="T")
    s = Schedule(te.create_prim_func([places, values, at, most]))
    i, r = s.get_loops(s.get_block("T"))
    _, inner = s.split(r, [None, threads])
    s.bind(i, "blockIdx.x")
    s.bind(inner, "threadIdx.x")
    mod = compiled(s.mod)
    data = np.random.default_rng(4).permutation(8 * 64).reshape(8, 64).astype("float32")
    where = np.tile(np.arange(64, dtype="int32"), (8, 1))
    found, best = np.zeros(8, "int32"), np.zeros(8, "float32")
    run(mod, [where, data, found, best], entry="main", check_races=True)
    np.testing.assert_array_equal(found, data.argmax(1))
    np.testing.assert_array_equal(best, data.max(1))


def test_what_does_not_combine_associatively_is_refused() -> None:
    def odd(x: Any, y: Any) -> Any:
        return x[0] * 2 + y[0], x[1] + y[1]

    strange = te.comm_reducer(odd, lambda a, b: (tir.const(0, a), tir.const(0, b)), name="odd")
    a, b = te.placeholder((8, 64), "int32", name="a"), te.placeholder((8, 64), "int32", name="b")
    k = te.reduce_axis((0, 64), "k")
    x, y = te.compute((8,), lambda i: strange((a[i, k], b[i, k]), axis=k), name="T")
    s = Schedule(te.create_prim_func([a, b, x, y]))
    i, r = s.get_loops(s.get_block("T"))
    s.bind(i, "blockIdx.x")
    s.bind(r, "threadIdx.x")
    with pytest.raises(TVMError, match="block T reduces over threads; its body must be one store"):
        compiled(s.mod)
