"""Computations that are scheduled, and a check that a schedule computes the same as none."""

from __future__ import annotations

from typing import Any

import numpy as np

import tilewright as tvm
from tilewright import auto_scheduler, te
from tilewright.codegen import interp


@auto_scheduler.register_workload("tests.matmul_add")
def matmul_add(n: int, l: int, m: int) -> list[te.Tensor]:
    a, b = te.placeholder((n, l), name="A"), te.placeholder((l, m), name="B")
    c = te.placeholder((n, m), name="C")
    k = te.reduce_axis((0, l), name="k")
    matmul = te.compute((n, m), lambda i, j: te.sum(a[i, k] * b[k, j], axis=k), name="matmul")
    return [a, b, c, te.compute((n, m), lambda i, j: matmul[i, j] + c[i, j], name="out")]


@auto_scheduler.register_workload("tests.matmul")
def matmul(n: int, l: int, m: int) -> list[te.Tensor]:
    a, b = te.placeholder((n, l), name="A"), te.placeholder((l, m), name="B")
    k = te.reduce_axis((0, l), name="k")
    return [a, b, te.compute((n, m), lambda i, j: te.sum(a[i, k] * b[k, j], axis=k), name="C")]


@auto_scheduler.register_workload("tests.conv_relu")
def conv_relu(size: int, channels: int) -> list[te.Tensor]:
    """A convolution of padded data, a bias and a rectifier."""
    data = te.placeholder((channels, size, size), name="data")
    kernel = te.placeholder((channels, channels, 3, 3), name="kernel")
    bias = te.placeholder((channels, 1, 1), name="bias")

    def padded(c: Any, y: Any, x: Any) -> Any:
        inside = te.all(y >= 1, y <= size, x >= 1, x <= size)
        return te.if_then_else(inside, data[c, y - 1, x - 1], 0.0)

    pad = te.compute((channels, size + 2, size + 2), padded, name="pad")
    rc, ry, rx = te.reduce_axis((0, channels), "rc"), te.reduce_axis((0, 3), "ry"), te.reduce_axis((0, 3), "rx")
    conv = te.compute(
        (channels, size, size),
        lambda f, y, x: te.sum(pad[rc, y + ry, x + rx] * kernel[f, rc, ry, rx], axis=[rc, ry, rx]),
        name="conv",
    )
    biased = te.compute(conv.shape, lambda f, y, x: conv[f, y, x] + bias[f, 0, 0], name="biased")
    return [data, kernel, bias, te.compute(conv.shape, lambda f, y, x: te.max(biased[f, y, x], 0.0), name="relu")]


@auto_scheduler.register_workload("tests.row_sum")
def row_sum(n: int, m: int) -> list[te.Tensor]:
    a, k = te.placeholder((n, m), name="A"), te.reduce_axis((0, m), name="k")
    return [a, te.compute((n,), lambda i: te.sum(a[i, k], axis=k), name="B")]


@auto_scheduler.register_workload("tests.softmax")
def softmax(n: int, m: int) -> list[te.Tensor]:
    a = te.placeholder((n, m), name="A")
    k, r = te.reduce_axis((0, m), name="k"), te.reduce_axis((0, m), name="r")
    most = te.compute((n,), lambda i: te.max(a[i, k], axis=k), name="most")
    e = te.compute((n, m), lambda i, j: te.exp(a[i, j] - most[i]), name="e")
    total = te.compute((n,), lambda i: te.sum(e[i, r], axis=r), name="total")
    return [a, te.compute((n, m), lambda i, j: e[i, j] / total[i], name="normal")]


def dag_of(func: Any, *args: int) -> auto_scheduler.ComputeDAG:
    return auto_scheduler.ComputeDAG(func(*args))


def same_results(dag: auto_scheduler.ComputeDAG, state: Any) -> None:
    """Runs the schedule of a state in the interpreter, and compares its outputs with those of the plain program."""
    random = np.random.default_rng(3)
    arrays = [random.standard_normal([int(d) for d in t.shape]).astype(t.dtype) for t in dag.tensors]
    schedule, args = dag.apply_steps_from_state(state)
    found, wanted = [a.copy() for a in arrays], [a.copy() for a in arrays]
    interp.run(tvm.lower(schedule, args), found, check_races=True)
    interp.run(te.create_prim_func(dag.tensors), wanted)
    for a, b in zip(found, wanted, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-4)
