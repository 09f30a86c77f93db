"""Schedules of whole computes: on processors they equal plain loops, on GPUs the interpreter runs their threads and looks for races."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tilewright as tvm
from tests.topi.values import results
from tilewright import te, tir, topi
from tilewright.codegen import interp

N = topi.nn
Case = tuple[Callable[..., Any], tuple[tuple[int, ...], ...]]
CASES: dict[str, Case] = {
    "relu of a convolution": (lambda x, w: N.relu(N.conv2d_nchw(x, w, 1, 1, 1)), ((1, 4, 6, 8), (8, 4, 3, 3))),
    "convolution in NHWC": (lambda x, w: N.conv2d_nhwc(x, w, 1, 1, 1), ((1, 5, 4, 4), (3, 3, 4, 16))),
    "product": (topi.matmul, ((70, 24), (24, 64))),
    "dense with bias": (lambda x, w, b: N.relu(N.bias_add(N.dense(x, w), b)), ((64, 32), (64, 32), (64,))),
    "products in batches": (N.batch_matmul, ((2, 40, 16), (2, 64, 16))),
    "softmax": (N.softmax, ((3, 64),)),
    "sums of rows": (lambda x: topi.sum(x, axis=1), ((4, 100),)),
    "sums of columns": (lambda x: topi.sum(x, axis=0), ((40, 20),)),
    "sum": (lambda x: topi.sqrt(topi.sum(topi.exp(x))), ((4, 96),)),
    "argmax": (lambda x: topi.argmax(x, axis=1), ((4, 100),)),
    "pooling": (lambda x: N.pool2d(x, (3, 3), (2, 2), (1, 1), (1, 1, 1, 1), "max"), ((1, 4, 8, 8),)),
    "depthwise convolution": (lambda x, w: N.depthwise_conv2d_nchw(x, w, 1, 1, 1), ((1, 4, 8, 8), (4, 1, 3, 3))),
    "layer_norm": (lambda x: N.layer_norm(x, None, None, -1), ((4, 64),)),
    "winograd": (lambda x, w: N.conv2d_winograd_nchw(x, w, 1, 1, 1), ((1, 2, 4, 4), (2, 2, 3, 3))),
    "transposed convolution": (lambda x, w: N.conv2d_transpose_nchw(x, w, 2, 1, "float32", 1), ((1, 2, 4, 4), (2, 3, 3, 3))),
    "two results": (lambda x: topi.split(x, 2, 1), ((4, 100),)),
    "two convolutions for one sum": (
        lambda x, w: topi.add(N.conv2d_nchw(x, w, 1, 1, 1), N.conv2d_nchw(x, w, 1, 1, 1)), ((1, 2, 4, 4), (2, 2, 3, 3)),
    ),
    "a stage that is read twice": (lambda x: topi.add(y := topi.exp(x), topi.nn.relu(y)), ((3, 20),)),
    "a convolution of several filters for each thread": (
        lambda x, w, b: N.relu(N.bias_add(N.conv2d_nchw(x, w, 1, 0, 1), b)),
        ((1, 2, 16, 32), (64, 2, 1, 1), (64,)),
    ),
    "a scalar": (lambda x: topi.add(x, 1.0), ((),)),
}  # fmt: skip


def tensors_of(name: str) -> tuple[list[te.Tensor], list[te.Tensor], list[np.ndarray[Any, Any]]]:
    form, shapes = CASES[name]
    tensors = [te.placeholder(s, name=f"x{k}") for k, s in enumerate(shapes)]
    made = form(*tensors)
    rng = np.random.default_rng(len(name))
    return (
        tensors,
        list(made) if isinstance(made, (list, tuple)) else [made],
        [rng.standard_normal(s).astype("float32") for s in shapes],
    )


def empty(made: list[te.Tensor]) -> list[np.ndarray[Any, Any]]:
    return [np.zeros([int(d) for d in t.shape], str(t.dtype)) for t in made]


@pytest.mark.parametrize("name", CASES)
def test_on_processors(name: str) -> None:
    tensors, made, arrays = tensors_of(name)
    built = tvm.build(topi.x86.schedule_reduce(made), [*tensors, *made], "llvm")
    outs = [tvm.nd.array(a) for a in empty(made)]
    built(*[tvm.nd.array(a) for a in arrays], *outs)
    for out, wanted in zip(outs, results(CASES[name][0], *arrays), strict=True):
        np.testing.assert_allclose(out.numpy(), wanted, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("name", CASES)
def test_on_gpus(name: str) -> None:
    tensors, made, arrays = tensors_of(name)
    target = tvm.target.Target("cuda", host="llvm")
    with target:
        mod = tvm.lower(topi.cuda.schedule_reduce(made), [*tensors, *made])
    for p in (
        tir.transform.BindTarget(target),
        tir.transform.ThreadSync("shared"),
        tir.transform.LowerThreadAllreduce(),
    ):
        mod = p(mod)
    outs = empty(made)
    interp.run(mod, [*arrays, *outs], entry="main", check_races=True)
    for out, wanted in zip(outs, results(CASES[name][0], *arrays), strict=True):
        np.testing.assert_allclose(out, wanted, rtol=1e-4, atol=1e-4)


def test_what_takes_a_product_has_its_loops() -> None:
    tensors, made, _ = tensors_of("dense with bias")
    with tvm.target.Target("cuda", host="llvm"):
        text = tvm.lower(topi.cuda.schedule_reduce(made), [*tensors, *made]).script()
    assert text.count('"blockIdx.x"') == 1 and '"shared"' in text


def test_threads_compute_several_filters() -> None:
    tensors, made, _ = tensors_of("a convolution of several filters for each thread")
    with tvm.target.Target("cuda", host="llvm"):
        text = tvm.lower(topi.cuda.schedule_reduce(made), [*tensors, *made]).script()
    assert text.count('"blockIdx.x"') == 1 and "T.unroll(8)" in text


def test_dynamic_extents() -> None:
    n = te.size_var("n")
    x = te.placeholder((n, 40), name="x")
    made = topi.sum(topi.exp(x), axis=1)
    built = tvm.build(topi.x86.schedule_reduce([made]), [x, made], "llvm")
    a, out = np.random.default_rng(0).random((7, 40), "float32"), tvm.nd.array(np.zeros(7, "float32"))
    built(tvm.nd.array(a), out)
    np.testing.assert_allclose(out.numpy(), np.exp(a).sum(1), rtol=1e-5)
