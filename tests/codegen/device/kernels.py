"""Kernels for tests of the languages of devices: programs with thread axes, by name."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import tilewright as tvm
from tilewright import te, tir, topi
from tilewright.tir.schedule import Schedule
from tilewright.tir.tensor_intrin import cuda

KERNELS: dict[str, Callable[[], tir.PrimFunc]] = {}


def kernel(make: Callable[[], tir.PrimFunc]) -> Callable[[], tir.PrimFunc]:
    KERNELS[make.__name__] = make
    return make


def scheduled(tensors: list[Any], steps: Callable[[Schedule], None]) -> tir.PrimFunc:
    s = Schedule(te.create_prim_func(tensors))
    steps(s)
    func: tir.PrimFunc = s.mod["main"]
    return func


def over_threads(s: Schedule, block: str, lanes: int = 1, threads: int = 256) -> None:
    """The loops of a block over blocks and threads, with vectors of lanes."""
    loops = s.get_loops(s.get_block(block))
    fused = s.fuse(*loops) if len(loops) > 1 else loops[0]
    if lanes == 1:
        outer, inner = s.split(fused, [None, threads])
    else:
        outer, inner, vector = s.split(fused, [None, threads, lanes])
        s.vectorize(vector)
    s.bind(outer, "blockIdx.x")
    s.bind(inner, "threadIdx.x")


def elementwise(dtype: str, lanes: int, compute: Callable[..., Any], inputs: int = 1) -> tir.PrimFunc:
    xs = [te.placeholder((4096,), dtype, name=n) for n in "ABC"[:inputs]]
    y = te.compute((4096,), lambda i: compute(*[x[i] for x in xs]), name="D")
    return scheduled([*xs, y], lambda s: over_threads(s, "D", lanes, 128))


@kernel
def add() -> tir.PrimFunc:
    """C = A + B on vectors of four."""
    return elementwise("float32", 4, lambda a, b: a + b, 2)


@kernel
def gelu() -> tir.PrimFunc:
    """Mathematics on single elements, with a tail."""
    x = te.placeholder((1000,), name="X")
    y = te.compute((1000,), lambda i: x[i] * 0.5 * (1.0 + te.erf(x[i] * 0.70710678)), name="Y")
    return scheduled([x, y], lambda s: over_threads(s, "Y"))


def tiled(m: int, n: int, k: int, dtype: str = "float32", scope: str = "shared", out: str = "float32") -> tir.PrimFunc:
    """A product with tiles in shared memory and sums in registers."""
    a, b = te.placeholder((m, k), dtype, name="A"), te.placeholder((k, n), dtype, name="B")
    r = te.reduce_axis((0, k), "k")
    c = te.compute((m, n), lambda i, j: te.sum(a[i, r].astype(out) * b[r, j].astype(out), axis=r), name="C")

    def steps(s: Schedule) -> None:
        block = s.get_block("C")
        i, j, inner = s.get_loops(block)
        by, ty, i = s.split(i, [None, 16, 4])
        bx, tx, j = s.split(j, [None, 16, 4])
        ko, ki = s.split(inner, [None, 16])
        s.reorder(by, bx, ty, tx, ko, ki, i, j)
        for loop, axis in ((by, "blockIdx.y"), (bx, "blockIdx.x"), (ty, "threadIdx.y"), (tx, "threadIdx.x")):
            s.bind(loop, axis)
        sums = s.cache_write(block, 0, "local")
        s.reverse_compute_at(sums, tx)
        s.vectorize(s.get_loops(sums)[-1])
        for operand in (0, 1):
            tile = s.cache_read(block, operand, scope)
            s.compute_at(tile, ko)
            fused = s.fuse(*s.get_loops(tile)[-2:])
            _, y, x, vector = s.split(fused, [None, 16, 16, 4])
            s.bind(y, "threadIdx.y")
            s.bind(x, "threadIdx.x")
            s.vectorize(vector)
        s.unroll(i)
        s.unroll(j)
        s.decompose_reduction(block, ko)

    return scheduled([a, b, c], steps)


@kernel
def matmul() -> tir.PrimFunc:
    return tiled(256, 256, 256)


@kernel
def matmul_dynamic_shared() -> tir.PrimFunc:
    """The same with dynamic shared memory, of float16."""
    return tiled(256, 256, 256, "float16", "shared.dyn")


def row_sums(threads: int) -> tir.PrimFunc:
    x = te.placeholder((64, 1024), name="X")
    r = te.reduce_axis((0, 1024), "r")
    y = te.compute((64,), lambda i: te.sum(x[i, r], axis=r), name="Y")

    def steps(s: Schedule) -> None:
        i, j = s.get_loops(s.get_block("Y"))
        _, inner = s.split(j, [None, threads])
        s.bind(i, "blockIdx.x")
        s.bind(inner, "threadIdx.x")

    return scheduled([x, y], steps)


@kernel
def sum_by_shuffles() -> tir.PrimFunc:
    """A sum over the threads of a warp."""
    return row_sums(32)


@kernel
def sum_in_shared_memory() -> tir.PrimFunc:
    """A sum over 128 threads."""
    return row_sums(128)


@kernel
def softmax() -> tir.PrimFunc:
    x = te.placeholder((64, 128), name="X")
    y = topi.nn.softmax(x)

    def steps(s: Schedule) -> None:
        last = s.get_block("T_softmax_norm")
        i, j = s.get_loops(last)
        s.bind(i, "blockIdx.x")
        s.bind(j, "threadIdx.x")
        for name in ("T_softmax_expsum", "T_softmax_exp", "T_softmax_maxelem"):
            block = s.get_block(name)
            s.set_scope(block, 0, "shared")
            s.compute_at(block, i)
            loops = s.get_loops(block)[1:]
            s.bind(loops[-1], "threadIdx.x")

    return scheduled([x, y], steps)


@kernel
def half_relu() -> tir.PrimFunc:
    """float16 on vectors of eight, which are loaded as 16 bytes."""
    return elementwise("float16", 8, lambda a, b: te.max(a + b, tir.const(0, "float16")), 2)


@kernel
def bfloat16_scale() -> tir.PrimFunc:
    return elementwise("bfloat16", 2, lambda a: a * tir.const(1.5, "bfloat16"))


@kernel
def int8_dot() -> tir.PrimFunc:
    """The dot product of four bytes by four bytes."""
    a, b = te.placeholder((1024,), "int8x4", name="A"), te.placeholder((1024,), "int8x4", name="B")
    c = te.compute((1024,), lambda i: tir.dp4a(a[i], b[i], 0), name="C")
    return scheduled([a, b, c], lambda s: over_threads(s, "C"))


@kernel
def select() -> tir.PrimFunc:
    """A choice by lane."""
    return elementwise("float32", 4, lambda a: tir.Select(a > 0, a, a * 0.1))


@kernel
def symbolic() -> tir.PrimFunc:
    """A matrix of any size; its extents are arguments."""
    n, m = te.var("n"), te.var("m")
    x = te.placeholder((n, m), name="X")
    y = te.compute((n, m), lambda i, j: te.exp(x[i, j]) + 1.0, name="Y")
    return scheduled([x, y], lambda s: over_threads(s, "Y"))


@kernel
def transpose_through_shared() -> tir.PrimFunc:
    """A tile of 32 x 33 elements, whose columns lie in different banks."""
    x = te.placeholder((256, 256), name="X")
    y = te.compute((256, 256), lambda i, j: x[j, i], name="Y")

    def steps(s: Schedule) -> None:
        block = s.get_block("Y")
        tile = s.cache_read(block, 0, "shared")
        i, j = s.get_loops(block)
        by, i = s.split(i, [None, 32])
        bx, tx = s.split(j, [None, 32])
        ty, i = s.split(i, [8, None])
        s.reorder(by, bx, ty, tx, i)
        s.bind(by, "blockIdx.y")
        s.bind(bx, "blockIdx.x")
        s.compute_at(tile, bx)
        s.bind(ty, "threadIdx.y")
        s.bind(tx, "threadIdx.x")
        _, row, column = [*s.get_loops(tile)[-3:]]
        ty, row = s.split(row, [8, None])
        s.bind(ty, "threadIdx.y")
        s.bind(column, "threadIdx.x")
        s.storage_align(tile, 0, 0, 32, 1)

    return scheduled([x, y], steps)


@kernel
def cumulative_sum() -> tir.PrimFunc:
    """A scan in shared memory, in log2(n) steps."""
    from tilewright.script import tir as T

    @T.prim_func
    def scan(x: T.Buffer((64, 256), "float32"), y: T.Buffer((64, 256), "float32")):  # type: ignore[no-untyped-def]
        for row in T.thread_binding(64, thread="blockIdx.x"):
            for column in T.thread_binding(256, thread="threadIdx.x"):
                with T.block("scan"):
                    i, j = T.axis.remap("SS", [row, column])
                    part = T.alloc_buffer((2, 256), scope="shared")
                    part[0, j] = x[i, j]
                    for step in range(8):
                        T.tvm_storage_sync("shared")
                        if j >= T.shift_left(1, step):
                            part[(step + 1) % 2, j] = part[step % 2, j] + part[step % 2, j - T.shift_left(1, step)]
                        else:
                            part[(step + 1) % 2, j] = part[step % 2, j]
                    T.tvm_storage_sync("shared")
                    y[i, j] = part[0, j]

    return scan


@kernel
def histogram() -> tir.PrimFunc:
    """Atomic additions."""
    from tilewright.script import tir as T

    @T.prim_func
    def count(x: T.Buffer((4096,), "int32"), bins: T.Buffer((16,), "int32")):  # type: ignore[no-untyped-def]
        for block in T.thread_binding(16, thread="blockIdx.x"):
            for thread in T.thread_binding(256, thread="threadIdx.x"):
                with T.block("count"):
                    i, j = T.axis.remap("SS", [block, thread])
                    T.evaluate(T.atomic_add(T.address_of(bins[x[i * 256 + j] % 16]), 1, dtype="int32"))

    return count


@kernel
def checked() -> tir.PrimFunc:
    """Indices that are data, and checks that they are in bounds."""
    index, table = te.placeholder((1000,), "int32", name="index"), te.placeholder((16,), name="table")
    y = te.compute((1000,), lambda i: table[index[i]], name="Y")
    return scheduled([index, table, y], lambda s: over_threads(s, "Y"))


def on_matrix_units(scope: str) -> tir.PrimFunc:
    """A product of float16: a warp computes a tile of 16 x 16."""
    a, b = te.placeholder((64, 64), "float16", name="A"), te.placeholder((64, 64), "float16", name="B")
    r = te.reduce_axis((0, 64), "k")
    c = te.compute(
        (64, 64), lambda i, j: te.sum(a[i, r].astype("float32") * b[r, j].astype("float32"), axis=r), name="C"
    )
    names = cuda.get_wmma_intrin_group(scope, "global", "float16", "float32", False)

    def steps(s: Schedule) -> None:
        block = s.get_block("C")
        (i0, i), (j0, j), (k0, k) = [s.split(loop, [None, 16]) for loop in s.get_loops(block)]
        s.reorder(i0, j0, k0, i, j, k)
        s.bind(i0, "blockIdx.y")
        s.bind(j0, "blockIdx.x")
        sums = s.cache_write(block, 0, "wmma.accumulator")
        s.reverse_compute_at(sums, j0)
        for operand, letter in ((0, "a"), (1, "b")):
            tile = s.cache_read(block, operand, scope)
            fragment = s.cache_read(block, operand, f"wmma.matrix_{letter}")
            s.compute_at(fragment, k0)
            s.compute_at(tile, k0)
            fused = s.fuse(*s.get_loops(tile)[-2:])
            thread, vector = s.split(fused, [32, 8])
            s.bind(thread, "threadIdx.x")
            s.vectorize(vector)
            s.tensorize(s.get_loops(fragment)[-2], names[f"load_{letter}"])
        start = s.decompose_reduction(block, k0)
        s.tensorize(s.get_loops(start)[-2], names["init"])
        s.tensorize(i, names["compute"])
        s.tensorize(s.get_loops(sums)[-2], names["store"])

    return scheduled([a, b, c], steps)


@kernel
def wmma_matmul() -> tir.PrimFunc:
    return on_matrix_units("shared")


@kernel
def wmma_dynamic_shared() -> tir.PrimFunc:
    """The same with dynamic shared memory, whose parts are addressed in one array of bytes."""
    return on_matrix_units("shared.dyn")


@kernel
def asynchronous_pipeline() -> tir.PrimFunc:
    """A product whose tiles are copied by cp.async while the ones before are multiplied."""
    s = Schedule(tiled(64, 64, 128))
    loops = s.get_loops(s.get_block("C_update"))
    ko = loops[4]
    s.annotate(ko, "software_pipeline_stage", [0, 0, 1])
    s.annotate(ko, "software_pipeline_order", [0, 1, 2])
    s.annotate(ko, "software_pipeline_async_stages", [0])
    func: tir.PrimFunc = s.mod["main"]
    return func


@kernel
def all_blocks_wait() -> tir.PrimFunc:
    """Blocks that read what others wrote, behind a barrier of all; such a launch is cooperative."""
    from tilewright.script import tir as T

    @T.prim_func
    def turned(x: T.Buffer((1024,), "float32"), y: T.Buffer((1024,), "float32")):  # type: ignore[no-untyped-def]
        for block in T.thread_binding(8, thread="blockIdx.x"):
            for thread in T.thread_binding(128, thread="threadIdx.x"):
                with T.block("turn"):
                    i, j = T.axis.remap("SS", [block, thread])
                    y[i * 128 + j] = x[i * 128 + j] + T.float32(1)
                    T.tvm_storage_sync("global")
                    x[i * 128 + j] = y[1023 - i * 128 - j]

    return turned


OPTIONS: dict[str, dict[str, Any]] = {
    "asynchronous_pipeline": {"tir.use_async_copy": True},
    "checked": {"tir.instrument_bound_checkers": True},
}
"""Options of the pass context for kernels that need some."""
ONLY_CUDA = ("wmma_matmul", "wmma_dynamic_shared", "asynchronous_pipeline", "all_blocks_wait")


def built(name: str, target: str) -> Any:
    """A kernel built for a target."""
    with tvm.transform.PassContext(config=OPTIONS.get(name, {})):
        return tvm.build(KERNELS[name](), target=target)


def source(name: str, target: str) -> str:
    """The text of a kernel."""
    return str(built(name, target).imported_modules[0].get_source())
