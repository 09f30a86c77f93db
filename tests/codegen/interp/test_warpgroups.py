"""Barriers with phases, copies of tiles and products of warpgroups in the interpreter: each step that a program leaves out is found."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
import pytest

from tests.scheduling.gpu.test_products import matmul
from tests.tensor_intrin.on_devices import as_on_device, inputs_of, results
from tilewright import tir
from tilewright.codegen.interp.values import InterpError
from tilewright.ir import DataType, IntImm, IRModule, PointerType, PrimType
from tilewright.node import Mutator, on
from tilewright.scheduling.kernel_plan import KernelPlan
from tilewright.scheduling.whole_kernel import scheduled
from tilewright.target import Target
from tilewright.tir import Call, Evaluate, Stmt
from tilewright.tir import warpgroups as W

HOPPER = "cuda -arch=sm_90a"
TILE = [64, 64, 64, 2, 128]
FUNC = matmul(64, 64, 192, "float16", "float32")
Change = Callable[[Call], Call | None]


@cache
def product() -> IRModule:
    """A product of one block, 3 steps in a ring of 2."""
    plan = KernelPlan(HOPPER, {"C.warpgroups": TILE})
    made = scheduled(FUNC, Target(HOPPER), plan)
    assert not plan.unfit(), plan.unfit()
    return as_on_device(made.mod, HOPPER)


class Changed(Mutator):
    """Applies a change to the calls of an intrinsic; None: the call is left out. at: which of them; -1: all."""

    def __init__(self, name: str, change: Change, at: int) -> None:
        self.name, self.change, self.at, self.seen = name, change, at, 0

    @on(Evaluate)
    def _evaluate(self, s: Evaluate) -> Stmt:
        call: Any = s.value
        if getattr(call, "intrinsic", "") != self.name:
            return s
        self.seen += 1
        if self.at not in (-1, self.seen - 1):
            return s
        new = self.change(call)
        return Evaluate(new if new is not None else IntImm("int32", 0))


def left_out(call: Call) -> None:
    """No call."""


def changed(name: str, change: Change = left_out, at: int = -1) -> IRModule:
    """The product with a change to calls of an intrinsic."""
    mod = product()
    walk = Changed(name, change, at)
    functions = {g: f.replace(body=walk.visit(f.body)) for g, f in mod.functions.items() if isinstance(f, tir.PrimFunc)}
    assert walk.seen, name
    return mod.with_functions(functions)


def given(at: int, value: Any) -> Change:
    """The call with another argument."""
    return lambda call: Call(call.dtype, call.op, (*call.args[:at], value(call.args[at]), *call.args[at + 1 :]))


def test_whole() -> None:
    inputs = inputs_of(FUNC)
    np.testing.assert_array_equal(results(product(), inputs, True)[-1], results(FUNC, inputs)[-1])


MISSING: dict[str, tuple[Any, str]] = {
    "the consumers' wait for a copy": (
        ("ptx_wait_barrier_parity", left_out, 1),
        "uninitialised read: the first operand of wgmma",
    ),
    "the producer's wait for products": (
        ("ptx_wait_barrier_parity", left_out, 0),
        "more than the 1 threads of barrier 0 arrive in its phase 0",
    ),
    "the consumers' parity": (
        ("ptx_wait_barrier_parity", given(1, lambda p: 1 - p), 1),
        "uninitialised read: the first operand of wgmma",
    ),
    "the producer's parity": (
        ("ptx_wait_barrier_parity", given(1, lambda p: 1 - p), 0),
        "threads wait forever",
    ),
    "arrivals of consumers": (
        ("ptx_arrive_barrier",),
        r"threads wait forever: for phase 1 of barrier 0 .*, for phase 0 of barrier 2 .* 4 of 4 arrivals",
    ),
    "the bytes of a copy": (
        ("ptx_arrive_barrier_expect_tx", given(1, lambda n: n - 16)),
        "threads wait forever: .* 0 of 1 arrivals and -16 bytes",
    ),
    "a fence before products": (("ptx_wgmma_fence",), "there is no ptx_wgmma_fence"),
    "a commit": (("ptx_wgmma_commit_group",), "race: a copy that thread 128 begins .* products that read it"),
    "the wait for the last products": (("ptx_wgmma_wait_group", left_out, 1), "uninitialised read: buffer"),
    "the wait before arrivals": (
        ("ptx_wgmma_wait_group", left_out, 0),
        "race: a copy that thread 128 begins .*ptx_wgmma_wait_group",
    ),
    "the initialisation": (("ptx_init_barrier_thread_count", left_out, 0), "barrier 0, which was not initialised"),
    "the fence of initialisations": (("ptx_fence_barrier_init",), "ptx_fence_barrier_init"),
    "the barrier behind them": (("tvm_storage_sync",), "has not waited for thread 0, which initialised it"),
    "the swizzle of a copy": (
        ("ptx_wgmma", given(7, lambda s: 64)),
        "leaves its row of 64 bytes|a swizzle of 64 bytes begins",
    ),
    "an arrival of each warp": (
        ("ptx_init_barrier_thread_count", given(1, lambda n: 3), 2),
        "more than the 3 threads of barrier 2 arrive|race: a copy that thread 128 begins",
    ),
}


@pytest.mark.parametrize("name", MISSING)
def test_what_is_missing(name: str) -> None:
    change, message = MISSING[name]
    with pytest.raises(InterpError, match=message):
        results(changed(*change), inputs_of(FUNC), check_races=True)


# --- single instructions

BARRIER = Evaluate(Call("int32", "tvm_storage_sync", (tir.StringImm("shared"),)))


def of_warpgroup(body: Any, dtype: str, sums: str, n: int, shape: tuple[int, ...] = ()) -> tir.PrimFunc:
    """A kernel of 128 threads: a (64, k), b (n, k), out (64, n), s in shared memory, c and r in registers. body: from (thread, buffers by
    name) to statements."""
    k = W.PRODUCTS[dtype].k
    a, b = tir.decl_buffer(shape or (64, k), dtype, "a"), tir.decl_buffer((n, k), dtype, "b")
    out = tir.decl_buffer((64, n), sums, "out")
    thread = tir.Var("t", "int32")
    s = tir.decl_buffer((8192,), dtype, "s", scope="shared")
    c, r = tir.decl_buffer((n // 2,), sums, "c", scope="local"), tir.decl_buffer((k // 2,), dtype, "r", scope="local")
    inner: Any = tir.stmt_seq(*body(thread, {"a": a, "b": b, "out": out, "s": s, "c": c, "r": r}))
    for x in (s, c, r):
        inner = tir.Allocate(x.data, x.dtype, x.shape, tir.const(True, "bool"), inner)
    axis = tir.IterVar(None, thread, tir.IterVar.ThreadIndex, "threadIdx.x")
    return tir.PrimFunc([a, b, out], tir.AttrStmt(axis, "thread_extent", IntImm("int32", 128), inner))


def each(n: int, make: Any, name: str = "e") -> Stmt:
    v = tir.Var(name, "int32")
    return tir.For(v, 0, n, tir.ForKind.SERIAL, make(v))


def unswizzled(dtype: str, thread: Any, b: Any, n: int) -> Stmt:
    """Stores an operand (n, k) to shared memory, in core matrices of 8 rows of 16 bytes; each thread every 128th row."""
    k = W.PRODUCTS[dtype].k
    chunk, rows = 16 * k // 32, max(n, 128)

    def stored_row(r: Any) -> Stmt:
        row = r * 128 + thread
        place = lambda e: e // chunk * rows * chunk + row * chunk + e % chunk  # noqa: E731
        return each(k, lambda e: tir.BufferStore(b["s"], tir.BufferLoad(b["b"], (row % n, e)), (place(e),)))

    return each(rows // 128, stored_row)


def registers_of_a(dtype: str, thread: Any, b: Any) -> Stmt:
    """Loads a thread's part of the first operand."""
    k, per = W.PRODUCTS[dtype].k, max(W.PRODUCTS[dtype].k // 8, 1)
    lane, warp = thread % 32, thread // 32
    row = lambda e: warp * 16 + lane // 4 + e // per % 2 * 8  # noqa: E731
    column = lambda e: e // per // 2 * 4 * per + lane % 4 * per + e % per  # noqa: E731
    return each(k // 2, lambda e: tir.BufferStore(b["r"], tir.BufferLoad(b["a"], (row(e), column(e))), (e,)))


def stored(thread: Any, b: Any, n: int) -> Stmt:
    lane, warp = thread % 32, thread // 32
    row = lambda e: warp * 16 + lane // 4 + e % 4 // 2 * 8  # noqa: E731
    column = lambda e: e // 4 * 8 + lane % 4 * 2 + e % 2  # noqa: E731
    return each(n // 2, lambda e: tir.BufferStore(b["out"], tir.BufferLoad(b["c"], (e,)), (row(e), column(e))))


KINDS = {
    "float16": "fp16",
    "bfloat16": "bf16",
    "float32": "tf32",
    "int8": "int8",
    "uint8": "uint8",
    "float8_e5m2": "e5m2",
}


def by_registers(dtype: str, sums: str, n: int = 16, fenced: bool = True) -> tir.PrimFunc:
    """A product whose first operand is in registers, and whose second one threads store to shared memory."""
    k, total = W.PRODUCTS[dtype].k, {"float32": "fp32", "int32": "int32", "float16": "fp16"}[sums]

    def body(t: Any, b: Any) -> list[Stmt]:
        layout = (16 * max(n, 128), 128, 0, False)
        fences = [W.ptx_fence_proxy_async()] if fenced else []
        c, r = b["c"].data, b["r"].data
        return [
            registers_of_a(dtype, t, b),
            unswizzled(dtype, t, b, n),
            *[Evaluate(f) for f in fences],
            BARRIER,
            each(n // 2, lambda e: tir.BufferStore(b["c"], tir.const(0, sums), (e,))),
            Evaluate(W.ptx_wgmma_fence(sums, c, 0, n // 2)),
            Evaluate(W.ptx_wgmma_fence(dtype, r, 0, k // 2)),
            Evaluate(
                W.ptx_wgmma_rs(
                    f"m64n{n}k{k}", KINDS[dtype], KINDS[dtype], total, r, 0, b["s"].access_ptr("r"), layout, c, 0
                )
            ),
            Evaluate(W.ptx_wgmma_commit_group()),
            Evaluate(W.ptx_wgmma_wait_group(sums, 0, c, 0, n // 2)),
            stored(t, b, n),
        ]

    return of_warpgroup(body, dtype, sums, n)


TYPES = [
    ("float16", "float32"), ("float16", "float16"), ("bfloat16", "float32"), ("float32", "float32"), ("int8", "int32"), ("uint8", "int32"),
    ("float8_e5m2", "float32"),
]  # fmt: skip


@pytest.mark.parametrize(("dtype", "sums"), TYPES)
def test_the_first_operand_in_registers(dtype: str, sums: str) -> None:
    func = by_registers(dtype, sums)
    a, b, out = inputs_of(func)
    if dtype == "uint8":
        a, b = a % 8, b % 8
    wanted = (a.astype("float64") @ b.astype("float64").T).astype(out.dtype)
    np.testing.assert_array_equal(results(func, [a, b, out], True)[-1], wanted)


def test_stores_need_a_fence() -> None:
    func = by_registers("float16", "float32", fenced=False)
    with pytest.raises(InterpError, match=r"stored without a fence behind \(ptx_fence_proxy_async\)"):
        barriers = [Evaluate(tir.create_barriers(1))]
        body = func.body
        func = func.replace(body=body.replace(body=tir.stmt_seq(*barriers, body.body)))  # type: ignore[attr-defined]
        results(func, inputs_of(func), True)


BOXED = [(5, 16), (3, 5, 16), (2, 3, 5, 16), (2, 2, 3, 5, 16)]


def copy_of_a_box(shape: tuple[int, ...]) -> tuple[tir.PrimFunc, tuple[int, ...]]:
    """A kernel that copies the last box of a tensor, and the box."""
    rank, box = len(shape), (*[2] * (len(shape) - 1), 16)
    count = 16 * 2 ** (rank - 1)
    at = [n - 1 for n in shape[:-1]]

    def body(t: Any, b: Any) -> list[Stmt]:
        copy = W.ptx_tma_load(b["s"].access_ptr("w"), tensor, 0, *at, 0)
        first = [tir.ptx_init_barrier_thread_count(0, 1), W.ptx_fence_barrier_init()]
        begun = [tir.ptx_arrive_barrier_expect_tx(0, 2 * count), copy]
        # Chunk c of a row r of 32 bytes is at c ^ (r / 4 % 2).
        load = lambda e: tir.BufferLoad(b["s"], (e // 16 * 16 + ((e // 8 % 2) ^ (e // 64 % 2)) * 8 + e % 8,))  # noqa: E731
        out = each(count, lambda e: tir.BufferStore(b["out"], load(e), (e // 16, e % 16)))
        return [
            Evaluate(tir.create_barriers(1)),
            tir.IfThenElse(t == 0, tir.stmt_seq(*[Evaluate(x) for x in first])),
            BARRIER,
            tir.IfThenElse(t == 0, tir.stmt_seq(*[Evaluate(x) for x in begun])),
            Evaluate(W.ptx_wait_barrier_parity(0, 0)),
            tir.IfThenElse(t == 0, out),
        ]

    tensor = tir.Var("map", PointerType(PrimType(DataType("float16")), "tensor_map"))
    func = of_warpgroup(body, "float16", "float16", 16, shape)
    strides = [int(np.prod(shape[d + 1 :])) for d in range(rank - 1)]
    data = func.buffer_map[func.params[0]].data
    described = tir.LetStmt(tensor, W.tensor_map("float16", data, 32, shape, strides, box), func.body)
    return func.replace(body=described), box


@pytest.mark.parametrize("shape", BOXED)
def test_boxes(shape: tuple[int, ...]) -> None:
    """A box that reaches over the end of the tensor along each outer dimension has zeros there; rows of 16 elements in one swizzle."""
    func, box = copy_of_a_box(shape)
    a, b, out = inputs_of(func)
    wanted = np.zeros(box, a.dtype)
    wanted[tuple([0] * (len(shape) - 1))] = a[tuple([n - 1 for n in shape[:-1]])]
    found = results(func, [a, b, out], True)[-1]
    np.testing.assert_array_equal(found.reshape(-1)[: wanted.size], wanted.reshape(-1))
