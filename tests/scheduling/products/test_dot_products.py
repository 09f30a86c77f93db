"""Products of bytes by dot-product instructions: each intrinsic does what its description says, and kernels stay exact."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tilewright as tvm
from tilewright import relay, te, tir, topi
from tilewright.codegen.interp import run
from tilewright.scheduling import KernelPlan, schedule_kernel
from tilewright.scheduling.instructions import INSTRUCTIONS, DotProduct, dot_product, dot_products
from tilewright.target import Target
from tilewright.target.cpu import host_cpu
from tilewright.tir.tensor_intrin import x86

TARGETS = {
    "vnni": "llvm -mcpu=cascadelake",
    "avx512": "llvm -mcpu=skylake-avx512",
    "avxvnni": "llvm -mcpu=alderlake",
    "avx2": "llvm -mcpu=haswell",
    "sse2": "llvm -mcpu=x86-64",
    "dotprod": "llvm -mtriple=aarch64-unknown-linux-gnu -mcpu=cortex-a76",
    "wasm": "llvm -mtriple=wasm32-unknown-unknown -mattr=+simd128",
    "i8mm": "llvm -mtriple=aarch64-unknown-linux-gnu -mcpu=neoverse-n2",
}
DATA = {kind: "int8" if kind == "dotprod" else "uint8" for kind in TARGETS}
BYTES = [d for d in INSTRUCTIONS if d.out == "int32"]


def runs_here(target: Target) -> bool:
    return target.cpu.arch == host_cpu().arch and target.cpu.features <= host_cpu().features


def random(shape: tuple[int, ...], dtype: str, seed: int = 0) -> np.ndarray:
    low, high = (0, 256) if dtype == "uint8" else (-128, 128)
    return np.random.default_rng(seed).integers(low, high, shape).astype(dtype)


def results(func: Any, target: Target, *args: np.ndarray) -> list[np.ndarray]:
    """What the interpreter and, where this machine has what the target has, the compiled kernel write to the last argument."""
    found = [args[-1].copy()]
    run(func, [*args[:-1], found[0]])
    if runs_here(target):
        out = tvm.nd.array(args[-1])
        tvm.build(func, target=target)(*[tvm.nd.array(a) for a in args[:-1]], out)
        found.append(out.numpy())
    return found


def packed(weight: np.ndarray, nr: int, group: int) -> np.ndarray:
    """(K, N) as (N // nr, K // group, nr, group)."""
    k, n = weight.shape
    return np.ascontiguousarray(weight.reshape(k // group, group, n // nr, nr).transpose(2, 0, 3, 1))


@pytest.mark.parametrize("instruction", BYTES, ids=[d.intrin for d in BYTES])
def test_intrinsic(instruction: DotProduct) -> None:
    lanes, dtype = instruction.lanes, instruction.data
    m, n, k = 2, 32, 12
    a, b = te.placeholder((m, k), dtype), te.placeholder((n // 32, k // 4, 32, 4), "int8")
    outer, inner = te.reduce_axis((0, k // 4), name="ko"), te.reduce_axis((0, 4), name="ki")

    def element(i: Any, j: Any) -> Any:
        left, right = a[i, outer * 4 + inner], b[j // 32, outer, j % 32, inner]
        return te.sum(left.astype("int32") * right.astype("int32"), axis=[outer, inner])

    sch = tir.Schedule(te.create_prim_func([a, b, te.compute((m, n), element, name="C")]))
    block = sch.get_block("C")
    i, j, ko, ki = sch.get_loops(block)
    jo, ji = sch.split(j, [None, lanes])
    sch.reorder(i, jo, ko, ji, ki)
    sch.decompose_reduction(block, ko)
    sch.tensorize(ji, instruction.intrin)
    data, weight = random((m, k), dtype), random((k, n), "int8", 1)
    # The sums of pairs that would saturate 16 bits.
    data[0], weight[:, 0], weight[:, 1] = np.iinfo(dtype).max, 127, -128
    target = Target(next(t for t in TARGETS.values() if instruction.available(Target(t).cpu)))
    for found in results(sch.mod["main"], target, data, packed(weight, 32, 4), np.zeros((m, n), "int32")):
        np.testing.assert_array_equal(found, data.astype(int) @ weight.astype(int))


@pytest.mark.parametrize("kind", TARGETS)
@pytest.mark.parametrize(
    "m, n, k, nr", [(5, 32, 12, 16), (1, 64, 8, 64), (13, 48, 36, 16), (2, 24, 20, 8), (3, 12, 4, 4)]
)
def test_dense(kind: str, m: int, n: int, k: int, nr: int) -> None:
    target = Target(TARGETS[kind])
    with target, KernelPlan(target):
        data, weight = te.placeholder((m, k), DATA[kind]), te.placeholder((n // nr, k // 4, nr, 4), "int8")
        func = schedule_kernel(
            te.create_prim_func([data, weight, topi.nn.dense_pack(data, weight, None, "int32")]), target
        )
    found = dot_product(target, DATA[kind], "int8", "int32", nr)
    assert (found is None) == (kind == "sse2")
    assert any(arch in func.script() for arch in ("llvm.x86.", "llvm.aarch64.", "llvm.wasm.")) == (found is not None)
    a, w = random((m, k), DATA[kind]), random((k, n), "int8", 1)
    for out in results(func, target, a, packed(w, nr, 4), np.zeros((m, n), "int32")):
        np.testing.assert_array_equal(out, a.astype(int) @ w.astype(int))


@pytest.mark.parametrize("kind", ["vnni", "avx2", "dotprod", "wasm", "i8mm"])
@pytest.mark.parametrize(
    "size, channels, block, filters, out_block, kernel, stride, pad",
    [(7, 32, 16, 32, 16, 1, 1, 0), (6, 16, 16, 48, 16, 3, 2, 1), (5, 4, 4, 16, 16, 3, 1, 1), (5, 8, 8, 8, 8, 3, 1, 0)],
)
def test_conv2d(
    kind: str, size: int, channels: int, block: int, filters: int, out_block: int, kernel: int, stride: int, pad: int
) -> None:
    target = Target(TARGETS[kind])
    blocked = (1, channels // block, size, size + 1, block)
    weights = (filters // out_block, channels // block, kernel, kernel, block // 4, out_block, 4)
    with target, KernelPlan(target):
        data, weight = te.placeholder(blocked, DATA[kind]), te.placeholder(weights, "int8")
        out = topi.nn.conv2d_NCHWc(data, weight, stride, pad, 1, out_dtype="int32")
        func = schedule_kernel(te.create_prim_func([data, weight, out]), target)
    assert any(arch in func.script() for arch in ("llvm.x86.", "llvm.aarch64.", "llvm.wasm."))
    a, w = random(blocked, DATA[kind]), random(weights, "int8", 1)
    plain = a.transpose(0, 1, 4, 2, 3).reshape(1, channels, size, size + 1).astype("int32")
    by_channel = w.transpose(0, 5, 1, 4, 6, 2, 3).reshape(filters, channels, kernel, kernel).astype("int32")
    wanted = topi.testing.conv2d_nchw_python(plain, by_channel, stride, pad)
    shape = tuple(int(d) for d in out.shape)
    for found in results(func, target, a, w, np.zeros(shape, "int32")):
        np.testing.assert_array_equal(found.transpose(0, 1, 4, 2, 3).reshape(wanted.shape), wanted)


def test_instructions_of_targets() -> None:
    """The best first; none for other types, nor without a target."""
    names = [d.intrin for d in dot_products(Target(TARGETS["vnni"]), "uint8", "int8", "int32")]
    assert names[:3] == [x86.VNNI_DOT_16x4_INTRIN, x86.VNNI_DOT_8x4_INTRIN, x86.VNNI_DOT_4x4_INTRIN]
    assert dot_products(Target(TARGETS["vnni"]), "int8", "int8", "int32") == []
    assert dot_products(None, "uint8", "int8", "int32") == []
    assert dot_product(Target(TARGETS["vnni"]), "uint8", "int8", "int32", 24).lanes == 8  # type: ignore[union-attr]
    assert dot_product(Target(TARGETS["vnni"]), "uint8", "int8", "int32", 6) is None


def test_sums_stay_in_registers_on_one_core() -> None:
    """Loops that are not parallel hold the sums of one tile, although a vector of them is loaded and stored at once."""
    target = Target("llvm -mcpu=cascadelake -num-cores=1")
    with target, KernelPlan(target):
        data, weight = te.placeholder((64, 64), "uint8"), te.placeholder((2, 16, 32, 4), "int8")
        out = topi.nn.dense_pack(data, weight, None, "int32")
        func = schedule_kernel(te.create_prim_func([data, weight, out]), target)
    (flat,) = tvm.lower(func).functions.values()
    held: list[int] = []

    def look(s: Any) -> None:
        if isinstance(s, tir.Allocate):
            held.append(int(np.prod([int(e) for e in s.extents])))

    tir.stmt_functor.post_order_visit(flat.body, look)
    assert held and max(held) <= 32 * 16


def test_sums_over_a_number_for_all_are_no_products_of_groups() -> None:
    n, k = relay.var("n", shape=(), dtype="int32"), relay.var("k", shape=(2, 3), dtype="int32")
    total = relay.sum(relay.maximum(n, k), axis=1)
    mod = relay.transform.InferType()(relay.IRModule.from_expr(relay.Function([n, k], total)))
    got = relay.create_executor("graph", mod).evaluate()(np.int32(3), np.arange(6, dtype="int32").reshape(2, 3))
    np.testing.assert_array_equal(got.numpy(), [9, 12])
