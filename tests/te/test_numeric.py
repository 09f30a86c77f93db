"""Functions made from computes give NumPy's answers in the interpreter."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tilewright import te, tir
from tilewright.codegen import interp

RNG = np.random.default_rng(0)


def run(args: list[Any], *values: Any, index_dtype: str | None = None) -> None:
    interp.run(te.create_prim_func(args, index_dtype_override=index_dtype), list(values))


def random(*shape: int) -> np.ndarray[Any, Any]:
    return RNG.standard_normal(shape).astype("float32")


@pytest.mark.parametrize("index_dtype", [None, "int64"])
def test_padded_convolution_with_epilogue(index_dtype: str | None) -> None:
    a, w = te.placeholder((1, 3, 6, 6), name="A"), te.placeholder((4, 3, 3, 3), name="W")
    pad = te.compute(
        (1, 3, 8, 8),
        lambda n, c, h, x: te.if_then_else(te.all(h >= 1, h < 7, x >= 1, x < 7), a[n, c, h - 1, x - 1], 0.0),
        name="pad",
    )
    rc, ry, rx = te.reduce_axis((0, 3), "rc"), te.reduce_axis((0, 3), "ry"), te.reduce_axis((0, 3), "rx")
    conv = te.compute(
        (1, 4, 6, 6),
        lambda n, o, h, x: te.sum(pad[n, rc, h + ry, x + rx] * w[o, rc, ry, rx], axis=[rc, ry, rx]),
        name="conv",
    )
    relu = te.compute(conv.shape, lambda *i: te.max(conv(*i), 0.0), name="relu")
    av, wv, out = random(1, 3, 6, 6), random(4, 3, 3, 3), np.empty((1, 4, 6, 6), "float32")
    run([a, w, relu], av, wv, out, index_dtype=index_dtype)
    padded = np.pad(av, ((0, 0), (0, 0), (1, 1), (1, 1)))
    windows = np.lib.stride_tricks.sliding_window_view(padded, (3, 3), axis=(2, 3))
    np.testing.assert_allclose(out, np.maximum(np.einsum("nchwyx,ocyx->nohw", windows, wv), 0), rtol=1e-4, atol=1e-5)


def test_argmax() -> None:
    x = te.placeholder((5, 7), name="X")
    k = te.reduce_axis((0, 7), "k")
    argmax = te.comm_reducer(
        lambda a, b: (tir.Select(a[1] >= b[1], a[0], b[0]), tir.Select(a[1] >= b[1], a[1], b[1])),
        lambda d0, d1: (tir.const(-1, d0), te.min_value(d1)),
    )
    index, value = te.compute((5,), lambda i: argmax((k, x[i, k]), axis=k), name="argmax")
    xv, iv, vv = random(5, 7), np.empty(5, "int32"), np.empty(5, "float32")
    run([x, index, value], xv, iv, vv)
    np.testing.assert_array_equal(iv, xv.argmax(1))
    np.testing.assert_array_equal(vv, xv.max(1))


def test_reduction_with_condition_start_and_offset_axis() -> None:
    x = te.placeholder((10,), name="X")
    k = te.reduce_axis((2, 9), "k")
    s = te.compute((1,), lambda i: te.sum(x[k], axis=k, where=k < 7, init=100.0), name="S")
    xv, sv = random(10), np.empty(1, "float32")
    run([x, s], xv, sv)
    np.testing.assert_allclose(sv[0], 100.0 + xv[2:7].sum(), rtol=1e-5)


def test_symbolic_gather_and_scalar_parameter() -> None:
    n, scale = te.var("n"), te.var("scale", "float32")
    table, index = te.placeholder((8, 3), name="T"), te.placeholder((n,), name="I", dtype="int32")
    out = te.compute((n, 3), lambda i, j: table[index[i], j] * scale, name="out")
    tv, iv, ov = random(8, 3), np.asarray([7, 0, 3, 3], "int32"), np.empty((4, 3), "float32")
    run([out, index, scale, table], ov, iv, 2.0, tv)
    np.testing.assert_allclose(ov, tv[iv] * 2.0)


def test_scalars_several_outputs_and_extern() -> None:
    def scan(ins: list[tir.Buffer], outs: list[tir.Buffer]) -> tir.Stmt:
        ib = tir.ir_builder.create()
        x, y = ib.buffer_ptr(ins[0]), ib.buffer_ptr(outs[0])
        y[0] = x[0]
        with ib.for_range(1, 6) as i:
            y[i] = y[i - 1] + x[i]
        return ib.get()

    a = te.placeholder((6,), name="A")
    low, high = te.compute((6,), lambda i: (a[i] - 1.0, a[i] + 1.0), name="bounds")
    sums = te.extern((6,), [high], scan, name="sums")
    last = te.compute((), lambda: sums[5] * 2.0, name="last")
    av, lv, ov = random(6), np.empty(6, "float32"), np.empty((), "float32")
    run([a, low, last], av, lv, ov)
    np.testing.assert_allclose(lv, av - 1)
    np.testing.assert_allclose(ov, (av + 1).sum() * 2, rtol=1e-5)
