"""Kernels whose sizes are known only at run time, at sizes that fill tiles and vectors and at those that do not."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tilewright as tvm
from tilewright import te, tir, topi
from tilewright.codegen import interp
from tilewright.node import post_order_visit
from tilewright.scheduling import KernelPlan, schedule_kernel

TARGET = tvm.target.Target("llvm")
N, S = tir.SizeVar("n", "int64"), tir.SizeVar("s", "int64")
SIZES = [(1, 1), (2, 3), (1, 8), (2, 13), (3, 16), (1, 40), (1, 100)]


def scheduled(inputs: list[tuple[Any, ...]], f: Callable[..., te.Tensor]) -> tir.PrimFunc:
    """The kernel of a compute over inputs of these shapes; its sizes come last."""
    with TARGET, KernelPlan(TARGET):
        args = [te.placeholder(shape, name=f"p{i}") for i, shape in enumerate(inputs)]
        func = te.create_prim_func([*args, f(*args), N, S], "int64")
        return schedule_kernel(func.with_attr({"global_symbol": "main", "tir.noalias": True}), TARGET)


def check(inputs: list[tuple[Any, ...]], f: Callable[..., te.Tensor], reference: Callable[..., Any]) -> tir.PrimFunc:
    """Runs the scheduled kernel, natively at all sizes and interpreted at one, against NumPy."""
    func = scheduled(inputs, f)
    native = tvm.build(func, target=TARGET)["main"]
    rng = np.random.default_rng(0)
    for n, s in SIZES:
        arrays = [
            rng.standard_normal([{N: n, S: s}.get(d, d) if not isinstance(d, int) else d for d in shape]).astype(
                "float32"
            )
            for shape in inputs
        ]
        want = reference(*arrays)
        out = tvm.nd.array(np.zeros_like(want))
        native(*[tvm.nd.array(a) for a in arrays], out, n, s)
        np.testing.assert_allclose(out.numpy(), want, rtol=1e-4, atol=1e-5)
        if (n, s) == (2, 13):
            plain = np.zeros_like(want)
            interp.run(func, [*arrays, plain, n, s])
            np.testing.assert_allclose(plain, want, rtol=1e-4, atol=1e-5)
    return func


def loops(func: tir.PrimFunc, kind: int) -> list[Any]:
    found: list[Any] = []
    post_order_visit(func.body, lambda e: found.append(e) if isinstance(e, tir.For) and e.kind == kind else None)
    return found


def softmax(x: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)  # type: ignore[no-any-return]


def packed(x: np.ndarray[Any, Any], w: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    return x @ w.transpose(1, 0, 2).reshape(w.shape[1], -1)  # type: ignore[no-any-return]


def test_packed_product_has_tiles_of_two_heights() -> None:
    func = check([(N, S, 24), (2, 24, 64)], topi.nn.dense_pack, packed)
    heights = {str(s.extent) for s in loops(func, tir.ForKind.UNROLLED)}
    # Sixteen registers hold no better tile of eight rows than of four.
    both = {4, 8} if TARGET.cpu.vector_registers > 16 else {4}
    assert {f"T.int64({n})" for n in both} <= heights and loops(func, tir.ForKind.VECTORIZED)
    assert isinstance(func.body.block.body, tir.IfThenElse)


def test_what_is_rounded_up_for_other_reasons_stays_so() -> None:
    x = te.placeholder((S, 3), name="x")
    rows = (S + 3) // 4 * 4
    wide = te.compute((rows, 3), lambda i, j: x[tir.min(i, S - 1), j], name="wide")
    k = te.reduce_axis((0, rows), name="k")
    total = te.compute((3,), lambda j: te.sum(wide[k, j], axis=[k]), name="total")
    func = te.create_prim_func([x, total, S], "int64").with_attr({"global_symbol": "main", "tir.noalias": True})
    native = tvm.build(schedule_kernel(func, TARGET), target=TARGET)["main"]
    for s in (1, 4, 5, 101):
        a = np.random.default_rng(s).standard_normal((s, 3)).astype("float32")
        out = tvm.nd.array(np.zeros(3, "float32"))
        native(tvm.nd.array(a), out, s)
        np.testing.assert_allclose(out.numpy(), a.sum(0) + (-s % 4) * a[-1], rtol=1e-4, atol=1e-4)


def test_epilogue_of_a_product_stays_in_its_tiles() -> None:
    func = check(
        [(N, S, 24), (2, 24, 64), (N, S, 128)],
        lambda x, w, r: topi.nn.relu(topi.add(topi.nn.dense_pack(x, w), r)),
        lambda x, w, r: np.maximum(packed(x, w) + r, 0),
    )
    shapes = []
    post_order_visit(func.body, lambda e: shapes.extend(e.alloc_buffers) if isinstance(e, tir.Block) else None)
    assert {b.scope() for b in shapes} == {"local"}


@pytest.mark.parametrize("transposed", [False, True])
def test_products_of_two_dynamic_matrices(transposed: bool) -> None:
    check(
        [(N, 2, S, 8), (N, 2, S, 8) if transposed else (N, 2, 8, S)],
        lambda a, b: topi.nn.batch_matmul(a, b, transpose_b=transposed),
        lambda a, b: a @ (b.swapaxes(2, 3) if transposed else b),
    )
    check(
        [(N, 2, S, S), (N, 2, S, 16)],
        lambda a, b: topi.nn.batch_matmul(a, b, transpose_b=False),
        lambda a, b: a @ b,
    )


def test_convolution_over_images_of_dynamic_size() -> None:
    def convolved(x: np.ndarray[Any, Any], w: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        padded = np.pad(x, [(0, 0), (0, 0), (1, 1), (1, 1), (0, 0)])
        height, width = (x.shape[2] + 1) // 2, (x.shape[3] + 1) // 2
        out = np.zeros((1, w.shape[0], height, width, w.shape[5]), "float32")
        for i in range(3):
            for j in range(3):
                part = padded[:, :, i : i + 2 * height - 1 : 2, j : j + 2 * width - 1 : 2]
                out += np.einsum("ncyxi,pcio->npyxo", part, w[:, :, i, j])
        return out

    func = check(
        [(1, 1, N, S, 16), (2, 1, 3, 3, 16, 16)],
        lambda x, w: topi.nn.conv2d_NCHWc(x, w, 2, 1, 1, "NCHW16c", "NCHW16c"),
        convolved,
    )
    assert len(loops(func, tir.ForKind.UNROLLED)) >= 6


def test_rows_of_dynamic_length() -> None:
    func = check([(N, 4, S, S)], topi.nn.softmax, softmax)
    assert len(loops(func, tir.ForKind.VECTORIZED)) >= 4 and len(loops(func, tir.ForKind.PARALLEL)) == 1
    check([(N, S, 32)], lambda x: topi.nn.softmax(x), softmax)


def test_element_wise_kernels_share_out_all_loops_of_dynamic_extent() -> None:
    func = check([(N, S, 768)], lambda x: topi.tanh(x), np.tanh)
    (shared,) = loops(func, tir.ForKind.PARALLEL)
    assert tvm.arith.Analyzer().can_prove_equal(shared.extent, N * S)


def test_what_reads_the_reduced_axis_again_is_a_loop() -> None:
    """Code of a softmax over 5000 rows of dynamic length is no longer than that over 300."""
    m = tir.SizeVar("m", "int64")
    lengths = []
    for rows in (300, 5000):
        x = te.placeholder((rows, m), "float32", "x")
        with tvm.target.Target("llvm") as target, KernelPlan(target):
            func = schedule_kernel(te.create_prim_func([x, topi.nn.softmax(x, axis=0)]), target)
        library = tvm.build(func, target="llvm")
        lengths.append(len(library.get_source("ll")))
        given = np.random.default_rng(0).standard_normal((rows, 37), dtype=np.float32)
        made = tvm.nd.array(np.zeros_like(given))
        library(tvm.nd.array(given), made)
        wanted = np.exp(given - given.max(0))
        np.testing.assert_allclose(made.numpy(), wanted / wanted.sum(0), rtol=2e-5)
    assert lengths[1] < 1.5 * lengths[0]
