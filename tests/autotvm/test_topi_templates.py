"""The templates of topi: random configurations of random shapes compute what NumPy computes, with an element-wise stage after them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tilewright as tvm
from tilewright import autotvm, te, topi
from tilewright.autotvm.task.dispatcher import ApplyConfig
from tilewright.target import Target
from tilewright.topi import arm_cpu, x86

Draw = Callable[[np.random.Generator], tuple[list[tuple[int, ...]], list[Any]]]
"""Shapes of the inputs, and further arguments of a template."""


def drawn_dense(rng: np.random.Generator) -> tuple[list[tuple[int, ...]], list[Any]]:
    m, n, k = (int(v) for v in rng.integers(1, 25, 3))
    return [(m, k), (n, k)], [None, "float32"]


def drawn_gemm(rng: np.random.Generator) -> tuple[list[tuple[int, ...]], list[Any]]:
    ((m, k), (n, _)), rest = drawn_dense(rng)
    ta, tb = (bool(v) for v in rng.integers(0, 2, 2))
    return [(k, m) if ta else (m, k), (n, k) if tb else (k, n)], [*rest, ta, tb]


def drawn_batch(rng: np.random.Generator) -> tuple[list[tuple[int, ...]], list[Any]]:
    b, m, n, k = (int(v) for v in rng.integers(1, 13, 4))
    ta, tb = (bool(v) for v in rng.integers(0, 2, 2))
    left, right = (1, b) if rng.random() < 0.3 else (b, b)
    return [(left, k, m) if ta else (left, m, k), (right, n, k) if tb else (right, k, n)], [
        (b, m, n), "float32", ta, tb,
    ]  # fmt: skip


def drawn_conv(rng: np.random.Generator) -> tuple[list[tuple[int, ...]], list[Any]]:
    n, c, o = (int(v) for v in rng.integers(1, [3, 9, 17]))
    h, w = (int(v) for v in rng.integers(5, 10, 2))
    kh, kw = (int(v) for v in rng.integers(1, 4, 2))
    stride, dilation = (int(v) for v in rng.integers(1, 3, 2))
    padding = tuple([int(v) for v in rng.integers(0, 3, 4)])
    return [(n, c, h, w), (o, c, kh, kw)], [(stride, stride), padding, (dilation, dilation)]


def drawn_winograd(rng: np.random.Generator) -> tuple[list[tuple[int, ...]], list[Any]]:
    (data, (o, c, _, _)), (_, padding, _) = drawn_conv(rng)
    return [data, (o, c, 3, 3)], [(1, 1), padding, (1, 1)]


def drawn_depthwise(rng: np.random.Generator) -> tuple[list[tuple[int, ...]], list[Any]]:
    ((n, c, h, w), (_, _, kh, kw)), rest = drawn_conv(rng)
    return [(n, c, h, w), (c, 1, kh, kw)], rest


def layouts(draw: Draw) -> Draw:
    def with_layouts(rng: np.random.Generator) -> tuple[list[tuple[int, ...]], list[Any]]:
        shapes, rest = draw(rng)
        return shapes, [*rest, "NCHW", "NCHW", "float32"]

    return with_layouts


def plain(draw: Draw) -> Draw:
    def with_dtype(rng: np.random.Generator) -> tuple[list[tuple[int, ...]], list[Any]]:
        shapes, rest = draw(rng)
        return shapes, [*rest, "float32"]

    return with_dtype


def batch_reference(a: Any, b: Any, *rest: Any) -> Any:
    _, _, ta, tb = rest
    return np.matmul(a.transpose(0, 2, 1) if ta else a, b.transpose(0, 2, 1) if tb else b)


def conv_reference(data: Any, kernel: Any, strides: Any, padding: Any, dilation: Any, *_: Any) -> Any:
    top, left, bottom, right = padding
    padded = np.pad(data, ((0, 0), (0, 0), (top, bottom), (left, right)))
    kh, kw = kernel.shape[2:]
    reach = [(k - 1) * d + 1 for k, d in zip((kh, kw), dilation, strict=True)]
    windows = np.lib.stride_tricks.sliding_window_view(padded, reach, axis=(2, 3))
    windows = windows[:, :, :: strides[0], :: strides[1], :: dilation[0], :: dilation[1]]
    if kernel.shape[1] != data.shape[1]:
        return np.einsum("ncyxkl,ckl->ncyx", windows, kernel[:, 0], optimize=True)
    return np.einsum("ncyxkl,ockl->noyx", windows, kernel, optimize=True)


def dense_reference(a: Any, b: Any, *_: Any) -> Any:
    return a @ b.T


def gemm_reference(a: Any, b: Any, *rest: Any) -> Any:
    *_, ta, tb = rest
    return (a.T if ta else a) @ (b.T if tb else b)


TEMPLATES = {
    "dense_gemm.arm_cpu": (arm_cpu.dense_gemm, arm_cpu.schedule_dense_gemm, drawn_gemm, gemm_reference),
    "dense_nopack.x86": (x86.dense_nopack, x86.schedule_dense_nopack, drawn_dense, dense_reference),
    "dense_pack.x86": (x86.dense_pack, x86.schedule_dense_pack, drawn_dense, dense_reference),
    "batch_matmul.x86": (x86.batch_matmul, x86.schedule_batch_matmul, drawn_batch, batch_reference),
    "conv2d_NCHWc.x86": (x86.conv2d_NCHWc, x86.schedule_conv2d_NCHWc, layouts(drawn_conv), conv_reference),
    "depthwise_conv2d_NCHWc.x86": (
        x86.depthwise_conv2d_NCHWc, x86.schedule_depthwise_conv2d_NCHWc, layouts(drawn_depthwise), conv_reference,
    ),
    "conv2d_nchw_spatial_pack.arm_cpu": (
        arm_cpu.conv2d_nchw_spatial_pack, arm_cpu.schedule_conv2d_nchw_spatial_pack, plain(drawn_conv), conv_reference,
    ),
    "conv2d_nchw_winograd.arm_cpu": (
        arm_cpu.conv2d_nchw_winograd, arm_cpu.schedule_conv2d_nchw_winograd, plain(drawn_winograd), conv_reference,
    ),
    "depthwise_conv2d_nchw.arm_cpu": (
        arm_cpu.depthwise_conv2d_nchw, arm_cpu.schedule_depthwise_conv2d_nchw, plain(drawn_depthwise), conv_reference,
    ),
}  # fmt: skip


def checked(name: str, seed: int) -> None:
    """One configuration of one shape, drawn at random, of the template alone and with max(., 0) + 1 after it."""
    compute, schedule, draw, reference = TEMPLATES[name]
    rng = np.random.default_rng(seed)
    shapes, rest = draw(rng)
    inputs = [te.placeholder(s, name=f"p{i}") for i, s in enumerate(shapes)]
    target = Target("llvm")
    task = autotvm.task.create(name, [*inputs, *rest], target)
    config = task.config_space.get(task.config_space.get_rand_index())
    with target, ApplyConfig(config):
        made = compute(*inputs, *rest)
        if seed % 2:
            raised = topi.nn.relu(made)
            made = te.compute(raised.shape, lambda *i: raised(*i) + 1.0, name="raised", tag="elemwise")
        s = schedule([made])
    assert config.valid(), config.errors
    arrays = [rng.standard_normal(shape, dtype="float32") for shape in shapes]
    want = reference(*arrays, *rest)
    want = np.maximum(want, 0) + 1 if seed % 2 else want
    result = tvm.nd.array(np.full(want.shape, np.nan, "float32"))
    tvm.build(s, [*inputs, made], target)(*map(tvm.nd.array, arrays), result)
    close = 2e-3 if "winograd" in name else 1e-4
    np.testing.assert_allclose(result.numpy(), want, rtol=close, atol=close, err_msg=f"{shapes} {rest} {config}")


@pytest.mark.parametrize("name", TEMPLATES)
def test_random_configurations(name: str) -> None:
    # The unrolled transforms of Winograd take long to compile.
    for seed in [1] if "winograd" in name else range(3):
        checked(name, seed)


@pytest.mark.parametrize("depthwise", [False, True])
def test_without_a_record(depthwise: bool, caplog: pytest.LogCaptureFixture) -> None:
    """Called by themselves, templates have a fallback, of which the log tells."""
    data, kernel = te.placeholder((1, 6, 7, 9), name="x"), te.placeholder((6, 1 if depthwise else 6, 3, 3), name="w")
    compute, schedule = (
        (x86.depthwise_conv2d_nchw, x86.schedule_depthwise_conv2d_nchw)
        if depthwise
        else (x86.conv2d_nchw, x86.schedule_conv2d_nchw)
    )
    args = (1, 1), (1, 1, 1, 1), (1, 1)
    with Target("llvm"):
        made = compute(data, kernel, *args, "float32")
        s = schedule([made])
    rng = np.random.default_rng(0)
    x, w = (rng.standard_normal([int(d) for d in t.shape], dtype="float32") for t in (data, kernel))
    result = tvm.nd.empty((1, 6, 7, 9))
    tvm.build(s, [data, kernel, made], "llvm")(tvm.nd.array(x), tvm.nd.array(w), result)
    np.testing.assert_allclose(result.numpy(), conv_reference(x, w, *args), rtol=1e-4, atol=1e-4)
    assert "A fallback configuration is used" in caplog.text


@pytest.mark.slow
@pytest.mark.parametrize("name", TEMPLATES)
def test_many_random_configurations(name: str) -> None:
    for seed in range(3, 60):
        checked(name, seed)
