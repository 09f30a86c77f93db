"""Computes that tests of tuners search schedules of: registered workloads, by name and extents."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from tilewright import te, topi
from tilewright.auto_scheduler import ComputeDAG, register_workload

Tensors = list[te.Tensor]
Compute = TypeVar("Compute", bound=Callable[..., Tensors])


def _registered(compute: Compute) -> Compute:
    register_workload(compute)
    return compute


def _product(n: int, m: int, k: int, name: str = "C") -> Tensors:
    a, b = te.placeholder((n, k), name="A"), te.placeholder((k, m), name="B")
    along = te.reduce_axis((0, k), name="k")
    return [a, b, te.compute((n, m), lambda i, j: te.sum(a[i, along] * b[along, j], axis=along), name=name)]


@_registered
def matmul_auto_scheduler_test(N: int, M: int, K: int) -> Tensors:
    """A product of matrices, whose second operand may be stored as a schedule wants it."""
    a, b = te.placeholder((N, K), name="A"), te.placeholder((K, M), name="B")
    k = te.reduce_axis((0, K), name="k")
    c = te.compute(
        (N, M),
        lambda i, j: te.sum(a[i, k] * b[k, j], axis=[k]),
        name="C",
        attrs={"layout_free_placeholders": [b]},
    )
    return [a, b, c]


@_registered
def double_matmul_auto_scheduler_test(N: int) -> Tensors:
    """A product of a product."""
    a, b, d = _product(N, N, N, "D")
    c = te.placeholder((N, N), name="C")
    k = te.reduce_axis((0, N), name="k")
    return [a, b, c, te.compute((N, N), lambda i, j: te.sum(d[i, k] * c[k, j], axis=k), name="E")]


@_registered
def parallel_matmul_auto_scheduler_test(N: int) -> Tensors:
    """Two products with one operand in common."""
    a, b, d = _product(N, N, N, "D")
    c = te.placeholder((N, N), name="C")
    k = te.reduce_axis((0, N), name="k")
    return [a, b, c, d, te.compute((N, N), lambda i, j: te.sum(a[i, k] * c[k, j], axis=k), name="E")]


def matmul_auto_scheduler_test_rename_0(N: int, M: int, K: int) -> Tensors:
    """A product of matrices, registered under another name than its function has."""
    return _product(N, M, K)


register_workload("matmul_auto_scheduler_test_rename_1", matmul_auto_scheduler_test_rename_0)


@_registered
def conv2d_nchw_bn_relu_auto_scheduler_test(
    N: int, H: int, W: int, CI: int, CO: int, kernel_size: int, strides: int, padding: int, dilation: int = 1
) -> Tensors:
    """A convolution of images, with bias, batch normalisation and ReLU."""
    data, kernel = (
        te.placeholder((N, CI, H, W), name="Data"),
        te.placeholder((CO, CI, kernel_size, kernel_size), name="Kernel"),
    )
    bias, scale, offset = (te.placeholder((CO, 1, 1), name=name) for name in ("Bias", "Bn_scale", "Bn_offset"))
    made = topi.nn.conv2d_nchw(data, kernel, strides, padding, dilation)
    shape = made.shape
    biased = te.compute(shape, lambda n, c, y, x: made[n, c, y, x] + bias[c, 0, 0], name="Bias_add")
    scaled = te.compute(shape, lambda n, c, y, x: biased[n, c, y, x] * scale[c, 0, 0], name="Bn_mul")
    shifted = te.compute(shape, lambda n, c, y, x: scaled[n, c, y, x] + offset[c, 0, 0], name="Bn_add")
    return [data, kernel, bias, offset, scale, topi.nn.relu(shifted)]


@_registered
def max_pool2d_auto_scheduler_test(N: int, H: int, W: int, CI: int, padding: int) -> Tensors:
    """The maximum of windows of two by two."""
    data = te.placeholder((N, CI, H, W), name="Data")
    return [data, topi.nn.pool2d(data, (2, 2), (1, 1), (1, 1), (padding,) * 4, "max")]


@_registered
def min_nm_auto_scheduler_test(N: int, M: int) -> Tensors:
    """The minimum of each row."""
    a = te.placeholder((N, M), name="A")
    return [a, topi.min(a, axis=-1)]


@_registered
def softmax_nm_auto_scheduler_test(N: int, M: int) -> Tensors:
    """Softmax of rows."""
    a = te.placeholder((N, M), name="A")
    return [a, topi.nn.softmax(a, axis=1)]


@_registered
def softmax_abcd_auto_scheduler_test(a: int, b: int, c: int, d: int) -> Tensors:
    """Softmax along the last of four axes."""
    data = te.placeholder((a, b, c, d), name="A")
    return [data, topi.nn.softmax(data, axis=-1)]


@_registered
def invalid_compute_definition() -> Tensors:
    """A compute with two axes of one name, which state files cannot tell apart."""
    a = te.placeholder((10, 10), name="A")
    r1, r2 = te.reduce_axis((0, 2), name="r1"), te.reduce_axis((0, 2), name="r1")
    return [a, te.compute((10,), lambda i: te.sum(a[i, r1.var + r2.var], axis=[r1, r2]), name="B")]


@_registered
def zero_rank_reduce_auto_scheduler_test(N: int) -> Tensors:
    """A sum to one element without axes."""
    a = te.placeholder((N,), name="A")
    k = te.reduce_axis((0, N), name="k")
    return [a, te.compute((), lambda: te.sum(a[k], axis=k), name="B")]


@_registered
def zero_rank_compute_auto_scheduler_test(N: int) -> Tensors:
    """An element without axes, computed from a sum."""
    a, total = zero_rank_reduce_auto_scheduler_test(N)
    return [a, te.compute((), lambda: total() + 1.0, name="C")]


@_registered
def conv2d_winograd_nhwc_auto_scheduler_test(
    N: int, H: int, W: int, CI: int, CO: int, kernel_size: int = 3, stride: int = 1, padding: int = 0, dilation: int = 1
) -> Tensors:
    """A convolution of images with channels last, by Winograd's form."""
    data = te.placeholder((N, H, W, CI), name="inputs")
    weight = te.placeholder((kernel_size, kernel_size, CI, CO), name="weight")
    return [data, weight, topi.nn.conv2d_winograd_nhwc(data, weight, stride, padding, dilation, "float32")]


def get_tiled_matmul() -> tuple[ComputeDAG, Any]:
    """A product of 512 squared, and a state of it in tiles of four levels along each axis."""
    a, b, c = matmul_auto_scheduler_test(512, 512, 512)
    dag = ComputeDAG([a, b, c])
    state = dag.get_init_state()
    rows = state.split(c, state[c].iters[0], [4, 8, 8])
    columns = state.split(c, state[c].iters[4], [8, 4, 4])
    depths = state.split(c, state[c].iters[8], [8])
    state.reorder(
        c,
        [rows[0], columns[0], rows[1], columns[1], depths[0], rows[2], columns[2], depths[1], rows[3], columns[3]],
    )
    return dag, state


__all__ = [name for name in dir() if "auto_scheduler_test" in name] + ["get_tiled_matmul", "invalid_compute_definition"]
